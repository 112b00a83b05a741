#include "driver/commands.h"

#include "driver/recipe.h"
#include "lib/base/replace.h"
#include "lib/base/option.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/checkpoint_tensor.h"
#include "lib/checkpoint/hf_files.h"
#include "lib/checkpoint/hf_tokens.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char HELP[] =
    "trivium checkpoint inspect DIR\n"
    "trivium checkpoint export DIR --to hf|llmc FILE [--precision fp32|bf16] [--tokenizer FOLDER]\n"
    "trivium checkpoint import --from hf|llmc FILE --to DIR [--heads N]\n\n"
    "  inspect   what a checkpoint holds, and whether its files are what was written. DIR: a "
    "step's folder, or what --save named\n"
    "  export    its weights for another project: hf, a GPT-2 or Llama of Hugging Face (FILE.safetensors "
    "in F32, of an fp64 run in F64,\n"
    "            and config.json; a large model in several files with an index); llmc, "
    "a model file of llm.c (fp32, or bf16).\n"
    "            hf: FILE may be a folder; --tokenizer copies a tokenizer's files there, and config.json has its ids "
    "of special tokens\n"
    "  import    the other way round: a checkpoint of weights alone, for train --init DIR. hf: "
    "FILE may be a folder or an index; heads are config.json's, a GPT-2's else hidden / 64\n";

/* ---- options and plain words ---- */

enum { MAX_WORDS = 16 };
struct words { char *option[MAX_WORDS], *plain[MAX_WORDS]; int n_options, n_plain; };

/* Separate options from plain words. Every option of this command has a value, "--to hf" or "--to=hf". */
static enum status sort_words(int argc, char **argv, struct words *w) {
    *w = (struct words){.n_plain = 0};
    if (argc > MAX_WORDS) return FAIL(E_USAGE, "%d words are too many; see checkpoint --help", argc);
    for (int i = 0; i < argc; i++) {
        bool option = !strncmp(argv[i], "--", 2);
        if (!option) w->plain[w->n_plain++] = argv[i];
        else w->option[w->n_options++] = argv[i];
        if (option && !strchr(argv[i], '=') && i + 1 < argc) w->option[w->n_options++] = argv[++i];
    }
    return OK;
}

static enum status must_be_given(const struct options *o, const char *command, const char *name) {
    return options_source(o, name) != FROM_DEFAULT
               ? OK
               : FAIL(E_USAGE, "checkpoint %s does not say --%s; see checkpoint --help", command, name);
}

/* ---- the commands ---- */

/* Find the format `name` of the model `arch`, or of the model whose files have this type. If arch is "" and no type
 * matches, take the first model that has the format. */
static enum status format_of(const char *name, const char *arch, const char *type, const struct model_format **out) {
    char all[256] = "";
    *out = NULL;
    for (int i = 0; i < train_recipe.n_models; i++)
        for (const struct model_format *f = train_recipe.models[i]->formats; f && f->name; f++) {
            bool own = !strcmp(train_recipe.models[i]->name, arch) || (f->model_type && !strcmp(f->model_type, type));
            bool other = arch[0] && !own;
            if (!strcmp(f->name, name) && !other && (own || !*out)) *out = f;
            if (!other && !strstr(all, f->name))
                snprintf(strchr(all, 0), sizeof all - strlen(all), "%s%s", *all ? ", " : "", f->name);
        }
    if (!*all) return FAIL(E_CONFIG, "there is no format %.32s of %s, nor any other of that model's", name, arch);
    return *out ? OK : FAIL(E_CONFIG, "there is no format %.32s%s%s; use one of: %s", name, arch[0] ? " of " : "", arch,
                            all);
}

struct export_request { char to[OPTION_TEXT_MAX], tokenizer[OPTION_TEXT_MAX]; int precision; };
static const struct option EXPORT[] = {
    {"to", OPTION_TEXT, "", 0, 0, NULL, "", "format of the file", "export", offsetof(struct export_request, to)},
    {"precision", OPTION_CHOICE, NULL, 0, 0, "fp32|bf16", "", "of the weights", "export",
     offsetof(struct export_request, precision)},
    {"tokenizer", OPTION_TEXT, "", 0, 0, NULL, "", "hf: folder of a tokenizer, whose files go along", "export",
     offsetof(struct export_request, tokenizer)},
};

/* The path to write. If `said` is a folder, the path is model.safetensors in it, and an absent folder is made. */
static enum status target_of(const struct model_format *f, const char *said, char path[OPTION_TEXT_MAX]) {
    struct stat s;
    bool slash = said[0] && said[strlen(said) - 1] == '/';
    bool folder = slash || (stat(said, &s) == 0 && S_ISDIR(s.st_mode));
    int n = snprintf(path, OPTION_TEXT_MAX, "%s%s%s", said, folder && !slash ? "/" : "",
                     folder ? "model.safetensors" : "");
    if (n >= OPTION_TEXT_MAX)
        return FAIL(E_CONFIG, "a path of %d bytes is too long; the limit is %d", n, OPTION_TEXT_MAX - 1);
    if (!folder) return OK;
    if (!f->model_type) return FAIL(E_CONFIG, "%s is a folder, and %s files have any name; name one", said, f->name);
    if (mkdir(said, 0777) == 0) return durable_name(said);
    return errno == EEXIST ? OK : FAIL(E_IO, "cannot make %s: %s", said, strerror(errno));
}

/* Write the model's file; for Hugging Face also the ids of special tokens, and the tokenizer's files. */
static enum status export_to(const struct model_format *f, const struct checkpoint_reader *r, enum dtype dtype,
                             const char *tokenizer, const char *path) {
    struct hf_tokens tokens = {NULL, NULL, NULL, ""};
    struct checkpoint_model m = checkpoint_model_of(r);
    if (!f->model_type && tokenizer[0])
        return FAIL(E_USAGE, "tokenizer=%s, and %s files have none next to them: leave it out", tokenizer, f->name);
    enum status status = f->model_type ? hf_tokens_init(&tokens, &m, tokenizer, checkpoint_folder(r)) : OK;
    if (status == OK) status = f->export(r, dtype, path);
    if (status == OK && f->model_type) status = hf_tokens_write(&tokens, path);
    hf_tokens_fini(&tokens);
    return status == OK ? durable_name(path) : status;
}

static enum status run_export(const void *request, const struct options *o, const struct words *w) {
    const struct export_request *q = request;
    const struct model_format *format;
    struct checkpoint_reader *r;
    TRY(must_be_given(o, "export", "to"));
    TRY(format_of(q->to, "", "", &format));
    if (w->n_plain != 2)
        return FAIL(E_USAGE, "checkpoint export takes a folder and a file, and %d words are there", w->n_plain);
    TRY(checkpoint_open(w->plain[0], &r));
    enum dtype dtype = options_source(o, "precision") == FROM_DEFAULT ? N_DTYPES : q->precision ? BF16 : FP32;
    struct checkpoint_model m = checkpoint_model_of(r);
    enum status status = format_of(q->to, m.arch[0] ? m.arch : "gpt", "", &format);
    char path[OPTION_TEXT_MAX];
    if (status == OK) status = target_of(format, w->plain[1], path);
    if (status == OK) status = export_to(format, r, dtype, q->tokenizer, path);
    if (status == OK) printf("exported: %s to %s\n", checkpoint_folder(r), path);
    checkpoint_close(&r);
    return status;
}

/* The format that reads the files at `path`, by model_type in their config.json. */
static enum status format_for(const char *name, const char *path, const struct model_format **out) {
    char type[HF_MODEL_TYPE_MAX], known[256] = "";
    TRY(format_of(name, "", "", out));
    if (!(*out)->model_type) return OK;
    TRY(hf_model_type(path, type));
    TRY(format_of(name, "", type, out));
    if (!*type || !strcmp((*out)->model_type, type)) return OK;
    for (int i = 0; i < train_recipe.n_models; i++)
        for (const struct model_format *f = train_recipe.models[i]->formats; f && f->name; f++)
            if (!strcmp(f->name, name) && f->model_type)
                snprintf(strchr(known, 0), sizeof known - strlen(known), "%s%s", *known ? ", " : "", f->model_type);
    return FAIL(E_FORMAT, "%s: config.json says model_type %s; import reads %s", path, type, known);
}

struct import_request { char from[OPTION_TEXT_MAX], to[OPTION_TEXT_MAX]; int64_t heads; };
static const struct option IMPORT[] = {
    {"from", OPTION_TEXT, "", 0, 0, NULL, "", "format of the file", "import", offsetof(struct import_request, from)},
    {"to", OPTION_TEXT, "", 0, 0, NULL, "", "folder for the checkpoint", "import", offsetof(struct import_request, to)},
    {"heads", OPTION_INT, NULL, 1, 1e6, NULL, "", "hf: attention heads; default: config.json's, else hidden / 64",
     "import", offsetof(struct import_request, heads)},
};

static enum status run_import(const void *request, const struct options *o, const struct words *w) {
    const struct import_request *q = request;
    const struct model_format *format;
    struct checkpoint_model m;
    TRY(must_be_given(o, "import", "from"));
    TRY(must_be_given(o, "import", "to"));
    if (w->n_plain != 1) return FAIL(E_USAGE, "checkpoint import takes one file, and %d words are there", w->n_plain);
    TRY(format_for(q->from, w->plain[0], &format));
    TRY(format->import(w->plain[0], q->heads, q->to, &m));
    printf("imported: %s to %s\n", w->plain[0], q->to);
    printf("train with: --init %s", q->to);
    printf(" --arch %s", m.arch[0] ? m.arch : "gpt");
    for (int i = 0; i < N_MODEL_OPTIONS; i++) {
        const char *option;
        char value[MODEL_VALUE_MAX];
        if (checkpoint_model_option(&m, i, &train_recipe, &option, value)) printf(" --%s %s", option, value);
    }
    puts(m.dropless ? " --capacity 0 --aux-loss 0 --z-loss 0" : "");
    printf("which is what --init %s alone takes from it%s\n", q->to,
           m.dropless ? ", but for --aux-loss and --z-loss" : "");
    return OK;
}

/* Parse the command's options into `request`, then run the command. */
static enum status parse_and_run(const struct option_table *table, void *request, int argc, char **argv,
                                 enum status (*run)(const void *, const struct options *, const struct words *)) {
    struct options *o = NULL;
    struct words w;
    TRY(sort_words(argc, argv, &w));
    TRY(options_create(table, 1, request, &o));
    enum status status = options_parse(o, w.n_options, w.option);
    if (status == OK) status = run(request, o, &w);
    options_destroy(&o);
    return status;
}

static enum status run_command(int argc, char **argv) {
    static const struct option_table exports = {EXPORT, sizeof EXPORT / sizeof *EXPORT},
                                     imports = {IMPORT, sizeof IMPORT / sizeof *IMPORT};
    struct export_request to = {0};
    struct import_request from = {0};
    const char *name = argc < 1 ? "" : argv[0];
    if (!strcmp(name, "export")) return parse_and_run(&exports, &to, argc - 1, argv + 1, run_export);
    if (!strcmp(name, "import")) return parse_and_run(&imports, &from, argc - 1, argv + 1, run_import);
    if (strcmp(name, "inspect") != 0)
        return FAIL(E_USAGE,
                    "checkpoint %.32s is no command; use checkpoint inspect, export or import (checkpoint --help)",
                    name);
    if (argc != 2) return FAIL(E_USAGE, "checkpoint inspect takes one folder, and %d words follow", argc - 1);
    return checkpoint_inspect(argv[1], stdout);
}

int checkpoint_main(int argc, char **argv) {
    if (options_ask_for_help(argc, argv)) {
        fputs(HELP, stdout);
        return 0;
    }
    enum status status = run_command(argc, argv);
    if (status != OK) status_report();
    return status_exit_code(status);
}

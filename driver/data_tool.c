/* trivium data: convert text to files of tokens, and inspect files of tokens. */
#include "driver/commands.h"

#include "driver/command.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/data/bpe.h"
#include "lib/data/data.h"
#include "lib/data/data_write.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum format { FORMAT_AUTO, FORMAT_LLMC, FORMAT_MEGATRON };
enum { LOOK_BYTES = 1 << 20, CHUNK = 4096 };
static const double WORD_S = 5;          /* between two lines of progress */

struct request {
    char vocab[OPTION_TEXT_MAX], merges[OPTION_TEXT_MAX], tokenizer[OPTION_TEXT_MAX], to[OPTION_TEXT_MAX];
    int format, end_of_text, data_as;
    int64_t tokens;
};

#define AT(field) offsetof(struct request, field)
static const struct option TOKENIZER_OPTIONS[] = {
    {"tokenizer", OPTION_TEXT, "", 0, 0, NULL, "",
     "a folder with tokenizer.json, or with GPT-2's vocab.json and merges.txt, or a file of tiktoken's "
     "or sentencepiece's; empty: a token is a byte",
     "tokenizer", AT(tokenizer)},
    {"vocab", OPTION_TEXT, "", 0, 0, NULL, "", "the same, file by file: vocab.json", "tokenizer", AT(vocab)},
    {"merges", OPTION_TEXT, "", 0, 0, NULL, "", "and merges.txt", "tokenizer", AT(merges)},
};
static const struct option INPUT_OPTIONS[] = {
    {"data-format", OPTION_CHOICE, "auto", 0, 0, DATA_AS_CHOICES, "",
     "as what the files are read; auto: as what they are recognised as; u16, u32: tokens without a header, as in "
     "nanoGPT's train.bin; text: any bytes",
     "input", AT(data_as)},
};
static const struct option TOKENIZE_OPTIONS[] = {
    {"to", OPTION_TEXT, "", 0, 0, NULL, "",
     "the file to write; for Megatron NAME.bin, and NAME.idx is written, too", "output", AT(to)},
    {"format", OPTION_CHOICE, "auto", 0, 0, "auto|llmc|megatron", "",
     "auto: megatron if the file to write is called .idx, else llmc", "output", AT(format)},
    {"end-of-text", OPTION_BOOL, "off", 0, 0, NULL, "", "put <|endoftext|> after each input", "output",
     AT(end_of_text)},
};
static const struct option INSPECT_OPTIONS[] = {
    {"tokens", OPTION_INT, "16", 0, 1e6, NULL, "", "how many of the first tokens are shown", "output", AT(tokens)},
};
#define TABLE(options) {options, sizeof options / sizeof *options}
static const struct option_table TOKENIZE_TABLES[] = {TABLE(TOKENIZE_OPTIONS), TABLE(TOKENIZER_OPTIONS),
                                                      TABLE(INPUT_OPTIONS)};
static const struct option_table INSPECT_TABLES[] = {TABLE(INSPECT_OPTIONS), TABLE(TOKENIZER_OPTIONS),
                                                     TABLE(INPUT_OPTIONS)};

/* Open the request's tokenizer. *out is NULL if the request names none. */
static enum status open_tokenizer(const struct request *q, struct bpe **out) {
    bool folder = q->tokenizer[0], files = q->vocab[0] || q->merges[0];
    *out = NULL;
    if (folder && files)
        return FAIL(E_USAGE, "--tokenizer names both files, and --vocab and --merges each; give the one or the others");
    if (files && !(q->vocab[0] && q->merges[0]))
        return FAIL(E_USAGE, "--vocab and --merges belong together; give both, or --tokenizer FOLDER");
    if (folder) return bpe_open_folder(q->tokenizer, out);
    return files ? bpe_open(q->vocab, q->merges, out) : OK;
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* Open the inputs as train --data opens the same names. */
static enum status open_inputs(const struct request *q, const char *inputs, struct bpe *bpe, struct data_file **out) {
    TRY(data_open_as(inputs, (enum data_as)q->data_as, bpe, out));
    int empty = data_n_empty(*out);
    if (empty > 0)
        log_warn("%d of the %d files %s empty, and passed over", empty, empty + data_n_files(*out),
                 empty == 1 ? "is" : "are");
    return OK;
}

/* ---- tokenize ---- */

/* The state of a conversion. bpe NULL: each byte is a token. */
struct job {
    struct data_writer *writer;
    struct bpe *bpe;
    int64_t done_bytes, all_bytes, look_at;
    double started, word_at;
};

static void say_progress(struct job *j) {
    double now = clock_s();
    j->look_at = j->done_bytes + LOOK_BYTES;
    if (now < j->word_at) return;
    j->word_at = now + WORD_S;
    log_info("tokenize: %.0f of %.0f MB, %.0f s left", 1e-6 * (double)j->done_bytes, 1e-6 * (double)j->all_bytes,
             (now - j->started) * (double)(j->all_bytes - j->done_bytes) / (double)j->done_bytes);
}

/* An end-of-text token ends a document. */
static enum status write_tokens(void *self, const int32_t *tokens, int64_t n) {
    struct job *j = self;
    TRY(data_write_tokens(j->writer, tokens, n));
    for (int64_t i = 0, bytes; i < n && j->bpe; i++, j->done_bytes += bytes) bpe_token(j->bpe, tokens[i], &bytes);
    if (j->done_bytes >= j->look_at) say_progress(j);
    return j->bpe && n == 1 && tokens[0] == bpe_end_of_text(j->bpe) ? data_write_end_document(j->writer) : OK;
}

static enum status write_bytes(struct job *j, const char *text, int64_t bytes) {
    int32_t tokens[CHUNK];
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < CHUNK ? bytes - at : CHUNK;
        for (int64_t i = 0; i < n; i++) tokens[i] = (unsigned char)text[at + i];
        j->done_bytes += n;
        TRY(write_tokens(j, tokens, n));
    }
    return OK;
}

static enum status tokenize_file(const struct request *q, struct job *j, const struct data_file *data, int i) {
    int64_t bytes;
    const char *text = data_text(data, i, &bytes);
    TRY(j->bpe ? bpe_encode(j->bpe, text, bytes, write_tokens, j) : write_bytes(j, text, bytes));
    if (q->end_of_text) {
        int32_t end = bpe_end_of_text(j->bpe);
        TRY(data_write_tokens(j->writer, &end, 1));
    }
    return data_write_end_document(j->writer);
}

static enum status tokenize_files(const struct request *q, struct job *j, const struct data_file *data) {
    for (int i = 0; i < data_n_files(data); i++) TRY(tokenize_file(q, j, data, i));
    int64_t tokens = data_write_n_tokens(j->writer), documents = data_write_n_documents(j->writer);
    TRY(data_write_finish(&j->writer));
    printf("%s: %" PRId64 " token%s of %" PRId64 " bytes (%.2f bytes a token), vocabulary %d, %" PRId64 " document%s\n",
           q->to, tokens, plural(tokens), j->all_bytes, (double)j->all_bytes / (double)tokens,
           j->bpe ? bpe_n_tokens(j->bpe) : 256, documents, plural(documents));
    return OK;
}

/* For a Megatron pair, set q->to to the name of the .bin, also if the user named the .idx. */
static enum status settle_output(struct request *q) {
    size_t n = strlen(q->to);
    const char *end = n > 4 ? q->to + n - 4 : "";
    if (n == 0) return FAIL(E_USAGE, "data tokenize writes a file; say which with --to OUT.bin");
    if (q->format == FORMAT_AUTO) q->format = strcmp(end, ".idx") ? FORMAT_LLMC : FORMAT_MEGATRON;
    if (q->format == FORMAT_LLMC || !strcmp(end, ".bin")) return OK;
    if (!strcmp(end, ".idx")) q->to[n - 4] = 0;
    else if (n + 5 > sizeof q->to) return FAIL(E_USAGE, "--to is too long for .bin after it; use a shorter name");
    strcat(q->to, ".bin");
    return OK;
}

/* Is the input one of the files to write: OUT, or with Megatron's format the .bin or .idx? */
static bool is_written_to(const struct request *q, const struct stat *from) {
    char beside[OPTION_TEXT_MAX + 8];
    struct stat to;
    if (stat(q->to, &to) == 0 && from->st_dev == to.st_dev && from->st_ino == to.st_ino) return true;
    size_t stem = strlen(q->to);
    stem -= stem > 4 && (!strcmp(q->to + stem - 4, ".bin") || !strcmp(q->to + stem - 4, ".idx")) ? 4 : 0;
    for (int i = 0; i < 2; i++) {
        snprintf(beside, sizeof beside, "%.*s%s", (int)stem, q->to, i ? ".idx" : ".bin");
        if (q->format == FORMAT_MEGATRON && stat(beside, &to) == 0 && from->st_dev == to.st_dev &&
            from->st_ino == to.st_ino)
            return true;
    }
    return false;
}

static enum status check_inputs(const struct request *q, const struct data_file *data, const struct bpe *bpe,
                                int64_t *bytes) {
    struct stat from;
    if (data_format_of(data) != DATA_TEXT)
        return FAIL(E_CONFIG, "%s holds tokens already (%s); give the text that they were made of", data_path(data),
                    data_format_name(data));
    if (q->end_of_text && (!bpe || bpe_end_of_text(bpe) < 0))
        return FAIL(E_CONFIG, "--end-of-text, and the vocabulary has no <|endoftext|>; leave it out, or give a "
                              "--tokenizer that has");
    for (int i = *bytes = 0; i < data_n_files(data); i++) {
        int64_t n, first;
        const char *path = data_file_of(data, *bytes, &first);
        if (stat(path, &from) == 0 && is_written_to(q, &from))
            return FAIL(E_USAGE, "--to %s is an input too, and would be overwritten; give it another name", q->to);
        data_text(data, i, &n);
        *bytes += n;
    }
    return OK;
}

static enum status tokenize(struct request *q, const char *inputs) {
    struct job j = {.started = clock_s()};
    struct data_file *data = NULL;
    enum status status = OK;
    TRY(settle_output(q));
    TRY_DONE(open_tokenizer(q, &j.bpe));
    TRY_DONE(open_inputs(q, inputs, NULL, &data));
    TRY_DONE(check_inputs(q, data, j.bpe, &j.all_bytes));
    j.look_at = LOOK_BYTES;
    j.word_at = j.started + WORD_S;
    enum data_target target = q->format == FORMAT_MEGATRON ? DATA_TO_MEGATRON : DATA_TO_LLMC;
    TRY_DONE(data_write_create(q->to, target, j.bpe ? bpe_n_tokens(j.bpe) : 256, &j.writer));
    TRY_DONE(tokenize_files(q, &j, data));
done:
    data_write_abandon(&j.writer);
    data_close(&data);
    bpe_close(&j.bpe);
    return status;
}

/* ---- inspect ---- */

static void print_text(const char *text, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n') fputs("\\n", stdout);
        else if (c < ' ' || c == 0x7F || c == '\\' || c == '"') printf("\\x%02x", c);
        else putchar(c);
    }
}

static void print_first(const struct request *q, const struct data_file *data, const struct bpe *bpe) {
    int64_t n = q->tokens < data_n_tokens(data) ? q->tokens : data_n_tokens(data), bytes;
    printf("first tokens:  ");
    for (int64_t i = 0; i < n; i++) printf("%s%" PRId64, i ? " " : "", data_token(data, i));
    if (bpe || data_format_of(data) == DATA_TEXT) printf("\nfirst text:    \"");
    for (int64_t i = 0; i < n; i++) {
        char byte = (char)data_token(data, i);
        const char *text = bpe ? bpe_token(bpe, data_token(data, i), &bytes) : NULL;
        if (text) print_text(text, bytes);
        else if (bpe) printf("<no token %" PRId64 ">", data_token(data, i));
        else if (data_format_of(data) == DATA_TEXT) print_text(&byte, 1);
    }
    puts(bpe || data_format_of(data) == DATA_TEXT ? "\"" : "");
}

struct range { int64_t least, most, ends; };

static struct range range_of(const struct data_file *data, int64_t end_of_text) {
    struct range r = {data_token(data, 0), data_token(data, 0), 0};
    for (int64_t i = 0; i < data_n_tokens(data); i++) {
        int64_t token = data_token(data, i);
        if (token < r.least) r.least = token;
        if (token > r.most) r.most = token;
        r.ends += token == end_of_text;
    }
    return r;
}

static void print_data(const struct request *q, const struct data_file *data, const struct bpe *bpe) {
    struct range r = range_of(data, bpe && bpe_end_of_text(bpe) >= 0 ? bpe_end_of_text(bpe) : INT64_MIN);
    int64_t documents = data_n_documents(data), sequences = data_n_sequences(data);
    printf("file:          %s", data_path(data));
    if (data_n_files(data) > 1) printf(" (%d files)", data_n_files(data));
    printf("\nformat:        %s\ntokens:        %" PRId64 "\nlargest token: %" PRId64, data_format_name(data),
           data_n_tokens(data), r.most);
    if (r.least < 0) printf(", and the least is %" PRId64 ": no model has negative tokens", r.least);
    else
        printf("; a model of vocab %" PRId64 " or more can read it",
               data_vocab(data) > r.most ? data_vocab(data) : r.most + 1);
    if (data_format_of(data) == DATA_MEGATRON)
        printf("\ndocuments:     %" PRId64 ", in %" PRId64 " sequence%s", documents, sequences, plural(sequences));
    if (r.ends > 0) printf("\nends of text:  %" PRId64, r.ends);
    putchar('\n');
    print_first(q, data, bpe);
}

static enum status inspect(const struct request *q, const char *inputs) {
    struct bpe *bpe = NULL;
    struct data_file *data = NULL;
    enum status status = open_tokenizer(q, &bpe);
    if (status == OK) status = open_inputs(q, inputs, NULL, &data);
    if (status == OK && bpe && data_format_of(data) == DATA_TEXT) {
        data_close(&data);
        status = data_open_as(inputs, (enum data_as)q->data_as, bpe, &data);
    }
    if (status == OK && data_format_of(data) == DATA_CLICKS) data_clicks_print(data);
    else if (status == OK) print_data(q, data, bpe);
    data_close(&data);
    bpe_close(&bpe);
    return status;
}

/* ---- the command ---- */

static bool is_word(const char *argument) { return strncmp(argument, "--", 2) != 0; }

/* The words before the options, as one list. The caller frees the list; NULL: no memory. */
static char *join(int n, char **words) {
    size_t room = 1;
    for (int i = 0; i < n; i++) room += strlen(words[i]) + 1;
    char *list = malloc(room), *at = list;
    if (!list) return NULL;
    *at = 0;
    for (int i = 0; i < n; i++) at += sprintf(at, "%s%s", i ? "," : "", words[i]);
    return list;
}

static bool is_tokenize(const char *name) { return !strcmp(name, "tokenize"); }

static enum status run_request(void *request, struct options *o, int argc, char **argv) {
    int n = 1;
    while (n < argc && is_word(argv[n])) n++;
    TRY(options_parse(o, argc - n, argv + n));
    if (n == 1) return FAIL(E_USAGE, "data %s needs a file, before the options: data %s FILE", argv[0], argv[0]);
    char *inputs = join(n - 1, argv + 1);
    if (!inputs) return FAIL(E_MEMORY, "no memory for the names of %d files", n - 1);
    enum status status = is_tokenize(argv[0]) ? tokenize(request, inputs) : inspect(request, inputs);
    free(inputs);
    return status;
}

static enum status run_command(int argc, char **argv, bool help) {
    bool writes = argc > 0 && is_tokenize(argv[0]);
    if (!writes && (argc < 1 || (strcmp(argv[0], "inspect") && !help)))
        return FAIL(E_USAGE, "data %.32s is no command; use data tokenize INPUT... --to OUT.bin, data inspect FILE, "
                    "data synth-clicks --to OUT or data criteo FILE --to OUT", argc < 1 ? "" : argv[0]);
    const struct command_alone c = {
        writes ? "trivium data tokenize INPUT... --to OUT.bin [options]\nInputs are text; their names come first.\n"
               : "trivium data inspect FILE... [options]\n"
                 "(the others, each with --help: tokenize, synth-clicks, criteo)\n",
        writes ? TOKENIZE_TABLES : INSPECT_TABLES, 3, false, sizeof(struct request), run_request};
    return command_run(&c, argc, argv);
}

int data_main(int argc, char **argv) {
    bool clicks = argc > 0 && data_clicks_is(argv[0]);
    enum status status = clicks ? data_clicks(argc, argv) : run_command(argc, argv, options_ask_for_help(argc, argv));
    status_report();
    return status_exit_code(status);
}

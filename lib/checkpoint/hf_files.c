#include "lib/checkpoint/hf_files.h"

#include "lib/base/json_file.h"
#include "lib/base/log.h"
#include "lib/checkpoint/hf_config.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 10000, INDEX_MAX_BYTES = 16 << 20 };

struct hf_files {
    char path[CHECKPOINT_PATH_MAX];
    struct safetensors **file;
    char **name;
    int n, n_tensors;
};

/* ---- paths ---- */

static int folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

/* Make the path of the file `name` in the folder of `path`. */
static enum status beside(const char *path, const char *name, char out[CHECKPOINT_PATH_MAX]) {
    int length = snprintf(out, CHECKPOINT_PATH_MAX, "%.*s%s", folder_length(path), path, name);
    return length < CHECKPOINT_PATH_MAX
               ? OK
               : FAIL(E_CONFIG, "a path of %d bytes is too long; the limit is %d", length, CHECKPOINT_PATH_MAX - 1);
}

enum status hf_config_path(const char *path, char out[CHECKPOINT_PATH_MAX]) {
    return beside(path, "config.json", out);
}

static bool is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Make the path "folder/name". *there: the file exists. */
static enum status within(const char *folder, const char *name, char out[CHECKPOINT_PATH_MAX], bool *there) {
    char inside[CHECKPOINT_PATH_MAX];
    snprintf(inside, sizeof inside, "%.*s/", CHECKPOINT_PATH_MAX - 2, folder);
    TRY(beside(inside, name, out));
    *there = access(out, F_OK) == 0;
    return OK;
}

/* Find the file or the index that a path stands for. If a folder has both, the file wins, as in transformers. */
static enum status resolve(const char *path, char out[CHECKPOINT_PATH_MAX]) {
    char index[CHECKPOINT_PATH_MAX], old[CHECKPOINT_PATH_MAX];
    bool has_file = false, has_index = false, has_old = false;
    if (!is_folder(path)) return beside(path, path + folder_length(path), out);
    TRY(within(path, "model.safetensors", out, &has_file));
    TRY(within(path, "model.safetensors.index.json", index, &has_index));
    TRY(within(path, "pytorch_model.bin", old, &has_old));
    if (!has_file && has_index) strcpy(out, index);
    if (!has_file && !has_index && has_old)
        return FAIL(E_DATA, "%s is a pickle, which is not read; save the model as safetensors "
                    "(transformers: save_pretrained)", old);
    return OK;
}

/* Refuse a folder with an adapter, because transformers would add the adapter to the model. */
static enum status refuse_adapter(const char *path) {
    char adapter[CHECKPOINT_PATH_MAX];
    TRY(beside(path, "adapter_config.json", adapter));
    if (access(adapter, F_OK) != 0) return OK;
    return FAIL(E_FORMAT, "%s: a LoRA or another adapter lies in this folder, and is not read; merge it into its model "
                "(peft: merge_and_unload) and save that in a folder of its own", adapter);
}

static void say_unread_index(const char *path, const char *file) {
    char index[CHECKPOINT_PATH_MAX];
    bool there = false;
    if (is_folder(path) && within(path, "model.safetensors.index.json", index, &there) == OK && there &&
        strcmp(file, index))
        log_info("%s is read, and the index next to it is not", file);
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

enum status hf_model_type(const char *path, char out[HF_MODEL_TYPE_MAX]) {
    char file[CHECKPOINT_PATH_MAX], config[CHECKPOINT_PATH_MAX];
    json_t *j;
    *out = 0;
    TRY(resolve(path, file));
    TRY(refuse_adapter(file));
    TRY(hf_config_path(file, config));
    if (access(config, F_OK) != 0) return OK;
    TRY(hf_config_load(config, &j));
    const json_t *type = json_object_get(j, "model_type");
    bool is_name = !type || json_is_null(type) || json_is_string(type);
    if (json_is_string(type)) snprintf(out, HF_MODEL_TYPE_MAX, "%s", json_string_value(type));
    json_decref(j);
    return is_name ? OK : FAIL(E_FORMAT, "%s: model_type is no name", config);
}

/* ---- reading ---- */

static enum status add_file(struct hf_files *f, const char *name) {
    char path[CHECKPOINT_PATH_MAX];
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->name[i], name)) return OK;
    if (strchr(name, '/') || f->n == MAX_FILES)
        return FAIL(E_FORMAT, "%s names %.64s; an index has at most %d files, in its own folder", f->path, name,
                    MAX_FILES);
    struct safetensors **file = realloc(f->file, (size_t)(f->n + 1) * sizeof *file);
    if (file) f->file = file;
    char **names = realloc(f->name, (size_t)(f->n + 1) * sizeof *names), *copy = strdup(name);
    if (names) f->name = names;
    if (!file || !names || !copy) {
        free(copy);
        return FAIL(E_MEMORY, "no memory to open %s", f->path);
    }
    f->file[f->n] = NULL, f->name[f->n++] = copy;
    TRY(beside(f->path, name, path));
    TRY(safetensors_open(path, &f->file[f->n - 1]));
    f->n_tensors += safetensors_n(f->file[f->n - 1]);
    return OK;
}

static enum status add_all(struct hf_files *f, const json_t *index) {
    const char *name;
    json_t *file, *map = json_object_get(index, "weight_map");
    if (!json_is_object(map)) return FAIL(E_FORMAT, "%s has no weight_map", f->path);
    json_object_foreach(map, name, file) {
        if (!json_is_string(file)) return FAIL(E_FORMAT, "%s does not say the file of %.64s", f->path, name);
        TRY(add_file(f, json_string_value(file)));
    }
    return f->n > 0 ? OK : FAIL(E_FORMAT, "%s names no file", f->path);
}

static enum status open_index(struct hf_files *f) {
    json_t *index;
    if (access(f->path, F_OK) != 0) return FAIL(E_DATA, "%s is not there", f->path);
    TRY(json_file_read(f->path, INDEX_MAX_BYTES, JSON_REJECT_DUPLICATES, &index));
    enum status status = add_all(f, index);
    json_decref(index);
    return status;
}

enum status hf_files_open(const char *path, struct hf_files **out) {
    struct hf_files *f = *out = calloc(1, sizeof *f);
    if (!f) return FAIL(E_MEMORY, "no memory to open %s", path);
    enum status status = resolve(path, f->path);
    if (status == OK) status = refuse_adapter(f->path);
    if (status == OK) say_unread_index(path, f->path);
    if (status == OK)
        status = ends_in(f->path, ".index.json") ? open_index(f) : add_file(f, f->path + folder_length(f->path));
    if (status != OK) hf_files_close(out);
    return status;
}

void hf_files_close(struct hf_files **files) {
    struct hf_files *f = *files;
    for (int i = 0; f && i < f->n; i++) {
        safetensors_close(&f->file[i]);
        free(f->name[i]);
    }
    if (f) free(f->file), free(f->name);
    free(f);
    *files = NULL;
}

const char *hf_files_path(const struct hf_files *f) { return f->path; }
int hf_files_n(const struct hf_files *f) { return f->n_tensors; }

struct hf_tensor hf_files_at(const struct hf_files *f, int i) {
    int k = 0;
    for (; i >= safetensors_n(f->file[k]); k++) i -= safetensors_n(f->file[k]);
    return (struct hf_tensor){f->file[k], safetensors_at(f->file[k], i)};
}

struct hf_tensor hf_files_find(const struct hf_files *f, const char *name) {
    for (int i = 0; i < f->n; i++) {
        const struct safetensors_entry *e = safetensors_find(f->file[i], name);
        if (e) return (struct hf_tensor){f->file[i], e};
    }
    return (struct hf_tensor){NULL, NULL};
}

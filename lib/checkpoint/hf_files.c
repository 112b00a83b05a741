#include "lib/checkpoint/hf_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 10000 };

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

/* "folder of path/name" */
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

/* The file or the index that a path means. */
static enum status resolve(const char *path, char out[CHECKPOINT_PATH_MAX]) {
    char inside[CHECKPOINT_PATH_MAX];
    if (!is_folder(path)) return beside(path, path + folder_length(path), out);
    snprintf(inside, sizeof inside, "%.*s/", CHECKPOINT_PATH_MAX - 2, path);
    TRY(beside(inside, "model.safetensors.index.json", out));
    return access(out, F_OK) == 0 ? OK : beside(inside, "model.safetensors", out);
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

void hf_model_type(const char *path, char out[32]) {
    char file[CHECKPOINT_PATH_MAX], config[CHECKPOINT_PATH_MAX];
    bool found = resolve(path, file) == OK && hf_config_path(file, config) == OK;
    json_t *j = found ? json_load_file(config, 0, NULL) : NULL;
    const char *type = json_string_value(json_object_get(j, "model_type"));
    snprintf(out, 32, "%s", type ? type : "");
    json_decref(j);
    status_clear();
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
    json_error_t why;
    if (access(f->path, F_OK) != 0) return FAIL(E_DATA, "%s is not there", f->path);
    json_t *index = json_load_file(f->path, JSON_REJECT_DUPLICATES, &why);
    enum status status = index ? add_all(f, index) : FAIL(E_FORMAT, "%s is no JSON: %s at line %d", f->path, why.text,
                                                          why.line);
    json_decref(index);
    return status;
}

enum status hf_files_open(const char *path, struct hf_files **out) {
    struct hf_files *f = *out = calloc(1, sizeof *f);
    if (!f) return FAIL(E_MEMORY, "no memory to open %s", path);
    enum status status = resolve(path, f->path);
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

#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/checkpoint/checkpoint_piece.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A tensor over all files: the number n of elements found, and of pieces. */
struct line { const char *name; char dtype[16]; struct shape global; int64_t n; int pieces; };

static struct line *line_of(struct line *lines, int *n, const char *name) {
    for (int i = 0; i < *n; i++)
        if (!strcmp(lines[i].name, name)) return &lines[i];
    lines[*n] = (struct line){.name = name};
    return &lines[(*n)++];
}

static enum status add_tensor(const struct shard_file *s, const char *name, const struct piece *piece,
                              struct line *lines, int *n) {
    const struct safetensors_entry *e = safetensors_find(s->file, name);
    TRY(checkpoint_piece_check(piece, e, s->name, name));
    struct line *l = line_of(lines, n, e->name);
    snprintf(l->dtype, sizeof l->dtype, "%s", e->dtype_name);
    l->global = piece->box;
    l->n += piece->n;
    l->pieces++;
    return OK;
}

/* Add all tensors of a param in a file: its weight, and those whose names begin with the param's name and a dot. */
static enum status add_param(const struct shard_file *s, const char *param, const struct piece *piece,
                             struct line *lines, int *n) {
    bool of_a_replica = strchr(param, '@');                          /* a later replica has saved only its own states */
    size_t length = strlen(param);
    if (safetensors_find(s->file, param) || !of_a_replica) TRY(add_tensor(s, param, piece, lines, n));
    for (int i = 0; i < safetensors_n(s->file); i++) {
        const char *name = safetensors_at(s->file, i)->name;
        bool of_param = !strncmp(name, param, length) && name[length] == '.' && !strchr(name + length + 1, '.');
        if (of_param && !json_object_get(s->pieces, name) && !json_object_get(s->terms, name))
            TRY(add_tensor(s, name, piece, lines, n));
    }
    return OK;
}

static enum status add_file(const struct shard_file *s, struct line *lines, int *n) {
    const char *name;
    json_t *row;
    struct piece piece;
    json_object_foreach(s->pieces, name, row) {
        TRY(checkpoint_piece_parse(row, s->name, &piece));
        TRY(add_param(s, name, &piece, lines, n));
    }
    json_object_foreach(s->terms, name, row) {
        TRY(checkpoint_piece_parse(row, s->name, &piece));
        TRY(add_tensor(s, name, &piece, lines, n));
    }
    return OK;
}

static void print_line(const struct line *l, FILE *to) {
    char shape[128] = "";
    size_t used = 0;
    for (int i = 0; i < l->global.n_axes; i++)
        used +=
            (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRId64, i ? " x " : "", l->global.axis[i].global);
    fprintf(to, "%-28s %-5s %-24s %12" PRId64 " elements in %d piece%s\n", l->name, l->dtype, shape, l->n, l->pieces,
            l->pieces == 1 ? "" : "s");
}

static enum status print_tensors(const struct manifest *m, FILE *to) {
    int most = 0, n = 0;
    for (int i = 0; i < m->n; i++) most += safetensors_n(m->shards[i].file);
    struct line *lines = calloc((size_t)most + 1, sizeof *lines);
    enum status status = lines ? OK : FAIL(E_MEMORY, "no memory to list %d tensors", most);
    for (int i = 0; i < m->n && status == OK; i++) status = add_file(&m->shards[i], lines, &n);
    for (int i = 0; i < n && status == OK; i++) print_line(&lines[i], to);
    free(lines);
    return status;
}

static void print_values(const char *what, const json_t *values, FILE *to) {
    char *text = values ? json_dumps(values, JSON_COMPACT) : NULL;
    if (text) fprintf(to, "%-10s %s\n", what, text);
    free(text);
}

static enum status print_files(struct manifest *m, FILE *to) {
    void *buffer = malloc(MANIFEST_CHECK_BYTES);
    enum status status = buffer ? OK : FAIL(E_MEMORY, "no memory to check %s", m->path);
    for (int i = 0; i < m->n && status == OK; i++) {
        status = manifest_check_shard(m, i, buffer);
        if (status == OK)
            fprintf(to, "%-28s %12" PRId64 " bytes, xxh3 %016" PRIx64 ", whole\n", m->shards[i].name,
                    m->shards[i].bytes, m->shards[i].hash);
    }
    free(buffer);
    return status;
}

static enum status inspect(struct manifest *m, const char *step, FILE *to) {
    TRY(manifest_read(m, step));
    fprintf(to, "%s: step %" PRId64 ", %" PRId64 " updates, %" PRId64 " samples, seed %" PRId64 "\n", step, m->step,
            m->update, m->samples, m->seed);
    if (m->weights_only) fprintf(to, "holds      weights alone, for --init\n");
    print_values("model", json_object_get(m->json, "model"), to);
    print_values("saved by", json_object_get(m->json, "layout"), to);
    print_values("data", json_object_get(m->json, "data"), to);
    print_values("techniques", json_object_get(m->json, "techniques"), to);
    TRY(print_files(m, to));
    TRY(manifest_open_shards(m));
    return print_tensors(m, to);
}

enum status checkpoint_inspect(const char *path, FILE *to) {
    char step[CHECKPOINT_PATH_MAX];
    struct manifest m;
    memset(&m, 0, sizeof m);
    enum status status = checkpoint_resolve(path, step);
    if (status == OK) status = inspect(&m, step, to);
    manifest_fini(&m);
    return status;
}

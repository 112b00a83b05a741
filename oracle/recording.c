#include "oracle/recording.h"

#include "lib/base/grow.h"
#include "lib/base/json_file.h"
#include "lib/checkpoint/safetensors.h"
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the head ---- */
static const char FORMAT[] = "trivium-recording";

static enum dtype dtype_of_name(const char *name) {
    int d = FP64;
    while (d < INT32 && strcmp(dtype_name((enum dtype)d), name)) d++;
    return d < INT32 ? (enum dtype)d : N_DTYPES;
}

static enum status check_head(const char *path, struct recording *r) {
    const char *format = "", *by = "", *dtype = "";
    int version = 0;
    json_int_t steps = 0;
    if (json_unpack(r->head, "{s:s, s:i, s?s, s:s, s:I}", "format", &format, "version", &version, "by", &by, "dtype",
                    &dtype, "steps", &steps) != 0)
        return FAIL(E_FORMAT, "%s does not say format, version, dtype and steps (docs/oracle-format.md)", path);
    if (strcmp(format, FORMAT)) return FAIL(E_FORMAT, "%s has format %.40s, not %s", path, format, FORMAT);
    if (version != RECORDING_VERSION)
        return FAIL(E_FORMAT, "%s is of version %d, and this program reads %d", path, version, RECORDING_VERSION);
    r->dtype = dtype_of_name(dtype);
    if (r->dtype == N_DTYPES) return FAIL(E_FORMAT, "%s: dtype %.20s is none of fp64, fp32, bf16, fp16", path, dtype);
    if (steps < 1 || steps > 1000000)
        return FAIL(E_FORMAT, "%s: steps %" PRId64 " is not 1 to 1000000", path, (int64_t)steps);
    r->steps = steps;
    snprintf(r->by, sizeof r->by, "%s", by);
    return OK;
}

enum status recording_open(const char *folder, struct recording *r) {
    char path[RECORDING_PATH_MAX];
    *r = (struct recording){.steps = 0};
    if (strlen(folder) >= sizeof r->folder) return FAIL(E_CONFIG, "the path %.60s... is too long", folder);
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    snprintf(path, sizeof path, "%s/recording.json", folder);
    if (access(path, R_OK) != 0) return FAIL(E_DATA, "%s: %s; is %s a recording?", path, strerror(errno), folder);
    TRY(json_file_read(path, RECORDING_JSON_MAX, 0, &r->head));
    return check_head(path, r);
}

void recording_close(struct recording *r) {
    json_decref(r->head);
    r->head = NULL;
}

static enum status dump(json_t *root, const char *path) {
    if (json_dump_file(root, path, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) == 0) return OK;
    return FAIL(E_IO, "cannot write %s: %s", path, strerror(errno));
}

enum status recording_write_head(const char *folder, json_t *head, enum dtype dtype, int64_t steps) {
    char path[RECORDING_PATH_MAX];
    snprintf(path, sizeof path, "%s/recording.json", folder);
    json_object_set_new(head, "format", json_string(FORMAT));
    json_object_set_new(head, "version", json_integer(RECORDING_VERSION));
    json_object_set_new(head, "dtype", json_string(dtype_name(dtype)));
    json_object_set_new(head, "steps", json_integer(steps));
    return dump(head, path);
}

/* ---- reading a step ---- */
static const int64_t most_elements = (int64_t)1 << 31;               /* of a whole tensor: 16 GB in memory */

static bool read_numbers(const json_t *array, int n, int64_t *out) {
    if (!json_is_array(array) || (int)json_array_size(array) != n) return false;
    for (int i = 0; i < n; i++) {
        const json_t *x = json_array_get(array, (size_t)i);
        out[i] = json_integer_value(x);
        if (!json_is_integer(x) || out[i] < 0 || out[i] > INT32_MAX) return false;
    }
    return true;
}

/* Read the place of entry e from the metadata; without metadata the entry is whole. */
static enum status read_place(const struct safetensors *f, const char *path, const struct safetensors_entry *e,
                              struct kept_piece *p) {
    const char *text = safetensors_metadata(f, e->name);
    struct box *b = &p->box;
    p->parts = 1;
    b->n_axes = e->n_axes ? e->n_axes : 1;
    if (e->n_axes > BOX_AXES)
        return FAIL(E_FORMAT, "%s: %.80s has %d axes; the limit is %d", path, e->name, e->n_axes, BOX_AXES);
    for (int a = 0; a < b->n_axes; a++) b->n[a] = b->of[a] = e->n_axes ? e->shape[a] : 1;
    if (!text) return OK;
    json_t *place = json_loads(text, 0, NULL), *first = json_object_get(place, "first");
    const json_t *of = json_object_get(place, "of"), *part = json_object_get(place, "part");
    int64_t numbers[2] = {0, 1};
    bool ok = json_is_object(place) && (!first || read_numbers(first, b->n_axes, b->first)) &&
              (!of || read_numbers(of, b->n_axes, b->of)) && (!part || read_numbers(part, 2, numbers)) &&
              numbers[0] < numbers[1];
    json_decref(place);
    p->part = (int)numbers[0], p->parts = (int)numbers[1];
    int64_t whole = 1;
    for (int a = 0; ok && a < b->n_axes; a++) {
        if (b->of[a] > most_elements / whole)
            return FAIL(E_FORMAT, "%s: %.80s is a piece of more than %" PRId64 " elements, which is the limit", path,
                        e->name, most_elements);
        whole *= b->of[a] > 0 ? b->of[a] : 1;
    }
    return ok ? OK
              : FAIL(E_FORMAT, "%s: of %.80s it says %.80s, which is no {\"first\": [%d numbers], \"of\": [as many]}",
                     path, e->name, text, b->n_axes);
}

static enum status read_entry(const struct safetensors *f, const char *path, int rank, const char *suffix,
                              const struct safetensors_entry *e, struct kept *out) {
    struct kept_piece p = {.rank = rank};
    const char *mark = strrchr(e->name, '#');
    size_t length = mark ? (size_t)(mark - e->name) : strlen(e->name);
    if (length + strlen(suffix) >= sizeof p.name)
        return FAIL(E_FORMAT, "%s: the name %.60s... is too long", path, e->name);
    if (e->dtype > FP16)
        return FAIL(E_FORMAT, "%s: %.80s is %s, not F64, F32, BF16 or F16", path, e->name, e->dtype_name);
    snprintf(p.name, sizeof p.name, "%.*s%s", (int)length, e->name, suffix);
    TRY(read_place(f, path, e, &p));
    int64_t n = box_n(&p.box), bytes = e->end - e->begin;
    if (n == 0) return OK;
    void *raw = malloc((size_t)bytes);
    double *to = raw ? kept_add(out, &p) : NULL;
    enum status status = to ? safetensors_read(f, e, 0, bytes, raw)
                            : FAIL(E_MEMORY, "no memory for %s of %" PRId64 " bytes", p.name, bytes);
    for (int64_t i = 0; status == OK && i < n; i++) to[i] = dtype_get(raw, e->dtype, i);
    free(raw);
    return status;
}

static enum status read_file(const char *path, const char *suffix, struct kept *out) {
    struct safetensors *f;
    const char *number = strrchr(path, '-');
    TRY(safetensors_open(path, &f));
    enum status status = OK;
    for (int i = 0; i < safetensors_n(f) && status == OK; i++)
        status = read_entry(f, path, !*suffix && number ? atoi(number + 1) : 0, suffix, safetensors_at(f, i), out);
    safetensors_close(&f);
    return status;
}

enum status recording_read(const struct recording *r, int64_t step, struct kept *out) {
    char pattern[RECORDING_PATH_MAX];
    glob_t found = {.gl_pathc = 0};
    enum status status = OK;
    snprintf(pattern, sizeof pattern, "%s/step-%" PRId64 "/rank-*.safetensors", r->folder, step);
    if (step == 0) snprintf(pattern, sizeof pattern, "%s/model/model.safetensors", r->folder);
    if (glob(pattern, 0, NULL, &found) != 0) status = FAIL(E_DATA, "there is no %s", pattern);
    for (size_t i = 0; i < found.gl_pathc && status == OK; i++)
        status = read_file(found.gl_pathv[i], step == 0 ? ".param" : "", out);
    globfree(&found);
    return status;
}

/* ---- writing a step ---- */
static json_t *numbers_json(const int64_t *x, int n) {
    json_t *out = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(out, json_integer(x[i]));
    return out;
}

/* The text of a piece's place; NULL: the piece is whole. */
static char *place_text(const struct kept_piece *p) {
    if (box_n(&p->box) == box_whole_n(&p->box) && p->parts == 1) return NULL;
    json_t *place = json_object();
    json_object_set_new(place, "first", numbers_json(p->box.first, p->box.n_axes));
    json_object_set_new(place, "of", numbers_json(p->box.of, p->box.n_axes));
    if (p->parts > 1) json_object_set_new(place, "part", json_pack("[i,i]", p->part, p->parts));
    char *text = json_dumps(place, JSON_COMPACT);
    json_decref(place);
    return text;
}

struct listing { struct safetensors_entry *entry; struct safetensors_pair *place; int n_places; };

static void list(const struct kept *k, enum dtype stored, struct listing *out) {
    out->entry = table_new(k->n, sizeof *out->entry);
    out->place = table_new(k->n, sizeof *out->place);
    for (int i = 0; i < k->n; i++) {
        const struct kept_piece *p = &k->piece[i];
        char *name = table_new(PUBLISHED_NAME_MAX + 32, 1), *place = place_text(p);
        snprintf(name, PUBLISHED_NAME_MAX + 32, place ? "%s#%d" : "%s", p->name, i);
        out->entry[i] = (struct safetensors_entry){.name = name, .dtype = stored, .n_axes = p->box.n_axes};
        memcpy(out->entry[i].shape, p->box.n, (size_t)p->box.n_axes * sizeof(int64_t));
        if (place) out->place[out->n_places++] = (struct safetensors_pair){name, place};
    }
}

static enum status append(struct safetensors_writer *w, const struct kept *k, enum dtype stored) {
    enum { AT_A_TIME = 1024 };
    unsigned char room[AT_A_TIME * sizeof(double)];
    for (int i = 0; i < k->n; i++) {
        const double *x = k->values + k->piece[i].at;
        for (int64_t n = box_n(&k->piece[i].box), at = 0; at < n; at += AT_A_TIME) {
            int64_t now = n - at < AT_A_TIME ? n - at : AT_A_TIME;
            for (int64_t j = 0; j < now; j++) dtype_set(room, stored, j, x[at + j]);
            TRY(safetensors_append(w, room, now * (int64_t)dtype_size(stored)));
        }
    }
    return OK;
}

enum status recording_write(const char *folder, int64_t step, int rank, const struct kept *k, enum dtype dtype) {
    char path[RECORDING_PATH_MAX];
    enum dtype stored = dtype == FP64 ? FP64 : FP32;
    struct listing l = {.n_places = 0};
    struct safetensors_writer *w = NULL;
    int64_t bytes;
    uint64_t hash;
    snprintf(path, sizeof path, "%s/step-%" PRId64, folder, step);
    enum status status = mkdir(path, 0777) == 0 || errno == EEXIST
                             ? OK : FAIL(E_IO, "cannot make %s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/step-%" PRId64 "/rank-%d.safetensors", folder, step, rank);
    list(k, stored, &l);
    if (status == OK) status = safetensors_create(path, l.entry, k->n, l.place, l.n_places, &w);
    if (status == OK) status = append(w, k, stored);
    if (status == OK) status = safetensors_finish(&w, &bytes, &hash);
    safetensors_abandon(&w);
    for (int i = 0; i < k->n; i++) free(l.entry[i].name);
    for (int i = 0; i < l.n_places; i++) free((char *)l.place[i].text);
    free(l.entry);
    free(l.place);
    return status;
}

#include "lib/checkpoint/checkpoint_manifest.h"

#include "lib/base/input.h"
#include "lib/base/json_file.h"
#include "lib/checkpoint/checkpoint_files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* JSON in memory takes up to 50 times its size. A shard's row has about 100 bytes. */
enum { MANIFEST_BYTES = 4 << 20, SHARD_BYTES = 1024, MAX_SHARDS = 100000 };

void manifest_fini(struct manifest *m) {
    for (int i = 0; i < m->n; i++) {
        safetensors_close(&m->shards[i].file);
        json_decref(m->shards[i].pieces);
        json_decref(m->shards[i].terms);
    }
    free(m->shards);
    json_decref(m->json);
    json_decref(m->names);
}

/* Read a 64-bit number from a text that may have only these digits (strtoull would also accept blanks, signs and 0x).
 * For any other text *ok is false, and the result is 0. */
static uint64_t digits(const json_t *from, const char *key, const char *letters, int base, bool *ok) {
    const char *text = json_string_value(json_object_get(from, key));
    *ok = text && *text && text[strspn(text, letters)] == 0;
    errno = 0;
    uint64_t x = *ok ? strtoull(text, NULL, base) : 0;
    *ok = *ok && errno == 0;
    return *ok ? x : 0;
}

static enum status read_count(const struct manifest *m, const json_t *from, const char *key, int64_t *out) {
    bool ok;
    uint64_t x = digits(from, key, "0123456789", 10, &ok);
    *out = ok && x <= MANIFEST_MAX_COUNT ? (int64_t)x : 0;
    return ok && x <= MANIFEST_MAX_COUNT ? OK
                                         : FAIL(E_FORMAT, "%s: %s is not a number in quotes, from 0 to %" PRId64,
                                                m->path, key, MANIFEST_MAX_COUNT);
}

static enum status read_hash(const struct manifest *m, const json_t *from, uint64_t *out) {
    bool ok;
    *out = digits(from, "xxh3", "0123456789abcdef", 16, &ok);
    return ok ? OK : FAIL(E_FORMAT, "%s: xxh3 is not 16 hexadecimal digits in quotes", m->path);
}

enum status manifest_hash(const json_t *manifest, uint64_t *out) {
    json_t *others = json_copy((json_t *)manifest);              /* a shallow copy, because jansson counts references */
    if (others) json_object_del(others, "xxh3");
    char *text = others ? json_dumps(others, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (text) *out = XXH3_64bits(text, strlen(text));
    free(text);
    json_decref(others);
    return text ? OK : FAIL(E_MEMORY, "no memory for the checksum of a manifest");
}

static bool is_shard_name(const char *name) {
    size_t n = name ? strlen(name) : 0;
    return n > 0 && n < 64 && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static enum status read_shards(struct manifest *m) {
    const json_t *list = json_object_get(m->json, "shards");
    size_t n = json_array_size(list);
    if (n == 0 || n > MAX_SHARDS)
        return FAIL(E_FORMAT, "%s: it lists %zu shards; there are 1 to %d", m->path, n, MAX_SHARDS);
    m->shards = calloc(n, sizeof *m->shards);
    m->names = json_object();
    if (!m->shards || !m->names) return FAIL(E_MEMORY, "no memory for %zu shards", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(row, "file"));
        struct shard_file *s = &m->shards[m->n++];
        if (!is_shard_name(name))
            return FAIL(E_FORMAT, "%s: shard %zu has no name of A-Z, a-z, 0-9, '.', '_' and '-'", m->path, i);
        snprintf(s->name, sizeof s->name, "%s", name);
        if (json_object_get(m->names, name))
            return FAIL(E_FORMAT, "%s lists %s twice; its elements would count for others that are missing", m->path,
                        name);
        if (json_object_set_new(m->names, name, json_true())) return FAIL(E_MEMORY, "no memory for %zu shards", n);
        TRY(read_count(m, row, "bytes", &s->bytes));
        TRY(read_hash(m, row, &s->hash));
    }
    return OK;
}

/* Read the number of replicas. Each of them has at least one file. */
static enum status read_replicas(struct manifest *m) {
    if (!json_object_get(m->json, "replicas")) return OK;
    TRY(read_count(m, m->json, "replicas", &m->replicas));
    if (m->replicas >= 2 && m->replicas <= m->n) return OK;
    return FAIL(E_FORMAT, "%s says that %" PRId64 " replicas have moments of their own, and there are %d files; use "
                "another checkpoint", m->path, m->replicas, m->n);
}

/* The largest size that the manifest may have, by the number of files in its folder. */
static int64_t manifest_limit(const char *folder) {
    int64_t n = 0;
    DIR *d = opendir(folder);
    while (d && n < MAX_SHARDS && readdir(d)) n++;
    if (d) closedir(d);
    return n * SHARD_BYTES > MANIFEST_BYTES ? n * SHARD_BYTES : MANIFEST_BYTES;
}

static enum status load_json(struct manifest *m) {
    return json_file_read(m->path, manifest_limit(m->folder), JSON_REJECT_DUPLICATES, &m->json);
}

static bool is_known(const char *key, int64_t version) {
    static const char *const known[] = {"format", "version", "step",   "update",     "samples", "seed",
                                        "model",  "layout",  "techniques", "holds",      "shards",  "replicas"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(key, known[i])) return true;
    if (optimizer_named(key)) return true;
    return (version > 1 && !strcmp(key, "xxh3")) || (version > 2 && !strcmp(key, "data"));
}

/* Check the version. Version 1 has no checksum. Damage to a member's name cannot turn another version into 1, because
 * unknown names are refused. */
static enum status check_version(const struct manifest *m) {
    const char *format = json_string_value(json_object_get(m->json, "format")), *key;
    if (!format || strcmp(format, "trivium checkpoint") != 0)
        return FAIL(E_FORMAT, "%s is not the manifest of a Trivium checkpoint", m->path);
    int64_t version = json_integer_value(json_object_get(m->json, "version"));
    if (version < 1 || version > CHECKPOINT_VERSION)
        return FAIL(E_FORMAT, "%s has version %" PRId64 "; this program reads versions 1 to %d", m->path, version,
                    CHECKPOINT_VERSION);
    json_t *value;
    json_object_foreach(m->json, key, value) {
        if (!is_known(key, version))
            return FAIL(E_FORMAT, "%s has a member %.32s, which version %" PRId64 " does not; use another checkpoint",
                        m->path, key, version);
    }
    if (version == 1) return OK;
    uint64_t written = 0, hash = 0;
    TRY(read_hash(m, m->json, &written));
    TRY(manifest_hash(m->json, &hash));
    if (hash == written) return OK;
    return FAIL(E_FORMAT, "%s is damaged: its checksum is %016" PRIx64 ", and was %016" PRIx64 "; use another "
                "checkpoint", m->path, hash, written);
}

static enum status read_numbers(struct manifest *m) {
    TRY(read_count(m, m->json, "step", &m->step));
    TRY(read_count(m, m->json, "update", &m->update));
    if (m->update > m->step)
        return FAIL(E_FORMAT, "%s says %" PRId64 " updates after %" PRId64 " steps, and a step makes at most one; use "
                    "another checkpoint", m->path, m->update, m->step);
    m->seq = json_integer_value(json_object_get(json_object_get(m->json, "model"), "seq"));
    TRY(read_count(m, m->json, "samples", &m->samples));
    return read_count(m, m->json, "seed", &m->seed);
}

enum status manifest_parse(struct manifest *m, const char *label, const char *text, int n) {
    json_error_t why;
    memset(m, 0, sizeof *m);
    snprintf(m->path, sizeof m->path, "%s", label);
    m->json = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!m->json) return FAIL(E_FORMAT, "%s is not JSON: %s at line %d", m->path, why.text, why.line);
    m->shards = calloc((size_t)n, sizeof *m->shards);
    if (!m->shards) return FAIL(E_MEMORY, "no memory for %d shards", n);
    m->n = n;
    TRY(read_numbers(m));
    return read_replicas(m);
}

enum status manifest_read(struct manifest *m, const char *folder) {
    memset(m, 0, sizeof *m);
    snprintf(m->folder, sizeof m->folder, "%s", folder);
    TRY(checkpoint_path(folder, "manifest.json", m->path));
    TRY(load_json(m));
    TRY(check_version(m));
    TRY(read_numbers(m));
    const char *holds = json_string_value(json_object_get(m->json, "holds"));
    m->weights_only = holds && !strcmp(holds, "weights");
    TRY(read_shards(m));
    return read_replicas(m);
}

/* ---- checking the files ---- */

/* Open a shard's file. Its size is checked before anything is read, because a pipe or a device might never end. */
static enum status open_shard(const struct shard_file *s, const char *path, int *fd) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &info) != 0)
        return FAIL(input_status(errno), "cannot open %s, which the manifest lists: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return FAIL(E_DATA, "%s, which the manifest lists, is not a regular file", path);
    if (info.st_size == s->bytes) return OK;
    return FAIL(E_FORMAT,
                "%s has %" PRId64 " bytes, and %" PRId64
                " were written: it is truncated or something was appended; use another checkpoint",
                path, (int64_t)info.st_size, s->bytes);
}

enum status manifest_check_shard(const struct manifest *m, int i, void *buffer) {
    const struct shard_file *s = &m->shards[i];
    char path[CHECKPOINT_PATH_MAX];
    XXH3_state_t *hash = XXH3_createState();
    int fd = -1;
    enum status status =
        hash ? checkpoint_path(m->folder, s->name, path) : FAIL(E_MEMORY, "no memory to check %s", s->name);
    if (status == OK) status = open_shard(s, path, &fd);
    if (status == OK) XXH3_64bits_reset(hash);
    for (ssize_t n = 1; status == OK && n > 0;) {
        n = read(fd, buffer, MANIFEST_CHECK_BYTES);
        if (n < 0 && errno == EINTR) n = 1;
        else if (n < 0) status = FAIL(E_IO, "reading %s: %s", path, strerror(errno));
        else if (n > 0) XXH3_64bits_update(hash, buffer, (size_t)n);
    }
    if (status == OK && XXH3_64bits_digest(hash) != s->hash)
        status = FAIL(E_FORMAT,
                      "%s is damaged: its checksum is %016" PRIx64 ", and was %016" PRIx64 "; use another checkpoint",
                      path, (uint64_t)XXH3_64bits_digest(hash), s->hash);
    if (fd >= 0) close(fd);
    XXH3_freeState(hash);
    return status;
}

enum status manifest_check_shards(const struct manifest *m, int first, int stride) {
    void *buffer = malloc(MANIFEST_CHECK_BYTES);
    enum status status = buffer ? OK : FAIL(E_MEMORY, "no memory to check %s", m->path);
    for (int i = first; i < m->n && status == OK; i += stride) status = manifest_check_shard(m, i, buffer);
    free(buffer);
    return status;
}

static json_t *json_metadata(const struct safetensors *file, const char *key) {
    json_error_t why;
    const char *text = safetensors_metadata(file, key);
    return text ? json_loads(text, JSON_REJECT_DUPLICATES, &why) : NULL;
}

enum status manifest_read_parts(struct shard_file *s, const char *path) {
    s->pieces = json_metadata(s->file, "pieces");
    s->terms = json_metadata(s->file, "terms");
    if (json_is_object(s->pieces) && (!safetensors_metadata(s->file, "terms") || json_is_object(s->terms))) return OK;
    return FAIL(E_FORMAT, "%s does not say which parts of the tensors it has", path);
}

enum status manifest_open_shards(struct manifest *m) {
    char path[CHECKPOINT_PATH_MAX];
    for (int i = 0; i < m->n; i++) {
        struct shard_file *s = &m->shards[i];
        TRY(checkpoint_path(m->folder, s->name, path));
        TRY(safetensors_open(path, &s->file));
        TRY(manifest_read_parts(s, path));
    }
    return OK;
}

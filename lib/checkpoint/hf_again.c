#include "lib/checkpoint/hf_weights.h"

#include "lib/base/log.h"
#include <string.h>

static bool applies(const struct hf_again *a, const struct checkpoint_model *m) {
    return a->when != HF_AGAIN_TIED || !m->untied;
}

/* Is the tensor `name` read, in place of the tensor `as`? */
static bool is_read(const struct hf_again *a, const struct checkpoint_model *m) {
    return a->when == HF_AGAIN_READ_IF_UNTIED && m->untied;
}

static struct hf_tensor find(const struct hf_weights *kind, const struct hf_files *files, const char *name) {
    char old[PUBLISHED_NAME_MAX];
    struct hf_tensor t = hf_files_find(files, name);
    if (t.entry || !kind->old_name) return t;
    kind->old_name(name, old);
    return hf_files_find(files, old);
}

struct hf_tensor hf_again_find(const struct hf_weights *kind, const struct hf_files *files,
                               const struct checkpoint_model *m, const char *name) {
    struct hf_tensor t = find(kind, files, name);
    for (const struct hf_again *a = kind->again; a && a->name; a++) {
        if (strcmp(a->as, name) || !applies(a, m) || (t.entry && !is_read(a, m))) continue;
        struct hf_tensor again = find(kind, files, a->name);
        if (again.entry) t = again;
    }
    return t;
}

static enum status compare(struct hf_tensor a, struct hf_tensor b, bool *same) {
    char x[1 << 14], y[1 << 14];
    int64_t bytes = a.entry->end - a.entry->begin, part = sizeof x;
    *same = a.entry->dtype == b.entry->dtype && a.entry->n_axes == b.entry->n_axes &&
            !memcmp(a.entry->shape, b.entry->shape, sizeof a.entry->shape);
    for (int64_t at = 0; *same && at < bytes; at += part) {
        int64_t n = bytes - at < part ? bytes - at : part;
        TRY(safetensors_read(a.file, a.entry, at, n, x));
        TRY(safetensors_read(b.file, b.entry, at, n, y));
        *same = !memcmp(x, y, (size_t)n);
    }
    return OK;
}

static enum status differ(const struct hf_weights *kind, const char *path, const struct hf_again *a,
                          const struct checkpoint_model *m) {
    if (is_read(a, m)) {
        log_warn("%s: the head's %s is read, and %s is another; transformers 4 reads that one", path, a->name, a->as);
        return OK;
    }
    if (a->when == HF_AGAIN_ALWAYS)
        return FAIL(E_FORMAT, "%s: tensor %s is not %s, and Trivium's %s has one for both", path, a->name, a->as,
                    kind->name);
    return FAIL(E_FORMAT, "%s: tensor %s is not %s, and config.json ties them; Trivium computes a %s that has one for "
                "both, or that says tie_word_embeddings false", path, a->name, a->as, kind->name);
}

enum status hf_again_check(const struct hf_weights *kind, const struct hf_files *files,
                           const struct checkpoint_model *m, struct hf_tensor t, bool *extra) {
    *extra = false;
    for (const struct hf_again *a = kind->again; a && a->name && !*extra; a++) {
        struct hf_tensor one = find(kind, files, a->as), other = find(kind, files, a->name);
        bool same;
        if (!one.entry) one = hf_again_find(kind, files, m, a->as);
        bool two = applies(a, m) && one.entry && other.entry && one.entry != other.entry;
        *extra = two && t.entry == (is_read(a, m) ? one : other).entry;
        if (!*extra) continue;
        TRY(compare(one, other, &same));
        if (!same) TRY(differ(kind, hf_files_path(files), a, m));
    }
    return OK;
}

#include "tests/fuzz/checks.h"

#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

/* The size of a type, from the digits of its name: "F8_E4M3" has 8 bits, and "BOOL", too. */
static int64_t element_bytes(const char *dtype) {
    const char *digit = strpbrk(dtype, "0123456789");
    return digit ? strtol(digit, NULL, 10) / 8 : 1;
}

static void entry_must_hold(const struct safetensors *f, const struct safetensors_entry *e, const unsigned char *data,
                            int64_t begin) {
    __int128 bytes = element_bytes(e->dtype_name);
    MUST(e->n_axes >= 0 && e->n_axes <= SAFETENSORS_MAX_AXES);
    for (int i = 0; i < e->n_axes; i++) {
        MUST(e->shape[i] >= 0);
        bytes *= e->shape[i];
        if (bytes > INT64_MAX) bytes = (__int128)INT64_MAX + 1; /* and an axis of 0 may still follow */
    }
    MUST(e->begin == begin && e->end - e->begin == bytes);
    MUST(e->dtype == N_DTYPES || (int64_t)dtype_size(e->dtype) == element_bytes(e->dtype_name));
    MUST(safetensors_find(f, e->name) == e);
    int64_t n = e->end - e->begin;
    char *copy = malloc((size_t)n + 1);
    MUST(copy && safetensors_read(f, e, 0, n, copy) == OK && memcmp(copy, data + begin, (size_t)n) == 0);
    MUST(safetensors_read(f, e, 1, n, copy) == E_INTERNAL && safetensors_read(f, e, 0, n + 1, copy) == E_INTERNAL);
    MUST(safetensors_read(f, e, -1, 1, copy) == E_INTERNAL && safetensors_read(f, e, INT64_MAX, 1, copy) == E_INTERNAL);
    free(copy);
}

void safetensors_must_hold(const void *bytes, int64_t n_bytes) {
    struct safetensors *f;
    enum status status = safetensors_open(fuzz_file(bytes, (size_t)n_bytes), &f);
    MUST(status == OK ? f != NULL : status == E_FORMAT && f == NULL);
    if (status != OK) return;
    uint64_t header;
    int64_t end = 0;
    memcpy(&header, bytes, 8);
    MUST(header <= SAFETENSORS_MAX_HEADER && (int64_t)header <= n_bytes - 8);
    const unsigned char *data = (const unsigned char *)bytes + 8 + header;
    for (int i = 0; i < safetensors_n(f); end = safetensors_at(f, i++)->end)
        entry_must_hold(f, safetensors_at(f, i), data, end);
    MUST(8 + (int64_t)header + end == n_bytes);
    (void)safetensors_metadata(f, "format");
    safetensors_close(&f);
}

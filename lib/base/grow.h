/* Make, grow and copy tables of descriptions (steps, rows, actions). A table has kilobytes at most; a process without
 * memory for a table could not report the error either, so it aborts. Memory for numbers comes from arenas, which
 * return E_MEMORY. */
#pragma once

#include <stdlib.h>
#include <string.h>

/** Make room for element n + 1 of `size` bytes. The capacity is a power of two, so the table moves log n times.
 *  @return the table */
static inline void *table_grow(void *table, int n, size_t size) {
    if (n & (n - 1)) return table;                     /* n is no power of two: there is room */
    void *bigger = realloc(table, size * (n ? 2 * (size_t)n : 1));
    if (!bigger) abort();
    return bigger;
}

/** A table of n zeroed elements; the caller frees it. */
static inline void *table_new(int n, size_t size) {
    void *table = calloc((size_t)n + 1, size);
    if (!table) abort();
    return table;
}

/** A copy of the table, with a capacity that table_grow can extend; NULL for NULL. The caller frees it. */
static inline void *table_copy(const void *table, int n, size_t size) {
    size_t room = 1;
    if (!table) return NULL;
    while (room < (size_t)n) room *= 2;
    void *out = malloc(room * size);
    if (!out) abort();
    return memcpy(out, table, (size_t)n * size);
}

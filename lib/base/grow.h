/* Tables that hold descriptions (steps, rows, actions), kilobytes at most: growing one, making one. A process that
 * cannot have those cannot report either, so it ends. Memory for numbers comes from arenas and is refused politely. */
#ifndef TRIVIUM_BASE_GROW_H
#define TRIVIUM_BASE_GROW_H

#include <stdlib.h>

/** The table with room for n + 1 elements of `size` bytes; capacity is the next power of two, so it moves log n
 *  times. */
static inline void *table_grow(void *table, int n, size_t size) {
    if (n & (n - 1)) return table;                     /* not at a power of two: there is room */
    void *bigger = realloc(table, size * (n ? 2 * (size_t)n : 1));
    if (!bigger) abort();
    return bigger;
}

/** A table of n elements, all zero; free it. */
static inline void *table_new(int n, size_t size) {
    void *table = calloc((size_t)n + 1, size);
    if (!table) abort();
    return table;
}

#endif

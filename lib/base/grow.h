/* Tables that hold descriptions (steps, rows, actions), kilobytes at most: growing, making and copying one. A process
 * that cannot have those cannot report either, so it ends. Memory for numbers comes from arenas and is refused
 * politely. */
#pragma once

#include <stdlib.h>
#include <string.h>

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

/** One more of it, with the room that table_grow expects. NULL stays NULL. */
static inline void *table_copy(const void *table, int n, size_t size) {
    size_t room = 1;
    if (!table) return NULL;
    while (room < (size_t)n) room *= 2;
    void *out = malloc(room * size);
    if (!out) abort();
    return memcpy(out, table, (size_t)n * size);
}

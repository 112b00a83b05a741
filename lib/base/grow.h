/* Growing a table by one. The tables that use it hold descriptions (steps, rows, actions), kilobytes at most; a process
 * that cannot have those cannot report either, so it ends. Memory for numbers comes from arenas and is refused
 * politely. */
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

#endif

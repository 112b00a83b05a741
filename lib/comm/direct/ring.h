/* A stream of bytes from one process to another, in memory that both map.
 *
 * head counts the bytes that were put, and tail the bytes that were taken; byte i is at i modulo RING_BYTES. Only the
 * writer changes head, after writing the bytes. Only the reader changes tail, after copying them. So neither needs a
 * lock, and each sees whole bytes (release and acquire). Both counters have a cache line of their own. A ring of zeros
 * is empty. The memory of old epochs' rings is freed and reads as zeros, perhaps after a stopped process has read one
 * of the two counters: it then sees no room, and no bytes.
 *
 * Source: Lamport 1977, "Proving the correctness of multiprocess programs" (one writer, one reader). */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RING_BYTES = 256 << 10 };   /* a power of two; source and destination of a copy fit into a core's L2 */

struct ring {
    atomic_uint_least64_t head;
    char beside_head[56];
    atomic_uint_least64_t tail;
    char beside_tail[56];
    char data[RING_BYTES];
};

/** Put up to n bytes. @return the number of bytes put. Only the writer may call this. @collective{none} */
static inline size_t ring_put(struct ring *r, const void *from, size_t n) {
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    size_t room = RING_BYTES - (size_t)(head - atomic_load_explicit(&r->tail, memory_order_acquire));
    if (room > RING_BYTES) room = 0;
    if (n > room) n = room;
    size_t at = head % RING_BYTES, first = n < RING_BYTES - at ? n : RING_BYTES - at;
    memcpy(r->data + at, from, first);
    memcpy(r->data, (const char *)from + first, n - first);
    atomic_store_explicit(&r->head, head + n, memory_order_release);
    return n;
}

/** Take up to n bytes. @return the number of bytes taken. Only the reader may call this. @collective{none} */
static inline size_t ring_take(struct ring *r, void *to, size_t n) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    size_t there = (size_t)(atomic_load_explicit(&r->head, memory_order_acquire) - tail);
    if (there > RING_BYTES) there = 0;
    if (n > there) n = there;
    size_t at = tail % RING_BYTES, first = n < RING_BYTES - at ? n : RING_BYTES - at;
    memcpy(to, r->data + at, first);
    memcpy((char *)to + first, r->data, n - first);
    atomic_store_explicit(&r->tail, tail + n, memory_order_release);
    return n;
}

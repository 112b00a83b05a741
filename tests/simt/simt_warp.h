/* Operations of a warp's lanes together: shuffles and votes. CUDA C++ programming guide, "Warp shuffle functions".
 *
 * All lanes that the mask names must come; each brings a value and gets the value of its source lane. A
 * shuffle moves registers only: it does not order memory (the guide says so), so the race check does not count it as a
 * barrier. */
#pragma once

extern "C" {
/** Wait for the lanes of the mask; returns the value of lane `source`. */
uint64_t simt_warp_exchange(struct simt_site *, unsigned mask, uint64_t value, int source);
/** The lanes of the mask whose predicate is not zero. */
unsigned simt_warp_ballot(struct simt_site *, unsigned mask, int predicate);
/** All 32 lanes bring a pointer (`mine`). The last lane calls together() with all pointers before any lane
 *  continues. */
void simt_warp_together(struct simt_site *, void *mine, void (*together)(void *const lanes[32]));
unsigned simt_warp_active(void);
int simt_lane(void);
}

template <class T> SIMT_MACHINE inline T simt_shuffle(struct simt_site *site, unsigned mask, T value, int source) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "a shuffle moves up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = simt_warp_exchange(site, mask, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Segments of `width` lanes are independent; a source outside of the lane's own segment means the lane itself. Only xor
 * may read from an earlier segment. */
template <class T>
inline T simt_shuffle_idx(struct simt_site *site, unsigned mask, T value, int source, int width = 32) {
    int first = simt_lane() & ~(width - 1);
    return simt_shuffle(site, mask, value, first + (source & (width - 1)));
}
template <class T>
inline T simt_shuffle_up(struct simt_site *site, unsigned mask, T value, unsigned delta, int width = 32) {
    int lane = simt_lane(), first = lane & ~(width - 1), source = lane - (int)delta;
    return simt_shuffle(site, mask, value, source < first ? lane : source);
}
template <class T>
inline T simt_shuffle_down(struct simt_site *site, unsigned mask, T value, unsigned delta, int width = 32) {
    int lane = simt_lane(), last = lane | (width - 1), source = lane + (int)delta;
    return simt_shuffle(site, mask, value, source > last ? lane : source);
}
template <class T> inline T simt_shuffle_xor(struct simt_site *site, unsigned mask, T value, int bits, int width = 32) {
    int lane = simt_lane(), last = lane | (width - 1), source = lane ^ bits;
    return simt_shuffle(site, mask, value, source > last ? lane : source);
}

/* Macros, because each place in the text is a site; arguments (mask, value, lane or distance[, width]). */
#define __shfl_sync(...) simt_shuffle_idx(SIMT_SITE("__shfl_sync"), __VA_ARGS__)
#define __shfl_up_sync(...) simt_shuffle_up(SIMT_SITE("__shfl_up_sync"), __VA_ARGS__)
#define __shfl_down_sync(...) simt_shuffle_down(SIMT_SITE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...) simt_shuffle_xor(SIMT_SITE("__shfl_xor_sync"), __VA_ARGS__)

#define __ballot_sync(mask, predicate) simt_warp_ballot(SIMT_SITE("__ballot_sync"), (mask), (predicate) != 0)
#define __any_sync(mask, predicate) ((int)(simt_warp_ballot(SIMT_SITE("__any_sync"), (mask), (predicate) != 0) != 0))
#define __all_sync(mask, predicate) ((int)(simt_warp_ballot(SIMT_SITE("__all_sync"), (mask), (predicate) == 0) == 0))
#define __activemask() simt_warp_active()

/* The time of an all-to-all: links of senders and of receivers. See incast.h. */
#include "lessons/14-experts/incast/incast.h"

#include <inttypes.h>

static double larger(double a, double b) { return a > b ? a : b; }

static double message(double bytes, const struct incast_link *link) {
    return bytes > 0 ? link->alpha_s + bytes * link->beta_s : 0;
}

enum status incast_table(int n, int experts, const int64_t *choices, double row_bytes, double *bytes) {
    if (experts % n) return FAIL(E_CONFIG, "%d ranks do not divide %d experts", n, experts);
    for (int i = 0; i < n * n; i++) bytes[i] = 0;
    for (int r = 0; r < n; r++)
        for (int e = 0; e < experts; e++)
            bytes[r * n + e / (experts / n)] += (double)choices[r * experts + e] * row_bytes;
    return OK;
}

enum status incast_bound(int n, const double *bytes, const struct incast_link *link, double *seconds) {
    *seconds = 0;
    for (int r = 0; r < n; r++) {
        double out = 0, in = 0;
        for (int q = 0; q < n; q++) {
            if (q == r) continue;
            out += message(bytes[r * n + q], link);
            in += message(bytes[q * n + r], link);
        }
        *seconds = larger(*seconds, larger(out, in));
    }
    return OK;
}

enum status incast_rounds(int n, const double *bytes, const struct incast_link *link, double *seconds) {
    *seconds = 0;
    for (int k = 1; k < n; k++) {
        double longest = 0;
        for (int r = 0; r < n; r++) longest = larger(longest, message(bytes[r * n + (r + k) % n], link));
        *seconds += longest;
    }
    return OK;
}

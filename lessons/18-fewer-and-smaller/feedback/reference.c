/* Signs with error feedback. A code's error is added to the next gradient, so that it is sent later and not lost:
 *
 *     sum of all sent numbers  +  the residual  =  sum of all gradients
 *
 * This holds for any codec if the residual is computed from exactly the numbers that the receiver decodes. */
#include "lessons/18-fewer-and-smaller/feedback/feedback.h"

#include <math.h>
#include <string.h>

int64_t feedback_bytes(int64_t n) { return 4 + (n + 7) / 8; }

/* The mean of |term|, as the float that the receiver gets. */
static float scale_of(const float *term, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs((double)term[i]);
    if (!isfinite(sum)) return NAN;
    return n ? (float)(sum / (double)n) : 0;
}

enum status feedback_encode(const float *gradient, int64_t n, float *residual, unsigned char *code) {
    for (int64_t i = 0; residual && i < n; i++) residual[i] += gradient[i];
    const float *term = residual ? residual : gradient;
    const float s = scale_of(term, n);
    memset(code, 0, (size_t)feedback_bytes(n));
    memcpy(code, &s, sizeof s);
    for (int64_t i = 0; i < n; i++) {
        const bool minus = term[i] < 0;
        code[4 + i / 8] |= (unsigned char)(minus << i % 8);
        if (residual) residual[i] -= minus ? -s : s;                 /* term is residual: its sign is read before */
    }
    return OK;
}

enum status feedback_decode(const unsigned char *code, int64_t n, float *x, bool add) {
    float s;
    memcpy(&s, code, sizeof s);
    for (int64_t i = 0; i < n; i++) {
        const float sent = code[4 + i / 8] >> i % 8 & 1 ? -s : s;
        x[i] = add ? x[i] + sent : sent;
    }
    return OK;
}

enum status feedback_all_reduce(const struct group *group, float *x, int64_t count, struct feedback *f) {
    const int n = group_size(group), me = group_rank(group);
    const int64_t b = feedback_bytes(coded_part(count, n)), own = coded_own_count(count, n, me);
    float *mine = x + coded_first(count, n, me);
    struct comm_request request;
    memset(f->sent, 0, (size_t)(n * b));
    for (int r = 0; r < n; r++) {
        const int64_t first = coded_first(count, n, r);
        float *left = f->residual ? f->residual + first : NULL;
        TRY(feedback_encode(x + first, coded_own_count(count, n, r), left, f->sent + r * b));
    }
    TRY(comm_all_to_all_start(group, f->sent, f->got, b, UINT8, &request));
    TRY(comm_wait(&request));
    for (int r = 0; r < n; r++) TRY(feedback_decode(f->got + r * b, own, mine, r > 0));
    memset(f->sent, 0, (size_t)b);
    TRY(feedback_encode(mine, own, f->sum_residual, f->sent));
    TRY(comm_all_gather(group, f->sent, f->got, b, UINT8));
    for (int r = 0; r < n; r++)
        TRY(feedback_decode(f->got + r * b, coded_own_count(count, n, r), x + coded_first(count, n, r), false));
    return OK;
}

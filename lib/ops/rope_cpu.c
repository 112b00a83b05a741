/* Rotate pairs of channels. See rope.h. All heads and samples share a position's cosines and sines. */
#include "lib/ops/cpu.h"
#include "lib/ops/rope.h"

kernel CPU(rope_forward), CPU(rope_backward_input);

/* Pairs that a thread processes at a time. */
enum { PAIRS = COLUMNS };

static void speeds(const struct call *call) { rope_speeds(&call->step->rope, rope_sizes(call).pairs, call->work); }

/* scale: of both. */
static void angles(real *cosine, real *sine, double scale, const double *speed, int64_t place, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double angle = (double)place * speed[i];
        cosine[i] = (real)(scale * cos(angle)), sine[i] = (real)(scale * sin(angle));
    }
}

/* n pairs of one head: to = or += `from`, rotated. The two channels of a pair are `half` apart. */
static void turn(elem *to, const elem *from, const real *cosine, const real *sine, int64_t n, int64_t half, int add) {
#pragma omp simd /* `to` is `from` itself, or does not overlap it */
    for (int64_t i = 0; i < n; i++) {
        real x = load(from[i]), y = load(from[i + half]);
        put(to + i, x * cosine[i] - y * sine[i], add);
        put(to + i + half, y * cosine[i] + x * sine[i], add);
    }
}

/* The same, of neighbors. */
static void turn_neighbors(elem *to, const elem *from, const real *cosine, const real *sine, int64_t n, int add) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real x = load(from[2 * i]), y = load(from[2 * i + 1]);
        put(to + 2 * i, x * cosine[i] - y * sine[i], add);
        put(to + 2 * i + 1, y * cosine[i] + x * sine[i], add);
    }
}

static void copy(elem *to, const elem *from, int64_t n, int add) {
    for (int64_t i = 0; i < n && (to != from || add); i++) put(to + i, load(from[i]), add);
}

/* Rotate all heads of all samples at local position t. way: 1 forward, -1 backward. */
static void turn_position(const struct call *call, const elem *x, elem *y, int64_t t, int way, int add) {
    struct rope_sizes s = rope_sizes(call);
    int64_t place = axis_global(&call->in[0].type->shape.axis[1], t);
    const double *speed = call->work, scale = rope_attention(&call->step->rope);
    real cosine[PAIRS], sine[PAIRS];
    for (int64_t first = 0; first < s.pairs; first += PAIRS) {
        int64_t n = min64(PAIRS, s.pairs - first);
        angles(cosine, sine, scale, speed + first, way * place, n);
        for (int64_t b = 0; b < s.B; b++)
            for (int64_t h = 0; h < s.turned; h++) {
                int64_t head = ((b * s.T + t) * s.heads + h) * s.D, at = head + s.first + first * s.step;
                if (s.apart == 1) turn_neighbors(y + at, x + at, cosine, sine, n, add);
                else turn(y + at, x + at, cosine, sine, n, s.apart, add);
                if (first == 0) copy(y + head, x + head, s.first, add);
            }
    }
    for (int64_t b = 0; b < s.B; b++) {
        int64_t at = ((b * s.T + t) * s.heads + s.turned) * s.D;
        copy(y + at, x + at, (s.heads - s.turned) * s.D, add);
    }
}

enum status CPU(rope_forward)(const struct call *call) {
    speeds(call);
#pragma omp parallel for
    for (int64_t t = 0; t < rope_sizes(call).T; t++)
        turn_position(call, call->in[0].data, call->out[0].data, t, 1, false);
    return OK;
}

enum status CPU(rope_backward_input)(const struct call *call) {
    int add = accumulates(call, 0);
    speeds(call);
#pragma omp parallel for
    for (int64_t t = 0; t < rope_sizes(call).T; t++)
        turn_position(call, call->dout[0].data, call->din[0].data, t, -1, add);
    return OK;
}

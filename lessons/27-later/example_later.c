/* ranks: 1
 *
 * The effects of sending later on functions of one number (lesson 27).
 *
 *   apart      replicas r with losses a_r (w - c_r)^2 / 2 take H steps each, then average: to which w do they converge?
 *   stale      w -= rate g(w of `age` updates ago), g(w) = w: up to which rate does w converge?
 *   waiting    four workers with a bound: the clocks that they finish in 800 units of time
 *
 * The bound is the reference of the exercise. */
#include "lessons/27-later/bound/bound.h"

#include <math.h>
#include <stdio.h>

static const double PI = 3.14159265358979323846;

/* ---- apart ---- */
enum { REPLICAS = 2 };
static const double STEEP[REPLICAS] = {1, 4}, CENTRE[REPLICAS] = {0, 1};

static double round_of(double w, int H, double rate) {
    double mean = 0;
    for (int r = 0; r < REPLICAS; r++) {
        double own = w;
        for (int h = 0; h < H; h++) own -= rate * STEEP[r] * (own - CENTRE[r]);
        mean += own / REPLICAS;
    }
    return mean;
}

/* In a round replica r covers the fraction p_r = 1 - (1 - rate a_r)^H of its distance to c_r. At convergence
 * sum p_r (w - c_r) = 0. */
static double at_rest(int H, double rate) {
    double sum = 0, weights = 0;
    for (int r = 0; r < REPLICAS; r++) {
        double p = 1 - pow(1 - rate * STEEP[r], H);
        sum += p * CENTRE[r], weights += p;
    }
    return sum / weights;
}

static void apart(void) {
    const double rate = 0.05;
    printf("where H steps apart end, of losses (w - 0)^2 / 2 and 4 (w - 1)^2 / 2; together they are least at 0.8\n"
           "    H     played    formula\n");
    for (int H = 1; H <= 256; H *= 4) {
        double w = 0;
        for (int n = 0; n < 4000; n++) w = round_of(w, H, rate);
        printf("%5d   %8.4f   %8.4f\n", H, w, at_rest(H, rate));
    }
}

/* ---- stale ---- */
enum { MOST_AGE = 64 };
static bool rests(int age, double rate) {
    double past[MOST_AGE + 1];
    for (int i = 0; i <= age; i++) past[i] = 1;
    for (int n = 0; n < 40000; n++) {                       /* past[n % (age + 1)]: w of `age` updates ago */
        int oldest = n % (age + 1), newest = (n + age) % (age + 1);
        past[oldest] = past[newest] - rate * past[oldest];
        if (!(fabs(past[oldest]) < 1e6)) return false;
    }
    return fabs(past[0]) < 1;
}

static void stale(void) {
    printf("\nthe largest rate at which a gradient that is `age` updates old still comes to rest\n"
           "  age     played    2 sin(pi / (4 age + 2))\n");
    for (int age = 0; age <= 31; age = 2 * age + 1) {
        double low = 0, high = 4;
        for (int i = 0; i < 20; i++) {
            if (rests(age, (low + high) / 2)) low = (low + high) / 2;
            else high = (low + high) / 2;
        }
        printf("%5d   %8.3f   %8.3f\n", age, low, 2 * sin(PI / (4 * age + 2)));
    }
}

/* ---- waiting ---- */
enum { WORKERS = 4, TIME = 800 };
/* If `always`, worker 3 is always 8 times slower. Otherwise each worker is slow in one clock of eight, in turns. */
static int length_of(bool always, int w, int64_t clock) {
    if (always) return w == WORKERS - 1 ? 8 : 1;
    return clock % 8 == 2 * w ? 8 : 1;
}

/* ends[w]: the time at which w pushes; -1 while w waits. */
static enum status play(bool always, int64_t staleness, int64_t *least, int64_t *all) {
    struct bound b = {.n_workers = WORKERS, .staleness = staleness};
    int64_t ends[WORKERS];
    bool go[BOUND_MOST];
    for (int w = 0; w < WORKERS; w++) b.clocks[w] = INT64_MAX, ends[w] = length_of(always, w, 0);
    for (int64_t now = 1; now <= TIME; now++)
        for (int w = 0; w < WORKERS; w++) {
            if (ends[w] != now) continue;
            ends[w] = -1;
            for (int event = 0; event < 2; event++) {                /* its push, then its next request */
                if (event == 0) TRY(bound_pushed(&b, w, b.finished[w], go));
                else TRY(bound_asked(&b, w, go));
                for (int v = 0; v < WORKERS; v++)
                    if (go[v]) ends[v] = now + length_of(always, v, b.finished[v]);
            }
        }
    *least = bound_slowest(&b), *all = 0;
    for (int w = 0; w < WORKERS; w++) *all += b.finished[w];
    return OK;
}

static enum status waiting(void) {
    static const int64_t bounds[] = {0, 1, 3, 16, INT64_MAX};
    printf("\nclocks after 800 units of time, of the slowest worker and of all four\n"
           "staleness   one is always slow   each is now and then\n");
    for (int i = 0; i < 5; i++) {
        int64_t least[2], all[2];
        char name[16];
        for (int k = 0; k < 2; k++) TRY(play(k == 0, bounds[i], &least[k], &all[k]));
        snprintf(name, sizeof name, i < 4 ? "%d" : "none", (int)bounds[i]);
        printf("%9s   %8d %9d   %9d %10d\n", name, (int)least[0], (int)all[0], (int)least[1], (int)all[1]);
    }
    return OK;
}

int main(void) {
    apart();
    stale();
    enum status status = waiting();
    status_report();
    return status_exit_code(status);
}

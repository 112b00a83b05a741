/* Six runs with one cause of lost time each, drawn by a learner's name: example_planted.c makes their traces, and
 * causes/test_causes.c grades what the learner has read in them. The draws are no secret; they teach nothing. */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum cause { SLOW_RANK, BUBBLE, SMALL_MESSAGES, ONE_BUCKET, TP_BETWEEN, RECOMPUTE, UNEVEN_STAGES, N_CAUSES };
enum { N_TRACES = 6, PLANTED_RANKS = 4 };

/* name: as the learner writes it. has_rank: the answer names a rank. off: by how much the number may be off, up or
 * down; counts are exact. sign: what the trace would show. */
static const struct cause_row { const char *name; bool has_rank; double off; const char *sign; } CAUSES[N_CAUSES] = {
    {"slow-rank", true, 0.8, "one rank would wait least, and be in no lane for long between its steps"},
    {"bubble", false, 0, "stages would be alike, and all ranks would receive for long"},
    {"small-messages", false, 0, "lane dp would have about a collective for each parameter, and they would be late"},
    {"one-bucket", false, 0, "lane dp would have one collective a step, which begins when backward is over"},
    {"tp-between-nodes", false, 0, "there would be a lane tp, and ranks would stand still for most of what is in it"},
    {"recompute", false, 0, "there would be rows called replay"},
    {"uneven-stages", true, 0, "one stage would work while the others receive"},
};

/* A trace's cause, and the options for train that plant it; rank -1: none. */
struct planted { enum cause cause; int rank; double number; char options[256]; };

/* FNV-1a of "name/what". */
static inline uint32_t planted_hash(const char *name, const char *what) {
    uint32_t h = 2166136261u;
    for (const char *c = name; *c; c++) h = (h ^ (uint8_t)*c) * 16777619u;
    h = (h ^ '/') * 16777619u;
    for (const char *c = what; *c; c++) h = (h ^ (uint8_t)*c) * 16777619u;
    return h ^ h >> 15;
}
static inline int planted_draw(const char *name, enum cause cause, const char *what, int n) {
    char key[64];
    snprintf(key, sizeof key, "%s %s", CAUSES[cause].name, what);
    return (int)(planted_hash(name, key) % (uint32_t)n);
}

/* The cause of trace 1 to 6: causes in the order of their hashes. */
static inline enum cause planted_cause(const char *name, int trace) {
    for (int c = 0; c < N_CAUSES; c++) {
        int before = 0;
        uint32_t own = planted_hash(name, CAUSES[c].name);
        for (int i = 0; i < N_CAUSES; i++) {
            uint32_t other = planted_hash(name, CAUSES[i].name);
            before += other < own || (other == own && i < c);
        }
        if (before == trace - 1) return (enum cause)c;
    }
    return N_CAUSES;
}

static inline void planted_split(int heavy, int rank, char text[32]) {
    int n = 0;
    for (int r = 0; r < PLANTED_RANKS; r++)
        n += snprintf(text + n, 32 - (size_t)n, r ? ",%d" : "%d", r == rank ? heavy : 1);
}

/* The trace of this name and number, 1 to 6. */
static inline struct planted planted_of(const char *name, int trace) {
    static const int factors[] = {4, 9, 20}, microbatches[] = {2, 3, 4, 6};
    struct planted p = {.cause = planted_cause(name, trace), .rank = -1};
    int layers = 4 + 2 * planted_draw(name, p.cause, "layers", 3), pick = planted_draw(name, p.cause, "pick", 3);
    int rank = planted_draw(name, p.cause, "rank", PLANTED_RANKS);
    char split[32] = "";
    const char *fast = "--link-between 100us,1GB/s,rank", *dp = "--dp 4 --bucket-mb 0.06";
    switch (p.cause) {
    case SLOW_RANK:
        p.rank = rank, p.number = factors[pick];
        snprintf(p.options, sizeof p.options, "--layers %d %s %s --inject slow=%d,%d", layers, dp, fast, rank,
                 factors[pick]);
        break;
    case BUBBLE:
        p.number = microbatches[planted_draw(name, p.cause, "pick", 4)];
        snprintf(p.options, sizeof p.options, "--layers 8 --pp 4 --micro-batch %d %s", 24 / (int)p.number, fast);
        break;
    case SMALL_MESSAGES:
        p.number = 12 * layers + 4;
        snprintf(p.options, sizeof p.options,
                 "--layers %d --dp 4 --bucket-mb 0.00001 --link-between 1ms,1GB/s,rank", layers);
        break;
    case ONE_BUCKET:
        p.number = 8704 + 12704 * layers + 64;                     /* parameters: hidden 32, vocab 256, seq 16 */
        snprintf(p.options, sizeof p.options,
                 "--layers %d --dp 4 --bucket-mb 100 --link-between 100us,10MB/s,rank", layers);
        break;
    case TP_BETWEEN:
        p.number = 4 * layers + 4;
        snprintf(p.options, sizeof p.options,
                 "--layers %d --tp 2 --dp 2 --bucket-mb 0.06 --link-between 2ms,1GB/s,rank", layers);
        break;
    case RECOMPUTE:
        p.number = 8 * layers;
        snprintf(p.options, sizeof p.options, "--layers %d %s %s --recompute full", layers, dp, fast);
        break;
    default:
        p.rank = rank, p.number = 4 + pick;
        planted_split(4 + pick, rank, split);
        snprintf(p.options, sizeof p.options, "--layers %d --pp 4 --pp-split %s --micro-batch 1 %s", 7 + pick, split,
                 fast);
    }
    return p;
}

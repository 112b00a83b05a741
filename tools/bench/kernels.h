/* Timing of single ops on a GPU: a case, and the makers of cases. See kernels.c. */
#pragma once

#include "lib/device/device.h"
#include "lib/ops/op.h"

enum { MAX_SETS = 16, MAX_OPERANDS = 2 * (MAX_IN + MAX_OUT + MAX_WEIGHTS) };

/* Sizes that cases are made for. */
struct sizes { const char *model; int64_t B, T, C, H, V, L; };

/* A timed case: run(case, i) queues its op once on set i of the operands. */
struct bench_case {
    char name[64], shape[64];
    enum status (*run)(const struct bench_case *, int set);
    double bytes, flops;             /* of one run: memory traffic with perfect caches; multiply-adds count two */
    bool memory_bound;               /* the case should come near the copy bandwidth */
    int n_sets;
    const struct device *device;
    void *memory;                    /* one allocation, holds all sets */
    int64_t memory_bytes;
    struct tensor result[2];         /* of set 0; checked after the runs: all elements are numbers */
    int n_results;
    void *self;
};

/* small: sizes as small as possible, to try the program on an emulated GPU; else real sizes. */
struct scale { int64_t rotate_bytes; int samples; double sample_s; bool small; };

/** Random numbers in device memory; operands are copied from them. */
struct pool { const struct device *device; void *normal_bf16, *normal_fp32, *uniform_fp32; int64_t bytes; };
enum status pool_init(struct pool *, const struct device *, int64_t bytes);
void pool_fini(struct pool *);
/** Fill n bytes (a multiple of 8) at `to` from one of the pool's blocks; `turn` chooses where in the block to begin. */
enum status pool_fill(const struct pool *, void *to, const void *block, int64_t n, int64_t turn);

typedef enum status case_maker(struct bench_case *, const struct pool *, const struct sizes *, const struct scale *);

extern case_maker large_product, adamw_case, norm_case;
/** All cases, in the order of the table; NULL ends them. */
extern case_maker *const case_makers[];
/** Free a case's memory. (A maker that has nothing to time, because a library is missing, leaves the name empty.) */
void bench_case_fini(struct bench_case *);

/* Which algorithm cuBLASLt takes for a product: what was found to be fastest, for --gemm-algorithms.
 *
 * The library offers several algorithms for a product, first the one that its heuristics rank highest. Time says
 * which is the fastest. But times differ from run to run, and another algorithm sums in another order. So the winners
 * are kept in a file, and every rank takes what the file says, in this run and in later ones. This table holds them in
 * memory: it is filled before the first step (lib/run/products.c), and then only read.
 *
 * A product that is not in the table has the library's first algorithm, as all have without the option. */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { GEMM_PRODUCT_TEXT = 128, GEMM_ALGORITHM_BYTES = 64 };

/* product: sizes, types, epilogue and alignments, as text. first_s: of the algorithm that the library names first. */
struct gemm_choice {
    char product[GEMM_PRODUCT_TEXT];
    unsigned char algorithm[GEMM_ALGORITHM_BYTES];   /* cublasLtMatmulAlgo_t, which a file may keep */
    double seconds, first_s;
    bool used;                                       /* by a row of this run */
};

/** The table: n of them, borrowed until the next call that changes it. */
const struct gemm_choice *gemm_choices(int *n);
/** NULL: it is not in the table. Borrowed, as above. */
const struct gemm_choice *gemm_choice_find(const char *product);
/** Add a choice. A product that is in the table keeps its algorithm; it is used if either is. */
void gemm_choice_add(const struct gemm_choice *);
/** Is it in the table? Then it is used. */
bool gemm_choice_use(const char *product);
/** Forget all but the first n. */
void gemm_choices_keep(int n);
/** A version number. It changes with each change of the table, and after a timing that has added rows; plans of an
 *  older version are dropped (gemm_cuda.c). */
int64_t gemm_choices_version(void);
/** Hash of the products in use and their algorithms, without their times; 0: none. */
uint64_t gemm_choices_hash(void);

/** From now on gemm_cuda_run does not multiply: what is not in the table is timed and put there. Its C holds anything
 *  after that, and is not read. */
void gemm_choices_time(bool on);
bool gemm_choices_timing(void);

/** What cublasLtGetVersion says; 0: this build has no CUDA. A file of another version is not for this one. */
int64_t gemm_library_version(void);
/** The same, only in builds with CUDA. */
int64_t gemm_cuda_version(void);

/** Time n candidates, first the library's first, and put the fastest into the table (gemm_time_cuda.c; only in builds
 *  with CUDA). Another than the first is taken where it saves a hundredth at least.
 *  @param run queue candidate i on the device's stream; its refusal leaves it out, and the first may not refuse
 *  @errors E_DEVICE */
struct device;
struct gemm_candidates {
    const struct device *device;
    const char *product;
    int n;
    const unsigned char (*algorithm)[GEMM_ALGORITHM_BYTES];
    void *self;
    enum status (*run)(void *self, int i);
};
enum status gemm_cuda_time(const struct gemm_candidates *);

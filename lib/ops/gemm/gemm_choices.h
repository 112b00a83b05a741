/* The table of choices: the algorithm of cuBLASLt that was the fastest for each product, for --gemm-algorithms.
 *
 * The library offers several algorithms for a product, first the one that its heuristics rank highest. Time says
 * which is the fastest. But times differ from run to run, and another algorithm sums in another order. So the winners
 * are kept in a file, and every rank uses them, in this run and in later ones. This table holds the winners in memory:
 * it is filled before the first step (lib/run/products.c), and then only read.
 *
 * A product that is not in the table has the library's first algorithm. Without the option the table is empty. */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { GEMM_PRODUCT_TEXT = 128, GEMM_ALGORITHM_BYTES = 64 };

/* product: sizes, types, epilogue and alignments, as text. first_s: seconds of the algorithm that the library ranks
 * first. */
struct gemm_choice {
    char product[GEMM_PRODUCT_TEXT];
    unsigned char algorithm[GEMM_ALGORITHM_BYTES];   /* a cublasLtMatmulAlgo_t, which a file may store */
    double seconds, first_s;
    bool used;                                       /* by a row of this run */
};

/** The table, of n choices. Borrowed until the next call that changes it. */
const struct gemm_choice *gemm_choices(int *n);
/** The choice for a product; NULL: the table has none. Borrowed, as above. */
const struct gemm_choice *gemm_choice_find(const char *product);
/** Add a choice. If the table has the product already, its algorithm stays. The entry is used if either choice is. */
void gemm_choice_add(const struct gemm_choice *);
/** Is the product in the table? If so, mark it as used. */
bool gemm_choice_use(const char *product);
/** Drop all choices but the first n. */
void gemm_choices_keep(int n);
/** A version number. It changes with each change of the table, and after a timing that has added rows; plans of an
 *  older version are dropped (gemm_cuda.c). */
int64_t gemm_choices_version(void);
/** Hash of the products in use and their algorithms, without their times; 0: none. */
uint64_t gemm_choices_hash(void);

/** From now on gemm_cuda_run does not multiply: it times products that are not in the table, and adds them. C then
 *  holds arbitrary numbers, and is not read. */
void gemm_choices_time(bool on);
bool gemm_choices_timing(void);

/** The result of cublasLtGetVersion; 0: this build has no CUDA. A file of another version is not used. */
int64_t gemm_library_version(void);
/** gemm_library_version, only in builds with CUDA. */
int64_t gemm_cuda_version(void);

/** Time n candidates, first the library's first, and put the fastest into the table (gemm_time_cuda.c; only in builds
 *  with CUDA). A later candidate wins only if it is at least a hundredth faster than the first.
 *  @param run queues candidate i on the device's stream; a candidate that it refuses is left out, except the first
 *  @errors E_DEVICE, also if the first is refused */
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

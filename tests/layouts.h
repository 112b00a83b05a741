/* Layouts to try, a serial run as their reference, and the meaning of "the same" (docs/architecture.md, promises 1 and
 * 2). */
#pragma once

#include "lib/run/run.h"

enum { PARITY_STEPS = 3, MAX_PARAMS = 256 };

/* A small plan in which nothing divides by accident: vocabulary 131 is prime, 8 layers, 8 heads, sequences of 8,
 * dropout on, clipping active. Adam's eps is 1e-6: the key third of the qkv bias has a zero gradient, and a smaller eps
 * turns its rounding noise into updates. */
struct plan parity_plan(void);

/** Give the run the demonstration text, opened once. @errors E_DATA */
enum status layout_use_demo(struct run *);

/** Settle the plan for this world, and create its run on the demonstration text. @collective{world} */
enum status layout_open(struct run *, struct plan, enum run_watch);

/* The numbers of a run that tests compare: per step the loss, the norm and every gradient; the weights at the end. */
struct reference {
    struct run run;
    double loss[PARITY_STEPS], norm[PARITY_STEPS];
    double *grad[PARITY_STEPS][MAX_PARAMS], *weight[MAX_PARAMS];   /* by global element, as double */
};
/** Train `plan` (a layout of one rank) on the demonstration text. @collective{world} */
enum status reference_init(struct reference *, const struct plan *);
/** As reference_init; `before` is called before each step. @collective{world} */
typedef enum status before_step(struct run *, void *self);
enum status reference_init_with(struct reference *, const struct plan *, before_step *before, void *self);
void reference_fini(struct reference *);

/* The worst over all ranks. Relative differences of a tensor are max|difference| / max|reference|. */
struct difference {
    double loss, norm, grad, weight;   /* loss and grad: over all steps; first_: of the first step */
    double first_loss, first_grad;
    double weight_absolute;
    double memory;                     /* bytes by which a role's measured mark differs from the plan of that rank,
                                        * computed by rank 0 */
    double wire;                       /* relative difference of the ledger's bytes from the bill, and of the number
                                        * of operations, over all axes */
    double padding;                    /* largest weight beyond the vocabulary: must stay zero */
    uint64_t bits;                     /* hash of this rank's losses and weights: two equal runs have equal bits */
};
/** Train the layout and compare. @collective{world} */
enum status layout_compare(const struct plan *, const struct reference *, struct difference *);

/** Does the layout equal the serial run in fp64: loss, norm, gradients and weights within 1e-10, no byte off, no
 *  padding trained? settled: the status of plan_settle. If not, rank 0 prints the differences.
 *  @collective{world} */
bool layout_is_serial(const struct plan *, enum status settled, const struct reference *);
/** Compare memory and wire of a run that has done n_steps, a multiple of exchange.every; rank 0 gets the memory of
 *  all ranks.
 *  @collective{world} */
enum status layout_compare_bytes(const struct run *, int n_steps, struct difference *);
/** max |x - reference| over this rank's own elements of a param, reference by global element. @collective{none} */
double layout_own_difference(const struct run *, const struct param *, bool gradient, const double *reference);

/** The plan in one of N_COMPANIES layouts of this world that go through all techniques: zero 1 to 3, offload, every
 *  recompute, sp, interleaved, pipelines that split backward or run both ways, each with the world's factors given to
 *  dp, tp and pp in another order. Microbatches of 2; not settled. */
enum { N_COMPANIES = 16 };
struct plan layout_in_company(struct plan, int company);
/** The company with a pipeline in it, and this schedule (pp_schedule_at). */
struct plan layout_scheduled_in_company(struct plan, int company, int schedule);

/* Layouts that are compared with a reference; those that differ are counted. */
struct layout_tally { const struct reference *reference; int failed; };
typedef void layout_try(struct layout_tally *, struct plan);
/** Settle the layout, and count it unless it is the serial run (layout_is_serial). @collective{world} */
void layout_try_settled(struct layout_tally *, struct plan);

/** Compare with the serial run of a plan, by `try`: all companies; `others`, which the caller lists; and with LONG=1
 *  every layout that `takes` accepts (NULL: none). @return how many differ; -1: the serial run fails, and its error is
 *  printed  @collective{world} */
struct layout_tries { layout_try *try; void (*others)(struct layout_tally *, layout_try *);
                      bool (*takes)(const struct plan *); };
int layouts_differ(const struct plan *serial, const struct layout_tries *);

/** "dp2 tp2 pp2 1f1b micro2 split 3,5". Static storage. */
const char *layout_name(const struct plan *);

/** LONG=1: try all, where a test otherwise tries a covering choice. */
bool layouts_want_all(void);

/** Call visit for every legal layout of `world` ranks: factorisations, schedules, microbatch sizes, stage splits. */
void layouts_each(const struct plan *base, int world, void (*visit)(void *, const struct plan *), void *self);

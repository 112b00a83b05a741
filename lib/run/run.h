/* A training run of one rank: compile (pure), create (memory, groups), step, evaluate. */
#pragma once

#include "lib/base/exact.h"
#include "lib/data/data.h"
#include "lib/device/disk.h"
#include "lib/program/exec.h"
#include "lib/run/optim_blocks.h"
#include "lib/run/recipe.h"

/* How closely a run watches its own memory. */
enum run_watch {
    WATCH_NOTHING,
    WATCH_PEAKS,       /* arenas start full of canaries, from which run_measure finds the high-water mark of each
                        * role. Steps are not slower; on CUDA each product and attention writes 8 bytes more */
    WATCH_LIFETIMES    /* for tests: as WATCH_PEAKS, and values are filled with NaN when they die, so that a later read
                        * shows in the loss. Steps are slower */
};

/* The phases of a step, in their order. */
enum run_phase {
    PHASE_CLEAR, PHASE_SCHEDULE, PHASE_LOSS, PHASE_BACKWARD_END, PHASE_COMBINE, PHASE_UNSCALE, PHASE_NORM, PHASE_UPDATE,
    PHASE_PUBLISH, N_PHASES
};
/** @return the name of a phase, as in "clear gradients" */
const char *run_phase_name(enum run_phase);

struct subscription { enum event_kind kind; subscriber *fn; void *self; };

/* A function that gets the program after the build and after every rewrite, for `show program`. name: of the model, or
 * of the technique that has rewritten. */
typedef void rewrite_watcher(void *self, const char *name, const struct program *);

/* Doubles that a step computes and reads on the device. The host reads copies of some after the step. */
enum run_scalar {
    SCALAR_LOSS,         /* after the sum over the mesh: the mean loss of a token of the global batch */
    SCALAR_AUX_LOSS = SCALAR_LOSS + SUM_AUX_LOSS,    /* this and the next two: exec's other sums (exec.h) */
    SCALAR_EXPERT_LOAD = SCALAR_LOSS + SUM_EXPERT_LOAD, SCALAR_DROPPED = SCALAR_LOSS + SUM_DROPPED,
    SCALAR_SQUARES,      /* the squares of all gradients, still scaled, summed over norm_axis */
    SCALAR_MESH_SQUARES, /* the squares summed over the mesh: finite if all gradients are finite */
    SCALAR_NORM, SCALAR_MULTIPLIER,   /* results of optimizer_decide */
    SCALAR_OVERFLOW,     /* fp16: not 0 if a gradient is not finite */
    SCALAR_LOSS_OVERFLOW,   /* not 0 if the loss is not finite */
    N_SCALARS
};

/* What a step reports. */
struct step_result {
    double loss;
    double grad_norm, clip_factor;       /* over the ranks of norm_axis; NaN after a skipped step */
    double lr;
    double loss_scale;                   /* of this step's gradients; exec.loss_scale is for the next step */
    /* 0 in a model without experts (moe_route.h). aux_loss: the routers' part of the loss; expert_load: the tokens of
     * the fullest expert divided by the mean, averaged over groups and layers; dropped: the fraction of dropped
     * choices. */
    double aux_loss, expert_load, dropped;
};

/* A started step: its numbers on the host, and the addresses of its numbers on the device. */
struct step_record {
    struct step_result result;           /* lr and loss_scale are set at the start, the rest at the end */
    int64_t n_step, n_update;
    double unscale;
    bool settled;                        /* the two sums are known, and the update is correct (update.h) */
    struct comm_request loss, squares;   /* sums over the mesh that are in flight */
    double loss_numbers[EXACT_NUMBERS], square_numbers[EXACT_NUMBERS];   /* exact sums (--sums fixed) */
    double *on_device, *scalars;         /* [N_SCALARS] each; scalars: the copy on the host, valid after the mark */
    struct device_mark mark;
};
enum { STEPS_AHEAD = 2 };              /* two steps may be started and not finished */

/* The body of a step. A technique that updates weights itself replaces it at attach. The function writes loss and norm
 * to step->on_device, and sets exec.since_flush to 0 after a step that leaves all ranks with equal weights (flush_at).
 */
struct step_loop { enum status (*step)(struct run *, void *self, struct step_record *); void *self; };

/* A running evaluation (evaluate.c). */
struct evaluation {
    int64_t first;                       /* the first sample of the running batch */
    char unread[512];                    /* the error of the first sample that this rank could not read; "": none */
    void *kept;                          /* what own_samples.see_scores keeps, from malloc; freed with the evaluation */
};

struct run {
    struct plan plan;                    /* with this rank's place */

    /* Set by run_compile, and constant after it. */
    const struct recipe *recipe;
    const struct technique *active[MAX_TECHNIQUES];
    int n_active, n_stem;                /* the first n_stem precede the pipeline (struct run_stem) */
    struct program program;
    struct chunk *chunks;
    struct schedule schedule;
    struct memory_plan memory;
    struct bill bill;
    struct optim_blocks blocks;          /* the blocks of the offloaded params' update */

    /* Set by run_create: memory, groups, and the addresses of a step's numbers. */
    const struct device *device;
    struct mesh mesh;
    struct arena arenas[N_TIERS][N_ROLES];
    struct disk *disk;                   /* this rank's file in TIER_DISK, or NULL */
    struct exec exec;                    /* .loss_at: [N_SCALARS] on the device, of the last step that was started */
    double *health;                      /* on the device: the sum of all losses and norms of all steps. Once it is
                                          * NaN, no weight changes */
    void *reduce_work;
    struct comm_request *combining;      /* one for each param (combine.h) */
    struct optim_offload *offload;       /* NULL: no param is offloaded */

    /* Set by the techniques when they attach, at the end of run_create. */
    void *self[MAX_TECHNIQUES];
    struct subscription *subscriptions;
    int n_subscriptions;
    int64_t comm_taken;                  /* bytes of the techniques' part of the comm arena that are in use */
    int64_t work_taken[N_TIERS];         /* and of their parts of the work arenas */
    struct step_loop loop;               /* step NULL: run_step's own body */
    enum mesh_axis norm_axis;            /* the ranks over which the norm is summed: all, or one replica's (local) */
    bool may_skip;                       /* a technique handles non-finite gradients, which otherwise end the run */

    /* Set by the driver between steps: the data, and the step at which the pipeline drains. */
    struct data_split train, val;
    double data_s;                       /* seconds in which steps have waited for their samples so far */
    int64_t first_sample;                /* the sample at which step 0 would start, if all steps had this run's batch */
    /* For schedules without a flush (versions.h): the step after which the pipeline must be drained. Do not raise it
     * while the pipeline is filled. A past value drains every step. */
    int64_t flush_at;

    /* Set by every step that is started. */
    int64_t n_step;                      /* steps started: the next one's number, from 0 */
    int64_t n_update;                    /* steps that updated the weights: Adam's t */
    int64_t n_redone;                    /* updates that were repeated after a wrong guess (update.h) */
    struct step_record record[STEPS_AHEAD];
    int n_started;                       /* steps started and not finished: at most STEPS_AHEAD */
    double unscale;                      /* 1 / loss_scale: the factor that undoes the loss scale */
    bool skipped;                        /* GRAD_UNSCALE found an overflow on some rank: this step updates nothing */
    bool apart;                          /* replicas have different weights now: do not save them */
    double update_s;                     /* time in optim_squares and optim_step, with their events (profile.h) */

    /* Set by every step that is finished, and by an evaluation. */
    int64_t n_done;                      /* steps finished */
    struct step_result last;             /* of the last finished step */
    struct evaluation *evaluation;       /* the running evaluation, or NULL in training */
};

/** Do all work that needs no device and no peer: build, check, rewrite, lower, schedule, plan memory, bill. After every
 *  rewrite, check the program's types (lib/types/types.h). Any process can compile any rank. The plan must be settled;
 *  scratch is planned for its `threads` (0 counts as 1). watcher may be NULL; it is called with watcher_self.
 *  @errors E_CONFIG from the techniques, E_MEMORY; E_INTERNAL: not settled, or types that do not fit
 *  @collective{none} */
enum status run_compile(struct run *, const struct recipe *, const struct plan *, int rank, rewrite_watcher *watcher,
                        void *watcher_self);
/* The compiled parts that all stages of a plan share: the program before the pipeline's rewrite, the programs of stages
 * compiled so far, and all schedules. Plans that differ only in options of techniques after the pipeline share them,
 * too, because no technique reads another's options. Zero-initialize. */
struct run_stem { struct plan key; int n_stages; struct program whole, *stages; struct schedule *schedules; };
/** run_compile for the first rank of a stage; the stem keeps the parts that the next call may share. It is for pricing
 *  and does not check types.  @errors as run_compile  @collective{none} */
enum status run_compile_stage(struct run *, const struct recipe *, const struct plan *, int stage, int n_stages,
                              struct run_stem *);
void run_stem_fini(struct run_stem *);
/** Does this rank's plan stay within --memory-limit? Pure. @errors E_MEMORY  @collective{none} */
enum status run_check_memory(const struct run *compiled);
/** Compile for this rank, allocate, initialize the parameters, attach. The layout has as many ranks as the world, or
 *  one rank. With one, every process runs it alone (the serial run, the reference for comparisons). threads=0: OpenMP's
 *  present number. All ranks return the status of the first failing rank (fail_agree).
 *  @collective{world} @errors E_CONFIG, E_MEMORY, E_COMM */
enum status run_create(struct run *, const struct recipe *, const struct plan *, enum run_watch);
/** The second half of run_create, for a driver that inspects the compiled run first: groups, memory, parameters,
 *  attach. If the layout leaves ranks of the world unused, these ranks call run_idle at the same time. The call can
 *  fail on one rank alone, so the ranks must agree (fail_agree, fail_share) before the first step.
 *  @collective{world} @errors E_MEMORY, E_COMM */
enum status run_open(struct run *compiled, enum run_watch);
/** Take part in making the groups, on a rank outside the layout, while the others call run_open. Only run_destroy works
 *  on the result.  @collective{world} @errors E_MEMORY, E_COMM */
enum status run_idle(struct run *, const struct plan *);
/** Free a run. Also works after a failed run_create, after run_compile alone, and after run_idle.
 *  @collective{mesh, after run_create} */
void run_destroy(struct run *);

/** Set the data of training and evaluation; borrowed files. val may have 0 tokens. */
void run_set_data(struct run *, const struct data_split *train, const struct data_split *val);

/** Run one optimizer step: forward and backward of n_microbatches, then sum, clip and apply the gradients. The results
 *  are in run.last.
 *  @collective{mesh} @errors E_NUMERIC: the loss or the norm is not finite (and no weight has changed); E_TIMEOUT,
 *  E_COMM */
enum status run_step(struct run *);
/** The two halves of run_step. Start queues the step; on a GPU it returns long before the step is done. Finish waits
 *  for the oldest started step, and fills in run.last. A second step may be started before the first is finished, so
 *  that the GPU never waits for the host, and a stage never waits for other stages (run_overlaps). Then a failure shows
 *  one step later, but no weight has changed since (except in schedules without a flush). With a loss scale (may_skip)
 *  only one step may be started, because the host must know whether to skip.
 *  @collective{mesh} @errors E_INTERNAL: too many started steps; as run_step */
enum status run_step_start(struct run *);
enum status run_step_finish(struct run *);

/** Does a step end without waiting for all ranks (update.h)? Then starting a second step also helps on a CPU. */
bool run_overlaps(const struct run *);

/** Compute the mean loss of a token over the first n_batches global batches of the validation split (0: the whole
 *  split, with a ragged last batch), without dropout. If one rank cannot read a sample, every rank returns E_DATA after
 *  the last batch; nothing is printed, and training can continue.
 *  @collective{mesh} @errors E_DATA, the same on every rank; E_TIMEOUT, E_COMM */
enum status run_evaluate(struct run *, int64_t n_batches, double *loss);
/** Called after each batch except the last. Sets *ends, equally on all ranks, to end the evaluation here. */
typedef enum status evaluation_watcher(void *self, bool *ends);
/* loss, auc: NaN unless all batches were evaluated; auc is also NaN unless the model reads clicks. unread: after
 * E_DATA, true if all ranks finished the last batch; false if one rank left a batch while the others wait for it. */
struct evaluated { double loss, auc; int64_t batches, all; bool unread; };
/** run_evaluate that the watcher may end early. @collective{mesh} @errors as run_evaluate; of the watcher */
enum status run_evaluate_until(struct run *, int64_t n_batches, evaluation_watcher *, void *self,
                               struct evaluated *out);
/** Check, before the first step of a new run, that the model's vocabulary has the tokens of the first batch. Each rank
 *  checks a share.  @collective{mesh} @errors E_DATA, as data_sample */
enum status run_check_first_batch(const struct run *);
/** Check, before the first step, that an evaluation of n_batches can read its samples. Each rank checks a share.
 *  @collective{mesh} @errors E_DATA, of which the first failing rank warns (fail_warn) */
enum status run_check_validation(const struct run *, int64_t n_batches);

/** The number of samples used by the finished steps, or by all steps before `step` (from 0). Both include the samples
 *  of the runs that this run resumes. */
int64_t run_samples_used(const struct run *);
int64_t run_samples_before(const struct run *, int64_t step);
/** Make the next step begin with this sample of the shuffled order. Call it between steps, equally on all ranks. */
void run_go_on_at_sample(struct run *, int64_t sample);

/** Take uninitialized memory of the comm arena for a technique, until the run ends. Techniques take it in the order of
 *  attaching; together they may take the bytes that their cost() requested. Blocks are adjacent: a size that is no
 *  multiple of ARENA_ALIGN misaligns the next block.
 *  @errors E_INTERNAL: more than was planned */
enum status run_take_comm(struct run *, int64_t bytes, void **out);
/** The same of a tier's work arena (bill.technique_work_bytes). It starts as zeros on the device; in host memory at the
 *  start of a page (DISK_PAGE).  @errors E_INTERNAL: more than was planned */
enum status run_take_work(struct run *, enum tier, int64_t bytes, void **out);

/** Call the subscribers of an event that is of no param. A step calls them itself; those of the state, before reading
 *  or loading it, EVENT_STATE_READ and EVENT_STATE_REPLACED.  @collective{none} @errors those of the subscribers */
enum status run_emit(struct run *, enum event_kind);

/** Refuse to run with more OpenMP threads than scratch was planned for, because kernels would write past the scratch.
 *  @errors E_INTERNAL  @collective{none} */
enum status run_check_threads(const struct run *);

/** Measure the high-water mark of each role in bytes, in every tier. @errors E_INTERNAL under WATCH_NOTHING */
enum status run_measure(const struct run *, int64_t bytes[N_TIERS][N_ROLES]);
/** The device that copies a tier's bytes: the run's device, the host, or the run's file. */
static inline const struct device *run_tier_device(const struct run *r, enum tier tier) {
    return tier == TIER_DEVICE ? r->device : tier == TIER_HOST ? device_cpu() : disk_device(r->disk);
}

/** The device that has the gradients' memory; all gradients are in one tier. */
static inline const struct device *run_grad_device(const struct run *r) {
    return run_tier_device(r, r->program.n_params ? r->program.params[0].grad_tier : TIER_DEVICE);
}

/** The scalars of the step that was started last, on the device: [N_SCALARS]. */
static inline double *run_scalars(const struct run *r) { return r->exec.loss_at; }

/** Wait for a mark; `what` names its work in messages. @collective{none} @errors E_DEVICE, E_TIMEOUT, E_COMM */
enum status run_wait(const struct run *, const struct device_mark *, const char *what);

/** Wait for the device, and copy one of the run's scalars from on_device to *value. @collective{none}
 *  @errors E_DEVICE, E_TIMEOUT */
enum status run_read_scalar(struct run *, const double *on_device, double *value);

/* ---- optim.c: functions queue their work on the device, in order, and do not wait for it ---- */
/** Compute this rank's SCALAR_SQUARES, so that over all ranks each gradient element counts once. @collective{none}
 *  @errors E_MEMORY, E_DEVICE */
enum status optim_squares(struct run *);
/** Compute this rank's squares as exact numbers (exact.h); gradients must be fp32. @collective{none} */
void optim_exact_squares(struct run *, double numbers[EXACT_NUMBERS]);
/** Find whether an own gradient, or the loss, is not finite on some rank. Waits for the device. @collective{mesh}
 *  @errors E_MEMORY, E_DEVICE, E_TIMEOUT, E_COMM */
enum status optim_non_finite(struct run *, bool *found);
/** @return min(1, clip / (norm + 1e-6)), or 1 if clip is 0, as in PyTorch and Megatron */
double optim_clip_factor(double norm, double clip);
/** Update the own elements, as update n_update of the record, with the record's rate. Gradients are multiplied by its
 *  SCALAR_MULTIPLIER; if that is NaN, nothing changes. @collective{none} @errors E_MEMORY, E_DEVICE */
enum status optim_step(struct run *, const struct step_record *);
/** The optimizer's settings of the plan, for update `step` (from 1) and this rate. @param multiplier on the device */
struct optimizer_settings optim_settings(const struct plan *, double lr, int64_t step, const double *multiplier);

/* ---- init.c ---- */
/** Initialize this rank's params. A value is a pure function of (seed, name, global element). Moments are zero.
 *  @errors E_MEMORY, E_DEVICE */
enum status params_initialise(struct run *);

/* A training run of one rank: compile (pure), create (memory, groups), step, evaluate. */
#ifndef TRIVIUM_RUN_RUN_H
#define TRIVIUM_RUN_RUN_H

#include "lib/data/data.h"
#include "lib/program/exec.h"
#include "lib/run/technique.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a run is made from; the driver composes one (driver/recipe.h). */
struct recipe {
    enum status (*build)(const struct plan *, struct program *);   /* the model */
    const struct technique *const *techniques;                     /* in the order of rewriting */
    int n_techniques;
};
enum { MAX_TECHNIQUES = 16 };

/* How closely a run looks at its own memory. */
enum run_watch {
    WATCH_NOTHING,
    WATCH_PEAKS,       /* arenas start full of canaries: the high-water mark of each role can be measured; steps cost the same */
    WATCH_LIFETIMES    /* and values are painted with NaN when they die, so that a read after death shows: slower, for tests */
};

struct subscription { enum event_kind kind; subscriber *fn; void *self; };

/* Seen after every rewrite, by `show program`. `name` is "gpt" for the model itself. */
typedef void rewrite_watcher(void *self, const char *name, const struct program *);

struct run {
    struct plan plan;                    /* with this rank's place */
    const struct recipe *recipe;
    struct program program;
    struct chunk *chunks;
    struct schedule schedule;
    struct memory_plan memory;
    struct bill bill;
    const struct technique *active[MAX_TECHNIQUES];
    void *self[MAX_TECHNIQUES];
    int n_active;
    int n_threads;                       /* OpenMP threads that scratch was planned for: no more may run */

    /* from here on: set by run_create */
    const struct device *device;
    struct mesh mesh;
    struct arena arenas[N_ROLES], host_arenas[N_ROLES];
    struct exec exec;
    struct subscription *subscriptions;
    int n_subscriptions;
    int64_t comm_taken;                  /* of the techniques' part of the comm arena */
    enum run_watch watch;

    struct data_split train, val;
    int64_t eval_first;                  /* evaluation: first sample of the batch that is running; -1 in training */

    /* results of the last step */
    int64_t n_step;                      /* steps done */
    double loss, grad_norm, clip_factor, lr;   /* of a skipped step the norm and the factor are NaN: nobody took them */
    double loss_scale;                   /* what the step's gradients were multiplied by; exec.grad_scale is the next one's */
    bool skipped;                        /* GRAD_UNSCALE found an overflow on some rank: this step updates nothing */
    bool may_skip;                       /* a technique handles non-finite gradients; without one they end the run */
    double unscale;                      /* what undoes loss_scale: gradients x unscale are the true ones */
    int64_t n_update;                    /* steps that updated: Adam's t */
};

/** Everything that needs no device and no peer: build, check, rewrite, lower, schedule, plan memory, bill. Any process can
 *  compile any rank. plan must be settled. watcher may be NULL.
 *  @errors E_CONFIG from the techniques, E_MEMORY  @collective{none} */
enum status run_compile(struct run *, const struct recipe *, const struct plan *, int rank, rewrite_watcher *watcher,
                        void *watcher_self);
/** Compile for this rank, allocate, initialise the parameters, attach. The layout has as many ranks as the world; or it has
 *  one, and then every process runs it by itself (the serial run that others are compared with).
 *  Every rank learns of a failure: all return the first failing rank's status (fail_agree).
 *  @collective{world} @errors E_CONFIG, E_MEMORY, E_COMM */
enum status run_create(struct run *, const struct recipe *, const struct plan *, enum run_watch);
/** The second half of run_create, for a driver that compiles first and decides then: groups, memory, parameters, attach. For
 *  a layout that leaves ranks of the world unused, those call run_stand_by meanwhile. Failures are each rank's own: agree
 *  (fail_agree, fail_share) before the first step.  @collective{world} @errors E_MEMORY, E_COMM */
enum status run_open(struct run *compiled, enum run_watch);
/** What a rank beyond the layout does while the others run_open: it takes part in making the groups. Nothing but run_destroy
 *  works on the result.  @collective{world} @errors E_MEMORY, E_COMM */
enum status run_stand_by(struct run *, const struct plan *);
/** Works after a failed create, a mere compile and run_stand_by, too. @collective{mesh, after run_create} */
void run_destroy(struct run *);

/** Which data the run trains on and evaluates with; borrowed files. val may have 0 tokens. */
void run_set_data(struct run *, const struct data_split *train, const struct data_split *val);

/** One optimizer step: n_microbatches forward and backward, gradients summed, clipped, AdamW. Results in the struct.
 *  @collective{mesh} @errors E_NUMERIC: the loss or the norm is not finite (before any weight changes); E_TIMEOUT, E_COMM */
enum status run_step(struct run *);

/** Mean loss a token over the validation split: n_batches global batches from its start (0: all of it, the ragged end
 *  included), dropout off. @collective{mesh} @errors E_DATA, E_TIMEOUT, E_COMM */
enum status run_evaluate(struct run *, int64_t n_batches, double *loss);

/** A piece of the comm arena for a technique, in the order of attaching; what cost() asked for in all.
 *  @errors E_INTERNAL: more than was planned */
enum status run_take_comm(struct run *, int64_t bytes, void **out);

/** Scratch was planned for as many threads as there were; with more, kernels would write past it.
 *  @errors E_INTERNAL  @collective{none} */
enum status run_check_threads(const struct run *);

/** Measured high-water mark of each role, on the device and in host memory. @errors E_INTERNAL under WATCH_NOTHING */
enum status run_measure(const struct run *, int64_t bytes[N_ROLES], int64_t host_bytes[N_ROLES]);

/* ---- own elements: what this rank updates. Address of the first, in weight / gradient ---- */
void *param_own_weight(const struct param *);
void *param_own_grad(const struct param *);

/* ---- optim.c ---- */
/** Global norm of all gradients, each element counted once over the mesh. @collective{mesh} */
enum status optim_norm(struct run *, double *norm);
/** min(1, clip / (norm + 1e-6)); 1 when clip is 0. As PyTorch and Megatron. */
double optim_clip_factor(double norm, double clip);
/** AdamW over own elements. @collective{none} */
enum status optim_step(struct run *, double lr, double grad_factor);

/* ---- init.c ---- */
/** Initial values of what this rank holds: a pure function of (seed, name, global element). Moments are zero. */
void params_initialise(struct run *);

#ifdef __cplusplus
}
#endif
#endif

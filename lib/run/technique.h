/* A technique: one row of functions. It refuses what it cannot do, rewrites the program, says what it costs, and
 * subscribes to the run's events. It never includes another technique, asks whether another is on, or whether a group
 * has size one. */
#pragma once

#include "lib/program/bill.h"
#include "lib/run/plan.h"

struct run;
struct json_t;    /* jansson.h */

/* Input of a technique's cost: the rewritten program (params have their offsets), its rows,
 * and the order in which this rank runs them. */
struct compiled { const struct program *program; const struct chunk *chunks; const struct schedule *schedule; };

/* A part of a run that only one technique can take: the first in the driver's list that is on takes the claim. */
enum claim { CLAIM_GRAD_SUM = 1, CLAIM_SCHEDULE = 2, CLAIM_OPTIM_SHARD = 4 };

/* A rank's term of an array that is a sum over the ranks, as residuals are: fp32, in the device's memory. A checkpoint
 * keeps it in the rank's own file, as the tensor "PARAM.KIND". */
struct rank_term {
    const char *param, *kind;
    struct piece piece;    /* which elements of the param; n 0: none */
    float *at;
    bool takes_sum;        /* in another layout it gets the sum of all ranks' terms, and other terms are zero */
};

/* Bytes of a parameter's weight, gradient and optimizer states. */
struct state_bytes { double weight, grad, optim; };

/* How a technique keeps the state after steps in the ranks' memories, so that train can go on when ranks die
 * (elastic/). All but is_due and leave are @collective{mesh} @errors E_MEMORY, E_DEVICE, E_COMM, E_TIMEOUT, E_EPOCH. */
struct keeper {
    enum status (*begin)(struct run *);                  /* before the first step: keep the state */
    bool (*is_due)(const struct run *, int64_t n_step);  /* is the state after it to be kept? Pure */
    enum status (*keep)(struct run *);                   /* where it is due: after the last finished step */
    enum status (*drain)(struct run *);                  /* the same, and wait: this epoch ends here. E_EPOCH */
    void (*leave)(struct run *);                         /* the kept state outlives the run */
    /* In a new epoch, @collective{world}: can all go back to a step in memory, at least as new as on_disk? Then the
     * new run takes that state. */
    enum status (*report)(const struct plan *, int64_t on_disk, bool *from_memory);
    enum status (*go_on)(struct run *);
};

/* In the order in which a run calls them; NULL members are skipped. All before attach are pure. */
struct technique {
    const char *name;
    struct own_options options;
    unsigned claims;
    bool yields;      /* if its claim is taken, this technique is skipped; otherwise the combination is refused */
    bool codes;       /* of CLAIM_GRAD_SUM: gradients travel as plan_codec says */

    /* ---- ask: while a plan is settled (plan.c), and by the driver and the planner at any time ---- */
    bool (*wanted)(const struct plan *);
    /* do steps overlap? Else NULL. The option that keeps them apart: "schedule 1f1b" */
    const char *(*asynchronous)(const struct plan *);
    /* replicas without samples, the last along dp (settle refuses dp or more) */
    int64_t (*serving)(const struct plan *);
    /* how many of `share` sequences to work on at a time, when the user leaves it open */
    int64_t (*micro_batch)(const struct plan *, int64_t share);
    /* bytes of a parameter that a rank keeps, changed from those that the techniques before it left: show params */
    void (*state_bytes)(const struct plan *, struct state_bytes *);

    /* ---- settle: plan.c; check again in compile.c and by the planner ---- */
    void (*prefer)(struct plan *);                                    /* choose what the user leaves open */
    enum status (*settle)(struct plan *);                             /* what follows from the mesh's dimensions */
    enum status (*check)(const struct plan *);                        /* refuse, with value, limit and remedy */

    /* ---- rewrite, lower, cost: compile.c ---- */
    enum status (*rewrite)(const struct plan *, struct program *);    /* edit the tables; no device */
    /* mark params by their rows, before they get their places */
    enum status (*lowered)(const struct compiled *, struct program *);
    enum status (*schedule)(const struct plan *, struct schedule *);  /* CLAIM_SCHEDULE: this rank's actions */
    enum status (*schedules)(const struct plan *, struct schedule *); /* those of all stages, zeroed, at once: [pp] */
    /* add wire and comm bytes */
    enum status (*cost)(const struct plan *, const struct compiled *, struct bill *);

    /* ---- attach: run_open.c ---- */
    enum status (*attach)(struct run *, void **self);                 /* subscribe; may allocate *self */
    void (*detach)(struct run *, void *self);

    /* ---- keep: lib/checkpoint; keeper: driver/train ---- */
    struct json_t *(*save)(const void *self);                         /* to a checkpoint, alike on all ranks; new */
    enum status (*load)(struct run *, void *self, const struct json_t *);  /* take it again. @errors E_FORMAT */
    bool (*term)(const struct run *, const void *self, int i, struct rank_term *out);   /* false: there are only i */
    const struct keeper *keeper;
};

/* One event a phase, so that the order of attaching never matters. */
enum event_kind {
    EVENT_PARAM_AHEAD,    /* a block will use the param soon (param_is_gathered; whole ones in forward only): may start
                           * filling event->buffer */
    EVENT_PARAM_NEEDED,   /* a block uses the param now: event->buffer must hold it */
    EVENT_PARAM_DONE,     /* the block is through with it */
    EVENT_GRAD_READY,     /* event->buffer holds its gradient; `final`: nothing more will be added this step */
    EVENT_NO_SAMPLES,     /* of a replica that only serves: others go forward and backward now */
    EVENT_BACKWARD_END,   /* the schedule is done: flush what is in flight */
    EVENT_GRAD_COMBINE,   /* own gradients are whole, still scaled: the run has added up what is left (combine.h) */
    EVENT_GRAD_UNSCALE,   /* look for non-finite gradients, agree to skip, set the factor that undoes the loss scale */
    EVENT_GRAD_NORM,      /* gradients are complete: the run takes the norm after this */
    EVENT_OPTIM_STEP,     /* the run has updated own elements */
    EVENT_PARAM_PUBLISH,  /* own elements have changed: other ranks must see them */
    N_EVENTS
};
struct event { enum event_kind kind; int param; void *buffer; bool final, forward; };   /* forward: of tape F's rows */
typedef enum status subscriber(struct run *, void *self, const struct event *);

/** Call fn at every event of this kind, in the order of subscribing. @errors E_MEMORY */
enum status run_subscribe(struct run *, enum event_kind, subscriber *fn, void *self);

/* A technique: one row of functions. It refuses plans that it does not support, rewrites the program, bills its cost,
 * and subscribes to the run's events. It never includes another technique's header, and never tests whether another
 * technique is on or whether a group has size one. */
#pragma once

#include "lib/program/bill.h"
#include "lib/run/plan.h"

struct run;
struct json_t;    /* jansson.h */

/* The compiled program of a rank: the rewritten program, its rows, and the order in which this rank runs them. In
 * `cost` the params have their offsets. */
struct compiled { const struct program *program; const struct chunk *chunks; const struct schedule *schedule; };

/* A part of a run that only one technique can own: the first active technique in the driver's list owns it. */
enum claim { CLAIM_GRAD_SUM = 1, CLAIM_SCHEDULE = 2, CLAIM_OPTIM_SHARD = 4 };

/* This rank's term of an array whose value is the sum of all ranks' terms; residuals of a codec are such terms. It is
 * fp32, in device memory. A checkpoint stores it in the rank's own file, as the tensor "PARAM.KIND". */
struct rank_term {
    const char *param, *kind;
    struct piece piece;    /* the elements of the param that the term has; n 0: none */
    float *at;
    bool takes_sum;        /* in another layout this term loads the sum of all ranks' terms, the others 0 */
};

/* Bytes that a parameter takes on a rank: its weight, its gradient, and its optimizer states. */
struct state_bytes { double weight, grad, optim; };

/* Functions that keep copies of the training state in the memory of ranks, so that training continues after a rank dies
 * (elastic/). All but is_due and leave are @collective{mesh} @errors E_MEMORY, E_DEVICE, E_COMM, E_TIMEOUT, E_EPOCH. */
struct keeper {
    enum status (*begin)(struct run *);                  /* copy the state before the first step */
    bool (*is_due)(const struct run *, int64_t n_step);  /* must the state after step n_step be copied? Pure */
    enum status (*keep)(struct run *);                   /* copy the state after the last finished step, if is_due */
    enum status (*drain)(struct run *);                  /* keep, and wait for the copies: the epoch ends. E_EPOCH */
    void (*leave)(struct run *);                         /* release everything except the copies, which stay */
    /* In a new epoch, @collective{world}: do the ranks together hold the state of a step that is at least as new as
     * on_disk? go_on then loads that state into the new run. */
    enum status (*report)(const struct plan *, int64_t on_disk, bool *from_memory);
    enum status (*go_on)(struct run *);
};

/* The functions stand in the order in which a run calls them. A NULL function is skipped. Those before attach are
 * pure. */
struct technique {
    const char *name;
    struct own_options options;
    unsigned claims;
    bool yields;      /* true: if its claim is taken, this technique is skipped; false: the combination is refused */
    bool codes;       /* with CLAIM_GRAD_SUM: it sends gradients in the codec of plan_codec */

    /* ---- questions: asked by plan_settle, the driver and the planner ---- */
    bool (*wanted)(const struct plan *);
    /* NULL if steps do not overlap; else the option that makes them synchronous, as in "schedule 1f1b" */
    const char *(*asynchronous)(const struct plan *);
    /* the number of replicas without samples, which are the last along dp; settle refuses a number of dp or more */
    int64_t (*serving)(const struct plan *);
    /* the size of a microbatch, of `share` sequences in a step, if the user does not set it */
    int64_t (*micro_batch)(const struct plan *, int64_t share);
    /* change the bytes of a parameter that a rank keeps; the input is the result of the techniques before. For
     * `show memory --params` */
    void (*state_bytes)(const struct plan *, struct state_bytes *);

    /* ---- settle: called by plan.c; compile.c and the planner call check again ---- */
    void (*prefer)(struct plan *);                                    /* set options that the user left open */
    enum status (*settle)(struct plan *);                             /* derive sizes from the mesh's dimensions */
    enum status (*check)(const struct plan *);                        /* refuse a plan, with value, limit and remedy */

    /* ---- rewrite, lower, cost: called by compile.c ---- */
    enum status (*rewrite)(const struct plan *, struct program *);    /* edit the program's tables, without a device */
    /* mark params by the rows that use them, before memory is planned */
    enum status (*lowered)(const struct compiled *, struct program *);
    enum status (*schedule)(const struct plan *, struct schedule *);  /* CLAIM_SCHEDULE: this rank's actions */
    enum status (*schedules)(const struct plan *, struct schedule *); /* all stages' actions; array [pp], zeroed */
    /* add the bytes that it sends and the buffers that it needs */
    enum status (*cost)(const struct plan *, const struct compiled *, struct bill *);

    /* ---- attach: called by run_open.c ---- */
    enum status (*attach)(struct run *, void **self);                 /* subscribe; may allocate *self */
    void (*detach)(struct run *, void *self);
    enum status (*report)(struct run *, void *self, struct json_t *row);  /* rank 0: keys of a step's metrics */

    /* ---- keep: called by lib/checkpoint; keeper: by driver/train ---- */
    struct json_t *(*save)(const void *self);                         /* new JSON for checkpoints, equal on all ranks */
    enum status (*load)(struct run *, void *self, const struct json_t *);  /* load save's JSON. @errors E_FORMAT */
    bool (*term)(const struct run *, const void *self, int i, struct rank_term *out);   /* false: no term i */
    const struct keeper *keeper;
};

/* Each phase of a step has its own event, so that the order in which techniques attach never matters.
 * lib/checkpoint and keepers emit the events of the state, because they read and load it. */
enum event_kind {
    EVENT_PARAM_AHEAD,    /* a block will use the param soon: a technique may start to fill event->buffer. Emitted for
                           * gathered params (param_is_gathered), and for whole params in forward */
    EVENT_PARAM_NEEDED,   /* a block uses the param now: event->buffer must hold its weight */
    EVENT_PARAM_DONE,     /* the block does not use the param again in this action */
    EVENT_GRAD_READY,     /* event->buffer holds the param's gradient; `final`: this step adds no more to it */
    EVENT_NO_SAMPLES,     /* on a replica without samples: the other replicas compute forward and backward now */
    EVENT_BACKWARD_END,   /* the schedule is done: wait for all messages in flight */
    EVENT_GRAD_COMBINE,   /* own gradients are complete, and still scaled: the run has added all parts (combine.h) */
    EVENT_GRAD_UNSCALE,   /* look for non-finite gradients, agree to skip the step, set run.unscale */
    EVENT_GRAD_NORM,      /* the run computes the gradients' norm after this event */
    EVENT_GRAD_SQUARES,   /* SCALAR_SQUARES has this rank's squares: add those of gradients that the run does not see */
    EVENT_OPTIM_STEP,     /* the run has updated own elements: update what it does not see */
    EVENT_PARAM_PUBLISH,  /* own elements have changed: send them to the other ranks */
    EVENT_STATE_READ,     /* between steps: the state is copied or saved next; updates that wait must be applied now */
    EVENT_STATE_REPLACED, /* between steps: another state is loaded next; what waits must be dropped */
    N_EVENTS
};
struct event { enum event_kind kind; int param; void *buffer; bool final, forward; };   /* forward: from tape F */
typedef enum status subscriber(struct run *, void *self, const struct event *);

/** Call fn at every event of this kind, in the order of subscribing. @errors E_MEMORY */
enum status run_subscribe(struct run *, enum event_kind, subscriber *fn, void *self);

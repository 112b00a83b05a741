/* Calibrate's measurements (calibrate.h): the peak, rows of small models, exchanges, and the cost of a shared core. */
#pragma once

#include "driver/calibrate/calibrate_gpu.h"
#include "lib/cost/fit.h"
#include "lib/run/plan.h"

/* Times of rows, by what they do: flops or bytes. */
struct rates { double *units, *seconds; int n; };
struct mover_times { const char *op; struct rates rows; };
/* On this rank. Owned; measured_fini. */
struct measured {
    double peak[N_DTYPES];
    struct timed_product *products;
    int n_products;
    struct mover_times mover[MAX_MOVERS];
    int n_movers;
    struct rates attention[2];                                       /* flops forward, backward */
    struct timed_wire *wires;
    int n_wires;
    double switch_s, cold_s;
    /* A GPU: its name, NULL on a CPU; its speeds; and products in fp32, where the others are in 16 bits. */
    const char *gpu;
    struct gpu_speeds speeds;
    struct timed_product *fp32;
    int n_fp32;
    double between_s, all_s;                                         /* quartiles of the steps of a row; of all rows */
};

/* precision, of the models; widest: channels of the widest. On a GPU one more is trained: model is its name ("": none),
 * micro its sequences in a microbatch. */
struct calibration {
    enum plan_device device;
    enum plan_precision precision;
    int widest, micro;
    const char *model;
    const struct plan *plan;             /* which transport between GPUs */
};

/** Free *out with measured_fini, also after an error.
 *  @collective{world} @errors those of run_create and run_step; E_MEMORY, E_DATA, E_DEVICE */
enum status calibrate_measure(const struct calibration *, struct measured *out);
void measured_fini(struct measured *);

/* Calibrate's measurements (calibrate.h): the peak, rows of small models, exchanges, and the cost of a shared core. */
#pragma once

#include "lib/cost/fit.h"
#include "lib/device/device.h"
#include "lib/run/plan.h"

/* A GPU's speeds that need no model: medians, in bytes per second. `copy` and `host_copy` count bytes read and bytes
 * written. */
struct gpu_speeds {
    double copy, up, down, host_copy;
    double launch_s;                     /* from one kernel of a full queue to the next */
    int64_t memory_bytes, used_bytes;    /* of the GPU; used by the context and other programs */
    int ranks;                           /* that share the GPU */
};

/* Rows of one kind: units (flops or bytes) and seconds of each row. */
struct rates { double *units, *seconds; int n; };
struct mover_times { const char *op; struct rates rows; };
/* Measurements of this rank. Fields are owned; measured_fini frees them. */
struct measured {
    double peak[N_DTYPES];
    struct timed_product *products;
    int n_products;
    struct mover_times mover[MAX_MOVERS];
    int n_movers;
    struct rates attention[2];                                       /* forward, backward; units: flops */
    struct timed_wire *wires;
    int n_wires;
    double switch_s, cold_s;
    /* gpu: its name, NULL on a CPU. fp32: products in fp32, if `products` are in 16 bits. */
    const char *gpu;
    struct gpu_speeds speeds;
    struct timed_product *fp32;
    int n_fp32;
    double between_s, all_s;                                         /* sums over rows: interquartile range; median */
};

/* precision: of the models. widest: channels of the widest model. model: the name of one more model on a GPU ("":
 * none); micro: that model's sequences per microbatch. */
struct calibration {
    enum plan_device device;
    enum plan_precision precision;
    int widest, micro;
    const char *model;
    const struct plan *plan;             /* names the transport between GPUs */
};

/** Free *out with measured_fini, also after an error.
 *  @collective{world} @errors those of run_create and run_step; E_MEMORY, E_DATA, E_DEVICE */
enum status calibrate_measure(const struct calibration *, struct measured *out);
void measured_fini(struct measured *);

/** Time copies and empty kernels by events of the compute stream. @param bytes of a copy
 *  @collective{none} @errors E_MEMORY, E_DEVICE */
enum status calibrate_gpu(const struct device *, int64_t bytes, struct gpu_speeds *out);

/* ---- the measured speeds as a cluster file: fitted constants, each with its origin (calibrate_file.c) ---- */
/** Write the cluster file, and read it back as a check. Each rank of the world has a core or a GPU. The call sets the
 *  GPU's peak in *m, and sorts its ops.  @collective{none} @errors E_IO; those of cluster_read */
enum status calibrate_write(const char *path, struct measured *, enum dtype);

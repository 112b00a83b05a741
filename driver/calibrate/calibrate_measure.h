/* What calibrate measures (calibrate.h): the peak, rows of small models, exchanges, and what a shared core costs. */
#ifndef TRIVIUM_DRIVER_CALIBRATE_MEASURE_H
#define TRIVIUM_DRIVER_CALIBRATE_MEASURE_H

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
    double between_s, all_s;                                         /* quartiles of the steps of a row; of all rows */
};

/** @param precision of the models; widest: of them, in channels. Free *out with measured_fini, also after an error.
 *  @collective{world} @errors those of run_create and run_step; E_MEMORY, E_DATA */
enum status calibrate_measure(enum plan_precision precision, int widest, struct measured *out);
void measured_fini(struct measured *);

#endif

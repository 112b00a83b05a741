#include "driver/calibrate/calibrate.h"

#include "driver/calibrate/calibrate_file.h"
#include "driver/deadline.h"
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include <math.h>
#include <stdio.h>

static const char HELP[] =
    "trivium launch -n R calibrate [--out FILE] [--precision fp32|fp64] [--widest 512]\n\n"
    "Measures what one of R cores of this machine computes, moves and exchanges while the others do the same, and "
    "writes it as a\ncluster file, FILE (this.ini): then plan --cluster FILE predicts runs on this machine, compare "
    "--cluster FILE puts prediction\nand measurement side by side, and auto decides by it. R from 2 to the number of "
    "cores; about a minute for models of up to 512 channels; nothing else should run.\nOf GPUs data sheets say it: "
    "configs/clusters/dgx-h100.ini.\n";

/* plan first: plan_options' offsets hold */
struct request { struct plan plan; struct options *options; char out[OPTION_TEXT_MAX]; int64_t widest; };
static const struct option OPTIONS[] = {
    {"out", OPTION_TEXT, "this.ini", 0, 0, NULL, "", "the file to write", "calibrate", offsetof(struct request, out)},
    {"widest", OPTION_INT, "512", 64, 8192, NULL, "channels", "the widest model that is trained; twice as wide takes "
     "four times as long", "calibrate", offsetof(struct request, widest)},
};

static enum status read_request(struct request *q, int argc, char **argv) {
    const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct plan *p = &q->plan;
    TRY(recipe_options_create(&own, q, &q->options));
    TRY(options_parse(q->options, argc, argv));
    TRY(plan_settle_device(p));
    if (p->device != PLAN_DEVICE_CPU)
        return FAIL(E_CONFIG, "calibrate measures cores; of a GPU the data sheet says as much, see "
                              "configs/clusters/dgx-h100.ini; use --device cpu");
    if (p->precision != PRECISION_FP32 && p->precision != PRECISION_FP64)
        return FAIL(E_CONFIG, "calibrate measures products in fp32 or fp64; use --precision fp32");
    int n = comm_world_size();
    double cores = comm_local_cores();
    if (n < 2 || n > cores)
        return FAIL(E_CONFIG, "calibrate with 2 ranks or more, to measure exchanges, and at most as many as cores, "
                              "for one each; here are %d ranks and %.3g cores; use trivium launch -n %.0f calibrate",
                    n, cores, fmax(2, floor(cores)));
    return OK;
}

static enum status calibrate(struct request *q, int argc, char **argv) {
    struct measured m;
    TRY(fail_agree(group_world(), read_request(q, argc, argv)));
    const struct plan *p = &q->plan;
    enum status status = calibrate_measure((enum plan_precision)p->precision, (int)q->widest, &m);
    if (status == OK)
        status = fail_agree(group_world(), comm_is_rank_0() ? calibrate_write(q->out, &m, plan_dtype(p)) : OK);
    measured_fini(&m);
    return status;
}

int calibrate_main(int argc, char **argv) {
    static struct request q;
    if (options_ask_for_help(argc, argv)) {
        fputs(HELP, stdout);
        return 0;
    }
    deadline_set_for_start(argc, argv);
    enum status status = comm_start(&argc, &argv);
    deadline_lift();
    bool started = status == OK;
    if (started) status = calibrate(&q, argc, argv);
    options_destroy(&q.options);
    status_report();
    int code = status_exit_code(status);
    if (started) comm_finish(status != E_TIMEOUT && status != E_COMM, code);
    return code;
}

#include "driver/calibrate/calibrate.h"

#include "driver/calibrate/calibrate_measure.h"
#include "driver/command.h"
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include <math.h>
#include <stdio.h>

static const char HELP[] =
    "trivium launch -n R calibrate [--out FILE] [--precision fp32|fp64] [--widest 512]\n"
    "trivium calibrate --device cuda [--out FILE] [--precision bf16|fp32] [--widest 2048] [--model NAME "
    "--micro-batch B]\n\n"
    "Measures what one of R cores of this machine computes, moves and exchanges while the others do the same, and "
    "writes it as a\ncluster file, FILE (this.ini): then plan --cluster FILE predicts runs on this machine, compare "
    "--cluster FILE puts prediction\nand measurement side by side, and auto decides by it. R from 2 to the number of "
    "cores; about a minute for models of up to 512 channels; nothing else should run.\n"
    "On a GPU: products, attention and the other ops of small models, and of two layers of --model NAME, by events;\n"
    "copies in its memory and to the host; an empty kernel. With a rank for each GPU of this host, exchanges, too.\n";

/* plan comes first, because its options' offsets count from it */
struct request { struct plan plan; struct options *options; char out[OPTION_TEXT_MAX]; int64_t widest; bool models; };
static const struct option OPTIONS[] = {
    {"out", OPTION_TEXT, "this.ini", 0, 0, NULL, "", "the file to write", "calibrate", offsetof(struct request, out)},
    {"widest", OPTION_INT, "0", 0, 8192, NULL, "channels", "the widest model that is trained, from 64; twice as wide "
     "takes four times as long; 0: 512 on a CPU, 2048 on a GPU", "calibrate", offsetof(struct request, widest)},
};

static enum status check_gpu(struct request *q) {
    const struct plan *p = &q->plan;
    int gpus = device_cuda_count();
    if (gpus == 0) return device_cuda(0, NULL);
    if (p->precision != PRECISION_BF16 && p->precision != PRECISION_FP16 && p->precision != PRECISION_FP32)
        return FAIL(E_CONFIG, "calibrate measures a GPU's products in bf16, fp16 or fp32; use --precision bf16");
    if (comm_local_size() != comm_world_size())
        return FAIL(E_CONFIG,
                    "calibrate measures the links of one host, and %d of %d ranks are on this one; use trivium launch "
                    "-n %d calibrate", comm_local_size(), comm_world_size(), gpus);
    q->models = options_source(q->options, "model") == FROM_COMMAND_LINE;
    return OK;
}

static enum status check_cores(const struct request *q) {
    static const char *const of_gpus[] = {"model", "micro-batch"};
    for (int i = 0; i < 2; i++)
        if (options_source(q->options, of_gpus[i]) == FROM_COMMAND_LINE)
            return FAIL(E_CONFIG, "--%s is for --device cuda, and this measures cores; leave it out", of_gpus[i]);
    if (q->plan.precision != PRECISION_FP32 && q->plan.precision != PRECISION_FP64)
        return FAIL(E_CONFIG, "calibrate measures products in fp32 or fp64; use --precision fp32");
    int n = comm_world_size();
    double cores = comm_local_cores();
    if (n < 2 || n > cores)
        return FAIL(E_CONFIG, "calibrate with 2 ranks or more, to measure exchanges, and at most as many as cores, "
                              "for one each; here are %d ranks and %.3g cores; use trivium launch -n %.0f calibrate",
                    n, cores, fmax(2, floor(cores)));
    return OK;
}

static enum status read_request(struct request *q, int argc, char **argv) {
    const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct plan *p = &q->plan;
    TRY(recipe_options_create(&own, q, &q->options));
    TRY(options_parse(q->options, argc, argv));
    TRY(plan_settle_device(p));
    if (q->widest == 0) q->widest = p->device == PLAN_DEVICE_CUDA ? 2048 : 512;
    if (q->widest < 64) return FAIL(E_CONFIG, "widest=%d channels; use --widest 64 or more", (int)q->widest);
    return p->device == PLAN_DEVICE_CUDA ? check_gpu(q) : check_cores(q);
}

static enum status calibrate(int argc, char **argv) {
    static struct request request;
    struct request *q = &request;
    struct measured m;
    TRY(fail_agree(group_world(), read_request(q, argc, argv)));
    const struct plan *p = &q->plan;
    const struct calibration what = {(enum plan_device)p->device, (enum plan_precision)p->precision, (int)q->widest,
                                     p->micro_batch > 0 ? (int)p->micro_batch : 1, q->models ? p->model : "", p};
    enum status status = calibrate_measure(&what, &m);
    if (status == OK)
        status = fail_agree(group_world(), comm_is_rank_0() ? calibrate_write(q->out, &m, plan_product_dtype(p)) : OK);
    measured_fini(&m);
    options_destroy(&q->options);
    return status;
}

int calibrate_main(int argc, char **argv) {
    if (!options_ask_for_help(argc, argv)) return command_main_of_ranks(calibrate, OK, argc, argv);
    fputs(HELP, stdout);
    return 0;
}

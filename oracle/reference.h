/* A reference: the results of a serial run in fp64, all inputs that another program needs to compute the same, and the
 * differences that rounding may cause.
 *
 *   DIR/model/                     the weights to start from, and config.json, as Hugging Face's transformers read them
 *   DIR/start/                     the same weights as a checkpoint, for --init
 *   DIR/tokens.json                tokens and targets of every step: [steps][samples][positions]
 *   DIR/recording.json             model, optimizer (with the rate of every step), the order of a step's tensors
 *   DIR/step-N/rank-0.safetensors  the numbers, in fp64
 *   DIR/scale-fp32.json ...        for each precision and tensor: the largest difference of SHAKEN_RUNS runs from the
 *                                  fp64 run. They are in that precision, move every result of every row by up to a
 *                                  rounding (struct shaking), and have microbatches of other sizes */
#pragma once

#include "oracle/record.h"
#include "oracle/recording.h"

enum { SHAKEN_RUNS = 8 };

/* plan: settled. fp16: the same plan in fp16 with a fixed loss scale, for the reference's scales of fp16. */
struct record_request {
    const struct recipe *recipe;
    const struct plan *plan, *fp16;
    double fp16_loss_scale;
    const struct data_split *train;
    enum record_depth depth;
    const char *folder;                  /* must exist */
};

/** Can the plan be recorded, and compared with others? reference: as a reference. Writes nothing.
 *  @errors E_CONFIG: a model without published names; a reference in fp8  @collective{none} */
enum status record_check(const struct plan *, bool reference);
/** Train, and write every rank's numbers: a recording. @collective{world} @errors those of run_create and run_step;
 *  E_CONFIG, E_IO, E_MEMORY */
enum status record_run(const struct record_request *);
/** As record_run, and write a reference's other files. The plan must have one rank, fp64 and no dropout. One
 *  process.
 *  @collective{world} @errors also E_CONFIG: another plan */
enum status record_reference(const struct record_request *);

/* ---- scales ---- */
/** "scale-fp32.json" */
void scale_path(const char *folder, enum dtype, char out[RECORDING_PATH_MAX]);
/** Read the scales of a precision. *out: a new reference. @errors E_DATA: not there; E_FORMAT  @collective{none} */
enum status scale_read(const char *folder, enum dtype, json_t **out);
/** The scale of a tensor in a step, from 1. NAN: it has none. */
double scale_of(const json_t *, int64_t step, const char *name);

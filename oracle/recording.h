/* A recording: the tensors of a training run, in files that any program can write (docs/oracle-format.md).
 *
 *   DIR/recording.json             its writer, its precision, the number of steps; a reference also has the model, the
 *                                  optimizer, and the order in which a step makes its tensors
 *   DIR/step-1/rank-0.safetensors  rank 0's part of the first step: NAME, a whole tensor, or NAME#k, a piece, whose
 *                                  place is in the file's metadata: {"first": [0, 64], "of": [128, 384]}
 *   DIR/scale-fp32.json            only in a reference: how far rounding moves each tensor (reference.h) */
#pragma once

#include "oracle/kept.h"
#include <jansson.h>

enum { RECORDING_VERSION = 1, RECORDING_PATH_MAX = 1024, RECORDING_JSON_MAX = 64 << 20 };

struct recording {
    char folder[RECORDING_PATH_MAX - 128], by[128];
    enum dtype dtype;
    int64_t steps;
    json_t *head;
};

/** Read recording.json. The caller closes *out. @errors E_DATA: not there; E_FORMAT: not such a file, or of an unknown
 *  version  @collective{none} */
enum status recording_open(const char *folder, struct recording *out);
void recording_close(struct recording *);
/** Add all ranks' pieces of a step to *out. Step 0: a reference's weights to start from, as .param.
 *  @errors E_DATA: the step is not there; E_FORMAT, E_IO, E_MEMORY  @collective{none} */
enum status recording_read(const struct recording *, int64_t step, struct kept *out);

/** Write one rank's pieces of a step, stored in fp64 if dtype is fp64, else in fp32. The step's folder must not have
 *  the file.  @errors E_IO, E_MEMORY  @collective{none} */
enum status recording_write(const char *folder, int64_t step, int rank, const struct kept *, enum dtype);
/** Write recording.json: `head` and the fields of every recording. @errors E_IO  @collective{none} */
enum status recording_write_head(const char *folder, json_t *head, enum dtype, int64_t steps);

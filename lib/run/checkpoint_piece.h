/* What a checkpoint's files hold of the params. Private to checkpoint*.c. */
#ifndef TRIVIUM_RUN_CHECKPOINT_PIECE_H
#define TRIVIUM_RUN_CHECKPOINT_PIECE_H

#include "lib/program/program.h"
#include "lib/run/piece.h"
#include "lib/run/safetensors.h"
#include <jansson.h>

/* The three tensors of a param, and what follows its name in a file. */
enum state_array { STATE_WEIGHT, STATE_MOMENT1, STATE_MOMENT2, N_STATE_ARRAYS };
extern const char *const state_suffix[N_STATE_ARRAYS];

/** What an array is stored in: weights as the optimizer keeps them, if it keeps its own. */
static inline enum dtype checkpoint_dtype(const struct param *w, enum state_array a) { return w->master || a != STATE_WEIGHT ? w->state_dtype : w->type.dtype; }
/** What this rank stores of the param; n 0: nothing. Padding at the end is left out. */
struct piece checkpoint_own_piece(const struct param *);
/** What this rank keeps of its weight. */
struct piece checkpoint_resident_piece(const struct param *);

/** {"box": [[first, n, global], ...], "run": [first, n]}, a new reference. */
json_t *checkpoint_piece_json(const struct piece *);
/** The other way round. The tags of axes are 'a', 'b', ...: only places count.
 *  @errors E_FORMAT naming `where`: not of that form, or an impossible size */
enum status checkpoint_piece_parse(const json_t *, const char *where, struct piece *out);
/** Is this tensor of the file `where` one of numbers, and has it as many as the piece? entry may be NULL: not there.
 *  @errors E_FORMAT naming file and tensor */
enum status checkpoint_piece_check(const struct piece *, const struct safetensors_entry *, const char *where, const char *name);

#endif

/* What a checkpoint's files hold of the params. Private to checkpoint*.c. */
#pragma once

#include "lib/checkpoint/safetensors.h"
#include "lib/program/program.h"
#include <jansson.h>

enum { CHECKPOINT_NAME_MAX = NAME_MAX_LEN + 48 };
/** How a file names what a replica has of its own of a param: "h0.qkv.w@2"; of the first replica, and where they are
 *  the same, "h0.qkv.w". */
void checkpoint_param_name(const struct param *, int replica, char name[CHECKPOINT_NAME_MAX]);

/** {"box": [[first, n, global], ...], "run": [first, n]}, a new reference. */
json_t *checkpoint_piece_json(const struct piece *);
/** The other way round. The tags of axes are 'a', 'b', ...: only places count.
 *  @errors E_FORMAT naming `where`: not of that form, or an impossible size */
enum status checkpoint_piece_parse(const json_t *, const char *where, struct piece *out);
/** Is this tensor of the file `where` one of numbers, and has it as many as the piece? entry may be NULL: not there.
 *  @errors E_FORMAT naming file and tensor */
enum status checkpoint_piece_check(const struct piece *, const struct safetensors_entry *, const char *where,
                                   const char *name);
/** Both, of the tensor `name` that `row` describes in a file; and whether it is of the shape of which a part is wanted.
 *  *out and *entry are filled in.  @errors E_FORMAT naming file and tensor */
enum status checkpoint_piece_find(const json_t *row, const struct safetensors *, const char *where,
                                  const char *name, const struct piece *wanted, struct piece *out,
                                  const struct safetensors_entry **entry);

/* Pieces of params in a checkpoint's files. Private to checkpoint*.c. */
#pragma once

#include "lib/checkpoint/safetensors.h"
#include "lib/program/program.h"
#include <jansson.h>

enum { CHECKPOINT_NAME_MAX = NAME_MAX_LEN + 48 };
/** The name of a param in a replica's file: "h0.qkv.w@2"; for the first replica, and if replicas are equal,
 *  "h0.qkv.w". */
void checkpoint_param_name(const struct param *, int replica, char name[CHECKPOINT_NAME_MAX]);

/** A piece as JSON: {"box": [[first, n, global], ...], "run": [first, n]}, a new reference. */
json_t *checkpoint_piece_json(const struct piece *);
/** Read a piece from JSON. The tags of its axes become 'a', 'b', ..., because only the order of axes matters.
 *  @errors E_FORMAT naming `where`: not of that form, or an impossible size */
enum status checkpoint_piece_parse(const json_t *, const char *where, struct piece *out);
/** Does this tensor of the file `where` have numbers, one for each element of the piece? entry NULL: the tensor is
 *  missing.
 *  @errors E_FORMAT naming file and tensor */
enum status checkpoint_piece_check(const struct piece *, const struct safetensors_entry *, const char *where,
                                   const char *name);
/** Parse and check the tensor `name` that `row` describes in a file, and compare its global shape with the one that is
 *  wanted. *out and *entry are filled in. @errors E_FORMAT naming file and tensor */
enum status checkpoint_piece_find(const json_t *row, const struct safetensors *, const char *where,
                                  const char *name, const struct piece *wanted, struct piece *out,
                                  const struct safetensors_entry **entry);

/* config.json by a table: every key that the model's reference reads (transformers: modeling, configuration and what
 * all models share), and what import does with it. tests/hf_keys.py holds the tables against transformers' own files.
 *
 * A key that is in no table is one that the reference does not read either: one line names those. What a file does not
 * say is what the reference takes then. */
#pragma once

#include "lib/base/status.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum hf_use {
    HF_SIZE,    /* a whole number from 1, to an int64_t; null, where `missing` is null: 0 */
    HF_FLAG,    /* true or false, to an int64_t */
    HF_MUST,    /* must be one of the values in `wanted`: the model computes no other */
    HF_READ     /* the model's own code reads it */
};

/* missing: the reference's value where the file does not say the key; NULL: it must be said. wanted: values with | in
 * between. Both are JSON, or the bare text of a string. */
struct hf_key {
    const char *names;                   /* "n_head|num_attention_heads": one key by any of its names */
    enum hf_use use;
    const char *missing, *wanted;
    size_t at;                           /* HF_SIZE, HF_FLAG: in the struct that is filled */
};

/* none: words that must be null or not said; free: words that do not change the function. NULL: no such. */
struct hf_keys {
    const struct hf_key *key;            /* ends with {NULL} */
    const char *none, *free;
};

/** Read the object by these tables into *out, whose offsets they have. where: of the object, in messages; model: what
 *  it describes, "llama". strict: a key that is in no table is refused; else one line names all of those.
 *  @param tables borrowed, ends with NULL  @errors E_FORMAT naming key, value and what it may be  @collective{none} */
enum status hf_keys_read(const char *where, const char *model, const json_t *object,
                         const struct hf_keys *const tables[], bool strict, void *out);

/** Keys that all models of transformers share. */
extern const struct hf_keys hf_keys_shared;

/** A value as messages have it: JSON, of 60 bytes at most. Static storage, of four calls. */
const char *hf_keys_show(const json_t *value);

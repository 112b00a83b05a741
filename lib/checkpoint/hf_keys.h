/* config.json by a table: every key that the reference, transformers, reads (modeling, configuration and shared code),
 * and what import does with it. tests/hf_keys.py compares the tables with transformers' own files.
 *
 * The reference does not read a key that is in no table; one line names such keys. For a key that a file lacks, the
 * table has the reference's default. */
#pragma once

#include "lib/base/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum hf_use {
    HF_SIZE,    /* a whole number from 1, to an int64_t; null is 0 if `missing` is null */
    HF_REAL,    /* a number above 0, up to 1e6, to a double; null is 0 likewise */
    HF_FLAG,    /* true or false, stored in an int64_t */
    HF_MUST,    /* must have one of the values in `wanted`: the model computes no other */
    HF_READ     /* the model's own code reads this key */
};

/* missing: the reference's default for a key that the file lacks; NULL: the key is required. wanted: allowed values,
 * separated by |. Both are JSON, or a string without quotes. missing "absent": the key may be absent, and not null. */
struct hf_key {
    const char *names;                   /* "n_head|num_attention_heads": alternative names of the key */
    enum hf_use use;
    const char *missing, *wanted;
    size_t at;                           /* HF_SIZE, HF_REAL, HF_FLAG: offset in the struct that is filled */
};

/* none: keys that must be null or absent, unless an earlier table has them; free: keys that do not change the
 * computation. NULL: no such keys. */
struct hf_keys {
    const struct hf_key *key;            /* ends with {NULL} */
    const char *none, *free;
};

/** Read the object into *out by these tables, whose offsets are in *out. where, model: for messages, the object's path
 *  and the model's name ("llama"). strict: refuse a key that is in no table; otherwise one line names such keys.
 *  @param tables borrowed, ends with NULL @errors E_FORMAT naming key, value and allowed values @collective{none} */
enum status hf_keys_read(const char *where, const char *model, const json_t *object,
                         const struct hf_keys *const tables[], bool strict, void *out);

/** The table's row of a key, by any of its names; NULL: it has none. Pure. */
const struct hf_key *hf_keys_find(const struct hf_keys *, const char *name);

/** Set the table's keys in a config.json, by their first names: HF_SIZE, HF_REAL and HF_FLAG have the values of *in,
 *  HF_MUST has the first allowed one. The caller sets those of HF_READ. Returns config; NULL: config is NULL, or there
 *  was no memory, and config is released. */
json_t *hf_keys_write(const struct hf_keys *, const void *in, json_t *config);

/* What hears of every key that a config.json says, and what becomes of it. With one, hf_config_load leaves out the keys
 * in `ignored`, and hf_keys_read hears of all keys that it refuses and goes on; the caller refuses the file. */
struct hf_watch {
    const char *ignored;                 /* "key,key" */
    void (*hear)(void *self, const char *key, const char *value, const char *became, bool refused);
    void *self;
};
/** Set the watch of all reads from now on; NULL: none. Borrowed. */
void hf_keys_watch(const struct hf_watch *);
/** Remove the keys that the watch ignores. */
void hf_keys_leave_out(json_t *config);

/** Keys that all models of transformers share. */
extern const struct hf_keys hf_keys_shared;
/** Sizes by the names that most models have, into a struct that begins with a struct checkpoint_model. */
extern const struct hf_keys hf_keys_sizes;

/** A value as JSON text for messages, of 60 bytes at most, in static storage. A text is valid for three more calls. */
const char *hf_keys_show(const json_t *value);

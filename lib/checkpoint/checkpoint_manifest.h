/* The manifest of a checkpoint, and its files. Private to checkpoint*.c. Nothing here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/safetensors.h"
#include <jansson.h>

/* file, pieces and terms: after manifest_open_shards. pieces: param -> which part of it this file has. terms: tensor ->
 * of which param, and which part of it (checkpoint_terms.h); NULL: none. */
struct shard_file {
    char name[64];
    int64_t bytes;
    uint64_t hash;
    struct safetensors *file;
    json_t *pieces, *terms;
};

/* Counts go no further: one may add to them without a thought of overflow. */
#define MANIFEST_MAX_COUNT (INT64_MAX / 4)

struct manifest {
    char folder[CHECKPOINT_PATH_MAX], path[CHECKPOINT_PATH_MAX];
    json_t *json, *names;            /* names: of the shards, as an object's keys */
    int64_t step, update, samples, seed;
    int64_t seq;                         /* the model's; 0: it does not say */
    int64_t replicas;                    /* that have moments of their own, and an outer momentum; 0: none has */
    bool weights_only;                   /* no moments: a run may begin with it, and not go on with it */
    struct shard_file *shards;
    int n;
};

/** The checksum (XXH3) of what a manifest says: of all members but "xxh3", sorted and without blanks.
 *  @errors E_MEMORY */
enum status manifest_hash(const json_t *manifest, uint64_t *out);

/** Read and check manifest.json of a step directory. Its contents may come from anybody: sizes, names and numbers are
 *  checked before they are used. manifest_fini in any case.
 *  @errors E_DATA: not there; E_FORMAT, with the path */
enum status manifest_read(struct manifest *, const char *folder);
/** The same of a text, which names no files: n shards of which nothing is known yet. label: what messages call it.
 *  @errors E_FORMAT, E_MEMORY */
enum status manifest_parse(struct manifest *, const char *label, const char *text, int n);
void manifest_fini(struct manifest *);

/** Has shard i the size and the checksum that were written down? buffer: MANIFEST_CHECK_BYTES of the caller's.
 *  @errors E_DATA: not there; E_FORMAT: cut off, appended to or damaged; E_IO */
enum status manifest_check_shard(const struct manifest *, int i, void *buffer);
enum { MANIFEST_CHECK_BYTES = 1 << 20 };

/** The same for every stride-th shard from the first: a rank's share, or all. @errors as manifest_check_shard;
 *  E_MEMORY */
enum status manifest_check_shards(const struct manifest *, int first, int stride);

/** Open all files. @errors of safetensors_open; E_FORMAT: a file does not say which parts it has */
enum status manifest_open_shards(struct manifest *);
/** What its metadata say of a shard's file, which is open. path: of it. @errors E_FORMAT: not which parts it has */
enum status manifest_read_parts(struct shard_file *, const char *path);

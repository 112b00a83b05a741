/* The manifest of a checkpoint, and its files. Private to checkpoint*.c. No function here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/safetensors.h"
#include <jansson.h>

/* One rank's file. file, pieces and terms are set by manifest_open_shards. pieces maps a param to the part of it in
 * this file; terms maps a tensor to its param and the part of it (checkpoint_terms.h); NULL: no terms. */
struct shard_file {
    char name[64];
    int64_t bytes;
    uint64_t hash;
    struct safetensors *file;
    json_t *pieces, *terms;
};

/* The largest count in a manifest, so that sums of counts do not overflow. */
#define MANIFEST_MAX_COUNT (INT64_MAX / 4)

struct manifest {
    char folder[CHECKPOINT_PATH_MAX], path[CHECKPOINT_PATH_MAX];
    json_t *json, *names;            /* names: an object whose keys are the shards' names */
    int64_t step, update, samples, seed;
    int64_t seq;                         /* of the model; 0: not in the manifest */
    int64_t replicas;                  /* replicas with moments of their own and an outer momentum; 0: there are none */
    bool weights_only;                   /* no moments: a run may begin with it, but cannot resume from it */
    struct shard_file *shards;
    int n;
};

/** The checksum (XXH3) of a manifest: of all members except "xxh3", sorted and without blanks.
 *  @errors E_MEMORY */
enum status manifest_hash(const json_t *manifest, uint64_t *out);

/** Read and check manifest.json of a step directory. The file may be hostile, so sizes, names and numbers are checked
 *  before they are used. The caller calls manifest_fini even after a failure.
 *  @errors E_DATA: there is none; E_FORMAT, with the path */
enum status manifest_read(struct manifest *, const char *folder);
/** Read and check a manifest from a text that names no files. The manifest gets n shards without sizes or checksums.
 *  label: its name in messages.
 *  @errors E_FORMAT, E_MEMORY */
enum status manifest_parse(struct manifest *, const char *label, const char *text, int n);
void manifest_fini(struct manifest *);

/** Does shard i have the recorded size and checksum? buffer: MANIFEST_CHECK_BYTES of the caller's memory.
 *  @errors E_DATA: there is no file; E_FORMAT: it is cut off, appended to or damaged; E_IO */
enum status manifest_check_shard(const struct manifest *, int i, void *buffer);
enum { MANIFEST_CHECK_BYTES = 1 << 20 };

/** Check every stride-th shard from `first` on: a rank's share, or all. @errors as manifest_check_shard; E_MEMORY */
enum status manifest_check_shards(const struct manifest *, int first, int stride);

/** Open all files. @errors of safetensors_open; E_FORMAT: a file lacks the list of its parts */
enum status manifest_open_shards(struct manifest *);
/** Read from the metadata of an open file which parts it has. path: of the file. @errors E_FORMAT: the list is
 *  missing */
enum status manifest_read_parts(struct shard_file *, const char *path);

/* The parts that a synchronous save (checkpoint_save.c) and one during training (checkpoint_async.c) share.
 * Private to checkpoint*.c. */
#pragma once

#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_piece.h"
#include "lib/checkpoint/safetensors.h"

/* Size and checksum of a rank's file, which rank 0 collects. */
struct shard { int64_t bytes; uint64_t hash; };

/* The memory of a tensor that the file stores. */
struct stored { const struct device *device; const void *at; int64_t bytes; };

struct shard_plan {
    struct safetensors_entry *entries;
    struct stored *stored;               /* one for each entry */
    int n;
    json_t *pieces;                      /* param -> the part of it in this file */
    json_t *terms;                       /* tensor -> its param, and the part of it (checkpoint_terms.h) */
};

/** List the tensors that this rank stores, and their addresses. The caller releases the plan, also after a failure.
 *  @errors E_MEMORY  @collective{none} */
enum status checkpoint_plan_shard(const struct run *, struct shard_plan *);
void checkpoint_shard_plan_fini(struct shard_plan *);
/** Write and flush the file. May run on any thread. @errors E_IO, E_MEMORY, E_DEVICE  @collective{none} */
enum status checkpoint_write_shard(const struct shard_plan *, const char *path, struct shard *out);

/** Copy the tensors of a save to `to`, which has `room` bytes of host memory. They lie one after the other, each at a
 *  multiple of ARENA_ALIGN (memory_save_bytes). @errors E_INTERNAL: too little room; E_DEVICE @collective{none} */
enum status checkpoint_take_copy(const struct shard_plan *, char *to, int64_t room);
/** Make the plan's tensors point into such a copy. @collective{none} */
void checkpoint_use_copy(struct shard_plan *, const char *copy);

/* The texts in the metadata of a rank's file. */
struct shard_texts { char *pieces, *terms; struct safetensors_pair metadata[3]; int n; };
/** Make the texts; the caller frees them, also after a failure. @errors E_MEMORY  @collective{none} */
enum status shard_texts_make(const struct shard_plan *, struct shard_texts *out);
void shard_texts_free(struct shard_texts *);

/** The manifest of the run's present state, without the shards. A new reference; NULL: no memory. */
json_t *checkpoint_manifest(const struct run *);
/** Called by rank 0 before any rank writes: remove unfinished steps from `save`, and make an empty folder for this
 *  step.
 *  @errors E_IO; E_EPOCH: another rank 0 has the folder now (checkpoint_lock.h)  @collective{none} */
enum status checkpoint_begin(const char *save, const char *unfinished);
/** Does the status say that a rank did not answer? That rank may still be writing, or hang in the file system. */
static inline bool checkpoint_is_stranded(enum status status) { return status == E_TIMEOUT || status == E_COMM; }
/** After a save failed, when no rank writes any more: rank 0 removes the step's folder, to make room for the next save.
 *  After E_EPOCH it does not, because the new epoch's rank 0 may already write there.
 *  @errors `status` itself, with its message @collective{none} */
enum status checkpoint_undo(const struct group *, const char *save, int64_t step, enum status status);
/** Called by rank 0 when all files are written: add the shards to the manifest and write it, rename the folder, write
 *  `latest`; then remove older steps. May run on any thread. @errors E_IO, E_CONFIG, E_MEMORY; E_EPOCH, as above
 *  @collective{none} */
enum status checkpoint_publish(json_t *manifest, const char *save, int64_t step, const struct shard *shards, int n,
                               int64_t keep);

/** If one rank fails, all ranks return its status and message (the first failing rank's). Nothing is printed, because
 *  the caller may go on.
 *  @collective{group}
 *  @errors that of the first rank that failed; E_TIMEOUT, E_COMM */
enum status checkpoint_agree(const struct group *, enum status mine);

/* The parts of a save, which saving at once (checkpoint_save.c) and during training (checkpoint_async.c) share.
 * Private to checkpoint*.c. */
#pragma once

#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_piece.h"
#include "lib/checkpoint/safetensors.h"

/* What rank 0 must know of every rank's file. */
struct shard { int64_t bytes; uint64_t hash; };

/* A tensor of a file: where its elements lie. */
struct stored { const struct device *device; const void *at; int64_t bytes; };

struct shard_plan {
    struct safetensors_entry *entries;
    struct stored *stored;               /* one for each entry */
    int n;
    json_t *pieces;                      /* name -> which part of the tensor */
    json_t *terms;                       /* tensor -> of which param, and which part of it (checkpoint_terms.h) */
};

/** Which tensors this rank stores, and where they lie. To be released, also after a failure. @errors
 *  E_MEMORY  @collective{none} */
enum status checkpoint_plan_shard(const struct run *, struct shard_plan *);
void checkpoint_shard_plan_fini(struct shard_plan *);
/** Write and flush the file. By any thread. @errors E_IO, E_MEMORY, E_DEVICE  @collective{none} */
enum status checkpoint_write_shard(const struct shard_plan *, const char *path, struct shard *out);

/** Copy the tensors of a save to host memory, `room` bytes of it: one tensor after the other, each at a multiple of
 *  ARENA_ALIGN (memory_save_bytes).  @errors E_INTERNAL: too little room; E_DEVICE  @collective{none} */
enum status checkpoint_take_copy(const struct shard_plan *, char *to, int64_t room);
/** From here on the plan's tensors are those of such a copy. @collective{none} */
void checkpoint_use_copy(struct shard_plan *, const char *copy);

/* What the metadata of a rank's file say. */
struct shard_texts { char *pieces, *terms; struct safetensors_pair metadata[3]; int n; };
/** To be freed, also after a failure. @errors E_MEMORY  @collective{none} */
enum status shard_texts_make(const struct shard_plan *, struct shard_texts *out);
void shard_texts_free(struct shard_texts *);

/** What the manifest says of the run as it is now, without the shards. A new reference; NULL: no memory. */
json_t *checkpoint_manifest(const struct run *);
/** Rank 0, before any rank writes: `save`, without what is unfinished there, and in it an empty folder for the step.
 *  @errors E_IO; E_EPOCH: another rank 0 has the folder by now (checkpoint_lock.h)  @collective{none} */
enum status checkpoint_begin(const char *save, const char *unfinished);
/** A rank did not answer: it is unknown what it still writes, or whether it hangs in the file system. */
static inline bool checkpoint_is_stranded(enum status status) { return status == E_TIMEOUT || status == E_COMM; }
/** After a save that failed on every rank, when no rank writes any more: rank 0 removes the step's folder, whose room
 *  the next save may need. After E_EPOCH it leaves that to the rank 0 of the new epoch, which may write there by now.
 *  @errors `status` itself, with its sentence  @collective{none} */
enum status checkpoint_undo(const struct group *, const char *save, int64_t step, enum status status);
/** Rank 0, when all files are there: the manifest (which gets the shards), the folder's own name, `latest`; then older
 *  steps are removed. By any thread. @errors E_IO, E_CONFIG, E_MEMORY; E_EPOCH, as above  @collective{none} */
enum status checkpoint_publish(json_t *manifest, const char *save, int64_t step, const struct shard *shards, int n,
                               int64_t keep);

/** A failure is every rank's, with the first failing rank's sentence; nothing is printed, as the caller may go on.
 *  @collective{group}
 *  @errors that of the first rank that failed; E_TIMEOUT, E_COMM */
enum status checkpoint_agree(const struct group *, enum status mine);

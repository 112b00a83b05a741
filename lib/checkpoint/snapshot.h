/* Snapshots: a rank's file of a checkpoint, but in memory, from which other ranks can get it.
 *
 *   0                    snapshot_text_bytes
 *   | manifest, zeros    | tensor 0  | tensor 1  | ...           each tensor at a multiple of ARENA_ALIGN
 *
 * The header, which is the text of a safetensors header, lists the tensors and their parts of the model. It is the same
 * for all snapshots of a run, so it is kept separately. Header and snapshot of every rank together are a checkpoint,
 * and are read like one, in any layout (checkpoint.h), except that the bytes are requested from the ranks that have
 * them.
 *
 * Moving. A rank does not know which bytes another rank needs, because this depends on the pieces of two layouts. So
 * the load runs twice. The first time, each read is recorded and returns zeros, and the records are sent to the ranks
 * that have the bytes. The second time, the ranks exchange the bytes in windows, in the recorded order:
 *
 *   each rank   note        records its reads from rank p, in windows of a fixed number of bytes
 *               send        sends each rank p its list
 *               read        after each window, all ranks exchange the next one
 *
 * So a rank holds one window of other ranks' bytes at a time, for any size of the model. */
#pragma once

#include "lib/run/run.h"

enum { SNAPSHOT_TEXT_BYTES = 8192, SNAPSHOT_WINDOW = 8 << 20 };

/** Room of the manifest in a rank's snapshot: SNAPSHOT_TEXT_BYTES and what techniques need. The manifest says it as
 *  "room", because the run that loads may need another one. Pure.  @collective{none} */
int64_t snapshot_text_bytes(const struct bill *);
/** Bytes of a rank's snapshot, a multiple of ARENA_ALIGN. The bill is the techniques'. Pure.  @collective{none} */
int64_t snapshot_bytes(const struct program *, const struct bill *);
/** The header of a run's snapshots. The caller frees *out. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status snapshot_header(const struct run *, char **out);
/** Copy the state after the last finished step to host memory. @errors E_MEMORY, E_DEVICE; E_INTERNAL: the manifest is
 *  longer than its room, or replicas' weights differ  @collective{none} */
enum status snapshot_take(const struct run *, char *to, int64_t bytes);

/* All snapshots of a step, the ranks that have them, and the header that they share. */
struct snapshot_set {
    int n;
    char **header;               /* [n] */
    const int *holder;           /* [n]: the snapshot's rank in the world */
    const char **here;           /* [n]: the snapshot, if this rank is its holder; otherwise NULL */
    const char *manifest;
    int64_t window;              /* bytes that a rank receives at a time: SNAPSHOT_WINDOW */
};
/** Load the state as checkpoint_load does; every rank returns the same status.
 *  @collective{world} @errors E_FORMAT: snapshots are missing, or of another model; E_MEMORY, E_DEVICE, E_COMM,
 *  E_TIMEOUT; E_EPOCH: another rank has died meanwhile */
enum status snapshot_load(struct run *, const struct snapshot_set *);

/* ---- Moves bytes of snapshots between ranks while a load reads them (overview in snapshot.h). ---- */

struct snapshot_mover;
/** The set is borrowed. @errors E_MEMORY  @collective{none} */
enum status snapshot_mover_open(const struct snapshot_set *, struct snapshot_mover **out);
void snapshot_mover_close(struct snapshot_mover **);
/** Read the load's next bytes, from offset `at` of snapshot i. If they begin a window: @collective{world}
 *  @errors E_INTERNAL: not the recorded read; E_COMM, E_TIMEOUT, E_EPOCH, E_MEMORY */
enum status snapshot_mover_read(struct snapshot_mover *, int i, int64_t at, int64_t bytes, void *to);
/** Run `load` twice. It must make the same reads both times, and must not call a collective.
 *  @collective{world} @errors those of the load, on this rank alone; E_COMM, E_TIMEOUT, E_EPOCH, E_MEMORY */
enum status snapshot_mover_run(struct snapshot_mover *, enum status (*load)(void *self), void *self);

/* Snapshots: what a rank's file of a checkpoint would be, in memory, where another rank can have it.
 *
 *   0                    SNAPSHOT_TEXT_BYTES
 *   | manifest, zeros    | tensor 0  | tensor 1  | ...           each tensor at a multiple of ARENA_ALIGN
 *
 * Which tensors there are, of which part of the model, is the header: the text of a safetensors file. It is the same
 * for all snapshots of a run, and so it is apart. Header and snapshot of every rank together are a checkpoint, and are
 * read as one, in any layout (checkpoint.h): but for its bytes, which are requested from the ranks that have them.
 *
 * Moving. No rank has a list of what another rank needs of it: that follows from pieces of two layouts. So the load
 * runs twice. First it notes what it reads, and gets zeros. The notes go to those who have the bytes. Then it reads
 * again, and meanwhile all bring each other the bytes in windows, in the order in which they were noted:
 *
 *   everybody   note        what I shall read of rank p, in windows of a fixed number of bytes
 *               send        to each p its list
 *               read        when a window has been read: the next one, from and to everybody
 *
 * So a rank has one window of others' bytes at a time, whatever the size of the model. */
#pragma once

#include "lib/run/run.h"

enum { SNAPSHOT_TEXT_BYTES = 8192, SNAPSHOT_WINDOW = 8 << 20 };

/** Bytes of a rank's snapshots: a multiple of ARENA_ALIGN. technique_save_bytes: of its bill. Pure.
 *  @collective{none} */
int64_t snapshot_bytes(const struct program *, int64_t technique_save_bytes);
/** The header of a run's snapshots. The caller frees *out. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status snapshot_header(const struct run *, char **out);
/** The state after the last finished step, in memory of the host. @errors E_MEMORY, E_DEVICE; E_INTERNAL: the manifest
 *  is longer than its room, or replicas' weights differ  @collective{none} */
enum status snapshot_take(const struct run *, char *to, int64_t bytes);

/* All snapshots of a step: the rank that has each, and what is the same in all. */
struct snapshot_set {
    int n;
    char **header;               /* [n] */
    const int *holder;           /* [n]: ranks of the world */
    const char **here;           /* [n]: the snapshot, where this rank is its holder; else NULL */
    const char *manifest;
    int64_t window;              /* bytes of others' that are brought at a time: SNAPSHOT_WINDOW */
};
/** Take the state as checkpoint_load does; every rank returns the same.
 *  @collective{world} @errors E_FORMAT: they are not whole, or of another model; E_MEMORY, E_DEVICE, E_COMM, E_TIMEOUT;
 *  E_EPOCH: another rank has died meanwhile */
enum status snapshot_load(struct run *, const struct snapshot_set *);

/* The update of offloaded params is cut into blocks, which pass through a window of host memory one after the other.
 *
 *   block     own elements of one or more params, in the order of the params; as many as fit into a slot
 *   slot      the host memory that a block has while it is read, updated and written. There are three: one block is
 *             read while another is updated and a third is written
 *   staged    an array that passes through the slot: states in a file; on a GPU also gradients and weights. States in
 *             host memory are updated in place
 *
 * Arrays in a file begin and end at page boundaries (memory.c), and a param is cut at whole pages. So with any window a
 * step reads and writes, of each staged array of a file,
 *
 *   round_up(own_n x size, DISK_PAGE)    bytes
 *
 * A weight that is the rounded master is not read. */
#pragma once

#include "lib/program/program.h"

enum { OPTIM_SLOTS = 3 };
struct block_part {
    int param;
    int64_t first, n;                    /* n of the param's own_n elements, from `first` on */
    int64_t at[N_FIXED_ARRAYS];          /* offset in the slot, bytes; -1: the array is not staged */
};
struct optim_block { int first_part, n_parts; int64_t bytes; };   /* bytes: its size in a slot */

struct optim_blocks {
    struct block_part *parts;
    struct optim_block *blocks;
    int n_parts, n_blocks;
    int64_t slot_bytes;                  /* size of a slot, a multiple of DISK_PAGE */
    int64_t bytes;                       /* size of all used slots, in host memory of role work */
    int64_t read_bytes, written_bytes;   /* of this rank's file, in one update */
};

/** Does the host update this param through the window? */
bool optim_is_offloaded(const struct program *, const struct param *);
/** Does an array of a param pass through a slot? */
bool optim_is_staged(const struct program *, const struct param *, enum fixed_array);
/** Is a staged array read into the slot before the update? Is it written back after the update? */
bool optim_array_is_read(const struct param *, enum fixed_array);
bool optim_array_is_written(enum fixed_array);

/** Cut this rank's update into blocks for slots of at most window_bytes / OPTIM_SLOTS; none if nothing is offloaded.
 *  @errors E_CONFIG: the window is too small for the least part; E_MEMORY  @collective{none} */
enum status optim_blocks_make(const struct program *, int64_t window_bytes, struct optim_blocks *out);
void optim_blocks_fini(struct optim_blocks *);

/* Megatron-LM's indexed dataset: NAME.bin holds only tokens; NAME.idx holds the place of each sequence.
 *
 *   bytes 0..8     "MMIDIDX\0\0"
 *   u64            version, 1
 *   u8             element: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
 *   u64            S, the number of sequences
 *   u64            D, the number of document indices: one more than there are documents
 *   i32 [S]        tokens of each sequence
 *   i64 [S]        byte of NAME.bin where each begins
 *   i64 [D]        0, then for each document the number of sequences up to its end
 *
 * All fields are little-endian and unaligned. Multimodal data have one more byte for each sequence; the reader refuses
 * them. The index is untrusted input: the reader checks its counts against its size, and each sequence against the size
 * of NAME.bin.
 *
 * Source: NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py (_IndexWriter, _IndexReader). */
#pragma once

#include "lib/data/data_private.h"

enum { MEGATRON_MAGIC_BYTES = 9, MEGATRON_VERSION = 1, MEGATRON_HEADER_BYTES = 34 };
extern const unsigned char megatron_magic[MEGATRON_MAGIC_BYTES];

/** The format's code of an element; 0 if the format has no such element (u32). */
int megatron_code(enum data_element);

/** "NAME.idx" for "NAME.bin"; NULL if the path does not end in ".bin" or memory is short. The caller frees it. */
char *megatron_index_path(const char *bin_path);

/** Set *mine if the part is a .bin with an index next to it, and then add its tokens. @errors E_DATA, E_FORMAT,
 *  E_MEMORY */
enum status megatron_read(struct data_file *, const struct data_part *, bool *mine);

/* Weights of Hugging Face's files in MXFP4, as GPT-OSS publishes its experts (lib/ops/block.h has the format): two
 * tensors in place of one whose last axis has n numbers.
 *
 *   NAME_blocks   U8 (..., n / 32, 16)    two codes of E2M1 a byte; the first is in the low bits
 *   NAME_scales   U8 (..., n / 32)        of each block of 32 numbers: 2^(byte - 127); 255 is NaN
 *
 * A number is code times scale. bf16 holds each exactly, from 0.5 2^-127 to 1.5 2^127; a larger one, or NaN, is an
 * error.
 *
 * Source: huggingface/transformers, integrations/mxfp4.py (convert_moe_packed_tensors); OCP Microscaling Formats (MX)
 * Specification v1.0, 2023, section 5. */
#pragma once

#include "lib/checkpoint/hf_files.h"
#include <stdbool.h>

enum { HF_BLOCK = 32, HF_BLOCK_BYTES = HF_BLOCK / 2 };

/** Does a tensor, of blocks or of plain numbers, have this shape: shape[n_axes], in elements?
 *  @errors E_FORMAT naming file, tensor, value and limit  @collective{none} */
enum status hf_check_axes(const char *path, const struct safetensors_entry *, int n_axes, const int64_t *shape);

/** Is this the name of a tensor of codes, "..._blocks"? Pure. */
bool hf_blocks_named(const char *tensor);
/** Find the scales of a tensor of codes, and check the two against `shape`, of the numbers.
 *  @errors E_FORMAT naming file, tensor, value and limit */
enum status hf_blocks_find(const struct hf_files *, const struct safetensors_entry *codes, int n_axes,
                           const int64_t *shape, struct hf_tensor *scales);
/** Read n numbers from number `first` on, both multiples of HF_BLOCK, as bf16.
 *  @errors E_FORMAT: a scale of NaN, or a number beyond bf16; E_IO */
enum status hf_blocks_read(const char *path, struct hf_tensor codes, struct hf_tensor scales, int64_t first, int64_t n,
                           uint16_t *to);

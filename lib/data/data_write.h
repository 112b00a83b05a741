/* Write token files: llm.c's .bin or Megatron's .bin and .idx, in the smallest element that the vocabulary fits in.
 *
 * The writer writes NAME.tmp-PID and renames it to NAME when it is complete. If the process is killed, NAME is the old
 * file, missing, or complete. For Megatron's two files, the old NAME.bin is removed first and the new one renamed last,
 * so that a .bin always belongs to its .idx. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum data_target { DATA_TO_LLMC, DATA_TO_MEGATRON };
struct data_writer;

/** Begin the .bin at `path`, which must end in ".bin" for Megatron. Tokens are < vocab. The element is u16 up to vocab
 *  65536, else u32 (llm.c); u16 below 65500, else i32, as in Megatron-LM (Megatron).  @errors E_IO with the system's
 *  reason; E_CONFIG: a path without ".bin"; E_MEMORY  @collective{none} */
enum status data_write_create(const char *path, enum data_target, int64_t vocab, struct data_writer **out);
/** Append tokens. @errors E_IO; E_DATA: more than 2^31 - 1 tokens in a file (llm.c) or in a sequence (Megatron);
 *  E_INTERNAL: a token < 0 or >= vocab */
enum status data_write_tokens(struct data_writer *, const int32_t *tokens, int64_t n);
/** End the document, for Megatron's index. A document without tokens is not recorded. @errors E_MEMORY */
enum status data_write_end_document(struct data_writer *);
int64_t data_write_n_tokens(const struct data_writer *);
int64_t data_write_n_documents(const struct data_writer *);
/** Flush the files to the disk (fsync) and rename them into place. *writer becomes NULL in any case; a failure leaves
 *  no temporary file.
 *  @errors E_IO; E_DATA: no tokens */
enum status data_write_finish(struct data_writer **writer);
/** Remove the temporary files and free the writer. */
void data_write_abandon(struct data_writer **);

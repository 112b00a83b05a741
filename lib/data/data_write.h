/* Token files, written: llm.c's .bin or Megatron's .bin and .idx, in the smallest element that the vocabulary fits in.
 *
 * What is written is called NAME.tmp-PID until it is whole; then it is renamed. Killed at any moment, NAME is what it
 * was, or missing, or whole (with Megatron's two files an old NAME.bin goes first and the new one comes last, so that
 * .bin and .idx belong together). */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum data_target { DATA_TO_LLMC, DATA_TO_MEGATRON };
struct data_writer;

/** Begin. `path` is that of the .bin; for Megatron it ends so. `vocab`: tokens are below it. llm.c: u16 to 65536, else
 *  u32; Megatron: u16 below 65500, else i32, as Megatron-LM itself does.  @errors E_IO with the system's reason;
 *  E_CONFIG: no such path; E_MEMORY  @collective{none} */
enum status data_write_create(const char *path, enum data_target, int64_t vocab, struct data_writer **out);
/** The next tokens. @errors E_IO; E_DATA: more than the format can count (2^31 - 1: llm.c in a file, Megatron in a
 *  sequence); E_INTERNAL: a token that is not below vocab */
enum status data_write_tokens(struct data_writer *, const int32_t *tokens, int64_t n);
/** A document ends here; Megatron's index says so. Without tokens since the last: nothing. @errors E_MEMORY */
enum status data_write_end_document(struct data_writer *);
int64_t data_write_n_tokens(const struct data_writer *);
int64_t data_write_n_documents(const struct data_writer *);
/** Flush to the disk (fsync) and give the files their names. *writer becomes NULL in any case, and after a failure
 *  nothing is left.
 *  @errors E_IO; E_DATA: no tokens */
enum status data_write_finish(struct data_writer **writer);
/** Remove what was written so far. */
void data_write_abandon(struct data_writer **);

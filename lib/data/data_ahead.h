/* Samples read ahead of the step that uses them, by a thread.
 *
 *   slots    | step n | n + 1 | ... | n + N |       a ring: before step n + 1, the samples of step n + N + 1 take the
 *                                                   place of step n's
 *
 * The thread reads samples in the order in which they were put. A step that takes a sample which the thread has not
 * begun reads the sample itself, as it does without the thread; so the thread never delays it. A step that takes a
 * sample which the thread is reading waits for the end of this read. Both samples count as late.
 *
 * A sample that cannot be read is left to the step, which then fails with the message of data_sample. The order of
 * samples may change at any time, as after a rollback: what is in a slot is only used for the sample that was put. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct data_ahead;

/* Reads a sample's words to a slot; false: the sample cannot be read. Called by two threads, for different slots. */
struct data_ahead_reader { void *self; bool (*read)(void *self, int64_t sample, int32_t *words); };

/** Start the thread, with slots of n_words each. @param room (n_slots, n_words) borrowed until data_ahead_destroy
 *  @errors E_MEMORY  @collective{none} */
enum status data_ahead_create(int64_t n_slots, int64_t n_words, int32_t *room, struct data_ahead_reader,
                              struct data_ahead **out);
/** End the thread, after the read in progress. */
void data_ahead_destroy(struct data_ahead **);

/** Have the thread read a sample into a slot, unless the slot has this sample. What was in the slot is lost. */
void data_ahead_put(struct data_ahead *, int64_t slot, int64_t sample);
/** Forget all samples, because other data follow. NULL: nothing happens. */
void data_ahead_forget(struct data_ahead *);
/** @return the words of a sample, valid until its slot is put again; NULL: the caller must read the sample, because it
 *  is in no slot or could not be read. Call it from the thread that calls data_ahead_put. */
const int32_t *data_ahead_take(struct data_ahead *, int64_t sample);

/** The number of samples taken so far, and of those that the thread had not read by then. NULL: none. */
struct data_ahead_counts { int64_t taken, late; };
struct data_ahead_counts data_ahead_counts(const struct data_ahead *);

/* Layouts that a learner chooses, for exercises: lines "N: --dp 2 --tp 4 ..." of the table that SUBMISSION names. */
#pragma once

#include "lib/run/plan.h"

enum { LAYOUT_BYTES = 512 };

/** The options of layout `number`. @errors E_IO no table; E_FORMAT no such line; E_TODO it still has a ? */
enum status layout_read(int number, char text[LAYOUT_BYTES]);

/** The plan of the words `given` and of `layout`, whose options have to be among `allowed` ("dp, tp, pp"). It is not
 *  settled.
 *  @param layout written: it is cut into words
 *  @errors E_FORMAT another option, or too many words; those of the options themselves */
enum status layout_parse(const char *given, char *layout, const char *allowed, struct plan *out);

/* The runner's report to a grader (tools/grade): which test begins, its verdict, and that the run came to its end.
 *
 * TEST_REPORT names a file that holds a token, one line. Before any test runs, rank 0 removes the token; from
 * then on the file is the report:
 *
 *   run FILE NAME              the test begins, on all ranks
 *   pass|fail|skip FILE NAME   the worst verdict of all ranks
 *   end HASH                   the last line: main has come to its end
 *
 * HASH is XXH3 (64 bits, 16 hexadecimal digits) of all lines before it, with the token as its secret. The graded code
 * runs in the same process. It may exit, or change, replace or redirect the file, but it does not have the token unless
 * it searches the memory for it. A grader accepts no report whose last line does not fit the others. */
#pragma once

#include "tests/barriers.h"

/** Take the token; on rank 0, before the other ranks can begin a test. Without TEST_REPORT it does nothing. False: the
 *  file cannot be used, and a line on stderr says why. */
bool report_open(void);
void report_begin(const char *file, const char *name);
void report_verdict(enum verdict, const char *file, const char *name);
void report_end(void);

/* What a graded test may not leave behind, and where a graded process is when it does not come back (tools/grade).
 *
 * After each test that holds, the runner asks for what this rank has left:
 *
 *   in flight   an operation that was started and never awaited: lib/comm counts them
 *   a group     that the graded file has created and that was not destroyed
 *   a leak      a block that the graded file has allocated in this test and that was not freed, unless a variable of
 *               the program, or a block that is found from one, still holds its address
 *   a write     beyond the end of such a block
 *
 * The grader links the graded file's malloc, group_create, ... to Malloc, Group_create, ... and all files' free and
 * realloc to __wrap_free and __wrap_realloc (tools/grader/build.py). New blocks hold no zeros: each byte is 0x7f.
 *
 * TEST_CPU=10 are the seconds of CPU time that a rank may compute in one test without waiting for others; TEST_WALL=58
 * are those of the whole launch. At either limit a rank that does not wait says where it is, and ends. */
#pragma once

#include <stdbool.h>

/** The limits of the environment hold from here; without them it does nothing. @collective{none} */
void graded_start(void);
/** A test begins on this rank. @collective{none} */
void graded_begin(void);
/** What this rank has left in the test; NULL: nothing. Static storage, until the next call. @collective{none} */
const char *graded_left(void);

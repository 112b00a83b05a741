/* What every fuzz target includes. A target is one file, fuzz_NAME.c, whose first line names what it is linked with:
 *
 *   /[*] parses: lib/base lib/checkpoint/safetensors_read.c [*]/       folders (all of their sources) and files
 *
 * and that defines LLVMFuzzerTestOneInput: give the bytes to a parser; if it accepts them, check the parser's promises
 * with MUST. The inputs to start from are in tests/fuzz/seeds. docs/fuzzing.md has the rest. */
#pragma once

#include "lib/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Ends the process with a line that names the broken condition, and with the newest failure's line. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) fuzz_broken(#condition, __FILE__, __LINE__);                                                 \
    } while (0)
_Noreturn void fuzz_broken(const char *condition, const char *file, int line);

/** Write the bytes to a file, for parsers that take a path. @return its path; file and text last until the next call */
const char *fuzz_file(const void *data, size_t size);

/** A folder of this process, removed at its end; and a file in it with these bytes, until the next write. */
const char *fuzz_folder(void);
void fuzz_write(const char *name, const void *data, size_t size);

/** The bytes as a text, in a block of its own size; the caller frees it. A zero byte ends the text, as in a file. */
char *fuzz_text(const uint8_t *data, size_t size);

/** A stream for output that is not read. */
FILE *fuzz_nowhere(void);

/* Numbers for a target that has no text to parse; 0 after the last byte. */
struct fuzz_bytes { const uint8_t *at; size_t left; };
uint64_t fuzz_number(struct fuzz_bytes *, int n_bytes);

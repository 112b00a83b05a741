/* What every fuzz target includes. A target is one file, fuzz_NAME.c, whose first line names what it is linked with:
 *
 *   /[*] parses: lib/base lib/checkpoint/safetensors_read.c [*]/       folders (all of their sources) and files
 *
 * and that defines LLVMFuzzerTestOneInput: give the bytes to a parser; when it accepts them, check with MUST what it
 * promises. The inputs to start from are in corpus/NAME/. docs/fuzzing.md has the rest. */
#pragma once

#include "lib/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Ends the process with a line that says what does not hold, and the newest failure's. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) fuzz_broken(#condition, __FILE__, __LINE__);                                                 \
    } while (0)
_Noreturn void fuzz_broken(const char *condition, const char *file, int line);

/** The bytes as a file, for parsers that take a path. Its path; the file and the text last until the next call. */
const char *fuzz_file(const void *data, size_t size);

/** A folder of this process, removed when it ends; and a file in it, with these bytes and until it is written again. */
const char *fuzz_folder(void);
void fuzz_write(const char *name, const void *data, size_t size);

/** The bytes as a text, in a block of its own size: to be freed. A zero byte ends the text, as it would in a file. */
char *fuzz_text(const uint8_t *data, size_t size);

/** A stream for output that is not read. */
FILE *fuzz_nowhere(void);

/* Numbers for a target that has no text to parse; 0 after the last byte. */
struct fuzz_bytes { const uint8_t *at; size_t left; };
uint64_t fuzz_number(struct fuzz_bytes *, int n_bytes);

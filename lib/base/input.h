/* Input files that a user names or another program writes.
 *
 * The path may name a FIFO, where open() waits forever, an endless device, or a file with one line of 3 GiB. So
 * input_file opens without waiting, and input_line limits the length of a line. */
#pragma once

#include "lib/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* INPUT_FILE: only regular files. INPUT_STREAM: also devices, and pipes that this process has open already (/dev/stdin,
 * or <(...) in bash). A pipe can be read only once, so it is no input for several ranks. INPUT_KEPT, added to either:
 * the process reads the file once and keeps its bytes for later opens (kept.h). */
enum input_kind { INPUT_FILE, INPUT_STREAM, INPUT_KEPT };

/** Classify the errno of a failed open. @errors E_DATA: the path is at fault; E_IO: the system is at fault
 *  @collective{none} */
enum status input_status(int error);
/** Open a file for reading. @param what text before the path in messages: "the config file "  @param out close it
 *  @errors E_DATA: no such file, no permission, or another kind of file; E_IO; E_MEMORY  @collective{none} */
enum status input_file(const char *what, const char *path, enum input_kind, FILE **out);

/* text: the line with its newline (if any) and a final 0. n: bytes before the 0; n = 0 means the end of the file.
 * number: of the line, from 1. */
struct input {
    const char *what, *path;             /* borrowed */
    FILE *file;
    char *text;
    size_t n, most;
    int64_t number;
};

/** Open a file to read lines of at most `most` bytes. @param out call input_close even after an error
 *  @errors input_file's  @collective{none} */
enum status input_open(struct input *out, const char *what, const char *path, enum input_kind, size_t most);
/** Read the next line. @errors E_FORMAT: longer than `most`, or with a zero byte; E_IO  @collective{none} */
enum status input_line(struct input *);
void input_close(struct input *);

/* Files that the user names, or that others have written.
 *
 * Such a file may be anything: a FIFO, at which open() waits without end, a device without an end, or one line of
 * 3 GiB. So it is opened without waiting, and read in lines of a limited length. */
#pragma once

#include "lib/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* INPUT_FILE: regular files alone. INPUT_STREAM: a device, too, or a pipe that this process has open already:
 * /dev/stdin, or <(...) in bash. It is read once, so not for what each rank reads. INPUT_KEPT with one of them: what
 * train reads is read once by a process, however often it is opened (kept.h). */
enum input_kind { INPUT_FILE, INPUT_STREAM, INPUT_KEPT };

/** Why a file was not opened. @param error errno  @errors E_DATA: the path is at fault; E_IO: the system
 *  @collective{none} */
enum status input_status(int error);
/** Open to read. @param what before the path in messages: "the config file "  @param out to be closed
 *  @errors E_DATA: it is not there, may not be read, or is of another kind; E_IO; E_MEMORY  @collective{none} */
enum status input_file(const char *what, const char *path, enum input_kind, FILE **out);

/* text: the line, its newline (if it has one) and a 0; n: bytes before that 0, 0: the file has ended. number: from
 * 1. */
struct input {
    const char *what, *path;             /* borrowed */
    FILE *file;
    char *text;
    size_t n, most;
    int64_t number;
};

/** Open to read lines of at most `most` bytes. @param out to be closed (input_close) in any case
 *  @errors input_file's  @collective{none} */
enum status input_open(struct input *out, const char *what, const char *path, enum input_kind, size_t most);
/** The next line. @errors E_FORMAT: it is longer, or has a zero byte; E_IO: it cannot be read  @collective{none} */
enum status input_line(struct input *);
void input_close(struct input *);

/* Shared by the tests of `trivium show`. */
#pragma once

#include "driver/commands.h"
#include <stdio.h>
#include <string.h>

/** Run `trivium show WHAT OPTIONS` (at most 32 words, separated by blanks) and capture its output.
 *  @param code written: the exit code  @return the output, which the caller frees. Needs _GNU_SOURCE, because it
 *  replaces stdout */
static inline char *show_text(const char *what, const char *options, int *code) {
    char words[512], *argv[32] = {words}, *said = NULL;
    int argc = 0;
    size_t bytes;
    snprintf(words, sizeof words, "%s %s", what, options);
    for (char *word = strtok(words, " "); word && argc < 32; word = strtok(NULL, " ")) argv[argc++] = word;
    FILE *screen = stdout;
    stdout = open_memstream(&said, &bytes);
    *code = show_main(argc, argv);
    fclose(stdout);
    stdout = screen;
    return said;
}

/* What the tests of `trivium show` share. Only they include this. */
#pragma once

#include "driver/show/show.h"
#include <stdio.h>
#include <string.h>

/** Run `trivium show WHAT OPTIONS` (words between blanks, 32 at most) and keep what it prints.
 *  @param code written: its exit status  @return to be freed. Needs _GNU_SOURCE, for stdout is put in another's
 *  place */
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

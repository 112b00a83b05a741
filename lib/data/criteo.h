/* Converts Criteo's click logs to samples. A line is
 *
 *   label TAB 13 integers TAB 26 words of hexadecimal digits        any field but the label may be empty
 *
 * An integer v becomes log(1 + max(v, 0)); an empty integer becomes 0. A word becomes row (FNV-1a hash mod V) of its
 * feature's table of V rows; an empty word becomes an empty bag. Bags have at most one id.
 * Source: Criteo Display Advertising Challenge and 1TB click logs, readme.txt; the transform is DLRM's. */
#pragma once

#include "lib/data/clicks.h"

enum { CRITEO_DENSE = 13, CRITEO_FEATURES = 26 };

/** Read the text file `from` and write its samples to `to`, for tables of `rows` rows. @param n written: samples
 *  @errors E_DATA: cannot be read; E_FORMAT: a line of another form (with its number); E_IO, E_MEMORY */
enum status criteo_convert(const char *from, const char *to, int rows, int64_t *n);

/* Criteo's click logs as samples: lines of
 *
 *   label TAB 13 integers TAB 26 words of hexadecimal digits        any field but the label may be empty
 *
 * An integer v becomes log(1 + max(v, 0)), an empty one 0. A word becomes row hash mod V of its feature's table, by
 * FNV-1a; an empty one an empty bag. Bags have one id.
 * Source: Criteo Display Advertising Challenge and 1TB click logs, readme.txt; the transform is DLRM's. */
#pragma once

#include "lib/data/clicks.h"

enum { CRITEO_DENSE = 13, CRITEO_FEATURES = 26 };

/** Read the text file `from` and write its samples to `to`, of tables of `rows` rows. *n: how many.
 *  @errors E_DATA: cannot be read; E_FORMAT: a line that is none of these (says which); E_IO, E_MEMORY */
enum status criteo_convert(const char *from, const char *to, int rows, int64_t *n);

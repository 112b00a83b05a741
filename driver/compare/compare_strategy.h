/* Strategies as text: "dp=8 | dp=8 zero=3 | tp=2 pp=2 sp".
 *
 * A bar separates strategies. Each is a list of settings separated by blanks, key=value with the names of train's
 * options, or the bare key of one that is on or off; they stand above what all strategies have in common. An empty one
 * changes nothing. */
#pragma once

#include "lib/base/option.h"

struct strategies { int n; char **text; };   /* n >= 1; blanks around each are gone */

/** @errors E_MEMORY  @collective{none} */
enum status strategies_split(const char *text, struct strategies *out);
void strategies_fini(struct strategies *);

/** Make the settings of a strategy in `options`, above the command line. number: its place from 1, for errors. known:
 *  the options that are a strategy's to set, which are train's; those of `options` beyond them are the comparison's
 *  own.
 *  @errors E_USAGE naming strategy, key and what is legal: an option that train does not have, a bad value, a key set
 *  twice
 *  @collective{none} */
enum status strategy_apply(const char *text, int number, const struct option_table *known, struct options *);

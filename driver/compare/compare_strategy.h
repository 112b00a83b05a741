/* Strategies as text: "dp=8 | dp=8 zero=3 | tp=2 pp=2 sp".
 *
 * Bars separate strategies. A strategy is a list of settings separated by blanks: key=value with the names of train's
 * options, or the bare key of a boolean option. A strategy's settings override the common ones; "" has none. */
#pragma once

#include "lib/base/option.h"

struct strategies { int n; char **text; };   /* n >= 1; without blanks at the ends */

/** @errors E_MEMORY  @collective{none} */
enum status strategies_split(const char *text, struct strategies *out);
void strategies_fini(struct strategies *);

/** Set a strategy's settings in `options`; they override the command line. number: the strategy's number from 1, for
 *  errors. known: train's options, which a strategy may set. The other options in `options` are the comparison's, and
 *  a strategy must not set them.
 *  @errors E_USAGE naming strategy, key and what is legal: an option that train does not have, a bad value, a key set
 *  twice
 *  @collective{none} */
enum status strategy_apply(const char *text, int number, const struct option_table *known, struct options *);

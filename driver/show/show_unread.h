/* Options that `trivium show` accepts for a view, and that this view reads only with another option. */
#pragma once

#include "lib/base/option.h"
#include <stdbool.h>

/* The requested part of a view: a page (out), JSON, states of a number (params), one operation (mib), a table of
 * bandwidths (crossings), rows of one algorithm (comm-algorithm). */
struct show_asked { bool out, json, params, mib, crossings, algorithm; };

/** Refuse the first given option that view `what` has no use for, by name. @errors E_USAGE @collective{none} */
enum status show_refuse_unread(const struct options *, const char *what, const struct show_asked *);

/** The same for `show memory --params`, whose formulas read few options of a run. @errors E_USAGE @collective{none} */
enum status show_params_refuse_unread(const struct options *);

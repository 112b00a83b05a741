/* Refuse options of a `trivium show` view that the view reads only together with another option. */
#pragma once

#include "lib/base/option.h"
#include <stdbool.h>

/* The requested part of a view: a page (out), JSON, states of a number (params), one operation (mib), a table of
 * bandwidths (crossings), rows of one algorithm (comm-algorithm). */
struct show_asked { bool out, json, params, mib, crossings, algorithm; };

/** Refuse the first given option that view `what` does not read. @errors E_USAGE @collective{none} */
enum status show_refuse_unread(const struct options *, const char *what, const struct show_asked *);

/** Refuse options that the formulas of `show memory --params` do not read. @errors E_USAGE @collective{none} */
enum status show_params_refuse_unread(const struct options *);

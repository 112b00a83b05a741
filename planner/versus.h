/* Clusters side by side: what a rank computes, holds, moves and costs, and what the best layout makes of it. */
#pragma once

#include "planner/search.h"
#include <stdio.h>

/** Print a column for *first and for each of `names`, a list with commas.  @param asked, fixed as for search_layouts
 *  @errors E_CONFIG: too many, or CPUs next to GPUs; those of cluster_read and search_layouts  @collective{none} */
enum status versus_print(const struct recipe *, const struct plan *asked, unsigned fixed, const struct cluster *first,
                         const char *names, int64_t ranks, FILE *);

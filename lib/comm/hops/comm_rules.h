/* --comm-algorithm: the algorithm of the collectives of each axis. */
#pragma once

#include "lib/comm/hops/hops.h"
#include "lib/comm/mesh.h"

/** Parse "auto", "library" or an algorithm's name, or a list of these by axis such as "dp=hierarchical,tp=pairwise",
 *  in which unnamed axes are auto. Pure. @errors E_CONFIG: an unknown algorithm or axis; the message lists the known
 *  ones */
enum status comm_rules_parse(const char *text, struct comm_rule rule[COMM_MAX_AXES]);
/** The algorithm of an operation under a rule; NULL: the library's, for small operations and for operations without an
 *  algorithm, unless `hops_only`. links: if not NULL, auto is the fastest algorithm on them. `group`: for the error
 *  message. The result is the same on all ranks for the same arguments. @errors E_CONFIG: the rule's algorithm cannot
 *  do the operation for this number of ranks, or on these nodes; E_MEMORY */
enum status comm_rule_choose(const struct comm_rule *, const struct hop_shape *, enum dtype, bool hops_only,
                             const struct hop_links *links, const char *group, const struct comm_algorithm **out);
/** The algorithm with the fewest simulated seconds; of equal ones the first in comm_algorithms; NULL: no algorithm has
 *  the operation. @errors E_MEMORY */
enum status comm_fastest(const struct hop_shape *, int64_t element_bytes, const struct hop_links *,
                         const struct comm_algorithm **out);
/** "pairwise", "library" or "auto". */
const char *comm_rule_name(const struct comm_rule *);

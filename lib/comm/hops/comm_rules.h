/* --comm-algorithm: the algorithm of the collectives of each axis. */
#pragma once

#include "lib/comm/hops/hops.h"
#include "lib/comm/mesh.h"

/** "auto", "library", an algorithm's name; or a list of these by axis: "dp=hierarchical,tp=pairwise", where axes that
 *  are not named are auto. Pure. @errors E_CONFIG: an unknown algorithm or axis, with those that there are */
enum status comm_rules_parse(const char *text, struct comm_rule rule[COMM_MAX_AXES]);
/** The algorithm of an operation under a rule; NULL: the library, for small operations and for those that no algorithm
 *  has, unless `hops_only`. links: if known, auto is the fastest algorithm on them; or NULL. `group`: for the error.
 *  The same on all ranks for the same arguments.
 *  @errors E_CONFIG: the rule's algorithm cannot do the operation for this number of ranks, or on these nodes;
 *  E_MEMORY */
enum status comm_rule_choose(const struct comm_rule *, const struct hop_shape *, enum dtype, bool hops_only,
                             const struct hop_links *links, const char *group, const struct comm_algorithm **out);
/** The algorithm with the least simulated seconds; of equal ones the first in comm_algorithms; NULL: none has the
 *  operation. @errors E_MEMORY */
enum status comm_fastest(const struct hop_shape *, int64_t element_bytes, const struct hop_links *,
                         const struct comm_algorithm **out);
/** "pairwise", "library" or "auto". */
const char *comm_rule_name(const struct comm_rule *);

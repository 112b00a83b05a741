/* Agreeing on a failure: all ranks leave together, and one error message is printed.
 *
 * Each rank contributes one number, rank x codes + code if it failed and the largest number if not; the minimum then
 * has both the lowest failing rank and its code. That rank prints its message; the other ranks drop their own, which
 * repeat it or follow from it.
 *
 * What breaks: after E_TIMEOUT the group has an operation in flight that its peers may never join, so no agreement over
 * it is possible: the rank reports its own failure, and its driver ends the job. */
#include "lib/base/log.h"
#include "lib/comm/comm.h"

#include <stdio.h>

static const int n_codes = N_STATUS;

/* The agreement itself failed, and its message is recorded. This rank's earlier failure is the more likely cause, so it
 * is printed, too. */
static enum status without_agreement(enum status agreement, enum status mine, const char *my_line) {
    if (mine != OK) log_warn("before that: %s", my_line);
    return agreement;
}

struct first_failure { int rank; enum status code; }; /* code OK: no rank failed */

static enum status find_first(const struct group *group, enum status mine, struct first_failure *out) {
    char my_line[1024];
    snprintf(my_line, sizeof my_line, "%s", status_text()); /* the exchange below may record another message */
    int32_t first = mine == OK ? INT32_MAX : group_rank(group) * n_codes + (int32_t)mine;
    enum status agreement = comm_all_reduce(group, &first, 1, INT32, COMM_MIN);
    if (agreement != OK) return without_agreement(agreement, mine, my_line);
    if (first == INT32_MAX) *out = (struct first_failure){0, OK};
    else *out = (struct first_failure){first / n_codes, (enum status)(first % n_codes)};
    return OK;
}

/* speak: how the lowest failed rank prints its message. */
static enum status agree(const struct group *group, enum status mine, void (*speak)(void)) {
    struct first_failure first;
    if (mine == E_EPOCH) return mine;
    if (mine == E_TIMEOUT) {
        status_report();
        return mine;
    }
    TRY(find_first(group, mine, &first));
    if (first.code == OK) return OK;
    if (first.rank == group_rank(group)) speak();
    status_clear();
    return first.code;
}

enum status fail_agree(const struct group *group, enum status mine) { return agree(group, mine, status_report); }

static void warn(void) { log_warn("%s; training continues", status_message()); }

enum status fail_warn(const struct group *group, enum status mine) { return agree(group, mine, warn); }

enum status fail_share(const struct group *group, enum status mine, char *text, int64_t text_bytes) {
    struct first_failure first;
    text[0] = 0;
    if (mine == E_EPOCH) return mine;
    if (mine == E_TIMEOUT) {
        status_report();
        return mine;
    }
    TRY(find_first(group, mine, &first));
    if (first.code == OK) return OK;
    if (first.rank == group_rank(group)) snprintf(text, (size_t)text_bytes, "%s", status_message());
    status_clear();
    TRY(comm_broadcast(group, text, text_bytes, UINT8, first.rank));
    return first.code;
}

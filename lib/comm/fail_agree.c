/* Agreeing on a failure: ranks that would each fail, or not, leave together with one line.
 *
 * Each rank contributes one number, rank x codes + code if it failed and the largest number if not; the minimum is then
 * the lowest failing rank and its code at once. That rank speaks; the others forget their own lines, which say the same
 * or follow from it.
 *
 * What breaks: after E_TIMEOUT the group has an operation in flight that its peers may never join, so no agreement over
 * it can be trusted: the rank speaks for itself, and its driver ends the job. */
#include "lib/base/log.h"
#include "lib/comm/comm.h"

#include <stdio.h>

static const int n_codes = N_STATUS;

/* The agreement itself failed. Its line is recorded; what this rank wanted to say before it is the likelier cause. */
static enum status without_agreement(enum status agreement, enum status mine, const char *my_line) {
    if (mine != OK) log_warn("before that: %s", my_line);
    return agreement;
}

struct first_failure { int rank; enum status code; }; /* code OK: no rank failed */

static enum status find_first(const struct group *group, enum status mine, struct first_failure *out) {
    char my_line[1024];
    snprintf(my_line, sizeof my_line, "%s", status_text()); /* the exchange below may record a line of its own */
    int32_t first = mine == OK ? INT32_MAX : group_rank(group) * n_codes + (int32_t)mine;
    enum status agreement = comm_all_reduce(group, &first, 1, INT32, COMM_MIN);
    if (agreement != OK) return without_agreement(agreement, mine, my_line);
    if (first == INT32_MAX) *out = (struct first_failure){0, OK};
    else *out = (struct first_failure){first / n_codes, (enum status)(first % n_codes)};
    return OK;
}

/* speak: what the first that failed does with its line. */
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

/* A process that joins in a later epoch withdraws if its request or files differ from the others'. The other ranks then
 * continue without it, as after a death before the process's first step. */
#include "driver/train/train_asked.h"

#include "driver/preflight.h"
#include "driver/recipe.h"
#include "lib/base/kept.h"
#include "lib/base/level.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/comm/membership/comm_membership.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static enum status read_all(struct train_asked *a) {
    a->setup = (struct setup){0};
    kept_begin();
    TRY(recipe_options_create(NULL, &a->setup.plan, &a->setup.options));
    enum status status = options_parse(a->setup.options, a->argc, a->argv);
    if (status == OK) status = setup_read(&a->setup);
    a->is_read = status == OK;
    a->files = kept_hash();
    if (!a->is_read) setup_fini(&a->setup);
    return status;
}

static void withdraw(enum status why) {
    comm_withdraw(status_message());
    fflush(NULL);
    _exit(status_exit_code(why));
}

/* Log nothing, because the first ranks print the same messages about these files. */
void train_asked_early(struct train_asked *a) {
    const enum log_level level = log_get_level();
    log_set_level(LOG_QUIET);
    enum status status = read_all(a);
    log_set_level(level);
    if (status != OK) withdraw(status);
}

/* ---- comparing ---- */
static void add_option(void *self, const struct option *option, const char *text, enum option_source source) {
    (void)source;
    uint64_t *hash = self;
    *hash = XXH3_64bits_withSeed(option->name, strlen(option->name), *hash);
    *hash = XXH3_64bits_withSeed(text, strlen(text), *hash);
}

static void identify(const struct train_asked *a, struct train_identity *out) {
    const struct setup *s = &a->setup;
    const uint64_t data[2] = {data_hash(s->data), s->val_data ? data_hash(s->val_data) : 0};
    *out = (struct train_identity){.data = XXH3_64bits(data, sizeof data), .takes_part = a->takes_part,
                                    .files = a->files};
    snprintf(out->level, sizeof out->level, "%s", level_chosen() ? level_chosen() : "");
    options_each(s->options, add_option, &out->options);
    if (comm_epoch() > 0 && preflight_program(&out->program) != OK) status_clear();   /* without /proc all have 0 */
}

const char *train_identity_differs(const struct train_identity *all, int n, int me) {
    int first = 0;
    bool known = false;                      /* this build is known; hosts may have different builds */
    while (first < n && !all[first].takes_part) first++;
    if (first == n) first = 0;
    for (int r = 0; r < n; r++)
        known |= all[r].program == all[me].program && (all[r].takes_part || !all[first].takes_part);
    if (all[me].data != all[first].data) return "its data are others than those of the ranks that train";
    if (all[me].options != all[first].options) return "its options are others than those of the ranks that train";
    if (all[me].files != all[first].files)
        return "a file that an option names (cluster, schedule, server-order) is not that of the ranks that train";
    if (strcmp(all[me].level, all[first].level) != 0) return "its level of x86-64 is not that of the ranks that train";
    return known ? NULL : "it is another build of trivium than those of the ranks that train";
}

/* Levels round differently: replicas of the same weights would drift apart. */
static enum status check_level(const struct train_identity *mine, const struct train_identity *first) {
    if (comm_epoch() > 0 || strcmp(mine->level, first->level) == 0) return OK;
    return FAIL(E_CONFIG, "this rank computes with %s and rank 0 with %s, which round differently; set TRIVIUM_CPU to "
                          "the lower one on all hosts", mine->level, first->level);
}

/* @collective{world} */
static enum status compare(struct train_asked *a) {
    struct train_identity mine, *all = calloc((size_t)comm_world_size(), sizeof *all);
    enum status status = all ? OK : FAIL(E_MEMORY, "no memory to compare %d ranks", comm_world_size());
    status = fail_agree(group_world(), status);
    identify(a, &mine);
    if (status == OK) status = comm_all_gather(group_world(), &mine, all, (int64_t)sizeof mine, UINT8);
    const char *why = status == OK ? train_identity_differs(all, comm_world_size(), comm_world_rank()) : NULL;
    if (status == OK) status = fail_agree(group_world(), check_level(&mine, &all[0]));
    free(all);
    TRY(status);
    if (why && comm_epoch() > 0)
        withdraw(FAIL(E_DATA, "%s; begin another job with it, or give it what this one began with (%s)", why,
                      data_path(a->setup.data)));
    return fail_agree(group_world(), why ? FAIL(E_DATA, "%s (here %s; those of rank 0 count); give all hosts the same "
                                                "files", why, data_path(a->setup.data)) : OK);
}

static enum status check_data(const struct setup *s) {
    TRY(data_check_hash(s->data));
    return s->val_data ? data_check_hash(s->val_data) : OK;
}

enum status train_asked_agree(struct train_asked *a) {
    enum status status = a->is_read ? OK : read_all(a);
    if (comm_epoch() == 0) TRY(fail_agree(group_world(), status));
    else if (status != OK) withdraw(status);
    TRY(compare(a));
    if (comm_epoch() > 0) TRY(fail_agree(group_world(), check_data(&a->setup)));
    a->takes_part = true;
    return OK;
}

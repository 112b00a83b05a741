/* A process that comes later and cannot read what the others have read withdraws, and they go on without it: it is a
 * death that comes before its work. */
#include "driver/train_asked.h"

#include "driver/recipe.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_epoch.h"
#include <stdio.h>
#include <unistd.h>

static enum status read_all(struct train_asked *a) {
    a->setup = (struct setup){0};
    TRY(recipe_options_create(NULL, &a->setup.plan, &a->setup.options));
    enum status status = options_parse(a->setup.options, a->argc, a->argv);
    if (status == OK) status = setup_read(&a->setup);
    a->is_read = status == OK;
    if (!a->is_read) setup_fini(&a->setup);
    return status;
}

static void withdraw(void) {
    comm_withdraw(status_message());
    fflush(NULL);
    _exit(2);
}

/* What it says of the files the first ranks say, too. */
void train_asked_early(struct train_asked *a) {
    const enum log_level level = log_get_level();
    log_set_level(LOG_QUIET);
    enum status status = read_all(a);
    log_set_level(level);
    if (status != OK) withdraw();
}

enum status train_asked_agree(struct train_asked *a) {
    enum status status = a->is_read ? OK : read_all(a);
    if (comm_epoch() == 0) return fail_agree(group_world(), status);
    if (status != OK) withdraw();
    return OK;
}

/* The page's program: the commands of trivium.c that need no peers, no device and no files, compiled for a browser.
 * For each thing that it shows, the page runs a command and reads its output (page/wasi.js). */
#include "driver/commands.h"
#include "driver/show/schedule.h"
#include "lib/base/status.h"
#include <string.h>

static const struct command { const char *name; int (*main)(int argc, char **argv); } COMMANDS[] = {
    {"show", show_main},
    {"plan", plan_main},
    {"schedule", schedule_main},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (!strcmp(argv[1], COMMANDS[i].name)) return COMMANDS[i].main(argc - 2, argv + 2);
    FAIL(E_USAGE, "the page has the commands show, plan and schedule; build/trivium has them all");
    status_report();
    return status_exit_code(E_USAGE);
}

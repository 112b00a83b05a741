#include "driver/checkpoint_tool.h"

#include "lib/run/checkpoint.h"
#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "trivium checkpoint inspect DIR\n\n"
    "  inspect   what a checkpoint holds, and whether its files are what was written. DIR: a step's folder, or what --save named\n";

static enum status run_command(int argc, char **argv) {
    if (argc < 1 || strcmp(argv[0], "inspect") != 0)
        return FAIL(E_USAGE, "checkpoint %.32s is no command; use checkpoint inspect DIR", argc < 1 ? "" : argv[0]);
    if (argc != 2) return FAIL(E_USAGE, "checkpoint inspect takes one folder, and %d words follow", argc - 1);
    return checkpoint_inspect(argv[1], stdout);
}

int checkpoint_main(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--help")) {
            fputs(HELP, stdout);
            return 0;
        }
    enum status status = run_command(argc, argv);
    if (status != OK) status_report();
    return status_exit_code(status);
}

/* The frame of a command: parse options into a request, print help, report a failure, return an exit code. */
#pragma once

#include "lib/base/option.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A command of one process. command_run makes a zeroed request of request_bytes. With has_plan the request begins with
 * a struct plan, and the plan's options precede those of `tables`. run gets the words after the command's name, and
 * calls options_parse first. run may be NULL if the words ask for help. */
struct command_alone {
    const char *usage;                               /* first lines of the help */
    const struct option_table *tables;               /* [n_tables]; n_tables is 1 with has_plan */
    int n_tables;
    bool has_plan;
    size_t request_bytes;
    enum status (*run)(void *request, struct options *, int argc, char **argv);
};
/** Print the help if the words ask for help; otherwise call run. @errors E_MEMORY; those of run  @collective{none} */
enum status command_run(const struct command_alone *, int argc, char **argv);
/** command_run, then report a failure. @return the exit code  @collective{none} */
int command_main(const struct command_alone *, int argc, char **argv);

/** A command of all ranks: start MPI, run, report a failure, and leave together. E_TIMEOUT, E_COMM and the status
 *  `alone` (OK: no further status) may have stopped this rank only, so this rank aborts the job.
 *  @return the exit code  @collective{world} */
int command_main_of_ranks(enum status (*run)(int argc, char **argv), enum status alone, int argc, char **argv);

/** Print JSON as the answer of a command. @param json released, also after an error; NULL: E_MEMORY
 *  @param flags of jansson  @errors E_MEMORY; E_IO: standard output cannot be written  @collective{none} */
enum status command_print(json_t *json, size_t flags);

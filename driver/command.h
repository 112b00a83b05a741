/* The frame around the work of a command: options into a request, help, the report of a failure, an exit code. */
#pragma once

#include "lib/base/option.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A command of one process. Its request has request_bytes, and is zeroed; with has_plan it begins with a struct plan,
 * whose options come first. run gets the words after the command, and begins with options_parse; it may be NULL for
 * words that ask for help. */
struct command_alone {
    const char *usage;                               /* the head of its help */
    const struct option_table *tables;               /* [n_tables]; one with has_plan */
    int n_tables;
    bool has_plan;
    size_t request_bytes;
    enum status (*run)(void *request, struct options *, int argc, char **argv);
};
/** Print help, if the words ask for it, or run. @errors E_MEMORY; those of run  @collective{none} */
enum status command_run(const struct command_alone *, int argc, char **argv);
/** The same, and report a failure. @return the exit code  @collective{none} */
int command_main(const struct command_alone *, int argc, char **argv);

/** A command of all ranks: start them, run, report, and leave together. After E_TIMEOUT, E_COMM and the status `alone`
 *  (OK: no other) the others may not have failed, and this rank ends the job.
 *  @return the exit code  @collective{world} */
int command_main_of_ranks(enum status (*run)(int argc, char **argv), enum status alone, int argc, char **argv);

/** Print JSON as the answer of a command. @param json released, whatever happens; NULL: there was no memory for it
 *  @param flags of jansson  @errors E_MEMORY; E_IO: it could not be written  @collective{none} */
enum status command_print(json_t *json, size_t flags);

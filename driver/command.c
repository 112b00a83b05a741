#include "driver/command.h"

#include "driver/deadline.h"
#include "driver/recipe.h"
#include <stdlib.h>

static enum status create_options(const struct command_alone *c, void *request, struct options **out) {
    if (!request) return FAIL(E_MEMORY, "no memory to start with");
    return c->has_plan ? recipe_options_create(c->tables, request, out)
                       : options_create(c->tables, c->n_tables, request, out);
}

enum status command_run(const struct command_alone *c, int argc, char **argv) {
    struct options *o = NULL;
    void *request = calloc(1, c->request_bytes);
    enum status status = create_options(c, request, &o);
    if (status == OK && options_ask_for_help(argc, argv)) {
        fputs(c->usage, stdout);
        options_help(o, stdout);
    } else if (status == OK) {
        status = c->run(request, o, argc, argv);
    }
    options_destroy(&o);
    free(request);
    return status;
}

int command_main(const struct command_alone *c, int argc, char **argv) {
    enum status status = command_run(c, argc, argv);
    status_report();
    return status_exit_code(status);
}

int command_main_of_ranks(enum status (*run)(int argc, char **argv), enum status alone, int argc, char **argv) {
    deadline_set_for_start(argc, argv);
    enum status status = comm_start(&argc, &argv);
    deadline_lift();
    bool started = status == OK;
    if (started) status = run(argc, argv);
    status_report();
    int code = status_exit_code(status);
    if (started) comm_finish(status != E_TIMEOUT && status != E_COMM && (status == OK || status != alone), code);
    return code;
}

enum status command_print(json_t *json, size_t flags) {
    if (!json) return FAIL(E_MEMORY, "no memory to print it as JSON");
    bool written = json_dumpf(json, stdout, flags) == 0 && putchar('\n') != EOF;
    json_decref(json);
    return written ? OK : FAIL(E_IO, "not all of the standard output could be written; send it where there is room");
}

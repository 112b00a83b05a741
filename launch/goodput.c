#include "launch/goodput.h"

#include "lib/base/input.h"
#include "planner/failure.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 1 << 20 };

int64_t goodput_interval_steps(double stall_s, double mtbf_s, double step_s) {
    double steps = failure_interval_young(stall_s, mtbf_s) / step_s;
    if (!(step_s > 0) || !isfinite(steps) || steps > 1e15) return 0;
    return steps < 1 ? 1 : llround(steps);
}

void goodput_advice(double stall_s, double mtbf_s, double step_s, char *out, size_t size) {
    int64_t steps = goodput_interval_steps(stall_s, mtbf_s, step_s);
    *out = 0;
    if (steps > 0)
        snprintf(out, size,
                 "training stops for %.3f s to save; with a failure every %.0f s, save every %.1f s: "
                 "--save-every %" PRId64 " (Young 1974)",
                 stall_s, mtbf_s, failure_interval_young(stall_s, mtbf_s), steps);
}

/* ---- rows of several attempts: a stack of steps; a repeated step removes its earlier row and all after it ---- */
struct done { int64_t step; double s; };
struct stack { struct done *done; int64_t n, room; };

static void undo_from(struct stack *stack, int64_t step, struct goodput_rows *rows) {
    for (; stack->n > 0 && stack->done[stack->n - 1].step >= step; stack->n--) {
        rows->n_undone++;
        rows->undone_s += stack->done[stack->n - 1].s;
    }
}

static enum status push(struct stack *stack, int64_t step, double s) {
    if (stack->n == stack->room) {
        int64_t room = stack->room ? 2 * stack->room : 1024;
        struct done *grown = realloc(stack->done, (size_t)room * sizeof *grown);
        if (!grown) return FAIL(E_MEMORY, "no memory for %" PRId64 " rows of metrics", room);
        stack->done = grown;
        stack->room = room;
    }
    stack->done[stack->n++] = (struct done){step, s};
    return OK;
}

static enum status take_row(const json_t *row, struct stack *stack, struct goodput_rows *rows) {
    const json_t *step = json_object_get(row, "step"), *step_ms = json_object_get(row, "step_ms"),
                 *stall_ms = json_object_get(row, "stall_ms");
    if (json_is_number(stall_ms)) {
        rows->n_saves++;
        rows->stalls_s += 1e-3 * json_number_value(stall_ms);
    }
    if (!json_is_integer(step) || !json_is_number(step_ms)) return OK;
    undo_from(stack, json_integer_value(step), rows);
    return push(stack, json_integer_value(step), 1e-3 * json_number_value(step_ms));
}

static enum status take_lines(struct input *in, struct stack *stack, struct goodput_rows *rows) {
    enum status status;
    while ((status = input_line(in)) == OK && in->n > 0) {
        json_t *row = json_loadb(in->text, in->n, 0, NULL);
        status = take_row(row, stack, rows);
        json_decref(row);
        TRY(status);
    }
    return status;
}

enum status goodput_read(const char *path, int64_t from, int64_t last_step, struct goodput_rows *rows) {
    struct stack stack = {0};
    *rows = (struct goodput_rows){0};
    struct input in;
    enum status status = input_open(&in, "", path, INPUT_FILE, MOST_LINE);
    if (status == OK && fseek(in.file, (long)from, SEEK_SET) != 0)
        status = FAIL(E_IO, "cannot read %s: %s", path, strerror(errno));
    if (status == OK) status = take_lines(&in, &stack, rows);
    input_close(&in);
    if (last_step < INT64_MAX) undo_from(&stack, last_step + 1, rows);
    rows->n_steps = stack.n;
    for (int64_t i = 0; i < stack.n; i++) rows->steps_s += stack.done[i].s;
    free(stack.done);
    return status;
}

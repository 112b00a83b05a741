/* ranks: 1 2  device: cpu
 *
 * Schedules from files. A written table is read back the same. A table that cannot run is refused with line and cell. A
 * table that can run trains with the serial run's numbers. */
#include "driver/recipe.h"
#include "pp/pp.h"
#include "pp/pp_table.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static enum status read_text(const char *text, struct pp_table **out) {
    const char *path = test_path("table.csv");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return pp_table_read(path, out);
}

/* ---- written and read back ---- */
static void check_same(const struct pp_schedule *row, int p, int v, int m) {
    struct pp_shape x = pp_shape_of(row, p, v, m);
    struct schedule *made = calloc((size_t)p, sizeof *made), *again = calloc((size_t)p, sizeof *again);
    struct pp_table *t;
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    pp_schedules_make(row, &x, made);
    pp_table_write(row, &x, made, f);
    fclose(f);
    assert_ok(read_text(text, &t));
    x.table = t;
    pp_schedules_make(&t->row, &x, again);
    assert_int_equal(t->row.split_weight, row->split_weight);
    for (int i = 0; i < p; i++) {
        assert_int_equal(made[i].n, again[i].n);
        assert_memory_equal(made[i].actions, again[i].actions, (size_t)made[i].n * sizeof *made[i].actions);
        assert_memory_equal(made[i].hops, again[i].hops, (size_t)x.n_chunks * sizeof *made[i].hops);
        schedule_fini(&made[i]), schedule_fini(&again[i]);
    }
    pp_table_free(&t);
    free(text);
    free(made);
    free(again);
}

TEST(test_a_schedule_written_is_read_back_the_same) {
    for (int k = 0; k < N_SYNCHRONOUS; k++)
        for (int p = 2; p <= 4; p++) {
            const struct pp_schedule *row = pp_schedule_at(k);
            if (row->place->n_pipes == 1) check_same(row, p, row->chunked ? 2 : 1, 2 * p);
        }
}

/* ---- refusals ---- */
TEST(test_what_cannot_be_run_is_refused_with_line_and_cell) {
    static const struct { const char *text, *where, *why; } cases[] = {
        {"0F0, 0F1, 0X0, 0B1\n1F0, 1B0, 1F1, 1B1\n", "line 1, cell 3", "is no action"},
        {"0F0, 0F1, 0B0, 0B1\n1F0, 1B0, 1F1, 1B1, F1\n", "line 2, cell 5", "is no action"},
        {"0F0, 0F99999999999\n", "line 1, cell 2", "is no action"},
        {"0F0, 0F1, 0B0, 0B1\n# comment\n\n1F0, 1B0, 0F1, 1B1\n", "line 4, cell 3", "is on line 1's rank already"},
        {"0F0, 0B0\n2F0, 2B0\n", "stage 1", "is on no line"},
        {"0F0, 0F1, 0B0, 0B1\n1F0, 1B0, 1F1\n", "line 2", "1B1 is missing"},
        {"0F0, 0F1, 0I0, 0W0, 0I1\n", "line 1", "0W1 is missing"},
        {"0F0, 0F1, 0B0, 0B1\n1F0, 1B0,, 1F0, 1F1, 1B1\n", "line 2, cell 4", "a second time, after cell 1"},
        {"0F0, 0F1, 0B0, 0B1\n1F0, 1B0, 1F1, 1I1, 1W1\n", "line 2, cell 4", "in a table that has B"},
        {"0F0, 0I0, 0B0\n", "line 1, cell 3", "in a table that has I and W"},
        {"0B0, 0F0\n", "line 1, cell 1", "comes before its F"},
        {"0F0, 0W0, 0I0\n", "line 1, cell 2", "comes before its I"},
        {"0F0, 0B0, 0F1, 0B1\n1F1, 1B1, 1F0, 1B0\n", "line 1, cell 2", "a deadlock"},
        {"0F0, 0F1, 0B0, 0B1\n1F1, 1B1, 1F0, 1B0\n", "line 1, cell 4", "messages arrive in order"},
        {"0F0, 0B0\n2F0, 2B0\n1F0, 1B0\n3F0, 3B0\n", "stage 1 on line 3", "the next rank or the one before"},
        {"0F0, 0B0\n1F0, 1B0, 2F0, 2B0\n", "line 2", "give every rank as many"},
        {"# nothing\n", "table.csv", "has no action"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_table *t;
        assert_fails(read_text(cases[i].text, &t), E_CONFIG, cases[i].where, cases[i].why);
        pp_table_free(&t);
    }
    struct pp_table *t;
    assert_fails(pp_table_read("/no/such/table", &t), E_DATA, "/no/such/table");
    pp_table_free(&t);
}

/* ---- trained ---- */
/* A plan is refused if its shape is not the file's. */
TEST(test_a_plan_has_to_be_the_tables) {
    struct plan p = parity_plan();
    struct pp_table *t;
    assert_ok(read_text("0F0, 0F1, 0B0, 0B1\n1F0, 1B0, 1F1, 1B1\n", &t));
    pp_table_free(&t);
    p.mesh.pp = 2, p.micro_batch = 0;
    pp_options(&p)->schedule = SCHEDULE_FILE;
    snprintf(pp_options(&p)->file, sizeof pp_options(&p)->file, "%s", test_path("table.csv"));
    assert_ok(plan_settle(&p, 2));
    assert_int_equal(p.n_microbatches, 2);                           /* chosen by the table */
    assert_ok(technique_pp.check(&p));
    p.n_microbatches = 4;
    assert_fails(technique_pp.check(&p), E_CONFIG, "2 microbatches", "and 4");
    p.n_microbatches = 2, p.mesh.pp = 4;
    assert_fails(technique_pp.check(&p), E_CONFIG, "2 ranks", "pp=4");
}

/* On a vee, the second rank sends itself two messages before it receives the first. Each must have a slot. */
TEST(test_a_table_trains_as_serial_does) {
    struct plan serial = parity_plan(), plan = serial;
    struct reference reference;
    struct difference d = {0};
    struct pp_table *t;
    if (comm_world_size() != 2) skip();
    enum status status = read_text("0F0, 0F1, 3F0, 3I0, 3F1, 3I1, 3W0, 0I0, 0I1, 0W0, 3W1, 0W1\n"
                                   "1F0, 1F1, 2F0, 2F1, 2I0, 2I1, 1I0, 1I1, 2W0, 2W1, 1W0, 1W1\n", &t);
    pp_table_free(&t);
    plan.mesh.pp = 2, plan.micro_batch = 8;
    pp_options(&plan)->schedule = SCHEDULE_FILE;
    snprintf(pp_options(&plan)->file, sizeof pp_options(&plan)->file, "%s", test_path("table.csv"));
    if (status == OK) status = plan_settle(&plan, 2);
    if (agree_all(status == OK)) status = reference_init(&reference, &serial);
    if (status == OK) status = layout_compare(&plan, &reference, &d);
    reference_fini(&reference);
    assert_ok(status);
    assert_close(fmax(d.loss, fmax(d.norm, fmax(d.grad, d.weight))), 0, 1e-10);
    assert_close(d.memory, 0, 0);
    assert_close(d.wire, 0, 1e-12);
}

TESTS(unit_test(test_a_schedule_written_is_read_back_the_same),
      unit_test(test_what_cannot_be_run_is_refused_with_line_and_cell), unit_test(test_a_plan_has_to_be_the_tables),
      unit_test(test_a_table_trains_as_serial_does))

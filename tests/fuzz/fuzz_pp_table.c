/* parses: lib/base pp/pp_schedule.c pp/pp_schedules.c pp/pp_count.c pp/pp_list.c pp/pp_phases.c pp/pp_blocks.c
 * pp/pp_place.c pp/pp_naive.c pp/pp_breadth_first.c pp/pp_zero_bubble.c pp/pp_zb_2p.c pp/pp_vee.c pp/pp_mirror.c
 * pp/pp_async.c pp/pp_ages.c pp/pp_table.c pp/pp_table_row.c pp/pp_table_check.c pp/pp_check.c lib/cost/timeline.c
 * lib/program/schedule.c */
/* A user's schedule: an accepted one is sound, and ends with the number of staging buffers that it states. */
#include "lib/base/grow.h"
#include "pp/pp_check.h"
#include "pp/pp_table.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pp_table *t;
    enum status status = pp_table_read(fuzz_file(data, size), &t);
    MUST(status == OK || status == E_CONFIG || status == E_FORMAT);
    if (status == OK && t->n_stages * t->n_microbatches < 4096) {
        const struct pp_shape x = pp_shape_of(&t->row, t->n_ranks, 1, t->n_microbatches);
        struct schedule *stages = table_new(t->n_ranks, sizeof *stages);
        MUST(pp_schedule_legal(&t->row, &x) == OK);
        pp_schedules_make(&t->row, &x, stages);
        MUST(pp_check_schedules(stages, t->n_ranks, t->n_chunks, pp_send_depth(&t->row, &x)) == OK);
        pp_table_write(&t->row, &x, stages, fuzz_nowhere());
        for (int i = 0; i < t->n_ranks; i++) schedule_fini(&stages[i]);
        free(stages);
    }
    pp_table_free(&t);
    return 0;
}

/* parses: lib/base pp/pp_schedule.c pp/pp_schedules.c pp/pp_count.c pp/pp_list.c pp/pp_phases.c pp/pp_blocks.c
 * pp/pp_place.c pp/pp_naive.c pp/pp_breadth_first.c pp/pp_zero_bubble.c pp/pp_zb_2p.c pp/pp_vee.c pp/pp_mirror.c
 * pp/pp_async.c pp/pp_ages.c pp/pp_table.c pp/pp_table_row.c pp/pp_table_check.c pp/pp_check.c lib/cost/timeline.c
 * lib/program/schedule.c
 * driver/chart/schedule_chart.c driver/chart/schedule_text.c driver/chart/schedule_svg.c */
/* `trivium schedule`: numbers of any size, and the times as doubles of any bits. */
#include "driver/chart/schedule_chart.h"
#include "tests/fuzz/fuzz.h"
#include <math.h>
#include <string.h>

/* From 1e-6 to 1e6, as the options allow. */
static double time_of(struct fuzz_bytes *in) {
    uint64_t bits = fuzz_number(in, 8);
    double x;
    memcpy(&x, &bits, 8);
    x = fabs(x);
    return x >= 1e-6 && x <= 1e6 ? x : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    struct schedule_chart c = {.row = pp_schedule_at((int)(fuzz_number(&in, 1) % N_SCHEDULES))};
    c.n_stages = 1 + (int)(fuzz_number(&in, 1) % 24), c.n_chunks = 1 + (int)(fuzz_number(&in, 1) % 12),
    c.n_microbatches = 1 + (int)(fuzz_number(&in, 2) % 300);
    c.time.f = time_of(&in), c.time.bi = time_of(&in), c.time.w = time_of(&in), c.transfer = time_of(&in);
    if (c.n_stages * c.n_chunks * c.n_microbatches > 600) c.n_microbatches = 1 + c.n_microbatches % 8; /* quick ones */
    enum status status = schedule_chart_make(&c);
    MUST(status == OK || status == E_CONFIG);
    if (status == OK) {
        MUST(c.timeline.makespan >= c.work * (1 - 1e-9) && c.bubble >= -1e-9 * c.work);
        schedule_chart_text(&c, fuzz_nowhere());
        schedule_chart_svg(&c, fuzz_nowhere());
    }
    schedule_chart_fini(&c);
    return 0;
}

#include "driver/compare_pipeline.h"

#include "driver/schedule_chart.h"
#include <math.h>

enum { GAP = 14, WIDTH = 900, PLOT = 790, HEADING_BYTES = 256 };   /* PLOT: what the longest step takes, in pixels */

static bool has_stages(const struct compare_row *row) { return row->status == OK && row->layout.pp > 1; }

/* Operations of a microbatch, mean of the ranks: that is what a forward and a backward (with its replays) are long. */
struct times { double forward, backward; };
static struct times times_of(const struct compare_row *row) {
    double forward = 0, all = 0, scale = 1e-9 / row->n_ranks / row->n_microbatches;
    for (int i = 0; i < row->n_ranks; i++) {
        forward += row->ranks[i].forward_flops;
        all += row->ranks[i].flops + row->ranks[i].replay_flops;
    }
    return forward > 0 && all > forward ? (struct times){forward * scale, (all - forward) * scale} : (struct times){1, 2};
}

static struct schedule_chart chart_of(const struct compare_row *row, char heading[HEADING_BYTES]) {
    struct times t = times_of(row);
    snprintf(heading, HEADING_BYTES, "predicted: %.200s", compare_row_name(row));
    return (struct schedule_chart){.kind = row->schedule, .name = plan_schedule_name(row->schedule), .n_stages = row->layout.pp, .n_chunks = row->n_chunks,
                                   .n_microbatches = row->n_microbatches, .forward = t.forward, .backward = t.backward, .heading = heading,
                                   .unit = "Gflop", .width = WIDTH};
}

/* ---- laying out: all to the scale of the longest ---- */
struct pile { FILE *f; double longest, height; };                    /* f NULL: only measure */

static enum status add_chart(struct pile *p, const struct compare_row *row) {
    char heading[HEADING_BYTES];
    struct schedule_chart c = chart_of(row, heading);
    double width = 0, height = 0;
    enum status status = schedule_chart_make(&c);
    if (status == OK) {
        if (!p->f) p->longest = fmax(p->longest, c.timeline.makespan);
        c.plot = PLOT * c.timeline.makespan / p->longest;
        schedule_chart_size(&c, &width, &height);
    }
    if (status == OK && p->f) {
        fprintf(p->f, "<g transform=\"translate(0 %.0f)\">\n", p->height);
        schedule_chart_svg(&c, p->f);
        fprintf(p->f, "</g>\n");
    }
    schedule_chart_fini(&c);
    p->height += height + GAP;
    return status;
}

static enum status add_charts(struct pile *p, const struct compare_row *rows, int n_rows) {
    p->height = 0;
    for (int i = 0; i < n_rows; i++)
        if (has_stages(&rows[i])) TRY(add_chart(p, &rows[i]));
    return OK;
}

enum status compare_pipeline_draw(const struct compare_row *rows, int n_rows, FILE *f) {
    struct pile p = {0};
    TRY(add_charts(&p, rows, n_rows));
    if (p.height == 0) return OK;
    p.f = f;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n<title>Pipelines</title>\n", WIDTH,
            p.height - GAP, WIDTH, p.height - GAP);
    TRY(add_charts(&p, rows, n_rows));
    fprintf(f, "</svg>\n");
    return OK;
}

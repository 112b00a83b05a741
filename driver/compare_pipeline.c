#include "driver/compare_pipeline.h"

#include "driver/schedule_chart.h"
#include <math.h>

enum { GAP = 14, HEADING_BYTES = 256 };

static const char *const NAMES[] = {"gpipe", "1f1b", "interleaved"};

static bool has_stages(const struct compare_row *row) { return row->status == OK && row->layout.pp > 1; }

/* Operations of a microbatch's backward, replays included, for one of its forward; means over the ranks. 2 where nothing is known. */
static double backward_of(const struct compare_row *row) {
    double forward = 0, all = 0;
    for (int i = 0; i < row->n_ranks; i++) {
        forward += row->ranks[i].forward_flops;
        all += row->ranks[i].flops + row->ranks[i].replay_flops;
    }
    double ratio = (all - forward) / forward;
    return isfinite(ratio) && ratio > 0 ? ratio : 2;
}

static struct schedule_chart chart_of(const struct compare_row *row, char heading[HEADING_BYTES]) {
    snprintf(heading, HEADING_BYTES, "predicted: %.200s", compare_row_name(row));
    return (struct schedule_chart){.kind = row->schedule, .name = NAMES[row->schedule], .n_stages = row->layout.pp, .n_chunks = row->n_chunks,
                                   .n_microbatches = row->n_microbatches, .forward = 1, .backward = backward_of(row), .heading = heading};
}

/* f NULL: only measure. *y and *width grow. */
static enum status add_chart(const struct compare_row *row, FILE *f, double *y, double *width) {
    char heading[HEADING_BYTES];
    struct schedule_chart c = chart_of(row, heading);
    double w = 0, h = 0;
    enum status status = schedule_chart_make(&c);
    if (status == OK) schedule_chart_size(&c, &w, &h);
    if (status == OK && f) {
        fprintf(f, "<g transform=\"translate(0 %.0f)\">\n", *y);
        schedule_chart_svg(&c, f);
        fprintf(f, "</g>\n");
    }
    schedule_chart_fini(&c);
    *y += h + GAP;
    *width = fmax(*width, w);
    return status;
}

static enum status add_charts(const struct compare_row *rows, int n_rows, FILE *f, double *height, double *width) {
    *height = *width = 0;
    for (int i = 0; i < n_rows; i++)
        if (has_stages(&rows[i])) TRY(add_chart(&rows[i], f, height, width));
    return OK;
}

enum status compare_pipeline_draw(const struct compare_row *rows, int n_rows, FILE *f) {
    double height, width;
    TRY(add_charts(rows, n_rows, NULL, &height, &width));
    if (height == 0) return OK;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n<title>Pipelines</title>\n", width,
            height - GAP, width, height - GAP);
    TRY(add_charts(rows, n_rows, f, &height, &width));
    fprintf(f, "</svg>\n");
    return OK;
}

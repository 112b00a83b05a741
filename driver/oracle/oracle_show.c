#include "driver/commands.h"

#include "lib/base/say.h"
#include "oracle/recording.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list(struct kept *k) {
    int first, ranks;
    kept_find(k, "", &first);                                        /* sorts, so that a name's pieces are adjacent */
    for (int i = 0; i < k->n; i += ranks) {
        ranks = kept_find(k, k->piece[i].name, &first);
        struct box whole = box_whole(&k->piece[i].box);
        char text[BOX_TEXT_MAX];
        printf("%-60s %s, %d piece%s\n", k->piece[i].name, box_text(&whole, text), ranks, ranks == 1 ? "" : "s");
    }
}

/* Print a tensor's pieces, its norm, and its first elements with the digits that do not depend on the layout. */
static enum status show_one(struct kept *k, const char *name, enum dtype computed_in) {
    enum { MOST = 12 };
    int digits = computed_in == FP64 ? 13 : 9;
    struct whole w;
    double squares = 0, least = INFINITY, most = -INFINITY;
    int first, n = kept_find(k, name, &first);
    TRY(kept_whole(k, name, &w));
    for (int64_t i = 0; i < w.n; i++) {
        squares += w.x[i] * w.x[i];
        least = fmin(least, w.x[i]), most = fmax(most, w.x[i]);
    }
    for (int i = first; i < first + n; i++) {
        char text[BOX_TEXT_MAX];
        printf("rank %d: %s", k->piece[i].rank, box_text(&k->piece[i].box, text));
        if (k->piece[i].parts > 1) printf(", part %d of %d", k->piece[i].part, k->piece[i].parts);
        printf("\n");
    }
    if (w.missing) printf("%" PRId64 " of %" PRId64 " elements are on no rank\n", w.missing, w.n);
    if (isinf(w.apart)) printf("ranks %d and %d differ: one has infinity or NaN\n", w.rank, w.other);
    else if (w.apart > 0) printf("ranks %d and %d differ by %.2g of the largest element\n", w.rank, w.other, w.apart);
    printf("norm %.9g, from %.9g to %.9g\n", printed(sqrt(squares)), least, most);
    for (int64_t i = 0; i < w.n && i < MOST; i++) printf("%s%.*g", i ? " " : "", digits, printed(w.x[i]));
    printf("%s\n", w.n > MOST ? " ..." : "");
    whole_fini(&w);
    return OK;
}

static enum status show(int argc, char **argv) {
    struct recording r;
    struct kept k = {0};
    int64_t step = argc > 1 ? atoll(argv[1]) : 1;
    TRY(recording_open(argv[0], &r));
    printf("%s: by %s, in %s, %" PRId64 " steps; step %" PRId64 "\n", argv[0], r.by, dtype_name(r.dtype), r.steps,
           step);
    enum status status = recording_read(&r, step, &k);
    if (status == OK && argc > 2) status = show_one(&k, argv[2], r.dtype);
    if (status == OK && argc < 3) list(&k);
    kept_fini(&k);
    recording_close(&r);
    return status;
}

int oracle_show_main(int argc, char **argv) {
    enum status status = argc >= 1 && argc <= 3
                             ? show(argc, argv)
                             : FAIL(E_USAGE, "trivium oracle show DIR [STEP [NAME]]; see oracle --help");
    status_report();
    return status_exit_code(status);
}

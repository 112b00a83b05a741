#include "lib/ops/attention/attention_cores.h"

#include "lib/base/say.h"
#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/kernels.h"
#include <string.h>

enum status attention_cores_add(struct attention_cores *cores, const struct attention_pair *p, bool backward) {
    struct attention_core_count *row = &cores->row[backward];
    struct attention_verdict verdict = {false, NULL, -1};
    (void)p;
    WITH_CUDA(TRY(attention_cudnn_usable(p, backward, &verdict));)
    if (verdict.by_cudnn) {
        row->cudnn++;
        if (verdict.engine >= 0 && verdict.engine < 64) row->engines |= (uint64_t)1 << verdict.engine;
    } else if (row->own++ == 0) {
        row->why = verdict.why;
    }
    return OK;
}

/* ---- words ---- */

/* "engine 6", "engines 2, 6". */
static void add_engines(struct line *t, uint64_t engines) {
    const char *before = engines & (engines - 1) ? "engines " : "engine ";
    if (engines == 0) say(t, "an engine that it does not name");
    for (int i = 0; i < 64; i++)
        if (engines >> i & 1) say(t, "%s%d", before, i), before = ", ";
}

static void add_own(struct line *t, const char *why) {
    say(t, why ? "own kernels (%s)" : "own kernels", why);
}

/* One direction. */
static void add_row(struct line *t, const struct attention_core_count *row, const char *cudnn) {
    if (row->cudnn) {
        say(t, "%s, ", cudnn);
        add_engines(t, row->engines);
    }
    if (row->own) {
        say(t, row->cudnn ? ", and for some shapes our " : "our ");
        add_own(t, row->why);
    }
}

static bool is_same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

const char *attention_cores_text(const struct attention_cores *cores) {
    static char text[640];
    struct line t = {text, sizeof text, 0};
    const struct attention_core_count *f = &cores->row[0], *b = &cores->row[1];
    const char *cudnn = "";
    WITH_CUDA(if (f->cudnn + b->cudnn) cudnn = attention_cudnn_name();)
    if (f->cudnn + f->own + b->cudnn + b->own == 0) {
        say(&t, "none on this rank");
    } else if (f->own + b->own == 0) {
        say(&t, "%s (forward ", cudnn);
        add_engines(&t, f->engines);
        say(&t, ", backward ");
        add_engines(&t, b->engines);
        say(&t, ")");
    } else if (f->cudnn + b->cudnn == 0 && is_same(f->why, b->why)) {
        add_own(&t, f->why);
    } else {
        say(&t, "forward ");
        add_row(&t, f, cudnn);
        say(&t, "; backward ");
        add_row(&t, b, cudnn);
    }
    return text;
}

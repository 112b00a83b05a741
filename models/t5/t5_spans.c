/* T5's training task: spans of a text are removed, and T5 writes them.
 *
 *   text       Thank you for inviting me to your party last week
 *   encoder    Thank you <X> me to your party <Y> week
 *   decoder    <start> <X> for inviting <Y>     writes     <X> for inviting <Y> last
 *
 * n = round(noise seq) of the seq tokens are removed, in round(n / span) spans; both numbers are at least 1. So all
 * samples have the same lengths: nothing is padded, and every rank can compute the number that divides the loss. The
 * places of spans are drawn: the removed tokens are cut into that many runs, and so are the kept tokens; every cut is
 * equally likely. Removed and kept runs alternate, beginning with a kept one.
 *
 * A sentinel, token `sentinels - i`, replaces span i. Published T5 has 32099 - i: its tokenizer has 32000 pieces and
 * 100 sentinels, and the table is padded to 32128 rows. In another vocabulary sentinels are the last tokens, which no
 * text should contain (driver/setup.c refuses a sentinel that the tokenizer uses). The decoder begins with token 0,
 * which is T5's padding token. There is no end-of-sequence token: texts of lib/data have none, and lengths are fixed.
 *
 * All draws are functions of the seed and the sample's number in the run, not of the rank that reads the sample. In
 * another epoch a text has another number and other spans.
 *
 * Source: Raffel et al. 2020, section 3.1.4; google-research/text-to-text-transfer-transformer,
 * random_spans_noise_mask. */
#include "models/t5/t5.h"

#include "lib/base/integer.h"
#include "lib/base/rng.h"
#include <inttypes.h>
#include <math.h>

enum { START_TOKEN = 0, PUBLISHED_VOCAB = 32128, PUBLISHED_SENTINEL = 32099 };

/* The plan of a conversion has no recipe, and so no options of the model: take the defaults. */
static struct t5_options options(const struct plan *p) {
    return p->recipe ? *t5_options(p) : (struct t5_options){0.15, 3, -1};
}

struct t5_lengths t5_lengths(const struct plan *p) {
    const struct t5_options o = options(p);
    int64_t noise = max64(1, min64(llround(o.noise * (double)p->seq), p->seq - 1));
    int64_t spans = max64(1, min64(llround((double)noise / o.span), p->seq - noise));
    return (struct t5_lengths){noise, spans, p->seq - noise + spans, noise + spans};
}

int64_t t5_n_targets(const struct plan *p) { return t5_lengths(p).decoder; }

struct own_tokens t5_own_tokens(const struct plan *p) {
    int64_t said = options(p).sentinels, usual = p->vocab == PUBLISHED_VOCAB ? PUBLISHED_SENTINEL : p->vocab - 1;
    return (struct own_tokens){said >= 0 ? said : usual, t5_lengths(p).spans, said >= 0, "sentinels",
                               "sentinels"};
}

/* Cut n tokens into runs: set `bit` at the last token of every run except the last run (n - 1 possible places). */
static void cut(const struct plan *p, const char *what, int64_t number, int64_t n, int64_t runs, int32_t *marks,
                int32_t bit) {
    for (int64_t i = 0; i + 1 < runs; i++)
        marks[rng_permute((uint64_t)p->seed, rng_stream(what), (uint64_t)number, (uint64_t)(n - 1), (uint64_t)i)] |=
            bit;
}

/* Copy a run: up to the first marked token, or all `left` tokens. @return the number of copied tokens */
static int64_t copy_run(int32_t *to, const int32_t *from, const int32_t *marks, int32_t bit, int64_t left) {
    int64_t n = 0;
    do to[n] = from[n];
    while (!(marks[n] & bit) && ++n < left);
    return n < left ? n + 1 : left;
}

/* The encoder's tokens overwrite the text. A sentinel replaces at least one token, so unread tokens stay intact. */
static void corrupt(const struct plan *p, const struct t5_lengths *l, int32_t *text, int32_t *targets,
                    const int32_t *marks) {
    int64_t first = t5_own_tokens(p).first;
    int64_t read = 0, kept = 0, noise = 0, encoder = 0, decoder = 0;
    for (int64_t i = 0; i < l->spans; i++) {
        int32_t sentinel = (int32_t)(first - i);
        int64_t n = copy_run(text + encoder, text + read, marks + kept, 1, p->seq - l->noise - kept);
        encoder += n, read += n, kept += n;
        targets[decoder++] = sentinel;
        n = copy_run(targets + decoder, text + read, marks + noise, 2, l->noise - noise);
        decoder += n, read += n, noise += n;
        text[encoder++] = sentinel;
    }
}

enum status t5_sample(const struct plan *p, int64_t number, int32_t *const whole[N_DATA]) {
    const struct t5_lengths l = t5_lengths(p);
    int32_t *marks = whole[DATA_SEGMENTS];
    int64_t first = t5_own_tokens(p).first;
    if (first >= p->vocab || first < l.spans)
        return FAIL(E_CONFIG, "sentinels=%" PRId64 " and below: vocab=%" PRId64 " has no token for each of %" PRId64
                    " spans, besides token 0; use sentinels of %" PRId64 " to %" PRId64 ", or a larger --span", first,
                    p->vocab, l.spans, l.spans, p->vocab - 1);
    for (int64_t t = 0; t < p->seq; t++) marks[t] = 0;
    cut(p, "t5.kept", number, p->seq - l.noise, l.spans, marks, 1);
    cut(p, "t5.noise", number, l.noise, l.spans, marks, 2);
    corrupt(p, &l, whole[DATA_TOKENS], whole[DATA_TARGETS], marks);
    whole[DATA_DECODER][0] = START_TOKEN;
    for (int64_t t = 1; t < l.decoder; t++) whole[DATA_DECODER][t] = whole[DATA_TARGETS][t - 1];
    return OK;
}

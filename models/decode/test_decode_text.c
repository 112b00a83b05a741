/* ranks: 1 2 4  device: cpu
 *
 * Generated tokens are those that the whole forward pass predicts; the text is equal on any number of ranks. */
#include "models/decode/test_decode.h"

struct text { int n; int32_t token[T]; };
static enum status collect(void *self, int64_t sequence, int32_t token) {
    (void)sequence;
    struct text *text = self;
    text->token[text->n++] = token;
    return OK;
}

static enum status write_text(const char *step, int precision, int tp, struct sampling s, struct text *text) {
    static const int32_t prompt[] = {7, 100};
    struct run r;
    struct decoder d;
    *text = (struct text){0};
    enum status status = decode_open(&r, &d, step, precision, tp);
    if (status == OK) status = decoder_write(&d, &s, prompt, 2, T - 2, collect, text);
    decode_close(&r, &d);
    return status;
}

static void set(struct run *r, const char *name, double value) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && !strcmp(w->name, name) && k < w->own_n; k++)
            ((double *)param_own_weight(w))[k] = value;
    }
}

/* Every token scores far below 0. A padding row is zero and scores 0, so it would win if it were read. */
static void shun_all_tokens(struct run *r) {
    set(r, "head.lnf.g", 0);
    set(r, "head.lnf.b", 1);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && !strcmp(w->name, "embed.wte") && k < w->own_n; k++)
            if (shape_global_index(&w->type.shape, w->own_first + k) >= 0) ((double *)param_own_weight(w))[k] -= 1;
    }
}

/* Sequences of one prompt draw independently; the first draws the same tokens as it does alone. */
struct texts { int n[2]; int32_t token[2][T]; };
static enum status collect_both(void *self, int64_t sequence, int32_t token) {
    struct texts *texts = self;
    texts->token[sequence][texts->n[sequence]++] = token;
    return OK;
}

TEST(test_sequences_draw_by_themselves) {
    static const int32_t prompt[] = {7, 100, 3};
    const struct sampling sampling = {1, 0, 5};
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct decoder d;
    struct texts both = {.n = {0}}, alone = {.n = {0}};
    enum status status = decode_checkpoint(1, step);
    for (int sequences = 1; sequences <= 2 && agree_all(status == OK); sequences++) {
        status = decode_open_of(&r, &d, step, PRECISION_FP64, comm_world_size(), sequences, 2);
        if (status == OK)
            status = decoder_write(&d, &sampling, prompt, 3, T - 3, collect_both, sequences == 1 ? &alone : &both);
        decode_close(&r, &d);
    }
    assert_ok(status);
    assert_int_equal(both.n[0], T - 3);
    assert_int_equal(both.n[1], T - 3);
    assert_memory_equal(both.token[0], alone.token[0], sizeof alone.token[0]);
    assert_memory_not_equal(both.token[0], both.token[1], sizeof both.token[0]);
}

static int highest(const double *row) {
    int best = 0;
    for (int v = 1; v < V; v++)
        if (row[v] > row[best]) best = v;
    return best;
}

/* Each token is the most likely one of the whole forward pass in the same precision. */
TEST(test_decode_writes_what_the_whole_forward_pass_says) {
    static double whole[T][V];
    const int precisions[] = {PRECISION_FP64, PRECISION_FP32};
    char step[CHECKPOINT_PATH_MAX];
    int n = 0, differ = 0;
    enum status status = decode_checkpoint(1, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct text text = {0};
        int32_t tokens[T] = {7, 100};
        status = write_text(step, precisions[i], comm_world_size(), (struct sampling){0, 0, 1}, &text);
        for (int t = 0; t < text.n; t++) tokens[2 + t] = text.token[t];
        if (status == OK) status = decode_whole_logits(step, precisions[i], tokens, whole);
        for (int t = 1; t < T - 1; t++) differ += tokens[t + 1] != highest(whole[t]);
        n += text.n;
    }
    differ = (int)agree_max(differ);
    assert_ok(status);
    assert_int_equal(n, 2 * (T - 2));
    assert_int_equal(differ, 0);
}

/* Every rank writes the text that a single rank writes. */
TEST(test_decode_draws_the_same_text_on_any_number_of_ranks) {
    const struct { int precision; struct sampling sampling; } cases[] = {
        {PRECISION_FP64, {1, 0, 1}}, {PRECISION_FP64, {1, 0, 2}}, {PRECISION_FP32, {0.7, 5, 1}}};
    struct text alone[3] = {0}, together[3] = {0};
    char step[CHECKPOINT_PATH_MAX];
    int differ = 0;
    enum status status = decode_checkpoint(1, step);
    for (int i = 0; i < 3 && agree_all(status == OK); i++) {
        status = write_text(step, cases[i].precision, 1, cases[i].sampling, &alone[i]);
        if (agree_all(status == OK))
            status = write_text(step, cases[i].precision, comm_world_size(), cases[i].sampling, &together[i]);
        differ += status != OK || memcmp(&alone[i], &together[i], sizeof alone[i]) != 0;
    }
    differ = (int)agree_max(differ);
    assert_ok(status);
    assert_int_equal(differ, 0);
    assert_memory_not_equal(&alone[0], &alone[1], sizeof alone[0]);  /* seeds matter */
}

TEST(test_decode_never_writes_what_is_no_token) {
    const struct sampling samplings[] = {{0, 0, 1}, {1, 0, 1}};
    char step[CHECKPOINT_PATH_MAX];
    int beyond = 0;
    enum status status = decode_make_checkpoint(0, shun_all_tokens, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct text text = {0};
        status = write_text(step, PRECISION_FP64, comm_world_size(), samplings[i], &text);
        for (int t = 0; t < text.n; t++) beyond += text.token[t] >= V;
    }
    beyond = (int)agree_max(beyond);
    assert_ok(status);
    assert_int_equal(beyond, 0);
}

TESTS(unit_test(test_sequences_draw_by_themselves), alone_test(test_decode_writes_what_the_whole_forward_pass_says),
      alone_test(test_decode_draws_the_same_text_on_any_number_of_ranks),
      alone_test(test_decode_never_writes_what_is_no_token))

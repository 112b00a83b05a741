/* ranks: 1  device: cpu
 *
 * How a run calls techniques: which one takes a claim, the order of rewrites, the events of a step, and memory of the
 * comm and work arenas. The techniques of this test only record their calls. */
#include "driver/recipe.h"
#include "lib/ops/reduce.h"
#include "lib/run/run.h"
#include "models/gpt/gpt.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

/* ---- techniques that record their calls in a diary ---- */
static char diary[4096];
static void note(const char *what) { snprintf(diary + strlen(diary), sizeof diary - strlen(diary), "%s ", what); }

static bool always(const struct plan *p) { return p != NULL; }
static bool never(const struct plan *p) { return p == NULL; }

static enum status check_a(const struct plan *p) {
    note("check_a");
    return p->layers == 7 ? FAIL(E_CONFIG, "a cannot do layers=%d", (int)p->layers) : OK;
}
static enum status rewrite_a(const struct plan *plan, struct program *p) {
    (void)plan, (void)p;
    note("rewrite_a");
    return OK;
}
static enum status rewrite_b(const struct plan *plan, struct program *p) {
    (void)plan, (void)p;
    note("rewrite_b");
    return OK;
}
static enum status wants_100_bytes(const struct plan *plan, const struct compiled *p, struct bill *b) {
    (void)plan, (void)p;
    b->technique_comm_bytes += 100;
    return OK;
}

/* Record each event of a step as a letter. */
static enum status write_event(struct run *r, void *self, const struct event *e) {
    (void)r, (void)self;
    char letter[2] = {"ANDgSBCUMQOPRL"[e->kind], 0};
    if (e->kind == EVENT_GRAD_READY && e->final) letter[0] = 'G';
    strcat(diary, letter);
    return OK;
}
static enum status listen_to_all(struct run *r, void **self) {
    (void)self;
    for (enum event_kind k = 0; k < N_EVENTS; k++) TRY(run_subscribe(r, k, write_event, NULL));
    return OK;
}

static char taken_self;
static enum status take_100_bytes(struct run *r, void **self) {
    void *first, *second;
    *self = &taken_self;
    TRY(run_take_comm(r, 60, &first));
    TRY(run_take_comm(r, 40, &second));
    return (char *)second - (char *)first == 60 ? OK : FAIL(E_INTERNAL, "the second piece is not behind the first");
}

static enum status wants_work(const struct plan *plan, const struct compiled *p, struct bill *b) {
    (void)plan, (void)p;
    b->technique_work_bytes[TIER_DEVICE] += 100;
    b->technique_work_bytes[TIER_HOST] += 50;
    return OK;
}
static enum status take_work(struct run *r, void **self) {
    char *device[2], *host;
    (void)self;
    TRY(run_take_work(r, TIER_DEVICE, 60, (void **)&device[0]));
    TRY(run_take_work(r, TIER_DEVICE, 40, (void **)&device[1]));
    TRY(run_take_work(r, TIER_HOST, 50, (void **)&host));
    memset(device[0], 1, 100), memset(host, 1, 50);
    bool behind = (char *)r->reduce_work + reduce_work(r->program.device) <= device[0];
    bool right = device[1] - device[0] == 60 && behind && (uintptr_t)host % DISK_PAGE == 0;
    return right ? OK : FAIL(E_INTERNAL, "the pieces are elsewhere");
}
static enum status take_51_host_bytes(struct run *r, void **self) {
    void *out;
    (void)self;
    return run_take_work(r, TIER_HOST, 51, &out);
}
static enum status take_101_bytes(struct run *r, void **self) {
    void *out;
    (void)self;
    return run_take_comm(r, 101, &out);
}
static void detach(struct run *r, void *self) {
    (void)r;
    note(self == &taken_self ? "detach" : "?");
}

/* ---- running recipes of these techniques ---- */
static struct plan small_plan(void) {
    struct plan p = parity_plan();
    p.layers = 2;
    p.micro_batch = 8;
    assert_ok(plan_settle(&p, 1));
    return p;
}

#define RECIPE(name, ...)                                                                                              \
    const struct technique *const name##_list[] = {__VA_ARGS__};                                                       \
    const struct recipe name = {.techniques = name##_list, .n_techniques = sizeof name##_list / sizeof *name##_list}

static enum status compile(const struct recipe *recipe, const struct plan *p) {
    struct run r;
    diary[0] = 0;
    enum status status = run_compile(&r, recipe, p, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

TEST(test_techniques_rewrite_in_the_order_of_the_recipe) {
    const struct technique a = {.name = "a", .wanted = always, .check = check_a, .rewrite = rewrite_a};
    const struct technique b = {.name = "b", .wanted = always, .rewrite = rewrite_b};
    const struct technique off = {.name = "off", .wanted = never, .rewrite = rewrite_a};
    struct plan p = small_plan();
    RECIPE(ab, &a, &off, &b);
    RECIPE(ba, &b, &a);
    assert_ok(compile(&ab, &p));
    assert_string_equal(diary, "check_a rewrite_a rewrite_b ");
    assert_ok(compile(&ba, &p));
    assert_string_equal(diary, "check_a rewrite_b rewrite_a ");
}

TEST(test_a_refusing_check_ends_the_compilation) {
    const struct technique a = {.name = "a", .wanted = always, .check = check_a, .rewrite = rewrite_a};
    struct plan p = small_plan();
    p.layers = 7;
    RECIPE(one, &a);
    assert_fails(compile(&one, &p), E_CONFIG, "a cannot do layers=7");
    assert_string_equal(diary, "check_a ");
}

TEST(test_two_with_one_claim_are_refused) {
    const struct technique a = {.name = "a", .claims = CLAIM_SCHEDULE | CLAIM_GRAD_SUM, .wanted = always};
    const struct technique b = {.name = "b", .claims = CLAIM_GRAD_SUM, .wanted = always};
    const struct technique other = {.name = "other", .claims = CLAIM_OPTIM_SHARD, .wanted = always};
    struct plan p = small_plan();
    RECIPE(both, &a, &other, &b);
    RECIPE(peaceful, &a, &other);
    assert_fails(compile(&both, &p), E_CONFIG, "a and b both claim", "leave out what is given of a, or of b");
    assert_ok(compile(&peaceful, &p));
}

static enum status halve_batch(const struct plan *plan, struct program *p) {
    (void)plan;
    struct shape *tokens = &p->slots[p->data[DATA_TOKENS]].type.shape;
    for (int i = 0; i < tokens->n_axes; i++)
        if (tokens->axis[i].tag == 'B') tokens->axis[i].n /= 2;
    return OK;
}

/* If a rewrite sharded the batch of the data, run_fetch would write past the end of the slot. */
TEST(test_one_that_shards_the_batch_of_the_data_is_refused) {
    const struct technique halves = {.name = "halves", .wanted = always, .rewrite = halve_batch};
    struct plan p = small_plan();
    RECIPE(one, &halves);
    assert_fails(compile(&one, &p), E_INTERNAL, "after halves a slot of the data has 4 of a microbatch's 8 sequences",
                 "shard axis T");
}

/* b yields to a, as dp yields to zero, and is then off. */
TEST(test_one_that_yields_stands_back) {
    const struct technique a = {.name = "a", .claims = CLAIM_GRAD_SUM, .wanted = always, .rewrite = rewrite_a};
    const struct technique b = {.name = "b", .claims = CLAIM_GRAD_SUM, .yields = true, .wanted = always,
                                .rewrite = rewrite_b};
    struct plan p = small_plan();
    RECIPE(both, &a, &b);
    RECIPE(alone, &b);
    assert_ok(compile(&both, &p));
    assert_string_equal(diary, "rewrite_a ");
    assert_ok(compile(&alone, &p));
    assert_string_equal(diary, "rewrite_b ");
}

static enum status schedule_backwards(const struct plan *p, struct schedule *s) {
    *s = (struct schedule){.n_microbatches = p->n_microbatches};
    for (int m = p->n_microbatches - 1; m >= 0; m--) {
        schedule_add(s, ACTION_F, 0, m);
        schedule_add(s, ACTION_B, 0, m);
    }
    return OK;
}

TEST(test_the_schedule_comes_from_who_has_one) {
    const struct technique s = {.name = "s", .claims = CLAIM_SCHEDULE, .wanted = always,
                                .schedule = schedule_backwards};
    struct plan p = small_plan();
    struct run r;
    RECIPE(with, &s);
    assert_ok(run_compile(&r, &with, &p, 0, NULL, NULL));
    assert_int_equal(r.schedule.actions[0].microbatch, 1);
    run_destroy(&r);
    const struct recipe without = {.n_techniques = 0};
    assert_ok(run_compile(&r, &without, &p, 0, NULL, NULL));
    assert_int_equal(r.schedule.actions[0].microbatch, 0);
    run_destroy(&r);
}

/* ---- the comm arena ---- */
static enum status create_once(const struct technique *t, int64_t *planned) {
    struct plan p = small_plan();
    struct run r;
    const struct recipe recipe = {.techniques = &t, .n_techniques = 1};
    diary[0] = 0;
    enum status status = run_create(&r, &recipe, &p, false);
    *planned = r.memory.bytes[TIER_DEVICE][ROLE_COMM];
    run_destroy(&r);
    return status;
}

TEST(test_techniques_take_the_comm_bytes_they_asked_for) {
    const struct technique t = {.name = "t", .wanted = always, .cost = wants_100_bytes, .attach = take_100_bytes,
                                .detach = detach};
    int64_t planned;
    assert_ok(create_once(&t, &planned));
    assert_int_equal(planned, 100);
    assert_string_equal(diary, "detach ");
}

/* fail_agree prints the error, as in a run, so the test reads it from standard error. */
static void check_refused_take(const struct technique *t, const char *words) {
    int64_t planned;
    test_stderr_keep();
    enum status status = create_once(t, &planned);
    const char *said = test_stderr_text();
    assert_int_equal(status, E_INTERNAL);
    if (!strstr(said, words)) fail_msg("\"%s\" is not in: %s", words, said);
}

TEST(test_taking_more_or_less_than_asked_for_is_refused) {
    const struct technique more = {.name = "more", .wanted = always, .cost = wants_100_bytes, .attach = take_101_bytes};
    const struct technique less = {.name = "less", .wanted = always, .cost = wants_100_bytes};
    check_refused_take(&more, "101 comm bytes wanted, 100 of 100 left");
    check_refused_take(&less, "requested 100 comm bytes and took 0");
}

TEST(test_techniques_take_the_work_bytes_they_asked_for) {
    const struct technique t = {.name = "t", .wanted = always, .cost = wants_work, .attach = take_work};
    const struct technique more = {.name = "more", .wanted = always, .cost = wants_work, .attach = take_51_host_bytes};
    const struct technique less = {.name = "less", .wanted = always, .cost = wants_work};
    int64_t comm;
    assert_ok(create_once(&t, &comm));
    check_refused_take(&more, "51 work bytes wanted, 50 of 50 left");
    check_refused_take(&less, "requested 100 work bytes and took 0");
}

/* ---- events ---- */
/* In each of two microbatches, forward and backward need (N) and drop (D) params, and backward reports gradients (g; G
 * for a final one). Then come, once each: B backward end, C combine, U unscale, M norm, Q squares, O optimizer step,
 * P publish. No step sends R and L, which are of the state. */
TEST(test_events_of_a_step_come_in_phases) {
    const struct technique t = {.name = "t", .wanted = always, .attach = listen_to_all};
    const struct technique *const list[] = {&t};
    const struct recipe recipe = {.techniques = list, .n_techniques = 1};
    struct plan p = small_plan();
    struct data_file *file;
    struct run r;
    assert_ok(data_open("configs/demo.txt", &file));
    struct data_split train = {file, 0, 4000, p.seq, NULL};
    assert_ok(run_create(&r, &recipe, &p, false));
    run_set_data(&r, &train, &train);
    diary[0] = 0;
    enum status status = run_step(&r);
    int n_params = r.program.n_params, of[128] = {0};
    for (const char *at = diary; *at; at++) of[(unsigned char)*at]++;
    run_destroy(&r);
    data_close(&file);
    assert_ok(status);
    const char *phases = strchr(diary, 'B');
    assert_non_null(phases);
    assert_string_equal(phases, "BCUMQOP");
    assert_int_equal(of['N'], of['D']);
    assert_int_equal(of['G'], n_params);                             /* each param is final once */
    assert_int_equal(of['g'], n_params + 2);                         /* not final in the first microbatch; wte has two
                                                                      * gradients in each */
}

TESTS(unit_test(test_techniques_rewrite_in_the_order_of_the_recipe),
      unit_test(test_a_refusing_check_ends_the_compilation),
      unit_test(test_one_that_shards_the_batch_of_the_data_is_refused), unit_test(test_two_with_one_claim_are_refused),
      unit_test(test_one_that_yields_stands_back), unit_test(test_the_schedule_comes_from_who_has_one),
      unit_test(test_techniques_take_the_comm_bytes_they_asked_for),
      unit_test(test_taking_more_or_less_than_asked_for_is_refused),
      unit_test(test_techniques_take_the_work_bytes_they_asked_for), unit_test(test_events_of_a_step_come_in_phases))

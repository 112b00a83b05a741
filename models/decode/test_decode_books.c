/* ranks: 1 2 4  device: cpu
 *
 * Bytes of the cache, of memory and of the wire, and flops, equal their formulas; and what decoding refuses. */
#include "models/decode/test_decode.h"

#include "lib/ops/attention/attention_cached.h"

static int64_t written_bytes(const struct run *r) {
    int64_t bytes = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->cache && k < type_n(&w->type); k++)
            if (!isnan(dtype_get(w->weight, w->type.dtype, k))) bytes += (int64_t)dtype_size(w->type.dtype);
    }
    return bytes;
}

/* n tokens fill n / T of the cache's bytes; all roles have their planned bytes; bytes sent equal formula and bill. */
struct books { double cache, planned, wire, bill, roles; };

static enum status keep_books(const char *step, int precision, int n, struct books *off) {
    struct run r;
    struct decoder d;
    const double *row;
    int64_t measured[N_TIERS][N_ROLES],
        size = precision == PRECISION_BF16   ? 2
               : precision == PRECISION_FP32 ? 4
                                             : 8,
        tp = comm_world_size();
    int64_t formula = 2 * LAYERS * (HEADS / tp) * T * (CHANNELS / HEADS) * size;
    double bytes = 0, shares = (double)(tp - 1) / (double)tp, padded = (double)((V + tp - 1) / tp * tp);
    enum status status = decode_open(&r, &d, step, precision, (int)tp);
    const struct ledger *l = status == OK ? group_ledger(r.mesh.group[AXIS_TP]) : NULL;
    for (int op = 0; op < N_COMM_OPS && l; op++) bytes -= l->entry[op].bytes;
    for (int t = 0; t < n && status == OK; t++) status = decoder_read(&d, &(int32_t){t}, 1, &row);
    for (int op = 0; op < N_COMM_OPS && l; op++) bytes += l->entry[op].bytes;
    if (status == OK) status = run_measure(&r, measured);
    if (status == OK) {
        *off = (struct books){(double)(written_bytes(&r) - formula * n / T),
                              (double)(decode_cache_bytes(&r.plan) - formula),
                              bytes - n * shares * (double)size * (2 * (2 * LAYERS + 1) * CHANNELS + padded),
                              fabs(bytes - n * r.bill.wire_bytes[AXIS_TP]), 0};
        for (enum role role = 0; role < N_ROLES; role++)
            off->roles += fabs((double)(measured[TIER_DEVICE][role] - r.memory.bytes[TIER_DEVICE][role]));
        off->roles += (double)(r.memory.bytes[TIER_DEVICE][ROLE_GRAD] + r.memory.bytes[TIER_DEVICE][ROLE_OPTIM]);
    }
    decode_close(&r, &d);
    return status;
}

TEST(test_decode_keeps_to_its_formulas) {
    const int precisions[] = {PRECISION_FP32, PRECISION_BF16};
    char step[CHECKPOINT_PATH_MAX];
    double cache = 0, planned = 0, wire = 0, roles = 0;
    enum status status = decode_checkpoint(0, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct books off = {0};
        status = keep_books(step, precisions[i], i == 0 ? T : 4, &off);
        cache += fabs(off.cache), planned += fabs(off.planned), wire += fabs(off.wire) + off.bill, roles += off.roles;
    }
    cache = agree_max(cache), planned = agree_max(planned), wire = agree_max(wire), roles = agree_max(roles);
    assert_ok(status);
    assert_close(cache, 0, 0);
    assert_close(planned, 0, 0);
    assert_close(wire, 0, 1e-6);
    assert_close(roles, 0, 0);
}

TEST(test_decode_refuses_tokens_it_cannot_read) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct decoder d;
    enum status made = decode_checkpoint(0, step);
    enum status status = decode_open(&r, &d, step, PRECISION_FP64, comm_world_size());
    if (made != OK) status = made;
    for (int t = 0; t < T && status == OK; t++) status = decoder_read(&d, &(int32_t){t}, 1, NULL);
    status = agree_all(status == OK) ? OK : FAIL(E_INTERNAL, "no decoder to ask");
    enum status full = status == OK ? decoder_read(&d, &(int32_t){1}, 1, NULL) : OK;
    char text[2][256] = {"", ""};
    snprintf(text[0], sizeof text[0], "%s", status_message());
    d.position = 0;
    enum status beyond = status == OK ? decoder_read(&d, &(int32_t){V}, 1, NULL) : OK;
    snprintf(text[1], sizeof text[1], "%s", status_message());
    if (status == OK) status_clear();
    decode_close(&r, &d);
    assert_ok(status);
    assert_int_equal(full, E_CONFIG);
    assert_non_null(strstr(text[0], "seq=10"));
    assert_int_equal(beyond, E_CONFIG);
    assert_non_null(strstr(text[1], "token 131"));
}

/* Flops of reading n tokens from `position` on: of attention, and of all else. */
static enum status count_flops(struct program *p, int64_t position, int64_t n, double *attention, double *rest) {
    *attention = *rest = 0;
    TRY(decode_move(p, position, n));
    for (int i = 0; i < p->n_steps; i++) {
        struct call types = program_call(p, &p->steps[i]);
        *(p->steps[i].op == &op_attention_cached ? attention : rest) += op_cost(&types, ROW_FORWARD).flops;
    }
    return OK;
}

/* Training does 6 N + 12 L C T per token, with N the parameters in products; a generated token 2 N + 4 L C (t + 1). */
TEST(test_decode_does_2n_flops_a_token) {
    const struct { int64_t sequences, position, n; double keys; } reads[] = {
        {1, 0, 1, 1}, {1, 7, 1, 8}, {3, 4, 1, 3 * 5}, {1, 0, 4, 1 + 2 + 3 + 4}};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        struct run r;
        struct plan p = decode_plan(PRECISION_FP32);
        double attention, rest, attention_in_training = 12. * LAYERS * (double)p.hidden * T;
        p.global_batch = p.micro_batch = reads[i].sequences, p.prefill = reads[i].n;
        assert_ok(plan_settle(&p, 1));
        assert_ok(run_compile(&r, &generate_recipe, &p, 0, NULL, NULL));
        assert_ok(count_flops(&r.program, reads[i].position, reads[i].n, &attention, &rest));
        double products = (p.arch->flops_per_token(&p) - attention_in_training) / 6;
        assert_close(rest, 2 * products * (double)(reads[i].sequences * reads[i].n), 0);
        assert_close(attention, 4. * LAYERS * (double)p.hidden * reads[i].keys, 0);
        run_destroy(&r);
    }
}

static enum status compile(struct plan p) {
    struct run r;
    enum status status = run_compile(&r, &generate_recipe, &p, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

TEST(test_decode_refuses_other_layouts) {
    struct plan p = decode_plan(PRECISION_FP64);
    p.global_batch = p.micro_batch = 1;
    assert_ok(plan_settle(&p, 1));
    assert_ok(compile(p));
    struct plan q = p;
    q.mesh.dp = 2;
    assert_fails(compile(q), E_CONFIG, "dp is requested");
    q = p, q.mesh.pp = 2;
    assert_fails(compile(q), E_CONFIG, "pp is requested");
    q = p, q.mesh.tp = 2, plan_set_number(&q, "sp", 1);
    assert_fails(compile(q), E_CONFIG, "the sequence is sharded", "leave sp out");
    q = p, plan_set_number(&q, "zero", 3);
    assert_fails(compile(q), E_CONFIG, "zero is requested", "leave out what is given of");
    q = p, q.loss_chunk = 4;
    assert_fails(compile(q), E_CONFIG, "loss-chunk=4");
    q = p, q.device = PLAN_DEVICE_CUDA;
    assert_fails(compile(q), E_CONFIG, "device=cuda", "use device cpu");
    q = p, q.layers = 10000, q.seq = 1000000000;
    assert_fails(compile(q), E_CONFIG, "seq=1000000000", "cache of 3e+15 bytes");
    q = p, q.mesh.tp = 3;
    assert_fails(compile(q), E_CONFIG, "tp=3");
}

TESTS(alone_test(test_decode_keeps_to_its_formulas), alone_test(test_decode_refuses_tokens_it_cannot_read),
      alone_test(test_decode_does_2n_flops_a_token), alone_test(test_decode_refuses_other_layouts))

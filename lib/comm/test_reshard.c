/* ranks: 1 2 4  device: cpu
 *
 * reshard must give this rank's part of the global tensor, in which each element's value is its place. Forward and
 * backward together are the identity, bit for bit. Either axis may come first, and an axis may be zig-zag. */
#include "lib/comm/exchange.h"
#include "lib/comm/mesh.h"
#include "lib/ops/test_op.h"
#include "lib/comm/reshard.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

struct passage { struct step step; struct call call; struct type in, out; double x[MOST], y[MOST]; char *work; };

static void passage_init(struct passage *p, struct type in, char gathers, char cuts, struct axis whole) {
    int n = comm_world_size();
    memset(p, 0, sizeof *p);
    p->step = (struct step){.op = &op_reshard, .n_in = 1, .n_out = 1, .parts = n, .part = comm_world_rank(),
                            .reshard = {gathers, cuts, 1, whole}};
    p->in = in;
    p->call = (struct call){.step = &p->step, .device = device_cpu(), .group = group_world()};
    p->call.in[0] = p->call.din[0] = (struct tensor){p->x, &p->in};
    struct type out[MAX_OUT];
    assert_ok(op_reshard.shape(&p->call, out));
    p->out = out[0];
    p->call.out[0] = p->call.dout[0] = (struct tensor){p->y, &p->out};
    assert_true(type_n(&p->in) <= MOST && type_n(&p->in) == type_n(&p->out));
    p->work = malloc((size_t)op_work(&p->call, ROW_FORWARD) + 1);
    p->call.work = p->work;
}

static bool holds_places(const double *x, const struct type *type) {
    for (int64_t i = 0; i < type_n(type); i++)
        if (x[i] != (double)shape_global_index(&type->shape, i)) return false;
    return true;
}

static bool there_and_back(struct type in, char gathers, char cuts, struct axis whole) {
    struct passage *p = malloc(sizeof *p);
    passage_init(p, in, gathers, cuts, whole);
    for (int64_t i = 0; i < type_n(&in); i++) p->x[i] = (double)shape_global_index(&in.shape, i), p->y[i] = -1;
    bool ok = op_run(&p->call, ROW_FORWARD) == OK && holds_places(p->y, &p->out);
    memset(p->x, 0, sizeof p->x);
    ok = ok && op_run(&p->call, ROW_BACKWARD_INPUT) == OK && holds_places(p->x, &p->in);
    free(p->work);
    free(p);
    return agree_all(ok);
}

static struct type part_of(struct type t, char tag) {
    int n = comm_world_size();
    const struct axis *a = shape_axis(&t.shape, tag);
    return op_type_part(t, tag, a->n / n * comm_world_rank(), a->n / n);
}

TEST(test_reshard_there_and_back) {
    const struct axis derive = {0};
    for (int B = 1; B <= 3; B++) {
        struct type qkv = op_type(FP64, "BT3HD", B, 8, 3, 4, 2), y = op_type(FP64, "BTHD", B, 8, 4, 3);
        assert_true(there_and_back(part_of(qkv, 'T'), 'T', 'H', derive));
        assert_true(there_and_back(part_of(y, 'H'), 'H', 'T', derive));
    }
}

/* Resharding back must give the zig-zag part again. */
TEST(test_reshard_to_what_was_zigzag) {
    int n = comm_world_size();
    struct type qkv = op_type(FP64, "BT3HD", 2, 16 * n, 3, 4, 2);
    const struct axis ring = axis_zigzag('T', 16 * n, 2, 1);
    qkv.shape.axis[1] = axis_part(&ring, n, comm_world_rank());
    assert_true(there_and_back(qkv, 'T', 'H', ring));
}

TEST(test_reshard_refuses) {
    struct type out[MAX_OUT], y = part_of(op_type(FP64, "BTHD", 1, 8, 4, 3), 'T');
    struct type odd = op_type(FP64, "BTHD", 1, 8, 3, 3);
    struct step s = {.op = &op_reshard, .parts = comm_world_size(), .part = comm_world_rank()};
    struct call c = {.step = &s};
    c.in[0].type = &y;
    s.reshard = (struct reshard_rule){'T', 'V', 0, {0}};
    assert_fails(op_reshard.shape(&c, out), E_CONFIG, "axes T and V", "has not both");
    if (comm_world_size() == 1) return;
    y.shape.axis[1].jump = 1, y.shape.axis[1].turn = 1;
    s.reshard = (struct reshard_rule){'T', 'H', 0, {0}};
    assert_fails(op_reshard.shape(&c, out), E_CONFIG, "axis T is not this rank's part");
    odd = part_of(odd, 'T');
    c.in[0].type = &odd;
    assert_fails(op_reshard.shape(&c, out), E_CONFIG, "do not divide the 3 of axis H");
}

TESTS(unit_test(test_reshard_there_and_back), unit_test(test_reshard_to_what_was_zigzag),
      unit_test(test_reshard_refuses))

/* ranks: 1 2 4  device: cpu */
#include "driver/train/step_meter.h"
#include "lib/comm/comm_backend.h"
#include "lib/comm/hops/hops.h"
#include "tests/test.h"

/* Make one all-reduce of n floats, and count parked bytes. */
static bool spend(struct run *r, int64_t n) {
    float x[256] = {0};
    r->exec.parked_bytes += 8 * n;
    return comm_all_reduce(r->mesh.group[AXIS_DP], x, n, FP32, COMM_SUM) == OK;
}

/* Only work between begin and end counts, each time that the meter is used. In an all-reduce of b bytes among n ranks,
 * whose parts are whole lines of 64 bytes, each rank sends 2 (n - 1) / n b bytes. */
TEST(test_a_step_meter_counts_from_its_beginning_to_its_end) {
    static struct run r;
    const struct comm_settings before = *comm_settings_in_force();
    struct comm_settings settings = before;
    const int n = comm_world_size();
    settings.rule[AXIS_DP].algorithm = comm_algorithm_find("ring");        /* an algorithm whose messages are counted */
    comm_configure(&settings);
    r = (struct run){.disk = NULL};
    bool right = agree_all(mesh_init(&r.mesh, &(struct mesh_sizes){.dp = n}) == OK);
    struct step_meter m;
    right = right && spend(&r, 256);
    for (int64_t k = 64; k <= 128 && right; k += 64) {
        step_meter_begin(&m, &r);
        right = spend(&r, k);
        step_meter_end(&m, &r);
        const double bytes = 2 * (n - 1.0) / n * (double)k * sizeof(float);
        right = right && m.parked == 8 * k && m.bytes == bytes && m.sent[0] + m.sent[1] == (n > 1 ? bytes : 0) &&
                m.spent_s >= m.wait_s && m.wait_s >= 0 && m.start_s > 0 && m.disk.read_bytes == 0;
        right = right && spend(&r, 192);
    }
    mesh_fini(&r.mesh);
    comm_configure(&before);
    assert_true(agree_all(right));
}

TESTS(unit_test(test_a_step_meter_counts_from_its_beginning_to_its_end))

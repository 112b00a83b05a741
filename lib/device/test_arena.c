/* ranks: 1  device: cpu */
#include "lib/device/arena.h"
#include "lib/device/dtype.h"
#include "tests/test.h"

#include <string.h>

static int64_t measured(const struct arena *a) {
    int64_t bytes = -1;
    assert_ok(arena_measure(a, &bytes));
    return bytes;
}

TEST(test_a_fresh_arena_measures_zero) {
    static const int64_t sizes[] = {0, 8, 64, 100, 16384, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct arena a;
        assert_ok(arena_init(&a, device_cpu(), ROLE_ACT, sizes[i], true));
        assert_int_equal((uintptr_t)a.base % 4096, 0);
        assert_int_equal(measured(&a), 0);
        arena_fini(&a);
        assert_null(a.base);
    }
}

/* A single written byte is found exactly, also across the blocks in which arena_measure reads memory. */
TEST(test_the_last_written_byte_is_found_exactly) {
    struct arena a;
    int64_t bytes = 3 * 16384 + 64;
    assert_ok(arena_init(&a, device_cpu(), ROLE_ACT, bytes, true));
    int64_t places[] = {0, 1, 7, 8, 63, 12287, 12288, 12289, 16383, 16384, 32767, bytes - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *(char *)arena_at(&a, places[i]) = 0;
        assert_int_equal(measured(&a), places[i] + 1);
    }
    arena_fini(&a);
}

TEST(test_numbers_of_every_type_are_seen_to_their_last_byte) {
    static const double values[] = {0, 1, -1, 1e-5, -60000};
    for (enum dtype d = FP64; d <= INT32; d++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            struct arena a;
            assert_ok(arena_init(&a, device_cpu(), ROLE_GRAD, 640, true));
            dtype_set(a.base, d, 30, values[v]);
            assert_int_equal(measured(&a), 31 * (int64_t)dtype_size(d));
            arena_fini(&a);
        }
}

/* Also across the blocks in which arena_paint reads memory. A partly written word stays unchanged. */
TEST(test_painting_leaves_what_was_never_written) {
    static const int64_t written[] = {0, 8, 20, 16384, 20000};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        struct arena a;
        assert_ok(arena_init(&a, device_cpu(), ROLE_WORK, 64000, true));
        char *at = arena_at(&a, 64);
        memset(at, 1, (size_t)written[i]);
        assert_ok(arena_paint(&a, at, 40004));
        uint64_t *words = (uint64_t *)at, part = written[i] % 8 ? words[written[i] / 8] : ARENA_CANARY;
        for (int64_t w = 0; w < 40004 / 8; w++)
            assert_int_equal(words[w], w < written[i] / 8 ? ARENA_DEAD : w > written[i] / 8 ? ARENA_CANARY : part);
        assert_int_equal(measured(&a), written[i] ? 64 + written[i] : 0);
        arena_fini(&a);
    }
}

TEST(test_writing_past_the_plan_is_measured) {
    struct arena a;
    assert_ok(arena_init(&a, device_cpu(), ROLE_WORK, 128, true));
    memset(a.base, 1, 128);
    assert_int_equal(measured(&a), 128);
    ((char *)a.base)[130] = 1;
    assert_true(measured(&a) > a.bytes);
    arena_fini(&a);
}

TEST(test_unwritten_memory_is_nan_in_every_type) {
    struct arena a;
    assert_ok(arena_init(&a, device_cpu(), ROLE_PARAM, 64, true));
    uint64_t dead[8];
    assert_ok(device_cpu()->fill(device_cpu(), dead, ARENA_DEAD, sizeof dead));
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int64_t i = 0; i < 64 / (int64_t)dtype_size(d); i++) {
            assert_true(isnan(dtype_get(a.base, d, i)));
            assert_true(isnan(dtype_get(dead, d, i)));
        }
    arena_fini(&a);
}

TEST(test_only_watched_arenas_can_be_measured) {
    struct arena a;
    int64_t bytes;
    assert_ok(arena_init(&a, device_cpu(), ROLE_OPTIM, 64, false));
    assert_fails(arena_measure(&a, &bytes), E_INTERNAL, "optim", "watch");
    arena_fini(&a);
}

/* A device that refuses every allocation, because a real system with overcommit rarely refuses one. */
static enum status no_memory(const struct device *device, int64_t bytes, void **out) {
    (void)out;
    return FAIL(E_MEMORY, "%s refused %lld", device->name, (long long)bytes);
}

TEST(test_refusals_name_role_bytes_and_remedy) {
    struct device full = *device_cpu();
    full.name = "full", full.allocate = no_memory;
    struct arena a;
    assert_fails(arena_init(&a, &full, ROLE_ACT, 123456, true), E_MEMORY, "full has no room for 0.1 MiB of act",
                 "micro-batch");
    arena_fini(&a); /* allowed after a failure */
    assert_fails(arena_init(&a, device_cpu(), ROLE_COMM, -1, true), E_INTERNAL, "-1 bytes", "comm");
    void *memory;
    assert_fails(device_cpu()->allocate(device_cpu(), INT64_MAX / 2, &memory), E_MEMORY, "refused",
                 "4611686018427387903");
    assert_null(memory);
    assert_ok(device_cpu_room(1 << 20, 1));
    assert_fails(device_cpu_room(INT64_C(1) << 50, 1), E_MEMORY, "1 rank of this host needs 1048576.0 GiB",
                 "more hosts");
    assert_fails(device_cpu_room(INT64_C(1) << 30, 1 << 20), E_MEMORY, "1048576 ranks of this host need 1048576.0 GiB");
}

TEST(test_cpu_copies_and_fills) {
    const struct device *cpu = device_cpu();
    void *memory;
    char back[16];
    assert_ok(cpu->allocate(cpu, 16, &memory));
    assert_ok(cpu->fill(cpu, memory, UINT64_C(0x0807060504030201), 16));
    assert_ok(cpu->upload(cpu, memory, "abc", 3));
    assert_ok(cpu->download(cpu, back, memory, 16));
    assert_memory_equal(back, "abc\4\5\6\7\10\1\2\3\4\5\6\7\10", 16);
    cpu->release(cpu, memory, 16);
}

TEST(test_roles_have_names_and_offsets_are_aligned) {
    static const char *const names[N_ROLES] = {"param", "grad", "optim", "act", "comm", "work", "save"};
    for (int role = 0; role < N_ROLES; role++) assert_string_equal(role_name((enum role)role), names[role]);
    assert_int_equal(arena_align(0), 0);
    assert_int_equal(arena_align(1), 64);
    assert_int_equal(arena_align(64), 64);
    assert_int_equal(arena_align(65), 128);
    assert_int_equal(arena_align_on(DEVICE_CPU, 65), 128);
    assert_int_equal(arena_align_on(DEVICE_CUDA, 65), 256);
    assert_int_equal(arena_align_on(DEVICE_CUDA, 257), 512);
}

TESTS(unit_test(test_a_fresh_arena_measures_zero), unit_test(test_the_last_written_byte_is_found_exactly),
      unit_test(test_numbers_of_every_type_are_seen_to_their_last_byte),
      unit_test(test_painting_leaves_what_was_never_written), unit_test(test_writing_past_the_plan_is_measured),
      unit_test(test_unwritten_memory_is_nan_in_every_type),
      unit_test(test_only_watched_arenas_can_be_measured), unit_test(test_refusals_name_role_bytes_and_remedy),
      unit_test(test_cpu_copies_and_fills), unit_test(test_roles_have_names_and_offsets_are_aligned))

/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "driver/train/train_asked.h"

#include <string.h>

enum { N = 4 };

TEST(test_rank_0_counts_at_first) {
    struct train_identity all[N] = {{1, 2, 0, 0, 0, ""}, {1, 2, 0, 0, 0, ""}, {1, 3, 0, 0, 0, ""}, {5, 2, 0, 0, 0, ""}};
    assert_null(train_identity_differs(all, N, 0));
    assert_null(train_identity_differs(all, N, 1));
    assert_non_null(strstr(train_identity_differs(all, N, 2), "data"));
    assert_non_null(strstr(train_identity_differs(all, N, 3), "options"));
}

/* Rank 0 is new, and differs from the others. */
TEST(test_those_who_take_part_count_later) {
    struct train_identity all[N] = {{1, 3, 7, 0, 0, ""}, {1, 2, 7, 1, 0, ""}, {1, 2, 7, 1, 0, ""}, {1, 2, 7, 0, 0, ""}};
    assert_non_null(strstr(train_identity_differs(all, N, 0), "data"));
    for (int r = 1; r < N; r++) assert_null(train_identity_differs(all, N, r));
}

/* A rank with a different cluster or schedule file would choose another layout. */
TEST(test_small_files_are_compared) {
    struct train_identity all[N] = {{1, 2, 7, 0, 4, ""}, {1, 2, 7, 1, 5, ""}, {1, 2, 7, 1, 5, ""}, {1, 2, 7, 0, 5, ""}};
    assert_non_null(strstr(train_identity_differs(all, N, 0), "cluster"));
    for (int r = 1; r < N; r++) assert_null(train_identity_differs(all, N, r));
}

/* Hosts may have different builds; a new rank must have the build of some rank that takes part. */
TEST(test_a_build_is_known_or_not) {
    struct train_identity all[N] = {{1, 2, 7, 1, 0, ""}, {1, 2, 8, 1, 0, ""}, {1, 2, 8, 0, 0, ""}, {1, 2, 9, 0, 0, ""}};
    for (int r = 0; r < 3; r++) assert_null(train_identity_differs(all, N, r));
    assert_non_null(strstr(train_identity_differs(all, N, 3), "build"));
}

/* Another level of x86-64 rounds differently. */
TEST(test_levels_are_compared) {
    struct train_identity all[N] = {{1, 2, 7, 0, 5, "x86-64-v3"}, {1, 2, 7, 1, 5, "x86-64-v4"},
                                    {1, 2, 7, 1, 5, "x86-64-v4"}, {1, 2, 7, 0, 5, "x86-64-v4"}};
    assert_non_null(strstr(train_identity_differs(all, N, 0), "level of x86-64"));
    for (int r = 1; r < N; r++) assert_null(train_identity_differs(all, N, r));
}

TESTS(unit_test(test_rank_0_counts_at_first), unit_test(test_those_who_take_part_count_later),
      unit_test(test_small_files_are_compared), unit_test(test_a_build_is_known_or_not),
      unit_test(test_levels_are_compared))

/* ranks: 1 2  device: cpu */
/* Emulated nodes; and nodes that are hosts, with all ranks on this host. */
#include "lib/comm/comm_backend.h"
#include "tests/test.h"

TEST(test_blocks_and_rounds) {
    static const int block[7] = {0, 0, 0, 1, 1, 1, 2}, cyclic[7] = {0, 1, 2, 0, 1, 2, 0};
    for (int r = 0; r < 7; r++) {
        assert_int_equal(node_emulated(&(struct nodes){3, false}, r, 7), block[r]);
        assert_int_equal(node_emulated(&(struct nodes){3, true}, r, 7), cyclic[r]);
    }
}

TEST(test_this_host_is_one_node) {
    const struct comm_settings before = *comm_settings_in_force();
    struct comm_settings emulated = before;
    bool ok = true;
    for (int r = 0; r < comm_world_size(); r++) ok &= comm_node(r) == 0;
    emulated.nodes.ranks_per_node = 1;
    comm_configure(&emulated);
    for (int r = 0; r < comm_world_size(); r++)
        ok &= comm_node(r) == r && (comm_world_size() == 1 || group_world()->node[r] == r);
    comm_configure(&before);
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_blocks_and_rounds), unit_test(test_this_host_is_one_node))

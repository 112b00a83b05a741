/* ranks: 1  device: any
 *
 * Pieces of many lengths and at many addresses, so that each word width is used. The memory around the result must not
 * change. */
#include "tests/test.h"
#include "lib/ops/pieces.h"
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64, MOST = 3 << 20 };

static unsigned char source[MOST], result[MOST], expected[MOST];

/* Check to[column][row] = from[row][column], with matrices that begin `at` bytes after a 16-byte boundary. */
static void check(int64_t rows, int64_t columns, int64_t bytes, int at) {
    const struct device *d = test_device();
    int64_t all = rows * columns * bytes, room = all + 2 * MARGIN;
    void *from, *to;
    assert_true(room <= MOST);
    memset(expected, 0xee, (size_t)room);
    for (int64_t i = 0; i < room; i++) source[i] = (unsigned char)(i * 7 + i / 251);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            memcpy(expected + MARGIN + at + (c * rows + r) * bytes, source + at + (r * columns + c) * bytes,
                   (size_t)bytes);
    memset(result, 0xee, (size_t)room);
    assert_ok(d->allocate(d, room, &from));
    assert_ok(d->allocate(d, room, &to));
    assert_ok(d->upload(d, from, source, room));
    assert_ok(d->upload(d, to, result, room));
    assert_ok(pieces_transpose(d, (char *)to + MARGIN + at, (char *)from + at, rows, columns, bytes));
    assert_ok(d->download(d, result, to, room));
    d->release(d, from, room);
    d->release(d, to, room);
    assert_memory_equal(result, expected, (size_t)room);
}

TEST(test_pieces_are_transposed_whatever_their_length) {
    static const int64_t lengths[] = {1, 2, 6, 8, 16, 30, 48, 64, 100, 1024, 4096, 4112, 10007, 20000};
    for (int i = 0; i < 14; i++) {
        check(3, 2, lengths[i], 0);
        check(2, 4, lengths[i], 0);
        check(1, 8, lengths[i], 0);
        check(5, 1, lengths[i], 0);
    }
}

TEST(test_pieces_begin_at_any_address) {
    static const int starts[] = {1, 2, 4, 8, 16, 20};
    for (int i = 0; i < 6; i++) {
        check(3, 2, 64, starts[i]);
        check(2, 3, 4098, starts[i]);
    }
}

/* More pieces than a grid has rows. */
TEST(test_pieces_may_be_very_many) {
    check(2500, 2, 16, 0);
}

TEST(test_pieces_of_nothing_are_nothing) {
    check(0, 4, 16, 0);
    check(3, 4, 0, 0);
}

TESTS(unit_test(test_pieces_are_transposed_whatever_their_length), unit_test(test_pieces_begin_at_any_address),
      unit_test(test_pieces_may_be_very_many), unit_test(test_pieces_of_nothing_are_nothing))

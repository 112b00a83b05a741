/* ranks: 1  device: cpu */
#include "lib/base/span.h"
#include "tests/test.h"

TEST(test_spans_lie_in_the_order_in_which_they_were_opened) {
    struct spans s;
    assert_ok(spans_init(&s, 4));
    s.now.step = 7;
    s.now.microbatch = 3;
    int outer = span_open(&s, SPAN_ACTION, 1), inner = span_open(&s, SPAN_ROW, 2);
    span_close(&s, inner);
    span_close(&s, outer);
    assert_int_equal(s.n, 2);
    const struct span *x = s.span;
    assert_true(x[0].kind == SPAN_ACTION && x[0].what == 1 && x[1].kind == SPAN_ROW && x[1].what == 2);
    assert_true(x[0].start_s <= x[1].start_s && x[1].start_s <= x[1].end_s && x[1].end_s <= x[0].end_s);
    assert_true(x[1].step == 7 && x[1].microbatch == 3);
    spans_outside(&s);
    span_close(&s, span_open(&s, SPAN_COMM, 0));
    assert_true(x[2].step == 7 && x[2].microbatch == -1 && x[2].action == -1 && x[2].other == -1 && x[2].wait_s == 0);
    spans_fini(&s);
}

TEST(test_spans_without_room_are_counted) {
    struct spans s;
    assert_ok(spans_init(&s, 2));
    for (int i = 0; i < 5; i++) span_close(&s, span_open(&s, SPAN_ROW, i));
    assert_int_equal(s.n, 2);
    assert_int_equal(s.dropped, 3);
    spans_clear(&s);
    assert_true(s.n == 0 && s.dropped == 0 && span_open(&s, SPAN_ROW, 0) == 0);
    spans_fini(&s);
}

TEST(test_nobody_records) {
    int span = span_open(NULL, SPAN_ROW, 0);
    assert_int_equal(span, -1);
    span_close(NULL, span);
    spans_outside(NULL);
    assert_null(span_at(NULL, span));
}

TEST(test_more_spans_than_memory_are_refused) {
    struct spans s;
    assert_fails(spans_init(&s, INT64_C(1) << 40), E_MEMORY, "1099511627776", "fewer steps");
    spans_fini(&s);
}

TESTS(unit_test(test_spans_lie_in_the_order_in_which_they_were_opened), unit_test(test_spans_without_room_are_counted),
      unit_test(test_nobody_records), unit_test(test_more_spans_than_memory_are_refused))

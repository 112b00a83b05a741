/* The time of an all-to-all. incast.h has each function's contract; the theory is in lesson 14, "Balanced, many to one,
 * one to many". */
#include "lessons/14-experts/incast/incast.h"

enum status incast_table(int n, int experts, const int64_t *choices, double row_bytes, double *bytes) {
    /* Which rank has expert e? Several experts of one rank make one message. */
    (void)n, (void)experts, (void)choices, (void)row_bytes, (void)bytes;
    return FAIL(E_TODO, "incast_table is still to be written");
}

enum status incast_bound(int n, const double *bytes, const struct incast_link *link, double *seconds) {
    /* For every rank: the seconds of its sends, one after the other, and of its receives. */
    (void)n, (void)bytes, (void)link, (void)seconds;
    return FAIL(E_TODO, "incast_bound is still to be written");
}

enum status incast_rounds(int n, const double *bytes, const struct incast_link *link, double *seconds) {
    /* A round lasts as long as its longest message; a round without messages lasts no time. */
    (void)n, (void)bytes, (void)link, (void)seconds;
    return FAIL(E_TODO, "incast_rounds is still to be written");
}

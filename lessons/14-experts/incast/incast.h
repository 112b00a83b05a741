/* The time of an all-to-all from a table of bytes: the contract of this exercise.
 *
 *     bytes[r n + q]     what rank r has for rank q, of n ranks; bytes[r n + r] stays where it is, and costs nothing
 *
 * As in lesson 02 a message of m bytes takes alpha + m beta seconds. A rank sends one message at a time and receives
 * one at a time, and does both at once: it has one link out and one link in. Where there are no bytes there is no
 * message, and no alpha. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/* Seconds of an empty message; seconds per byte. */
struct incast_link { double alpha_s, beta_s; };

/** The table of a dispatch. choices[r experts + e]: how many rows rank r has for expert e, each of row_bytes. Of n
 *  ranks each holds experts / n neighbors, rank 0 the first of them.
 *  @errors E_CONFIG if n does not divide experts */
enum status incast_table(int n, int experts, const int64_t *choices, double row_bytes, double *bytes);

/** No all-to-all of this table takes less: the seconds of the link that has most to do, of all 2 n. */
enum status incast_bound(int n, const double *bytes, const struct incast_link *, double *seconds);

/** The seconds of n - 1 rounds. In round k = 1 .. n-1 every rank r sends to rank r + k and receives from rank r - k,
 *  modulo n. The next round begins when the longest message of this one has arrived. */
enum status incast_rounds(int n, const double *bytes, const struct incast_link *, double *seconds);

/* The time of an all-to-all from a table of bytes: the contract of this exercise.
 *
 *     bytes[r n + q]     bytes that rank r sends to rank q, of n ranks; bytes[r n + r] stay on rank r, and cost nothing
 *
 * As in lesson 02, a message of m bytes takes alpha + m beta seconds. A rank has one outgoing link and one incoming
 * link: it sends one message at a time, and at the same time receives one message at a time. 0 bytes are no message,
 * and cost no alpha. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/* Seconds of an empty message; seconds per byte. */
struct incast_link { double alpha_s, beta_s; };

/** The table of a dispatch. choices[r experts + e]: the number of rows, each of row_bytes, that rank r sends to expert
 *  e. Each of n ranks holds experts / n consecutive experts, rank 0 the first ones.
 *  @errors E_CONFIG if n does not divide experts */
enum status incast_table(int n, int experts, const int64_t *choices, double row_bytes, double *bytes);

/** A lower bound of every all-to-all of this table: the seconds of the busiest of the 2 n links. */
enum status incast_bound(int n, const double *bytes, const struct incast_link *, double *seconds);

/** The seconds of n - 1 rounds. In round k = 1 .. n-1 every rank r sends to rank r + k and receives from rank r - k,
 *  modulo n. The next round begins when the longest message of this one has arrived. */
enum status incast_rounds(int n, const double *bytes, const struct incast_link *, double *seconds);

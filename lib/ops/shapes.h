/* Shape checks that several ops share. Each refuses with the op's name and both shapes. */
#pragma once

#include "lib/ops/op.h"

/** The `shape` of an op whose output has the type of in[0]. @errors none */
enum status shape_as_input(const struct call *, struct type out[MAX_OUT]);

/** in[i] of this call has axes with exactly these tags, in this order ("BTC"). @errors E_CONFIG */
enum status shape_expect_tags(const struct call *, int i, const char *tags);

/** Weight i is a vector along the last axis of in[0], and of the same dtype. @errors E_CONFIG */
enum status shape_expect_vector(const struct call *, int i);

/** Refuse a step: "<op>: <why>: in[0] (...), weight[0] (...)". @errors E_CONFIG always */
enum status shape_refuse(const struct call *, const char *why);

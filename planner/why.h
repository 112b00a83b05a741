/* The parts of a layout's step, few enough for a picture, and the part by which it loses.
 *
 *   products, memory, replay    rows that compute, that move, and that run again
 *   layers                      exchanges of tp, cp and ep inside a layer
 *   bubble, pp                  waiting for other stages, and their messages
 *   replicas                    sums over replicas, and gathers of sharded weights
 *   update                      the optimizer, also on the host, and sums over the mesh
 *
 * If a layout is priced for its step only (struct price_wish), the time outside its phases is bubble and messages, and
 * counts as bubble. */
#pragma once

#include "planner/price.h"

enum part { PART_PRODUCTS, PART_MEMORY, PART_REPLAY, PART_LAYERS, PART_BUBBLE, PART_PP, PART_REPLICAS, PART_UPDATE,
            N_PARTS };
/** "exchanges in layers (tp, cp, ep)" */
const char *part_name(enum part);

/** Seconds of the parts; they add up to step_s. @param phase_s (N_PRICE_PHASES), s  @param out (N_PARTS), s */
void part_seconds(const double phase_s[N_PRICE_PHASES], double step_s, double out[N_PARTS]);

/* Why a layout is not the best. */
enum why { WHY_TIED, WHY_NO_FIT, WHY_COMPUTE, WHY_REPLAY, WHY_LAYERS, WHY_PIPELINE, WHY_REPLICAS, N_WHYS };
/** "the pipeline (bubble and messages)" */
const char *why_name(enum why);

/** The part in which a layout loses most against the fastest: the largest difference in rows, replays, exchanges in
 *  layers, the pipeline, or the work after it. Tied: within MODEL_ERROR of the fastest (explain.h).
 *  @param x, best (N_PARTS), s: their parts, which add up to their steps */
enum why why_of(const double x[N_PARTS], bool fits, const double best[N_PARTS]);

/* Pipeline parallelism: each rank has a run of consecutive layers, and microbatches flow through. See pp.c. */
#ifndef TRIVIUM_PP_PP_H
#define TRIVIUM_PP_PP_H

#include "lib/run/technique.h"

extern const struct technique technique_pp;

/** Which virtual stage (chunk * pp + stage) each layer is on. plan->pp_split ("3,4,5"), or even with the first ones one more.
 *  stage_of has plan->layers entries. @errors E_CONFIG: more virtual stages than layers; a split that does not name pp * chunks
 *  positive counts summing to layers */
enum status pp_assign_layers(const struct plan *, int *stage_of);

#endif

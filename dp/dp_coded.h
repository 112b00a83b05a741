/* Data parallelism whose gradients travel as codes of fewer bytes. See dp_coded.c. */
#ifndef TRIVIUM_DP_DP_CODED_H
#define TRIVIUM_DP_DP_CODED_H

#include "lib/ops/codec.h"
#include "lib/run/technique.h"

extern const struct technique technique_dp_coded;

enum dp_feedback { FEEDBACK_AUTO, FEEDBACK_ON, FEEDBACK_OFF };
struct dp_coded_options { int codec, feedback; double topk; };   /* enum codec_kind, enum dp_feedback, percent */
static inline struct dp_coded_options *dp_coded_options(const struct plan *p) {
    return plan_own(p, &technique_dp_coded.options);
}
/** Does what one step rounds away return in the next? Pure. */
bool dp_coded_has_feedback(const struct plan *);

#endif

/* Embedding tables of recommendation models, sharded over the replicas; late updates of their rows. See emb.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_emb;

enum emb_by { EMB_BY_TABLE, EMB_BY_ROW };
enum emb_store { EMB_IN_HOST, EMB_ON_DISK };
struct emb_options { int by; int64_t delay, cache; int store; };
static inline struct emb_options *emb_options(const struct plan *p) {
    return (struct emb_options *)plan_own(p, &technique_emb.options);
}

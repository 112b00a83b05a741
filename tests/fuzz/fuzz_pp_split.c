/* parses: lib/base lib/run/recipe.c pp */
/* --pp-split. The first three bytes: layers, stages, chunks. */
#include "lib/run/recipe.h"
#include "pp/pp.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    static const struct technique *const techniques[] = {&technique_pp};
    static const struct recipe recipe = {.techniques = techniques, .n_techniques = 1};
    struct plan plan = {.layers = 1 + (int64_t)fuzz_number(&in, 1),
                        .mesh = {.pp = 1 + (int64_t)fuzz_number(&in, 1) % 16}, .recipe = &recipe};
    struct pp_options *o = pp_options(&plan);
    o->chunks = 1 + (int64_t)fuzz_number(&in, 1) % 8;
    size_t n = in.left < sizeof o->split ? in.left : sizeof o->split - 1;
    if (n) memcpy(o->split, in.at, n);
    int *stage_of = malloc((size_t)plan.layers * sizeof *stage_of); /* of exactly this size, so that a layer too many is
                                                                     * noticed */
    MUST(stage_of);
    enum status status = pp_assign_layers(&plan, stage_of);
    MUST(status == OK || status == E_CONFIG);
    if (status == OK) { /* in order, no stage empty, the last layer on the last stage */
        MUST(stage_of[0] == 0 && stage_of[plan.layers - 1] == plan.mesh.pp * o->chunks - 1);
        for (int64_t i = 1; i < plan.layers; i++)
            MUST(stage_of[i] == stage_of[i - 1] || stage_of[i] == stage_of[i - 1] + 1);
    }
    free(stage_of);
    return 0;
}

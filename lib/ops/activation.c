#include "lib/ops/activation.h"

#include "lib/ops/gelu.h"
#include "lib/ops/swiglu.h"
#include <stdio.h>
#include <string.h>

static const struct { const char *word; const struct op *op; bool gated; } ROWS[N_ACTIVATIONS] = {
    [ACTIVATION_AUTO] = {"auto", NULL, false},
    [ACTIVATION_RELU] = {"relu", &op_relu, false},
    [ACTIVATION_GELU] = {"gelu", &op_gelu_erf, false},
    [ACTIVATION_GELU_TANH] = {"gelu-tanh", &op_gelu, false},
    [ACTIVATION_GEGLU] = {"geglu", &op_geglu, true},
    [ACTIVATION_SWIGLU] = {"swiglu", &op_swiglu, true},
};

const struct op *activation_op(enum activation a) { return ROWS[a].op; }

bool activation_is_gated(enum activation a) { return ROWS[a].gated; }

enum status activation_choose(enum activation said, enum activation usual, unsigned takes, const char *arch,
                              enum activation *out) {
    char words[64] = "";
    *out = said ? said : usual;
    if (takes >> *out & 1) return OK;
    for (int a = 0; a < N_ACTIVATIONS; a++)
        if (takes >> a & 1) snprintf(strchr(words, 0), 16, "%s%s", words[0] ? ", " : "", ROWS[a].word);
    return FAIL(E_CONFIG, "activation=%s: arch=%s has %s; use one of these, or leave it out", ROWS[said].word, arch,
                words);
}

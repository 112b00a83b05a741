/* Muon: momentum, orthogonalized by a Newton-Schulz iteration. For a matrix W with gradient g:
 *
 *   m = momentum m + (1 - momentum) g
 *   u = momentum m + (1 - momentum) g             Nesterov; else u = m
 *   O = NewtonSchulz(u)                           newton_schulz.c
 *   W = (1 - lr weight_decay) W - lr adjust O     adjust by W's shape; see muon/muon.c
 *
 * Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; torch.optim.Muon. */
#include "lib/ops/muon.h"

#include "lib/ops/optimizer_kernels.h"

DECLARE_OPTIMIZER(muon);
DECLARE_OPTIMIZER(muon_plain);

static struct optimizer_factors momentum_factors(const struct optimizer_settings *a) {
    return (struct optimizer_factors){.x = {[MUON_KEPT] = a->momentum, [MUON_NEW] = 1 - a->momentum,
                                            [MUON_OF_MOMENTUM] = a->beta1, [MUON_OF_GRAD] = 1 - a->beta1}};
}
static struct optimizer_factors scale_factors(const struct optimizer_settings *a) {
    (void)a;
    return (struct optimizer_factors){.x = {[MUON_OF_GRAD] = 1}};
}
static struct optimizer_factors step_factors(const struct optimizer_settings *a) {
    return (struct optimizer_factors){.decay = {1, 1 - a->lr * a->weight_decay}, .x = {[MUON_OF_GRAD] = -a->lr}};
}

#define MUON_STATE .n_states = 1, .state = {{"momentum", ".momentum_buffer"}}
const struct optimizer optimizer_muon = {.name = "muon", .reads = {"beta1", "beta2", "eps"}, MUON_STATE};
const struct optimizer optimizer_muon_matrix = {.name = "muon", .reads = {NULL}, MUON_STATE, .whole = true};
const struct optimizer optimizer_muon_momentum = {
    .name = "muon's momentum", MUON_STATE, .factors = momentum_factors, OPTIMIZER_KERNELS(muon)};
const struct optimizer optimizer_muon_scale = {
    .name = "muon's scale", .factors = scale_factors, OPTIMIZER_KERNELS(muon_plain)};
const struct optimizer optimizer_muon_step = {
    .name = "muon's step", .factors = step_factors, OPTIMIZER_KERNELS(muon_plain)};

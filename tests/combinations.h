/* The combinations of techniques that tests go through: every value of every choice with every other. See
 * test_matrix.c, which runs them, and test_types_matrix.c, which only compiles them. */
#pragma once

#include "lib/run/run.h"

/* SUM: the ranks that sum gradients and keep the states. The first N_TECHNIQUES are techniques, the others company. */
enum { SHAPE, CP_FORM, EP, SP, SUM, RECOMPUTE, SCHEDULE, N_TECHNIQUES,
       MODEL = N_TECHNIQUES, CORE, PARK, MICRO, N_CHOICES };
enum { MAX_VALUES = 24, COMBINATION_MODELS = 6 };
struct combination { int value[N_CHOICES]; };

/** List the meshes of `ranks` ranks: dp x cp x tp x pp. All below is for these. */
void combinations_of_world(int ranks);
/** How many values each choice has; static. And how many combinations the first n choices have. */
const int *combination_choices(void);
int combination_count(int n_choices);
/** Number k of all: below combination_count(N_TECHNIQUES) its company are the first values. */
struct combination combination_of(int k);
/** The model alone, on one rank; its architecture. */
struct plan combination_model(int model);
const char *combination_arch(int model);
/** The plan of a combination; false when a technique refuses it. */
bool combination_plan(const struct combination *, struct plan *);

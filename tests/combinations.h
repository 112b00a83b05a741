/* The combinations of techniques that tests try: every value of every choice with every other. test_matrix.c
 * runs them, test_mixed_curve.c only compiles them. */
#pragma once

#include "lib/run/run.h"

/* SUM: the ranks that sum gradients and keep the states. The first N_TECHNIQUES are techniques, the others company. */
enum { SHAPE, CP_FORM, EP, SP, SUM, RECOMPUTE, SCHEDULE, N_TECHNIQUES,
       MODEL = N_TECHNIQUES, CORE, PARK, MICRO, N_CHOICES };
enum { MAX_VALUES = 24, COMBINATION_MODELS = 6 };
struct combination { int value[N_CHOICES]; };

/** List the meshes of `ranks` ranks: dp x cp x tp x pp. The functions below use this list. */
void combinations_of_world(int ranks);
/** The number of values of each choice, static; the number of combinations of the first n choices. */
const int *combination_choices(void);
int combination_count(int n_choices);
/** Combination k of all. Below combination_count(N_TECHNIQUES) all choices of company have their first value. */
struct combination combination_of(int k);
/** The model alone, on one rank; its architecture's name. */
struct plan combination_model(int model);
const char *combination_arch(int model);
/** The plan of a combination; false when a technique refuses it. */
bool combination_plan(const struct combination *, struct plan *);

#include "lib/ops/fusions.h"

const struct fusion fusions[] = {{0}};

/* Data parallelism that sends gradients as codes of fewer bytes. See dp_coded.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_dp_coded;

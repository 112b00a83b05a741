/* Expert parallelism: the experts of a layer are sharded over ranks that have different tokens. See ep.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_ep;

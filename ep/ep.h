/* Expert parallelism: the experts of a layer are sharded over ranks that have different tokens. See ep.c. */
#ifndef TRIVIUM_EP_EP_H
#define TRIVIUM_EP_EP_H

#include "lib/run/technique.h"

extern const struct technique technique_ep;

#endif

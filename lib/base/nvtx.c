#include "lib/base/nvtx.h"

#include <stdlib.h>

bool nvtx_is_heard(void) { return getenv("NVTX_INJECTION64_PATH") != NULL; }

#ifdef TRIVIUM_NVTX
#include <nvtx3/nvToolsExt.h>

bool nvtx_is_built(void) { return true; }
void nvtx_push(const char *name) { nvtxRangePushA(name); }
void nvtx_pop(void) { nvtxRangePop(); }
#else
bool nvtx_is_built(void) { return false; }
void nvtx_push(const char *name) { (void)name; }
void nvtx_pop(void) {}
#endif

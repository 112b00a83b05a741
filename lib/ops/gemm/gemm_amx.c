/* bf16 in pairs, in AMX's registers. */
#include "lib/ops/gemm/gemm_narrow.h"

#ifdef __AMX_BF16__

#define GEMM_AMX
#include "lib/ops/gemm/gemm_pairs.h"
#include "lib/ops/gemm/gemm_packed.h"
#include "lib/ops/gemm/gemm_narrow_product.h"
#include <sys/syscall.h>
#include <unistd.h>

/* Linux lets a process use AMX's registers after one request: a switch of threads then saves 8 KB more. */
static bool can(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
const struct gemm_narrow gemm_amx = {BY_AMX, work, run, can};

#else

static bool can(void) { return false; }
const struct gemm_narrow gemm_amx = {.way = BY_AMX, .can = can};

#endif

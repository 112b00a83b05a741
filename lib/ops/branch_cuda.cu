/* y = x, dx += dy. See branch.h. Memory-bound: 3 elements moved for each element of x, 16 bytes per thread. */
#include "lib/ops/branch.h"
#include "lib/ops/groups_cuda.h"

extern "C" { kernel CUDA(branch_forward), CUDA(branch_backward_input); }

enum { THREADS = 256 };

/* to = from, or to += from. The first threads of the grid move the last n % PACK elements, one each. */
__global__ static void __launch_bounds__(THREADS) branch_put_pack(elem *to, const elem *from, int64_t n, int add) {
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = thread * PACK; i + PACK <= n; i += threads * PACK) {
        pack v = pack_load(from + i), old = v;
        if (add) old = pack_load(to + i);
        for (int j = 0; j < PACK; j++) put(&old.x[j], load(v.x[j]), add);
        store_whole((pack *)(to + i), old);
    }
    int64_t i = n / PACK * PACK + thread;
    if (i < n) put(to + i, load(from[i]), add);
}

static enum status branch_put(const struct call *call, const struct tensor *to, const struct tensor *from, int add) {
    int64_t n = type_n(to->type);
    return LAUNCHED(branch_put_pack, grid_of(n, THREADS * PACK), THREADS, 0, stream_of(call), (elem *)to->data,
                    (const elem *)from->data, n, add);
}

enum status CUDA(branch_forward)(const struct call *call) { return branch_put(call, &call->out[0], &call->in[0], 0); }
enum status CUDA(branch_backward_input)(const struct call *call) {
    return branch_put(call, &call->din[0], &call->dout[0], accumulates(call, 0));
}

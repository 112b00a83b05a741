/* to[column][row] = from[row][column], each element a piece of many bytes. See pieces.h.
 *
 * A piece is a run of whole tokens, long enough for coalesced reads and writes. So this is a plain copy, in the widest
 * words that all pieces are aligned to: 16 bytes nearly always. */
#include "lib/ops/pieces.h"

#include "lib/base/integer.h"
#include "lib/device/gpu.h"

enum { MOST_THREADS = 256, MOST_PIECES = 4096, MOST_BLOCKS = 4096 };

struct __align__(16) word16 { uint64_t half[2]; };

/* A block copies pieces blockIdx.y, blockIdx.y + gridDim.y, ...; blocks along x share a piece's words. */
template <class Word>
__global__ static void __launch_bounds__(MOST_THREADS)
    pieces_transpose_words(Word *__restrict__ to, const Word *__restrict__ from, int64_t rows, int64_t columns,
                              int64_t words) {
    int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t piece = blockIdx.y; piece < rows * columns; piece += gridDim.y) {
        int64_t r = piece / columns, c = piece - r * columns;
        const Word *source = from + piece * words;
        Word *target = to + (c * rows + r) * words;
#pragma unroll 4
        for (int64_t i = first; i < words; i += step) target[i] = source[i];
    }
}

template <class Word>
static void launch(void *stream, void *to, const void *from, int64_t rows, int64_t columns, int64_t bytes) {
    int64_t words = bytes / (int64_t)sizeof(Word), pieces = rows * columns < MOST_PIECES ? rows * columns : MOST_PIECES;
    int64_t warps = (words + 31) / 32, threads = warps * 32 < MOST_THREADS ? warps * 32 : MOST_THREADS;
    int64_t along = ceil_div(words, threads), most = ceil_div(MOST_BLOCKS, pieces);
    dim3 grid((unsigned)(along < most ? along : most), (unsigned)pieces);
    LAUNCH(pieces_transpose_words<Word>, grid, (unsigned)threads, 0, stream)
    ((Word *)to, (const Word *)from, rows, columns, words);
}

enum status pieces_transpose_cuda(void *stream, void *to, const void *from, int64_t rows, int64_t columns,
                                     int64_t bytes) {
    if (rows * columns * bytes == 0) return OK;
    /* The lowest set bit of `boundary` is the alignment of all pieces. */
    uintptr_t boundary = (uintptr_t)to | (uintptr_t)from | (uintptr_t)bytes;
    if (boundary % 16 == 0) launch<struct word16>(stream, to, from, rows, columns, bytes);
    else if (boundary % 4 == 0) launch<uint32_t>(stream, to, from, rows, columns, bytes);
    else if (boundary % 2 == 0) launch<uint16_t>(stream, to, from, rows, columns, bytes);
    else launch<uint8_t>(stream, to, from, rows, columns, bytes);
    return gpu_launched("pieces_transpose_words");
}

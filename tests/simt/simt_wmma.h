/* Tensor cores through nvcuda::wmma: 16x16x16 products of half or bfloat16, summed in float (half also in half).
 *
 * Which lane holds which elements of a fragment is not specified by CUDA. Here lane l holds elements 8l .. 8l+7 of the
 * matrix in row-major order; num_elements is NVIDIA's (half inputs are held twice). For the race check an unknown lane
 * of the warp makes every access, so a __syncwarp must lie between a store and a load of another lane that reads it.
 * CUDA C++ programming guide, "Warp matrix functions": pointers are 32-byte aligned, strides multiples of 16 bytes. */
#pragma once

enum simt_fragment_use { SIMT_INPUT, SIMT_ACCUMULATOR, SIMT_STORE };

#ifdef SIMT_CHECK
/* Tell the checker of bytes that some lane reads or writes for a fragment: at, and code, the instruction after it. */
extern "C" void simt_check_fragment(const void *at, size_t bytes, int use, const void *code);
extern "C" void simt_check_product(void);
#define SIMT_FRAGMENT_CHECK(at, use, code) simt_check_fragment((at), sizeof *(at), (use), (code))
#define SIMT_PRODUCT_CHECK() simt_check_product()
#else
#define SIMT_FRAGMENT_CHECK(at, use, code) (void)(use)
#define SIMT_PRODUCT_CHECK() (void)0
#endif
/** Reports a pointer (`at`) or a stride that tensor cores cannot take. */
extern "C" void simt_fragment_place(struct simt_site *, const void *at, size_t stride_bytes);

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class T, int N> struct simt_fragment {
    enum { num_elements = N, num_storage_elements = N };
    typedef T element_type;
    T x[N];
};
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment;
template <class L> struct fragment<matrix_a, 16, 16, 16, __half, L> : simt_fragment<__half, 16> {};
template <class L> struct fragment<matrix_b, 16, 16, 16, __half, L> : simt_fragment<__half, 16> {};
template <class L> struct fragment<matrix_a, 16, 16, 16, __nv_bfloat16, L> : simt_fragment<__nv_bfloat16, 8> {};
template <class L> struct fragment<matrix_b, 16, 16, 16, __nv_bfloat16, L> : simt_fragment<__nv_bfloat16, 8> {};
template <> struct fragment<accumulator, 16, 16, 16, float> : simt_fragment<float, 8> {};
template <> struct fragment<accumulator, 16, 16, 16, __half> : simt_fragment<__half, 8> {};

template <class T, int N> inline void fill_fragment(simt_fragment<T, N> &f, T value) {
    for (int i = 0; i < N; i++) f.x[i] = value;
}

/* ---- memory ---- */
inline int simt_row(int i) { return (8 * simt_lane() + i) / 16; }
inline int simt_column(int i) { return (8 * simt_lane() + i) % 16; }
inline size_t simt_offset(int i, unsigned stride, bool rows) {
    return rows ? (size_t)simt_row(i) * stride + simt_column(i) : (size_t)simt_column(i) * stride + simt_row(i);
}

/* The lanes meet, which does not order memory (PTX, wmma.load.sync). `code` is the caller's place, for reports. */
template <class T, int N>
SIMT_MACHINE inline void simt_load_elements(struct simt_site *site, simt_fragment<T, N> &f, const T *from,
                                            unsigned stride, bool rows, enum simt_fragment_use use, const void *code) {
    (void)code;
    simt_warp_together(site, NULL, NULL);
    simt_fragment_place(site, from, stride * sizeof(T));
    for (int i = 0; i < 8; i++) {
        const T *at = from + simt_offset(i, stride, rows);
        SIMT_FRAGMENT_CHECK(at, use, code);
        f.x[i] = *at;
        if (N == 16) f.x[N - 8 + i] = f.x[i];
    }
}
template <class U, class T, class L>
SIMT_MACHINE inline void simt_load(struct simt_site *site, fragment<U, 16, 16, 16, T, L> &f, const T *from,
                                   unsigned stride) {
    simt_load_elements(site, f, from, stride, std::is_same<L, row_major>::value, SIMT_INPUT,
                       __builtin_return_address(0));
}
template <class T>
SIMT_MACHINE inline void simt_load(struct simt_site *site, fragment<accumulator, 16, 16, 16, T> &f, const T *from,
                                   unsigned stride, layout_t layout) {
    simt_load_elements(site, f, from, stride, layout == mem_row_major, SIMT_ACCUMULATOR, __builtin_return_address(0));
}
template <class T>
SIMT_MACHINE inline void simt_store(struct simt_site *site, T *to, const fragment<accumulator, 16, 16, 16, T> &f,
                                    unsigned stride, layout_t layout) {
    simt_warp_together(site, NULL, NULL);
    simt_fragment_place(site, to, stride * sizeof(T));
    for (int i = 0; i < 8; i++) {
        T *at = to + simt_offset(i, stride, layout == mem_row_major);
        SIMT_FRAGMENT_CHECK(at, SIMT_STORE, __builtin_return_address(0));
        *at = f.x[i];
    }
}

/* ---- d = a b + c ---- */
template <class D, class AB, class C, int N> struct simt_operands {
    simt_fragment<D, 8> *d;
    const simt_fragment<AB, N> *a, *b;
    const simt_fragment<C, 8> *c;
};
/* One lane multiplies for the whole warp. Each sum is in the order of k. */
template <class D, class AB, class C, int N> SIMT_MACHINE void simt_multiply(void *const lanes[32]) {
    typedef simt_operands<D, AB, C, N> operands;
    float a[16][16], b[16][16], sum[16][16];
    SIMT_PRODUCT_CHECK();
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            const operands *o = (const operands *)lanes[lane];
            int row = lane / 2, column = lane % 2 * 8 + i;
            a[row][column] = simt_float(o->a->x[i]);
            b[row][column] = simt_float(o->b->x[i]);
            sum[row][column] = simt_float(o->c->x[i]);
        }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 16; column++) sum[row][column] += a[row][k] * b[k][column];
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++)
            simt_round(&((const operands *)lanes[lane])->d->x[i], sum[lane / 2][lane % 2 * 8 + i]);
}
template <class D, class AB, class C, class LA, class LB>
inline void simt_mma(struct simt_site *site, fragment<accumulator, 16, 16, 16, D> &d,
                     const fragment<matrix_a, 16, 16, 16, AB, LA> &a, const fragment<matrix_b, 16, 16, 16, AB, LB> &b,
                     const fragment<accumulator, 16, 16, 16, C> &c) {
    enum { N = fragment<matrix_a, 16, 16, 16, AB, LA>::num_elements };
    simt_operands<D, AB, C, N> mine = {&d, &a, &b, &c};
    simt_warp_together(site, &mine, simt_multiply<D, AB, C, N>);
}

/* The names: macros for the site, so that wmma::mma_sync(...) becomes wmma::simt_mma(site, ...). */
#define load_matrix_sync(...) simt_load(SIMT_SITE("load_matrix_sync"), __VA_ARGS__)
#define store_matrix_sync(...) simt_store(SIMT_SITE("store_matrix_sync"), __VA_ARGS__)
#define mma_sync(...) simt_mma(SIMT_SITE("mma_sync"), __VA_ARGS__)

}
}

/* integers.h - products of matrices of i32, exact modulo 2^32, made of products of floats.
 *
 * A float holds every whole number of up to 2^24 in size. k is cut into parts so short that all sums of a part stay
 * below that whatever their order, each part is a product by the kernel of our layers, and the parts are added as
 * integers, which wrap as ONNX wants it. That is for numbers of a few bits, as bytes less their zero points are; a step
 * that meets others goes another way, which is slower.
 */
#ifndef HYP_RUNTIME_CPU_INTEGERS_H
#define HYP_RUNTIME_CPU_INTEGERS_H

#include "runtime/cpu/cpu.h"

/* The largest in size that a number of the left matrix may be, and the right one's shortest part. */
enum { HYP_INTEGER_LEFT = 256, HYP_INTEGER_LEAST_TERMS = 32 };

/* A right matrix [k, n] where it lies: element (l, j) is at[j * column + l / inner * outer_step + l % inner *
 * inner_step]. */
typedef struct hyp_integer_matrix {
    const int32_t *at;
    int64_t k, n, column, inner, outer_step, inner_step;
} hyp_integer_matrix;

/* The same as floats, in parts of `terms` of k, each packed as a layer of its own. */
typedef struct hyp_integer_layer {
    int64_t n, k, terms;
    const float *weights, *zeros; /* zeros: a bias for each part */
} hyp_integer_layer;

/* The bits that some of `count` numbers have, but for their sign: each is from -bits - 1 to bits. */
uint32_t hyp_integer_bits(const hyp_cpu_run *run, const int32_t *x, int64_t count);

/* Bytes that hyp_integers_pack wants, a multiple of 64; false: more than there can be. */
HYP_NODISCARD bool hyp_integers_room(const hyp_cpu_kernels *kernels, int64_t n, int64_t k, size_t *out);
/* Packs into `room`, 64-byte aligned. False, and nothing is made: its numbers are too large. */
HYP_NODISCARD bool hyp_integers_pack(const hyp_cpu_kernels *kernels, const hyp_integer_matrix *m, void *room,
                                     hyp_integer_layer *out);
/* Of `count` matrices of one shape that the plan has, `apart` numbers from one to the next: layers of the model, packed
 * when they are first wanted, and the same for a step in every call. *out is NULL where their numbers are too large. */
HYP_NODISCARD hyp_status hyp_integers_find(hyp_cpu_model *model, uint32_t step, const hyp_integer_matrix *first,
                                           int64_t count, int64_t apart, const hyp_integer_layer **out, hyp_diag *diag);
/* What hyp_integers_find has made of a step. NULL-safe. */
void hyp_integers_free(hyp_integer_weights *weights);

/* sums[rows, n] += x[rows, k] w in the columns from `begin`, a multiple of hyp_integer_block, to `end`, for up to
 * HYP_MLP_ROWS rows. The numbers of x are whole and of up to HYP_INTEGER_LEFT in size. `made`:
 * hyp_integer_made_floats. */
void hyp_integers_add(const hyp_cpu_kernels *kernels, const hyp_integer_layer *w, int64_t rows, const float *x,
                      int64_t x_stride, int64_t begin, int64_t end, float *made, uint32_t *sums, int64_t stride);

/* Columns that one row goes through side by side. */
static inline int64_t hyp_integer_block(const hyp_cpu_kernels *kernels)
{
    return (int64_t)kernels->block * kernels->panel * kernels->width;
}
static inline int64_t hyp_integer_made_floats(const hyp_cpu_kernels *kernels)
{
    return HYP_MLP_ROWS * hyp_integer_block(kernels);
}

/* integer_loops.c. hyp_integer_bits of n numbers. */
uint32_t hyp_integer_bits_of(const int32_t *x, int64_t n);
/* n of int32_t, in the place of floats, become these. */
void hyp_integers_widen(float *x, int64_t n);
/* to[i] += from[i], which is within the range of int32_t. */
void hyp_integers_sum(uint32_t *to, const float *from, int64_t n);
/* to[i] += factor x[i * step] */
void hyp_integers_add_line(uint32_t *to, uint32_t factor, const uint32_t *x, int64_t step, int64_t n);

/* How a product is divided: into groups of rows, and where these are too few for the threads, of columns, too. */
typedef struct hyp_integer_parts {
    int64_t groups, slices, block, n;
} hyp_integer_parts;
hyp_integer_parts hyp_integers_divide(const hyp_cpu_kernels *kernels, int64_t m, int64_t n, int threads);
/* The columns of part i. */
void hyp_integers_slice(const hyp_integer_parts *parts, int64_t i, int64_t *begin, int64_t *end);

#endif

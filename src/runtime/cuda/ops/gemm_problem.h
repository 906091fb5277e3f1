/* gemm_problem.h - how a product of the plan is put to cuBLASLt. Pure: layouts, epilogues and batches, tested without a
 * device. The layouts are chosen so that the result is column-major: only then does cuBLASLt take every epilogue.
 */
#ifndef HYP_RUNTIME_CUDA_OPS_GEMM_PROBLEM_H
#define HYP_RUNTIME_CUDA_OPS_GEMM_PROBLEM_H

#include <cublasLt.h>

#include "runtime/cuda/ops/boxes.h"

/* D[m,n] = op(A) op(B), all column-major as cuBLASLt has it. A row-major y[M,N] is its own transpose in column-major
 * form, so m = N, n = M; A is the plan's right operand (or the weight), B its left one. */
typedef struct hyp_cuda_product {
    int64_t m, n, k;
    bool trans_a, trans_b;                /* op is a transposition */
    int64_t lda, ldb, ldd;                /* elements between columns as stored */
    int64_t batch;                        /* products in one call, 1 = plain */
    int64_t stride_a, stride_b, stride_d; /* between them, in elements */
    cudaDataType_t type, result, scale;   /* of A and B; of C, D and the bias; of alpha and beta */
    cublasComputeType_t compute;
    /* Calls for every index of this box; lanes: A, B, D. */
    hyp_cuda_box outer;
} hyp_cuda_product;

/* y[m,n] = x[m,k] w^T with w stored [n,k], or [k,n] with weight_kn. The dtype is a float; products of f16, bf16 and f32
 * accumulate in f32, and round to TF32 only with `tf32`; those of f8e4m3, too, and their result is bf16. */
void hyp_cuda_product_linear(hyp_dtype dtype, bool tf32, int64_t m, int64_t n, int64_t k, bool weight_kn,
                             hyp_cuda_product *out);
/* Of a layer whose result has the gradient g[rows, n] and whose input is x[rows, k]: g^T x, or x^T g if turned. */
void hyp_cuda_product_gradient(hyp_dtype dtype, bool tf32, bool turned, int64_t n, int64_t k, int64_t rows,
                               hyp_cuda_product *out);
/* The matmul step: as many batch axes as possible go into one call. Every extent is positive. */
void hyp_cuda_product_matmul(hyp_dtype dtype, const HypPlan__Matmul *k, const int64_t *values, hyp_cuda_product *out);

/* A product whose rows in memory are multiples of 16 bytes, made of one whose are not: which of its operands are copies with
 * zeros behind their rows and behind the last one, and whether its result is one that is cut down to the wanted one. */
typedef struct hyp_cuda_padding {
    hyp_cuda_product product;
    bool a, b, d;
} hyp_cuda_padding;
/* Is that the faster way? cuBLASLt takes three times as long for rows of an even number of elements of 16 bits, 4 to 7
 * times for an odd one, up to 2.7 times in TF32, and no longer in f32 (H100, 13.1, 4096 x 768 x 1001, 30522 and 50257). For one
 * product without outer calls. */
bool hyp_cuda_product_pads(const hyp_cuda_product *p, hyp_cuda_padding *out);

/* Are there results few enough for the sums of a layer to be split into so many parts, to have work for all multiprocessors?
 * cuBLASLt by itself takes too few parts and a slow kernel to add them up (H200, cuBLASLt 13.1: 128 rows of 3072 to 768
 * take 7.6 us, six parts as a batch 4.3). */
bool hyp_cuda_product_gains(const hyp_cuda_product *p, uint32_t parts, int multiprocessors);
/* Can they be? Into parts of whole tiles. */
bool hyp_cuda_product_splits(const hyp_cuda_product *p, uint32_t parts);
/* Makes it a batch of so many products, whose results in f32 lie one behind the other, to be added up. */
void hyp_cuda_product_split(hyp_cuda_product *p, uint32_t parts);

/* Everything that the choice of an algorithm for operands at multiples of HYP_CUDA_ALIGN depends on, the device aside:
 * types, layout, shape, batch, and what follows the product, as text. Outer calls do not count. */
enum { HYP_CUDA_PRODUCT_KEY = 384 };
void hyp_cuda_product_key(const hyp_cuda_product *p, bool bias, bool added_before, HypPlan__Act act, bool added_after,
                          char out[HYP_CUDA_PRODUCT_KEY]);

/* The same for hyp_cuda_product_gradient, with the sums of the rows of g. */
void hyp_cuda_gradient_key(const hyp_cuda_product *p, bool turned, char out[HYP_CUDA_PRODUCT_KEY]);

/* Where in a key the number of rows of D stands (of the plan's result: n), and how many products are in the call; 0 = it is
 * one alone. */
size_t hyp_cuda_product_rows_at(const char *key);
size_t hyp_cuda_product_batch_at(const char *key);

/* What a call of cuBLASLt does itself, and what a kernel of ours must do after it. */
typedef struct hyp_cuda_epilogue {
    cublasLtEpilogue_t epilogue;
    bool bias_after, act_after;
    bool sums_after; /* of a layer's gradients: those by the bias */
} hyp_cuda_epilogue;

/* Ways to add a bias and apply an activation, the best one first; returns how many of the 3. The last one works for
 * every type. cuBLASLt's GELU, the tanh form, is off by up to 5e-6 (measured; f64 by 1e-9): that is lost in the
 * rounding of f16, bf16 and TF32, but not wanted where the product is strict. For bf16 it serves the erf form, too: the
 * two differ by up to 4.7e-4, but applied to the unrounded sum the result is off by 1.675e-3 (2-norm, sums of a standard
 * normal distribution), by the erf form of the unrounded sum by 1.664e-3, and by that of the rounded sum, all that a
 * kernel after the product can see, by 2.6e-3. */
size_t hyp_cuda_epilogues(HypPlan__Act act, bool bias, const hyp_cuda_product *p, hyp_cuda_epilogue out[3]);
/* The same for the product of hyp_cuda_product_gradient; returns how many of the 3. */
size_t hyp_cuda_gradient_epilogues(const hyp_cuda_product *p, bool turned, hyp_cuda_epilogue out[3]);
/* Is every bit of this product's type meant to count? True for f64, and for f32 without TF32. */
bool hyp_cuda_product_is_strict(const hyp_cuda_product *p);

#endif

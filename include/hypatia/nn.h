/* hypatia/nn.h - fused linear layers, forward and backward, called directly: no model, no plan.
 *
 *   hyp_nn *nn;   hyp_diag diag = {0};
 *   hyp_nn_create(NULL, NULL, &nn, &diag);                                    a GPU where there is one, else the CPU
 *   hyp_linear_relu_forward(nn, &w, &b, &x, &y, &saved, NULL, &diag);         y = relu(x w^T + b)
 *   hyp_linear_relu_backward(nn, &w, &x, &saved, &dy, &dx, &dw, &db, NULL, &diag);
 *
 * A layer is a call of cuBLASLt with its activation, bias and bias gradient in the epilogue, as far as that has
 * them, right and faster so (RELU_BIAS, DRELU_BGRAD, GELU_AUX_BIAS, DGELU_BGRAD, BGRADB; NVIDIA, cuBLAS Library 13.1,
 * cublasLtEpilogue_t), else with a kernel behind it; on a CPU a product of oneDNN with its activation as a
 * post-operation, or of our own kernels. Both passes of relu(x w1^T + b1) w2^T + b2 are six products on a GPU, and a
 * kernel that reads the relu's result again: docs/nn.md.
 *
 * Tensors. A layer is y[..., out] = act(x[..., in] w^T + b) with w [out, in] and b [out], as torch.nn.Linear has it. x
 * and y have any rank of 1 or more; what stands before the last axis counts as rows, without a copy. All tensors of a
 * call are of one type, f32, f16 or bf16, and lie in memory of the handle's device: device memory for CUDA, the host's
 * otherwise. On CUDA each begins at a multiple of 16 bytes, elsewhere of its element. Sums are made in 32 bits, and
 * results are rounded once to the type, as are the values and gradients between layers. No output overlaps another
 * tensor of the call. An output's rank may be 0: then rank and dims are filled in; else its last axis and the product
 * of the others are checked. Wrong tensors are HYP_ERR_INVALID_ARGUMENT; the message says which, what was found, what
 * was wanted and what to do; nothing is computed then.
 *
 * Results are the same, to the bit, in every run on the same device with the same tuning. Other devices sum in other
 * orders. A GPU's gelu-tanh is cuBLASLt's for f16, bf16 and tf32, which is off by up to 5e-6 before it is rounded.
 *
 * A handle belongs to one thread (and one stream) at a time, as a context of hypatia/runtime.h does; several are used
 * at once. On a GPU calls queue work on the handle's stream and return; they may be captured into a CUDA graph of the
 * caller's. Functions called with NULL for what they need give HYP_ERR_INVALID_ARGUMENT; questions about NULL are
 * answered by 0, NULL or "".
 */
#ifndef HYPATIA_NN_H
#define HYPATIA_NN_H

#include "hypatia/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hyp_nn hyp_nn;

/* A device, its libraries, scratch memory, and the algorithms that were chosen so far. Of the options those count that
 * are not about a plan: device, device_index, threads, pool, processors, log, cpu_level, memory_limit (of the handle,
 * scratch memory included), allocator; NULL: the defaults. stream: CUstream of all calls that name no other, to last as
 * long as the handle; NULL: one of the handle's own. HYP_ERR_DEVICE where the device is not there, HYP_ERR_UNSUPPORTED
 * for a stream on a CPU. *out is owned by the caller. */
HYP_API HYP_NODISCARD hyp_status hyp_nn_create(const hyp_engine_options *options, void *stream, hyp_nn **out,
                                               hyp_diag *diag);
HYP_API void hyp_nn_destroy(hyp_nn *nn);                 /* waits for what is under way; NULL-safe */
HYP_API hyp_device_kind hyp_nn_device(const hyp_nn *nn); /* the one taken: never AUTO */
HYP_API const char *hyp_nn_device_name(const hyp_nn *nn);
HYP_API void *hyp_nn_stream(hyp_nn *nn);                                         /* CUstream, borrowed; NULL on a CPU */
HYP_API HYP_NODISCARD hyp_status hyp_nn_synchronize(hyp_nn *nn, hyp_diag *diag); /* until all calls have ended */
HYP_API size_t hyp_nn_memory_bytes(const hyp_nn *nn);                            /* that count to memory_limit */
/* Calls that were captured into graphs use the handle's scratch memory, which is kept for them when it grows, until
 * this says that no such graph will be launched any more; or to the end of the handle. NULL-safe. */
HYP_API void hyp_nn_release_captured(hyp_nn *nn);

/* Memory of the handle's device, as hyp_engine_tensor_alloc, _free and _copy. */
HYP_API HYP_NODISCARD hyp_status hyp_nn_tensor_alloc(hyp_nn *nn, hyp_tensor *tensor, hyp_diag *diag);
HYP_API void hyp_nn_tensor_free(hyp_nn *nn, hyp_tensor *tensor);
HYP_API HYP_NODISCARD hyp_status hyp_nn_tensor_copy(hyp_nn *nn, const hyp_tensor *from, hyp_tensor *to, hyp_diag *diag);

/* What follows a product. */
typedef enum hyp_nn_act {
    HYP_NN_NONE = 0,
    HYP_NN_RELU = 1,      /* max(v, 0), and NaN stays but with oneDNN, which gives 0; the gradient passes where v > 0 */
    HYP_NN_GELU = 2,      /* v (1 + erf(v / sqrt 2)) / 2 (Hendrycks and Gimpel 2016, arXiv:1606.08415) */
    HYP_NN_GELU_TANH = 3, /* its form with tanh, of the same paper */
    HYP_NN_SILU = 4       /* v / (1 + exp(-v)) (Elfwing, Uchibe and Doya 2018, arXiv:1702.03118) */
} hyp_nn_act;

/* Callers make arrays of these two, which stay as they are. */
typedef struct hyp_nn_layer {
    hyp_tensor weight; /* [out, in] */
    hyp_tensor bias;   /* [out]; dtype HYP_DTYPE_NONE: there is none */
    hyp_nn_act act;
    uint32_t reserved; /* 0 */
} hyp_nn_layer;
/* Where the gradients of a layer go; dtype HYP_DTYPE_NONE: not wanted. That of a bias may be had where the layer has
 * none. */
typedef struct hyp_nn_gradient {
    hyp_tensor weight, bias;
} hyp_nn_gradient;

typedef struct hyp_nn_run_options {
    size_t size;           /* sizeof(hyp_nn_run_options) */
    bool tf32;             /* f32 on a GPU: operands of products are rounded to TF32, which tensor cores take */
    bool accumulate;       /* gradients of weights and biases are added to what is there */
    bool accumulate_input; /* so is that of x */
    void *stream;          /* CUstream of this call, which waits for the calls before; NULL: the handle's */
    /* Elements from index to index of an axis, one number an axis, where x, y (or dy) and dx are not dense; NULL:
     * dense. The last is 1, and the axes before it follow each other without gaps, so that they are one axis of rows: a
     * part of the columns of a larger matrix, say. Anything else is refused: copy it first. */
    const int64_t *x_strides, *y_strides, *dx_strides;
} hyp_nn_run_options;

/* ---- layers in a row ---------------------------------------------------------------------------------------
 *
 * y = act(... act(x w^T + b) ...), `count` layers, 1 or more. Of tensors that a call does not use, as of all in
 * hyp_mlp_saved_bytes, hyp_mlp_reserve and hyp_nn_tune, type, rank and dims are read alone, and data may be NULL.
 */

/* Bytes of the memory that the forward pass leaves for the backward pass, and nothing else does: for a relu 1 bit of an
 * element, rows rounded up to 128; for gelu, gelu-tanh and silu the sum before it; and the values between layers. It
 * may be 0. */
HYP_API HYP_NODISCARD hyp_status hyp_mlp_saved_bytes(const hyp_nn *nn, const hyp_nn_layer *layers, size_t count,
                                                     const hyp_tensor *x, size_t *out_bytes, hyp_diag *diag);

/* `saved`: so many bytes of the caller's, at a multiple of 256 on CUDA and of 16 elsewhere, of which data, bytes and
 * memory are read; NULL: no backward pass follows. What is in it is the handle's matter: a backward pass of the same
 * handle, with layers and x of the same dims and types, reads it, any number of times, until hyp_nn_tune. */
HYP_API HYP_NODISCARD hyp_status hyp_mlp_forward(hyp_nn *nn, const hyp_nn_layer *layers, size_t count,
                                                 const hyp_tensor *x, hyp_tensor *y, hyp_tensor *saved,
                                                 const hyp_nn_run_options *options, hyp_diag *diag);

/* The gradients of a scalar of which dy is the gradient with respect to y: dx, unless that is NULL, and those that
 * `gradients`, one a layer, asks for; it may be NULL. Weights are as in the forward pass, biases are not read; x is
 * read for the gradient of the first weight alone. */
HYP_API HYP_NODISCARD hyp_status hyp_mlp_backward(hyp_nn *nn, const hyp_nn_layer *layers, size_t count,
                                                  const hyp_tensor *x, const hyp_tensor *saved, const hyp_tensor *dy,
                                                  hyp_tensor *dx, hyp_nn_gradient *gradients,
                                                  const hyp_nn_run_options *options, hyp_diag *diag);

/* Prepares for calls with x of these dims: forward passes with and without `saved` and, where dx or gradients are not
 * NULL, the backward pass that wants just these (of which nothing but the types is read). Later calls like it allocate
 * nothing, on host or device; on CUDA that is a promise about tensors at multiples of 256 bytes. Calls that come
 * unprepared prepare themselves. The handle remembers 1024 steps; the oldest goes when one more comes. */
HYP_API HYP_NODISCARD hyp_status hyp_mlp_reserve(hyp_nn *nn, const hyp_nn_layer *layers, size_t count,
                                                 const hyp_tensor *x, const hyp_tensor *dx,
                                                 const hyp_nn_gradient *gradients, const hyp_nn_run_options *options,
                                                 hyp_diag *diag);

/* ---- one layer ending in a relu ----------------------------------------------------------------------------
 *
 * The same for a single layer: bias, saved, dx, dweight and dbias may be NULL. Saved is 1 bit an element of y.
 */
HYP_API HYP_NODISCARD hyp_status hyp_linear_relu_saved_bytes(const hyp_nn *nn, const hyp_tensor *weight,
                                                             const hyp_tensor *x, size_t *out_bytes, hyp_diag *diag);
HYP_API HYP_NODISCARD hyp_status hyp_linear_relu_forward(hyp_nn *nn, const hyp_tensor *weight, const hyp_tensor *bias,
                                                         const hyp_tensor *x, hyp_tensor *y, hyp_tensor *saved,
                                                         const hyp_nn_run_options *options, hyp_diag *diag);
HYP_API HYP_NODISCARD hyp_status hyp_linear_relu_backward(hyp_nn *nn, const hyp_tensor *weight, const hyp_tensor *x,
                                                          const hyp_tensor *saved, const hyp_tensor *dy, hyp_tensor *dx,
                                                          hyp_tensor *dweight, hyp_tensor *dbias,
                                                          const hyp_nn_run_options *options, hyp_diag *diag);

/* ---- tuning ------------------------------------------------------------------------------------------------- */

/* Measures how the steps of the passes that hyp_mlp_reserve would prepare are done fastest (algorithms of cuBLASLt,
 * what is in its epilogues and what a kernel does after it, the mask of a relu or its result read again), and does them
 * so from then on, for as long as the handle remembers them. `seconds`: about how long to measure; 0 = half a minute.
 * Takes memory meanwhile. What forward passes have saved before is of no use afterwards. Takes only what gives the
 * results of the untuned way within rounding, and is 2 % faster. HYP_ERR_UNSUPPORTED where there is nothing to choose
 * from, on a CPU. */
HYP_API HYP_NODISCARD hyp_status hyp_nn_tune(hyp_nn *nn, const hyp_nn_layer *layers, size_t count, const hyp_tensor *x,
                                             const hyp_tensor *dx, const hyp_nn_gradient *gradients,
                                             const hyp_nn_run_options *options, double seconds, hyp_diag *diag);

/* Writes a line for every step that the handle remembers: what it computes, and by what: "wgrad bf16 1024x784x2048
 * bias: cuBLASLt BGRADB, tuned, 8.1 us, untuned 9.0 us". */
HYP_API void hyp_nn_describe(const hyp_nn *nn, void (*write)(const char *line, void *user), void *user);

#ifdef __cplusplus
}
#endif
#endif

/* conv_dnn.h - a convolution as cuDNN is told of it: what the calls for its result (conv_cudnn.c) and for its gradients
 * (conv_gradients.c) share. */
#ifndef HYP_RUNTIME_CUDA_OPS_CONV_DNN_H
#define HYP_RUNTIME_CUDA_OPS_CONV_DNN_H

#include "runtime/cuda/ops/conv.h"

enum {
    HYP_CUDA_DNN_AXES = HYP_CUDA_SPATIAL,
    HYP_CUDA_DNN_RANK = 2 + HYP_CUDA_DNN_AXES,
    HYP_CUDA_DNN_WORKSPACE = 256 << 20, /* algorithms that want more are passed over */
};

/* At least two spatial axes, ints, padding the same on both sides. */
typedef struct hyp_cuda_dnn_shape {
    int axes;
    int x[HYP_CUDA_DNN_RANK], w[HYP_CUDA_DNN_RANK], y[HYP_CUDA_DNN_RANK];
    int pads[HYP_CUDA_DNN_AXES], strides[HYP_CUDA_DNN_AXES], dilations[HYP_CUDA_DNN_AXES];
    bool padded; /* x has its padding written out, because that is not the same on both sides */
} hyp_cuda_dnn_shape;

/* False where cuDNN cannot have it: sizes out of its range, or a y of fewer places than windows have room for. */
bool hyp_cuda_dnn_read(const hyp_conv *v, hyp_cuda_dnn_shape *out);
/* Why cuDNN does not do the step with its images in that order, as far as that is cheap to tell; NULL: it does. */
const char *hyp_cuda_dnn_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool last);

/* What cuDNN knows of it. */
typedef struct hyp_cuda_dnn_described {
    void *x, *w, *y, *conv;
} hyp_cuda_dnn_described;
bool hyp_cuda_dnn_make_tensor(const hyp_cudnn *dnn, bool last, hyp_dtype dtype, int rank, const int *dims, void **out);
/* With the channels last or in the plan's order. f32 is f32 unless the plan allows TF32. False when cuDNN refuses; what
 * was made is to be disposed of in any case. */
bool hyp_cuda_dnn_describe(const hyp_cudnn *dnn, const hyp_cuda_conv_step *step, const hyp_cuda_dnn_shape *shape,
                           bool last, bool tf32, hyp_cuda_dnn_described *out);
void hyp_cuda_dnn_dispose(const hyp_cudnn *dnn, hyp_cuda_dnn_described *d); /* zeroed is safe */

/* Whether an algorithm gives the same bits every time, has room, and is exact enough for the type: transformed tiles,
 * which algorithms have from `transforms` on, lose too many of the 11 or 8 bits of narrow types. */
bool hyp_cuda_dnn_is_fit(const hyp_cudnn_algorithm *a, hyp_dtype dtype, int transforms);
/* The calls' factors, 1 and 0, in the type that cuDNN wants. */
const void *hyp_cuda_dnn_one(hyp_dtype dtype);
const void *hyp_cuda_dnn_zero(hyp_dtype dtype);

/* An image, or weights, in the session's room, from `at` on, in the order that the call has. */
typedef struct hyp_cuda_dnn_copy {
    bool moves;     /* else it is where the step has it */
    size_t at;      /* bytes */
    size_t cleared; /* so many bytes are 0 where the tensor is not: its padding */
    hyp_cuda_mover mover;
} hyp_cuda_dnn_copy;
/* Lays out a copy of `a` behind *room, which grows by it, if it is to be in another order, or inside of its padding
 * (`window` is not NULL); `back`: the copy is moved to the tensor after the call. */
HYP_NODISCARD hyp_status hyp_cuda_dnn_lay_out(hyp_cuda_build *b, const hyp_array *a, hyp_dtype dtype, bool from_last,
                                              bool to_last, const hyp_window *window, bool back, size_t *room,
                                              hyp_cuda_dnn_copy *out);
/* Adds the op, of whose data it keeps a copy, which `dispose` frees; the room is to have so many bytes, workspace
 * included. */
HYP_NODISCARD hyp_status hyp_cuda_dnn_add(hyp_cuda_build *b, size_t room,
                                          hyp_status (*run)(hyp_cuda_session *, void *, hyp_diag *),
                                          void (*dispose)(const hyp_cuda_library *, void *), const void *data, size_t size);
/* Brings a tensor to the call: *at becomes its address there. */
HYP_NODISCARD hyp_status hyp_cuda_dnn_bring(hyp_cuda_session *s, hyp_cuda_dnn_copy *copy, CUdeviceptr *at,
                                            hyp_diag *diag);
/* What the copies that the step needs in that order are predicted to take. */
double hyp_cuda_dnn_moving_seconds(const hyp_cuda_conv_step *step, bool last);

/* The floor of a call with the channels last: few channels fill no vector of 16 bytes, and f32 without TF32 has few
 * kernels. */
double hyp_cuda_dnn_last_floor(const hyp_cuda_conv_step *step, double floor);
/* The same of one that has them in the plan's order. In 16 bits cuDNN's own kernels have the channels last: what lies otherwise it
 * brings there, and the result back, by kernels of its own. */
double hyp_cuda_dnn_first_floor(const hyp_cuda_conv_step *step, double floor);

#endif

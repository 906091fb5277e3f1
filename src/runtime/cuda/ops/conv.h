/* conv.h - a convolution step between the files that do it: conv.c reads it, conv_cudnn.c and windows.c run it. */
#ifndef HYP_RUNTIME_CUDA_OPS_CONV_H
#define HYP_RUNTIME_CUDA_OPS_CONV_H

#include "kernels/window.h"
#include "runtime/cuda/cuda.h"

/* A step whose result has elements, with its arguments checked. */
typedef struct hyp_cuda_conv_step {
    hyp_conv conv;                                  /* shapes; the arrays have no data */
    uint32_t x, weight, y, bias_plus1, added_plus1; /* tensors; index + 1, 0 = none */
    bool x_last, weight_last, y_last, added_last;   /* how they lie: with the channels last */
    hyp_dtype dtype;
    uint32_t act; /* HYP_PW_RELU ..., CLIP: from 0 to 6, CAST: none */
} hyp_cuda_conv_step;

/* conv_product.c: as a product. *out_done is false where that is not possible or not better, and then nothing was
 * added. */
HYP_NODISCARD hyp_status hyp_cuda_add_conv_product(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool *out_done);

/* conv_cudnn.c: by cuDNN. *out_done is false where cuDNN is not there or does not do it, and then nothing was added. */
HYP_NODISCARD hyp_status hyp_cuda_add_dnn_conv(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool *out_done);

/* Gives a box for copies of images its lane `lane`: the strides of dense [images, channels, spatial...] of these dims
 * in one order or the other. Its axes are the spatial ones, innermost first, then channels, then images; extents are
 * left to the caller. */
void hyp_cuda_image_lane(hyp_cuda_box *box, uint32_t lane, int32_t rank, const int64_t *dims, bool last);
/* A box for a copy of all of an image from one order to the other, or the same. */
static inline void hyp_cuda_image_box(hyp_cuda_box *box, const hyp_array *a, bool from_last, bool to_last)
{
    *box = (hyp_cuda_box){0};
    hyp_cuda_image_lane(box, 0, a->rank, a->dims, from_last);
    hyp_cuda_image_lane(box, 1, a->rank, a->dims, to_last);
    for (int32_t i = 2; i < a->rank; i++) box->extent[a->rank - 1 - i] = a->dims[i];
    box->extent[a->rank - 2] = a->dims[1];
    box->extent[a->rank - 1] = a->dims[0];
}
/* Whether both orders are the same bytes. */
static inline bool hyp_cuda_one_order(const hyp_array *a)
{
    return a->dims[1] == 1 || a->count == a->dims[0] * a->dims[1];
}

/* windows.c: the window as kernels see it, whose spatial axes are at most HYP_CUDA_SPATIAL; x and y are
 * [., channels, spatial...] and have elements. */
void hyp_cuda_windows_of(const hyp_window *window, const hyp_array *x, const hyp_array *y, hyp_cuda_windows *out);

#endif

/* conv.h - convolution steps: the ways to do them, and what these share. conv.c reads a step and chooses. */
#ifndef HYP_RUNTIME_CUDA_OPS_CONV_H
#define HYP_RUNTIME_CUDA_OPS_CONV_H

#include "kernels/window.h"
#include "runtime/cuda/ops/prior.h"
#include "runtime/cuda/ops/steps.h"

/* What a step gives: y, or the gradient by x, which is a transposed convolution, or by the weights. */
typedef enum hyp_cuda_conv_gradient {
    HYP_CUDA_CONV_RESULT,
    HYP_CUDA_CONV_BY_X,
    HYP_CUDA_CONV_BY_WEIGHTS,
    HYP_CUDA_CONV_GRADIENTS
} hyp_cuda_conv_gradient;

/* A step whose result has elements, with its arguments checked. */
typedef struct hyp_cuda_conv_step {
    hyp_cuda_conv_gradient gradient; /* if it is one y is the gradient by y, and a bias is added to that by x */
    hyp_conv conv;                                  /* shapes; the arrays have no data */
    uint32_t x, weight, y, bias_plus1, added_plus1; /* tensors; index + 1, 0 = none */
    bool x_last, weight_last, y_last, added_last;   /* how they lie: with the channels last */
    bool weight_kn;                                 /* weight_last, and [C M]: of one element */
    bool computes_weights;                          /* a run does so: they are no constants */
    hyp_dtype dtype;
    bool tf32;    /* products of f32 may be rounded so */
    uint32_t act; /* HYP_PW_RELU ..., CLIP: from 0 to 6, CAST: none */
    /* The step behind it, where that is the largest of every 2x2 of y, which nobody else reads: both are done together, and
     * a way may leave y out. NULL: there is none. */
    const HypPlan__Call *pool;
    uint32_t pooled; /* its result, */
    bool pooled_last;
    int64_t pooled_dims[4];
} hyp_cuda_conv_step;

/* A way to do convolutions. To add one: write it, and put it into the list in conv.c. */
typedef struct hyp_cuda_conv_way {
    const char *name;
    /* Why it does not do this one, as far as that is cheap to tell; NULL: it does. */
    const char *(*cannot)(const hyp_cuda_build *b, const hyp_cuda_conv_step *step);
    /* What it is predicted to take for one that it can; `floor` is the time of the bytes or operations alone. */
    double (*seconds)(const hyp_cuda_conv_step *step, double floor);
    /* HYP_ERR_UNSUPPORTED: it turns out that it cannot. */
    hyp_status (*add)(hyp_cuda_build *b, const hyp_cuda_conv_step *step);
    bool pools; /* does the pool behind the step, too */
} hyp_cuda_conv_way;
extern const hyp_cuda_conv_way hyp_cuda_conv_product;  /* conv_product.c: filters of one element, as a layer */
extern const hyp_cuda_conv_way hyp_cuda_conv_unfolded; /* conv_product.c: windows are written out, and multiplied */
/* conv_tiles.c: 3x3 with stride 1, on tiles of 4x4 and of 2x2 results, and with products whose tiles are last */
extern const hyp_cuda_conv_way hyp_cuda_conv_tiles, hyp_cuda_conv_small_tiles;
extern const hyp_cuda_conv_way hyp_cuda_conv_turned_tiles, hyp_cuda_conv_small_turned_tiles;
/* conv_cudnn.c: in the order of the weights, and with the channels last where a run computes the weights */
extern const hyp_cuda_conv_way hyp_cuda_conv_cudnn, hyp_cuda_conv_cudnn_last;
/* conv_gradients.c: in the plan's order, and with the channels last */
extern const hyp_cuda_conv_way hyp_cuda_gradient_cudnn, hyp_cuda_gradient_cudnn_last;
extern const hyp_cuda_conv_way hyp_cuda_conv_transpose_plain; /* conv_transpose.c */
extern const hyp_cuda_conv_way hyp_cuda_conv_weights_plain;   /* conv_weights.c */

/* conv.c: fills in the key and the alternatives, whose forms are their places in its list. */
void hyp_cuda_offer_conv(const hyp_cuda_build *b, const hyp_cuda_conv_step *step, hyp_choice *out);
/* The ops of a step, in the way that is taken. */
HYP_NODISCARD hyp_status hyp_cuda_add_conv_step(hyp_cuda_build *b, const hyp_cuda_conv_step *step);

/* One weight for each place of the window and no sum over channels: a product would be almost empty. */
static inline bool hyp_cuda_is_depthwise(const hyp_conv *v) { return v->in_channels == 1 && v->group > 1; }
/* Does every digit of f32 count? */
static inline bool hyp_cuda_is_strict(const hyp_cuda_conv_step *step) { return step->dtype == HYP_F32 && !step->tf32; }

/* What a convolution in strict f32 takes at least where a thread adds up all channels under a window, one behind the
 * other, as measured (H100). */
static inline double hyp_cuda_deep_seconds(const hyp_cuda_conv_step *step)
{
    const double term = 2.2e-8;
    const hyp_conv *v = &step->conv;
    bool deep = hyp_cuda_is_strict(step) && step->gradient == HYP_CUDA_CONV_RESULT;
    return deep ? term * (double)v->in_channels * (double)v->window.kernel_count : 0;
}
/* What a kernel of ours for all convolutions is predicted to take, many times more than others. */
static inline double hyp_cuda_plain_seconds(const hyp_cuda_conv_step *step, double floor)
{
    const double product = 1e-12;
    const hyp_conv *v = &step->conv;
    return 2 * hyp_cuda_library_seconds + floor + hyp_cuda_deep_seconds(step) +
           product * (double)v->y->count * (double)v->in_channels * (double)v->window.kernel_count;
}

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

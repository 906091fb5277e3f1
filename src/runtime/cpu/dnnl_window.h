/* dnnl_window.h - what a step of convolution asks of oneDNN: dnnl_window_call.c reads and describes it, dnnl_window.c
 * prepares and runs it. */
#ifndef HYP_RUNTIME_CPU_DNNL_WINDOW_H
#define HYP_RUNTIME_CPU_DNNL_WINDOW_H

#include "runtime/cpu/dnnl_memory.h"

/* The tensors of a convolution, in the order of its inputs, and the result. The gradient by the weights reads SRC and
 * DST, the gradient by the result, and gives WEIGHTS. */
enum { SRC, WEIGHTS, BIAS, ADDED, DST, OPERANDS };

/* What a step asks for, with everything that oneDNN does not check itself checked. */
typedef struct hyp_dnnl_asked {
    const HypPlan__Call *call;
    const HypPlan__Program *program;
    const int64_t *values;
    const bool *channels_last; /* by tensor: how it lies outside */
    bool transpose, backward;  /* backward: the gradient by the weights */
    hyp_dnnl_act act;
    int n; /* spatial axes */
    hyp_dnnl_window window;
    /* The part: some images; where it is one, some lines of the result along the first spatial axis, and those of x
     * that they read. Of a gradient by the weights some channels of x and of the result, in so many groups. */
    int64_t image, images, line, lines, x_line, x_lines;
    int64_t group, x_channel, x_channels, y_channel, y_channels;
} hyp_dnnl_asked;

/* Reads the step: call, program, values and channels_last are set, `act` is that of none. False for what is left to the
 * plain kernels: other types, shapes that do not fit, which they refuse, and padding as wide as the kernel, for which
 * oneDNN 2.6's kernels for AVX-512 (brgconv) read from addresses near 0. The part is all of it. */
bool hyp_dnnl_read_window(hyp_dnnl_asked *a);

/* The tensor; UINT32_MAX: there is none. */
uint32_t hyp_dnnl_window_tensor(const hyp_dnnl_asked *a, int which);
static inline int64_t hyp_dnnl_window_dim(const hyp_dnnl_asked *a, uint32_t tensor, int axis)
{
    return a->values[a->program->tensors[tensor]->dims[axis]];
}

/* Whether the channels last and the plan's order are the same bytes. */
bool hyp_dnnl_one_order(const hyp_dnnl_asked *a, uint32_t tensor);
/* Whether the part has all channels of an image. */
bool hyp_dnnl_has_channels(const hyp_dnnl_asked *a, int which);
/* The part's [N C spatial...] in one order or the other: as they lie in the whole tensor, or, `dense`, by themselves.
 * NULL on failure, as below. */
hyp_md hyp_dnnl_image(const hyp_dnnl_asked *a, int which, bool last, bool dense);
/* The part's weights [groups out in kernel...]: `plain` as the plan has them, else in the layout that oneDNN likes
 * best. A plan's transposed convolution has [groups in out kernel...]. */
hyp_md hyp_dnnl_weights(const hyp_dnnl_asked *a, bool plain);
/* Where the part begins in a tensor, in bytes. */
size_t hyp_dnnl_window_begin(const hyp_dnnl_asked *a, int which);

/* The primitive of the part; NULL when oneDNN has none. Images lie with the channels last in it, unless *out_own: then
 * as it likes best. */
dnnl_primitive_desc_t hyp_dnnl_describe_window(const hyp_dnnl_asked *a, dnnl_engine_t engine, bool *out_own);

#endif

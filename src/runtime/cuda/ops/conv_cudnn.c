/* conv_cudnn.c - convolutions by cuDNN: bias, sum and relu in the same call where it can, otherwise in a pass of ours.
 *
 * An algorithm is chosen once, when shapes are prepared, among those that give the same result every time; a run asks
 * nothing and allocates nothing. Where the weights lie with the channels last, x and y must do so, too. What cuDNN must
 * have otherwise than the plan (x or y in another order, x with unequal padding) is brought to or from the session's
 * room, where the algorithm has its work space, too.
 */
#include <limits.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/cuda/ops/conv.h"
#include "runtime/cuda/session/backend.h"

enum {
    AXES = HYP_CUDA_SPATIAL,
    RANK = 2 + AXES,
    WORKSPACE_MOST = 256 << 20, /* algorithms that want more are passed over */
};

typedef struct dnn_conv {
    const hyp_cudnn *dnn; /* of the device */
    void *x_desc, *w_desc, *y_desc, *bias_desc, *conv_desc, *act_desc;
    uint32_t x, weight, y, bias_plus1, added_plus1;
    int algorithm;
    size_t workspace, workspace_at; /* bytes; where in the room */
    bool wide;                      /* numbers are f64 */
    bool fused;       /* bias, sum and activation in the same call; else `rest` does bias and activation */
    bool moves_x;     /* to the start of the room, */
    size_t cleared;   /* so many bytes of which are 0 where x is not: its padding */
    bool moves_y;     /* from y_at in the room */
    bool moves_added; /* to where the convolution has y, in a call of its own in any case */
    size_t y_at;
    hyp_cuda_mover in, added, out; /* `added` also where nothing moves, for calls in parts */
    hyp_cuda_op rest;              /* run is NULL when there is nothing left to do */
} dnn_conv;

static void dnn_conv_dispose(const hyp_cuda_library *lib, void *data)
{
    const dnn_conv *p = data;
    const hyp_cudnn *dnn = p->dnn;
    (void)lib;
    if (p->x_desc) dnn->cudnnDestroyTensorDescriptor(p->x_desc);
    if (p->w_desc) dnn->cudnnDestroyFilterDescriptor(p->w_desc);
    if (p->y_desc) dnn->cudnnDestroyTensorDescriptor(p->y_desc);
    if (p->bias_desc) dnn->cudnnDestroyTensorDescriptor(p->bias_desc);
    if (p->conv_desc) dnn->cudnnDestroyConvolutionDescriptor(p->conv_desc);
    if (p->act_desc) dnn->cudnnDestroyActivationDescriptor(p->act_desc);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* y = the convolution, plus what is in y already when something is added; bias and activation are left to do. */
static hyp_status convolve(hyp_cuda_session *s, const dnn_conv *p, CUdeviceptr x, CUdeviceptr y, hyp_diag *diag)
{
    const float one = 1, beta = p->added_plus1 ? 1 : 0;
    const double wide_one = 1, wide_beta = beta;
    int status = p->dnn->cudnnConvolutionForward(
        s->dnn, p->wide ? (const void *)&wide_one : &one, p->x_desc, (const void *)x, p->w_desc,
        (const void *)s->at[p->weight], p->conv_desc, p->algorithm, (void *)(s->room + p->workspace_at), p->workspace,
        p->wide ? (const void *)&wide_beta : &beta, p->y_desc, (void *)y);
    return hyp_cudnn_check(p->dnn, status, "cudnnConvolutionForward", diag);
}

/* All of it in one call; false where cuDNN has none for these shapes. z, which is added, may be y. */
static bool convolve_fused(hyp_cuda_session *s, const dnn_conv *p, CUdeviceptr x, CUdeviceptr z, CUdeviceptr y)
{
    const float one = 1, share = p->added_plus1 ? 1 : 0;
    const double wide_one = 1, wide_share = share;
    return p->dnn->cudnnConvolutionBiasActivationForward(
               s->dnn, p->wide ? (const void *)&wide_one : &one, p->x_desc, (const void *)x, p->w_desc,
               (const void *)s->at[p->weight], p->conv_desc, p->algorithm, (void *)(s->room + p->workspace_at),
               p->workspace, p->wide ? (const void *)&wide_share : &share, p->y_desc, (const void *)z, p->bias_desc,
               (const void *)s->at[p->bias_plus1 - 1], p->act_desc, p->y_desc, (void *)y) == 0;
}

static hyp_status dnn_conv_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    dnn_conv *p = data;
    const hyp_cuda_library *lib = &s->model->device->lib;
    CUdeviceptr x = s->at[p->x], y = p->moves_y ? s->room + p->y_at : s->at[p->y];
    CUdeviceptr z = p->added_plus1 ? s->at[p->added_plus1 - 1] : y;
    if (p->cleared)
        HYP_TRY(hyp_cuda_check(lib, lib->cuMemsetD8Async(s->room, 0, p->cleared, s->stream), "clearing padding", diag));
    if (p->moves_x) {
        HYP_TRY(hyp_cuda_mover_run(s, &p->in, x, s->room, diag));
        x = s->room;
    }
    if (p->moves_added) {
        HYP_TRY(hyp_cuda_mover_run(s, &p->added, z, y, diag));
        z = y;
    }
    bool done = p->fused && convolve_fused(s, p, x, z, y);
    p->fused = done; /* a call that it has not only calling tells: from the first run on in parts */
    if (!done && z != y) HYP_TRY(hyp_cuda_mover_run(s, &p->added, z, y, diag));
    if (!done) HYP_TRY(convolve(s, p, x, y, diag));
    if (p->moves_y) HYP_TRY(hyp_cuda_mover_run(s, &p->out, y, s->at[p->y], diag));
    return !done && p->rest.run ? p->rest.run(s, p->rest.data, diag) : HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

static int type_of(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F64: return HYP_CUDNN_DOUBLE;
    case HYP_F16: return HYP_CUDNN_HALF;
    case HYP_BF16: return HYP_CUDNN_BFLOAT16;
    default: return HYP_CUDNN_FLOAT;
    }
}

/* A convolution as cuDNN wants it: at least two spatial axes, ints, padding the same on both sides. */
typedef struct dnn_shape {
    int axes;
    int x[RANK], w[RANK], y[RANK];
    int pads[AXES], strides[AXES], dilations[AXES];
    bool padded; /* x has its padding written out, because that is not the same on both sides */
} dnn_shape;

static bool narrow(int64_t v, int *out)
{
    *out = (int)v;
    return v >= 0 && v <= INT_MAX;
}

/* Images and channels before the spatial axes; false when a tensor is too large for cuDNN. */
static bool set_dims(int64_t first, int64_t second, int dims[RANK], int axes)
{
    int64_t count = 1;
    if (!narrow(first, &dims[0]) || !narrow(second, &dims[1])) return false;
    for (int i = 0; i < 2 + axes; i++)
        if (!hyp_mul_i64(count, dims[i], &count) || count > INT_MAX) return false;
    return true;
}

static bool read_shape(const hyp_conv *v, dnn_shape *out)
{
    const hyp_window *w = &v->window;
    int skipped = w->n == 1; /* an axis of one element before the one there is */
    *out = (dnn_shape){.axes = w->n + skipped};
    for (int i = 0; i < out->axes; i++) {
        out->x[2 + i] = out->w[2 + i] = out->y[2 + i] = out->strides[i] = out->dilations[i] = 1;
        if (i < skipped) continue;
        int a = i - skipped;
        bool symmetric = w->before[a] == w->after[a];
        out->padded = out->padded || !symmetric;
        if (!narrow(w->in[a], &out->x[2 + i]) || !narrow(w->kernel[a], &out->w[2 + i]) ||
            !narrow(w->out[a], &out->y[2 + i]) || !narrow(w->before[a], &out->pads[i]) ||
            !narrow(w->stride[a], &out->strides[i]) || !narrow(w->dilation[a], &out->dilations[i]))
            return false;
    }
    for (int i = skipped; i < out->axes && out->padded; i++) {
        int a = i - skipped;
        out->pads[i] = 0;
        if (!narrow(w->in[a] + w->before[a] + w->after[a], &out->x[2 + i])) return false;
    }
    return set_dims(v->batch, v->in_channels * v->group, out->x, out->axes) &&
           set_dims(v->out_channels * v->group, v->in_channels, out->w, out->axes) &&
           set_dims(v->batch, v->out_channels * v->group, out->y, out->axes);
}

static bool make_tensor(const hyp_cudnn *dnn, int format, int type, int rank, const int *dims, void **out)
{
    return dnn->cudnnCreateTensorDescriptor(out) == 0 &&
           dnn->cudnnSetTensorNdDescriptorEx(*out, format, type, rank, dims) == 0;
}

/* Everything that cuDNN must know, into *p; false when it refuses. f32 is f32 unless the plan allows TF32. */
static bool describe(const hyp_cuda_conv_step *step, const dnn_shape *shape, bool tf32, dnn_conv *p)
{
    const hyp_cudnn *dnn = p->dnn;
    int type = type_of(step->dtype), compute = p->wide ? HYP_CUDNN_DOUBLE : HYP_CUDNN_FLOAT, rank = 2 + shape->axes;
    int math = step->dtype == HYP_F16 || step->dtype == HYP_BF16 ? HYP_CUDNN_TENSOR_OP_MATH
               : tf32                                            ? HYP_CUDNN_DEFAULT_MATH
                                                                 : HYP_CUDNN_FMA_MATH;
    int format = step->weight_last ? HYP_CUDNN_NHWC : HYP_CUDNN_NCHW;
    const int bias[RANK] = {1, shape->y[1], 1, 1, 1};
    return make_tensor(dnn, format, type, rank, shape->x, &p->x_desc) &&
           make_tensor(dnn, format, type, rank, shape->y, &p->y_desc) &&
           make_tensor(dnn, format, type, rank, bias, &p->bias_desc) &&
           dnn->cudnnCreateFilterDescriptor(&p->w_desc) == 0 &&
           dnn->cudnnSetFilterNdDescriptor(p->w_desc, type, format, rank, shape->w) == 0 &&
           dnn->cudnnCreateConvolutionDescriptor(&p->conv_desc) == 0 &&
           dnn->cudnnSetConvolutionNdDescriptor(p->conv_desc, shape->axes, shape->pads, shape->strides,
                                                shape->dilations, HYP_CUDNN_CROSS_CORRELATION, compute) == 0 &&
           dnn->cudnnSetConvolutionGroupCount(p->conv_desc, (int)step->conv.group) == 0 &&
           dnn->cudnnSetConvolutionMathType(p->conv_desc, math) == 0 &&
           dnn->cudnnCreateActivationDescriptor(&p->act_desc) == 0 &&
           dnn->cudnnSetActivationDescriptor(p->act_desc,
                                             step->act == HYP_PW_RELU ? HYP_CUDNN_RELU : HYP_CUDNN_IDENTITY,
                                             HYP_CUDNN_PROPAGATE_NAN, 0) == 0;
}

/* Transformed tiles lose too many of the 11 or 8 bits that narrow types have. */
static bool is_fit(const hyp_cudnn_algorithm *a, hyp_dtype dtype)
{
    bool exact = dtype == HYP_F32 || dtype == HYP_F64 || a->number < HYP_CUDNN_FIRST_TRANSFORM;
    return a->status == 0 && a->determinism == HYP_CUDNN_DETERMINISTIC && a->workspace <= WORKSPACE_MOST && exact;
}

/* The algorithm that cuDNN expects to be the fastest of those that are fit; false when there is none. Of a bias without
 * an activation in the same call only one is capable, which saves more than another would. */
static bool choose(const hyp_cuda_session *s, const hyp_cuda_conv_step *step, dnn_conv *p)
{
    bool relu = step->act == HYP_PW_RELU, strict = step->dtype == HYP_F32 || step->dtype == HYP_F64;
    hyp_cudnn_algorithm list[HYP_CUDNN_ALGORITHMS];
    const hyp_cudnn_algorithm *best = NULL;
    int count = 0;
    if (p->dnn->cudnnGetConvolutionForwardAlgorithm_v7(s->dnn, p->x_desc, p->w_desc, p->conv_desc, p->y_desc,
                                                       HYP_CUDNN_ALGORITHMS, &count, list) != 0)
        return false;
    for (int i = 0; i < count; i++) {
        bool capable = p->fused && !relu && list[i].number == HYP_CUDNN_PRECOMP_GEMM;
        if (is_fit(&list[i], step->dtype) && (!best || capable)) best = &list[i];
    }
    if (!best) return false;
    p->fused = p->fused && (relu || best->number == HYP_CUDNN_PRECOMP_GEMM);
    p->algorithm = best->number;
    p->workspace = best->workspace;
    return strict || p->dnn->cudnnSetConvolutionMathType(p->conv_desc, best->math) == 0;
}

/* The copy of x in the room: in the order of the weights, inside of its padding where that is written out. Returns in
 * *out_bytes what it takes there. */
static hyp_status add_in(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool pads, dnn_conv *p, size_t *out_bytes)
{
    const hyp_array *x = step->conv.x;
    const hyp_window *w = &step->conv.window;
    int64_t padded[HYP_MAX_RANK], count = x->dims[0] * x->dims[1], offset = 0;
    hyp_cuda_box box;
    hyp_cuda_image_box(&box, x, step->x_last, step->weight_last);
    memcpy(padded, x->dims, sizeof padded);
    for (int32_t a = 0; a < w->n; a++) {
        if (pads) padded[2 + a] += w->before[a] + w->after[a];
        count *= padded[2 + a];
    }
    hyp_cuda_image_lane(&box, 1, x->rank, padded, step->weight_last);
    for (int32_t a = 0; a < w->n && pads; a++) offset += w->before[a] * box.stride[1][w->n - 1 - a];
    size_t size = hyp_dtype_size(step->dtype);
    p->moves_x = true;
    *out_bytes = (size_t)count * size;
    p->cleared = pads ? *out_bytes : 0;
    return hyp_cuda_mover_init(b, &box, size, 0, offset, &p->in);
}

/* Copies of what is added and of y, and where they are. */
static hyp_status add_out(hyp_cuda_build *b, const hyp_cuda_conv_step *step, dnn_conv *p)
{
    const hyp_array *y = step->conv.y;
    bool either = hyp_cuda_one_order(y), last = step->weight_last;
    size_t size = hyp_dtype_size(step->dtype);
    hyp_cuda_box box;
    p->moves_added = step->added_plus1 && step->added_last != last && !either;
    /* What moves may not end where it is. */
    bool same = p->moves_added && hyp_plan_same_slot(b->program, step->added_plus1 - 1, step->y);
    p->moves_y = (step->y_last != last && !either) || same;
    if (step->added_plus1) {
        hyp_cuda_image_box(&box, y, step->added_last, last);
        HYP_TRY(hyp_cuda_mover_init(b, &box, size, 0, 0, &p->added));
    }
    if (!p->moves_y) return HYP_OK;
    hyp_cuda_image_box(&box, y, last, step->y_last);
    return hyp_cuda_mover_init(b, &box, size, 0, 0, &p->out);
}

/* What cuDNN leaves to do when it does not do all in one call. */
static hyp_status add_rest(hyp_cuda_build *b, const hyp_cuda_conv_step *step, dnn_conv *p)
{
    const hyp_conv *v = &step->conv;
    int64_t places = v->window.out_count, outer = step->y_last ? v->batch * places : v->batch;
    if (!step->bias_plus1 && step->act == HYP_PW_CAST) return HYP_OK;
    HYP_TRY(hyp_cuda_add_channels(b, step->y, outer, v->out_channels * v->group, step->y_last ? 1 : places,
                                  step->bias_plus1, (HypPlan__Pointwise__Op)step->act, 0, 6));
    p->rest = b->prepared->ops.data[--b->prepared->ops.len];
    return HYP_OK;
}

static hyp_status add(hyp_cuda_build *b, const hyp_cuda_conv_step *step, const dnn_shape *shape, dnn_conv *p)
{
    size_t x_bytes = 0, y_bytes = (size_t)step->conv.y->count * hyp_dtype_size(step->dtype);
    bool turns = step->x_last != step->weight_last && !hyp_cuda_one_order(step->conv.x);
    if (shape->padded || turns) HYP_TRY(add_in(b, step, shape->padded, p, &x_bytes));
    HYP_TRY(add_out(b, step, p));
    HYP_TRY(add_rest(b, step, p));
    p->y_at = hyp_cuda_round_up(x_bytes, HYP_CUDA_ALIGN);
    p->workspace_at = p->y_at + (p->moves_y ? hyp_cuda_round_up(y_bytes, HYP_CUDA_ALIGN) : 0);
    HYP_TRY(hyp_cuda_want_room(b, p->workspace_at + p->workspace));
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, dnn_conv_run, sizeof(dnn_conv), &data));
    *(dnn_conv *)data = *p;
    b->prepared->ops.data[b->prepared->ops.len - 1].dispose = dnn_conv_dispose;
    return HYP_OK;
}

static const char *cudnn_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    dnn_shape shape;
    if (!b->session->dnn) return "there is no cuDNN";
    if (!hyp_dtype_is_float(step->dtype)) return "cuDNN has no such type";
    if (hyp_cuda_is_depthwise(v) && step->weight_last) return "its weights lie as our kernel for single channels has them";
    return read_shape(v, &shape) && v->x->count > 0 && v->w->count > 0 ? NULL : "its sizes are out of cuDNN's range";
}

/* Twice what other library calls take; more than our plainest kernel for single channels. */
static double cudnn_seconds(const hyp_cuda_conv_step *step, double floor)
{
    if (hyp_cuda_is_depthwise(&step->conv)) return 2 * hyp_cuda_plain_seconds(step, floor);
    return 2 * hyp_cuda_library_seconds + floor;
}

static hyp_status add_cudnn(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    hyp_cuda_session *s = b->session;
    bool relu = step->act == HYP_PW_RELU, tf32 = hyp_cuda_is_tf32(b->program);
    dnn_shape shape;
    dnn_conv p = {.dnn = &s->model->device->dnn,
                  .x = step->x,
                  .weight = step->weight,
                  .y = step->y,
                  .bias_plus1 = step->bias_plus1,
                  .added_plus1 = step->added_plus1,
                  .wide = step->dtype == HYP_F64,
                  .fused = step->bias_plus1 && (relu || step->act == HYP_PW_CAST)};
    bool can = read_shape(&step->conv, &shape) && describe(step, &shape, tf32, &p) && choose(s, step, &p);
    hyp_status status = can ? add(b, step, &shape, &p)
                            : hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "cuDNN has no algorithm for this convolution");
    if (status != HYP_OK) dnn_conv_dispose(NULL, &p);
    return status;
}

const hyp_cuda_conv_way hyp_cuda_conv_cudnn = {"cudnn", cudnn_cannot, cudnn_seconds, add_cudnn};

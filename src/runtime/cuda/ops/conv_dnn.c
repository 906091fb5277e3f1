/* conv_dnn.c - descriptions of convolutions for cuDNN, and the copies of tensors that it must have otherwise than the
 * plan. */
#include "runtime/cuda/ops/conv_dnn.h"

#include <limits.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/cuda/session/backend.h"

enum { RANK = HYP_CUDA_DNN_RANK };
typedef hyp_cuda_dnn_shape dnn_shape;

/* ---- shapes -------------------------------------------------------------------------------------------------- */

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

/* Of what a transposed convolution adds to its result windows may have room for more places than there are. */
static bool fills(const hyp_window *w)
{
    bool all = true;
    for (int32_t a = 0; a < w->n; a++) {
        int64_t room = w->in[a] + w->before[a] + w->after[a] - (w->kernel[a] - 1) * w->dilation[a] - 1;
        all = all && room >= 0 && room / w->stride[a] + 1 == w->out[a];
    }
    return all;
}

bool hyp_cuda_dnn_read(const hyp_conv *v, dnn_shape *out)
{
    const hyp_window *w = &v->window;
    int skipped = w->n == 1; /* an axis of one element before the one there is */
    *out = (dnn_shape){.axes = w->n + skipped};
    if (!fills(w)) return false;
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

const char *hyp_cuda_dnn_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool last)
{
    const hyp_conv *v = &step->conv;
    dnn_shape shape;
    if (!b->session->dnn) return "there is no cuDNN";
    if (!hyp_dtype_is_float(step->dtype)) return "cuDNN has no such type";
    if (last && step->dtype == HYP_F64) return "cuDNN has no f64 with the channels last";
    return hyp_cuda_dnn_read(v, &shape) && v->x->count > 0 && v->w->count > 0 ? NULL
                                                                              : "its sizes are out of cuDNN's range";
}

/* ---- descriptions -------------------------------------------------------------------------------------------- */

static int type_of(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F64: return HYP_CUDNN_DOUBLE;
    case HYP_F16: return HYP_CUDNN_HALF;
    case HYP_BF16: return HYP_CUDNN_BFLOAT16;
    default: return HYP_CUDNN_FLOAT;
    }
}

static int format_of(bool last) { return last ? HYP_CUDNN_NHWC : HYP_CUDNN_NCHW; }

bool hyp_cuda_dnn_make_tensor(const hyp_cudnn *dnn, bool last, hyp_dtype dtype, int rank, const int *dims, void **out)
{
    return dnn->cudnnCreateTensorDescriptor(out) == 0 &&
           dnn->cudnnSetTensorNdDescriptorEx(*out, format_of(last), type_of(dtype), rank, dims) == 0;
}

bool hyp_cuda_dnn_describe(const hyp_cudnn *dnn, const hyp_cuda_conv_step *step, const dnn_shape *shape, bool last,
                           bool tf32, hyp_cuda_dnn_described *out)
{
    int type = type_of(step->dtype), rank = 2 + shape->axes;
    int compute = step->dtype == HYP_F64 ? HYP_CUDNN_DOUBLE : HYP_CUDNN_FLOAT;
    int math = step->dtype == HYP_F16 || step->dtype == HYP_BF16 ? HYP_CUDNN_TENSOR_OP_MATH
               : tf32                                            ? HYP_CUDNN_DEFAULT_MATH
                                                                 : HYP_CUDNN_FMA_MATH;
    return hyp_cuda_dnn_make_tensor(dnn, last, step->dtype, rank, shape->x, &out->x) &&
           hyp_cuda_dnn_make_tensor(dnn, last, step->dtype, rank, shape->y, &out->y) &&
           dnn->cudnnCreateFilterDescriptor(&out->w) == 0 &&
           dnn->cudnnSetFilterNdDescriptor(out->w, type, format_of(last), rank, shape->w) == 0 &&
           dnn->cudnnCreateConvolutionDescriptor(&out->conv) == 0 &&
           dnn->cudnnSetConvolutionNdDescriptor(out->conv, shape->axes, shape->pads, shape->strides, shape->dilations,
                                                HYP_CUDNN_CROSS_CORRELATION, compute) == 0 &&
           dnn->cudnnSetConvolutionGroupCount(out->conv, (int)step->conv.group) == 0 &&
           dnn->cudnnSetConvolutionMathType(out->conv, math) == 0;
}

void hyp_cuda_dnn_dispose(const hyp_cudnn *dnn, hyp_cuda_dnn_described *d)
{
    if (d->x) dnn->cudnnDestroyTensorDescriptor(d->x);
    if (d->w) dnn->cudnnDestroyFilterDescriptor(d->w);
    if (d->y) dnn->cudnnDestroyTensorDescriptor(d->y);
    if (d->conv) dnn->cudnnDestroyConvolutionDescriptor(d->conv);
    *d = (hyp_cuda_dnn_described){0};
}

bool hyp_cuda_dnn_is_fit(const hyp_cudnn_algorithm *a, hyp_dtype dtype, int transforms)
{
    bool exact = dtype == HYP_F32 || dtype == HYP_F64 || a->number < transforms;
    return a->status == 0 && a->determinism == HYP_CUDNN_DETERMINISTIC && a->workspace <= HYP_CUDA_DNN_WORKSPACE &&
           exact;
}

const void *hyp_cuda_dnn_one(hyp_dtype dtype)
{
    static const float one = 1;
    static const double wide = 1;
    return dtype == HYP_F64 ? (const void *)&wide : &one;
}

const void *hyp_cuda_dnn_zero(hyp_dtype dtype)
{
    static const float zero = 0;
    static const double wide = 0;
    return dtype == HYP_F64 ? (const void *)&wide : &zero;
}

/* ---- copies -------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_dnn_lay_out(hyp_cuda_build *b, const hyp_array *a, hyp_dtype dtype, bool from_last, bool to_last,
                                const hyp_window *window, bool back, size_t *room, hyp_cuda_dnn_copy *out)
{
    int64_t padded[HYP_MAX_RANK], count = a->dims[0] * a->dims[1], offset = 0;
    size_t size = hyp_dtype_size(dtype);
    hyp_cuda_box box;
    *out = (hyp_cuda_dnn_copy){.moves = window || (from_last != to_last && !hyp_cuda_one_order(a)), .at = *room};
    if (!out->moves) return HYP_OK;
    int inside = back ? 0 : 1; /* the lane of the copy */
    hyp_cuda_image_box(&box, a, back ? to_last : from_last, back ? from_last : to_last);
    memcpy(padded, a->dims, sizeof padded);
    for (int32_t i = 0; i < a->rank - 2; i++) {
        if (window) padded[2 + i] += window->before[i] + window->after[i];
        count *= padded[2 + i];
    }
    hyp_cuda_image_lane(&box, (uint32_t)inside, a->rank, padded, to_last);
    for (int32_t i = 0; i < a->rank - 2 && window; i++)
        offset += window->before[i] * box.stride[inside][a->rank - 3 - i];
    size_t bytes = (size_t)count * size;
    out->cleared = window && !back ? bytes : 0;
    *room += hyp_cuda_round_up(bytes, HYP_CUDA_ALIGN);
    return hyp_cuda_mover_init(b, &box, size, back ? offset : 0, back ? 0 : offset, &out->mover);
}

hyp_status hyp_cuda_dnn_bring(hyp_cuda_session *s, hyp_cuda_dnn_copy *copy, CUdeviceptr *at, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    CUdeviceptr from = *at;
    if (!copy->moves) return HYP_OK;
    *at = s->room + copy->at;
    if (copy->cleared)
        HYP_TRY(hyp_cuda_check(lib, lib->cuMemsetD8Async(*at, 0, copy->cleared, s->stream), "clearing padding", diag));
    return hyp_cuda_mover_run(s, &copy->mover, from, *at, diag);
}

static double moving(const hyp_array *a, hyp_dtype dtype, bool moves)
{
    double bytes = 2 * (double)a->count * (double)hyp_dtype_size(dtype); /* read and written */
    if (!moves || hyp_cuda_one_order(a)) return 0;
    return hyp_cuda_own_seconds + hyp_cuda_floor_seconds(dtype, false, bytes, 0);
}

double hyp_cuda_dnn_moving_seconds(const hyp_cuda_conv_step *step, bool last)
{
    const hyp_conv *v = &step->conv;
    return moving(v->x, step->dtype, step->x_last != last) + moving(v->w, step->dtype, step->weight_last != last) +
           moving(v->y, step->dtype, step->y_last != last) +
           moving(v->y, step->dtype, step->added_plus1 && step->added_last != last);
}

double hyp_cuda_dnn_first_floor(const hyp_cuda_conv_step *step, double floor)
{
    const hyp_conv *v = &step->conv;
    if (hyp_dtype_size(step->dtype) != 2 || v->group != 1) return floor;
    return hyp_cuda_dnn_last_floor(step, floor) + moving(v->x, step->dtype, true) + moving(v->w, step->dtype, true) +
           moving(v->y, step->dtype, true);
}

double hyp_cuda_dnn_last_floor(const hyp_cuda_conv_step *step, double floor)
{
    enum { PIECE = 16 };
    const hyp_conv *v = &step->conv;
    int64_t size = (int64_t)hyp_dtype_size(step->dtype);
    bool fills = v->in_channels * size % PIECE == 0 && v->out_channels * size % PIECE == 0;
    return fills ? floor : 4 * floor;
}

hyp_status hyp_cuda_dnn_add(hyp_cuda_build *b, size_t room, hyp_status (*run)(hyp_cuda_session *, void *, hyp_diag *),
                            void (*dispose)(const hyp_cuda_library *, void *), const void *data, size_t size)
{
    void *own;
    HYP_TRY(hyp_cuda_want_room(b, room));
    HYP_TRY(hyp_cuda_add_op(b, run, size, &own));
    memcpy(own, data, size);
    b->prepared->ops.data[b->prepared->ops.len - 1].dispose = dispose;
    return HYP_OK;
}

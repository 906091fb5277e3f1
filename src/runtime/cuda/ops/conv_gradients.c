/* conv_gradients.c - gradients of convolutions by cuDNN: by x, which is what a transposed convolution computes, and by
 * the weights. As in conv_cudnn.c an algorithm that gives the same result every time is chosen when shapes are
 * prepared, and what it must have otherwise than the plan is brought to or from the session's room.
 */
#include "base/dtype.h"
#include "runtime/cuda/ops/conv_dnn.h"
#include "runtime/cuda/session/backend.h"

typedef struct gradient {
    const hyp_cudnn *dnn; /* of the device */
    hyp_cuda_dnn_described described;
    hyp_cuda_conv_gradient of;
    uint32_t x, weight, y;
    int algorithm;
    size_t workspace, workspace_at; /* bytes; where in the room */
    hyp_dtype dtype;
    hyp_cuda_dnn_copy x_copy, w_copy, y_copy; /* that of the result is brought back */
    hyp_cuda_op rest;                         /* adds a bias; run is NULL when there is none */
} gradient;

static void dispose(const hyp_cuda_library *lib, void *data)
{
    gradient *p = data;
    (void)lib;
    hyp_cuda_dnn_dispose(p->dnn, &p->described);
}

static hyp_status call(hyp_cuda_session *s, const gradient *p, CUdeviceptr x, CUdeviceptr w, CUdeviceptr y,
                       hyp_diag *diag)
{
    const hyp_cuda_dnn_described *d = &p->described;
    const void *one = hyp_cuda_dnn_one(p->dtype), *zero = hyp_cuda_dnn_zero(p->dtype);
    void *workspace = (void *)(s->room + p->workspace_at);
    if (p->of == HYP_CUDA_CONV_BY_X)
        return hyp_cudnn_check(p->dnn,
                               p->dnn->cudnnConvolutionBackwardData(s->dnn, one, d->w, (const void *)w, d->y,
                                                                    (const void *)y, d->conv, p->algorithm, workspace,
                                                                    p->workspace, zero, d->x, (void *)x),
                               "cudnnConvolutionBackwardData", diag);
    return hyp_cudnn_check(p->dnn,
                           p->dnn->cudnnConvolutionBackwardFilter(s->dnn, one, d->x, (const void *)x, d->y,
                                                                  (const void *)y, d->conv, p->algorithm, workspace,
                                                                  p->workspace, zero, d->w, (void *)w),
                           "cudnnConvolutionBackwardFilter", diag);
}

static hyp_status gradient_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    gradient *p = data;
    bool by_x = p->of == HYP_CUDA_CONV_BY_X;
    CUdeviceptr x = s->at[p->x], w = s->at[p->weight], y = s->at[p->y], result = by_x ? x : w;
    hyp_cuda_dnn_copy *back = by_x ? &p->x_copy : &p->w_copy;
    HYP_TRY(hyp_cuda_dnn_bring(s, &p->y_copy, &y, diag));
    HYP_TRY(hyp_cuda_dnn_bring(s, by_x ? &p->w_copy : &p->x_copy, by_x ? &w : &x, diag));
    if (back->moves && by_x) x = s->room + back->at;
    if (back->moves && !by_x) w = s->room + back->at;
    HYP_TRY(call(s, p, x, w, y, diag));
    if (back->moves) HYP_TRY(hyp_cuda_mover_run(s, &back->mover, by_x ? x : w, result, diag));
    return p->rest.run ? p->rest.run(s, p->rest.data, diag) : HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* The algorithm that cuDNN expects to be the fastest of those that are fit; false when there is none. */
static bool choose(const hyp_cuda_session *s, gradient *p)
{
    const hyp_cuda_dnn_described *d = &p->described;
    bool strict = p->dtype == HYP_F32 || p->dtype == HYP_F64;
    hyp_cudnn_algorithm list[HYP_CUDNN_ALGORITHMS];
    int count = 0,
        status = p->of == HYP_CUDA_CONV_BY_X
                     ? p->dnn->cudnnGetConvolutionBackwardDataAlgorithm_v7(s->dnn, d->w, d->y, d->conv, d->x,
                                                                           HYP_CUDNN_ALGORITHMS, &count, list)
                     : p->dnn->cudnnGetConvolutionBackwardFilterAlgorithm_v7(s->dnn, d->x, d->y, d->conv, d->w,
                                                                             HYP_CUDNN_ALGORITHMS, &count, list);
    for (int i = 0; i < count && status == 0; i++) {
        if (!hyp_cuda_dnn_is_fit(&list[i], p->dtype, HYP_CUDNN_FIRST_BACKWARD_TRANSFORM)) continue;
        p->algorithm = list[i].number;
        p->workspace = list[i].workspace;
        return strict || p->dnn->cudnnSetConvolutionMathType(d->conv, list[i].math) == 0;
    }
    return false;
}

static hyp_status add_bias(hyp_cuda_build *b, const hyp_cuda_conv_step *step, gradient *p)
{
    const hyp_conv *v = &step->conv;
    int64_t places = v->window.in_count, outer = step->x_last ? v->batch * places : v->batch;
    if (!step->bias_plus1) return HYP_OK;
    HYP_TRY(hyp_cuda_add_channels(b, step->x, outer, v->in_channels * v->group, step->x_last ? 1 : places,
                                  step->bias_plus1, (HypPlan__Pointwise__Op)HYP_PW_CAST, 0, 0));
    p->rest = b->prepared->ops.data[--b->prepared->ops.len];
    return HYP_OK;
}

static hyp_status add(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool padded, bool last, gradient *p)
{
    const hyp_conv *v = &step->conv;
    bool by_x = p->of == HYP_CUDA_CONV_BY_X;
    size_t room = 0;
    HYP_TRY(hyp_cuda_dnn_lay_out(b, v->x, p->dtype, step->x_last, last, padded ? &v->window : NULL, by_x, &room,
                                 &p->x_copy));
    HYP_TRY(hyp_cuda_dnn_lay_out(b, v->w, p->dtype, step->weight_last, last, NULL, !by_x, &room, &p->w_copy));
    HYP_TRY(hyp_cuda_dnn_lay_out(b, v->y, p->dtype, step->y_last, last, NULL, false, &room, &p->y_copy));
    HYP_TRY(add_bias(b, step, p));
    p->workspace_at = room;
    return hyp_cuda_dnn_add(b, room + p->workspace, gradient_run, dispose, p, sizeof *p);
}

static hyp_status add_gradient(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool last)
{
    hyp_cuda_session *s = b->session;
    hyp_cuda_dnn_shape shape;
    gradient p = {.dnn = &s->model->device->dnn,
                  .of = step->gradient,
                  .x = step->x,
                  .weight = step->weight,
                  .y = step->y,
                  .dtype = step->dtype};
    bool can = hyp_cuda_dnn_read(&step->conv, &shape) &&
               hyp_cuda_dnn_describe(p.dnn, step, &shape, last, hyp_cuda_is_tf32(b->program), &p.described) &&
               choose(s, &p);
    hyp_status status = can ? add(b, step, shape.padded, last, &p)
                            : hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "cuDNN has no algorithm for this gradient");
    if (status != HYP_OK) dispose(NULL, &p);
    return status;
}

/* ---- ways ---------------------------------------------------------------------------------------------------- */

static const char *first_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    return hyp_cuda_dnn_cannot(b, step, false);
}

static const char *last_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    return hyp_cuda_dnn_cannot(b, step, true);
}

static double first_seconds(const hyp_cuda_conv_step *step, double floor)
{
    return 2 * hyp_cuda_library_seconds + hyp_cuda_dnn_first_floor(step, floor) +
           hyp_cuda_dnn_moving_seconds(step, false);
}

static double last_seconds(const hyp_cuda_conv_step *step, double floor)
{
    return 2 * hyp_cuda_library_seconds + hyp_cuda_dnn_last_floor(step, floor) +
           hyp_cuda_dnn_moving_seconds(step, true);
}

static hyp_status add_first(hyp_cuda_build *b, const hyp_cuda_conv_step *step) { return add_gradient(b, step, false); }
static hyp_status add_last(hyp_cuda_build *b, const hyp_cuda_conv_step *step) { return add_gradient(b, step, true); }

const hyp_cuda_conv_way hyp_cuda_gradient_cudnn = {"cudnn", first_cannot, first_seconds, add_first, false};
const hyp_cuda_conv_way hyp_cuda_gradient_cudnn_last = {"cudnn, channels last", last_cannot, last_seconds, add_last, false};

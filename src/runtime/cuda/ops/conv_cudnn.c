/* conv_cudnn.c - convolutions by cuDNN: bias, sum and relu in the same call where it can, otherwise in a pass of ours.
 *
 * An algorithm is chosen once, when shapes are prepared, among those that give the same result every time; a run asks
 * nothing and allocates nothing. Where the weights lie with the channels last, x and y must do so, too. What cuDNN must
 * have otherwise than the plan (x or y in another order, x with unequal padding, weights that a run computes) is
 * brought to or from the session's room, where the algorithm has its work space, too.
 */
#include <string.h>

#include "base/dtype.h"
#include "runtime/cuda/ops/conv_dnn.h"
#include "runtime/cuda/session/backend.h"

typedef struct dnn_conv {
    const hyp_cudnn *dnn; /* of the device */
    hyp_cuda_dnn_described described;
    void *bias_desc, *act_desc;
    uint32_t x, weight, y, bias_plus1, added_plus1;
    int algorithm;
    size_t workspace, workspace_at; /* bytes; where in the room */
    hyp_dtype dtype;
    bool fused; /* bias, sum and activation in the same call; else `rest` does bias and activation */
    hyp_cuda_dnn_copy in, filters, out; /* of x and the weights; that of y is brought back */
    bool moves_added;                   /* to where the convolution has y, in a call of its own in any case */
    hyp_cuda_mover added;               /* also where nothing moves, for calls in parts */
    hyp_cuda_op rest;                   /* run is NULL when there is nothing left to do */
} dnn_conv;

static void dnn_conv_dispose(const hyp_cuda_library *lib, void *data)
{
    dnn_conv *p = data;
    (void)lib;
    hyp_cuda_dnn_dispose(p->dnn, &p->described);
    if (p->bias_desc) p->dnn->cudnnDestroyTensorDescriptor(p->bias_desc);
    if (p->act_desc) p->dnn->cudnnDestroyActivationDescriptor(p->act_desc);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* Addresses of a call. z, which is added, may be y. */
typedef struct addresses {
    CUdeviceptr x, w, z, y;
} addresses;

/* y = the convolution, plus what is in y already when something is added; bias and activation are left to do. */
static hyp_status convolve(hyp_cuda_session *s, const dnn_conv *p, const addresses *at, hyp_diag *diag)
{
    const hyp_cuda_dnn_described *d = &p->described;
    int status = p->dnn->cudnnConvolutionForward(
        s->dnn, hyp_cuda_dnn_one(p->dtype), d->x, (const void *)at->x, d->w, (const void *)at->w, d->conv, p->algorithm,
        (void *)(s->room + p->workspace_at), p->workspace,
        p->added_plus1 ? hyp_cuda_dnn_one(p->dtype) : hyp_cuda_dnn_zero(p->dtype), d->y, (void *)at->y);
    return hyp_cudnn_check(p->dnn, status, "cudnnConvolutionForward", diag);
}

/* All of it in one call; false where cuDNN has none for these shapes. */
static bool convolve_fused(hyp_cuda_session *s, const dnn_conv *p, const addresses *at)
{
    const hyp_cuda_dnn_described *d = &p->described;
    return p->dnn->cudnnConvolutionBiasActivationForward(
               s->dnn, hyp_cuda_dnn_one(p->dtype), d->x, (const void *)at->x, d->w, (const void *)at->w, d->conv,
               p->algorithm, (void *)(s->room + p->workspace_at), p->workspace,
               p->added_plus1 ? hyp_cuda_dnn_one(p->dtype) : hyp_cuda_dnn_zero(p->dtype), d->y, (const void *)at->z,
               p->bias_desc, (const void *)s->at[p->bias_plus1 - 1], p->act_desc, d->y, (void *)at->y) == 0;
}

static hyp_status dnn_conv_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    dnn_conv *p = data;
    addresses at = {.x = s->at[p->x], .w = s->at[p->weight], .y = p->out.moves ? s->room + p->out.at : s->at[p->y]};
    at.z = p->added_plus1 ? s->at[p->added_plus1 - 1] : at.y;
    HYP_TRY(hyp_cuda_dnn_bring(s, &p->in, &at.x, diag));
    HYP_TRY(hyp_cuda_dnn_bring(s, &p->filters, &at.w, diag));
    if (p->moves_added) {
        HYP_TRY(hyp_cuda_mover_run(s, &p->added, at.z, at.y, diag));
        at.z = at.y;
    }
    bool done = p->fused && convolve_fused(s, p, &at);
    p->fused = done; /* a call that it has not only calling tells: from the first run on in parts */
    if (!done && at.z != at.y) HYP_TRY(hyp_cuda_mover_run(s, &p->added, at.z, at.y, diag));
    if (!done) HYP_TRY(convolve(s, p, &at, diag));
    if (p->out.moves) HYP_TRY(hyp_cuda_mover_run(s, &p->out.mover, at.y, s->at[p->y], diag));
    return !done && p->rest.run ? p->rest.run(s, p->rest.data, diag) : HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* Everything that cuDNN must know, into *p; false when it refuses. */
static bool describe(const hyp_cuda_conv_step *step, const hyp_cuda_dnn_shape *shape, bool last, bool tf32, dnn_conv *p)
{
    const hyp_cudnn *dnn = p->dnn;
    const int bias[HYP_CUDA_DNN_RANK] = {1, shape->y[1], 1, 1, 1};
    return hyp_cuda_dnn_describe(dnn, step, shape, last, tf32, &p->described) &&
           hyp_cuda_dnn_make_tensor(dnn, last, step->dtype, 2 + shape->axes, bias, &p->bias_desc) &&
           dnn->cudnnCreateActivationDescriptor(&p->act_desc) == 0 &&
           dnn->cudnnSetActivationDescriptor(p->act_desc,
                                             step->act == HYP_PW_RELU ? HYP_CUDNN_RELU : HYP_CUDNN_IDENTITY,
                                             HYP_CUDNN_PROPAGATE_NAN, 0) == 0;
}

/* The algorithm that cuDNN expects to be the fastest of those that are fit; false when there is none. Of a bias without
 * an activation in the same call only one is capable, which saves more than another would; it is listed for tensor cores and,
 * later, without them. */
static bool choose(const hyp_cuda_session *s, const hyp_cuda_conv_step *step, dnn_conv *p)
{
    bool relu = step->act == HYP_PW_RELU, strict = step->dtype == HYP_F32 || step->dtype == HYP_F64;
    const hyp_cuda_dnn_described *d = &p->described;
    hyp_cudnn_algorithm list[HYP_CUDNN_ALGORITHMS];
    const hyp_cudnn_algorithm *best = NULL;
    bool best_capable = false;
    int count = 0;
    if (p->dnn->cudnnGetConvolutionForwardAlgorithm_v7(s->dnn, d->x, d->w, d->conv, d->y, HYP_CUDNN_ALGORITHMS, &count,
                                                       list) != 0)
        return false;
    for (int i = 0; i < count; i++) {
        bool capable = p->fused && !relu && list[i].number == HYP_CUDNN_PRECOMP_GEMM;
        if (!hyp_cuda_dnn_is_fit(&list[i], step->dtype, HYP_CUDNN_FIRST_TRANSFORM) || (best && (!capable || best_capable)))
            continue;
        best = &list[i];
        best_capable = capable;
    }
    if (!best) return false;
    p->fused = p->fused && (relu || best->number == HYP_CUDNN_PRECOMP_GEMM);
    p->algorithm = best->number;
    p->workspace = best->workspace;
    return strict || p->dnn->cudnnSetConvolutionMathType(d->conv, best->math) == 0;
}

/* Copies of what is added and of y, and where they are. */
static hyp_status add_out(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool last, size_t *room, dnn_conv *p)
{
    const hyp_array *y = step->conv.y;
    hyp_cuda_box box;
    p->moves_added = step->added_plus1 && step->added_last != last && !hyp_cuda_one_order(y);
    /* What moves may not end where it is. */
    bool same = p->moves_added && hyp_plan_same_slot(b->program, step->added_plus1 - 1, step->y);
    if (step->added_plus1) {
        hyp_cuda_image_box(&box, y, step->added_last, last);
        HYP_TRY(hyp_cuda_mover_init(b, &box, hyp_dtype_size(step->dtype), 0, 0, &p->added));
    }
    const hyp_window whole = {.n = step->conv.window.n}; /* a copy in any case: without padding */
    return hyp_cuda_dnn_lay_out(b, y, step->dtype, step->y_last, last, same ? &whole : NULL, true, room, &p->out);
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

/* Weights that lie as [C M], for products, as [M C]. */
static hyp_status turn_back(hyp_cuda_build *b, const hyp_cuda_conv_step *step, size_t *room, hyp_cuda_dnn_copy *out)
{
    int64_t filters = step->conv.w->dims[0], channels = step->conv.w->dims[1];
    size_t size = hyp_dtype_size(step->dtype);
    const hyp_cuda_box box = {.rank = 2,
                              .lanes = 2,
                              .extent = {channels, filters},
                              .stride = {[0] = {filters, 1}, [1] = {1, channels}}};
    *out = (hyp_cuda_dnn_copy){.moves = true, .at = *room};
    *room += hyp_cuda_round_up((size_t)step->conv.w->count * size, HYP_CUDA_ALIGN);
    return hyp_cuda_mover_init(b, &box, size, 0, 0, &out->mover);
}

static hyp_status add(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool padded, bool last, dnn_conv *p)
{
    const hyp_conv *v = &step->conv;
    size_t room = 0;
    HYP_TRY(hyp_cuda_dnn_lay_out(b, v->x, step->dtype, step->x_last, last, padded ? &v->window : NULL, false, &room,
                                 &p->in));
    if (step->weight_kn)
        HYP_TRY(turn_back(b, step, &room, &p->filters));
    else
        HYP_TRY(hyp_cuda_dnn_lay_out(b, v->w, step->dtype, step->weight_last, last, NULL, false, &room, &p->filters));
    HYP_TRY(add_out(b, step, last, &room, p));
    HYP_TRY(add_rest(b, step, p));
    p->workspace_at = room;
    return hyp_cuda_dnn_add(b, room + p->workspace, dnn_conv_run, dnn_conv_dispose, p, sizeof *p);
}

static hyp_status add_cudnn(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool last)
{
    hyp_cuda_session *s = b->session;
    bool relu = step->act == HYP_PW_RELU, tf32 = hyp_cuda_is_tf32(b->program);
    hyp_cuda_dnn_shape shape;
    dnn_conv p = {.dnn = &s->model->device->dnn,
                  .x = step->x,
                  .weight = step->weight,
                  .y = step->y,
                  .bias_plus1 = step->bias_plus1,
                  .added_plus1 = step->added_plus1,
                  .dtype = step->dtype,
                  .fused = step->bias_plus1 && (relu || step->act == HYP_PW_CAST)};
    bool can = hyp_cuda_dnn_read(&step->conv, &shape) && describe(step, &shape, last, tf32, &p) && choose(s, step, &p);
    hyp_status status = can ? add(b, step, shape.padded, last, &p)
                            : hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "cuDNN has no algorithm for this convolution");
    if (status != HYP_OK) dnn_conv_dispose(NULL, &p);
    return status;
}

/* ---- in the order of the weights ----------------------------------------------------------------------------- */

static const char *cudnn_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    if (b->session->dnn && hyp_dtype_is_float(step->dtype) && hyp_cuda_is_depthwise(&step->conv) && step->weight_last)
        return "its weights lie as our kernel for single channels has them";
    return hyp_cuda_dnn_cannot(b, step, step->weight_last);
}

/* Twice what other library calls take; more than our plainest kernel for single channels. In strict f32 its threads add
 * up all channels under a window, one behind the other, and reach half of the rate (H100: 64 channels of 56x56 take
 * 26 us, 512 of 7x7 134 us, 64 of 224x224 152 us). */
static double seconds(const hyp_cuda_conv_step *step, bool last, double floor)
{
    if (hyp_cuda_is_depthwise(&step->conv)) return 2 * hyp_cuda_plain_seconds(step, floor);
    double products = floor + hyp_cuda_deep_seconds(step);
    if (hyp_cuda_is_strict(step)) products += 0.7 * floor;
    return 2 * hyp_cuda_library_seconds + products + hyp_cuda_dnn_moving_seconds(step, last);
}

static double cudnn_seconds(const hyp_cuda_conv_step *step, double floor)
{
    return seconds(step, step->weight_last, step->weight_last ? floor : hyp_cuda_dnn_first_floor(step, floor));
}

static hyp_status add_as_weights(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    return add_cudnn(b, step, step->weight_last);
}

const hyp_cuda_conv_way hyp_cuda_conv_cudnn = {"cudnn", cudnn_cannot, cudnn_seconds, add_as_weights, false};

/* ---- with the channels last, weights that a run computes included -------------------------------------------- */

static const char *last_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    if (step->weight_last) return "its weights lie so";
    if (!step->computes_weights) return "its weights are constants, which do not lie so";
    return hyp_cuda_dnn_cannot(b, step, true);
}

static double last_seconds(const hyp_cuda_conv_step *step, double floor)
{
    return seconds(step, true, hyp_cuda_dnn_last_floor(step, floor));
}

static hyp_status add_last(hyp_cuda_build *b, const hyp_cuda_conv_step *step) { return add_cudnn(b, step, true); }

const hyp_cuda_conv_way hyp_cuda_conv_cudnn_last = {"cudnn, channels last", last_cannot, last_seconds, add_last, false};

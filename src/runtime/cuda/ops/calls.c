/* calls.c - steps that name their kernel: ranges and random numbers, and which others there are. */
#include <string.h>

#include "base/philox.h"
#include "kernels/random.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/reference/reference.h"


/* ---- what is made of places ---------------------------------------------------------------------------------- */

static hyp_status add_range(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *start = &c->in[0], *delta = &c->in[1], *y = &c->out[0];
    if (start->count != 1 || delta->count != 1 || y->rank != 1 || start->dtype != y->dtype || delta->dtype != y->dtype)
        return hyp_kernel_fail(c, "two scalars and a vector of one type are wanted");
    if (y->count == 0) return HYP_OK;
    const hyp_cuda_range args = {.count = y->count, .dtype = y->dtype};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_range, start, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_range, delta, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_range, y, k->outputs[0] + 1)};
    const hyp_cuda_kernel kernel = hyp_array_is_float(y) ? HYP_CUDA_KERNEL_range_f64 : HYP_CUDA_KERNEL_range_u64;
    return hyp_cuda_add_spread(b, kernel, y->count, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

static hyp_status add_random_uniform(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    HYP_TRY(hyp_kernel_random_check(c));
    if (y->count == 0) return HYP_OK;
    const hyp_cuda_random args = {.count = y->count, .stream = (uint32_t)c->attrs[1].i};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_random, seed, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_random, number, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_random, y, k->outputs[0] + 1)};
    const int64_t blocks = (y->count + HYP_PHILOX_WORDS - 1) / HYP_PHILOX_WORDS;
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_random_uniform, blocks, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

/* ---- all of them ------------------------------------------------------------------------------------------- */

hyp_cuda_call_fn hyp_cuda_add_affine_grid, hyp_cuda_add_all_reduce, hyp_cuda_add_attention_gradient,
    hyp_cuda_add_batch_norm_gradient, hyp_cuda_add_batch_norm_stats, hyp_cuda_add_bit_cast, hyp_cuda_add_conv,
    hyp_cuda_add_conv_backward_weights, hyp_cuda_add_conv_transpose, hyp_cuda_add_extreme, hyp_cuda_add_gather_elements,
    hyp_cuda_add_gather_nd, hyp_cuda_add_grid_sample, hyp_cuda_add_linear_gradient, hyp_cuda_add_locate,
    hyp_cuda_add_lrn, hyp_cuda_add_nonzero, hyp_cuda_add_norm, hyp_cuda_add_norm_gradient, hyp_cuda_add_one_hot,
    hyp_cuda_add_pool, hyp_cuda_add_pool_gradient, hyp_cuda_add_product, hyp_cuda_add_recurrence,
    hyp_cuda_add_recurrence_gradient, hyp_cuda_add_resize, hyp_cuda_add_reverse, hyp_cuda_add_roi_align,
    hyp_cuda_add_suppression, hyp_cuda_add_unpool, hyp_cuda_add_scan, hyp_cuda_add_scatter_elements,
    hyp_cuda_add_scatter_nd, hyp_cuda_add_softmax_gradient, hyp_cuda_add_softmax_stats, hyp_cuda_add_tensor_scatter,
    hyp_cuda_add_topk, hyp_cuda_add_trilu, hyp_cuda_add_grid_sample_gradient, hyp_cuda_add_roi_align_gradient;

/* What the compiler may call is a list of its own: kernel-calls in profiles/h200.profile. */
static const struct {
    const char *kernel;
    hyp_cuda_call_fn *add;
} calls[] = {
    {"layer-norm", hyp_cuda_add_norm},
    {"layer-norm-stats", hyp_cuda_add_norm},
    {"rms-norm", hyp_cuda_add_norm},
    {"norm-gradient", hyp_cuda_add_norm_gradient},
    {"softmax-gradient", hyp_cuda_add_softmax_gradient},
    {"batch-norm-stats", hyp_cuda_add_batch_norm_stats},
    {"batch-norm-gradient", hyp_cuda_add_batch_norm_gradient},
    {"attention-gradient", hyp_cuda_add_attention_gradient},
    {"linear-gradient", hyp_cuda_add_linear_gradient},
    {"range", add_range},
    {"random-uniform", add_random_uniform},
    {"scatter-nd", hyp_cuda_add_scatter_nd},
    {"scatter-elements", hyp_cuda_add_scatter_elements},
    {"gather-elements", hyp_cuda_add_gather_elements},
    {"gather-nd", hyp_cuda_add_gather_nd},
    {"argmax", hyp_cuda_add_locate},
    {"argmin", hyp_cuda_add_locate},
    {"topk", hyp_cuda_add_topk},
    {"cumsum", hyp_cuda_add_scan},
    {"cumprod", hyp_cuda_add_scan},
    {"one-hot", hyp_cuda_add_one_hot},
    {"resize", hyp_cuda_add_resize},
    {"grid-sample", hyp_cuda_add_grid_sample},
    {"affine-grid", hyp_cuda_add_affine_grid},
    {"roi-align", hyp_cuda_add_roi_align},
    {"grid-sample-gradient", hyp_cuda_add_grid_sample_gradient},
    {"roi-align-gradient", hyp_cuda_add_roi_align_gradient},
    {"max-unpool", hyp_cuda_add_unpool},
    {"nonzero", hyp_cuda_add_nonzero},
    {"non-max-suppression", hyp_cuda_add_suppression},
    {"tensor-scatter", hyp_cuda_add_tensor_scatter},
    {"lrn", hyp_cuda_add_lrn},
    {"reduce-prod", hyp_cuda_add_product},
    {"trilu", hyp_cuda_add_trilu},
    {"reverse-sequence", hyp_cuda_add_reverse},
    {"bit-cast", hyp_cuda_add_bit_cast},
    {"softmax-stats", hyp_cuda_add_softmax_stats},
    {"reduce-max", hyp_cuda_add_extreme},
    {"reduce-min", hyp_cuda_add_extreme},
    {"conv", hyp_cuda_add_conv},
    {"conv-transpose", hyp_cuda_add_conv_transpose},
    {"conv-backward-weights", hyp_cuda_add_conv_backward_weights},
    {"max-pool", hyp_cuda_add_pool},
    {"max-pool-places", hyp_cuda_add_pool},
    {"max-pool-gradient", hyp_cuda_add_pool_gradient},
    {"average-pool", hyp_cuda_add_pool},
    {"lp-pool", hyp_cuda_add_pool},
    {"lstm", hyp_cuda_add_recurrence},
    {"gru", hyp_cuda_add_recurrence},
    {"rnn", hyp_cuda_add_recurrence},
    {"lstm-cells", hyp_cuda_add_recurrence},
    {"lstm-gradient", hyp_cuda_add_recurrence_gradient},
    {"gru-gradient", hyp_cuda_add_recurrence_gradient},
    {"rnn-gradient", hyp_cuda_add_recurrence_gradient},
    {"all-reduce", hyp_cuda_add_all_reduce},
};

static hyp_cuda_call_fn *find(const HypPlan__Call *k)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].kernel, k->kernel) == 0) return calls[i].add;
    return NULL;
}

static bool has_windows(hyp_cuda_call_fn *add)
{
    return add == hyp_cuda_add_conv || add == hyp_cuda_add_conv_transpose ||
           add == hyp_cuda_add_conv_backward_weights || add == hyp_cuda_add_pool || add == hyp_cuda_add_pool_gradient ||
           add == hyp_cuda_add_unpool;
}

/* Of a type that there are tiles for. */
static bool has_tiles(const HypPlan__Program *program, const HypPlan__Call *k)
{
    return k->n_outputs > 0 && (hyp_dtype)program->tensors[k->outputs[0]]->dtype == HYP_BF16;
}

/* Of a type that reductions know. */
static bool has_sums(const HypPlan__Program *program, const HypPlan__Call *k)
{
    static const hyp_dtype types[] = {HYP_F16, HYP_BF16, HYP_F32, HYP_F64, HYP_I32, HYP_I64};
    for (size_t i = 0; k->n_outputs > 0 && i < sizeof types / sizeof *types; i++)
        if ((hyp_dtype)program->tensors[k->outputs[0]]->dtype == types[i]) return true;
    return false;
}

hyp_status hyp_cuda_check_call(const HypPlan__Program *program, const HypPlan__Call *k, hyp_diag *diag)
{
    hyp_cuda_call_fn *add = find(k);
    if (!add)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "there is no CUDA kernel for %s yet; run the plan on the CPU (--device cpu)", k->kernel);
    if (add == hyp_cuda_add_extreme && !has_sums(program, k))
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "the CUDA kernel for %s takes floats of 16 bits and more, i32 and i64; run the plan on the CPU "
                        "(--device cpu)",
                        k->kernel);
    if (add == hyp_cuda_add_attention_gradient && !has_tiles(program, k))
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "the CUDA kernels for %s take bf16; run the plan on the CPU (--device cpu)", k->kernel);
    if (add == hyp_cuda_add_resize && !hyp_cuda_can_resize(program, k))
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "the CUDA kernels for %s take scales and regions that are constants; run the plan on the CPU "
                        "(--device cpu)",
                        k->kernel);
    size_t rank = has_windows(add) && k->n_outputs ? program->tensors[k->outputs[0]]->n_dims : 0;
    if (rank <= 2 + HYP_CUDA_SPATIAL) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                    "the CUDA kernel for %s slides along up to %d axes, not %zu; run the plan on the CPU (--device cpu)",
                    k->kernel, HYP_CUDA_SPATIAL, rank - 2);
}

hyp_status hyp_cuda_add_call(hyp_cuda_build *b, const HypPlan__Call *k)
{
    const hyp_reference_call shapes = {.program = b->program, .values = b->values};
    hyp_call_arguments a;
    hyp_reference_arguments(&shapes, k, b->diag, &a);
    return find(k)(b, k, &a.call);
}

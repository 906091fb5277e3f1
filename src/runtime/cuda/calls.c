/* calls.c - steps that name their kernel: normalization and ranges, and which others there are. */
#include <string.h>

#include "kernels/kernels.h"
#include "runtime/cuda/cuda.h"
#include "runtime/reference/reference.h"

static uint32_t input_plus1(const HypPlan__Call *k, size_t i) { return i < k->n_inputs_plus1 ? k->inputs_plus1[i] : 0; }

/* ---- layer-norm and rms-norm ------------------------------------------------------------------------------- */

typedef struct norm {
    hyp_cuda_norm args;
    hyp_cuda_grid grid;
    uint32_t x_plus1, scale_plus1, bias_plus1, y;
} norm;

static hyp_status norm_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    norm *p = data;
    p->args.rows.x = hyp_cuda_address(s, p->x_plus1);
    p->args.scale = hyp_cuda_address(s, p->scale_plus1);
    p->args.bias = hyp_cuda_address(s, p->bias_plus1);
    p->args.rows.y = s->at[p->y];
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

/* x as rows, those of the axes from the attribute `axis` on, and the types. */
static hyp_status read_norm(const hyp_kernel_call *c, hyp_cuda_norm *args)
{
    const hyp_array *x = &c->in[0], *scale = hyp_kernel_input(c, 1), *bias = hyp_kernel_input(c, 2);
    *args = (hyp_cuda_norm){.epsilon = c->attrs[1].f, .rows = {.dtype = x->dtype, .vector = 1}};
    HYP_TRY(hyp_kernel_norm_rows(c, &args->rows.count, &args->rows.size));
    if ((scale && scale->dtype != x->dtype) || (bias && bias->dtype != x->dtype)) args->rows.vector = 0;
    args->scale_dtype = scale ? scale->dtype : HYP_DTYPE_NONE;
    args->bias_dtype = bias ? bias->dtype : HYP_DTYPE_NONE;
    return HYP_OK;
}

static hyp_status add_norm(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_cuda_norm args;
    void *data;
    HYP_TRY(read_norm(c, &args));
    if (c->in[0].count == 0) return HYP_OK;
    args.centred = strcmp(k->kernel, "layer-norm") == 0;
    HYP_TRY(hyp_cuda_add_op(b, norm_run, sizeof(norm), &data));
    norm *p = data;
    *p = (norm){.x_plus1 = input_plus1(k, 0),
                .scale_plus1 = input_plus1(k, 1),
                .bias_plus1 = input_plus1(k, 2),
                .y = k->outputs[0]};
    bool fits = hyp_cuda_row_grid(b->session->model->device, &args.rows, &p->grid);
    bool is_f64 = args.rows.dtype == HYP_F64;
    bool others_are_f64 = args.scale_dtype == HYP_F64 || args.bias_dtype == HYP_F64;
    p->grid.kernel = is_f64                    ? HYP_CUDA_KERNEL_norm_long_f64
                     : !fits || others_are_f64 ? HYP_CUDA_KERNEL_norm_long_f32
                     : args.rows.vector        ? HYP_CUDA_KERNEL_norm_rows
                                               : HYP_CUDA_KERNEL_norm_loose_rows;
    p->args = args;
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

bool hyp_cuda_newest_norm(const hyp_cuda_build *b, uint32_t y, hyp_cuda_own_norm *out)
{
    const hyp_cuda_prepared *prepared = b->prepared;
    const hyp_cuda_op *op = prepared->ops.len > 0 ? &prepared->ops.data[prepared->ops.len - 1] : NULL;
    const norm *p = op && op->run == norm_run ? op->data : NULL;
    if (!p || hyp_plan_root(b->program, p->y) != hyp_plan_root(b->program, y)) return false;
    if (p->grid.kernel != HYP_CUDA_KERNEL_norm_rows || !p->scale_plus1) return false;
    *out = (hyp_cuda_own_norm){.x = p->x_plus1 - 1,
                               .scale = p->scale_plus1 - 1,
                               .bias_plus1 = p->bias_plus1,
                               .kind = p->args.centred ? HYP_CUDA_NORM_LAYER : HYP_CUDA_NORM_ROOT,
                               .epsilon = (float)p->args.epsilon,
                               .rows = p->args.rows.count,
                               .size = p->args.rows.size};
    return true;
}

/* ---- range ------------------------------------------------------------------------------------------------- */

typedef struct range {
    hyp_cuda_range args;
    hyp_cuda_grid grid;
    uint32_t start_plus1, delta_plus1, y;
} range;

static hyp_status range_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    range *p = data;
    p->args.start = hyp_cuda_address(s, p->start_plus1);
    p->args.delta = hyp_cuda_address(s, p->delta_plus1);
    p->args.y = s->at[p->y];
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static hyp_status add_range(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    enum { THREADS = 256 };
    const hyp_array *start = &c->in[0], *delta = &c->in[1], *y = &c->out[0];
    void *data;
    if (start->count != 1 || delta->count != 1 || y->rank != 1 || start->dtype != y->dtype || delta->dtype != y->dtype)
        return hyp_kernel_fail(c, "two scalars and a vector of one type are wanted");
    if (y->count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_add_op(b, range_run, sizeof(range), &data));
    range *p = data;
    *p = (range){.args = {.count = y->count, .dtype = y->dtype},
                 .grid = {.kernel = hyp_array_is_float(y) ? HYP_CUDA_KERNEL_range_f64 : HYP_CUDA_KERNEL_range_u64,
                          .blocks = hyp_cuda_blocks(b->session->model->device, y->count, THREADS),
                          .block_x = THREADS,
                          .block_y = 1},
                 .start_plus1 = input_plus1(k, 0),
                 .delta_plus1 = input_plus1(k, 1),
                 .y = k->outputs[0]};
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* ---- all of them ------------------------------------------------------------------------------------------- */

typedef hyp_status add_call_fn(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c);

/* What the compiler may call is a list of its own: kernel-calls in profiles/h200.profile. */
static const struct {
    const char *kernel;
    add_call_fn *add;
} calls[] = {
    {"layer-norm", add_norm},
    {"rms-norm", add_norm},
    {"range", add_range},
    {"conv", hyp_cuda_add_conv},
    {"max-pool", hyp_cuda_add_pool},
    {"average-pool", hyp_cuda_add_pool},
};

static add_call_fn *find(const HypPlan__Call *k)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].kernel, k->kernel) == 0) return calls[i].add;
    return NULL;
}

static bool has_windows(add_call_fn *add) { return add == hyp_cuda_add_conv || add == hyp_cuda_add_pool; }

hyp_status hyp_cuda_check_call(const HypPlan__Program *program, const HypPlan__Call *k, hyp_diag *diag)
{
    add_call_fn *add = find(k);
    if (!add)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "there is no CUDA kernel for %s yet; run the plan on the CPU (--device cpu)", k->kernel);
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

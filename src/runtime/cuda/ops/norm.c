/* norm.c - layer-norm and rms-norm, by themselves and behind a product whose sums were split. */
#include <string.h>

#include "runtime/cuda/ops/linear.h"
#include "runtime/reference/reference.h"

hyp_cuda_call_fn hyp_cuda_add_norm;

typedef struct norm {
    hyp_cuda_norm args;
    hyp_cuda_grid grid;
    uint32_t x_plus1, scale_plus1, bias_plus1, y, mean_plus1, inverse_plus1;
} norm;

static void set_addresses(const hyp_cuda_session *s, const norm *p, hyp_cuda_norm *args)
{
    args->rows.x = hyp_cuda_address(s, p->x_plus1);
    args->scale = hyp_cuda_address(s, p->scale_plus1);
    args->bias = hyp_cuda_address(s, p->bias_plus1);
    args->rows.y = s->at[p->y];
    args->mean = hyp_cuda_address(s, p->mean_plus1);
    args->inverse = hyp_cuda_address(s, p->inverse_plus1);
}

static hyp_status norm_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    norm *p = data;
    set_addresses(s, p, &p->args);
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static norm norm_of(const HypPlan__Call *k)
{
    return (norm){.x_plus1 = hyp_plan_call_input(k, 0),
                  .scale_plus1 = hyp_plan_call_input(k, 1),
                  .bias_plus1 = hyp_plan_call_input(k, 2),
                  .y = k->outputs[0],
                  .mean_plus1 = k->n_outputs > 1 ? k->outputs[1] + 1 : 0,
                  .inverse_plus1 = k->n_outputs > 2 ? k->outputs[2] + 1 : 0};
}

/* x as rows, those of the axes from the attribute `axis` on, and the types. */
static hyp_status read_norm(const HypPlan__Call *k, const hyp_kernel_call *c, hyp_cuda_norm *args)
{
    const hyp_array *x = &c->in[0], *scale = hyp_kernel_input(c, 1), *bias = hyp_kernel_input(c, 2);
    *args = (hyp_cuda_norm){.epsilon = c->attrs[1].f,
                            .centred = strncmp(k->kernel, "layer-norm", strlen("layer-norm")) == 0,
                            .rows = {.dtype = x->dtype, .vector = 1}};
    HYP_TRY(hyp_kernel_norm_rows(c, &args->rows.count, &args->rows.size));
    if ((scale && scale->dtype != x->dtype) || (bias && bias->dtype != x->dtype)) args->rows.vector = 0;
    args->scale_dtype = scale ? scale->dtype : HYP_DTYPE_NONE;
    args->bias_dtype = bias ? bias->dtype : HYP_DTYPE_NONE;
    return HYP_OK;
}

hyp_status hyp_cuda_add_norm(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_cuda_norm args;
    void *data;
    HYP_TRY(read_norm(k, c, &args));
    const bool stats = c->out_count > 1; /* of which there are some of rows of nothing, too */
    if (args.rows.count == 0 || (args.rows.size == 0 && !stats)) return HYP_OK;
    if (stats) args.mean_dtype = c->out[1].dtype;
    if (c->out_count > 2) args.inverse_dtype = c->out[2].dtype;
    HYP_TRY(hyp_cuda_add_op(b, norm_run, sizeof(norm), &data));
    norm *p = data;
    *p = norm_of(k);
    bool fits = hyp_cuda_row_grid(b->session->model->device, &args.rows, &p->grid);
    bool is_f64 = args.rows.dtype == HYP_F64;
    bool others_are_f64 = args.scale_dtype == HYP_F64 || args.bias_dtype == HYP_F64;
    p->grid.kernel = is_f64                             ? HYP_CUDA_KERNEL_norm_long_f64
                     : !fits || others_are_f64 || stats ? HYP_CUDA_KERNEL_norm_long_f32
                     : args.rows.vector                 ? HYP_CUDA_KERNEL_norm_rows
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

/* ---- behind parts of sums ----------------------------------------------------------------------------------- */

typedef struct norm_parts {
    norm norm; /* tensors and grid */
    hyp_cuda_norm_parts args;
    size_t offset; /* of the parts, in the workspace */
    uint32_t bias_plus1, added_plus1;
} norm_parts;

static hyp_status norm_parts_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    norm_parts *p = data;
    set_addresses(s, &p->norm, &p->args.norm);
    p->args.parts = s->workspace + p->offset;
    p->args.bias = hyp_cuda_address(s, p->bias_plus1);
    p->args.added = hyp_cuda_address(s, p->added_plus1);
    return hyp_cuda_launch(s, &p->norm.grid, &p->args, diag);
}

/* The grid of norm_parts for a normalization whose rows these are; false where it does not do it. */
static bool parts_grid(const HypPlan__Linear *k, const hyp_cuda_build *b, const HypPlan__Call *call, hyp_cuda_norm *out,
                       hyp_cuda_grid *out_grid)
{
    int64_t m = b->values[k->m], n = b->values[k->layers[0]->n];
    const hyp_reference_call shapes = {.program = b->program, .values = b->values};
    hyp_call_arguments a;
    hyp_reference_arguments(&shapes, call, NULL, &a);
    if (read_norm(call, &a.call, out) != HYP_OK || out->rows.count != m || out->rows.size != n) return false;
    int64_t warps = (n + 127) / 128; /* with four elements a lane */
    if (warps > HYP_CUDA_PART_THREADS / 32) warps = (warps + HYP_CUDA_PART_FOURS - 1) / HYP_CUDA_PART_FOURS;
    *out_grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_norm_parts,
                                .blocks = (uint32_t)m,
                                .block_x = (uint32_t)warps * 32,
                                .block_y = 1,
                                .shared_bytes = (uint32_t)warps * 4 * (uint32_t)sizeof(float)};
    return warps <= HYP_CUDA_PART_THREADS / 32 && n % 4 == 0 && out->rows.vector &&
           (out->rows.dtype == HYP_F16 || out->rows.dtype == HYP_BF16);
}

bool hyp_cuda_adds_up(const hyp_cuda_build *b, const HypPlan__Linear *k, const HypPlan__Step *next)
{
    const HypPlan__Call *call = next->kernel_case == HYP_PLAN__STEP__KERNEL_CALL ? next->call : NULL;
    hyp_cuda_norm args;
    hyp_cuda_grid grid;
    return k->n_layers == 1 && k->layers[0]->act == HYP_PLAN__ACT__ACT_NONE && call &&
           (strcmp(call->kernel, "layer-norm") == 0 || strcmp(call->kernel, "rms-norm") == 0) &&
           hyp_plan_call_input(call, 0) == k->y + 1 && b->values[k->m] > HYP_CUDA_LAYER_ROWS &&
           b->values[k->layers[0]->n] > HYP_CUDA_LAYER_ROWS && parts_grid(k, b, call, &args, &grid);
}

hyp_status hyp_cuda_add_split(hyp_cuda_build *b, const HypPlan__Linear *k, const HypPlan__Call *norm_call, uint32_t count)
{
    hyp_cuda_norm args;
    hyp_cuda_grid grid;
    size_t offset;
    void *data;
    if (!parts_grid(k, b, norm_call, &args, &grid)) return hyp_fail(b->diag, HYP_ERR_INTERNAL, "no parts to add up");
    HYP_TRY(hyp_cuda_add_parts(b, k, count, &offset));
    b->step++;
    HYP_TRY(hyp_cuda_add_op(b, norm_parts_run, sizeof(norm_parts), &data));
    norm_parts *p = data;
    *p = (norm_parts){.norm = norm_of(norm_call),
                      .args = {.norm = args, .count = count},
                      .offset = offset,
                      .bias_plus1 = k->layers[0]->bias_plus1,
                      .added_plus1 = k->added_plus1};
    p->norm.grid = grid;
    p->args.constant = hyp_cuda_is_constant(b, p->bias_plus1) && hyp_cuda_is_constant(b, p->norm.scale_plus1) &&
                       hyp_cuda_is_constant(b, p->norm.bias_plus1);
    return hyp_cuda_need_kernel(b, grid.kernel);
}

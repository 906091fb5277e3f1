/* linear_few_rows.c - linear layers by our own kernel: few_rows.h says which. */
#include "base/dtype.h"
#include "runtime/cuda/ops/few_rows.h"
#include "runtime/cuda/ops/linear.h"

typedef struct layer {
    hyp_cuda_few_rows form;
    hyp_cuda_grid grid;
    uint32_t x, y, weight;
    uint32_t bias_plus1, added_plus1, norm_scale_plus1, norm_bias_plus1;
} layer;

static hyp_status layer_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    layer *p = data;
    hyp_cuda_layer *args = &p->form.args;
    args->weight = s->at[args->turned ? p->x : p->weight];
    args->x = s->at[args->turned ? p->weight : p->x];
    args->y = s->at[p->y];
    args->bias = hyp_cuda_address(s, p->bias_plus1);
    args->added = hyp_cuda_address(s, p->added_plus1);
    args->norm_scale = hyp_cuda_address(s, p->norm_scale_plus1);
    args->norm_bias = hyp_cuda_address(s, p->norm_bias_plus1);
    return hyp_cuda_launch(s, &p->grid, args, diag);
}

/* The form of the layer; *norm is what the kernel does of the normalization before it, which is the newest op. */
static bool find_form(const hyp_cuda_build *b, const HypPlan__Linear *k, size_t l, bool asked, hyp_cuda_own_norm *norm,
                      hyp_cuda_few_rows *out)
{
    const hyp_cuda_device *d = b->session->model->device;
    const hyp_cuda_few_rows_device device = {(uint32_t)d->multiprocessors, d->shared_bytes};
    const HypPlan__Layer *from = k->layers[l];
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    int64_t m = b->values[k->m], n = b->values[from->n], depth = b->values[from->k];
    if (!d->layers || from->weight_kn) return false;
    if (l == 0 && k->normalizes && hyp_cuda_newest_norm(b, k->x, norm) && norm->rows == m && norm->size == depth &&
        hyp_cuda_few_rows_plan(dtype, k->tf32, m, n, depth, norm->kind, &device, asked, out))
        return true;
    norm->kind = HYP_CUDA_NORM_NONE;
    return hyp_cuda_few_rows_plan(dtype, k->tf32, m, n, depth, HYP_CUDA_NORM_NONE, &device, asked, out);
}

hyp_status hyp_cuda_add_few_rows(hyp_cuda_build *b, const HypPlan__Linear *k, size_t l, bool asked, bool *out_done)
{
    const HypPlan__Layer *from = k->layers[l];
    hyp_cuda_few_rows form;
    hyp_cuda_own_norm norm = {0};
    *out_done = find_form(b, k, l, asked, &norm, &form);
    if (!*out_done) return HYP_OK;
    void *data;
    if (norm.kind) b->prepared->ops.len--;
    HYP_TRY(hyp_cuda_add_op(b, layer_run, sizeof(layer), &data));
    layer *p = data;
    p->form = form;
    p->x = norm.kind ? norm.x : hyp_cuda_layer_input(k, l);
    p->y = hyp_cuda_layer_result(k, l);
    p->weight = from->weight;
    p->bias_plus1 = from->bias_plus1;
    if (l + 1 == k->n_layers) p->added_plus1 = k->added_plus1;
    hyp_cuda_layer *args = &p->form.args;
    args->act = (uint8_t)hyp_plan_act_op(from->act);
    args->add_after = k->add_after != 0;
    if (hyp_cuda_dtype(b->program, k->x) == HYP_F8E4M3) args->scale = from->x_scale * from->weight_scale;
    args->constant =
        !args->turned && hyp_cuda_is_constant(b, from->weight + 1) && hyp_cuda_is_constant(b, from->bias_plus1);
    if (norm.kind) {
        p->norm_scale_plus1 = norm.scale + 1;
        p->norm_bias_plus1 = norm.bias_plus1;
        args->epsilon = norm.epsilon;
        args->constant =
            args->constant && hyp_cuda_is_constant(b, norm.scale + 1) && hyp_cuda_is_constant(b, norm.bias_plus1);
    }
    p->grid = (hyp_cuda_grid){.kernel = form.kernel,
                              .blocks = form.blocks,
                              .block_x = form.threads,
                              .block_y = 1,
                              .shared_bytes = (uint32_t)form.shared_bytes};
    return hyp_cuda_need_kernel(b, form.kernel);
}

/* layers.c - linear layers by our own kernel: few_rows.h says which. */
#include "base/dtype.h"
#include "runtime/cuda/few_rows.h"
#include "runtime/cuda/linear.h"

typedef struct layer {
    hyp_cuda_few_rows form;
    hyp_cuda_grid grid;
    uint32_t x, y, weight;
    uint32_t bias_plus1, added_plus1;
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
    return hyp_cuda_launch(s, &p->grid, args, diag);
}

static bool is_weight(const hyp_cuda_build *b, uint32_t tensor)
{
    return b->program->tensors[hyp_plan_root(b->program, tensor)]->place == HYP_PLAN__PLACE__PLACE_WEIGHT;
}

hyp_status hyp_cuda_add_few_rows(hyp_cuda_build *b, const HypPlan__Linear *k, size_t l, bool asked, bool *out_done)
{
    const hyp_cuda_device *d = b->session->model->device;
    const hyp_cuda_few_rows_device device = {(uint32_t)d->multiprocessors, d->shared_bytes};
    const HypPlan__Layer *from = k->layers[l];
    hyp_cuda_few_rows form;
    *out_done = d->layers && !from->weight_kn &&
                hyp_cuda_few_rows_plan(hyp_cuda_dtype(b->program, k->x), k->tf32, b->values[k->m], b->values[from->n],
                                       b->values[from->k], &device, asked, &form);
    if (!*out_done) return HYP_OK;
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, layer_run, sizeof(layer), &data));
    layer *p = data;
    p->form = form;
    p->x = hyp_cuda_layer_input(k, l);
    p->y = hyp_cuda_layer_result(k, l);
    p->weight = from->weight;
    p->bias_plus1 = from->bias_plus1;
    if (l + 1 == k->n_layers) p->added_plus1 = k->added_plus1;
    hyp_cuda_layer *args = &p->form.args;
    args->act = (uint8_t)hyp_cuda_act_op(from->act);
    args->add_after = k->add_after != 0;
    args->constant =
        !args->turned && is_weight(b, from->weight) && (!from->bias_plus1 || is_weight(b, from->bias_plus1 - 1));
    p->grid = (hyp_cuda_grid){.kernel = form.kernel,
                              .blocks = form.blocks,
                              .block_x = form.threads,
                              .block_y = 1,
                              .shared_bytes = (uint32_t)form.shared_bytes};
    return hyp_cuda_need_kernel(b, form.kernel);
}

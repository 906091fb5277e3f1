/* scatter.c - updates written, or combined, into places of a copy of the data. */
#include "base/dtype.h"
#include "base/elementwise.h"
#include "kernels/scatter.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_scatter_nd;

typedef struct scatter {
    hyp_cuda_scatter args;
    hyp_cuda_grid grid;
    hyp_cuda_mover data; /* to the result */
    uint32_t x, indices, updates, y;
} scatter;

static hyp_status scatter_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    scatter *p = data;
    p->args.indices = s->at[p->indices];
    p->args.updates = s->at[p->updates];
    p->args.y = s->at[p->y];
    p->args.error = s->error_at;
    HYP_TRY(hyp_cuda_mover_run(s, &p->data, s->at[p->x], s->at[p->y], diag));
    return p->args.inner * p->args.tuples > 0 ? hyp_cuda_launch(s, &p->grid, &p->args, diag) : HYP_OK;
}

static hyp_cuda_kernel kernel_of(uint32_t combine, hyp_dtype dtype)
{
    if (combine == HYP_PW_CAST) return HYP_CUDA_KERNEL_scatter;
    if (hyp_dtype_is_float(dtype)) return HYP_CUDA_KERNEL_scatter_f64;
    return dtype == HYP_U64 ? HYP_CUDA_KERNEL_scatter_u64 : HYP_CUDA_KERNEL_scatter_i64;
}

hyp_status hyp_cuda_add_scatter_nd(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    enum { THREADS = 64 };
    const hyp_array *y = &c->out[0];
    hyp_scatter_nd rows;
    HYP_TRY(hyp_kernel_read_scatter_nd(c, &rows));
    hyp_cuda_scatter args = {.tuples = rows.tuples,
                             .width = (uint32_t)rows.width,
                             .wide_indices = c->in[1].dtype == HYP_I64,
                             .dtype = y->dtype,
                             .combine = rows.combine,
                             .step = b->step};
    void *data;
    if (y->count == 0) return HYP_OK;
    uint32_t size = (uint32_t)hyp_dtype_size(y->dtype), wide = hyp_cuda_widest((uint64_t)rows.inner * size);
    args.size = args.combine == HYP_PW_CAST ? wide : size;
    for (uint32_t a = 0; a < args.width; a++) {
        args.dims[a] = c->in[0].dims[a];
        args.strides[a] = rows.strides[a] * size / args.size;
    }
    args.inner = rows.inner * size / args.size;
    HYP_TRY(hyp_cuda_need_report(b));
    HYP_TRY(hyp_cuda_add_op(b, scatter_run, sizeof(scatter), &data));
    scatter *p = data;
    *p = (scatter){.args = args,
                   .grid = {.kernel = kernel_of(args.combine, y->dtype),
                            .blocks = hyp_cuda_blocks(b->session->model->device, args.inner, THREADS),
                            .block_x = THREADS,
                            .block_y = 1},
                   .x = hyp_plan_call_input(k, 0) - 1,
                   .indices = hyp_plan_call_input(k, 1) - 1,
                   .updates = hyp_plan_call_input(k, 2) - 1,
                   .y = k->outputs[0]};
    hyp_cuda_box box = {.rank = 1, .lanes = 2, .extent = {y->count}, .stride = {{1}, {1}}};
    HYP_TRY(hyp_cuda_mover_init(b, &box, size, 0, 0, &p->data));
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

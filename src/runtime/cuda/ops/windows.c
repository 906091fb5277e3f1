/* windows.c - windows that slide over x, as our kernels see them; pooling. */
#include <string.h>

#include "runtime/cuda/ops/conv.h"

hyp_cuda_call_fn hyp_cuda_add_pool;

enum { PIECE = 16 };

void hyp_cuda_windows_of(const hyp_window *window, const hyp_array *x, const hyp_array *y, hyp_cuda_windows *out)
{
    *out = (hyp_cuda_windows){.channels = hyp_cuda_extent_of(y->dims[1]),
                              .in_channels = x->dims[1],
                              .in_count = window->in_count,
                              .kernel_count = window->kernel_count,
                              .total = y->count};
    for (int32_t a = 0; a < HYP_CUDA_SPATIAL; a++) {
        int32_t i = window->n - 1 - a; /* the innermost comes first */
        bool there = i >= 0;
        out->out[a] = hyp_cuda_extent_of(there ? window->out[i] : 1);
        out->in[a] = there ? window->in[i] : 1;
        out->kernel[a] = there ? window->kernel[i] : 1;
        out->stride[a] = there ? window->stride[i] : 1;
        out->dilation[a] = there ? window->dilation[i] : 1;
        out->before[a] = there ? window->before[i] : 0;
        out->after[a] = there ? window->after[i] : 0;
    }
}

void hyp_cuda_image_lane(hyp_cuda_box *box, uint32_t lane, int32_t rank, const int64_t *dims, bool last)
{
    int64_t step = last ? dims[1] : 1; /* of the innermost spatial axis */
    uint32_t axes = (uint32_t)rank - 2;
    box->rank = (uint32_t)rank;
    if (lane >= box->lanes) box->lanes = lane + 1;
    for (uint32_t a = 0; a < axes; a++) {
        box->stride[lane][a] = step;
        step *= dims[(uint32_t)rank - 1 - a];
    }
    box->stride[lane][axes] = last ? 1 : step;
    box->stride[lane][axes + 1] = last ? step : step * dims[1];
}

typedef struct pool {
    hyp_cuda_pool args;
    hyp_cuda_grid grid;
    uint32_t x, y, places_plus1;
} pool;

static hyp_status pool_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    pool *p = data;
    p->args.x = s->at[p->x];
    p->args.y = s->at[p->y];
    p->args.places = hyp_cuda_address(s, p->places_plus1);
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static hyp_cuda_kernel kernel_of(hyp_dtype dtype)
{
    if (dtype == HYP_F64) return HYP_CUDA_KERNEL_pool_f64;
    if (hyp_dtype_is_float(dtype)) return HYP_CUDA_KERNEL_pool_f32;
    return HYP_CUDA_KERNEL_pool_i64;
}

hyp_status hyp_cuda_add_pool(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool mean = strcmp(k->kernel, "average-pool") == 0;
    hyp_window window;
    void *data;
    HYP_TRY(hyp_kernel_read_pool(c, &window));
    if (mean && !hyp_array_is_float(x)) return hyp_kernel_fail(c, "a floating-point type is wanted");
    if (y->count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_add_op(b, pool_run, sizeof(pool), &data));
    pool *p = data;
    bool last = c->attrs[5].i != 0; /* of a mean: pads count; of places: they count by columns */
    *p = (pool){.args = {.dtype = x->dtype, .mean = mean, .count_pads = mean && last, .columns = !mean && last},
                .grid = {.kernel = kernel_of(x->dtype)},
                .x = k->inputs_plus1[0] - 1,
                .y = k->outputs[0],
                .places_plus1 = c->out_count > 1 ? k->outputs[1] + 1 : 0};
    hyp_cuda_windows *w = &p->args.windows;
    hyp_cuda_windows_of(&window, x, y, w);
    w->x_last = hyp_cuda_lies_last(b, p->x);
    w->y_last = hyp_cuda_lies_last(b, p->y);
    int64_t per_piece = PIECE / (int64_t)hyp_dtype_size(x->dtype);
    if (w->x_last && w->y_last && y->dims[1] % per_piece == 0) { /* such are floats of 16 and 32 bits */
        p->grid.kernel = HYP_CUDA_KERNEL_pool_pieces;
        w->channels = hyp_cuda_extent_of(y->dims[1] / per_piece);
        w->total /= per_piece;
    }
    hyp_cuda_spread(b->session->model->device, w->total, &p->grid);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

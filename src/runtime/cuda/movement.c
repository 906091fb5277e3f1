/* movement.c - copy, gather and fill steps. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/move.h"

/* ---- copy -------------------------------------------------------------------------------------------------- */

typedef struct copy {
    hyp_cuda_move move;
    hyp_cuda_grid grid;
    uint32_t x, y;
} copy;

static hyp_status copy_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    copy *p = data;
    CUdeviceptr x = s->at[p->x] + (CUdeviceptr)p->move.x_offset, y = s->at[p->y] + (CUdeviceptr)p->move.y_offset;
    if (p->move.kind == HYP_CUDA_MOVE_BLOCK) {
        const hyp_cuda_library *lib = &s->model->device->lib;
        return hyp_cuda_check(lib, lib->cuMemcpyDtoDAsync(y, x, p->move.bytes, s->stream), "copying on the device",
                              diag);
    }
    p->move.args.copy.x = x;
    p->move.args.copy.y = y;
    bool transpose = p->move.kind == HYP_CUDA_MOVE_TRANSPOSE;
    return hyp_cuda_launch(s, &p->grid, transpose ? (void *)&p->move.args : (void *)&p->move.args.copy, diag);
}

hyp_status hyp_cuda_add_copy(hyp_cuda_build *b, const HypPlan__Copy *k)
{
    hyp_cuda_box box;
    hyp_cuda_box_init(&box, b->values, k->n_extents, k->extents);
    hyp_cuda_box_add_lane(&box, b->values, k->x_strides);
    hyp_cuda_box_add_lane(&box, b->values, k->y_strides);
    if (hyp_cuda_box_count(&box) == 0) return HYP_OK;
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, copy_run, sizeof(copy), &data));
    copy *p = data;
    p->x = k->x;
    p->y = k->y;
    size_t size = hyp_dtype_size(hyp_cuda_dtype(b->program, k->x));
    hyp_cuda_move_plan(&box, size, b->values[k->x_offset], b->values[k->y_offset], &p->move);
    if (p->move.kind == HYP_CUDA_MOVE_BLOCK) return HYP_OK;
    const hyp_cuda_device *device = b->session->model->device;
    enum { THREADS = 256 };
    if (p->move.kind == HYP_CUDA_MOVE_TRANSPOSE)
        p->grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_transpose,
                                  .blocks = hyp_cuda_blocks(device, p->move.args.total_tiles, 1),
                                  .block_x = HYP_CUDA_TILE,
                                  .block_y = HYP_CUDA_TILE_ROWS,
                                  .shared_bytes = HYP_CUDA_TILE * (HYP_CUDA_TILE + 1) * sizeof(uint64_t)};
    else
        p->grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_copy,
                                  .blocks = hyp_cuda_blocks(device, p->move.args.copy.total, THREADS),
                                  .block_x = THREADS,
                                  .block_y = 1};
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* ---- gather ------------------------------------------------------------------------------------------------ */

typedef struct gather {
    hyp_cuda_gather args;
    hyp_cuda_grid grid;
    uint32_t x, indices, y;
} gather;

static hyp_status gather_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    gather *p = data;
    p->args.x = s->at[p->x];
    p->args.indices = s->at[p->indices];
    p->args.y = s->at[p->y];
    p->args.error = s->error_at;
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

hyp_status hyp_cuda_add_gather(hyp_cuda_build *b, const HypPlan__Gather *k)
{
    int64_t outer = b->values[k->outer], axis = b->values[k->axis], inner = b->values[k->inner];
    int64_t count = b->values[k->count], size = (int64_t)hyp_dtype_size(hyp_cuda_dtype(b->program, k->x));
    if (outer == 0 || inner == 0 || count == 0) return HYP_OK;
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, gather_run, sizeof(gather), &data));
    gather *p = data;
    p->x = k->x;
    p->indices = k->indices;
    p->y = k->y;
    uint32_t wide = hyp_cuda_widest((uint64_t)(inner * size));
    int64_t pieces = inner * size / wide;
    p->args = (hyp_cuda_gather){.inner = hyp_cuda_extent_of(pieces),
                                .count = hyp_cuda_extent_of(count),
                                .axis = axis,
                                .total = outer * count * pieces,
                                .wide_indices = hyp_cuda_dtype(b->program, k->indices) == HYP_I64,
                                .size = wide};
    enum { THREADS = 256 };
    p->grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_gather,
                              .blocks = hyp_cuda_blocks(b->session->model->device, p->args.total, THREADS),
                              .block_x = THREADS,
                              .block_y = 1};
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* ---- fill -------------------------------------------------------------------------------------------------- */

typedef struct fill {
    hyp_cuda_fill args;
    uint64_t first; /* element of y */
    uint32_t y;
} fill;

static hyp_status fill_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    fill *p = data;
    const hyp_cuda_grid grid = {
        .kernel = HYP_CUDA_KERNEL_fill_i64, .blocks = 1, .block_x = HYP_CUDA_FILL_VALUES, .block_y = 1};
    p->args.y = s->at[p->y] + p->first * sizeof(int64_t);
    return hyp_cuda_launch(s, &grid, &p->args, diag);
}

hyp_status hyp_cuda_add_fill(hyp_cuda_build *b, const HypPlan__Fill *k)
{
    for (size_t first = 0; first < k->n_values; first += HYP_CUDA_FILL_VALUES) {
        void *data;
        HYP_TRY(hyp_cuda_add_op(b, fill_run, sizeof(fill), &data));
        fill *p = data;
        p->y = k->y;
        p->first = first;
        size_t left = k->n_values - first;
        p->args.count = (uint32_t)(left < HYP_CUDA_FILL_VALUES ? left : HYP_CUDA_FILL_VALUES);
        for (uint32_t i = 0; i < p->args.count; i++) p->args.value[i] = b->values[k->values[first + i]];
    }
    return k->n_values ? hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_fill_i64) : HYP_OK;
}

/* ---- zero -------------------------------------------------------------------------------------------------- */

typedef struct zero {
    uint32_t y;
    size_t bytes;
} zero;

static hyp_status zero_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    const zero *p = data;
    const hyp_cuda_library *lib = &s->model->device->lib;
    return hyp_cuda_check(lib, lib->cuMemsetD8Async(s->at[p->y], 0, p->bytes, s->stream), "clearing a tensor", diag);
}

hyp_status hyp_cuda_add_zero(hyp_cuda_build *b, uint32_t y, size_t bytes)
{
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, zero_run, sizeof(zero), &data));
    *(zero *)data = (zero){y, bytes};
    return HYP_OK;
}

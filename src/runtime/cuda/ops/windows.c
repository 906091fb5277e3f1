/* windows.c - windows that slide over x, as our kernels see them; pooling. */
#include <string.h>

#include "runtime/cuda/kernels/pool_args.h"
#include "runtime/cuda/ops/conv.h"

hyp_cuda_call_fn hyp_cuda_add_pool, hyp_cuda_add_pool_gradient;

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

static hyp_cuda_kernel kernel_of(hyp_dtype dtype)
{
    if (dtype == HYP_F64) return HYP_CUDA_KERNEL_pool_f64;
    if (hyp_dtype_is_float(dtype)) return HYP_CUDA_KERNEL_pool_f32;
    return HYP_CUDA_KERNEL_pool_i64;
}

/* Do 32 bits hold every place that a window reaches in an image of so many pieces of channels, along its inner axes? */
static bool is_narrow(const hyp_cuda_windows *w, int64_t pieces)
{
    const int64_t most = 1 << 14;
    bool narrow = w->in[0] > 0 && w->in[1] > 0 && w->in[0] <= INT32_MAX && w->in[1] <= INT32_MAX;
    narrow = narrow && pieces <= INT32_MAX / w->in[0] / w->in[1];
    for (int a = 0; a < 2; a++)
        narrow = narrow && w->kernel[a] <= most && w->dilation[a] <= most && w->stride[a] <= INT32_MAX &&
                 w->before[a] <= INT32_MAX / 2;
    return narrow;
}

hyp_status hyp_cuda_add_pool(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool norm = strcmp(k->kernel, "lp-pool") == 0, mean = strcmp(k->kernel, "average-pool") == 0;
    hyp_window window;
    HYP_TRY(hyp_kernel_read_pool(c, &window));
    if ((mean || norm) && !hyp_array_is_float(x)) return hyp_kernel_fail(c, "a floating-point type is wanted");
    if (y->count == 0) return HYP_OK;
    bool last = !norm && c->attrs[5].i != 0; /* of a mean: pads count; of places: they count by columns */
    hyp_cuda_pool args = {.dtype = x->dtype, .mean = mean, .count_pads = mean && last, .columns = !mean && last};
    if (norm && (args.norm = c->attrs[5].i) < 1) return hyp_kernel_fail(c, "the order of a norm is 1 at least");
    hyp_cuda_grid grid = {.kernel = kernel_of(x->dtype)};
    hyp_cuda_windows *w = &args.windows;
    hyp_cuda_windows_of(&window, x, y, w);
    w->x_last = hyp_cuda_lies_last(b, k->inputs_plus1[0] - 1);
    w->y_last = hyp_cuda_lies_last(b, k->outputs[0]);
    int64_t per_piece = PIECE / (int64_t)hyp_dtype_size(x->dtype);
    if (!norm && w->x_last && w->y_last && y->dims[1] % per_piece == 0 && is_narrow(w, y->dims[1] / per_piece)) {
        /* such are floats of 16 and 32 bits */
        grid.kernel = HYP_CUDA_KERNEL_pool_pieces;
        w->channels = hyp_cuda_extent_of(y->dims[1] / per_piece);
        w->total /= per_piece;
    }
    hyp_cuda_spread(b->session->model->device, w->total, &grid);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_pool, x, k->inputs_plus1[0]),
                                   HYP_CUDA_SLOT(hyp_cuda_pool, y, k->outputs[0] + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_pool, places, c->out_count > 1 ? k->outputs[1] + 1 : 0)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

/* The bits of infinity in a float type of 16 or 32 bits. */
static uint32_t infinity_of(uint32_t dtype)
{
    return dtype == HYP_F32 ? 0x7f800000u : dtype == HYP_BF16 ? 0x7f80u : 0x7c00u;
}

/* Tiles along one axis, and how many windows reach one; false where windows have gaps or tiles would be too large. */
static bool plan_axis(const hyp_cuda_windows *w, int32_t a, hyp_cuda_pool_tiles *out, int64_t *out_tiles,
                      int64_t *out_windows)
{
    enum { CELLS = HYP_CUDA_POOL_CELLS, FARTHEST = 64 };
    int64_t stride = w->stride[a], back = w->before[a] - (w->kernel[a] - 1); /* from the last tap of window 0 to place 0 */
    if (w->dilation[a] != 1 || stride > FARTHEST) return false;
    int64_t first = back > 0 ? (back + stride - 1) / stride : -(-back / stride), tap = w->before[a] - first * stride;
    out->in[a] = (int32_t)w->in[a];
    out->out[a] = (int32_t)w->out[a].size;
    out->kernel[a] = (int32_t)w->kernel[a];
    out->stride[a] = (int32_t)stride;
    out->before[a] = (int32_t)w->before[a];
    out->first[a] = (int32_t)first;
    out->tap[a] = (int32_t)tap;
    *out_windows = (CELLS * stride - 1 + tap) / stride + 1;
    out->windows[a] = (int32_t)*out_windows;
    *out_tiles = (w->in[a] + CELLS * stride - 1) / (CELLS * stride);
    return true;
}

/* Whether x, whose channels lie last, is done by tiles: windows over up to two axes, 16 bytes of channels at a time. */
static bool plan_tiles(const hyp_cuda_device *device, const hyp_window *window, const hyp_cuda_windows *w,
                       const hyp_array *x, hyp_cuda_pool_tiles *out, hyp_cuda_grid *out_grid)
{
    enum { LINE = 8, ROOM = 24, MOST_ROOM = 48 << 10 }; /* a line of the cache has 8 pieces */
    int64_t per_piece = PIECE / (int64_t)hyp_dtype_size(x->dtype), pieces = x->dims[1] / per_piece;
    if (window->n > 2 || x->dims[1] % per_piece != 0 || window->kernel_count > HYP_CUDA_POOL_TAPS ||
        window->in_count > INT32_MAX / 2 / pieces || window->out_count > INT32_MAX / 2 / pieces)
        return false;
    int64_t parts = (pieces + LINE - 1) / LINE, width = (pieces + parts - 1) / parts, tiles[2], windows[2];
    *out = (hyp_cuda_pool_tiles){.dtype = x->dtype, .infinity = infinity_of(x->dtype), .pieces = (int32_t)pieces};
    for (int32_t a = 0; a < 2; a++)
        if (!plan_axis(w, a, out, &tiles[a], &windows[a])) return false;
    int64_t all = windows[0] * windows[1], places = HYP_CUDA_POOL_THREADS / width;
    if (all * width * ROOM > MOST_ROOM) return false;
    out->per_row = (uint32_t)((INT64_C(1) << 32) / windows[0] + 1);
    out->parts = hyp_cuda_extent_of(parts);
    out->across = hyp_cuda_extent_of(tiles[0]);
    out->down = hyp_cuda_extent_of(tiles[1]);
    out->tiles = x->dims[0] * tiles[1] * tiles[0] * parts;
    *out_grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_pool_gradient_tiles,
                                .blocks = hyp_cuda_blocks(device, out->tiles, 1),
                                .block_x = (uint32_t)width,
                                .block_y = (uint32_t)(places < all ? places : all),
                                .shared_bytes = (uint32_t)(all * width * ROOM)};
    return true;
}

#define GRADIENT_SLOTS(type, k)                                                                                        \
    {                                                                                                                  \
        HYP_CUDA_SLOT(type, x, hyp_plan_call_input(k, 0)), HYP_CUDA_SLOT(type, y, hyp_plan_call_input(k, 1)),          \
            HYP_CUDA_SLOT(type, g, hyp_plan_call_input(k, 2)), HYP_CUDA_SLOT(type, by_x, (k)->outputs[0] + 1)          \
    }

static hyp_status add_tiles(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_cuda_pool_tiles *args,
                            const hyp_cuda_grid *grid)
{
    const hyp_cuda_slot slots[] = GRADIENT_SLOTS(hyp_cuda_pool_tiles, k);
    return hyp_cuda_add_launch(b, grid, args, sizeof *args, slots, sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_pool_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_cuda_device *device = b->session->model->device;
    const hyp_array *x = &c->in[0];
    hyp_window window;
    HYP_TRY(hyp_kernel_read_pool_gradient(c, &window));
    if (x->count == 0) return HYP_OK;
    hyp_cuda_pool_gradient args = {.dtype = x->dtype, .out_count = window.out_count};
    /* Places are counted in 32 bits, or in 64 where that is too few. */
    bool wide = x->dtype == HYP_F64 || window.in_count > INT32_MAX || window.out_count > INT32_MAX;
    for (int32_t a = 0; a < window.n; a++)
        wide |= window.in[a] + window.before[a] + window.after[a] + window.kernel[a] * window.dilation[a] + window.stride[a] >
                INT32_MAX;
    hyp_cuda_windows *w = &args.windows;
    hyp_cuda_windows_of(&window, x, &c->in[1], w);
    w->total = x->count;
    w->x_last = w->y_last = hyp_cuda_lies_last(b, k->inputs_plus1[0] - 1);
    hyp_cuda_pool_tiles tiles;
    hyp_cuda_grid grid;
    bool tiled = w->x_last && !wide && plan_tiles(device, &window, w, x, &tiles, &grid);
    if (tiled) return add_tiles(b, k, &tiles, &grid);
    for (int32_t a = 0; a < HYP_CUDA_SPATIAL; a++) {
        args.in[a] = hyp_cuda_extent_of(w->in[a]);
        args.stride[a] = hyp_cuda_extent_of(w->stride[a]);
    }
    grid = (hyp_cuda_grid){.kernel = wide ? HYP_CUDA_KERNEL_pool_gradient_f64 : HYP_CUDA_KERNEL_pool_gradient_f32};
    hyp_cuda_spread(device, w->total, &grid);
    const hyp_cuda_slot slots[] = GRADIENT_SLOTS(hyp_cuda_pool_gradient, k);
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

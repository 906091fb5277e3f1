/* conv_tiles.c - convolutions by 3x3 with stride 1 on tiles, in f32: what a tile of 4x4 results (of 2x2) reads becomes
 * 36 (16) numbers a channel, as many products go from channels to channels, one batch of cuBLASLt's, and 36 numbers a
 * channel become 16 results: a quarter (four ninths) of the multiplications. tiles.cu has the arithmetic, and what is
 * done where it would overflow.
 *
 * Some tiles at a time, so that what is made of them and their products stay in the cache. Weights are made for it once
 * (session/tile_weights.c). Where cuBLASLt multiplies faster so, products lie with the tiles last, and for tiles of 2x2
 * what they are made of, too ("turned").
 */
#include "base/dtype.h"
#include "runtime/cuda/kernels/tiles_args.h"
#include "runtime/cuda/ops/conv.h"
#include "runtime/cuda/ops/linear.h"
#include "runtime/cuda/session/backend.h"

enum {
    TAPS = 3,          /* of a window, a side */
    CACHED = 32 << 20, /* bytes of tiles and products that stay in the cache */
#ifdef HYP_SMALL_SIZES /* tests then reach parts */
    MOST_MADE = 1 << 14,
#else
    MOST_MADE = CACHED, /* at a time */
#endif
    MOST_CHANNELS = 1 << 20,
};

/* How a convolution is cut into tiles of so many results a side. */
typedef struct cut {
    int side, places;     /* of a tile: results a side; numbers that it is multiplied as */
    bool turned;          /* products lie with the tiles last */
    int64_t down, across; /* tiles of an image */
    int64_t tiles, each;  /* of all images; at a time */
    int64_t parts;        /* times */
} cut;

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* `bytes`: of tiles and products at a time, at most. */
static cut cut_of(const hyp_conv *v, int side, bool turned, int64_t bytes)
{
    cut c = {.side = side,
             .turned = turned,
             .places = (side + TAPS - 1) * (side + TAPS - 1),
             .down = up(v->window.out[0], side),
             .across = up(v->window.out[1], side)};
    c.tiles = v->batch * c.down * c.across;
    int64_t most = bytes / ((int64_t)sizeof(float) * c.places * (v->in_channels + v->out_channels));
    c.parts = up(c.tiles, most > 1 ? most : 1);
    c.each = up(c.tiles, c.parts);
    return c;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef struct tiles {
    hyp_cuda_tiles in, out; /* arguments of both kernels */
    hyp_cuda_grid in_grid, out_grid;
    uint32_t x, weight, y, bias_plus1, added_plus1;
    int64_t parts;
    size_t products_at;    /* in the room, behind what is made of the tiles */
    hyp_cuda_op product;   /* of a part */
    hyp_cuda_model *model; /* which has the weights */
    CUdeviceptr weights;   /* 0 = none yet */
} tiles;

static void tiles_dispose(const hyp_cuda_library *lib, void *data)
{
    const tiles *p = data;
    if (p->product.dispose) p->product.dispose(lib, p->product.data);
    hyp_cuda_drop_tile_weights(p->model, p->weights);
}

static hyp_status tiles_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    tiles *p = data;
    p->in.x = p->out.x = s->at[p->x];
    p->in.made = s->room;
    p->out.products = s->room + p->products_at;
    p->out.weight = s->at[p->weight];
    p->out.bias = hyp_cuda_address(s, p->bias_plus1);
    p->out.added = hyp_cuda_address(s, p->added_plus1);
    p->out.y = s->at[p->y];
    for (int64_t part = 0; part < p->parts; part++) {
        p->in.first = p->out.first = part * p->in.room;
        HYP_TRY(hyp_cuda_launch(s, &p->in_grid, &p->in, diag));
        HYP_TRY(p->product.run(s, p->product.data, diag));
        HYP_TRY(hyp_cuda_launch(s, &p->out_grid, &p->out, diag));
    }
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

static hyp_cuda_image_steps steps_of(const int64_t *dims, bool last)
{
    const int64_t channels = dims[1], rows = dims[2], columns = dims[3];
    if (last) return (hyp_cuda_image_steps){rows * columns * channels, columns * channels, channels, 1};
    return (hyp_cuda_image_steps){channels * rows * columns, columns, 1, rows * columns};
}

static void set_arguments(const hyp_cuda_conv_step *step, const cut *c, hyp_cuda_tiles *out)
{
    const hyp_conv *v = &step->conv;
    const int64_t taps = v->window.kernel_count;
    *out = (hyp_cuda_tiles){.across = hyp_cuda_extent_of(c->across),
                            .down = hyp_cuda_extent_of(c->down),
                            .tiles = c->tiles,
                            .room = c->each,
                            .channels = v->in_channels,
                            .filters = v->out_channels,
                            .x_step = steps_of(v->x->dims, step->x_last),
                            .added_step = steps_of(v->y->dims, step->added_last),
                            .y_step = step->pool ? steps_of(step->pooled_dims, step->pooled_last)
                                                 : steps_of(v->y->dims, step->y_last),
                            .filter_step = taps * v->in_channels,
                            .tap_step = step->weight_last ? v->in_channels : 1,
                            .channel_step = step->weight_last ? 1 : taps,
                            .act = step->act};
    for (int a = 0; a < 2; a++) {
        out->in[a] = (int32_t)v->window.in[a];
        out->out[a] = (int32_t)v->window.out[a];
        out->before[a] = (int32_t)v->window.before[a];
        out->pooled[a] = step->pool ? (int32_t)step->pooled_dims[2 + a] : 0;
    }
}

static hyp_status take_weights(hyp_cuda_build *b, const hyp_cuda_conv_step *step, const cut *c, tiles *p)
{
    const hyp_conv *v = &step->conv;
    const hyp_cuda_tile_weights args = {.filters = hyp_cuda_extent_of(v->out_channels),
                                        .pairs = v->in_channels * v->out_channels,
                                        .filter_step = p->in.filter_step,
                                        .tap_step = p->in.tap_step,
                                        .channel_step = p->in.channel_step};
    p->model = b->session->model;
    return hyp_cuda_take_tile_weights(b->session, step->weight, c->side, &args, &p->weights, b->diag);
}

static bool makes_turned(const cut *c) { return c->turned && c->side == 2; }

/* The products of a part. */
static hyp_status add_products(hyp_cuda_build *b, const hyp_cuda_conv_step *step, const cut *c, const tiles *p)
{
    const hyp_conv *v = &step->conv;
    const int64_t pairs = v->in_channels * v->out_channels, numbers = c->each * v->in_channels;
    hyp_cuda_product product;
    if (c->turned) {
        hyp_cuda_product_linear(HYP_F32, false, v->out_channels, c->each, v->in_channels, makes_turned(c), &product);
        product.trans_b = true;
        product.ldb = v->out_channels;
    } else {
        hyp_cuda_product_linear(HYP_F32, false, c->each, v->out_channels, v->in_channels, true, &product);
    }
    product.batch = c->places;
    product.stride_a = c->turned ? numbers : pairs;
    product.stride_b = c->turned ? pairs : numbers;
    product.stride_d = c->each * v->out_channels;
    const hyp_cuda_operand weights = {.in = HYP_CUDA_AT_ADDRESS, .tensor = step->weight, .offset = (size_t)p->weights};
    const hyp_cuda_operand made = {.in = HYP_CUDA_IN_ROOM, .tensor = step->x};
    const hyp_cuda_operand products = {.in = HYP_CUDA_IN_ROOM, .tensor = step->y, .offset = p->products_at};
    return hyp_cuda_add_tuned(b, &product, c->turned ? &made : &weights, c->turned ? &weights : &made, &products);
}

/* The launch of a kernel for so many channels or filters of some tiles; `numbers`: of a tile, that a block turns. */
static hyp_status set_grid(hyp_cuda_build *b, hyp_cuda_kernel kernel, const cut *c, bool turned, int64_t channels,
                           int numbers, hyp_cuda_extent *out_parts, hyp_cuda_grid *out)
{
    const hyp_cuda_device *d = b->session->model->device;
    const int64_t each = turned ? HYP_CUDA_TURNED_CHANNELS : 1;
    *out_parts = hyp_cuda_extent_of(up(channels, each));
    out->kernel = kernel;
    hyp_cuda_spread(d, c->each * out_parts->size, out);
    if (turned) {
        const int floats = numbers * HYP_CUDA_TURNED_TILES * HYP_CUDA_TURNED_PITCH;
        *out = (hyp_cuda_grid){.kernel = kernel,
                               .blocks = hyp_cuda_blocks(d, up(c->each, HYP_CUDA_TURNED_TILES) * out_parts->size, 1),
                               .block_x = HYP_CUDA_TURNED_TILES * HYP_CUDA_TURNED_CHANNELS,
                               .block_y = 1,
                               .shared_bytes = (uint32_t)(floats * (int)sizeof(float))};
    }
    return hyp_cuda_need_kernel(b, kernel);
}

static hyp_status prepare(hyp_cuda_build *b, const hyp_cuda_conv_step *step, const cut *c, tiles *p)
{
    const bool small = c->side == 2;
    const hyp_cuda_kernel in = makes_turned(c) ? HYP_CUDA_KERNEL_tiles_in_turned_2
                               : small         ? HYP_CUDA_KERNEL_tiles_in_2
                                               : HYP_CUDA_KERNEL_tiles_in_4;
    const hyp_cuda_kernel out = c->turned
                                    ? (small ? HYP_CUDA_KERNEL_tiles_out_turned_2 : HYP_CUDA_KERNEL_tiles_out_turned_4)
                                : small ? HYP_CUDA_KERNEL_tiles_out_2
                                        : HYP_CUDA_KERNEL_tiles_out_4;
    size_t end = 0, at, numbers = (size_t)(c->places * c->each);
    set_arguments(step, c, &p->in);
    p->out = p->in;
    HYP_TRY(set_grid(b, in, c, makes_turned(c), step->conv.in_channels, c->places, &p->in.parts, &p->in_grid));
    HYP_TRY(set_grid(b, out, c, c->turned, step->conv.out_channels, c->side * c->side, &p->out.parts, &p->out_grid));
    if (!hyp_cuda_take_room(numbers * (size_t)p->in.channels, sizeof(float), &end, &at) ||
        !hyp_cuda_take_room(numbers * (size_t)p->in.filters, sizeof(float), &end, &p->products_at))
        return hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "the device memory that its tiles need is beyond any size");
    HYP_TRY(hyp_cuda_want_room(b, end));
    return take_weights(b, step, c, p);
}

static hyp_status add_tiles(hyp_cuda_build *b, const hyp_cuda_conv_step *step, int side, bool turned)
{
    const cut c = cut_of(&step->conv, side, turned, MOST_MADE);
    const size_t before = b->prepared->ops.len;
    if (b->program->tensors[step->weight]->place != HYP_PLAN__PLACE__PLACE_WEIGHT)
        return hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "its weights are a part of others");
    tiles *p = hyp_arena_zalloc(&b->prepared->arena, 1, sizeof *p);
    if (!p) return hyp_fail_memory(b->diag, sizeof *p);
    *p = (tiles){.x = step->x,
                 .weight = step->weight,
                 .y = step->pool ? step->pooled : step->y,
                 .bias_plus1 = step->bias_plus1,
                 .added_plus1 = step->added_plus1,
                 .parts = c.parts};
    hyp_status status = prepare(b, step, &c, p);
    if (status == HYP_OK) status = add_products(b, step, &c, p);
    if (status != HYP_OK || b->prepared->ops.len == before) {
        hyp_cuda_drop_tile_weights(p->model, p->weights);
        return status;
    }
    hyp_cuda_op *op = &b->prepared->ops.data[before];
    p->product = *op;
    op->run = tiles_run;
    op->dispose = tiles_dispose;
    op->data = p;
    return HYP_OK;
}

/* ---- the ways ------------------------------------------------------------------------------------------------ */

static bool is_three_by_three(const hyp_window *w)
{
    bool is = w->n == 2;
    for (int32_t a = 0; a < w->n; a++) is = is && w->kernel[a] == TAPS && w->stride[a] == 1 && w->dilation[a] == 1;
    return is;
}

/* Are all places of an image, and their counts, below 2^31, and weights known by less than a word? */
static bool is_small(const hyp_conv *v)
{
    const hyp_window *w = &v->window;
    bool small = v->in_channels < MOST_CHANNELS && v->out_channels < MOST_CHANNELS &&
                 v->x->count / v->batch <= INT32_MAX && v->y->count / v->batch <= INT32_MAX;
    for (int32_t a = 0; a < w->n; a++) small = small && w->before[a] <= TAPS;
    return small;
}

static const char *cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    const HypPlan__Program *p = b->program;
    if (!hyp_cuda_is_strict(step)) return "its type has fewer digits than sums on tiles lose";
    if (v->group != 1) return "it has groups";
    if (!is_three_by_three(&v->window)) return "its window is not 3x3 with stride 1 and no gaps";
    if (step->computes_weights) return "a run computes its weights";
    if (step->added_plus1 && step->added_last != step->y_last && hyp_plan_same_slot(p, step->added_plus1 - 1, step->y))
        return "what is added to it lies in another order in the same place";
    return v->x->count > 0 && is_small(v) ? NULL : "its sizes are out of range";
}

/* What of the time of products they take turned (H100, 13.1). cuBLASLt's kernel for products as they lie otherwise has
 * blocks of 64 x 64, of which the device runs four a multiprocessor at a time: few more than that leave most of it idle
 * at the end, and fewer than multiprocessors, of long sums, always. */
static double share_turned(const hyp_conv *v, const cut *c)
{
    const int64_t multiprocessors = 132, side = 64, full = 4 * multiprocessors, deep = 256;
    const int64_t blocks = c->places * up(c->each, side) * up(v->out_channels, side);
    const bool tail = blocks > full && blocks <= full + multiprocessors && 2 * v->in_channels >= deep;
    const bool few = blocks <= multiprocessors && 2 * c->each > side && v->in_channels >= deep;
    return tail || few ? 0.75 : 1.1;
}

/* As measured (H100): both kernels take so much however little they do, and move what is made and the products at the
 * rate of the cache, much more slowly where a channel's numbers lie apart; so does cuBLASLt, or it multiplies at half
 * of what it reaches in large products, and weights come from memory. */
static double seconds(const hyp_cuda_conv_step *step, int side, bool turned)
{
    const double cache = 4e12, memory = 3e12, rate = 3.1e13, product = 3e-6;
    const double kernel = side == 2 ? 2e-6 : 2.9e-6, size = sizeof(float);
    const hyp_conv *v = &step->conv;
    const cut c = cut_of(v, side, turned, CACHED);
    const double in = (double)v->in_channels, out = (double)v->out_channels, numbers = (double)c.tiles * c.places;
    const double made = numbers * in * size, products = numbers * out * size, weights = c.places * in * out * size;
    const bool x_last = step->x_last || hyp_cuda_one_order(v->x), y_last = step->y_last || hyp_cuda_one_order(v->y);
    const double moving = (made * (x_last ? 1 : 6) + products * (y_last ? 1 : 8)) / cache; /* a sector for a number */
    const double multiplying = 2 * numbers * in * out / rate * (turned ? share_turned(v, &c) : 1);
    const double passing = (made + products) / cache;
    return (double)c.parts * (2 * kernel + product + weights / memory) + moving +
           (multiplying > passing ? multiplying : passing);
}

#define WAY(name, shown, side, turned)                                                                                 \
    static double seconds_of_##name(const hyp_cuda_conv_step *step, double floor)                                      \
    {                                                                                                                  \
        (void)floor;                                                                                                   \
        return seconds(step, side, turned);                                                                            \
    }                                                                                                                  \
    static hyp_status add_way_##name(hyp_cuda_build *b, const hyp_cuda_conv_step *step)                                \
    {                                                                                                                  \
        return add_tiles(b, step, side, turned);                                                                       \
    }                                                                                                                  \
    const hyp_cuda_conv_way hyp_cuda_conv_##name = {shown, cannot, seconds_of_##name, add_way_##name, true};

WAY(tiles, "tiles", 4, false)
WAY(small_tiles, "small tiles", 2, false)
WAY(turned_tiles, "tiles, turned", 4, true)
WAY(small_turned_tiles, "small tiles, turned", 2, true)

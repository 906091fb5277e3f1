/* conv_product.c - convolutions with the channels last as products: filters of one element are a layer of the channels,
 * other windows are written out first, as rows in the session's room.
 *
 * cuBLASLt has better kernels than cuDNN's for few places with many channels, splits long sums, adds every bias, and is
 * tuned; and it is there where cuDNN is not.
 */
#include "base/dtype.h"
#include "runtime/cuda/ops/conv.h"
#include "runtime/cuda/ops/gemm_problem.h"
#include "runtime/cuda/session/backend.h"

enum {
    PIECE = 16,        /* bytes; rows of x, of the weights and of y begin at multiples of them */
#ifdef HYP_SMALL_SIZES /* tests then reach parts */
    MOST_UNFOLDED = 1 << 10,
#else
    MOST_UNFOLDED = 32 << 20, /* bytes of windows at a time: what stays in the cache */
#endif
    MOST_NARROW = 16 << 20, /* of 16 bits in all, beyond which cuDNN is better (H200) */
    MOST_IMAGE = 256 << 20, /* of one image */
};

/* A product of windows: some images at a time are written out, and multiplied. */
typedef struct unfolded {
    hyp_cuda_unfold args;
    hyp_cuda_grid grid;
    uint32_t x, y, added_plus1;
    int64_t parts;
    size_t x_step, y_step; /* bytes between parts; what is added lies as y does */
    hyp_cuda_op product;   /* of one part */
} unfolded;

static void unfolded_dispose(const hyp_cuda_library *lib, void *data)
{
    const unfolded *p = data;
    if (p->product.dispose) p->product.dispose(lib, p->product.data);
}

/* The product finds a part of y where it looks for y. */
static hyp_status run_part(hyp_cuda_session *s, unfolded *p, CUdeviceptr y, CUdeviceptr added, size_t part,
                           hyp_diag *diag)
{
    p->args.x = s->at[p->x] + part * p->x_step;
    p->args.y = s->room;
    HYP_TRY(hyp_cuda_launch(s, &p->grid, &p->args, diag));
    s->at[p->y] = y + part * p->y_step;
    if (p->added_plus1) s->at[p->added_plus1 - 1] = added + part * p->y_step;
    hyp_status status = p->product.run(s, p->product.data, diag);
    s->at[p->y] = y;
    if (p->added_plus1) s->at[p->added_plus1 - 1] = added;
    return status;
}

static hyp_status unfolded_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    unfolded *p = data;
    CUdeviceptr y = s->at[p->y], added = hyp_cuda_address(s, p->added_plus1);
    for (int64_t part = 0; part < p->parts; part++) HYP_TRY(run_part(s, p, y, added, (size_t)part, diag));
    return HYP_OK;
}

/* Makes of a product of `images` images at a time one of all of them, after windows are written out. */
static hyp_status unfold(hyp_cuda_build *b, const hyp_cuda_conv_step *step, hyp_cuda_op *product, int64_t images)
{
    const hyp_conv *v = &step->conv;
    hyp_cuda_session *s = b->session;
    size_t size = hyp_dtype_size(step->dtype), parts = (size_t)(v->batch / images);
    int64_t pieces = v->in_channels * (int64_t)size / PIECE, places = images * v->window.out_count;
    size_t bytes = (size_t)(places * v->window.kernel_count * pieces) * PIECE;
    HYP_TRY(hyp_cuda_want_room(b, bytes));
    unfolded *p = hyp_arena_zalloc(&b->prepared->arena, 1, sizeof *p);
    if (!p) return hyp_fail_memory(b->diag, sizeof *p);
    *p = (unfolded){.grid = {.kernel = HYP_CUDA_KERNEL_unfold},
                    .x = step->x,
                    .y = step->y,
                    .added_plus1 = step->added_plus1,
                    .parts = v->batch / images,
                    .x_step = (size_t)v->x->count * size / parts,
                    .y_step = (size_t)v->y->count * size / parts,
                    .product = *product};
    hyp_cuda_windows *w = &p->args.windows;
    hyp_cuda_windows_of(&v->window, v->x, v->y, w);
    w->channels = hyp_cuda_extent_of(pieces);
    w->x_last = w->y_last = true;
    w->total = places * pieces;
    hyp_cuda_spread(s->model->device, w->total, &p->grid);
    product->run = unfolded_run;
    product->dispose = unfolded_dispose;
    product->data = p;
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* Does every result see one place of x, the same as its own? */
static bool is_layer(const hyp_window *w)
{
    bool same = w->kernel_count == 1;
    for (int32_t a = 0; a < w->n; a++)
        same = same && w->stride[a] == 1 && w->before[a] == 0 && w->after[a] == 0 && w->in[a] == w->out[a];
    return same;
}

/* Do x, y and what is added lie with the channels last, in rows that cuBLASLt likes? */
static bool is_suited(const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    int64_t size = (int64_t)hyp_dtype_size(step->dtype), filters = v->out_channels;
    bool y_last = step->y_last || hyp_cuda_one_order(v->y), added_last = step->added_last || hyp_cuda_one_order(v->y);
    return step->weight_last && v->group == 1 && (step->x_last || hyp_cuda_one_order(v->x)) && y_last &&
           (!step->added_plus1 || added_last) && v->x->count > 0 && v->in_channels * size % PIECE == 0 &&
           filters * size % PIECE == 0;
}

/* What takes all windows at once, in bytes. */
static double bytes_of_windows(const hyp_conv *v, hyp_dtype dtype)
{
    return (double)v->batch * (double)v->in_channels * (double)hyp_dtype_size(dtype) * (double)v->window.kernel_count *
           (double)v->window.out_count;
}

/* How many images to write out at a time, a divisor of all of them. */
static int64_t images_at_a_time(const hyp_conv *v, hyp_dtype dtype)
{
    int64_t images = v->batch;
    double bytes = bytes_of_windows(v, dtype) / (double)images;
    while (images > 1 && (v->batch % images != 0 || (double)images * bytes > MOST_UNFOLDED)) images--;
    return images;
}

static const char *any_cannot(const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    if (v->group != 1) return "it has groups";
    if (!is_suited(step)) return "its channels do not come last, in multiples of 16 bytes";
    bool small = v->batch * v->window.out_count <= INT32_MAX && v->in_channels * v->window.kernel_count <= INT32_MAX;
    return small ? NULL : "its sizes are out of range";
}

static const char *product_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    (void)b;
    return is_layer(&step->conv.window) ? any_cannot(step) : "its filters are no layer of the channels";
}

static double product_seconds(const hyp_cuda_conv_step *step, double floor)
{
    (void)step;
    return hyp_cuda_library_seconds + floor;
}

static const char *unfolded_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    (void)b;
    if (is_layer(&v->window)) return "it is a layer of the channels";
    if (bytes_of_windows(v, step->dtype) / (double)v->batch > MOST_IMAGE) return "the windows of an image take too much";
    return any_cannot(step);
}

/* As much as cuDNN takes where the windows take so many bytes; in TF32 always less. In strict f32 as measured (H100):
 * 64 channels of 56x56 take 19 us, 256 of 56x56 102 us, 64 of 224x224 148 us. */
static double unfolded_seconds(const hyp_cuda_conv_step *step, double floor)
{
    const double least = 9e-6, term = 1e-9, cache = 2.2e12;
    const hyp_conv *v = &step->conv;
    if (hyp_cuda_is_strict(step)) {
        double depth = (double)(v->window.kernel_count * v->in_channels);
        return least + term * depth + 1.15 * floor + bytes_of_windows(v, step->dtype) / cache;
    }
    double share = step->dtype == HYP_F32 ? 0 : bytes_of_windows(&step->conv, step->dtype) / MOST_NARROW;
    return hyp_cuda_library_seconds * (1 + share) + floor;
}

/* The product of `images` images at a time, and what is left to do. */
static hyp_status add_product(hyp_cuda_build *b, const hyp_cuda_conv_step *step, int64_t images)
{
    const hyp_conv *v = &step->conv;
    int64_t places = v->batch * v->window.out_count, depth = v->in_channels * v->window.kernel_count;
    bool layer = is_layer(&v->window);
    hyp_cuda_product product;
    hyp_cuda_product_linear(step->dtype, hyp_cuda_is_tf32(b->program), places / v->batch * images, v->out_channels,
                            depth, step->weight_kn, &product);
    const hyp_cuda_rest rest = {
        .bias_plus1 = step->bias_plus1, .before_plus1 = step->added_plus1, .act = hyp_plan_op_act((HypPlan__Pointwise__Op)step->act)};
    size_t at = b->prepared->ops.len;
    HYP_TRY(hyp_cuda_add_rows(b, &product, step->weight, layer ? step->x + 1 : 0, step->y, places, &rest));
    if (!layer) HYP_TRY(unfold(b, step, &b->prepared->ops.data[at], images));
    if (step->act != HYP_PW_CLIP) return HYP_OK;
    b->clipped_plus1 = step->y + 1;
    b->clipped_at = b->prepared->ops.len;
    return hyp_cuda_add_channels(b, step->y, places, v->out_channels, 1, 0, HYP_PLAN__POINTWISE__OP__CLIP, 0, 6);
}

static hyp_status add_layer(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    return add_product(b, step, step->conv.batch);
}

static hyp_status add_unfolded(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    return add_product(b, step, images_at_a_time(&step->conv, step->dtype));
}

const hyp_cuda_conv_way hyp_cuda_conv_product = {"product", product_cannot, product_seconds, add_layer, false};
const hyp_cuda_conv_way hyp_cuda_conv_unfolded = {"unfolded", unfolded_cannot, unfolded_seconds, add_unfolded, false};

/* conv_product.c - convolutions with the channels last as products: filters of one element are a layer of the channels,
 * other windows are written out first, as rows in the session's room.
 *
 * cuBLASLt has better kernels than cuDNN's for few places with many channels, splits long sums, adds every bias, and is
 * tuned; and it is there where cuDNN is not.
 */
#include "base/dtype.h"
#include "runtime/cuda/backend_cuda.h"
#include "runtime/cuda/conv.h"
#include "runtime/cuda/product.h"

enum {
    PIECE = 16, /* bytes; rows of x, of the weights and of y begin at multiples of them */
    MOST_UNFOLDED = 16 << 20, /* bytes of windows, where cuDNN is the alternative: what stays in the cache */
    MOST_ALONE = 256 << 20,   /* and where it is not there */
};

typedef struct unfold {
    hyp_cuda_unfold args;
    hyp_cuda_grid grid;
    uint32_t x;
} unfold;

static hyp_status unfold_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    unfold *p = data;
    p->args.x = s->at[p->x];
    p->args.y = s->room;
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static hyp_status add_unfold(hyp_cuda_build *b, const hyp_cuda_conv_step *step, int64_t places, size_t bytes)
{
    enum { THREADS = 256 };
    const hyp_conv *v = &step->conv;
    hyp_cuda_session *s = b->session;
    int64_t pieces = v->in_channels * (int64_t)hyp_dtype_size(step->dtype) / PIECE;
    void *data;
    HYP_TRY(hyp_cuda_grow(s, &s->room, &s->room_bytes, bytes, "convolutions", b->diag));
    HYP_TRY(hyp_cuda_add_op(b, unfold_run, sizeof(unfold), &data));
    unfold *p = data;
    *p = (unfold){.grid = {.kernel = HYP_CUDA_KERNEL_unfold, .block_x = THREADS, .block_y = 1}, .x = step->x};
    hyp_cuda_windows *w = &p->args.windows;
    hyp_cuda_windows_of(&v->window, v->x, v->y, w);
    w->channels = hyp_cuda_extent_of(pieces);
    w->x_last = w->y_last = true;
    w->total = places * pieces;
    p->grid.blocks = hyp_cuda_blocks(s->model->device, w->total, THREADS);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

static HypPlan__Act act_of(uint32_t act)
{
    switch (act) {
    case HYP_PW_RELU: return HYP_PLAN__ACT__ACT_RELU;
    case HYP_PW_SIGMOID: return HYP_PLAN__ACT__ACT_SIGMOID;
    case HYP_PW_TANH: return HYP_PLAN__ACT__ACT_TANH;
    case HYP_PW_SILU: return HYP_PLAN__ACT__ACT_SILU;
    case HYP_PW_HARD_SWISH: return HYP_PLAN__ACT__ACT_HARD_SWISH;
    case HYP_PW_MISH: return HYP_PLAN__ACT__ACT_MISH;
    default: return HYP_PLAN__ACT__ACT_NONE;
    }
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

hyp_status hyp_cuda_add_conv_product(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool *out_done)
{
    const hyp_conv *v = &step->conv;
    const hyp_cuda_session *s = b->session;
    int64_t places = v->batch * v->window.out_count, depth = v->in_channels * v->window.kernel_count, bytes;
    bool layer = is_layer(&v->window), tf32 = hyp_cuda_is_tf32(b->program), clips = step->act == HYP_PW_CLIP;
    *out_done = false;
    if (!is_suited(step) || !hyp_mul_i64(places, depth * (int64_t)hyp_dtype_size(step->dtype), &bytes)) return HYP_OK;
    if (!layer && bytes > (s->dnn ? MOST_UNFOLDED : MOST_ALONE)) return HYP_OK;
    if (places > INT32_MAX || depth > INT32_MAX) return HYP_OK;
    hyp_cuda_product product;
    hyp_cuda_product_linear(step->dtype, tf32, places, v->out_channels, depth, false, &product);
    const hyp_cuda_rest rest = {
        .bias_plus1 = step->bias_plus1, .before_plus1 = step->added_plus1, .act = act_of(step->act)};
    if (!layer) HYP_TRY(add_unfold(b, step, places, (size_t)bytes));
    HYP_TRY(hyp_cuda_add_rows(b, &product, step->weight, layer ? step->x + 1 : 0, step->y, &rest));
    *out_done = true;
    if (!clips) return HYP_OK;
    return hyp_cuda_add_channels(b, step->y, places, v->out_channels, 1, 0, HYP_PLAN__POINTWISE__OP__CLIP, 0, 6);
}

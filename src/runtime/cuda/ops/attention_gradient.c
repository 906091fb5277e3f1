/* attention_gradient.c - attention-gradient in bf16: a kernel by queries, then one by keys and values. */
#include "kernels/attention.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_attention_gradient;

enum { BY_QUERIES, BY_KEYS, LAUNCHES };
enum { WIDEST = 64 }; /* head */

typedef struct attention_gradient {
    hyp_cuda_attention_gradient args;
    hyp_cuda_grid grids[LAUNCHES];
    uint32_t q, k, v, y, g, mask_plus1, by_q, by_k, by_v;
} attention_gradient;

static hyp_status gradient_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    attention_gradient *p = data;
    hyp_cuda_attention_gradient *a = &p->args;
    a->attention.q.data = s->at[p->q];
    a->attention.k.data = s->at[p->k];
    a->attention.v.data = s->at[p->v];
    a->attention.y.data = s->at[p->y];
    a->attention.mask.data = hyp_cuda_address(s, p->mask_plus1);
    a->g.data = s->at[p->g];
    a->by_q.data = s->at[p->by_q];
    a->by_k.data = s->at[p->by_k];
    a->by_v.data = s->at[p->by_v];
    a->stats = s->room;
    for (int i = 0; i < LAUNCHES; i++) HYP_TRY(hyp_cuda_launch(s, &p->grids[i], a, diag));
    return HYP_OK;
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

/* `size` bytes an element. */
static hyp_cuda_matrix matrix_of(const hyp_attention_matrix *m, int64_t columns, size_t size)
{
    uint64_t steps = (uint64_t)(m->row | columns | m->batch | m->head);
    return (hyp_cuda_matrix){.row = m->row, .column = 1, .vector = steps * size % HYP_CUDA_MIN_ALIGN == 0};
}

static void place_operands(hyp_cuda_attention_gradient *p, const hyp_attention_gradient *s, size_t size)
{
    enum { Q, K, V, MASK, Y, PLACED }; /* as kernels number them */
    hyp_cuda_attention *a = &p->attention;
    const hyp_attention_matrix *const from[PLACED] = {&s->q, &s->k, &s->v, &s->mask, &s->y};
    a->q = p->by_q = matrix_of(&s->q, s->width, size);
    a->k = p->by_k = matrix_of(&s->k, s->width, size);
    a->v = p->by_v = matrix_of(&s->v, s->columns, size);
    a->y = p->g = matrix_of(&s->y, s->columns, size);
    a->mask = (hyp_cuda_matrix){.row = s->mask.row, .column = s->mask_column};
    a->rank = 2;
    a->batch[0] = hyp_cuda_extent_of(s->heads);
    a->batch[1] = hyp_cuda_extent_of(s->batch);
    for (int lane = 0; lane < PLACED; lane++) {
        a->stride[lane][0] = from[lane]->head;
        a->stride[lane][1] = from[lane]->batch;
    }
}

/* Six tiles of bf16, what makes probabilities of the scores of two, and what a mask does to those of one. */
static size_t tile_bytes(const hyp_cuda_attention *a)
{
    enum { SPAN = HYP_CUDA_ATTENTION_ROWS, TILES = 6, STATS = 4 };
    bool shifts = a->masked != HYP_CUDA_MASK_NONE || a->keys % HYP_CUDA_ATTENTION_KEYS != 0;
    size_t rows = !shifts ? 0 : a->shift_step ? SPAN : 1;
    return (size_t)(TILES * SPAN * WIDEST) * 2 + (STATS * SPAN + rows * HYP_CUDA_SHIFT_STEP) * sizeof(float);
}

static hyp_status use_tiles(hyp_cuda_build *b, attention_gradient *p, int64_t matrices)
{
    static const hyp_cuda_kernel kernels[LAUNCHES] = {HYP_CUDA_KERNEL_attention_by_queries_bf16_64,
                                                      HYP_CUDA_KERNEL_attention_by_keys_bf16_64};
    enum { SPAN = HYP_CUDA_ATTENTION_ROWS, STAT_BYTES = 2 * sizeof(float) };
    const hyp_cuda_device *d = b->session->model->device;
    hyp_cuda_attention *a = &p->args.attention;
    size_t bytes = tile_bytes(a), of_stats;
    if (d->sm < 80 || a->width > WIDEST || a->columns > WIDEST || bytes > d->shared_bytes)
        return hyp_fail(
            b->diag, HYP_ERR_UNSUPPORTED,
            "attention-gradient over heads of %lld and %lld elements: up to 64 are wanted, and a GPU of compute "
            "capability 8.0 with %zu bytes of shared memory; run the plan on the CPU (--device cpu)",
            (long long)a->width, (long long)a->columns, bytes);
    a->blocks = hyp_cuda_extent_of((a->rows + SPAN - 1) / SPAN);
    a->total = matrices * a->blocks.size;
    p->args.key_blocks = hyp_cuda_extent_of((a->keys + SPAN - 1) / SPAN);
    p->args.key_total = matrices * p->args.key_blocks.size;
    for (int i = 0; i < LAUNCHES; i++) {
        int64_t total = i == BY_QUERIES ? a->total : p->args.key_total;
        p->grids[i] = (hyp_cuda_grid){.kernel = kernels[i],
                                      .blocks = (uint32_t)(total < INT32_MAX ? total : INT32_MAX),
                                      .block_x = HYP_CUDA_ATTENTION_THREADS,
                                      .block_y = 1,
                                      .alone = total > d->multiprocessors,
                                      .shared_bytes = (uint32_t)bytes};
        HYP_TRY(hyp_cuda_need_kernel(b, p->grids[i].kernel));
    }
    if (!hyp_mul_size((size_t)(matrices * a->rows), STAT_BYTES, &of_stats))
        return hyp_fail(b->diag, HYP_ERR_LIMIT, "the device memory that these shapes need is beyond any size");
    return hyp_cuda_want_room(b, of_stats);
}

hyp_status hyp_cuda_add_attention_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_attention_gradient s;
    HYP_TRY(hyp_kernel_attention_gradient_read(c, &s));
    int64_t matrices = s.batch * s.heads;
    const hyp_array *mask = hyp_kernel_input(c, HYP_ATTENTION_MASK);
    if (matrices * s.rows * s.columns == 0 || s.keys == 0) { /* no gradient comes in, or nothing was looked at */
        for (int i = 0; i < 3; i++)
            if (c->out[i].count > 0)
                HYP_TRY(hyp_cuda_add_zero(b, k->outputs[i], (size_t)c->out[i].count * hyp_dtype_size(c->out[i].dtype)));
        return HYP_OK;
    }
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, gradient_run, sizeof(attention_gradient), &data));
    attention_gradient *p = data;
    hyp_cuda_attention *a = &p->args.attention;
    a->rows = s.rows, a->keys = a->first_keys = s.keys, a->width = s.width, a->columns = s.columns;
    place_operands(&p->args, &s, hyp_dtype_size(c->in[0].dtype));
    hyp_cuda_set_scores(a, mask ? mask->dtype : HYP_DTYPE_NONE, !s.hidden, s.scale, s.fill);
    p->args.slope = s.scale;
    uint32_t *const inputs[] = {&p->q, &p->k, &p->v, &p->y, &p->g};
    for (uint32_t i = 0; i < 5; i++) *inputs[i] = hyp_plan_call_input(k, i) - 1;
    p->mask_plus1 = hyp_plan_call_input(k, HYP_ATTENTION_MASK);
    p->by_q = k->outputs[0], p->by_k = k->outputs[1], p->by_v = k->outputs[2];
    return use_tiles(b, p, matrices);
}

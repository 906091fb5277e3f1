/* attention-gradient in f32: a thread has a head, a block of whose rows at a time has its scores, and what comes of
 * them, in the cache between five products by our own kernel. */
#include "kernels/attention.h"
#include "runtime/cpu/cpu.h"

enum { SCORES, BY_P, BY_Q, BY_K, BY_V, PRODUCTS };
enum { ALIGN = 16 }; /* floats of 64 bytes */

typedef struct gradient {
    hyp_attention_gradient of;
    int64_t block, stride; /* rows of a block; floats from row to row of what has a column for each key */
    size_t each;           /* floats of such a block, at a multiple of 64 bytes */
    size_t floats;         /* of work for a thread: of two blocks, and what products need */
} gradient;

/* The matrices of one block. */
typedef struct block_run {
    const gradient *s;
    const hyp_cpu_run *run;
    const float *q, *k, *v, *y, *g;
    const char *mask; /* of the first row; NULL: there is none */
    float *by_q, *by_k, *by_v;
    float *p, *by_p; /* probabilities and, in the end, scaled gradients by scores */
    float *floats;   /* of products */
    int64_t rows;
} block_run;

/* Product i of so many rows, where `more` of what is a sum over rows has been added up before. */
static hyp_cpu_gemm product_of(const gradient *s, int i, int64_t rows, bool more)
{
    const hyp_attention_gradient *a = &s->of;
    hyp_cpu_gemm g = {.dtype = HYP_F32, .act = HYP_PLAN__ACT__ACT_NONE};
    if (i == SCORES || i == BY_P) { /* q k^T, g v^T */
        g.trans_b = true;
        g.m = rows, g.n = a->keys, g.c_ld = s->stride;
        g.k = i == SCORES ? a->width : a->columns;
        g.a_ld = i == SCORES ? a->q.row : a->y.row;
        g.b_ld = i == SCORES ? a->k.row : a->v.row;
    } else if (i == BY_Q) {
        g.m = rows, g.n = a->width, g.k = a->keys;
        g.a_ld = s->stride, g.b_ld = a->k.row, g.c_ld = a->q.row;
    } else { /* of the transposed gradients by scores with q, of the transposed probabilities with g */
        g.trans_a = true;
        g.accumulate = more;
        g.m = a->keys, g.n = i == BY_K ? a->width : a->columns, g.k = rows;
        g.a_ld = s->stride;
        g.b_ld = i == BY_K ? a->q.row : a->y.row;
        g.c_ld = i == BY_K ? a->k.row : a->v.row;
    }
    return g;
}

static void multiply(const block_run *r, int i, bool more, const float *a, const float *b, float *c)
{
    hyp_cpu_gemm g = product_of(r->s, i, r->rows, more);
    hyp_cpu_run_gemm(r->run, &g, a, b, NULL, c, r->floats);
}

/* Scores become probabilities, and gradients by these such by the scores. */
static void finish_rows(const block_run *r)
{
    const hyp_attention_gradient *a = &r->s->of;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    float scale = (float)a->scale;
    for (int64_t i = 0; i < r->rows; i++) {
        float *p = r->p + i * r->s->stride, *by_p = r->by_p + i * r->s->stride, along = 0;
        const float *y = r->y + i * a->y.row, *g = r->g + i * a->y.row;
        const char *mask = r->mask ? r->mask + i * a->mask.row * (a->hides ? 1 : (int64_t)sizeof(float)) : NULL;
        for (int64_t j = 0; j < a->keys; j++) p[j] *= scale;
        if (mask && a->hides)
            kernels->hide(p, (const uint8_t *)mask, a->mask_column, !a->hidden, (float)a->fill, a->keys);
        else if (mask)
            kernels->shift(p, (const float *)(const void *)mask, a->mask_column, a->keys);
        kernels->softmax(p, p, 1, a->keys, 1);
        for (int64_t l = 0; l < a->columns; l++) along += y[l] * g[l];
        for (int64_t j = 0; j < a->keys; j++) by_p[j] = scale * p[j] * (by_p[j] - along);
        if (mask && a->hides) kernels->hide(by_p, (const uint8_t *)mask, a->mask_column, !a->hidden, 0, a->keys);
    }
}

static void run_block(block_run *r, bool more)
{
    multiply(r, SCORES, false, r->q, r->k, r->p);
    multiply(r, BY_P, false, r->g, r->v, r->by_p);
    finish_rows(r);
    multiply(r, BY_Q, false, r->by_p, r->k, r->by_q);
    multiply(r, BY_K, more, r->by_p, r->q, r->by_k);
    multiply(r, BY_V, more, r->p, r->g, r->by_v);
}

typedef struct gradient_run {
    const gradient *s;
    const hyp_cpu_run *run;
    const float *in[HYP_ATTENTION_MASK];
    const char *mask;
    float *out[3];
} gradient_run;

static void run_heads(void *state, int64_t begin, int64_t end, int thread)
{
    const gradient_run *t = state;
    const gradient *s = t->s;
    const hyp_attention_gradient *a = &s->of;
    hyp_cpu_run alone = *t->run;
    alone.threads = 1;
    block_run r = {.s = s, .run = &alone, .p = (float *)alone.call.work + (size_t)thread * s->floats};
    r.by_p = r.p + s->each;
    r.floats = r.by_p + s->each;
    for (int64_t m = begin; m < end; m++)
        for (int64_t first = 0; first < a->rows; first += s->block) {
            int64_t batch = m / a->heads, head = m % a->heads;
            int64_t q = hyp_attention_at(&a->q, batch, head) + first * a->q.row,
                    k = hyp_attention_at(&a->k, batch, head);
            int64_t y = hyp_attention_at(&a->y, batch, head) + first * a->y.row,
                    v = hyp_attention_at(&a->v, batch, head);
            int64_t at = hyp_attention_at(&a->mask, batch, head) + first * a->mask.row;
            r.rows = a->rows - first < s->block ? a->rows - first : s->block;
            r.q = t->in[HYP_ATTENTION_Q] + q, r.k = t->in[HYP_ATTENTION_K] + k, r.v = t->in[HYP_ATTENTION_V] + v;
            r.y = t->in[HYP_ATTENTION_Y] + y, r.g = t->in[HYP_ATTENTION_G] + y;
            r.mask = t->mask ? t->mask + at * (a->hides ? 1 : (int64_t)sizeof(float)) : NULL;
            r.by_q = t->out[0] + q, r.by_k = t->out[1] + k, r.by_v = t->out[2] + v;
            run_block(&r, first > 0);
        }
}

static hyp_status run_gradient(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Call *call = op->step->call;
    const gradient *s = op->state;
    gradient_run r = {.s = s, .run = run, .mask = hyp_cpu_call_input(run, call, HYP_ATTENTION_MASK)};
    for (uint32_t i = 0; i < HYP_ATTENTION_MASK; i++) r.in[i] = hyp_cpu_call_input(run, call, i);
    for (uint32_t i = 0; i < 3; i++) r.out[i] = run->call.at[call->outputs[i]];
    hyp_cpu_parallel(run, s->of.batch * s->of.heads, hyp_cpu_grain(HYP_CPU_COMPUTED, s->of.rows * s->of.keys),
                     run_heads, &r);
    return HYP_OK;
}

/* ---- preparing ---------------------------------------------------------------------------------------------- */

/* False for what the plain kernel computes, of other types or of nothing, or refuses. */
static bool read_gradient(const hyp_kernel_call *c, gradient *s)
{
    hyp_attention_gradient *a = &s->of;
    return c->in[0].dtype == HYP_F32 && hyp_kernel_attention_gradient_read(c, a) == HYP_OK && a->batch * a->heads > 0 &&
           a->rows > 0 && a->keys > 0 && a->width > 0 && a->columns > 0;
}

/* Rows of a block leave what has a column for each key in the second-level cache. */
static bool find_sizes(gradient *s, int threads, size_t *out_bytes)
{
    enum { CACHED = 1 << 16, FEWEST = 32 };
    const hyp_attention_gradient *a = &s->of;
    size_t most = 0, floats;
    int64_t fitting = CACHED / a->keys < FEWEST ? FEWEST : CACHED / a->keys;
    s->block = a->rows < fitting ? a->rows : fitting;
    s->stride = (a->keys + ALIGN - 1) / ALIGN * ALIGN;
    for (int i = 0; i < PRODUCTS; i++) {
        hyp_cpu_gemm g = product_of(s, i, s->block, false);
        if (!hyp_cpu_gemm_floats(&g, &floats)) return false;
        if (floats > most) most = floats;
    }
    return hyp_mul_size((size_t)s->block, (size_t)s->stride, &s->each) && hyp_mul_size(s->each, 2, &floats) &&
           hyp_add_size(floats, most + ALIGN - 1, &floats) &&
           hyp_mul_size(s->floats = floats / ALIGN * ALIGN, sizeof(float), &floats) &&
           hyp_mul_size(floats, (size_t)threads, out_bytes);
}

hyp_status hyp_cpu_prepare_attention_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                              const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    (void)step, (void)channels_last;
    hyp_call_arguments a;
    hyp_diag unfit = {0};
    gradient s = {0};
    size_t bytes;
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, op->step->call,
                            &unfit, &a);
    if (!read_gradient(&a.call, &s)) return HYP_OK;
    if (!find_sizes(&s, op->threads, &bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    op->work_bytes = bytes;
    return hyp_cpu_keep_state(op, run_gradient, &s, sizeof s, diag);
}

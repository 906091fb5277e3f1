/* Attention: a block of rows at a time, its scores in the cache between two products of oneDNN, blocks of all heads
 * on all threads. Every product is of one block, so oneDNN needs no threads for it and no more memory than was planned.
 */
#include "plan/box_walk.h"
#include "runtime/cpu/dnnl_memory.h"

enum { Q, K, V, Y, MASK, OPERANDS };
enum { SRC, WEIGHTS, DST, SCRATCH, ARGUMENTS };

/* One product of a block, shared by the threads. */
typedef struct product {
    dnnl_primitive_t primitive;
    size_t scratch_bytes;
    hyp_md md[ARGUMENTS];
} product;

/* scores = scale q k^T and y = probabilities v. */
enum { SCORE, MIX, PRODUCTS };

/* What a thread needs for itself: the arguments of the products. */
typedef struct worker {
    dnnl_memory_t memory[2][PRODUCTS][ARGUMENTS]; /* for a whole block, for the last one; NULL: no scratch memory */
    dnnl_status_t status;                         /* of the first product that failed in this run */
} worker;

typedef struct attention {
    hyp_walk walk; /* over the batch; lanes in the order of the operands */
    uint32_t tensors[OPERANDS];
    int64_t q_row, y_row, mask_row, mask_column;
    int64_t matrices, rows, keys;
    int64_t block, blocks, score_stride; /* rows of a block, blocks of a matrix, floats from row to row of the scores */
    int64_t grain;                       /* blocks that are worth a thread */
    bool masked, hides, shown;           /* there is a mask; it is of bools; they are true for what is seen */
    bool plain;                          /* scores are weights as they are */
    float fill;
    size_t scratch_bytes; /* of oneDNN, for each thread */
    size_t worker_bytes;  /* of work, for each thread: the scores of a block, then that */
    product products[2][PRODUCTS];
    int worker_count;
    worker workers[];
} attention;

static void destroy(void *opaque)
{
    attention *s = opaque;
    for (int tail = 0; tail < 2; tail++)
        for (int p = 0; p < PRODUCTS; p++) {
            if (s->products[tail][p].primitive) dnnl_primitive_destroy(s->products[tail][p].primitive);
            for (int a = 0; a < ARGUMENTS; a++) hyp_md_destroy(s->products[tail][p].md[a]);
        }
    for (int w = 0; w < s->worker_count; w++) {
        for (int m = 0; m < 2 * PRODUCTS * ARGUMENTS; m++) {
            dnnl_memory_t memory =
                s->workers[w].memory[m / (PRODUCTS * ARGUMENTS)][m / ARGUMENTS % PRODUCTS][m % ARGUMENTS];
            if (memory) dnnl_memory_destroy(memory);
        }
    }
    hyp_free(s);
}

/* ---- running ------------------------------------------------------------------------------------------------ */

typedef struct attention_run {
    attention *s;
    const hyp_cpu_run *run;
} attention_run;

static void multiply(const attention_run *r, int thread, int tail, int p, const void *src, const void *weights,
                     void *dst, void *scratch)
{
    worker *w = &r->s->workers[thread];
    static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    void *const data[] = {(void *)(uintptr_t)src, (void *)(uintptr_t)weights, dst, scratch};
    dnnl_exec_arg_t args[ARGUMENTS];
    int count = 0;
    for (int a = 0; a < ARGUMENTS; a++) {
        dnnl_memory_t memory = w->memory[tail][p][a];
        if (!memory) continue;
        dnnl_memory_set_data_handle(memory, data[a]);
        args[count++] = (dnnl_exec_arg_t){names[a], memory};
    }
    dnnl_status_t status = hyp_dnnl_execute(r->run, thread, r->s->products[tail][p].primitive, count, args);
    if (w->status == dnnl_success) w->status = status;
}

/* Probabilities in place of the scores of `rows` rows, the first of them row `first` of its matrix. */
static void attend(const attention_run *r, float *scores, int64_t first, int64_t rows, int64_t mask_offset)
{
    const attention *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    const char *mask = s->masked ? r->run->call.at[s->tensors[MASK]] : NULL;
    for (int64_t i = 0; i < rows; i++) {
        float *row = scores + i * s->score_stride;
        int64_t at = mask_offset + (first + i) * s->mask_row;
        if (s->hides)
            kernels->hide(row, (const uint8_t *)mask + at, s->mask_column, s->shown, s->fill, s->keys);
        else if (mask)
            kernels->shift(row, (const float *)(const void *)mask + at, s->mask_column, s->keys);
        kernels->softmax(row, row, 1, s->keys, 1);
    }
}

static void attend_blocks(void *state, int64_t begin, int64_t end, int thread)
{
    const attention_run *r = state;
    attention *s = r->s;
    char *work = (char *)r->run->call.work + (size_t)thread * s->worker_bytes;
    float *scores = (float *)(void *)work, *at[OPERANDS];
    void *scratch = work + (s->worker_bytes - s->scratch_bytes);
    for (int o = Q; o <= Y; o++) at[o] = r->run->call.at[s->tensors[o]];
    hyp_walk walk = s->walk;
    hyp_walk_seek(&walk, begin / s->blocks);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % s->blocks * s->block, rows = s->rows - first;
        int tail = rows < s->block;
        if (!tail) rows = s->block;
        multiply(r, thread, tail, SCORE, at[Q] + walk.offset[Q] + first * s->q_row, at[K] + walk.offset[K], scores,
                 scratch);
        if (!s->plain) attend(r, scores, first, rows, s->masked ? walk.offset[MASK] : 0);
        multiply(r, thread, tail, MIX, scores, at[V] + walk.offset[V], at[Y] + walk.offset[Y] + first * s->y_row,
                 scratch);
        if (first + rows == s->rows) hyp_walk_next(&walk);
    }
}

static hyp_status run_attention(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    attention *s = op->state;
    attention_run r = {s, run};
    for (int w = 0; w < s->worker_count; w++) s->workers[w].status = dnnl_success;
    hyp_cpu_parallel(run, s->matrices * s->blocks, s->grain, attend_blocks, &r);
    for (int w = 0; w < s->worker_count; w++)
        if (s->workers[w].status != dnnl_success) return hyp_dnnl_fail(diag, s->workers[w].status, "attention");
    return HYP_OK;
}

/* ---- preparing ---------------------------------------------------------------------------------------------- */

/* Rows of a block: as many as leave its scores in the second-level cache with room for k and v, fewer where there would
 * be too few blocks for the threads, all of a matrix nearly of one size. Measured: docs/runtime-cpu.md. */
static void choose_blocks(attention *s, int threads)
{
    enum { SCORES = 1 << 16, FEWEST = 32, FOR_EACH_THREAD = 4 };
    int64_t most = SCORES / s->keys, blocks;
    if (most < FEWEST) most = FEWEST;
    blocks = (s->rows + most - 1) / most;
    if (threads > 1)
        while (s->matrices * blocks < FOR_EACH_THREAD * threads && s->rows / blocks > 2 * FEWEST) blocks++;
    s->block = (s->rows + blocks - 1) / blocks;
    s->blocks = (s->rows + s->block - 1) / s->block;
}

/* An operand's matrix. The stride of an axis of one element says nothing; oneDNN wants one of the two to be 1. */
static hyp_md matrix(const HypPlan__Attention__Operand *o, const int64_t *values, int64_t rows, int64_t columns,
                     bool transposed)
{
    int64_t row = values[o->strides[o->n_strides - 2]], column = values[o->strides[o->n_strides - 1]];
    if (columns == 1) column = 1;
    if (rows == 1) row = column == 1 ? columns : 1;
    int64_t dims[2] = {transposed ? columns : rows, transposed ? rows : columns};
    int64_t strides[2] = {transposed ? column : row, transposed ? row : column};
    return hyp_md_create(2, dims, dnnl_f32, strides);
}

/* False when oneDNN has none. Takes over the descriptions in p->md. */
static hyp_status make_product(const hyp_dnnl *d, float alpha, product *p, bool *out_made, hyp_diag *diag)
{
    const hyp_dnnl_post post = {.alpha = alpha};
    dnnl_primitive_desc_t pd = NULL;
    *out_made = false;
    if (p->md[SRC] && p->md[WEIGHTS] && p->md[DST])
        pd = hyp_dnnl_matmul(hyp_dnnl_engine(d), p->md[SRC], p->md[WEIGHTS], NULL, p->md[DST], &post);
    if (!pd) return HYP_OK;
    hyp_md_ref scratch = hyp_dnnl_query(pd, dnnl_query_scratchpad_md);
    p->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    if (p->scratch_bytes) p->md[SCRATCH] = hyp_md_clone(scratch);
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    *out_made = status == dnnl_success;
    return *out_made ? HYP_OK : hyp_dnnl_fail(diag, status, "making a product");
}

static hyp_status make_products(const hyp_dnnl *d, const HypPlan__Attention *k, const int64_t *values, attention *s,
                                bool *out_made, hyp_diag *diag)
{
    int64_t width = values[k->width], columns = values[k->columns];
    for (int tail = 0; tail < 2; tail++) {
        int64_t rows = tail ? s->rows % s->block : s->block;
        int64_t dims[2] = {rows, s->keys}, strides[2] = {s->score_stride, 1};
        product *score = &s->products[tail][SCORE], *mix = &s->products[tail][MIX];
        if (rows == 0) break;
        *score = (product){.md = {matrix(k->q, values, rows, width, false), matrix(k->k, values, s->keys, width, true),
                                  hyp_md_create(2, dims, dnnl_f32, strides), NULL}};
        *mix =
            (product){.md = {hyp_md_create(2, dims, dnnl_f32, strides), matrix(k->v, values, s->keys, columns, false),
                             matrix(k->y, values, rows, columns, false), NULL}};
        HYP_TRY(make_product(d, k->scale, score, out_made, diag));
        if (*out_made) HYP_TRY(make_product(d, 1, mix, out_made, diag));
        if (!*out_made) return HYP_OK;
        for (int p = 0; p < PRODUCTS; p++)
            if (s->products[tail][p].scratch_bytes > s->scratch_bytes)
                s->scratch_bytes = s->products[tail][p].scratch_bytes;
    }
    return HYP_OK;
}

static hyp_status make_worker(const hyp_dnnl *d, const attention *s, worker *w, hyp_diag *diag)
{
    dnnl_engine_t engine = hyp_dnnl_engine(d);
    dnnl_status_t status = dnnl_success;
    for (int tail = 0; tail < 2; tail++)
        for (int p = 0; p < PRODUCTS; p++)
            for (int a = 0; a < ARGUMENTS && status == dnnl_success; a++) {
                hyp_md_ref md = s->products[tail][p].md[a];
                if (md) status = dnnl_memory_create(&w->memory[tail][p][a], md, engine, DNNL_MEMORY_NONE);
            }
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "describing memory");
}

static void read_operands(const HypPlan__Attention *k, const int64_t *values, attention *s)
{
    const HypPlan__Attention__Operand *operands[] = {k->q, k->k, k->v, k->y, k->mask};
    hyp_walk_init(&s->walk, values, k->batch, k->n_batch);
    for (int o = 0; o < OPERANDS; o++) {
        if (!operands[o]) continue;
        s->tensors[o] = operands[o]->tensor;
        hyp_walk_lane(&s->walk, values, operands[o]->strides, values[operands[o]->offset]);
    }
    s->matrices = hyp_walk_count(&s->walk);
    s->rows = values[k->rows];
    s->keys = values[k->keys];
    s->q_row = values[k->q->strides[k->n_batch]];
    s->y_row = values[k->y->strides[k->n_batch]];
    s->masked = k->mask != NULL;
    s->fill = k->fill;
    s->shown = k->shown;
    s->plain = k->plain;
    if (!k->mask) return;
    s->mask_row = values[k->mask->strides[k->n_batch]];
    s->mask_column = values[k->mask->strides[k->n_batch + 1]];
}

static hyp_status prepare(hyp_cpu_model *model, const HypPlan__Attention *k, const int64_t *values, attention *s,
                          bool *out_made, hyp_diag *diag)
{
    enum { LINE = 16, FLOPS = 500000 }; /* floats of a cache line; what is worth waking a thread for */
    const hyp_dnnl *d = model->device->dnnl;
    size_t bytes;
    read_operands(k, values, s);
    s->hides = k->mask && hyp_tensor_dtype(model->plan->program, k->mask->tensor) == HYP_BOOL;
    choose_blocks(s, s->worker_count);
    s->score_stride = (s->keys + LINE - 1) / LINE * LINE;
    s->grain = hyp_cpu_grain(FLOPS, 2 * s->block * s->keys * (values[k->width] + values[k->columns]));
    HYP_TRY(make_products(d, k, values, s, out_made, diag));
    for (int w = 0; w < s->worker_count && *out_made; w++) HYP_TRY(make_worker(d, s, &s->workers[w], diag));
    s->scratch_bytes = (s->scratch_bytes + 63) / 64 * 64;
    if (!hyp_mul_size((size_t)s->block, (size_t)s->score_stride * sizeof(float), &bytes) ||
        !hyp_add_size(bytes, s->scratch_bytes, &s->worker_bytes) ||
        !hyp_mul_size(s->worker_bytes, (size_t)s->worker_count, &bytes))
        return hyp_fail_memory(diag, SIZE_MAX);
    return HYP_OK;
}

hyp_status hyp_dnnl_prepare_attention(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
    const HypPlan__Attention *k = op->step->attention;
    int threads = op->threads;
    size_t bytes = sizeof(attention) + (size_t)threads * sizeof(worker);
    attention *s = hyp_calloc(1, bytes);
    bool made = false;
    if (!s) return hyp_fail_memory(diag, bytes);
    s->worker_count = threads;
    hyp_status status = prepare(model, k, values, s, &made, diag);
    if (status != HYP_OK || !made) {
        destroy(s);
        return status;
    }
    op->run = run_attention;
    op->destroy = destroy;
    op->state = s;
    op->work_bytes = s->worker_bytes * (size_t)threads;
    return HYP_OK;
}

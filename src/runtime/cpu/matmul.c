/* matmul.c - products of two tensors of a run in f32 by the kernel of layers: the right matrix becomes panels, by which
 * blocks of rows of the left one go. For matrices so small that calls of a library take longer than what they compute, and
 * for machines without one.
 */
#include "plan/box_walk.h"
#include "runtime/cpu/panels.h"

enum { A, B };

typedef struct matmul {
    hyp_walk walk; /* over the batch: lanes A and B */
    int64_t m, n, k;
    int64_t block, blocks; /* rows of a block, blocks of a matrix */
    int64_t rows, sums, floats; /* where rows that were turned and sums to scale begin behind a thread's panels; all of it */
    bool trans_a, trans_b;
    float alpha;
    float bias[]; /* zeros */
} matmul;

typedef struct matmul_run {
    const matmul *s;
    const hyp_cpu_run *run;
    const float *a, *b;
    float *y;
} matmul_run;

static void pack_matrix(const matmul_run *r, const hyp_walk *walk, float *panels)
{
    const matmul *s = r->s;
    const hyp_panels_part part = {.from = r->b + walk->offset[B],
                                  .column_end = s->n,
                                  .column_step = s->trans_b ? s->k : 1,
                                  .depth_end = s->k,
                                  .depth_step = s->trans_b ? 1 : s->n};
    hyp_panels_pack(r->run->kernels, &part, s->n, s->k, panels);
}

/* Rows from `first` on of the matrix whose panels are at `work`, to y. */
static void multiply_rows(const matmul_run *r, const hyp_walk *walk, int64_t first, int64_t rows, float *work, float *y)
{
    const matmul *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    const hyp_block_instr nothing = {.op = HYP_PLAN__POINTWISE__OP__CAST, .to = HYP_F32};
    const hyp_mlp_layer layer = {.n = s->n, .k = s->k, .weights = work, .bias = s->bias, .act = nothing};
    const float *a = r->a + walk->offset[A] + (s->trans_a ? first : first * s->k);
    if (s->trans_a) {
        kernels->transpose(a, s->k, rows, s->m, work + s->rows, s->k);
        a = work + s->rows;
    }
    float *sums = s->alpha == 1 ? y : work + s->sums;
    hyp_panels_multiply(kernels, &layer, rows, a, s->k, sums, s->n);
    if (sums != y) kernels->combine((const float *const[]){sums}, &s->alpha, 1, rows * s->n, y);
}

static void multiply_blocks(void *state, int64_t begin, int64_t end, int thread)
{
    const matmul_run *r = state;
    const matmul *s = r->s;
    float *work = (float *)r->run->call.work + thread * s->floats;
    hyp_walk walk = s->walk;
    hyp_walk_seek(&walk, begin / s->blocks);
    hyp_panels_clear_rest(r->run->kernels, s->n, s->k, work); /* stays so for all matrices */
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % s->blocks * s->block, left = s->m - first;
        if (i == begin || first == 0) pack_matrix(r, &walk, work);
        float *y = r->y + (i / s->blocks * s->m + first) * s->n;
        multiply_rows(r, &walk, first, left < s->block ? left : s->block, work, y);
        if (left <= s->block) hyp_walk_next(&walk);
    }
}

static hyp_status run_matmul(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    enum { FLOPS = 500000 }; /* what is worth waking a thread for */
    const matmul *s = op->state;
    const HypPlan__Matmul *k = op->step->matmul;
    matmul_run r = {s, run, run->call.at[k->a], run->call.at[k->b], run->call.at[k->y]};
    (void)diag;
    hyp_cpu_parallel(run, hyp_walk_count(&s->walk) * s->blocks, hyp_cpu_grain(FLOPS, 2 * s->block * s->n * s->k),
                     multiply_blocks, &r);
    return HYP_OK;
}

/* What a thread has. False: too much. */
static bool lay_out(matmul *s)
{
    const int64_t most = INT64_MAX / 16 / HYP_MLP_ROWS; /* far from overflow, as sums of a few such products */
    int64_t columns = hyp_panels_lines(s->n), panels;
    if (s->n > most || s->k > most || !hyp_mul_i64(columns, s->k, &panels) || panels > most) return false;
    s->rows = panels;
    s->sums = hyp_panels_lines(s->rows + (s->trans_a ? s->block * s->k : 0));
    s->floats = hyp_panels_lines(s->sums + (s->alpha == 1 ? 0 : s->block * s->n));
    return true;
}

hyp_status hyp_cpu_prepare_matmul(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
    const HypPlan__Matmul *k = op->step->matmul;
    const int64_t m = values[k->m], n = values[k->n];
    size_t floats, bytes;
    if (m < 1 || n < 1 || values[k->k] < 1) return HYP_OK;
    floats = (size_t)n + HYP_PANELS_LINE;
    if (floats > SIZE_MAX / 2 / sizeof(float)) return HYP_OK;
    matmul *s = hyp_calloc(1, sizeof *s + floats * sizeof(float));
    if (!s) return hyp_fail_memory(diag, floats * sizeof(float));
    s->m = m;
    s->n = n;
    s->k = values[k->k];
    s->blocks = (m + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS;
    s->block = (m + s->blocks - 1) / s->blocks;
    s->blocks = (m + s->block - 1) / s->block;
    s->trans_a = k->trans_a;
    s->trans_b = k->trans_b;
    s->alpha = k->alpha;
    hyp_walk_init(&s->walk, values, k->batch, k->n_batch);
    hyp_walk_lane(&s->walk, values, k->a_strides, 0);
    hyp_walk_lane(&s->walk, values, k->b_strides, 0);
    bool can = lay_out(s) && hyp_mul_size((size_t)s->floats * sizeof(float), (size_t)model->device->threads, &bytes);
    if (can) op->work_bytes = bytes;
    return hyp_cpu_finish_op(op, HYP_OK, can, run_matmul, hyp_free, s);
}

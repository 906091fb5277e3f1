/* attention.c - attention in f32 by the kernel of layers: k, turned, and v of a matrix become panels, then each block of its rows
 * becomes scores, probabilities and results, which stay in the cache. For matrices so small that calls of a library take longer
 * than what they compute, and for keys in two parts.
 *
 * Scores have whole vectors of keys: those beyond the last are -infinity, which the exponential makes 0.
 */
#include <math.h>

#include "plan/box_walk.h"
#include "runtime/cpu/panels.h"

enum { Q, K, V, Y, MASK, MORE_K, MORE_V, OPERANDS };

typedef struct operand {
    uint32_t tensor;
    int64_t row, column; /* floats from one to the next */
    bool there;
} operand;

typedef struct attention {
    hyp_walk walk; /* over the batch; lanes in the order of the operands */
    operand operands[OPERANDS];
    int64_t matrices, rows, keys, first_keys, width, columns;
    int64_t block, blocks; /* rows of a block, blocks of a matrix */
    bool hides, shown;     /* the mask is of bools; they are true for what is seen */
    bool plain;            /* scores are weights as they are */
    float scale, fill;
    int64_t panels_v, q, scores, y, floats; /* where these begin in the work space of a thread, behind the panels of k; its size */
    float bias[];                           /* of scores and of results: zeros */
} attention;

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef struct attention_run {
    const attention *s;
    const hyp_cpu_run *run;
} attention_run;

/* Where an operand of the matrix that the walk is at begins. */
static float *begin_of(const attention_run *r, const hyp_walk *walk, int o)
{
    return (float *)r->run->call.at[r->s->operands[o].tensor] + walk->offset[o];
}

static void pack_matrix(const attention_run *r, const hyp_walk *walk, float *work)
{
    const attention *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    for (int more = 0; more < 2; more++) {
        const operand *k = &s->operands[more ? MORE_K : K], *v = &s->operands[more ? MORE_V : V];
        int64_t begin = more ? s->first_keys : 0, end = more ? s->keys : s->first_keys;
        if (begin == end) continue;
        const hyp_panels_part of_k = {begin_of(r, walk, more ? MORE_K : K), begin, end, k->row, 0, s->width, k->column};
        const hyp_panels_part of_v = {begin_of(r, walk, more ? MORE_V : V), 0, s->columns, v->column, begin, end, v->row};
        hyp_panels_pack(kernels, &of_k, s->keys, s->width, work);
        hyp_panels_pack(kernels, &of_v, s->columns, s->keys, work + s->panels_v);
    }
}

/* Rows of q times the scale: [rows, width] */
static void scale_rows(const attention *s, const hyp_cpu_kernels *kernels, const float *q, int64_t rows, float *out)
{
    const operand *o = &s->operands[Q];
    for (int64_t i = 0; i < rows; i++, q += o->row, out += s->width) {
        if (o->column == 1)
            kernels->combine(&q, &s->scale, 1, s->width, out);
        else
            for (int64_t j = 0; j < s->width; j++) out[j] = q[j * o->column] * s->scale;
    }
}

static void mask_row(const attention_run *r, const hyp_walk *walk, int64_t row, float *scores)
{
    const attention *s = r->s;
    const operand *o = &s->operands[MASK];
    const void *mask = r->run->call.at[o->tensor];
    int64_t at = walk->offset[MASK] + row * o->row;
    if (s->hides)
        r->run->kernels->hide(scores, (const uint8_t *)mask + at, o->column, s->shown, s->fill, s->keys);
    else
        r->run->kernels->shift(scores, (const float *)mask + at, o->column, s->keys);
}

/* Rows from `first` on of the matrix whose panels are at `work`. */
static void attend(const attention_run *r, const hyp_walk *walk, int64_t first, int64_t rows, float *work)
{
    const attention *s = r->s;
    const hyp_cpu_kernels *kernels = r->run->kernels;
    const hyp_block_instr nothing = {.op = HYP_PLAN__POINTWISE__OP__CAST, .to = HYP_F32};
    const int64_t stride = hyp_panels_lines(s->keys);
    const hyp_mlp_layer by_keys = {
        .n = hyp_panels_vectors(kernels, s->keys), .k = s->width, .weights = work, .bias = s->bias, .act = nothing};
    const hyp_mlp_layer by_columns = {
        .n = s->columns, .k = s->keys, .weights = work + s->panels_v, .bias = s->bias, .act = nothing};
    const operand *o = &s->operands[Y];
    float *scores = work + s->scores, *y = begin_of(r, walk, Y) + first * o->row;
    scale_rows(s, kernels, begin_of(r, walk, Q) + first * s->operands[Q].row, rows, work + s->q);
    hyp_panels_multiply(kernels, &by_keys, rows, work + s->q, s->width, scores, stride);
    for (int64_t i = 0; i < rows && !s->plain; i++) {
        float *row = scores + i * stride;
        for (int64_t j = s->keys; j < stride; j++) row[j] = -INFINITY;
        if (s->operands[MASK].there) mask_row(r, walk, first + i, row);
    }
    if (!s->plain) kernels->softmax(scores, scores, rows, stride, 1);
    if (o->column == 1) {
        hyp_panels_multiply(kernels, &by_columns, rows, scores, stride, y, o->row);
        return;
    }
    hyp_panels_multiply(kernels, &by_columns, rows, scores, stride, work + s->y, s->columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < s->columns; j++) y[i * o->row + j * o->column] = work[s->y + i * s->columns + j];
}

static void attend_blocks(void *state, int64_t begin, int64_t end, int thread)
{
    const attention_run *r = state;
    const attention *s = r->s;
    float *work = (float *)r->run->call.work + thread * s->floats;
    hyp_walk walk = s->walk;
    hyp_walk_seek(&walk, begin / s->blocks);
    hyp_panels_clear_rest(r->run->kernels, s->keys, s->width, work); /* stays so for all matrices */
    hyp_panels_clear_rest(r->run->kernels, s->columns, s->keys, work + s->panels_v);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % s->blocks * s->block, left = s->rows - first;
        if (i == begin || first == 0) pack_matrix(r, &walk, work);
        attend(r, &walk, first, left < s->block ? left : s->block, work);
        if (left <= s->block) hyp_walk_next(&walk);
    }
}

static hyp_status run_attention(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    enum { FLOPS = 500000 }; /* what is worth waking a thread for */
    const attention *s = op->state;
    attention_run r = {s, run};
    (void)diag;
    hyp_cpu_parallel(run, s->matrices * s->blocks, hyp_cpu_grain(FLOPS, 2 * s->block * s->keys * (s->width + s->columns)),
                     attend_blocks, &r);
    return HYP_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* The stride of an axis of one element says nothing: 1 of a column, which is what kernels are fast for. */
static void read_operands(const HypPlan__Attention *k, const int64_t *values, attention *s)
{
    const HypPlan__Attention__Operand *given[OPERANDS] = {k->q, k->k, k->v, k->y, k->mask, k->more_k, k->more_v};
    const int64_t columns[OPERANDS] = {s->width, s->width, s->columns, s->columns, s->keys, s->width, s->columns};
    hyp_walk_init(&s->walk, values, k->batch, k->n_batch);
    for (int i = 0; i < OPERANDS; i++) {
        const HypPlan__Attention__Operand *o = given[i] ? given[i] : k->q; /* any: it is not looked at */
        s->operands[i] = (operand){o->tensor, values[o->strides[k->n_batch]], values[o->strides[k->n_batch + 1]], given[i] != NULL};
        if (columns[i] == 1) s->operands[i].column = 1;
        hyp_walk_lane(&s->walk, values, o->strides, values[o->offset]);
    }
    s->matrices = hyp_walk_count(&s->walk);
}

/* What a thread has: panels of k and v, scaled rows of q, scores, and results where they do not lie together. False: too much. */
static bool lay_out(attention *s)
{
    const int64_t most = INT64_MAX / 16 / HYP_MLP_ROWS; /* far from overflow, as sums of a few such products */
    int64_t keys = hyp_panels_lines(s->keys), columns = hyp_panels_lines(s->columns), of_k, of_v, of_rows;
    if (!hyp_mul_i64(keys, s->width, &of_k) || !hyp_mul_i64(columns, s->keys, &of_v) || of_k > most || of_v > most ||
        s->width > most || keys > most)
        return false;
    s->panels_v = of_k;
    s->q = s->panels_v + of_v;
    s->scores = hyp_panels_lines(s->q + s->block * s->width);
    of_rows = s->block * (keys + columns);
    s->y = s->scores + s->block * keys;
    s->floats = hyp_panels_lines(s->scores + of_rows);
    return true;
}

hyp_status hyp_cpu_prepare_attention(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
    const HypPlan__Attention *k = op->step->attention;
    const int64_t keys = values[k->keys], columns = values[k->columns], rows = values[k->rows];
    size_t floats, bytes;
    if (rows < 1 || keys < 1 || columns < 1 || values[k->width] < 1) return HYP_OK;
    floats = (size_t)(keys > columns ? keys : columns) + HYP_PANELS_LINE;
    if (floats > SIZE_MAX / 2 / sizeof(float)) return HYP_OK;
    attention *s = hyp_calloc(1, sizeof *s + floats * sizeof(float));
    if (!s) return hyp_fail_memory(diag, floats * sizeof(float));
    s->rows = rows;
    s->keys = keys;
    s->columns = columns;
    s->width = values[k->width];
    s->first_keys = k->more_k ? values[k->first_keys] : keys;
    s->blocks = (rows + HYP_MLP_ROWS - 1) / HYP_MLP_ROWS;
    s->block = (rows + s->blocks - 1) / s->blocks;
    s->blocks = (rows + s->block - 1) / s->block;
    s->scale = k->scale;
    s->fill = k->fill;
    s->shown = k->shown;
    s->plain = k->plain;
    s->hides = k->mask && hyp_tensor_dtype(model->plan->program, k->mask->tensor) == HYP_BOOL;
    read_operands(k, values, s);
    bool can = lay_out(s) && hyp_mul_size((size_t)s->floats * sizeof(float), (size_t)model->device->threads, &bytes);
    if (can) op->work_bytes = bytes;
    return hyp_cpu_finish_op(op, HYP_OK, can, run_attention, hyp_free, s);
}

/* nn.c - the steps of hypatia/nn.h on a CPU: a product each, by oneDNN with the activation as a post-operation or by
 * our own kernel, and loops over rows for what a product cannot end in. Types without fast products are widened to f32
 * and back. */
#include "runtime/nn/nn.h"

#include <stdio.h>

#include "base/dtype.h"
#include "runtime/cpu/cpu.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#endif

enum { A, B, BIAS, C, OPERANDS };

/* A step that was prepared. */
typedef struct entry {
    hyp_nn_step step;           /* first: hyp_nn_find */
    hyp_cpu_gemm gemm, done_as; /* done_as: in f32 where it widens */
    hyp_cpu_op op;              /* of oneDNN; op.run NULL: our own kernel does it */
    bool widens;                /* the product is in f32, the operands are not */
    size_t at[OPERANDS];        /* floats of scratch memory: where operands are that are widened, */
    size_t rest;                /* and what the product needs besides */
} entry;

typedef struct state {
    hyp_cpu_device *device;
    void **streams; /* of oneDNN */
    HYP_VEC(entry) entries;
    size_t last, oldest; /* entry that was found last; that goes next */
    void *workspace, *scratch;
    size_t workspace_bytes, scratch_bytes;
} state;

/* ---- handles ------------------------------------------------------------------------------------------------- */

static void dispose(entry *e)
{
    if (e->op.destroy) e->op.destroy(e->op.state);
}

static void nn_close(void *opaque)
{
    state *s = opaque;
    for (size_t i = 0; i < s->entries.len; i++) dispose(&s->entries.data[i]);
    hyp_vec_free(&s->entries);
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_streams_destroy(s->streams);
#endif
    hyp_aligned_free(s->workspace);
    hyp_aligned_free(s->scratch);
    hyp_free(s);
}

static hyp_status nn_open(void *device, void *stream, void **out, hyp_diag *diag)
{
    if (stream) return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "a stream was given, and a CPU has none");
    state *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->device = device;
    hyp_status status = HYP_OK;
#ifdef HYP_HAVE_ONEDNN
    status = hyp_dnnl_streams_create(s->device->dnnl, s->device->threads, &s->streams, diag);
#endif
    hyp_pool_expect(s->device->pool, s->device->threads);
    if (status == HYP_OK)
        *out = s;
    else
        nn_close(s);
    return status;
}

static hyp_status begin(void *opaque, void *stream, size_t workspace, void **out, hyp_diag *diag)
{
    state *s = opaque;
    if (stream) return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "options->stream is set, and a CPU has no streams");
    HYP_TRY(hyp_nn_grow(&s->workspace, &s->workspace_bytes, workspace, diag));
    if (s->device->threads > 1) hyp_pool_begin_run(s->device->pool);
    *out = s->workspace;
    return HYP_OK;
}

static hyp_status end(void *opaque, hyp_status status, hyp_diag *diag)
{
    const state *s = opaque;
    (void)diag;
    if (s->device->threads > 1) hyp_pool_end_run(s->device->pool);
    return status;
}

static hyp_cpu_run run_of(const state *s)
{
    return (hyp_cpu_run){
        .device = s->device, .kernels = s->device->kernels, .streams = s->streams, .threads = s->device->threads};
}

/* ---- products ------------------------------------------------------------------------------------------------ */

static hyp_cpu_gemm gemm_of(const hyp_nn_step *s)
{
    hyp_cpu_gemm g = {.dtype = (hyp_dtype)s->dtype, .act = HYP_PLAN__ACT__ACT_NONE, .accumulate = s->add};
    if (s->kind == HYP_NN_FORWARD) {
        g.m = s->rows, g.n = s->out, g.k = s->in;
        g.a_ld = s->x_ld, g.b_ld = s->in, g.c_ld = hyp_nn_keeps_sums(s) ? hyp_nn_hidden_ld(s->out) : s->y_ld;
        g.trans_b = true;
        g.bias = s->bias;
        if (!hyp_nn_keeps_sums(s)) g.act = hyp_nn_plan_act(s->act);
    } else if (s->kind == HYP_NN_DGRAD) {
        g.m = s->rows, g.n = s->in, g.k = s->out;
        g.a_ld = s->y_ld, g.b_ld = s->in, g.c_ld = s->x_ld;
    } else {
        g.m = s->out, g.n = s->in, g.k = s->rows;
        g.a_ld = s->y_ld, g.b_ld = s->x_ld, g.c_ld = s->in;
        g.trans_a = true;
    }
    return g;
}

/* A matrix as it is stored. */
typedef struct stored {
    int64_t rows, columns, ld;
} stored;

static stored stored_as(const hyp_cpu_gemm *g, int operand)
{
    switch (operand) {
    case A: return g->trans_a ? (stored){g->k, g->m, g->a_ld} : (stored){g->m, g->k, g->a_ld};
    case B: return g->trans_b ? (stored){g->n, g->k, g->b_ld} : (stored){g->k, g->n, g->b_ld};
    case BIAS: return (stored){g->bias, g->n, g->n};
    default: return (stored){g->m, g->n, g->c_ld};
    }
}

/* Places for operands in f32, rows without gaps. */
static bool widen(entry *e)
{
    enum { LANES = 16 };
    for (int i = 0; i < OPERANDS; i++) {
        stored m = stored_as(&e->gemm, i);
        size_t floats;
        e->at[i] = e->rest;
        if (!hyp_mul_size((size_t)m.rows, (size_t)m.columns, &floats) ||
            !hyp_add_size(floats / LANES * LANES + LANES, e->rest, &e->rest))
            return false;
    }
    hyp_cpu_gemm *wide = &e->done_as;
    wide->dtype = HYP_F32;
    wide->a_ld = stored_as(wide, A).columns;
    wide->b_ld = stored_as(wide, B).columns;
    wide->c_ld = wide->n;
    return e->widens = true;
}

static bool has_fast(const state *s, hyp_dtype dtype)
{
    if (dtype == HYP_F32) return true;
#ifdef HYP_HAVE_ONEDNN
    return hyp_dnnl_has(s->device->dnnl, dtype);
#else
    (void)s;
    return false;
#endif
}

static hyp_status make(state *s, const hyp_nn_step *step, entry *out, hyp_diag *diag)
{
    const hyp_cpu_gemm gemm = gemm_of(step);
    *out = (entry){.gemm = gemm, .done_as = gemm, .op = {.threads = s->device->threads}};
    memcpy(&out->step, step, sizeof *step);
    if (!has_fast(s, gemm.dtype) && !widen(out)) return hyp_fail_memory(diag, SIZE_MAX);
#ifdef HYP_HAVE_ONEDNN
    HYP_TRY(hyp_dnnl_prepare_gemm(s->device->dnnl, &out->done_as, &out->op, diag));
    if (!out->op.run && out->done_as.dtype != HYP_F32) { /* not in this form */
        if (!widen(out)) return hyp_fail_memory(diag, SIZE_MAX);
        HYP_TRY(hyp_dnnl_prepare_gemm(s->device->dnnl, &out->done_as, &out->op, diag));
    }
#endif
    size_t floats = out->op.work_bytes / sizeof(float) + 1, bytes;
    if (!out->op.run && !hyp_cpu_gemm_floats(&out->done_as, &floats)) floats = SIZE_MAX;
    if (!hyp_add_size(floats, out->rest, &bytes) || !hyp_mul_size(bytes, sizeof(float), &bytes)) bytes = SIZE_MAX / 2;
    hyp_status status = hyp_nn_grow(&s->scratch, &s->scratch_bytes, bytes, diag);
    if (status != HYP_OK) dispose(out);
    return status;
}

static hyp_status find(state *s, const hyp_nn_step *step, const entry **out, hyp_diag *diag)
{
    size_t at = hyp_nn_find(s->entries.data, sizeof(entry), s->entries.len, &s->last, step);
    if (at == SIZE_MAX) {
        entry made;
        bool full = s->entries.len >= HYP_NN_REMEMBERED;
        if (!full) HYP_TRY(hyp_vec_reserve(&s->entries, s->entries.len + 1, diag));
        HYP_TRY(make(s, step, &made, diag));
        at = hyp_nn_place(&s->entries.len, &s->oldest);
        if (full) dispose(&s->entries.data[at]);
        s->entries.data[at] = made;
    }
    *out = &s->entries.data[at];
    return HYP_OK;
}

static hyp_status prepare(void *opaque, const hyp_nn_step *step, hyp_diag *diag)
{
    const entry *unused;
    return hyp_nn_has_product(step) ? find(opaque, step, &unused, diag) : HYP_OK;
}

/* Rows of a matrix to f32 without gaps, or back. */
typedef struct conversion {
    const hyp_cpu_kernels *kernels;
    hyp_dtype dtype;
    stored matrix;
    char *narrow;
    float *wide;
    bool back;
} conversion;

static void convert_part(void *opaque, int64_t first, int64_t last, int thread)
{
    const conversion *c = opaque;
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        char *narrow = c->narrow + (size_t)(i * c->matrix.ld) * hyp_dtype_size(c->dtype);
        float *wide = c->wide + i * c->matrix.columns;
        if (c->back)
            c->kernels->narrow(c->dtype, wide, narrow, c->matrix.columns);
        else
            c->kernels->widen(c->dtype, narrow, wide, c->matrix.columns);
    }
}

static void convert(const hyp_cpu_run *run, const entry *e, int operand, void *narrow, float *scratch, bool back)
{
    conversion c = {run->kernels, e->gemm.dtype, stored_as(&e->gemm, operand), narrow, scratch + e->at[operand], back};
    hyp_cpu_parallel(run, c.matrix.rows, hyp_cpu_grain(HYP_CPU_MOVED, c.matrix.columns), convert_part, &c);
}

static hyp_status multiply(const state *s, const entry *e, void *const *operands, hyp_diag *diag)
{
    hyp_cpu_run run = run_of(s);
    float *scratch = s->scratch;
    void *at[OPERANDS];
    memcpy(at, operands, sizeof at);
    for (int i = 0; i < OPERANDS && e->widens; i++) {
        at[i] = i == BIAS && !e->gemm.bias ? NULL : scratch + e->at[i];
        if (at[i] && (i < C || e->gemm.accumulate)) convert(&run, e, i, operands[i], scratch, false);
    }
    run.call.at = at;
    run.call.work = scratch + e->rest;
    if (e->op.run)
        HYP_TRY(e->op.run(&e->op, &run, diag));
    else
        hyp_cpu_run_gemm(&run, &e->done_as, at[A], at[B], at[BIAS], at[C], run.call.work);
    if (e->widens) convert(&run, e, C, operands[C], scratch, true);
    return HYP_OK;
}

/* ---- activations --------------------------------------------------------------------------------------------- */

/* Rows of an activation, or of its gradient; from and to may be the same matrix. */
typedef struct rows_job {
    const hyp_cpu_kernels *kernels;
    hyp_dtype dtype;
    uint8_t act;
    bool back; /* the gradient */
    int64_t columns, from_ld, to_ld;
    const char *from; /* gradients, or the sums */
    char *to;
    char *mask;       /* of a relu: written, or read */
    const char *kept; /* the sums, or a relu's results, rows hyp_nn_hidden_ld apart */
} rows_job;

typedef struct block {
    _Alignas(64) float at[HYP_BLOCK];
} block;

static void apply(const rows_job *j, HypPlan__Pointwise__Op op, const block *x, block *out)
{
    const hyp_block_instr instr = {.op = op, .to = HYP_F32};
    const float *const operands[] = {x->at, x->at, x->at};
    j->kernels->instr(&instr, out->at, operands, HYP_BLOCK);
}

/* The derivative at z, which has numbers in all of it. Beyond the bounds it is what it is there. */
static void derive(const rows_job *j, block *z, block *out)
{
    static const float most = 40, half = 0.5f, root = 0.70710678f, density = 0.39894228f, scale = 0.79788456f,
                       cubic = 0.044715f;
    block u, v;
    for (int i = 0; i < HYP_BLOCK; i++) z->at[i] = z->at[i] > most ? most : z->at[i] < -most ? -most : z->at[i];
    const float *x = z->at;
    if (j->act == HYP_NN_SILU) {
        apply(j, HYP_PLAN__POINTWISE__OP__SIGMOID, z, &u);
        for (int i = 0; i < HYP_BLOCK; i++) out->at[i] = u.at[i] + x[i] * u.at[i] * (1 - u.at[i]);
    } else if (j->act == HYP_NN_GELU) {
        for (int i = 0; i < HYP_BLOCK; i++) u.at[i] = x[i] * root;
        apply(j, HYP_PLAN__POINTWISE__OP__ERF, &u, &v);
        for (int i = 0; i < HYP_BLOCK; i++) u.at[i] = -half * x[i] * x[i];
        apply(j, HYP_PLAN__POINTWISE__OP__EXP, &u, out);
        for (int i = 0; i < HYP_BLOCK; i++) out->at[i] = half + half * v.at[i] + x[i] * density * out->at[i];
    } else {
        for (int i = 0; i < HYP_BLOCK; i++) u.at[i] = scale * (x[i] + cubic * x[i] * x[i] * x[i]);
        apply(j, HYP_PLAN__POINTWISE__OP__TANH, &u, &v);
        for (int i = 0; i < HYP_BLOCK; i++)
            out->at[i] =
                half + half * v.at[i] + half * x[i] * (1 - v.at[i] * v.at[i]) * scale * (1 + 3 * cubic * x[i] * x[i]);
    }
}

/* The gradients in g[n] by the activation, from column `first` of a row on. */
static void derive_block(const rows_job *j, int64_t row, int64_t first, int64_t n, block *g)
{
    block z = {{0}}, d;
    const uint8_t *bits = NULL;
    if (j->mask)
        bits = (const uint8_t *)j->mask + row * hyp_nn_mask_ld(j->columns) / 8;
    else
        j->kernels->widen(j->dtype,
                          j->kept + (size_t)(row * hyp_nn_hidden_ld(j->columns) + first) * hyp_dtype_size(j->dtype),
                          z.at, n);
    if (j->act == HYP_NN_RELU) {
        for (int64_t i = 0; i < n && bits; i++) z.at[i] = (float)(bits[(first + i) / 8] >> (first + i) % 8 & 1);
        for (int64_t i = 0; i < n; i++) g->at[i] = z.at[i] > 0 ? g->at[i] : 0;
        return;
    }
    derive(j, &z, &d);
    for (int64_t i = 0; i < n; i++) g->at[i] *= d.at[i];
}

/* Notes where results v[n] are positive; v has zeros behind them. */
static void note_mask(const rows_job *j, int64_t row, int64_t first, int64_t n, const block *v)
{
    uint8_t *bits = (uint8_t *)j->mask + row * hyp_nn_mask_ld(j->columns) / 8 + first / 8;
    for (int64_t i = 0; i < n; i += 8) {
        unsigned byte = 0;
        for (int b = 0; b < 8; b++) byte |= (unsigned)(v->at[i + b] > 0) << b;
        bits[i / 8] = (uint8_t)byte;
    }
}

static void rows_part(void *opaque, int64_t first_row, int64_t last_row, int thread)
{
    const rows_job *j = opaque;
    const size_t size = hyp_dtype_size(j->dtype);
    const hyp_block_instr act = {.op = hyp_plan_act_op(hyp_nn_plan_act(j->act)), .to = HYP_F32};
    (void)thread;
    for (int64_t row = first_row; row < last_row; row++)
        for (int64_t at = 0; at < j->columns; at += HYP_BLOCK) {
            int64_t n = j->columns - at < HYP_BLOCK ? j->columns - at : HYP_BLOCK;
            block v = {{0}};
            j->kernels->widen(j->dtype, j->from + (size_t)(row * j->from_ld + at) * size, v.at, n);
            if (j->back)
                derive_block(j, row, at, n, &v);
            else if (j->act == HYP_NN_RELU)
                note_mask(j, row, at, n, &v);
            else
                j->kernels->activate(&act, v.at, n);
            if (j->to) j->kernels->narrow(j->dtype, v.at, j->to + (size_t)(row * j->to_ld + at) * size, n);
        }
}

static void do_rows(const state *s, const hyp_nn_step *step, rows_job *job)
{
    const hyp_cpu_run run = run_of(s);
    job->kernels = run.kernels;
    job->dtype = (hyp_dtype)step->dtype;
    job->act = step->act;
    hyp_cpu_parallel(&run, step->rows, hyp_cpu_grain(HYP_CPU_COMPUTED, job->columns), rows_part, job);
}

/* ---- sums ---------------------------------------------------------------------------------------------------- */

typedef struct sums_job {
    const hyp_cpu_kernels *kernels;
    const hyp_nn_step *step;
    hyp_dtype dtype;
    const char *from;
    int64_t columns, ld;
    void *to;
} sums_job;

/* Blocks of columns, each summed in one order whoever does it. */
static void sums_part(void *opaque, int64_t first, int64_t last, int thread)
{
    enum { ROWS = 16 };
    const sums_job *j = opaque;
    const size_t size = hyp_dtype_size(j->dtype);
    (void)thread;
    for (int64_t at = first * HYP_BLOCK; at < j->columns && at < last * HYP_BLOCK; at += HYP_BLOCK) {
        int64_t n = j->columns - at < HYP_BLOCK ? j->columns - at : HYP_BLOCK;
        double sums[HYP_BLOCK] = {0};
        for (int64_t row = 0; row < j->step->rows; row += ROWS) {
            block rows[ROWS];
            int64_t count = j->step->rows - row < ROWS ? j->step->rows - row : ROWS;
            for (int64_t r = 0; r < count; r++)
                j->kernels->widen(j->dtype, j->from + (size_t)((row + r) * j->ld + at) * size, rows[r].at, n);
            j->kernels->sum_rows(rows[0].at, count, HYP_BLOCK, n, sums);
        }
        for (int64_t i = 0; i < n; i++) {
            double before = j->step->add_bias ? hyp_load_f64(j->dtype, j->to, (size_t)(at + i)) : 0;
            hyp_store_f64(j->dtype, j->to, (size_t)(at + i), sums[i] + before);
        }
    }
}

static void do_sums(const state *s, const hyp_nn_step *step, const void *from, int64_t columns, int64_t ld, void *to)
{
    const hyp_cpu_run run = run_of(s);
    sums_job j = {run.kernels, step, (hyp_dtype)step->dtype, from, columns, ld, to};
    hyp_cpu_parallel(&run, (columns + HYP_BLOCK - 1) / HYP_BLOCK, hyp_cpu_grain(HYP_CPU_MOVED, HYP_BLOCK * step->rows),
                     sums_part, &j);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

static hyp_status forward(const state *s, const entry *e, const hyp_nn_operands *at, hyp_diag *diag)
{
    const hyp_nn_step *p = &e->step;
    HYP_TRY(multiply(s, e, (void *[]){at->x, at->w, at->b, hyp_nn_keeps_sums(p) ? at->aux : at->y}, diag));
    if (!p->aux) return HYP_OK;
    rows_job job = {.columns = p->out, .from = at->y, .from_ld = p->y_ld, .mask = at->aux};
    if (hyp_nn_keeps_sums(p))
        job = (rows_job){
            .columns = p->out, .from = at->aux, .from_ld = hyp_nn_hidden_ld(p->out), .to = at->y, .to_ld = p->y_ld};
    do_rows(s, p, &job);
    return HYP_OK;
}

/* What is left of an activation's gradient where it is in `to`, or goes there from y. */
static void back(const state *s, const hyp_nn_step *p, const hyp_nn_operands *at, int64_t columns, const void *from,
                 int64_t from_ld)
{
    bool mask = p->act == HYP_NN_RELU && p->aux;
    rows_job job = {.back = true,
                    .columns = columns,
                    .from = from,
                    .from_ld = from_ld,
                    .to = at->x,
                    .to_ld = p->x_ld,
                    .mask = mask ? at->aux : NULL,
                    .kept = p->act == HYP_NN_RELU ? at->h : at->aux};
    if (p->act != HYP_NN_NONE) do_rows(s, p, &job);
}

static hyp_status run(void *opaque, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag)
{
    state *s = opaque;
    const entry *e = NULL;
    if (hyp_nn_has_product(step)) HYP_TRY(find(s, step, &e, diag));
    switch ((hyp_nn_kind)step->kind) {
    case HYP_NN_FORWARD: return forward(s, e, at, diag);
    case HYP_NN_DGRAD:
        HYP_TRY(multiply(s, e, (void *[]){at->y, at->w, NULL, at->x}, diag));
        back(s, step, at, step->in, at->x, step->x_ld);
        if (step->bias) do_sums(s, step, at->x, step->in, step->x_ld, at->b);
        return HYP_OK;
    case HYP_NN_WGRAD:
        HYP_TRY(multiply(s, e, (void *[]){at->y, at->x, NULL, at->w}, diag));
        if (step->bias) do_sums(s, step, at->y, step->out, step->y_ld, at->b);
        return HYP_OK;
    case HYP_NN_GRAD: back(s, step, at, step->out, at->y, step->y_ld); return HYP_OK;
    default: do_sums(s, step, at->y, step->out, step->y_ld, at->b); return HYP_OK;
    }
}

static bool describe(const void *opaque, size_t i, char *out, size_t size)
{
    const state *s = opaque;
    char text[HYP_NN_STEP_TEXT];
    if (i >= s->entries.len) return false;
    const entry *e = &s->entries.data[i];
    hyp_nn_step_text(&e->step, text);
    snprintf(out, size, "%s: %s%s", text, e->op.run ? "oneDNN" : "own kernel", e->widens ? ", in f32" : "");
    return true;
}

const hyp_nn_backend hyp_nn_backend_cpu = {
    .saved_align = 16,
    .open = nn_open,
    .close = nn_close,
    .begin = begin,
    .end = end,
    .prepare = prepare,
    .run = run,
    .describe = describe,
};

/* dnnl_products.c - steps that are products of oneDNN: parts of the rows, or of the matrices of a batch, side by side.
 */
#include <math.h>
#include <stdatomic.h>

#include "base/dtype.h"
#include "runtime/cpu/dnnl_memory.h"

/* ---- products -------------------------------------------------------------------------------------------- */

typedef struct products_run {
    const hyp_dnnl_products *s;
    const hyp_cpu_run *run;
    atomic_int status; /* of a product that failed */
} products_run;

static void products_destroy(void *opaque)
{
    hyp_dnnl_products *s = opaque;
    for (size_t i = 0; i < 2 * s->count; i++) {
        hyp_dnnl_product *p = &s->items[i];
        if (p->primitive) dnnl_primitive_destroy(p->primitive);
        for (int t = 0; p->own && t < s->threads; t++)
            for (int j = 0; j < HYP_DNNL_ARGUMENTS; j++)
                if (p->own[t][j]) dnnl_memory_destroy(p->own[t][j]);
        hyp_free(p->own);
    }
    hyp_free(s);
}

static dnnl_status_t run_product(const hyp_dnnl_products *s, const hyp_dnnl_product *p, const hyp_cpu_run *run,
                                 int64_t at, int thread)
{
    dnnl_exec_arg_t args[HYP_DNNL_ARGUMENTS];
    int count = 0;
    for (int j = 0; j < HYP_DNNL_ARGUMENTS; j++) {
        dnnl_memory_t own = p->own[thread][j];
        if (j == HYP_DNNL_SCRATCHPAD && own)
            dnnl_memory_set_data_handle(own, (char *)run->call.work + (size_t)thread * s->scratch_bytes);
        else if (own)
            dnnl_memory_set_data_handle(own, (char *)run->call.at[p->tensors[j]] + (size_t)at * p->step_bytes[j] +
                                                 (size_t)thread * p->thread_bytes[j]);
        if (p->names[j]) args[count++] = (dnnl_exec_arg_t){p->names[j], own ? own : p->shared};
    }
    return hyp_dnnl_execute(run, thread, p->primitive, count, args);
}

static void products_part(void *state, int64_t begin, int64_t end, int thread)
{
    products_run *r = state;
    const hyp_dnnl_products *s = r->s;
    for (int64_t at = begin * s->part; at < s->size && at < end * s->part; at += s->part) {
        const hyp_dnnl_product *items = s->items + (s->size - at < s->part ? s->count : 0);
        for (size_t i = 0; i < s->count; i++) {
            dnnl_status_t status = run_product(s, &items[i], r->run, at, thread);
            if (status != dnnl_success) atomic_store(&r->status, (int)status);
        }
    }
}

static hyp_status run_products(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const hyp_dnnl_products *s = op->state;
    products_run r = {.s = s, .run = run};
    hyp_cpu_parallel(run, (s->size + s->part - 1) / s->part, s->grain, products_part, &r);
    int status = atomic_load(&r.status);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, (dnnl_status_t)status, "a product");
}

hyp_status hyp_dnnl_make_product(const hyp_dnnl *d, dnnl_primitive_desc_t pd,
                                 const uint32_t tensors_plus1[HYP_DNNL_SCRATCHPAD], int added_arg, dnnl_memory_t shared,
                                 hyp_dnnl_products *s, hyp_dnnl_product *p, hyp_diag *diag)
{
    const struct {
        int arg;
        dnnl_query_t query;
        int index;
    } kinds[HYP_DNNL_ARGUMENTS] = {[HYP_DNNL_SRC] = {DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                   [HYP_DNNL_WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                   [HYP_DNNL_BIAS] = {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
                                   [HYP_DNNL_DST] = {DNNL_ARG_DST, dnnl_query_dst_md, 0},
                                   [HYP_DNNL_ADDED] = {added_arg, dnnl_query_dst_md, 0},
                                   [HYP_DNNL_SCRATCHPAD] = {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0}};
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, pd);
    p->own = hyp_calloc((size_t)s->threads, sizeof *p->own);
    if (!p->own) status = dnnl_out_of_memory;
    p->shared = shared;
    for (int j = 0; j < HYP_DNNL_ARGUMENTS && status == dnnl_success; j++) {
        hyp_md_ref md = dnnl_primitive_desc_query_md(pd, kinds[j].query, kinds[j].index);
        size_t bytes = md ? (dnnl_memory_desc_get_size(md) + 63) / 64 * 64 : 0;
        if (j == HYP_DNNL_SCRATCHPAD ? !bytes : !tensors_plus1[j]) continue;
        p->names[j] = kinds[j].arg;
        if (j < HYP_DNNL_SCRATCHPAD) p->tensors[j] = tensors_plus1[j] - 1;
        if (j == HYP_DNNL_SCRATCHPAD && bytes > s->scratch_bytes) s->scratch_bytes = bytes;
        for (int t = 0; t < s->threads && status == dnnl_success && !(j == HYP_DNNL_WEIGHTS && shared); t++)
            status = dnnl_memory_create(&p->own[t][j], md, hyp_dnnl_engine(d), DNNL_MEMORY_NONE);
    }
    dnnl_primitive_desc_destroy(pd);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "making a product");
}

hyp_dnnl_products *hyp_dnnl_products_create(size_t count, int64_t size, int64_t part, int threads, double flops)
{
    static const double worth = 500000; /* waking a thread */
    size_t bytes;
    if (!hyp_mul_size(count, 2 * sizeof(hyp_dnnl_product), &bytes) ||
        !hyp_add_size(bytes, sizeof(hyp_dnnl_products), &bytes))
        return NULL;
    hyp_dnnl_products *s = hyp_calloc(1, bytes);
    int64_t parts = (size + part - 1) / part;
    double grain = ceil(worth * (double)parts / fmax(flops, 1));
    if (!s) return NULL;
    *s = (hyp_dnnl_products){.size = size,
                             .part = part,
                             .grain = grain < (double)parts ? (int64_t)grain : parts,
                             .threads = parts < threads ? (int)parts : threads,
                             .count = count};
    return s;
}

hyp_status hyp_dnnl_finish_products(hyp_cpu_op *op, hyp_dnnl_products *s, hyp_status status, bool complete)
{
    op->work_bytes = (size_t)s->threads * s->scratch_bytes;
    return hyp_cpu_finish_op(op, status, complete, run_products, products_destroy, s);
}

/* ---- matmul ---------------------------------------------------------------------------------------------- */

/* Which axis of a product is divided: one of the batch, or, beyond those, the rows of a and y. */
typedef struct cut {
    size_t axis;
    int64_t size; /* that is left of it */
} cut;

/* A batched operand: dims (batch, rows, columns). A broadcast axis has dim 1 there. */
static hyp_md batched(dnnl_data_type_t type, const HypPlan__Matmul *s, const int64_t *values,
                      const uint32_t *batch_strides, int64_t rows, int64_t columns, bool transposed, cut c)
{
    int64_t dims[HYP_MAX_RANK + 2], strides[HYP_MAX_RANK + 2], dense = rows * columns;
    size_t rank = s->n_batch;
    for (size_t a = rank; a-- > 0;) {
        bool broadcast = batch_strides && values[batch_strides[a]] == 0;
        dims[a] = broadcast ? 1 : values[s->batch[a]];
        strides[a] = batch_strides && !broadcast ? values[batch_strides[a]] : dense;
        dense *= dims[a];
    }
    dims[rank] = rows;
    dims[rank + 1] = columns;
    strides[rank] = transposed ? 1 : columns;
    strides[rank + 1] = transposed ? rows : 1;
    if (c.axis <= rank && dims[c.axis] > c.size) dims[c.axis] = c.size;
    return hyp_md_create((int)rank + 2, dims, type, strides);
}

/* The first axis of the batch that every thread gets something of, else the longest one, be it of rows. */
static size_t choose_axis(const HypPlan__Matmul *s, const int64_t *values, int threads)
{
    size_t best = s->n_batch;
    int64_t most = values[s->m];
    for (size_t a = 0; a < s->n_batch; a++) {
        int64_t size = values[s->batch[a]];
        if (size >= threads) return a;
        if (size < most) continue;
        best = a;
        most = size;
    }
    return best;
}

static hyp_status make_matmul(const hyp_dnnl *d, const HypPlan__Program *program, const HypPlan__Matmul *s,
                              const int64_t *values, cut c, hyp_dnnl_products *made, hyp_dnnl_product *p,
                              bool *complete, hyp_diag *diag)
{
    hyp_dtype dtype = hyp_tensor_dtype(program, s->a);
    dnnl_data_type_t type = hyp_dnnl_type(dtype);
    int64_t m = values[s->m], n = values[s->n], k = values[s->k];
    const cut none = {SIZE_MAX, 0};
    bool rows = c.axis == s->n_batch;
    hyp_md src = batched(type, s, values, s->a_strides, m, k, s->trans_a, c);
    hyp_md weights = batched(type, s, values, s->b_strides, k, n, s->trans_b, rows ? none : c);
    hyp_md dst = batched(type, s, values, NULL, m, n, false, c);
    hyp_dnnl_post post = {.alpha = s->alpha};
    dnnl_primitive_desc_t pd = NULL;
    if (src && weights && dst) pd = hyp_dnnl_matmul(hyp_dnnl_engine(d), src, weights, NULL, dst, &post);
    hyp_md_destroy(src);
    hyp_md_destroy(weights);
    hyp_md_destroy(dst);
    *complete = *complete && pd;
    if (!pd) return HYP_OK;
    const uint32_t tensors_plus1[HYP_DNNL_SCRATCHPAD] = {s->a + 1, s->b + 1, 0, s->y + 1, 0};
    HYP_TRY(hyp_dnnl_make_product(d, pd, tensors_plus1, 0, NULL, made, p, diag));
    size_t size = hyp_dtype_size(dtype);
    int64_t y_step = n;
    for (size_t a = s->n_batch; !rows && a-- > c.axis;) y_step *= a + 1 == s->n_batch ? m : values[s->batch[a + 1]];
    p->step_bytes[HYP_DNNL_SRC] = size * (size_t)(!rows ? values[s->a_strides[c.axis]] : s->trans_a ? 1 : k);
    p->step_bytes[HYP_DNNL_WEIGHTS] = size * (size_t)(rows ? 0 : values[s->b_strides[c.axis]]);
    p->step_bytes[HYP_DNNL_DST] = size * (size_t)y_step;
    return HYP_OK;
}

hyp_status hyp_dnnl_prepare_matmul(hyp_cpu_model *model, const HypPlan__Matmul *matmul, const int64_t *values,
                                   hyp_cpu_op *op, hyp_diag *diag)
{
    enum { MANY = 64 };
    const HypPlan__Program *program = model->plan->program;
    if (hyp_dnnl_type(hyp_tensor_dtype(program, matmul->a)) == dnnl_data_type_undef) return HYP_OK;
    size_t axis = choose_axis(matmul, values, op->threads);
    bool rows = axis == matmul->n_batch;
    int64_t size = rows ? values[matmul->m] : values[matmul->batch[axis]];
    int64_t part = hyp_dnnl_part(size, op->threads, rows ? MANY : 1);
    double flops = 2.0 * (double)values[matmul->m] * (double)values[matmul->n] * (double)values[matmul->k];
    for (size_t a = 0; a < matmul->n_batch; a++) flops *= (double)values[matmul->batch[a]];
    hyp_dnnl_products *s = hyp_dnnl_products_create(1, size, part, op->threads, flops);
    if (!s) return hyp_fail_memory(diag, sizeof(hyp_dnnl_product));
    const hyp_dnnl *d = model->device->dnnl;
    bool complete = true;
    hyp_status status = make_matmul(d, program, matmul, values, (cut){axis, part}, s, s->items, &complete, diag);
    if (status == HYP_OK && complete && size % part)
        status = make_matmul(d, program, matmul, values, (cut){axis, size % part}, s, s->items + 1, &complete, diag);
    return hyp_dnnl_finish_products(op, s, status, complete);
}

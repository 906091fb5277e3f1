/* dnnl_gemm.c - products of the caller's matrices by oneDNN: parts of the rows, or of the columns, side by side. */
#include "base/dtype.h"
#include "runtime/cpu/dnnl_memory.h"

static hyp_md matrix(dnnl_data_type_t type, int64_t rows, int64_t columns, int64_t ld, bool turned)
{
    const int64_t dims[] = {rows, columns}, strides[] = {turned ? 1 : ld, turned ? ld : 1};
    return hyp_md_create(2, dims, type, strides);
}

/* A part of m x n results; *complete stays where oneDNN has a product for it. */
static hyp_status make_part(const hyp_dnnl *d, const hyp_cpu_gemm *g, int64_t m, int64_t n, bool columns,
                            hyp_dnnl_products *made, hyp_dnnl_product *p, bool *complete, hyp_diag *diag)
{
    dnnl_data_type_t type = hyp_dnnl_type(g->dtype);
    hyp_dnnl_post post = {.alpha = 1, .accumulate = g->accumulate};
    bool known = hyp_dnnl_find_act(hyp_plan_act_name(g->act), 0, &post.act);
    hyp_md a = matrix(type, m, g->k, g->a_ld, g->trans_a), b = matrix(type, g->k, n, g->b_ld, g->trans_b);
    hyp_md bias = g->bias ? matrix(type, 1, n, n, false) : NULL, c = matrix(type, m, n, g->c_ld, false);
    dnnl_primitive_desc_t pd = NULL;
    if (known && a && b && c && (bias || !g->bias)) pd = hyp_dnnl_matmul(hyp_dnnl_engine(d), a, b, bias, c, &post);
    hyp_md_destroy(a);
    hyp_md_destroy(b);
    hyp_md_destroy(bias);
    hyp_md_destroy(c);
    *complete = *complete && pd;
    if (!pd) return HYP_OK;
    const uint32_t operands[HYP_DNNL_SCRATCHPAD] = {1, 2, g->bias ? 3 : 0, 4, 0};
    HYP_TRY(hyp_dnnl_make_product(d, pd, operands, 0, NULL, made, p, diag));
    size_t size = hyp_dtype_size(g->dtype);
    p->step_bytes[HYP_DNNL_SRC] = columns ? 0 : size * (size_t)(g->trans_a ? 1 : g->a_ld);
    p->step_bytes[HYP_DNNL_WEIGHTS] = !columns ? 0 : size * (size_t)(g->trans_b ? g->b_ld : 1);
    p->step_bytes[HYP_DNNL_BIAS] = columns ? size : 0;
    p->step_bytes[HYP_DNNL_DST] = size * (size_t)(columns ? 1 : g->c_ld);
    return HYP_OK;
}

hyp_status hyp_dnnl_prepare_gemm(const hyp_dnnl *d, const hyp_cpu_gemm *g, hyp_cpu_op *op, hyp_diag *diag)
{
    enum { MANY = 64 };
    if (hyp_dnnl_type(g->dtype) == dnnl_data_type_undef) return HYP_OK;
    bool columns = g->m < MANY && g->n > g->m, complete = true;
    int64_t size = columns ? g->n : g->m, part = hyp_dnnl_part(size, op->threads, MANY), rest = size % part;
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    int before = hyp_dnnl_set_threads(d, 1);
    hyp_dnnl_products *s = hyp_dnnl_products_create(1, size, part, op->threads, flops);
    hyp_status status = s ? HYP_OK : hyp_fail_memory(diag, sizeof(hyp_dnnl_product));
    if (s)
        status = make_part(d, g, columns ? g->m : part, columns ? part : g->n, columns, s, s->items, &complete, diag);
    if (status == HYP_OK && complete && rest)
        status =
            make_part(d, g, columns ? g->m : rest, columns ? rest : g->n, columns, s, s->items + 1, &complete, diag);
    hyp_dnnl_set_threads(d, before);
    return s ? hyp_dnnl_finish_products(op, s, status, complete) : status;
}

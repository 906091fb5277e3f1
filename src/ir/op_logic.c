/* Comparison, selection, and the operators on bools and bits. */
#include <string.h>

#include "ir/op.h"
#include "kernels/scalar.h"

/* ---- inference -------------------------------------------------------------------------------------- */

hyp_status hyp_infer_compare(const hyp_infer_call *c)
{
    c->out[0].type.dtype = HYP_BOOL;
    HYP_TRY(hyp_check_dtype(c, c->op == HYP_OP_equal ? HYP_CLASS_ANY : HYP_CLASS_NUMERIC));
    HYP_TRY(hyp_broadcast(c, &c->in[0]->type, &c->in[1]->type, &c->out[0].type));
    return hyp_infer_pair_content(c);
}

/* Bools are for and, or, xor and not; integers for all; one type for all inputs. */
static hyp_status check_bits(const hyp_infer_call *c)
{
    hyp_dtype t = c->in[0]->type.dtype;
    bool shifts = c->op == HYP_OP_shift_left || c->op == HYP_OP_shift_right;
    if (hyp_dtype_is_float(t) || (shifts && t == HYP_BOOL))
        return hyp_infer_fail(c, "the inputs are %s, %s are wanted", hyp_dtype_name(t),
                              shifts ? "integers" : "bools or integers");
    c->out[0].type.dtype = t;
    return hyp_check_dtype(c, HYP_CLASS_ANY);
}

hyp_status hyp_infer_bits(const hyp_infer_call *c)
{
    HYP_TRY(check_bits(c));
    return hyp_broadcast(c, &c->in[0]->type, &c->in[1]->type, &c->out[0].type);
}

hyp_status hyp_infer_not(const hyp_infer_call *c)
{
    HYP_TRY(check_bits(c));
    c->out[0].type = c->in[0]->type;
    return HYP_OK;
}

/* What `where` chooses, if it is known of all conditions and of the values that they choose. */
static hyp_status infer_choice(const hyp_infer_call *c)
{
    const hyp_infer_value *const *in = c->in;
    hyp_infer_value *out = &c->out[0];
    int64_t count = hyp_content_count(&out->type), k = 0;
    if (count < 0 || !in[0]->content) return HYP_OK;
    hyp_dim *content = hyp_arena_zalloc(c->arena, (size_t)count, sizeof *content);
    if (!content) return hyp_fail_memory(c->diag, (size_t)count * sizeof *content);
    hyp_walk w = {.rank = out->type.rank};
    memcpy(w.dims, out->type.dims, sizeof w.dims);
    for (int i = 0; i < 3; i++) hyp_walk_broadcast(&w, i, in[i]->type.rank, in[i]->type.dims);
    for (hyp_walk_start(&w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++, k++) {
            hyp_dim condition = in[0]->content[w.at[0] + i * w.step[0]];
            int taken = condition ? 1 : 2;
            if (!hyp_dim_is_const(condition) || !in[taken]->content) return HYP_OK;
            content[k] = in[taken]->content[w.at[taken] + i * w.step[taken]];
        }
    out->content = content;
    out->content_count = (uint32_t)count;
    return HYP_OK;
}

hyp_status hyp_infer_where(const hyp_infer_call *c)
{
    const hyp_type *condition = &c->in[0]->type, *a = &c->in[1]->type, *b = &c->in[2]->type;
    if (condition->dtype != HYP_BOOL)
        return hyp_infer_fail(c, "the condition is %s, bool is wanted; cast it first",
                              hyp_dtype_name(condition->dtype));
    if (a->dtype != b->dtype)
        return hyp_infer_fail(c, "the values are of different element types, %s and %s; cast one of them",
                              hyp_dtype_name(a->dtype), hyp_dtype_name(b->dtype));
    hyp_type both = {0};
    HYP_TRY(hyp_broadcast(c, a, b, &both));
    HYP_TRY(hyp_broadcast(c, condition, &both, &c->out[0].type));
    c->out[0].type.dtype = a->dtype;
    return infer_choice(c);
}

/* ---- evaluation ------------------------------------------------------------------------------------- */

static bool holds_f64(hyp_op op, double x, double y)
{
    return op == HYP_OP_equal ? x == y : op == HYP_OP_less ? x < y : x <= y;
}

static bool holds_i64(hyp_op op, int64_t x, int64_t y, bool is_u64)
{
    return op == HYP_OP_less ? hyp_less_i64(x, y, is_u64)
                             : x == y || (op != HYP_OP_equal && hyp_less_i64(x, y, is_u64));
}

hyp_status hyp_eval_compare(const hyp_eval_call *c)
{
    const hyp_eval_tensor *a = c->in[0], *b = c->in[1], *out = &c->out[0];
    hyp_walk w;
    for (hyp_eval_walk(out, a, b, &w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            int64_t x = w.at[1] + i * w.step[1], y = w.at[2] + i * w.step[2];
            out->i[w.at[0] + i] =
                a->f ? holds_f64(c->op, a->f[x], b->f[y]) : holds_i64(c->op, a->i[x], b->i[y], a->dtype == HYP_U64);
        }
    return HYP_OK;
}

hyp_status hyp_eval_not(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0];
    for (size_t i = 0; i < x->count; i++) c->out[0].i[i] = x->dtype == HYP_BOOL ? !x->i[i] : ~x->i[i];
    return HYP_OK;
}

hyp_status hyp_eval_where(const hyp_eval_call *c)
{
    const hyp_eval_tensor *out = &c->out[0];
    for (int branch = 1; branch <= 2; branch++) { /* the elements that each of the two gives */
        const hyp_eval_tensor *condition = c->in[0], *from = c->in[branch];
        hyp_walk w;
        for (hyp_eval_walk(out, condition, from, &w); w.row >= 0; hyp_walk_next(&w))
            for (int64_t i = 0; i < w.row; i++) {
                int64_t to = w.at[0] + i, at = w.at[2] + i * w.step[2];
                if ((condition->i[w.at[1] + i * w.step[1]] != 0) != (branch == 1)) continue;
                if (out->f)
                    out->f[to] = from->f[at];
                else
                    out->i[to] = from->i[at];
            }
    }
    return HYP_OK;
}

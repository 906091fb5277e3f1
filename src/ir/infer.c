/* Inference: what all operators have in common; the checks that the families share are in infer_check.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/op.h"

/* True when all elements are known and it is known where they go. */
static bool can_move_contents(const hyp_infer_call *c)
{
    const hyp_op_info *info = hyp_op_get(c->op);
    bool computes = !(info->flags & (HYP_OPF_VIEW | HYP_OPF_COPY)); /* which wants numbers, as do indices */
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!c->in[i]) continue;
        if (!c->in[i]->content) return false;
        for (uint32_t j = 0; (computes || (c->op == HYP_OP_gather && i == 1)) && j < c->in[i]->content_count; j++)
            if (!hyp_dim_is_const(c->in[i]->content[j])) return false;
    }
    for (uint32_t i = 0; i < c->out_count; i++)
        if (hyp_content_count(&c->out[i].type) < 0) return false;
    for (uint32_t i = 0; i < info->attr_count && !(info->flags & HYP_OPF_VIEW); i++)
        for (uint32_t j = 0; c->attrs[i].kind == HYP_ATTR_DIMS && j < c->attrs[i].count; j++)
            if (!hyp_dim_is_const(c->attrs[i].dims[j])) return false;
    return true;
}

/* Contents through operators that only move elements: the reference evaluation runs on the dims themselves,
 * which are 64-bit integers to it like any others. All others compute, with contents that are all numbers. */
static hyp_status move_contents(const hyp_infer_call *c)
{
    if (!can_move_contents(c)) return HYP_OK;
    const hyp_op_info *info = hyp_op_get(c->op);
    hyp_eval_tensor *tensors = hyp_arena_zalloc(c->arena, c->in_count + c->out_count, sizeof *tensors);
    const hyp_eval_tensor **in = hyp_arena_zalloc(c->arena, c->in_count, sizeof *in);
    if (!tensors || !in) return hyp_fail_memory(c->diag, (c->in_count + c->out_count) * sizeof *tensors);
    hyp_eval_tensor *out = tensors + c->in_count;
    for (uint32_t i = 0; i < c->in_count + c->out_count; i++) {
        bool is_input = i < c->in_count;
        const hyp_infer_value *v = is_input ? c->in[i] : &c->out[i - c->in_count];
        if (!v) continue;
        hyp_eval_tensor *t = &tensors[i];
        *t = (hyp_eval_tensor){
            .dtype = v->type.dtype, .rank = v->type.rank, .count = (size_t)hyp_content_count(&v->type)};
        memcpy(t->dims, v->type.dims, sizeof t->dims);
        t->i = is_input ? (int64_t *)(uintptr_t)v->content /* inputs are only read */
                        : hyp_arena_zalloc(c->arena, t->count, sizeof *t->i);
        if (!t->i) return hyp_fail_memory(c->diag, t->count * sizeof *t->i);
        if (is_input) in[i] = t;
    }
    hyp_eval_call call = {.op = c->op,
                          .attrs = c->attrs,
                          .mode = HYP_EVAL_NATIVE,
                          .in = in,
                          .in_count = c->in_count,
                          .out = out,
                          .out_count = c->out_count};
    /* It fails on an index out of range only: the run will say so, if it comes to it. */
    if (hyp_op_get_functions(c->op).eval(&call) != HYP_OK) return HYP_OK;
    for (uint32_t i = 0; i < c->out_count; i++)
        for (size_t j = 0; !(info->flags & (HYP_OPF_VIEW | HYP_OPF_COPY)) && j < out[i].count; j++)
            if (out[i].i[j] != hyp_wrap_i64(out[i].dtype, out[i].i[j]) || !hyp_dim_is_const(out[i].i[j])) return HYP_OK;
    for (uint32_t i = 0; i < c->out_count; i++) {
        c->out[i].content = out[i].i;
        c->out[i].content_count = (uint32_t)out[i].count;
    }
    return HYP_OK;
}

static hyp_status check_inputs(const hyp_infer_call *c, const hyp_op_info *info)
{
    if (c->in_count < info->min_inputs || (info->max_inputs != HYP_VARIADIC && c->in_count > info->max_inputs)) {
        if (info->max_inputs == HYP_VARIADIC)
            return hyp_infer_fail(c, "%u inputs, at least %u are wanted", c->in_count, info->min_inputs);
        return hyp_infer_fail(c, "%u inputs, %u to %u are wanted", c->in_count, info->min_inputs, info->max_inputs);
    }
    if (info->outputs != HYP_VARIADIC && c->out_count != info->outputs)
        return hyp_infer_fail(c, "%u outputs, %u are wanted", c->out_count, info->outputs);
    for (uint32_t i = 0; i < c->in_count; i++)
        if (!c->in[i] && (!(info->flags & HYP_OPF_OPTIONAL) || ((info->flags & HYP_OPF_CALL) && i < info->min_inputs)))
            return hyp_infer_fail(c, "input %u is absent", i);
    return HYP_OK;
}

static hyp_status check_attrs(const hyp_infer_call *c, const hyp_op_info *info)
{
    for (uint32_t i = 0; i < info->attr_count; i++)
        if (c->attrs[i].kind != info->attrs[i].kind)
            return hyp_infer_fail(c, "attribute '%s' has a value of the wrong kind", info->attrs[i].name);
    return HYP_OK;
}

hyp_status hyp_infer(hyp_dims *dims, hyp_arena *arena, hyp_op op, const hyp_attr *attrs,
                     const hyp_infer_value *const *in, uint32_t input_count, hyp_infer_value *out,
                     uint32_t output_count, hyp_diag *diag)
{
    hyp_attr defaults[HYP_MAX_ATTRS];
    hyp_infer_call c = {.dims = dims,
                        .arena = arena,
                        .op = op,
                        .attrs = attrs,
                        .in = in,
                        .in_count = input_count,
                        .out = out,
                        .out_count = output_count,
                        .diag = diag};
    if ((unsigned)op >= HYP_OP_COUNT) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "no operator %d", (int)op);
    const hyp_op_info *info = hyp_op_get(op);
    for (uint32_t i = 0; !attrs && i < info->attr_count; i++) {
        if (info->attrs[i].required) return hyp_infer_fail(&c, "attribute '%s' is missing", info->attrs[i].name);
        defaults[i] = hyp_attr_default(&info->attrs[i]);
        c.attrs = defaults;
    }
    HYP_TRY(check_inputs(&c, info));
    HYP_TRY(check_attrs(&c, info));
    memset(out, 0, output_count * sizeof *out);
    HYP_TRY(hyp_op_get_functions(op).infer(&c));
    return out[0].content ? HYP_OK : move_contents(&c);
}

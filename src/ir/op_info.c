/* The operator table as data, generated from ops.def. */
#include <stdlib.h>
#include <string.h>

#include "ir/op.h"

/* clang-format off */
#define A(kind, name, text) {name, HYP_ATTR_##kind, false, text}
#define R(kind, name) {name, HYP_ATTR_##kind, true, NULL}
/* A leading empty entry keeps the initialiser valid when there are no attributes. */
#define ATTRS(...) {{0}, __VA_ARGS__}
#define GRADIENT(text) text
#define NO_GRADIENT NULL
/* clang-format on */
#define OP(id, name, lo, hi, outs, flags, infer, eval, attrs, gradient, doc)                                           \
    static const hyp_attr_info attrs_##id[] = attrs;
#include "ir/ops.def"

#define COUNT(id) (sizeof attrs_##id / sizeof *attrs_##id - 1)
#define OP(id, name, lo, hi, outs, flags, infer, eval, attrs, gradient, doc)                                           \
    _Static_assert(COUNT(id) <= HYP_MAX_ATTRS, "too many attributes: " name);
#include "ir/ops.def"

static const hyp_op_info table[] = {
#define OP(id, name, lo, hi, outs, flags, infer, eval, attrs, gradient, doc)                                           \
    {name, lo, hi, outs, flags, COUNT(id), attrs_##id + 1, gradient, doc},
#include "ir/ops.def"
};

static const hyp_op_alias aliases[] = {
#define ALIAS(name, id, attr, value) {name, HYP_OP_##id, attr, value},
#include "ir/ops.def"
};

const hyp_op_info *hyp_op_get(hyp_op op) { return &table[op]; }

bool hyp_op_find(const char *name, hyp_op *out)
{
    for (size_t i = 0; i < HYP_OP_COUNT; i++) {
        if (strcmp(table[i].name, name) != 0) continue;
        *out = (hyp_op)i;
        return true;
    }
    return false;
}

bool hyp_op_find_attr(hyp_op op, const char *name, uint32_t *out_index)
{
    for (uint32_t i = 0; i < table[op].attr_count; i++) {
        if (strcmp(table[op].attrs[i].name, name) != 0) continue;
        *out_index = i;
        return true;
    }
    return false;
}

const hyp_op_alias *hyp_op_aliases(size_t *out_count)
{
    *out_count = sizeof aliases / sizeof *aliases;
    return aliases;
}

hyp_attr hyp_attr_default(const hyp_attr_info *info)
{
    hyp_attr a = {.kind = info->kind};
    switch (info->kind) {
    case HYP_ATTR_INT: a.i = strtoll(info->default_text, NULL, 10); break;
    case HYP_ATTR_FLOAT: a.f = hyp_strtod(info->default_text, NULL); break;
    case HYP_ATTR_SYM: a.sym = info->default_text; break;
    case HYP_ATTR_DIMS:
    case HYP_ATTR_SYMS: break; /* lists are always required: the table's test says so */
    }
    return a;
}

bool hyp_node_has(const hyp_graph *g, const hyp_node *n, uint32_t flags)
{
    if (n->op == HYP_OP_cast && hyp_dtype_is_float(g->values.data[n->outputs[0]].type.dtype))
        flags &= ~(uint32_t)HYP_OPF_JUMP;
    return (hyp_op_get(n->op)->flags & flags) != 0;
}

bool hyp_op_is_weight(hyp_op op, uint32_t i, uint32_t input_count)
{
    switch (op) {
    case HYP_OP_linear:
    case HYP_OP_fused_linear:
    case HYP_OP_fused_linear_add: return i == 0;
    case HYP_OP_fused_mlp: return i % 2 == 0 && i + 1 < input_count;
    default: return false;
    }
}

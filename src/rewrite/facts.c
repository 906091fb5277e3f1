/* The analysis: what is known of every e-class. */
#include <stdlib.h>
#include <string.h>

#include "rewrite/internal.h"

/* Results of at most this many elements are evaluated as soon as their inputs are known: scalars and small
 * vectors, which rules look at. Everything larger stays symbolic until the plan is made. */
enum { SMALL = 64 };

/* ---- symbols -------------------------------------------------------------------------------------- */

static hyp_status symbol_slot(hyp_rw *rw, hyp_symbol symbol, hyp_rw_symbol **out, hyp_diag *diag)
{
    if (symbol >= rw->symbols.len) {
        HYP_TRY(hyp_vec_reserve(&rw->symbols, (size_t)symbol + 1, diag));
        memset(rw->symbols.data + rw->symbols.len, 0, (symbol + 1 - rw->symbols.len) * sizeof *rw->symbols.data);
        rw->symbols.len = (size_t)symbol + 1;
    }
    *out = &rw->symbols.data[symbol];
    return HYP_OK;
}

hyp_status hyp_rw_symbol_of(hyp_rw *rw, hyp_symbol symbol, const hyp_rw_symbol **out, hyp_diag *diag)
{
    hyp_rw_symbol *s;
    HYP_TRY(symbol_slot(rw, symbol, &s, diag));
    if (s->head == HYP_RW_SYM_NEW) {
        const char *name = hyp_egraph_symbol_name(rw->eg, symbol);
        s->head = strcmp(name, "get") == 0    ? HYP_RW_SYM_GET
                  : hyp_op_find(name, &s->op) ? HYP_RW_SYM_OP
                                              : HYP_RW_SYM_OTHER;
    }
    *out = s;
    return HYP_OK;
}

/* A literal read as an attribute of this kind. Lists live in rw->arena. */
static hyp_status read_attr(hyp_rw *rw, hyp_symbol literal, hyp_attr_kind kind, hyp_attr *out, hyp_diag *diag)
{
    hyp_rw_symbol *s;
    HYP_TRY(symbol_slot(rw, literal, &s, diag));
    if (!(s->parsed & 1 << kind)) {
        const char *text = hyp_egraph_symbol_name(rw->eg, literal);
        const hyp_sexpr *forms;
        HYP_TRY(hyp_sexpr_parse(&rw->arena, text, text, strlen(text), &forms, diag));
        if (forms->count != 1) return hyp_fail(diag, HYP_ERR_MALFORMED, "'%s' is no value of an attribute", text);
        HYP_TRY(hyp_attr_parse(&rw->arena, rw->dims, text, forms->items[0], kind, &s->attrs[kind], diag));
        s->parsed |= (uint8_t)(1 << kind);
    }
    *out = s->attrs[kind];
    return HYP_OK;
}

/* ---- e-nodes -------------------------------------------------------------------------------------- */

static hyp_status literal_child(hyp_rw *rw, hyp_class_id c, hyp_attr_kind kind, hyp_attr *out, hyp_diag *diag)
{
    const hyp_rw_fact *f = hyp_rw_fact_of(rw, c);
    if (f->kind != HYP_RW_LITERAL)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "a term stands where the value of an attribute is wanted");
    return read_attr(rw, f->literal, kind, out, diag);
}

hyp_status hyp_rw_inspect(hyp_rw *rw, hyp_enode_id node, hyp_rw_shape *out_shape, uint32_t *out_index, hyp_rw_node *out,
                          hyp_diag *diag)
{
    size_t count;
    hyp_symbol symbol = hyp_enode_op(rw->eg, node);
    const hyp_class_id *children = hyp_enode_children(rw->eg, node, &count);
    const char *name = hyp_egraph_symbol_name(rw->eg, symbol);
    if (count == 0) {
        *out_shape = name[0] == '%' ? HYP_RW_IS_LEAF : HYP_RW_IS_LITERAL;
        *out_index = name[0] == '%' ? (uint32_t)strtoul(name + 1, NULL, 10) : 0;
        if (name[0] == '%' && *out_index >= rw->leaves.len)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "the term '%s' names no value", name);
        return HYP_OK;
    }
    const hyp_rw_symbol *s;
    HYP_TRY(hyp_rw_symbol_of(rw, symbol, &s, diag));
    if (s->head == HYP_RW_SYM_GET && count == 2) {
        hyp_attr index;
        HYP_TRY(literal_child(rw, children[0], HYP_ATTR_INT, &index, diag));
        const hyp_rw_fact *tuple = hyp_rw_fact_of(rw, children[1]);
        if (tuple->kind != HYP_RW_TUPLE || index.i < 0 || index.i >= tuple->count)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "get: there is no output %lld", (long long)index.i);
        *out_shape = HYP_RW_IS_GET;
        *out_index = (uint32_t)index.i;
        out->inputs = children + 1;
        out->input_count = 1;
        return HYP_OK;
    }
    if (s->head != HYP_RW_SYM_OP) return hyp_fail(diag, HYP_ERR_MALFORMED, "'%s' is no operator", name);
    const hyp_op_info *info = hyp_op_get(s->op);
    if (count < info->attr_count)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: %u attributes are wanted", name, info->attr_count);
    *out_shape = HYP_RW_IS_OP;
    out->op = s->op;
    for (uint32_t i = 0; i < info->attr_count; i++)
        HYP_TRY(literal_child(rw, children[i], info->attrs[i].kind, &out->attrs[i], diag));
    out->inputs = children + info->attr_count;
    out->input_count = (uint32_t)count - info->attr_count;
    return HYP_OK;
}

hyp_status hyp_rw_visit_nodes(hyp_rw *rw, hyp_rw_visit_fn *visit, void *user, hyp_diag *diag)
{
    size_t bound = hyp_egraph_enode_bound(rw->eg);
    for (hyp_class_id c = 0; c < bound; c++) {
        size_t count;
        if (hyp_egraph_find(rw->eg, c) != c) continue;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, c, &count);
        for (size_t i = 0; i < count; i++) {
            hyp_rw_shape shape;
            hyp_rw_node n;
            uint32_t index;
            HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &index, &n, diag));
            HYP_TRY(visit(user, nodes[i], c, shape, &n));
        }
    }
    return HYP_OK;
}

/* ---- small constants ------------------------------------------------------------------------------ */

static bool small_type(const hyp_type *t, size_t *out_count)
{
    size_t count = 1;
    for (int32_t i = 0; i < t->rank; i++) {
        if (!hyp_dim_is_const(t->dims[i]) || t->dims[i] > SMALL) return false;
        count *= (size_t)t->dims[i];
        if (count > SMALL) return false;
    }
    *out_count = count;
    return true;
}

hyp_status hyp_rw_folds(hyp_rw *rw, const hyp_rw_node *n, const hyp_infer_value *results, uint32_t count,
                        bool *out_folds, uint64_t *out_work, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_reserve(&rw->types, (size_t)n->input_count + count, diag));
    const hyp_type **in = rw->types.data, **out = in + n->input_count;
    *out_work = 0;
    for (uint32_t i = 0; i < n->input_count; i++) {
        const hyp_rw_fact *f = hyp_rw_fact_of(rw, n->inputs[i]);
        in[i] = hyp_rw_is_none(rw, f) ? NULL : &f->values[0].type;
        if (in[i] && __builtin_add_overflow(*out_work, f->work, out_work)) *out_work = UINT64_MAX;
    }
    for (uint32_t i = 0; i < count; i++) out[i] = &results[i].type;
    *out_folds = hyp_fold_fits(&rw->fold, n->op, n->attrs, in, n->input_count, out, count, out_work);
    return HYP_OK;
}

/* Evaluates a node of one output whose inputs are small constants; leaves the fact alone when they are not. */
static hyp_status fold(hyp_rw *rw, const hyp_rw_node *n, hyp_rw_fact *fact, hyp_diag *diag)
{
    enum { MAX_INPUTS = 8 };
    hyp_tensor tensors[MAX_INPUTS] = {{0}};
    const hyp_tensor *in[MAX_INPUTS] = {0};
    hyp_eval_tensor result = {0};
    size_t count;
    if (!fact->constant || fact->kind != HYP_RW_TENSOR || n->input_count > MAX_INPUTS) return HYP_OK;
    if (!small_type(&fact->values[0].type, &count)) return HYP_OK;
    for (uint32_t i = 0; i < n->input_count; i++) {
        const hyp_rw_fact *f = hyp_rw_fact_of(rw, n->inputs[i]);
        size_t elements;
        if (hyp_rw_is_none(rw, f)) continue;
        const hyp_type *t = &f->values[0].type;
        if (!f->data || !small_type(t, &elements)) return HYP_OK;
        tensors[i] =
            (hyp_tensor){.data = (void *)(uintptr_t)f->data, .bytes = f->bytes, .dtype = t->dtype, .rank = t->rank};
        memcpy(tensors[i].dims, t->dims, sizeof t->dims); /* static, so the dims are their values */
        in[i] = &tensors[i];
    }
    hyp_status status = hyp_constants_node(rw->dims, n->op, n->attrs, in, n->input_count, &result, diag);
    if (status != HYP_OK) return status == HYP_ERR_NO_MEMORY ? status : HYP_OK;
    size_t bytes = result.count * hyp_dtype_size(result.dtype);
    void *data = hyp_arena_alloc(&rw->arena, bytes);
    if (data) {
        hyp_eval_tensor_store(&result, data);
        fact->data = data;
        fact->bytes = bytes;
    }
    hyp_eval_tensor_dispose(&result);
    return data ? HYP_OK : hyp_fail_memory(diag, bytes);
}

/* A tensor of sizes that are all known is a constant, whatever it was taken from. */
static hyp_status note_content(hyp_rw *rw, hyp_rw_fact *fact, hyp_diag *diag)
{
    const hyp_infer_value *v = fact->values;
    if (fact->kind != HYP_RW_TENSOR || fact->constant || !v->content || !hyp_type_is_static(&v->type)) return HYP_OK;
    for (uint32_t i = 0; i < v->content_count; i++)
        if (!hyp_dim_is_const(v->content[i])) return HYP_OK;
    size_t bytes = v->content_count * hyp_dtype_size(v->type.dtype);
    void *data = hyp_arena_alloc(&rw->arena, bytes);
    if (!data) return hyp_fail_memory(diag, bytes);
    for (uint32_t i = 0; i < v->content_count; i++) hyp_store_i64(v->type.dtype, data, i, v->content[i]);
    fact->constant = true;
    fact->work = 0;
    fact->data = data;
    fact->bytes = bytes;
    return HYP_OK;
}

/* ---- make ----------------------------------------------------------------------------------------- */

/* How many outputs a node has: those of a split are counted by its sizes, those of a custom operator by their types, those of
 * other operators with any number by their inputs. */
static uint32_t output_count(const hyp_rw_node *n, bool *out_tuple)
{
    const hyp_op_info *info = hyp_op_get(n->op);
    *out_tuple = info->outputs != 1;
    if (info->outputs != HYP_VARIADIC) return info->outputs;
    uint32_t list;
    bool counted = hyp_op_find_attr(n->op, "sizes", &list) || hyp_op_find_attr(n->op, "types", &list);
    return counted ? n->attrs[list].count : n->input_count;
}

/* Whether an operator's results have bits that are fixed by those of its inputs: integers always do, and the power 2 is
 * a product (hyp_pow_f64). */
static bool fixes_bits(const hyp_rw *rw, const hyp_rw_node *n, const hyp_rw_fact *fact)
{
    if (hyp_op_get(n->op)->flags & (HYP_OPF_DETERMINED | HYP_OPF_VIEW | HYP_OPF_COPY)) return true;
    bool reals = false;
    for (uint32_t i = 0; i < fact->count; i++) reals = reals || hyp_dtype_is_float(fact->values[i].type.dtype);
    if (!reals || n->op != HYP_OP_pow) return !reals;
    const hyp_rw_fact *power = hyp_rw_fact_of(rw, n->inputs[1]);
    hyp_dtype t = power->values[0].type.dtype;
    size_t count = power->data ? power->bytes / hyp_dtype_size(t) : 0;
    for (size_t i = 0; i < count; i++) {
        double v = hyp_load_f64(t, power->data, i);
        if (v != 1 && v != 2) return false;
    }
    return count > 0;
}

static hyp_status make_op(hyp_rw *rw, const hyp_rw_node *n, hyp_rw_fact *fact, hyp_diag *diag)
{
    rw->inputs.len = 0;
    HYP_TRY(hyp_vec_reserve(&rw->inputs, n->input_count, diag));
    fact->constant = fact->determined = true;
    for (uint32_t i = 0; i < n->input_count; i++) {
        const hyp_rw_fact *f = hyp_rw_fact_of(rw, n->inputs[i]);
        bool absent = hyp_rw_is_none(rw, f);
        if (!absent && f->kind != HYP_RW_TENSOR)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: input %u is no tensor", hyp_op_get(n->op)->name, i);
        fact->constant = fact->constant && (absent || f->constant);
        fact->determined = fact->determined && (absent || f->determined);
        rw->inputs.data[rw->inputs.len++] = absent ? NULL : f->values;
    }
    bool tuple;
    fact->count = output_count(n, &tuple);
    hyp_infer_value *values = hyp_arena_zalloc(&rw->arena, fact->count, sizeof *values);
    if (!values) return hyp_fail_memory(diag, fact->count * sizeof *values);
    hyp_status status =
        hyp_infer(rw->dims, &rw->arena, n->op, n->attrs, rw->inputs.data, n->input_count, values, fact->count, diag);
    if (status == HYP_ERR_NO_MEMORY || status == HYP_ERR_INTERNAL) return status;
    if (status != HYP_OK) { /* a rule that makes it does not apply there */
        if (diag) diag->status = HYP_ERR_MALFORMED;
        return HYP_ERR_MALFORMED;
    }
    fact->kind = tuple ? HYP_RW_TUPLE : HYP_RW_TENSOR;
    fact->values = values;
    fact->determined = fact->determined && fixes_bits(rw, n, fact);
    bool of_constants = fact->constant;
    if (of_constants) HYP_TRY(hyp_rw_folds(rw, n, values, fact->count, &fact->constant, &fact->work, diag));
    rw->unfolded += of_constants && !fact->constant;
    HYP_TRY(note_content(rw, fact, diag));
    return fact->data ? HYP_OK : fold(rw, n, fact, diag);
}

static hyp_status make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    hyp_rw *rw = user;
    hyp_rw_fact *fact = data;
    hyp_rw_shape shape;
    hyp_rw_node n;
    uint32_t index;
    memset(fact, 0, sizeof *fact);
    fact->first = node;
    HYP_TRY(hyp_rw_inspect(rw, node, &shape, &index, &n, diag));
    if (shape == HYP_RW_IS_OP) return make_op(rw, &n, fact, diag);
    if (shape == HYP_RW_IS_LITERAL) {
        fact->kind = HYP_RW_LITERAL;
        fact->literal = hyp_enode_op(eg, node);
    } else if (shape == HYP_RW_IS_GET) {
        const hyp_rw_fact *tuple = hyp_rw_fact_of(rw, n.inputs[0]);
        fact->kind = HYP_RW_TENSOR;
        fact->constant = tuple->constant;
        fact->determined = tuple->determined;
        fact->work = tuple->work;
        fact->count = 1;
        fact->values = tuple->values + index;
    } else {
        const hyp_rw_leaf *leaf = &rw->leaves.data[index];
        hyp_infer_value *value = hyp_arena_alloc(&rw->arena, sizeof *value);
        if (!value) return hyp_fail_memory(diag, sizeof *value);
        *value = leaf->value;
        *fact = (hyp_rw_fact){.kind = HYP_RW_TENSOR,
                              .constant = !leaf->is_input,
                              .determined = true,
                              .count = 1,
                              .values = value,
                              .data = leaf->data,
                              .bytes = leaf->bytes,
                              .first = node};
    }
    return HYP_OK;
}

/* ---- merge ---------------------------------------------------------------------------------------- */

static hyp_status disagree(hyp_rw *rw, const hyp_type *a, const hyp_type *b, hyp_diag *diag)
{
    hyp_strbuf ta = {0}, tb = {0};
    hyp_type_print(&ta, rw->dims, a);
    hyp_type_print(&tb, rw->dims, b);
    hyp_status status = hyp_fail(diag, HYP_ERR_MALFORMED, "terms of the types %s and %s cannot be equal",
                                 hyp_strbuf_text(&ta), hyp_strbuf_text(&tb));
    hyp_strbuf_dispose(&ta);
    hyp_strbuf_dispose(&tb);
    return status;
}

static hyp_status agree(hyp_egraph *eg, const void *x, const void *y, void *user, hyp_diag *diag)
{
    hyp_rw *rw = user;
    const hyp_rw_fact *a = x, *b = y;
    if (a->kind == 0 || b->kind == 0) return HYP_OK;
    if (a->kind != b->kind || a->count != b->count)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "terms of different kinds cannot be equal");
    if (a->kind == HYP_RW_LITERAL && a->literal != b->literal)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the literals %s and %s cannot be equal",
                        hyp_egraph_symbol_name(eg, a->literal), hyp_egraph_symbol_name(eg, b->literal));
    for (uint32_t i = 0; a->kind != HYP_RW_LITERAL && i < a->count; i++)
        if (!hyp_type_equal(&a->values[i].type, &b->values[i].type))
            return disagree(rw, &a->values[i].type, &b->values[i].type, diag);
    return HYP_OK;
}

/* Takes over from b the contents of integer tensors that a does not know. */
static hyp_status merge_values(hyp_rw *rw, hyp_rw_fact *a, const hyp_rw_fact *b, bool *out_changed, hyp_diag *diag)
{
    bool more = false;
    for (uint32_t i = 0; i < a->count; i++) more = more || (!a->values[i].content && b->values[i].content);
    if (!more) return HYP_OK;
    hyp_infer_value *values = hyp_arena_zalloc(&rw->arena, a->count, sizeof *values);
    if (!values) return hyp_fail_memory(diag, a->count * sizeof *values);
    for (uint32_t i = 0; i < a->count; i++) values[i] = a->values[i].content ? a->values[i] : b->values[i];
    a->values = values;
    *out_changed = true;
    return HYP_OK;
}

static hyp_status merge(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag)
{
    hyp_rw *rw = user;
    hyp_rw_fact *a = into;
    const hyp_rw_fact *b = from;
    *out_changed = false;
    if (b->kind == 0) return HYP_OK;
    if (a->kind == 0) {
        *a = *b;
        *out_changed = true;
        return HYP_OK;
    }
    if (agree(eg, a, b, rw, diag) != HYP_OK) { /* a rule was asked before it united them: only a bug leads here */
        hyp_diag_prefix(diag, "the analysis contradicts itself");
        return HYP_ERR_INTERNAL;
    }
    if (a->kind == HYP_RW_LITERAL) return HYP_OK;
    HYP_TRY(merge_values(rw, a, b, out_changed, diag));
    if (b->constant && (!a->constant || b->work < a->work))
        a->work = b->work; /* of the cheapest; for a limit: no change */
    if (b->constant && !a->constant) a->constant = *out_changed = true;
    if (b->determined && !a->determined) a->determined = *out_changed = true;
    if (b->data && !a->data) {
        a->data = b->data;
        a->bytes = b->bytes;
        *out_changed = true;
    }
    if (b->first < a->first) a->first = b->first; /* for texts only: no change */
    return HYP_OK;
}

/* ---- what must keep its bits ---------------------------------------------------------------------- */

bool hyp_rw_may_unite(const hyp_rw *rw, const hyp_rule_info *rule, hyp_class_id left, hyp_class_id right)
{
    if (!rw->keeps_bits) return true;
    bool determined = hyp_rw_fact_of(rw, left)->determined;
    if (right != HYP_NONE && hyp_rw_fact_of(rw, right)->determined != determined) return false;
    return !determined || !rule->numeric_class[0] || strcmp(rule->numeric_class, "E") == 0;
}

static bool may_unite(void *rw, const hyp_rule_info *rule, hyp_class_id left, hyp_class_id right)
{
    return hyp_rw_may_unite(rw, rule, left, right);
}

void hyp_rw_guard(hyp_rw *rw, hyp_ruleset *rules) { hyp_ruleset_guard(rules, may_unite, rw); }

hyp_analysis hyp_rw_analysis(hyp_rw *rw)
{
    return (hyp_analysis){.data_size = sizeof(hyp_rw_fact), .user = rw, .make = make, .merge = merge, .agree = agree};
}

/* ---- arguments of conditions and functions ---------------------------------------------------------- */

hyp_status hyp_rw_literal_arg(const hyp_call *call, size_t i, hyp_attr_kind kind, hyp_attr *out, hyp_diag *diag)
{
    const hyp_rw_fact *f = hyp_rw_fact_of(call->user, call->args[i]);
    if (f->kind != HYP_RW_LITERAL)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "argument %zu is a tensor, the value of an attribute is wanted",
                        i + 1);
    return read_attr(call->user, f->literal, kind, out, diag);
}

const hyp_type *hyp_rw_type_arg(const hyp_call *call, size_t i)
{
    const hyp_rw_fact *f = hyp_rw_fact_of(call->user, call->args[i]);
    return f->kind == HYP_RW_TENSOR ? &f->values->type : NULL;
}

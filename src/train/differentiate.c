/* differentiate.c - reverse-mode differentiation: which nodes lie between, and their gradients, last node first. */
#include <string.h>

#include "train/form.h"
#include "train/gradient.h"
#include "train/parts.h"
#include "train/train.h"

typedef struct forms {    /* of one operator's gradient */
    const hyp_sexpr *all; /* NULL: not read yet */
    uint32_t lets;        /* how many of the first are (let NAME FORM) */
} forms;

typedef struct pass {
    const hyp_graph *g; /* its nodes and values up to those counts; more may be behind them */
    size_t nodes, values;
    forms read[HYP_OP_COUNT];
    bool *depends; /* by value: on one of the wrt values */
    bool *wanted;  /* by value: the loss depends on it */
    hyp_value_id *gradients;
    HYP_VEC(hyp_part) parts; /* gradients of parts, of all values; by value: */
    uint32_t *last_part;     /* + 1; 0: there is none that is not in its gradient yet */
    hyp_builder b;
} pass;

/* ---- what the forms say ----------------------------------------------------------------------------- */

static const forms *forms_of(pass *p, hyp_op op)
{
    forms *f = &p->read[op];
    const char *text = hyp_op_get(op)->gradient;
    if (f->all || !text) return f;
    f->all = hyp_form_read(&p->b, text);
    while (f->all && f->lets < f->all->count && hyp_form_is_let(NULL, f->all->items[f->lets])) f->lets++;
    return f;
}

/* Whether an attribute is what a form says: a word or an integer. */
static bool attr_is(const hyp_node *n, const hyp_sexpr *name, const hyp_sexpr *value)
{
    uint32_t index;
    if (!hyp_op_find_attr(n->op, name->text, &index)) return false;
    const hyp_attr *a = &n->attrs[index];
    return a->kind == HYP_ATTR_SYM ? hyp_sexpr_is(value, a->sym) : value->kind == HYP_SX_INT && a->i == value->integer;
}

typedef enum verdict { NOTHING, GRADIENT, MISSING } verdict;

/* The form of the gradient by an input, where it has one. (by ATTRIBUTE (VALUE FORM)...) chooses; the value `else` is
 * any. */
static verdict form_of(pass *p, const hyp_node *n, uint32_t input, const hyp_sexpr **out)
{
    const hyp_op_info *info = hyp_op_get(n->op);
    hyp_value_id v = n->inputs[input];
    if (v == HYP_NO_VALUE || !hyp_dtype_is_float(p->g->values.data[v].type.dtype)) return NOTHING;
    if (!info->gradient) return MISSING;
    const forms *f = forms_of(p, n->op);
    uint32_t at = f->lets + (info->max_inputs == HYP_VARIADIC ? 0 : input);
    if (!f->all || at >= f->all->count) return MISSING;
    const hyp_sexpr *form = f->all->items[at];
    if (hyp_sexpr_is_form(form, "by")) {
        uint32_t i = 2;
        while (i < form->count && !hyp_sexpr_is(form->items[i]->items[0], "else") &&
               !attr_is(n, form->items[1], form->items[i]->items[0]))
            i++;
        if (i == form->count) return MISSING;
        form = form->items[i]->items[1];
    }
    *out = form;
    return hyp_sexpr_is(form, "none") ? NOTHING : GRADIENT;
}

/* ---- what lies between ------------------------------------------------------------------------------ */

static bool any_output(const hyp_node *n, const bool *of)
{
    for (uint32_t o = 0; o < n->output_count; o++)
        if (of[n->outputs[o]]) return true;
    return false;
}

static bool carries(const pass *p, hyp_value_id v) { return hyp_dtype_is_float(p->g->values.data[v].type.dtype); }

static void mark_dependent(pass *p)
{
    const hyp_sexpr *form;
    for (size_t i = 0; i < p->nodes; i++) {
        const hyp_node *n = &p->g->nodes.data[i];
        bool any = false;
        for (uint32_t k = 0; k < n->input_count && !any; k++)
            any = n->inputs[k] != HYP_NO_VALUE && p->depends[n->inputs[k]] && form_of(p, n, k, &form) != NOTHING;
        for (uint32_t o = 0; any && o < n->output_count; o++) p->depends[n->outputs[o]] |= carries(p, n->outputs[o]);
    }
}

static void mark_wanted(pass *p)
{
    const hyp_sexpr *form;
    for (size_t i = p->nodes; i-- > 0;) {
        const hyp_node *n = &p->g->nodes.data[i];
        if (!any_output(n, p->wanted)) continue;
        for (uint32_t k = 0; k < n->input_count; k++)
            if (form_of(p, n, k, &form) != NOTHING) p->wanted[n->inputs[k]] = true;
    }
}

static bool is_between(const pass *p, hyp_value_id v) { return v != HYP_NO_VALUE && p->wanted[v] && p->depends[v]; }

static const char *node_name(const hyp_graph *g, const hyp_node *n)
{
    if (n->from.source_count) return n->from.sources[0];
    const char *value = g->values.data[n->outputs[0]].name;
    return value ? value : "";
}

/* What people call it: a custom operator by its own name. */
static const char *operator_name(const hyp_node *n)
{
    const char *name = n->op == HYP_OP_custom ? strrchr(n->attrs[0].sym, ':') : NULL;
    return name && name[1] ? name + 1 : hyp_op_get(n->op)->name;
}

/* Fails with a list of the nodes that have no gradient, if there are any. */
static hyp_status check_gradients(pass *p)
{
    enum { SHOWN = 20 };
    const hyp_sexpr *form;
    hyp_strbuf list = {0};
    size_t count = 0;
    for (size_t i = 0; i < p->nodes; i++) {
        const hyp_node *n = &p->g->nodes.data[i];
        bool missing = false;
        if (!any_output(n, p->wanted)) continue;
        for (uint32_t k = 0; k < n->input_count && !missing; k++)
            missing = is_between(p, n->inputs[k]) && form_of(p, n, k, &form) == MISSING;
        if (missing && count++ < SHOWN)
            hyp_strbuf_printf(&list, "%s\"%s\" (%s)", count > 1 ? ", " : "", node_name(p->g, n),
                              operator_name(n));
    }
    hyp_status status = p->b.status;
    if (status == HYP_OK && list.failed) status = hyp_fail_memory(p->b.diag, 0);
    if (status == HYP_OK && count)
        status =
            hyp_fail(p->b.diag, HYP_ERR_UNSUPPORTED,
                     "%zu node%s between the loss and what is trained cannot be differentiated: %s%s; what lies before "
                     "them can be frozen",
                     count, count == 1 ? "" : "s", hyp_strbuf_text(&list), count > SHOWN ? ", ..." : "");
    hyp_strbuf_dispose(&list);
    return status;
}

static hyp_status check_values(const pass *p, hyp_value_id from, const hyp_value_id *wrt, size_t count)
{
    hyp_diag *diag = p->b.diag;
    if (from >= p->values || !carries(p, from))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "what is to be differentiated is %s",
                        from >= p->values ? "no value of the graph" : "not of floats");
    for (size_t i = 0; i < count; i++)
        if (wrt[i] >= p->values || !carries(p, wrt[i]))
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "value %zu, by which to differentiate, is %s", i,
                            wrt[i] >= p->values ? "none of the graph" : "not of floats");
    return HYP_OK;
}

static hyp_status begin(pass *p, const hyp_graph *g, hyp_value_id from, const hyp_value_id *wrt, size_t count,
                        hyp_diag *diag)
{
    *p = (pass){.g = g, .nodes = g->nodes.len, .values = g->values.len, .b = {.diag = diag}};
    p->depends = hyp_calloc(p->values, sizeof *p->depends);
    p->wanted = hyp_calloc(p->values, sizeof *p->wanted);
    if (!p->depends || !p->wanted) return hyp_fail_memory(diag, p->values);
    HYP_TRY(check_values(p, from, wrt, count));
    for (size_t i = 0; i < count; i++) p->depends[wrt[i]] = true;
    p->wanted[from] = true;
    mark_dependent(p);
    mark_wanted(p);
    return check_gradients(p);
}

static void end(pass *p)
{
    hyp_free(p->depends);
    hyp_free(p->wanted);
    hyp_free(p->gradients);
    hyp_free(p->last_part);
    hyp_vec_free(&p->parts);
    hyp_builder_dispose(&p->b);
}

hyp_status hyp_gradient_reach(const hyp_graph *g, hyp_value_id from, const hyp_value_id *wrt, size_t count,
                              bool *reached, hyp_diag *diag)
{
    pass p;
    hyp_status status = begin(&p, g, from, wrt, count, diag);
    for (size_t i = 0; i < count && status == HYP_OK; i++) reached[i] = is_between(&p, wrt[i]);
    end(&p);
    return status;
}

/* ---- gradients -------------------------------------------------------------------------------------- */

/* y and g, and y0 y1 ... g0 g1 ... of several. */
static void name_outputs(pass *p, hyp_scope *s)
{
    for (uint32_t o = 0; o < s->node.output_count; o++) {
        char *names = hyp_arena_printf(&p->b.arena, "y%u", o);
        char *of_gradient = hyp_arena_printf(&p->b.arena, "g%u", o);
        if (!names || !of_gradient) {
            hyp_build_note(&p->b, hyp_fail_memory(p->b.diag, 4));
            return;
        }
        hyp_scope_name(s, names, s->node.outputs[o]);
        hyp_scope_name(s, of_gradient, p->gradients[s->node.outputs[o]]);
    }
    hyp_scope_name(s, "y", s->node.outputs[0]);
    hyp_scope_name(s, "g", p->gradients[s->node.outputs[0]]);
}

static void add_gradient(pass *p, hyp_value_id v, hyp_value_id more)
{
    hyp_value_id *sum = &p->gradients[v];
    *sum = *sum == HYP_NO_VALUE ? more : hyp_build_node(&p->b, HYP_OP_add, NULL, *sum, more);
}

/* Keeps the gradient of a part that a slice took until all of them are known; false for what takes no such part. */
static bool keep_part(pass *p, const hyp_node *node)
{
    hyp_value_id v = node->inputs[0];
    hyp_type x = p->g->values.data[v].type;
    hyp_part part;
    if (node->op != HYP_OP_slice || !hyp_part_of_slice(node, &x, &part)) return false;
    part.gradient = p->gradients[node->outputs[0]];
    part.next = p->last_part[v];
    hyp_build_note(&p->b, hyp_vec_push(&p->parts, p->b.diag, part));
    if (hyp_build_ok(&p->b)) p->last_part[v] = (uint32_t)p->parts.len;
    return true;
}

/* The gradient by a value all of whose readers were seen. */
static hyp_value_id gradient_of(pass *p, hyp_value_id v)
{
    size_t count = 0;
    if (!p->last_part[v]) return p->gradients[v];
    for (uint32_t i = p->last_part[v]; i; i = p->parts.data[i - 1].next) count++;
    hyp_type x = p->g->values.data[v].type;
    hyp_part *parts = hyp_arena_zalloc(&p->b.arena, count, sizeof *parts);
    if (!parts) hyp_build_note(&p->b, hyp_fail_memory(p->b.diag, count * sizeof *parts));
    for (uint32_t i = p->last_part[v], at = 0; parts && i; i = p->parts.data[i - 1].next) parts[at++] = p->parts.data[i - 1];
    p->last_part[v] = 0;
    while (count && hyp_build_ok(&p->b)) add_gradient(p, v, hyp_parts_join(&p->b, &x, parts, &count));
    return p->gradients[v];
}

static void differentiate_node(pass *p, const hyp_node *node)
{
    const hyp_sexpr *form = NULL;
    hyp_scope s = {.b = &p->b, .node = *node, .numbers = p->g->values.data[node->outputs[0]].type.dtype};
    const forms *f = forms_of(p, node->op);
    name_outputs(p, &s);
    hyp_scope_name_inputs(&s);
    for (uint32_t i = 0; f->all && i < f->lets; i++) hyp_form_is_let(&s, f->all->items[i]);
    for (uint32_t i = 0; i < s.node.input_count && hyp_build_ok(&p->b); i++) {
        hyp_value_id v = s.node.inputs[i];
        if (!is_between(p, v) || form_of(p, &s.node, i, &form) != GRADIENT || keep_part(p, &s.node)) continue;
        hyp_type type = hyp_build_type(&p->b, v);
        s.input = i;
        if (hyp_op_get(s.node.op)->max_inputs == HYP_VARIADIC)
            s.made.len = 0; /* one form, of another input each time */
        hyp_value_id more = hyp_form_build(&s, form);
        add_gradient(p, v, hyp_build_fit(&p->b, more, &type));
    }
    if (!hyp_build_ok(&p->b))
        hyp_diag_prefix(p->b.diag, "the gradient of node \"%s\" (%s)", node_name(p->g, &s.node),
                        hyp_op_get(s.node.op)->name);
    hyp_scope_dispose(&s);
}

static hyp_status differentiate(pass *p, hyp_value_id from, hyp_value_id gradient)
{
    p->gradients = hyp_malloc(p->values * sizeof *p->gradients);
    if (!p->gradients) return hyp_fail_memory(p->b.diag, p->values * sizeof *p->gradients);
    memset(p->gradients, 0xff, p->values * sizeof *p->gradients); /* HYP_NO_VALUE */
    p->last_part = hyp_calloc(p->values, sizeof *p->last_part);
    if (!p->last_part) return hyp_fail_memory(p->b.diag, p->values * sizeof *p->last_part);
    p->gradients[from] = gradient;
    for (size_t i = p->nodes; i-- > 0 && hyp_build_ok(&p->b);) {
        hyp_node n = p->g->nodes.data[i]; /* a copy, for nodes move when more are added */
        bool any = false;
        p->b.from = (hyp_provenance){.sources = n.from.sources, .source_count = n.from.source_count};
        for (uint32_t o = 0; o < n.output_count; o++) any |= gradient_of(p, n.outputs[o]) != HYP_NO_VALUE;
        if (any) differentiate_node(p, &n);
    }
    return p->b.status;
}

hyp_status hyp_gradient_from(hyp_graph *g, hyp_value_id from, hyp_value_id gradient, const hyp_value_id *wrt,
                             size_t count, hyp_value_id *gradients, hyp_diag *diag)
{
    pass p;
    hyp_status status = begin(&p, g, from, wrt, count, diag);
    p.b.g = g;
    if (status == HYP_OK) status = differentiate(&p, from, gradient);
    p.b.from = (hyp_provenance){0};
    for (size_t i = 0; i < count && status == HYP_OK; i++)
        gradients[i] = is_between(&p, wrt[i]) ? gradient_of(&p, wrt[i]) : HYP_NO_VALUE;
    if (status == HYP_OK) status = p.b.status;
    end(&p);
    return status;
}

hyp_status hyp_differentiate(hyp_graph *g, hyp_value_id loss, const hyp_value_id *wrt, size_t count,
                             hyp_value_id *gradients, hyp_diag *diag)
{
    const hyp_type *type = loss < g->values.len ? &g->values.data[loss].type : NULL;
    hyp_builder b = {.g = g, .diag = diag};
    if (type && type->rank != 0) {
        hyp_strbuf text = {0};
        hyp_type_print(&text, g->dims, type);
        hyp_status status =
            hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                     "the loss is %s, a scalar of floats is wanted; reduce it in the model, by a mean, say",
                     hyp_strbuf_text(&text));
        hyp_strbuf_dispose(&text);
        return status;
    }
    hyp_value_id one = type && hyp_dtype_is_float(type->dtype) ? hyp_build_scalar(&b, type->dtype, 1) : HYP_NO_VALUE;
    hyp_status status = b.status;
    hyp_builder_dispose(&b);
    return status == HYP_OK ? hyp_gradient_from(g, loss, one, wrt, count, gradients, diag) : status;
}

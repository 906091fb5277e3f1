/* form.c - terms of the gradients' text form made into nodes. */
#include "train/form.h"

#include <string.h>

void hyp_scope_dispose(hyp_scope *s)
{
    hyp_vec_free(&s->names);
    hyp_vec_free(&s->made);
}

/* ---- names ------------------------------------------------------------------------------------------ */

static void push_name(hyp_scope *s, hyp_form_name name)
{
    hyp_build_note(s->b, hyp_vec_push(&s->names, s->b->diag, name));
}

void hyp_scope_name(hyp_scope *s, const char *name, hyp_value_id value)
{
    push_name(s, (hyp_form_name){.name = name, .length = strlen(name), .value = value});
}

void hyp_scope_name_number(hyp_scope *s, const char *name, double value)
{
    hyp_scope_name(s, name, hyp_build_scalar(s->b, s->numbers, value));
}

void hyp_scope_name_inputs(hyp_scope *s)
{
    const char *at = hyp_op_get(s->node.op)->doc;
    if (*at != '(') {
        hyp_scope_name(s, "x", s->node.inputs[0]);
        return;
    }
    for (uint32_t i = 0; *at != ')' && *at; i++) {
        size_t length = strcspn(++at, " )");
        hyp_form_name name = {
            .name = at, .length = length, .value = i < s->node.input_count ? s->node.inputs[i] : HYP_NO_VALUE};
        hyp_build_note(s->b, hyp_vec_push(&s->names, s->b->diag, name));
        at += length;
    }
}

/* The name that was given last counts. */
static const hyp_form_name *find_name(const hyp_scope *s, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = s->names.len; i-- > 0;) {
        const hyp_form_name *n = &s->names.data[i];
        if (n->length == length && memcmp(n->name, name, length) == 0) return n;
    }
    return NULL;
}

hyp_value_id hyp_scope_find(hyp_scope *s, const char *name)
{
    const hyp_form_name *n = find_name(s, name);
    if (!n) return HYP_NO_VALUE;
    return n->form ? hyp_form_build(s, n->form) : n->value;
}

static const hyp_attr *find_attr(const hyp_scope *s, const char *name)
{
    uint32_t index;
    return s->node.attrs && hyp_op_find_attr(s->node.op, name, &index) ? &s->node.attrs[index] : NULL;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

const hyp_sexpr *hyp_form_read(hyp_builder *b, const char *text)
{
    const hyp_sexpr *forms = NULL;
    if (hyp_build_ok(b)) hyp_build_note(b, hyp_sexpr_parse(&b->arena, "gradient", text, strlen(text), &forms, b->diag));
    return hyp_build_ok(b) ? forms : NULL;
}

static hyp_value_id wrong(hyp_scope *s, const hyp_sexpr *form, const char *what)
{
    if (hyp_build_ok(s->b))
        hyp_build_note(s->b, hyp_sexpr_fail(s->b->diag, "gradient", form, HYP_ERR_INTERNAL, "%s: '%s'", what,
                                            form->text ? form->text : "(...)"));
    return HYP_NO_VALUE;
}

bool hyp_form_equal(const hyp_sexpr *a, const hyp_sexpr *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->count != b->count) return false;
    if (a->kind != HYP_SX_LIST) return strcmp(a->text, b->text) == 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (!hyp_form_equal(a->items[i], b->items[i])) return false;
    return true;
}

bool hyp_form_is_let(hyp_scope *s, const hyp_sexpr *form)
{
    if (!hyp_sexpr_is_form(form, "let")) return false;
    if (s && form->count == 3 && form->items[1]->kind == HYP_SX_SYMBOL)
        push_name(s, (hyp_form_name){.name = form->items[1]->text,
                                     .length = strlen(form->items[1]->text),
                                     .value = HYP_NO_VALUE,
                                     .form = form->items[2]});
    else if (s)
        wrong(s, form, "(let NAME FORM) is wanted");
    return true;
}

/* ---- operands --------------------------------------------------------------------------------------- */

/* The number that a form is, be it written or an attribute of the node's. */
static bool is_number(const hyp_scope *s, const hyp_sexpr *form, double *out)
{
    if (form->kind == HYP_SX_INT || form->kind == HYP_SX_FLOAT) return *out = form->number, true;
    if (form->kind != HYP_SX_SYMBOL || find_name(s, form->text)) return false;
    const hyp_attr *a = find_attr(s, form->text);
    if (!a || (a->kind != HYP_ATTR_INT && a->kind != HYP_ATTR_FLOAT)) return false;
    *out = a->kind == HYP_ATTR_INT ? (double)a->i : a->f;
    return true;
}

/* Operands from item `first` on. Numbers are of the type of the first operand that is no number and no bool. */
static void build_operands(hyp_scope *s, const hyp_sexpr *form, uint32_t first, hyp_value_id *out)
{
    hyp_dtype numbers = HYP_DTYPE_NONE;
    double number;
    for (uint32_t i = first; i < form->count; i++) {
        if (is_number(s, form->items[i], &number)) continue;
        out[i - first] = hyp_form_build(s, form->items[i]);
        hyp_dtype have = hyp_build_type(s->b, out[i - first]).dtype;
        if (numbers == HYP_DTYPE_NONE && have != HYP_BOOL && out[i - first] != HYP_NO_VALUE) numbers = have;
    }
    if (numbers == HYP_DTYPE_NONE) numbers = s->numbers;
    for (uint32_t i = first; i < form->count; i++)
        if (is_number(s, form->items[i], &number)) out[i - first] = hyp_build_scalar(s->b, numbers, number);
}

/* ---- attributes ------------------------------------------------------------------------------------- */

/* An attribute of a term: that of the node where it is a name of one, 1 where the one in (not NAME) is 0, or as it is
 * written. An axis where a list is wanted is a list of one. */
static hyp_attr read_attr(hyp_scope *s, const hyp_sexpr *value, hyp_attr_kind kind)
{
    bool inverted = hyp_sexpr_is_form(value, "not") && value->count == 2;
    const hyp_sexpr *name = inverted ? value->items[1] : value;
    const hyp_attr *of_node = name->kind == HYP_SX_SYMBOL ? find_attr(s, name->text) : NULL;
    hyp_attr out = of_node ? *of_node : (hyp_attr){.kind = kind};
    if (!of_node && hyp_build_ok(s->b))
        hyp_build_note(s->b, hyp_attr_parse(&s->b->arena, s->b->g->dims, "gradient", value, kind, &out, s->b->diag));
    if (inverted) out.i = !out.i;
    if (kind == HYP_ATTR_DIMS && out.kind == HYP_ATTR_INT) {
        hyp_dim *list = hyp_arena_alloc(&s->b->arena, sizeof *list);
        if (!list)
            hyp_build_note(s->b, hyp_fail_memory(s->b->diag, sizeof *list));
        else
            *list = out.i;
        out = hyp_attr_of_dims(list, list ? 1 : 0);
    }
    return out;
}

/* Reads the attributes of an operator's term; returns the place of its first operand. */
static uint32_t read_attrs(hyp_scope *s, const hyp_sexpr *form, hyp_op op, hyp_attr *attrs)
{
    const hyp_op_info *info = hyp_op_get(op);
    bool given[HYP_MAX_ATTRS] = {false};
    uint32_t at = 1, index;
    for (uint32_t i = 0; i < info->attr_count; i++)
        if (!info->attrs[i].required) attrs[i] = hyp_attr_default(&info->attrs[i]);
    for (; at + 1 < form->count && form->items[at]->kind == HYP_SX_SYMBOL && form->items[at]->text[0] == ':'; at += 2) {
        if (!hyp_op_find_attr(op, form->items[at]->text + 1, &index)) {
            wrong(s, form->items[at], "the operator has no such attribute");
            break;
        }
        attrs[index] = read_attr(s, form->items[at + 1], info->attrs[index].kind);
        given[index] = true;
    }
    for (uint32_t i = 0; i < info->attr_count; i++)
        if (info->attrs[i].required && !given[i]) wrong(s, form->items[0], "an attribute is missing");
    return at;
}

/* ---- terms ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    uint32_t count;
    hyp_head_fn *make;
} heads[] = {
#define X(name, count, function) {name, count, hyp_head_##function},
    HYP_HEADS(X)
#undef X
};

enum { MAX_OPERANDS = 4 };

/* (output N FORM): of an operator's results, the first of which a form of it stands for, number N. */
static hyp_value_id build_result(hyp_scope *s, const hyp_sexpr *form)
{
    if (form->count != 3 || form->items[1]->kind != HYP_SX_INT) return wrong(s, form, "(output N FORM) is wanted");
    hyp_value_id v = hyp_form_build(s, form->items[2]);
    if (!hyp_build_ok(s->b) || v == HYP_NO_VALUE) return HYP_NO_VALUE;
    const hyp_value *value = &s->b->g->values.data[v];
    const hyp_node *node = value->kind == HYP_VALUE_NODE ? &s->b->g->nodes.data[value->producer] : NULL;
    if (!node || form->items[1]->integer < 0 || form->items[1]->integer >= node->output_count)
        return wrong(s, form, "there is no such result");
    return node->outputs[form->items[1]->integer];
}

static hyp_value_id build_list(hyp_scope *s, const hyp_sexpr *form)
{
    hyp_value_id operands[MAX_OPERANDS];
    hyp_attr attrs[HYP_MAX_ATTRS];
    hyp_op op;
    if (form->count == 0 || form->items[0]->kind != HYP_SX_SYMBOL) return wrong(s, form, "a term is wanted");
    const char *head = form->items[0]->text;
    if (strcmp(head, "output") == 0) return build_result(s, form);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (strcmp(heads[i].name, head) != 0) continue;
        if (form->count != heads[i].count + 1) return wrong(s, form->items[0], "another number of arguments is wanted");
        build_operands(s, form, 1, operands);
        return hyp_build_ok(s->b) ? heads[i].make(s, operands) : HYP_NO_VALUE;
    }
    if (!hyp_op_find(head, &op)) return wrong(s, form->items[0], "no operator and no head is called so");
    uint32_t first = read_attrs(s, form, op, attrs);
    if (form->count - first > MAX_OPERANDS) return wrong(s, form->items[0], "too many operands");
    build_operands(s, form, first, operands);
    uint32_t results = hyp_op_get(op)->outputs;
    return hyp_build_output(s->b, op, attrs, operands, form->count - first, results == HYP_VARIADIC ? 1 : results, 0);
}

hyp_value_id hyp_form_build(hyp_scope *s, const hyp_sexpr *form)
{
    double number;
    if (!hyp_build_ok(s->b)) return HYP_NO_VALUE;
    if (is_number(s, form, &number)) return hyp_build_scalar(s->b, s->numbers, number);
    if (form->kind == HYP_SX_SYMBOL) {
        if (!find_name(s, form->text) && strcmp(form->text, "none") != 0)
            return wrong(s, form, "no value is called so");
        return hyp_scope_find(s, form->text);
    }
    if (form->kind != HYP_SX_LIST) return wrong(s, form, "a term is wanted");
    for (size_t i = 0; i < s->made.len; i++)
        if (hyp_form_equal(s->made.data[i].form, form)) return s->made.data[i].value;
    hyp_value_id out = build_list(s, form);
    if (hyp_build_ok(s->b)) hyp_build_note(s->b, hyp_vec_push(&s->made, s->b->diag, (hyp_form_made){form, out}));
    return out;
}

hyp_value_id hyp_form_text(hyp_scope *s, const char *text)
{
    const hyp_sexpr *forms = hyp_form_read(s->b, text);
    uint32_t at = 0;
    while (forms && at < forms->count && hyp_form_is_let(s, forms->items[at])) at++;
    if (!forms || at + 1 != forms->count) return forms ? wrong(s, forms, "one form is wanted") : HYP_NO_VALUE;
    return hyp_form_build(s, forms->items[at]);
}

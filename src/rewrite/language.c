/* The language of rules: terms with :attributes, defaults and aliases become the positional terms of the e-graph.
 * docs/rules.md describes it for people. */
#include <stdio.h>
#include <string.h>

#include "base/elementwise.h"
#include "rewrite/internal.h"

/* How an operator is written: an op of the IR, or `get`. */
typedef struct schema {
    const char *name;
    uint32_t min_inputs, max_inputs, attr_count;
    const hyp_attr_info *attrs;
    const hyp_op_alias *alias; /* the name was an alias: this attribute is given by it */
} schema;

typedef struct context {
    hyp_rw *rw;
    hyp_arena *arena;
    const char *file;
    bool is_left;
    hyp_diag *diag;
} context;

static hyp_status term(context *c, const hyp_sexpr *in, const hyp_sexpr **out);

static bool is_variable(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == '?'; }

static bool is_sequence(const hyp_sexpr *sx)
{
    size_t len = is_variable(sx) ? strlen(sx->text) : 0;
    return len > 4 && strcmp(sx->text + len - 3, "...") == 0;
}

static bool is_keyword(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == ':' && sx->text[1]; }

const hyp_rw_callback *const hyp_rw_callbacks[] = {
    hyp_rw_conditions, hyp_rw_product_conditions, hyp_rw_range_conditions, hyp_rw_shape_conditions,
    hyp_rw_functions,  hyp_rw_tensor_functions,   NULL};

static bool is_function(const char *name)
{
    for (const hyp_rw_callback *const *table = hyp_rw_callbacks; *table; table++)
        for (const hyp_rw_callback *r = *table; r->function; r++)
            if (strcmp(r->name, name) == 0) return true;
    return false;
}

static bool find_schema(const char *name, schema *out)
{
    static const hyp_attr_info get_attrs[] = {{"index", HYP_ATTR_INT, true, NULL}};
    size_t alias_count;
    const hyp_op_alias *aliases = hyp_op_aliases(&alias_count);
    hyp_op op = HYP_OP_COUNT;
    *out = (schema){.name = name};
    if (strcmp(name, "get") == 0) {
        *out = (schema){"get", 1, 1, 1, get_attrs, NULL};
        return true;
    }
    for (size_t i = 0; i < alias_count; i++)
        if (strcmp(aliases[i].name, name) == 0) {
            out->alias = &aliases[i];
            op = aliases[i].op;
        }
    if (op == HYP_OP_COUNT && !hyp_op_find(name, &op)) return false;
    const hyp_op_info *info = hyp_op_get(op);
    *out = (schema){info->name, info->min_inputs, info->max_inputs, info->attr_count, info->attrs, out->alias};
    return true;
}

static hyp_status unknown(context *c, const hyp_sexpr *head)
{
    const char *names[HYP_OP_COUNT + 64];
    size_t n = 0;
    for (int i = 0; i < HYP_OP_COUNT; i++) names[n++] = hyp_op_get((hyp_op)i)->name;
    for (const hyp_rw_callback *const *table = hyp_rw_callbacks; *table; table++)
        for (const hyp_rw_callback *r = *table; r->function && n < HYP_OP_COUNT + 60; r++) names[n++] = r->name;
    names[n] = NULL;
    const char *near = hyp_nearest(head->text, names);
    return hyp_sexpr_fail(c->diag, c->file, head, HYP_ERR_MALFORMED, "'%s' is neither an operator nor a function%s%s%s",
                          head->text, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- making items --------------------------------------------------------------------------------- */

/* A leaf with this text, at the place of `at`. */
static hyp_status leaf(context *c, const hyp_sexpr *at, const char *text, const hyp_sexpr **out)
{
    hyp_sexpr *sx = hyp_arena_zalloc(c->arena, 1, sizeof *sx);
    char *copy = hyp_arena_strdup(c->arena, text);
    if (!sx || !copy) return hyp_fail_memory(c->diag, sizeof *sx);
    *sx = (hyp_sexpr){.kind = HYP_SX_STRING, .line = at->line, .column = at->column, .text = copy};
    *out = sx;
    return HYP_OK;
}

static hyp_status new_list(context *c, const hyp_sexpr *at, uint32_t room, hyp_sexpr **out)
{
    hyp_sexpr *sx = hyp_arena_zalloc(c->arena, 1, sizeof *sx);
    if (sx) sx->items = hyp_arena_zalloc(c->arena, room, sizeof *sx->items);
    if (!sx || !sx->items) return hyp_fail_memory(c->diag, room * sizeof *sx->items);
    sx->kind = HYP_SX_LIST;
    sx->line = at->line;
    sx->column = at->column;
    *out = sx;
    return HYP_OK;
}

static void append(hyp_sexpr *list, const hyp_sexpr *item)
{
    list->items[list->count++] = (hyp_sexpr *)(uintptr_t)item;
}

/* ---- attributes ----------------------------------------------------------------------------------- */

static hyp_status call(context *c, const hyp_sexpr *in, const hyp_sexpr **out);

static bool is_call(const hyp_sexpr *sx)
{
    return sx->kind == HYP_SX_LIST && sx->count > 0 && sx->items[0]->kind == HYP_SX_SYMBOL &&
           is_function(sx->items[0]->text);
}

/* The value of an attribute: a variable, a function call, or a literal in its canonical text. */
static hyp_status attribute(context *c, const hyp_attr_info *info, const hyp_sexpr *in, const hyp_sexpr **out)
{
    hyp_attr value;
    hyp_strbuf sb = {0};
    *out = in;
    if (is_variable(in)) return HYP_OK;
    if (is_call(in)) return call(c, in, out);
    hyp_status status = hyp_attr_parse(c->arena, c->rw->dims, c->file, in, info->kind, &value, c->diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(c->diag, "attribute :%s", info->name);
        return status;
    }
    hyp_attr_print(&sb, c->rw->dims, &value);
    status = sb.failed ? hyp_fail_memory(c->diag, sb.len) : leaf(c, in, hyp_strbuf_text(&sb), out);
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status take_attribute(context *c, const schema *s, const hyp_sexpr *key, const hyp_sexpr *value,
                                 const hyp_sexpr *attrs[HYP_MAX_ATTRS])
{
    const char *names[HYP_MAX_ATTRS + 1] = {0};
    for (uint32_t i = 0; i < s->attr_count; i++) {
        names[i] = s->attrs[i].name;
        if (strcmp(key->text + 1, s->attrs[i].name) != 0) continue;
        if (attrs[i])
            return hyp_sexpr_fail(c->diag, c->file, key, HYP_ERR_MALFORMED, "%s: attribute %s is given twice", s->name,
                                  key->text);
        return attribute(c, &s->attrs[i], value, &attrs[i]);
    }
    const char *near = hyp_nearest(key->text + 1, names);
    return hyp_sexpr_fail(c->diag, c->file, key, HYP_ERR_MALFORMED, "%s has no attribute %s%s%s%s", s->name, key->text,
                          near ? "; did you mean :" : "", near ? near : "", near ? "?" : "");
}

/* ---- terms ---------------------------------------------------------------------------------------- */

static hyp_status check_inputs(context *c, const schema *s, const hyp_sexpr *in, uint32_t count, bool has_sequence)
{
    bool too_few = count < s->min_inputs && !has_sequence;
    if (!too_few && (s->max_inputs == HYP_VARIADIC || count <= s->max_inputs)) return HYP_OK;
    char wanted[48];
    if (s->max_inputs == HYP_VARIADIC)
        snprintf(wanted, sizeof wanted, "at least %u", s->min_inputs);
    else if (s->max_inputs != s->min_inputs)
        snprintf(wanted, sizeof wanted, "%u to %u", s->min_inputs, s->max_inputs);
    else
        snprintf(wanted, sizeof wanted, "%u", s->min_inputs);
    return hyp_sexpr_fail(c->diag, c->file, in, HYP_ERR_MALFORMED, "%s takes %s inputs, %u are given", s->name, wanted,
                          count);
}

/* An operator: attributes by name anywhere, inputs in their order. */
static hyp_status operation(context *c, const schema *s, const hyp_sexpr *in, const hyp_sexpr **out)
{
    const hyp_sexpr *attrs[HYP_MAX_ATTRS] = {0}, *item;
    hyp_sexpr *inputs, *result;
    bool has_sequence = false;
    HYP_TRY(new_list(c, in, in->count, &inputs));
    if (s->alias) HYP_TRY(leaf(c, in, s->alias->value, &attrs[s->alias->attr]));
    for (uint32_t i = 1; i < in->count; i++) {
        const hyp_sexpr *sx = in->items[i];
        if (is_keyword(sx)) {
            if (++i == in->count)
                return hyp_sexpr_fail(c->diag, c->file, sx, HYP_ERR_MALFORMED, "%s: %s has no value", s->name,
                                      sx->text);
            HYP_TRY(take_attribute(c, s, sx, in->items[i], attrs));
            continue;
        }
        has_sequence = has_sequence || is_sequence(sx);
        HYP_TRY(term(c, sx, &item));
        append(inputs, item);
    }
    HYP_TRY(check_inputs(c, s, in, inputs->count - has_sequence, has_sequence));
    HYP_TRY(new_list(c, in, 1 + HYP_MAX_ATTRS + inputs->count + 4, &result));
    HYP_TRY(leaf(c, in, s->name, &item));
    append(result, item);
    for (uint32_t i = 0; i < s->attr_count; i++) {
        if (!attrs[i] && s->attrs[i].required)
            return hyp_sexpr_fail(c->diag, c->file, in, HYP_ERR_MALFORMED, "%s: attribute :%s is missing", s->name,
                                  s->attrs[i].name);
        if (!attrs[i]) HYP_TRY(leaf(c, in, s->attrs[i].default_text, &attrs[i]));
        append(result, attrs[i]);
    }
    for (uint32_t i = 0; i < inputs->count; i++) append(result, inputs->items[i]);
    if (s->max_inputs != HYP_VARIADIC && !has_sequence)
        for (uint32_t i = inputs->count; i < s->max_inputs; i++) { /* optional inputs at the end */
            HYP_TRY(leaf(c, in, "none", &item));
            append(result, item);
        }
    *out = result;
    return HYP_OK;
}

/* A function call keeps its form; its arguments are terms, calls or literals. */
static hyp_status call(context *c, const hyp_sexpr *in, const hyp_sexpr **out)
{
    hyp_sexpr *result;
    if (c->is_left)
        return hyp_sexpr_fail(c->diag, c->file, in, HYP_ERR_MALFORMED, "'%s' is a function: it cannot be matched",
                              in->items[0]->text);
    HYP_TRY(new_list(c, in, in->count, &result));
    append(result, in->items[0]);
    for (uint32_t i = 1; i < in->count; i++) {
        const hyp_sexpr *item = in->items[i];
        if (item->kind == HYP_SX_LIST) HYP_TRY(term(c, item, &item));
        append(result, item);
    }
    *out = result;
    return HYP_OK;
}

/* A list literal such as (0 1), where no attribute says what it is. */
static hyp_status list_literal(context *c, const hyp_sexpr *in, const hyp_sexpr **out)
{
    hyp_strbuf sb = {0};
    hyp_sexpr_print(&sb, in);
    hyp_status status = sb.failed ? hyp_fail_memory(c->diag, sb.len) : leaf(c, in, hyp_strbuf_text(&sb), out);
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status term(context *c, const hyp_sexpr *in, const hyp_sexpr **out)
{
    schema s;
    *out = in;
    if (in->kind != HYP_SX_LIST) {
        if (is_variable(in) || hyp_sexpr_is(in, "none")) return HYP_OK;
        return hyp_sexpr_fail(c->diag, c->file, in, HYP_ERR_MALFORMED,
                              "'%s' stands where a tensor is wanted: a ?variable, none, or a term in parentheses",
                              in->text);
    }
    if (in->count == 0 || in->items[0]->kind != HYP_SX_SYMBOL) return list_literal(c, in, out);
    if (is_call(in)) return call(c, in, out);
    if (!find_schema(in->items[0]->text, &s)) return unknown(c, in->items[0]);
    return operation(c, &s, in, out);
}

hyp_status hyp_rw_desugar(void *rw, hyp_arena *arena, const char *file, const hyp_sexpr *in, bool is_left,
                          const hyp_sexpr **out, hyp_diag *diag)
{
    context c = {rw, arena, file, is_left, diag};
    *out = in;
    if (in->kind != HYP_SX_LIST) return HYP_OK; /* a variable, or a literal given to a condition */
    return term(&c, in, out);
}

#define X(op, name, ...) name,
static const char *const activations[] = {HYP_ACTIVATIONS(X) NULL};
static const char *const conv_activations[] = {HYP_CONV_ACTIVATIONS(X) NULL};
#undef X
const hyp_word_list hyp_rw_word_lists[] = {
    {"activations", activations}, {"conv-activations", conv_activations}, {NULL, NULL}};

/* ---- and back ------------------------------------------------------------------------------------- */

const char *hyp_rw_op_name(hyp_op op, const char *const *values, uint32_t *out_hidden)
{
    size_t count;
    const hyp_op_alias *aliases = hyp_op_aliases(&count);
    for (size_t i = 0; i < count; i++) {
        const char *value = aliases[i].op == op ? values[aliases[i].attr] : NULL;
        if (!value || strcmp(value, aliases[i].value) != 0) continue;
        *out_hidden = aliases[i].attr;
        return aliases[i].name;
    }
    *out_hidden = HYP_MAX_ATTRS;
    return hyp_op_get(op)->name;
}

static void spell_operation(hyp_strbuf *sb, hyp_op op, const hyp_sexpr *sx)
{
    const hyp_op_info *info = hyp_op_get(op);
    const char *values[HYP_MAX_ATTRS] = {0};
    uint32_t hidden, count = sx->count, inputs = 1 + info->attr_count;
    for (uint32_t i = 0; i < info->attr_count && i + 1 < count; i++) values[i] = sx->items[i + 1]->text;
    while (count > inputs + info->min_inputs && hyp_sexpr_is(sx->items[count - 1], "none")) count--;
    hyp_strbuf_printf(sb, "(%s", hyp_rw_op_name(op, values, &hidden));
    for (uint32_t i = 1; i < count; i++) {
        const hyp_attr_info *attr = i < inputs ? &info->attrs[i - 1] : NULL;
        const char *text = attr ? values[i - 1] : NULL;
        if (i - 1 == hidden || (text && !attr->required && strcmp(text, attr->default_text) == 0)) continue;
        hyp_strbuf_puts(sb, " ");
        if (attr) hyp_strbuf_printf(sb, ":%s ", attr->name);
        if (text)
            hyp_strbuf_puts(sb, text);
        else
            hyp_rw_spell(sb, sx->items[i]);
    }
    hyp_strbuf_puts(sb, ")");
}

void hyp_rw_spell(hyp_strbuf *sb, const hyp_sexpr *sx)
{
    hyp_op op;
    if (sx->kind != HYP_SX_LIST) {
        hyp_strbuf_puts(sb, sx->text);
        return;
    }
    bool headed = sx->count > 0 && sx->items[0]->text;
    if (headed && strcmp(sx->items[0]->text, "get") == 0 && sx->count == 3) {
        hyp_strbuf_printf(sb, "(get :index ");
        hyp_rw_spell(sb, sx->items[1]);
        hyp_strbuf_puts(sb, " ");
        hyp_rw_spell(sb, sx->items[2]);
        hyp_strbuf_puts(sb, ")");
    } else if (headed && hyp_op_find(sx->items[0]->text, &op)) {
        spell_operation(sb, op, sx);
    } else {
        for (uint32_t i = 0; i < sx->count; i++) {
            hyp_strbuf_puts(sb, i ? " " : "(");
            hyp_rw_spell(sb, sx->items[i]);
        }
        hyp_strbuf_puts(sb, sx->count ? ")" : "()");
    }
}

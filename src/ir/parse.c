/* Text to graphs. */
#include <stdlib.h>
#include <string.h>

#include "ir/op.h"

typedef struct parser {
    hyp_graph *g;
    const char *file;
    hyp_diag *diag;
    hyp_arena arena;              /* the forms, and lists on their way into the graph */
    hyp_intern refs;              /* what values are called: "=name" or "%number" */
    HYP_VEC(hyp_value_id) values; /* by reference id */
} parser;

static hyp_status fail_at(const parser *p, const hyp_sexpr *sx, const char *text)
{
    return hyp_sexpr_fail(p->diag, p->file, sx, HYP_ERR_MALFORMED, "%s", text);
}

/* Puts the place before a message of another layer's function. */
static hyp_status place(const parser *p, const hyp_sexpr *sx, hyp_status status)
{
    if (status != HYP_OK) hyp_diag_prefix(p->diag, "%s:%u:%u", p->file, sx->line, sx->column);
    return status == HYP_ERR_INVALID_ARGUMENT ? HYP_ERR_MALFORMED : status;
}

/* ---- references ------------------------------------------------------------------------------------- */

/* The key of a reference, and the name that it carries (NULL for a number). */
static hyp_status ref_key(parser *p, const hyp_sexpr *sx, const char **out_key, const char **out_name)
{
    bool quoted = sx->kind == HYP_SX_STRING;
    if (!quoted && !(sx->kind == HYP_SX_SYMBOL && sx->text[0] == '%' && sx->text[1]))
        return fail_at(p, sx, "a value is wanted here: %name, %number or \"name\"");
    const char *name = quoted ? sx->text : sx->text + 1;
    bool number = !quoted && strspn(name, "0123456789") == strlen(name);
    *out_key = hyp_arena_printf(&p->arena, "%c%s", number ? '%' : '=', name);
    *out_name = number ? NULL : name;
    return *out_key ? HYP_OK : hyp_fail_memory(p->diag, strlen(name));
}

static hyp_status define(parser *p, const hyp_sexpr *sx, hyp_value_id value)
{
    const char *key, *name;
    uint32_t id;
    HYP_TRY(ref_key(p, sx, &key, &name));
    HYP_TRY(hyp_intern_add(&p->refs, key, strlen(key), &id, p->diag));
    if (id < p->values.len)
        return hyp_sexpr_fail(p->diag, p->file, sx, HYP_ERR_MALFORMED, "%s is defined twice", sx->text);
    return hyp_vec_push(&p->values, p->diag, value);
}

static hyp_status resolve(parser *p, const hyp_sexpr *sx, hyp_value_id *out)
{
    const char *key, *name;
    uint32_t id;
    HYP_TRY(ref_key(p, sx, &key, &name));
    if (!hyp_intern_find(&p->refs, key, strlen(key), &id))
        return hyp_sexpr_fail(p->diag, p->file, sx, HYP_ERR_MALFORMED, "%s is not defined above", sx->text);
    *out = p->values.data[id];
    return HYP_OK;
}

/* ---- inputs and constants --------------------------------------------------------------------------- */

static hyp_status parse_type(parser *p, const hyp_sexpr *sx, hyp_type *out)
{
    hyp_type t = {0};
    if (sx->kind == HYP_SX_LIST && sx->count && sx->items[0]->kind == HYP_SX_SYMBOL)
        t.dtype = hyp_dtype_parse(sx->items[0]->text);
    if (t.dtype == HYP_DTYPE_NONE) return fail_at(p, sx, "a type is wanted here, such as (f32 batch 784)");
    if (sx->count > HYP_MAX_RANK + 1) return fail_at(p, sx, "a type of more than 8 dimensions");
    for (uint32_t i = 1; i < sx->count; i++)
        HYP_TRY(hyp_dim_parse(p->g->dims, p->file, sx->items[i], &t.dims[t.rank++], p->diag));
    *out = t;
    return HYP_OK;
}

static hyp_status parse_input(parser *p, const hyp_sexpr *sx)
{
    const char *key, *name;
    hyp_type type;
    hyp_value_id id;
    if (sx->count != 3) return fail_at(p, sx, "(input %name type) is wanted");
    HYP_TRY(ref_key(p, sx->items[1], &key, &name));
    if (!name) return fail_at(p, sx->items[1], "an input wants a name; \"3\" in quotes if it is a number");
    HYP_TRY(parse_type(p, sx->items[2], &type));
    HYP_TRY(place(p, sx, hyp_graph_add_input(p->g, name, &type, &id, p->diag)));
    return define(p, sx->items[1], id);
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* (hex "..."), exactly `bytes` of them. */
static hyp_status parse_hex(parser *p, const hyp_sexpr *sx, size_t bytes, unsigned char *out)
{
    if (sx->count != 2 || sx->items[1]->kind != HYP_SX_STRING || strlen(sx->items[1]->text) / 2 != bytes ||
        strlen(sx->items[1]->text) % 2)
        return fail_at(p, sx, "(hex \"...\") wants two lower-case digits for every byte of the type");
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_digit(sx->items[1]->text[2 * i]), low = hex_digit(sx->items[1]->text[2 * i + 1]);
        if (high < 0 || low < 0) return fail_at(p, sx->items[1], "not a hexadecimal digit in lower case");
        out[i] = (unsigned char)(high << 4 | low);
    }
    return HYP_OK;
}

static hyp_status parse_element(parser *p, const hyp_sexpr *sx, hyp_dtype t, void *data, size_t i)
{
    if (hyp_dtype_is_float(t)) {
        if (sx->kind != HYP_SX_INT && sx->kind != HYP_SX_FLOAT) return fail_at(p, sx, "a number is wanted here");
        hyp_store_f64(t, data, i, sx->number);
        return HYP_OK;
    }
    if (sx->kind != HYP_SX_INT) return fail_at(p, sx, "an integer is wanted here");
    hyp_store_i64(t, data, i, sx->integer);
    if (hyp_load_i64(t, data, i) != sx->integer || (t == HYP_U64 && sx->integer < 0))
        return hyp_sexpr_fail(p->diag, p->file, sx, HYP_ERR_MALFORMED, "%s does not fit %s", sx->text,
                              hyp_dtype_name(t));
    return HYP_OK;
}

static hyp_status parse_hash(parser *p, const hyp_sexpr *sx, uint64_t *out)
{
    uint64_t hash = 0;
    const char *text = sx->count == 2 && sx->items[1]->kind == HYP_SX_STRING ? sx->items[1]->text : "";
    if (strlen(text) != 16) return fail_at(p, sx, "(hash \"...\") wants 16 hexadecimal digits");
    for (int i = 0; i < 16; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0) return fail_at(p, sx->items[1], "not a hexadecimal digit in lower case");
        hash = hash << 4 | (uint64_t)digit;
    }
    *out = hash;
    return HYP_OK;
}

/* The elements behind the name and the type of *v, in the parser's memory. */
static hyp_status parse_data(parser *p, const hyp_sexpr *sx, hyp_value *v)
{
    size_t bytes, count = sx->count - 3, size = hyp_dtype_size(v->type.dtype);
    if (!hyp_type_bytes(&v->type, &bytes)) return fail_at(p, sx->items[2], "a type with elements cannot be symbolic");
    v->bytes = bytes;
    if (count == 1 && hyp_sexpr_is_form(sx->items[3], "hash")) return parse_hash(p, sx->items[3], &v->hash);
    bool hex = count == 1 && hyp_sexpr_is_form(sx->items[3], "hex");
    if (!hex && count != bytes / size)
        return hyp_sexpr_fail(p->diag, p->file, sx, HYP_ERR_MALFORMED, "%zu elements, the type has %zu", count,
                              bytes / size);
    if (hex) count = 0;
    if (hex && sx->items[3]->count == 2 && sx->items[3]->items[1]->kind == HYP_SX_STRING)
        count = (strlen(sx->items[3]->items[1]->text) / 2 + size - 1) / size;
    unsigned char *data = hyp_arena_zalloc(&p->arena, count, size); /* as large as the text, whatever the type */
    if (!data) return hyp_fail_memory(p->diag, count * size);
    if (hex) HYP_TRY(parse_hex(p, sx->items[3], bytes, data));
    for (size_t i = 0; !hex && i < count; i++) HYP_TRY(parse_element(p, sx->items[3 + i], v->type.dtype, data, i));
    if (bytes) v->data = data;
    v->owned = bytes > 0;
    return HYP_OK;
}

static hyp_status parse_const(parser *p, const hyp_sexpr *sx)
{
    const char *key;
    hyp_value v = {0};
    hyp_value_id id;
    if (sx->count < 3) return fail_at(p, sx, "(const %name type elements...) is wanted");
    HYP_TRY(ref_key(p, sx->items[1], &key, &v.name));
    HYP_TRY(parse_type(p, sx->items[2], &v.type));
    HYP_TRY(parse_data(p, sx, &v));
    HYP_TRY(place(p, sx, hyp_graph_copy_const(p->g, &v, &id, p->diag)));
    return define(p, sx->items[1], id);
}

static hyp_status parse_variable(parser *p, const hyp_sexpr *sx)
{
    const char *key;
    hyp_value v = {0};
    hyp_value_id id;
    if (sx->count < 3) return fail_at(p, sx, "(variable %name type elements...) is wanted");
    HYP_TRY(ref_key(p, sx->items[1], &key, &v.name));
    if (!v.name) return fail_at(p, sx->items[1], "a variable wants a name; \"3\" in quotes if it is a number");
    HYP_TRY(parse_type(p, sx->items[2], &v.type));
    if (sx->count > 3) HYP_TRY(parse_data(p, sx, &v));
    HYP_TRY(place(p, sx, hyp_graph_push_variable(p->g, &v, &id, p->diag)));
    return define(p, sx->items[1], id);
}

/* ---- nodes ------------------------------------------------------------------------------------------ */

static hyp_status find_op(parser *p, const hyp_sexpr *sx, hyp_op *out, const hyp_op_alias **out_alias)
{
    enum { MAX_NAMES = HYP_OP_COUNT + 16 };
    const char *names[MAX_NAMES + 1] = {NULL}, *near;
    size_t count, n = 0;
    const hyp_op_alias *aliases = hyp_op_aliases(&count);
    *out_alias = NULL;
    if (sx->kind != HYP_SX_SYMBOL) return fail_at(p, sx, "the name of an operator is wanted here");
    if (hyp_op_find(sx->text, out)) return HYP_OK;
    for (size_t i = 0; i < count; i++) {
        if (!hyp_sexpr_is(sx, aliases[i].name)) continue;
        *out_alias = &aliases[i];
        *out = aliases[i].op;
        return HYP_OK;
    }
    for (size_t i = 0; i < HYP_OP_COUNT; i++) names[n++] = hyp_op_get((hyp_op)i)->name;
    for (size_t i = 0; i < count && n < MAX_NAMES; i++) names[n++] = aliases[i].name;
    near = hyp_nearest(sx->text, names);
    return hyp_sexpr_fail(p->diag, p->file, sx, HYP_ERR_MALFORMED, "no operator is called '%s'%s%s%s", sx->text,
                          near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* The :name value pairs after the operator; *out_next is the first item behind them. */
static hyp_status parse_attrs(parser *p, const hyp_sexpr *sx, hyp_op op, const hyp_op_alias *alias, hyp_attr *out,
                              uint32_t *out_next)
{
    const hyp_op_info *info = hyp_op_get(op);
    bool given[HYP_MAX_ATTRS] = {false};
    uint32_t i = 1, index;
    if (alias) {
        given[alias->attr] = true;
        out[alias->attr] = (hyp_attr){.kind = HYP_ATTR_SYM, .sym = alias->value};
    }
    for (; i < sx->count && sx->items[i]->kind == HYP_SX_SYMBOL && sx->items[i]->text[0] == ':'; i += 2) {
        const hyp_sexpr *key = sx->items[i];
        if (!hyp_op_find_attr(op, key->text + 1, &index))
            return hyp_sexpr_fail(p->diag, p->file, key, HYP_ERR_MALFORMED, "%s has no attribute %s", info->name,
                                  key->text);
        if (given[index]) return fail_at(p, key, "this attribute is given twice");
        if (i + 1 == sx->count) return fail_at(p, key, "this attribute has no value");
        given[index] = true;
        HYP_TRY(hyp_attr_parse(&p->arena, p->g->dims, p->file, sx->items[i + 1], info->attrs[index].kind, &out[index],
                               p->diag));
    }
    for (index = 0; index < info->attr_count; index++) {
        if (given[index]) continue;
        if (info->attrs[index].required)
            return hyp_sexpr_fail(p->diag, p->file, sx, HYP_ERR_MALFORMED, "%s wants the attribute :%s", info->name,
                                  info->attrs[index].name);
        out[index] = hyp_attr_default(&info->attrs[index]);
    }
    *out_next = i;
    return HYP_OK;
}

static hyp_status parse_texts(parser *p, const hyp_sexpr *sx, bool sorted, const char *const **out, uint32_t *out_count)
{
    const char **list = sx->kind == HYP_SX_LIST ? hyp_arena_zalloc(&p->arena, sx->count, sizeof *list) : NULL;
    if (sx->kind != HYP_SX_LIST) return fail_at(p, sx, "a list of strings is wanted here");
    if (!list) return hyp_fail_memory(p->diag, sx->count * sizeof *list);
    for (uint32_t i = 0; i < sx->count; i++) {
        if (sx->items[i]->kind != HYP_SX_STRING) return fail_at(p, sx->items[i], "a string is wanted here");
        list[i] = sx->items[i]->text;
        if (sorted && i && strcmp(list[i - 1], list[i]) >= 0)
            return fail_at(p, sx->items[i], "the list is not sorted, or says this twice");
    }
    *out = list;
    *out_count = sx->count;
    return HYP_OK;
}

static hyp_status parse_provenance(parser *p, const hyp_sexpr *sx, hyp_provenance *out)
{
    for (uint32_t i = 2; i < sx->count; i += 2) {
        bool from = hyp_sexpr_is(sx->items[i], ":from") && !out->source_count;
        if ((!from && (!hyp_sexpr_is(sx->items[i], ":rules") || out->rule_count)) || i + 1 == sx->count)
            return fail_at(p, sx->items[i], "only :from (names...) and :rules (names...) may follow the operator");
        HYP_TRY(from ? parse_texts(p, sx->items[i + 1], true, &out->sources, &out->source_count)
                     : parse_texts(p, sx->items[i + 1], false, &out->rules, &out->rule_count));
    }
    return HYP_OK;
}

/* (ref (op ...) ...) or ((ref...) (op ...) ...) */
static hyp_status parse_node(parser *p, const hyp_sexpr *sx)
{
    const char *key;
    hyp_op op;
    const hyp_op_alias *alias;
    hyp_attr attrs[HYP_MAX_ATTRS];
    hyp_provenance from = {0};
    uint32_t next = 1;
    if (sx->count < 2 || sx->items[1]->kind != HYP_SX_LIST || sx->items[1]->count == 0)
        return fail_at(p, sx, "(input ...), (const ...), (%value (operator ...)) or (output ...) is wanted");
    const hyp_sexpr *call = sx->items[1], *first = sx->items[0];
    const hyp_sexpr *const *refs = first->kind == HYP_SX_LIST ? (const hyp_sexpr *const *)first->items : &first;
    uint32_t outputs = first->kind == HYP_SX_LIST ? first->count : 1;
    HYP_TRY(find_op(p, call->items[0], &op, &alias));
    HYP_TRY(parse_attrs(p, call, op, alias, attrs, &next));
    HYP_TRY(parse_provenance(p, sx, &from));
    uint32_t inputs = call->count - next;
    hyp_value_id *ids = hyp_arena_zalloc(&p->arena, (size_t)inputs + outputs, sizeof *ids);
    if (!ids) return hyp_fail_memory(p->diag, ((size_t)inputs + outputs) * sizeof *ids);
    for (uint32_t i = 0; i < inputs; i++) {
        ids[i] = HYP_NO_VALUE;
        if (!hyp_sexpr_is(call->items[next + i], "none")) HYP_TRY(resolve(p, call->items[next + i], &ids[i]));
    }
    HYP_TRY(place(p, call, hyp_graph_add_node(p->g, op, ids, inputs, attrs, &from, ids + inputs, outputs, p->diag)));
    for (uint32_t i = 0; i < outputs; i++) {
        hyp_value *v = &p->g->values.data[ids[inputs + i]];
        HYP_TRY(ref_key(p, refs[i], &key, &v->name));
        if (v->name && !(v->name = hyp_arena_strdup(&p->g->arena, v->name))) return hyp_fail_memory(p->diag, 0);
        HYP_TRY(define(p, refs[i], ids[inputs + i]));
    }
    return HYP_OK;
}

static hyp_status parse_output(parser *p, const hyp_sexpr *sx)
{
    hyp_value_id id;
    if (sx->count != 3 || sx->items[1]->kind != HYP_SX_STRING)
        return fail_at(p, sx, "(output \"name\" value) is wanted");
    HYP_TRY(resolve(p, sx->items[2], &id));
    return place(p, sx, hyp_graph_add_output(p->g, sx->items[1]->text, id, p->diag));
}

static hyp_status parse_set(parser *p, const hyp_sexpr *sx)
{
    hyp_value_id before, after;
    if (sx->count != 3) return fail_at(p, sx, "(set %variable value) is wanted");
    HYP_TRY(resolve(p, sx->items[1], &before));
    HYP_TRY(resolve(p, sx->items[2], &after));
    return place(p, sx, hyp_graph_set_variable(p->g, before, after, p->diag));
}

/* ---- graphs ----------------------------------------------------------------------------------------- */

static hyp_status parse_form(parser *p, const hyp_sexpr *sx)
{
    if (hyp_sexpr_is_form(sx, "input")) return parse_input(p, sx);
    if (hyp_sexpr_is_form(sx, "const")) return parse_const(p, sx);
    if (hyp_sexpr_is_form(sx, "variable")) return parse_variable(p, sx);
    if (hyp_sexpr_is_form(sx, "output")) return parse_output(p, sx);
    if (hyp_sexpr_is_form(sx, "set")) return parse_set(p, sx);
    if (sx->kind != HYP_SX_LIST) return fail_at(p, sx, "a form in parentheses is wanted");
    return parse_node(p, sx);
}

static hyp_status parse_graph(parser *p, const char *text, size_t len)
{
    const hyp_sexpr *forms;
    HYP_TRY(hyp_sexpr_parse(&p->arena, p->file, text, len, &forms, p->diag));
    if (forms->count != 1 || !hyp_sexpr_is_form(forms->items[0], "graph"))
        return fail_at(p, forms, "one form (graph \"name\" ...) is wanted");
    const hyp_sexpr *graph = forms->items[0];
    if (graph->count < 2 || graph->items[1]->kind != HYP_SX_STRING)
        return fail_at(p, graph, "the graph's name is wanted, a string");
    p->g->name = hyp_arena_strdup(&p->g->arena, graph->items[1]->text);
    if (!p->g->name) return hyp_fail_memory(p->diag, 0);
    for (uint32_t i = 2; i < graph->count; i++) HYP_TRY(parse_form(p, graph->items[i]));
    for (size_t i = 0; i < p->g->variables.len; i++)
        if (p->g->variables.data[i].output == HYP_NO_OUTPUT)
            return hyp_sexpr_fail(p->diag, p->file, graph, HYP_ERR_MALFORMED, "the variable '%s' is not set",
                                  hyp_graph_variable(p->g, i)->name);
    return HYP_OK;
}

hyp_status hyp_graph_parse(hyp_graph *g, const char *file, const char *text, size_t len, hyp_diag *diag)
{
    hyp_graph fresh;
    hyp_graph_init(&fresh, g->dims);
    parser p = {.g = &fresh, .file = file, .diag = diag};
    hyp_status status = parse_graph(&p, text, len);
    hyp_arena_dispose(&p.arena);
    hyp_intern_dispose(&p.refs);
    hyp_vec_free(&p.values);
    if (status == HYP_OK)
        *g = fresh;
    else
        hyp_graph_dispose(&fresh);
    return status;
}

/* Graphs to text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/op.h"

typedef struct printer {
    hyp_strbuf *sb;
    const hyp_graph *g;
    size_t elide_above;
    uint32_t *number; /* by value: its place in the text */
    bool *named;      /* by value: it is the first of its name */
} printer;

/* A name that can follow the % bare: printable ASCII without what ends an atom, and not a number. */
static bool is_plain(const char *name)
{
    bool digits = true;
    for (const char *p = name; *p; p++) {
        if (*p <= 0x20 || *p >= 0x7f || strchr("()\";%", *p)) return false;
        if (*p < '0' || *p > '9') digits = false;
    }
    return !digits; /* "" is all digits, too */
}

static void print_ref(const printer *p, hyp_value_id id)
{
    if (id == HYP_NO_VALUE) {
        hyp_strbuf_puts(p->sb, "none");
        return;
    }
    const char *name = p->g->values.data[id].name;
    if (!p->named[id])
        hyp_strbuf_printf(p->sb, "%%%u", p->number[id]);
    else if (is_plain(name))
        hyp_strbuf_printf(p->sb, "%%%s", name);
    else
        hyp_strbuf_quote(p->sb, name);
}

static void print_type(const printer *p, const hyp_type *t)
{
    hyp_strbuf_printf(p->sb, "(%s", hyp_dtype_name(t->dtype));
    for (int32_t i = 0; i < t->rank; i++) {
        hyp_strbuf_puts(p->sb, " ");
        hyp_dim_print(p->sb, p->g->dims, t->dims[i]);
    }
    hyp_strbuf_puts(p->sb, ")");
}

/* The shortest number that reads back as exactly these bytes; false when there is none (NaN payloads, bools
 * other than 0 and 1, integers above int64). */
static bool print_element(hyp_strbuf *sb, hyp_dtype t, const void *data, size_t i)
{
    size_t size = hyp_dtype_size(t);
    const char *bytes = (const char *)data + i * size;
    uint64_t back = 0;
    if (!hyp_dtype_is_float(t)) {
        int64_t v = hyp_load_i64(t, data, i);
        hyp_store_i64(t, &back, 0, v);
        if ((t == HYP_U64 && v < 0) || memcmp(&back, bytes, size) != 0) return false;
        hyp_strbuf_printf(sb, " %lld", (long long)v);
        return true;
    }
    double v = hyp_load_f64(t, data, i);
    for (int digits = 1; digits <= 17; digits++) {
        char text[40];
        hyp_format_double(text, sizeof text, digits, v);
        double shorter = v != v ? v : hyp_strtod(text, NULL);
        hyp_store_f64(t, &back, 0, shorter);
        if (memcmp(&back, bytes, size) != 0) continue;
        if (v != v) { /* only the NaN that "nan" reads as */
            hyp_store_f64(t, &back, 0, hyp_strtod("nan", NULL));
            if (memcmp(&back, bytes, size) != 0) return false;
        }
        hyp_strbuf_puts(sb, " ");
        hyp_strbuf_double(sb, shorter);
        return true;
    }
    return false;
}

static void print_data(const printer *p, const hyp_value *v)
{
    bool elided = v->bytes && !v->data;
    if (elided || v->bytes > p->elide_above) {
        uint64_t hash = elided ? v->hash : hyp_hash(v->data, v->bytes, 0);
        hyp_strbuf_printf(p->sb, " (hash \"%016llx\")", (unsigned long long)hash);
        return;
    }
    size_t start = p->sb->len, count = v->bytes / hyp_dtype_size(v->type.dtype);
    for (size_t i = 0; i < count; i++) {
        if (print_element(p->sb, v->type.dtype, v->data, i)) continue;
        if (p->sb->failed) return;
        p->sb->len = start; /* take back the numbers */
        hyp_strbuf_puts(p->sb, " (hex \"");
        for (size_t j = 0; j < v->bytes; j++) hyp_strbuf_printf(p->sb, "%02x", ((const unsigned char *)v->data)[j]);
        hyp_strbuf_puts(p->sb, "\")");
        return;
    }
}

static void print_texts(const printer *p, const char *key, const char *const *texts, uint32_t count)
{
    if (!count) return;
    hyp_strbuf_printf(p->sb, " :%s (", key);
    for (uint32_t i = 0; i < count; i++) {
        if (i) hyp_strbuf_puts(p->sb, " ");
        hyp_strbuf_quote(p->sb, texts[i]);
    }
    hyp_strbuf_puts(p->sb, ")");
}

/* The alias that says this node's operator and one of its attributes, or NULL. */
static const hyp_op_alias *find_alias(const hyp_node *n)
{
    size_t count;
    const hyp_op_alias *aliases = hyp_op_aliases(&count);
    for (size_t i = 0; i < count; i++) /* aliases fix symbols, whose text is themselves */
        if (aliases[i].op == n->op && strcmp(n->attrs[aliases[i].attr].sym, aliases[i].value) == 0) return &aliases[i];
    return NULL;
}

static void print_node(const printer *p, const hyp_node *n)
{
    const hyp_op_info *info = hyp_op_get(n->op);
    const hyp_op_alias *alias = find_alias(n);
    hyp_strbuf_puts(p->sb, n->output_count == 1 ? "\n  (" : "\n  ((");
    for (uint32_t i = 0; i < n->output_count; i++) {
        if (i) hyp_strbuf_puts(p->sb, " ");
        print_ref(p, n->outputs[i]);
    }
    hyp_strbuf_printf(p->sb, "%s (%s", n->output_count == 1 ? "" : ")", alias ? alias->name : info->name);
    for (uint32_t i = 0; i < info->attr_count; i++) {
        if (alias && alias->attr == i) continue;
        if (!info->attrs[i].required) {
            hyp_attr standard = hyp_attr_default(&info->attrs[i]);
            if (hyp_attr_equal(&standard, &n->attrs[i])) continue;
        }
        hyp_strbuf_printf(p->sb, " :%s ", info->attrs[i].name);
        hyp_attr_print(p->sb, p->g->dims, &n->attrs[i]);
    }
    for (uint32_t i = 0; i < n->input_count; i++) {
        hyp_strbuf_puts(p->sb, " ");
        print_ref(p, n->inputs[i]);
    }
    hyp_strbuf_puts(p->sb, ")");
    print_texts(p, "from", n->from.sources, n->from.source_count);
    print_texts(p, "rules", n->from.rules, n->from.rule_count);
    hyp_strbuf_puts(p->sb, ")");
}

/* Gives a value its number, and its name if no earlier value has it. */
static hyp_status name_value(const printer *p, hyp_intern *names, uint32_t *next, hyp_value_id id, hyp_diag *diag)
{
    const char *name = p->g->values.data[id].name;
    p->number[id] = (*next)++;
    if (!name) return HYP_OK;
    size_t before = names->names.len;
    uint32_t ignored;
    HYP_TRY(hyp_intern_add(names, name, strlen(name), &ignored, diag));
    p->named[id] = names->names.len > before;
    return HYP_OK;
}

static hyp_status name_values(const printer *p, hyp_intern *names, hyp_diag *diag)
{
    const hyp_graph *g = p->g;
    uint32_t next = 0;
    for (size_t i = 0; i < g->inputs.len; i++) HYP_TRY(name_value(p, names, &next, g->inputs.data[i], diag));
    for (hyp_value_id i = 0; i < g->values.len; i++)
        if (g->values.data[i].kind == HYP_VALUE_CONST) HYP_TRY(name_value(p, names, &next, i, diag));
    for (size_t i = 0; i < g->nodes.len; i++)
        for (uint32_t j = 0; j < g->nodes.data[i].output_count; j++)
            HYP_TRY(name_value(p, names, &next, g->nodes.data[i].outputs[j], diag));
    return HYP_OK;
}

/* A value that no node makes, with its elements if it has any. */
static void print_leaf(const printer *p, const char *form, hyp_value_id id)
{
    const hyp_value *v = &p->g->values.data[id];
    hyp_strbuf_printf(p->sb, "\n  (%s ", form);
    print_ref(p, id);
    hyp_strbuf_puts(p->sb, " ");
    print_type(p, &v->type);
    print_data(p, v);
    hyp_strbuf_puts(p->sb, ")");
}

/* The variable that an output sets, or NULL. */
static const hyp_variable *variable_of(const hyp_graph *g, size_t output)
{
    for (size_t i = 0; i < g->variables.len; i++)
        if (g->variables.data[i].output == output) return &g->variables.data[i];
    return NULL;
}

/* What variables become, in the order of the outputs, of which they are the last. */
static void print_sets(const printer *p)
{
    const hyp_graph *g = p->g;
    for (size_t i = 0; i < g->outputs.len; i++) {
        const hyp_variable *v = variable_of(g, i);
        if (!v) continue;
        hyp_strbuf_puts(p->sb, "\n  (set ");
        print_ref(p, g->inputs.data[v->input]);
        hyp_strbuf_puts(p->sb, " ");
        print_ref(p, g->outputs.data[i].value);
        hyp_strbuf_puts(p->sb, ")");
    }
}

static void print_all(const printer *p)
{
    const hyp_graph *g = p->g;
    hyp_strbuf_puts(p->sb, "(graph ");
    hyp_strbuf_quote(p->sb, g->name);
    for (size_t i = 0; i < hyp_graph_shown_inputs(g); i++) print_leaf(p, "input", g->inputs.data[i]);
    for (size_t i = 0; i < g->variables.len; i++) print_leaf(p, "variable", g->inputs.data[g->variables.data[i].input]);
    for (hyp_value_id i = 0; i < g->values.len; i++)
        if (g->values.data[i].kind == HYP_VALUE_CONST) print_leaf(p, "const", i);
    for (size_t i = 0; i < g->nodes.len; i++) print_node(p, &g->nodes.data[i]);
    for (size_t i = 0; i < g->outputs.len && !variable_of(g, i); i++) {
        hyp_strbuf_puts(p->sb, "\n  (output ");
        hyp_strbuf_quote(p->sb, g->outputs.data[i].name);
        hyp_strbuf_puts(p->sb, " ");
        print_ref(p, g->outputs.data[i].value);
        hyp_strbuf_puts(p->sb, ")");
    }
    print_sets(p);
    hyp_strbuf_puts(p->sb, ")\n");
}

hyp_status hyp_graph_print(hyp_strbuf *sb, const hyp_graph *g, size_t elide_above, hyp_diag *diag)
{
    printer p = {.sb = sb, .g = g, .elide_above = elide_above};
    hyp_intern names = {0};
    p.number = hyp_calloc(g->values.len, sizeof *p.number);
    p.named = hyp_calloc(g->values.len, sizeof *p.named);
    hyp_status status =
        p.number && p.named ? name_values(&p, &names, diag) : hyp_fail_memory(diag, g->values.len * sizeof *p.number);
    if (status == HYP_OK) {
        print_all(&p);
        if (sb->failed) status = hyp_fail_memory(diag, sb->len);
    }
    hyp_free(p.number);
    hyp_free(p.named);
    hyp_intern_dispose(&names);
    return status;
}

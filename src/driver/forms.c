/* Forms of a part of a model, or of all of it, for who can time them: what they are called, and plans of them alone. */
#include <stdio.h>
#include <string.h>

#include "driver/driver.h"

enum { ID_DIGITS = 16 };

/* One question. */
typedef struct question {
    hyp_settings *settings;
    const hyp_rewrite_forms *forms;
} question;

/* ---- names ------------------------------------------------------------------------------------------------ */

/* A graph on its way to text: from its outputs down, so that neither names nor the order of nodes play a part. */
typedef struct printer {
    const hyp_graph *g;
    hyp_strbuf *sb;
    hyp_node_id *maker; /* by value of a node */
    uint32_t *number;   /* by value: its place in the text + 1; 0: it was not there yet */
    uint32_t count;
    hyp_value_id *stack;
} printer;

/* A value as its place in the text, or a constant by its type: what is in it does not change the time. */
static void print_operand(printer *p, hyp_value_id id)
{
    const hyp_value *v = id == HYP_NO_VALUE ? NULL : &p->g->values.data[id];
    if (v && v->kind != HYP_VALUE_CONST && !p->number[id]) p->number[id] = ++p->count;
    hyp_strbuf_puts(p->sb, " ");
    if (!v)
        hyp_strbuf_puts(p->sb, "none");
    else if (v->kind != HYP_VALUE_CONST)
        hyp_strbuf_printf(p->sb, "%%%u:", p->number[id]);
    if (v && v->kind != HYP_VALUE_NODE) hyp_type_print(p->sb, p->g->dims, &v->type);
}

static void print_node(printer *p, const hyp_node *n)
{
    const hyp_op_info *info = hyp_op_get(n->op);
    hyp_strbuf_printf(p->sb, "\n%s", info->name);
    for (uint32_t k = 0; k < info->attr_count; k++) {
        hyp_strbuf_puts(p->sb, " ");
        hyp_attr_print(p->sb, p->g->dims, &n->attrs[k]);
    }
    for (uint32_t k = 0; k < n->input_count; k++) print_operand(p, n->inputs[k]);
    hyp_strbuf_puts(p->sb, " ->");
    for (uint32_t k = 0; k < n->output_count; k++) print_operand(p, n->outputs[k]);
}

/* Prints what computes a value, unless that is done: a node after what it reads. */
static void print_value(printer *p, hyp_value_id id)
{
    size_t depth = 0;
    p->stack[depth++] = id;
    while (depth) {
        hyp_value_id top = p->stack[depth - 1], next = HYP_NO_VALUE;
        const hyp_node *n =
            p->g->values.data[top].kind == HYP_VALUE_NODE && !p->number[top] ? &p->g->nodes.data[p->maker[top]] : NULL;
        for (uint32_t k = 0; n && k < n->input_count && next == HYP_NO_VALUE; k++) {
            hyp_value_id in = n->inputs[k];
            if (in != HYP_NO_VALUE && p->g->values.data[in].kind == HYP_VALUE_NODE && !p->number[in]) next = in;
        }
        if (next != HYP_NO_VALUE) {
            p->stack[depth++] = next;
            continue;
        }
        if (n) print_node(p, n);
        depth--;
    }
}

/* What the time of a graph depends on. */
static hyp_status print_form(hyp_strbuf *sb, const hyp_graph *g, hyp_diag *diag)
{
    size_t values = g->values.len + 1;
    printer p = {.g = g, .sb = sb};
    p.maker = hyp_calloc(values, sizeof *p.maker);
    p.number = hyp_calloc(values, sizeof *p.number);
    p.stack = hyp_calloc(values, sizeof *p.stack);
    hyp_status status = p.maker && p.number && p.stack ? HYP_OK : hyp_fail_memory(diag, values * sizeof *p.number);
    for (size_t i = 0; i < g->nodes.len && status == HYP_OK; i++)
        for (uint32_t k = 0; k < g->nodes.data[i].output_count; k++)
            p.maker[g->nodes.data[i].outputs[k]] = (hyp_node_id)i;
    for (size_t i = 0; i < g->outputs.len && status == HYP_OK; i++) {
        print_value(&p, g->outputs.data[i].value);
        hyp_strbuf_puts(sb, "\noutput");
        print_operand(&p, g->outputs.data[i].value);
    }
    hyp_free(p.maker);
    hyp_free(p.number);
    hyp_free(p.stack);
    return status;
}

/* The graph with its typical sizes. */
static hyp_status make_typical(const hyp_settings *s, const hyp_graph *in, hyp_graph *out, hyp_diag *diag)
{
    size_t count = hyp_dims_symbol_count(in->dims);
    hyp_dim *sizes = hyp_calloc(count + 1, sizeof *sizes);
    if (!sizes) return hyp_fail_memory(diag, count * sizeof *sizes);
    for (size_t i = 0; i < count; i++) sizes[i] = i < s->cost.size_count ? s->cost.sizes[i] : HYP_TYPICAL_SIZE;
    hyp_status status = hyp_graph_specialize(in, sizes, out, diag);
    hyp_free(sizes);
    return status;
}

static hyp_status print_id(const hyp_settings *s, const hyp_graph *g, char out[ID_DIGITS + 1], hyp_diag *diag)
{
    hyp_graph typical;
    hyp_strbuf text = {0};
    hyp_graph_init(&typical, g->dims);
    hyp_status status = make_typical(s, g, &typical, diag);
    bool open = false;
    for (size_t i = 0; i < g->inputs.len; i++)
        open = open || !hyp_type_is_static(&g->values.data[g->inputs.data[i]].type);
    hyp_strbuf_printf(&text, "%s %s%s", s->target->name, s->options.precision, open ? " open" : "");
    if (status == HYP_OK) status = print_form(&text, &typical, diag);
    if (status == HYP_OK && text.failed) status = hyp_fail_memory(diag, text.len);
    snprintf(out, ID_DIGITS + 1, "%016llx", (unsigned long long)hyp_hash(hyp_strbuf_text(&text), text.len, 0));
    hyp_strbuf_dispose(&text);
    hyp_graph_dispose(&typical);
    return status;
}

/* "conv 3x, add": the operators of a graph that run, most of them. */
static void print_operators(hyp_strbuf *sb, const hyp_graph *g)
{
    enum { MOST = 6 };
    size_t count[HYP_OP_COUNT] = {0}, shown = 0;
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        bool runs = false;
        for (uint32_t k = 0; k < n->input_count; k++)
            runs = runs || (n->inputs[k] != HYP_NO_VALUE && g->values.data[n->inputs[k]].kind != HYP_VALUE_CONST);
        if (runs && !(hyp_op_get(n->op)->flags & HYP_OPF_VIEW)) count[n->op]++;
    }
    for (int op = 0; op < HYP_OP_COUNT && shown <= MOST; op++) {
        if (!count[op]) continue;
        if (shown++) hyp_strbuf_puts(sb, ", ");
        if (shown > MOST)
            hyp_strbuf_puts(sb, "...");
        else if (count[op] > 1)
            hyp_strbuf_printf(sb, "%s %zux", hyp_op_get((hyp_op)op)->name, count[op]);
        else
            hyp_strbuf_puts(sb, hyp_op_get((hyp_op)op)->name);
    }
    if (!shown) hyp_strbuf_puts(sb, "views");
}

/* ---- plans ------------------------------------------------------------------------------------------------- */

hyp_status hyp_quantize(const hyp_settings *settings, const hyp_graph *in, hyp_graph *opened, hyp_graph *out,
                        hyp_strbuf *layers, hyp_diag *diag)
{
    const hyp_compile_options *o = &settings->options;
    HYP_TRY(hyp_graph_open_layers(in, opened, diag));
    hyp_calibration calibration;
    HYP_TRY(hyp_calibration_init(&calibration, opened, diag));
    hyp_status status = hyp_run_samples(&calibration, o->samples, o->samples_count, diag);
    if (status == HYP_OK) status = hyp_graph_quantize(&calibration, out, layers, diag);
    hyp_calibration_dispose(&calibration);
    return status;
}

static hyp_status write_graph(hyp_settings *s, const hyp_graph *g, const char *path, hyp_diag *diag)
{
    hyp_codegen_options options = hyp_settings_codegen(s);
    hyp_lowered lowered;
    options.explain = NULL; /* nobody reads it */
    HYP_TRY(hyp_codegen_lower(g, &options, &lowered, diag));
    hyp_status status = hyp_codegen_write(&lowered, path, NULL, NULL, NULL, diag);
    hyp_lowered_dispose(&lowered);
    return status;
}

static hyp_status write_form(const hyp_compile_forms *forms, size_t form, const char *path, hyp_diag *diag)
{
    const question *q = forms->compiler;
    const hyp_graph *g = q->forms->graphs[form];
    if (q->settings->precision != HYP_PRECISION_FP8) return write_graph(q->settings, g, path, diag);
    hyp_graph opened, quantized;
    hyp_strbuf layers = {0};
    hyp_graph_init(&opened, g->dims);
    hyp_graph_init(&quantized, g->dims);
    hyp_status status = hyp_quantize(q->settings, g, &opened, &quantized, &layers, diag);
    if (status == HYP_OK) status = write_graph(q->settings, &quantized, path, diag);
    hyp_strbuf_dispose(&layers);
    hyp_graph_dispose(&quantized);
    hyp_graph_dispose(&opened);
    return status;
}

/* ---- questions ---------------------------------------------------------------------------------------------- */

/* Asks of forms that are different, with their names, which live as long as `arena`. */
static hyp_status ask(question *q, hyp_arena *arena, size_t *out, hyp_diag *diag)
{
    const hyp_rewrite_forms *given = q->forms;
    const hyp_compile_options *o = &q->settings->options;
    char ids[HYP_COMPILE_FORMS][ID_DIGITS + 1];
    const char *id_list[HYP_COMPILE_FORMS], *names[HYP_COMPILE_FORMS];
    const hyp_graph *graphs[HYP_COMPILE_FORMS];
    double seconds[HYP_COMPILE_FORMS];
    size_t place[HYP_COMPILE_FORMS], count = 0, predicted = 0, best = 0;
    for (size_t i = 0; i < given->count && i < HYP_COMPILE_FORMS; i++) {
        bool known = false;
        HYP_TRY(print_id(q->settings, given->graphs[i], ids[count], diag));
        for (size_t k = 0; k < count; k++) known = known || strcmp(ids[k], ids[count]) == 0;
        if (known) continue;
        hyp_strbuf sb = {0};
        if (!given->names) print_operators(&sb, given->graphs[i]);
        names[count] = hyp_arena_strdup(arena, given->names ? given->names[i] : hyp_strbuf_text(&sb));
        bool failed = sb.failed || !names[count];
        hyp_strbuf_dispose(&sb);
        if (failed) return hyp_fail_memory(diag, 64);
        id_list[count] = ids[count];
        graphs[count] = given->graphs[i];
        seconds[count] = given->seconds[i];
        if (given->names && strcmp(given->names[i], "rewritten") == 0) predicted = count;
        place[count++] = i;
    }
    if (count < 2) return HYP_OK;
    hyp_rewrite_forms kept = {graphs, given->names, seconds, count};
    question asked = {q->settings, &kept};
    hyp_compile_forms forms = {.size = sizeof forms,
                               .whole = given->names != NULL,
                               .count = count,
                               .ids = id_list,
                               .names = names,
                               .seconds = seconds,
                               .predicted = predicted,
                               .write = write_form,
                               .compiler = &asked};
    HYP_TRY(o->choose_form(&forms, &best, o->choose_form_user, diag));
    if (best >= count)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "choose_form: there are forms 0 to %zu, and %zu was chosen",
                        count - 1, best);
    *out = place[best];
    return HYP_OK;
}

hyp_status hyp_choose_form(const hyp_rewrite_forms *forms, size_t *out, void *settings, hyp_diag *diag)
{
    question q = {settings, forms};
    hyp_arena arena = {0};
    *out = 0;
    if (q.settings->precision == HYP_PRECISION_FP8 && !forms->names)
        return HYP_OK; /* which layers of a part become 8 bits only the whole tells */
    hyp_status status = ask(&q, &arena, out, diag);
    hyp_arena_dispose(&arena);
    return status;
}

#include "rewrite/trial_json.h"

#include <math.h>

enum { MAX_SYMBOLS = 64 };
typedef struct writer {
    hyp_strbuf *sb;
    const hyp_graph *g;
    int64_t symbols[MAX_SYMBOLS]; /* -1: not known */
    hyp_diag *diag;
} writer;

static void write_bytes(hyp_strbuf *sb, const unsigned char *data, size_t bytes)
{
    hyp_strbuf_printf(sb, "\"");
    for (size_t i = 0; i < bytes; i++) hyp_strbuf_printf(sb, "%02x", data[i]);
    hyp_strbuf_printf(sb, "\"");
}

static void write_sizes(hyp_strbuf *sb, const int64_t *dims, size_t count)
{
    hyp_strbuf_printf(sb, "[");
    for (size_t i = 0; i < count; i++) hyp_strbuf_printf(sb, "%s%lld", i ? "," : "", (long long)dims[i]);
    hyp_strbuf_printf(sb, "]");
}

static hyp_status write_dims(writer *w, const hyp_dim *dims, size_t count)
{
    hyp_strbuf_printf(w->sb, "[");
    for (size_t i = 0; i < count; i++) {
        int64_t size;
        HYP_TRY(hyp_dim_eval(w->g->dims, dims[i], w->symbols, &size, w->diag));
        hyp_strbuf_printf(w->sb, "%s%lld", i ? "," : "", (long long)size);
    }
    hyp_strbuf_printf(w->sb, "]");
    return HYP_OK;
}

static void write_number(hyp_strbuf *sb, double v)
{
    if (isfinite(v))
        hyp_strbuf_printf(sb, v == 0 ? "%.1f" : "%.17g", v); /* an integer has no -0 */
    else
        hyp_strbuf_printf(sb, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity"); /* as Python reads it */
}

static hyp_status write_attr(writer *w, const hyp_attr *a)
{
    switch (a->kind) {
    case HYP_ATTR_INT: hyp_strbuf_printf(w->sb, "%lld", (long long)a->i); break;
    case HYP_ATTR_FLOAT: write_number(w->sb, a->f); break;
    case HYP_ATTR_SYM: hyp_strbuf_printf(w->sb, "\"%s\"", a->sym); break;
    case HYP_ATTR_DIMS: return write_dims(w, a->dims, a->count);
    case HYP_ATTR_SYMS:
        for (uint32_t i = 0; i < a->count; i++) hyp_strbuf_printf(w->sb, "%s\"%s\"", i ? "," : "[", a->syms[i]);
        hyp_strbuf_printf(w->sb, a->count ? "]" : "[]");
        break;
    }
    return HYP_OK;
}

static void write_values(hyp_strbuf *sb, const hyp_value_id *values, uint32_t count)
{
    hyp_strbuf_printf(sb, "[");
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] == HYP_NO_VALUE)
            hyp_strbuf_printf(sb, "%snull", i ? "," : "");
        else
            hyp_strbuf_printf(sb, "%s%u", i ? "," : "", values[i]);
    }
    hyp_strbuf_printf(sb, "]");
}

static hyp_status write_node(writer *w, const hyp_node *n)
{
    const hyp_op_info *info = hyp_op_get(n->op);
    hyp_strbuf_printf(w->sb, "[\"%s\",{", info->name);
    for (uint32_t i = 0; i < info->attr_count; i++) {
        hyp_strbuf_printf(w->sb, "%s\"%s\":", i ? "," : "", info->attrs[i].name);
        HYP_TRY(write_attr(w, &n->attrs[i]));
    }
    hyp_strbuf_printf(w->sb, "},");
    write_values(w->sb, n->inputs, n->input_count);
    hyp_strbuf_printf(w->sb, ",");
    write_values(w->sb, n->outputs, n->output_count);
    hyp_strbuf_printf(w->sb, ",[");
    for (uint32_t i = 0; i < n->output_count; i++) {
        const hyp_type *t = &w->g->values.data[n->outputs[i]].type;
        hyp_strbuf_printf(w->sb, "%s[\"%s\",", i ? "," : "", hyp_dtype_name(t->dtype));
        HYP_TRY(write_dims(w, t->dims, (size_t)t->rank));
        hyp_strbuf_printf(w->sb, "]");
    }
    hyp_strbuf_printf(w->sb, "]]");
    return HYP_OK;
}

static hyp_status write_graph(writer *w)
{
    const hyp_graph *g = w->g;
    bool first = true;
    hyp_strbuf_printf(w->sb, "{\"inputs\":");
    write_values(w->sb, g->inputs.data, (uint32_t)g->inputs.len);
    hyp_strbuf_printf(w->sb, ",\"consts\":{");
    for (hyp_value_id i = 0; i < g->values.len; i++) {
        const hyp_value *v = &g->values.data[i];
        if (v->kind != HYP_VALUE_CONST) continue;
        hyp_strbuf_printf(w->sb, "%s\"%u\":[\"%s\",", first ? "" : ",", i, hyp_dtype_name(v->type.dtype));
        HYP_TRY(write_dims(w, v->type.dims, (size_t)v->type.rank));
        hyp_strbuf_printf(w->sb, ",");
        write_bytes(w->sb, v->data, v->bytes);
        hyp_strbuf_printf(w->sb, "]");
        first = false;
    }
    hyp_strbuf_printf(w->sb, "},\"nodes\":[");
    for (size_t i = 0; i < g->nodes.len; i++) {
        if (i) hyp_strbuf_printf(w->sb, ",");
        HYP_TRY(write_node(w, &g->nodes.data[i]));
    }
    hyp_strbuf_printf(w->sb, "],\"outputs\":[");
    for (size_t i = 0; i < g->outputs.len; i++)
        hyp_strbuf_printf(w->sb, "%s%u", i ? "," : "", g->outputs.data[i].value);
    hyp_strbuf_printf(w->sb, "]}");
    return HYP_OK;
}

static hyp_status write_tensor(hyp_strbuf *sb, const hyp_eval_tensor *t, hyp_diag *diag)
{
    size_t bytes = t->count * hyp_dtype_size(t->dtype);
    void *data = hyp_calloc(1, bytes + 1);
    if (!data) return hyp_fail_memory(diag, bytes);
    hyp_eval_tensor_store(t, data);
    hyp_strbuf_printf(sb, "[\"%s\",", hyp_dtype_name(t->dtype));
    write_sizes(sb, t->dims, (size_t)t->rank);
    hyp_strbuf_printf(sb, ",");
    write_bytes(sb, data, bytes);
    hyp_strbuf_printf(sb, "]");
    hyp_free(data);
    return HYP_OK;
}

/* The numbers that the symbols of the graph have, by the sizes of its inputs. */
static void solve(writer *w, const rule_trial *t)
{
    for (int i = 0; i < MAX_SYMBOLS; i++) w->symbols[i] = -1;
    for (size_t i = 0; i < t->before.inputs.len; i++) {
        const hyp_type *type = &t->before.values.data[t->before.inputs.data[i]].type;
        for (int32_t k = 0; k < type->rank; k++) {
            size_t symbol;
            int64_t scale, offset;
            if (hyp_dim_is_linear(t->dims, type->dims[k], &symbol, &scale, &offset) && symbol < MAX_SYMBOLS)
                w->symbols[symbol] = (t->inputs[i].dims[k] - offset) / scale;
        }
    }
}

hyp_status rule_trial_write(hyp_strbuf *sb, const rule_trial *t, const hyp_sexpr *kase, uint64_t seed,
                            const char *mutant, hyp_diag *diag)
{
    writer w = {.sb = sb, .g = &t->before, .diag = diag};
    solve(&w, t);
    hyp_strbuf_printf(sb, "{\"rule\":\"%s\",\"class\":\"%c\",\"line\":%u,\"seed\":%llu,\"mutant\":\"%s\",\"inputs\":[",
                      kase->items[1]->text, t->numeric_class, kase->line, (unsigned long long)seed, mutant);
    for (size_t i = 0; i < t->before.inputs.len; i++) {
        if (i) hyp_strbuf_printf(sb, ",");
        HYP_TRY(write_tensor(sb, &t->inputs[i], diag));
    }
    hyp_strbuf_printf(sb, "],\"before\":");
    HYP_TRY(write_graph(&w));
    w.g = &t->after;
    hyp_strbuf_printf(sb, ",\"after\":");
    HYP_TRY(write_graph(&w));
    hyp_strbuf_printf(sb, "}\n");
    return HYP_OK;
}

/* quantize.c - linear layers of a bf16 graph in f8e4m3, by scales from what they read on samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"

enum { UNIT = 16 }; /* K and N are multiples of it */

/* A linear layer of a graph, whatever its operator. */
typedef struct layer {
    hyp_value_id x, w, b, added;
    bool transposed; /* w is [n k], else [k n] */
    const char *act, *add;
} layer;

/* False for what is no layer. A fused-mlp is none: it has several. */
static bool read_layer(const hyp_graph *g, const hyp_node *n, layer *out)
{
    const hyp_value_id *in = n->inputs;
    *out = (layer){in[n->input_count - 1], in[0], HYP_NO_VALUE, HYP_NO_VALUE, true, "none", "before"};
    switch (n->op) {
    case HYP_OP_fused_linear_add:
        out->added = in[2];
        out->add = n->attrs[1].sym;
        /* fall through */
    case HYP_OP_fused_linear: out->act = n->attrs[0].sym; /* fall through */
    case HYP_OP_linear: out->b = in[1]; return true;
    case HYP_OP_matmul: {
        const hyp_type *a = &g->values.data[in[0]].type, *b = &g->values.data[in[1]].type;
        out->x = in[0];
        out->w = in[1];
        out->transposed = n->attrs[1].i != 0;
        return b->rank == 2 && (n->attrs[0].i == 0 || a->rank == 1) && n->attrs[2].f == 1;
    }
    default: return false;
    }
}

/* ---- which layers fit --------------------------------------------------------------------------------------- */

/* Which values depend on constants alone; NULL when memory is out. */
static bool *find_constants(const hyp_graph *g, hyp_diag *diag, hyp_status *out_status)
{
    bool *constant = hyp_calloc(g->values.len + 1, sizeof *constant);
    *out_status = constant ? HYP_OK : hyp_fail_memory(diag, g->values.len);
    for (size_t v = 0; constant && v < g->values.len; v++) constant[v] = g->values.data[v].kind == HYP_VALUE_CONST;
    for (size_t i = 0; constant && i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        bool all = true;
        for (uint32_t k = 0; k < n->input_count; k++)
            all = all && (n->inputs[k] == HYP_NO_VALUE || constant[n->inputs[k]]);
        for (uint32_t o = 0; o < n->output_count; o++)
            constant[n->outputs[o]] = all && hyp_type_is_static(&g->values.data[n->outputs[o]].type);
    }
    return constant;
}

static bool is_unit(hyp_dim d) { return hyp_dim_is_const(d) && d > 0 && d % UNIT == 0; }

static bool weight_fits(const hyp_type *w)
{
    return w->dtype == HYP_BF16 && is_unit(w->dims[0]) && is_unit(w->dims[1]);
}

static bool layer_fits(const hyp_graph *g, const bool *constant, const layer *l)
{
    return constant[l->w] && weight_fits(&g->values.data[l->w].type);
}

/* What people call a layer: a node of the model, and, as one may stand for several, the constant that its weight is
 * made of. */
typedef struct layer_name {
    char text[192];
} layer_name;

static layer_name name_of(const hyp_graph *g, const hyp_node *n, const layer *l)
{
    layer_name out;
    const hyp_value *w = &g->values.data[l->w];
    const char *name = n->from.source_count ? n->from.sources[0] : g->values.data[n->outputs[0]].name;
    while (w->kind == HYP_VALUE_NODE && g->nodes.data[w->producer].input_count > 0 &&
           g->nodes.data[w->producer].inputs[0] != HYP_NO_VALUE)
        w = &g->values.data[g->nodes.data[w->producer].inputs[0]];
    bool named = w->kind == HYP_VALUE_CONST && w->name;
    snprintf(out.text, sizeof out.text, "%.90s%s%.90s", name ? name : hyp_op_get(n->op)->name, named ? ", weight " : "",
             named ? w->name : "");
    return out;
}

/* ---- 1. chains become layers --------------------------------------------------------------------------------- */

typedef struct opening {
    const hyp_graph *in;
    const bool *constant;
} opening;

static hyp_status open_chain(void *user, hyp_graph *out, hyp_node_id node, const hyp_value_id *inputs,
                             hyp_value_id *outputs, bool *out_made, hyp_diag *diag)
{
    const opening *o = user;
    const hyp_node *n = &o->in->nodes.data[node];
    bool any = false;
    if (n->op != HYP_OP_fused_mlp) return HYP_OK;
    for (uint32_t i = 0; i + 1 < n->input_count; i += 2)
        any = any || (o->constant[n->inputs[i]] && weight_fits(&o->in->values.data[n->inputs[i]].type));
    hyp_value_id x = inputs[n->input_count - 1];
    for (uint32_t i = 0; any && i < n->attrs[0].count; i++) {
        hyp_attr act = {.kind = HYP_ATTR_SYM, .sym = n->attrs[0].syms[i]};
        const hyp_value_id in[] = {inputs[2 * i], inputs[2 * i + 1], x};
        HYP_TRY(hyp_graph_add_node(out, HYP_OP_fused_linear, in, 3, &act, &n->from, &x, 1, diag));
    }
    outputs[0] = x;
    *out_made = any;
    return HYP_OK;
}

hyp_status hyp_graph_open_layers(const hyp_graph *in, hyp_graph *out, hyp_diag *diag)
{
    hyp_status status;
    bool *constant = find_constants(in, diag, &status);
    opening o = {in, constant};
    if (status == HYP_OK) status = hyp_graph_rebuild(in, open_chain, &o, out, diag);
    hyp_free(constant);
    return status;
}

/* ---- 2. what layers read -------------------------------------------------------------------------------------- */

/* Layers that fit are watched, and what they depend on runs. Readers come after what they read. */
static void choose_nodes(hyp_calibration *c, const bool *constant)
{
    const hyp_graph *g = c->graph;
    layer l;
    for (size_t i = g->nodes.len; i-- > 0;) {
        const hyp_node *n = &g->nodes.data[i];
        if (read_layer(g, n, &l) && layer_fits(g, constant, &l)) c->nodes[i] |= HYP_WATCH_TELL;
        for (uint32_t k = 0; c->nodes[i] && k < n->input_count; k++) {
            if (n->inputs[k] == HYP_NO_VALUE) continue;
            const hyp_value *v = &g->values.data[n->inputs[k]];
            if (v->kind == HYP_VALUE_NODE) c->nodes[v->producer] |= HYP_WATCH_RUN;
        }
    }
}

hyp_status hyp_calibration_init(hyp_calibration *c, const hyp_graph *graph, hyp_diag *diag)
{
    size_t count = graph->nodes.len + 1;
    hyp_status status;
    bool *constant = find_constants(graph, diag, &status);
    *c = (hyp_calibration){graph, hyp_calloc(count, sizeof *c->layers), hyp_calloc(count, sizeof *c->nodes)};
    if (status == HYP_OK && (!c->layers || !c->nodes)) status = hyp_fail_memory(diag, count * sizeof *c->layers);
    if (status == HYP_OK)
        choose_nodes(c, constant);
    else
        hyp_calibration_dispose(c);
    hyp_free(constant);
    return status;
}

void hyp_calibration_dispose(hyp_calibration *c)
{
    hyp_free(c->layers);
    hyp_free(c->nodes);
    *c = (hyp_calibration){0};
}

/* Raises *most to the largest magnitude. */
static hyp_status widen_range(const layer_name *name, const char *what, const hyp_eval_tensor *t, double *most,
                              hyp_diag *diag)
{
    for (size_t i = 0; i < t->count; i++) {
        double v = fabs(t->f[i]);
        if (!isfinite(v))
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "%s of the layer '%s' has %g among its numbers, so that no scale can be told for it; take "
                            "samples on which the model computes finite numbers",
                            what, name->text, t->f[i]);
        if (v > *most) *most = v;
    }
    return HYP_OK;
}

static hyp_status note_layer(void *user, hyp_node_id node, const hyp_eval_tensor *const *in, hyp_diag *diag)
{
    hyp_calibration *c = user;
    const hyp_node *n = &c->graph->nodes.data[node];
    hyp_layer_range *range = &c->layers[node];
    layer l;
    if (!read_layer(c->graph, n, &l)) return HYP_OK; /* never: such nodes are not watched */
    bool is_matmul = n->op == HYP_OP_matmul;
    layer_name name = name_of(c->graph, n, &l);
    HYP_TRY(widen_range(&name, "the input", in[is_matmul ? 0 : n->input_count - 1], &range->x, diag));
    if (!range->seen) HYP_TRY(widen_range(&name, "the weight", in[is_matmul ? 1 : 0], &range->weight, diag));
    range->seen = true;
    return HYP_OK;
}

hyp_status hyp_calibrate(hyp_calibration *c, const hyp_eval_tensor *inputs, size_t input_count, hyp_diag *diag)
{
    const hyp_eval_watch watch = {note_layer, c, c->nodes};
    return hyp_graph_watch(c->graph, HYP_EVAL_DOUBLE, inputs, input_count, &watch, diag);
}

/* ---- 3. layers of 8 bits -------------------------------------------------------------------------------------- */

typedef struct quantization {
    const hyp_calibration *calibration;
    const bool *constant;
    hyp_value_id *narrow; /* by value of the graph: x in f8e4m3, HYP_NO_VALUE until it is wanted */
    hyp_strbuf *report;
} quantization;

/* Its inverse is a bf16 number, too. */
static double scale_of(double most)
{
    enum { LEAST = -100 };
    int exponent;
    if (most == 0) return 1;
    double fraction = frexp(most / (double)HYP_F8E4M3_MOST, &exponent); /* in [0.5, 1) */
    if (fraction == 0.5) exponent--;
    return ldexp(1, exponent < LEAST ? LEAST : exponent);
}

/* v / scale in f8e4m3. */
static hyp_status add_conversion(hyp_graph *out, hyp_value_id v, double scale, const hyp_node *n, hyp_value_id *result,
                                 hyp_diag *diag)
{
    const hyp_type scalar = {.dtype = HYP_BF16};
    const hyp_attr to = {.kind = HYP_ATTR_SYM, .sym = hyp_dtype_name(HYP_F8E4M3)};
    uint16_t inverse = hyp_f32_to_bf16((float)(1 / scale));
    hyp_value_id factor;
    if (scale != 1) {
        HYP_TRY(hyp_graph_add_const(out, NULL, &scalar, &inverse, sizeof inverse, true, &factor, diag));
        HYP_TRY(hyp_graph_add_node(out, HYP_OP_mul, (const hyp_value_id[]){v, factor}, 2, NULL, &n->from, &v, 1, diag));
    }
    return hyp_graph_add_node(out, HYP_OP_cast, &v, 1, &to, &n->from, result, 1, diag);
}

static void report_kept(const quantization *q, const hyp_node *n, const layer *l)
{
    const hyp_graph *g = q->calibration->graph;
    const hyp_type *w = &g->values.data[l->w].type;
    hyp_dim size = is_unit(w->dims[0]) ? w->dims[1] : w->dims[0];
    hyp_strbuf_printf(q->report, "%s: stays %s, ", name_of(g, n, l).text, hyp_dtype_name(w->dtype));
    if (!q->constant[l->w])
        hyp_strbuf_puts(q->report, "its weight is no constant\n");
    else if (w->dtype != HYP_BF16)
        hyp_strbuf_puts(q->report, "the model asks for that type\n");
    else
        hyp_strbuf_printf(q->report, "it has [%lld %lld] weights, and %lld is no multiple of %d\n",
                          (long long)w->dims[0], (long long)w->dims[1], (long long)size, UNIT);
}

static hyp_status quantize_node(void *user, hyp_graph *out, hyp_node_id node, const hyp_value_id *inputs,
                                hyp_value_id *outputs, bool *out_made, hyp_diag *diag)
{
    const quantization *q = user;
    const hyp_graph *g = q->calibration->graph;
    const hyp_node *n = &g->nodes.data[node];
    const hyp_layer_range *range = &q->calibration->layers[node];
    layer old, l; /* in the graph, and in `out` */
    if (!read_layer(g, n, &old)) return HYP_OK;
    if (!layer_fits(g, q->constant, &old)) {
        if (n->op != HYP_OP_matmul || q->constant[old.w])
            report_kept(q, n, &old); /* else it is a product of two inputs */
        return HYP_OK;
    }
    hyp_node moved = *n;
    moved.inputs = inputs;
    read_layer(out, &moved, &l);
    double x_scale = scale_of(range->x), w_scale = scale_of(range->weight);
    if (q->narrow[old.x] == HYP_NO_VALUE) HYP_TRY(add_conversion(out, l.x, x_scale, n, &q->narrow[old.x], diag));
    if (!l.transposed) {
        const hyp_attr swap = {.kind = HYP_ATTR_DIMS, .count = 2, .dims = (const hyp_dim[]){1, 0}};
        HYP_TRY(hyp_graph_add_node(out, HYP_OP_transpose, &l.w, 1, &swap, NULL, &l.w, 1, diag));
    }
    HYP_TRY(add_conversion(out, l.w, w_scale, n, &l.w, diag));
    const hyp_value_id in[] = {l.w, l.b, l.added, q->narrow[old.x]};
    const hyp_attr attrs[] = {{.kind = HYP_ATTR_FLOAT, .f = x_scale},
                              {.kind = HYP_ATTR_FLOAT, .f = w_scale},
                              {.kind = HYP_ATTR_SYM, .sym = l.act},
                              {.kind = HYP_ATTR_SYM, .sym = l.add},
                              {.kind = HYP_ATTR_SYM, .sym = hyp_dtype_name(HYP_BF16)}};
    *out_made = true;
    hyp_strbuf_printf(q->report, "%s: x scaled by %g, its largest magnitude %g; weight by %g, %g\n",
                      name_of(g, n, &old).text, x_scale, range->x, w_scale, range->weight);
    return hyp_graph_add_node(out, HYP_OP_quantized_linear, in, 4, attrs, &n->from, outputs, 1, diag);
}

hyp_status hyp_graph_quantize(const hyp_calibration *c, hyp_graph *out, hyp_strbuf *report, hyp_diag *diag)
{
    size_t count = c->graph->values.len;
    hyp_status status;
    bool *constant = find_constants(c->graph, diag, &status);
    hyp_value_id *narrow = hyp_malloc((count + 1) * sizeof *narrow);
    if (status == HYP_OK && !narrow) status = hyp_fail_memory(diag, count * sizeof *narrow);
    if (status == HYP_OK) {
        memset(narrow, 0xff, count * sizeof *narrow); /* HYP_NO_VALUE */
        quantization q = {c, constant, narrow, report};
        status = hyp_graph_rebuild(c->graph, quantize_node, &q, out, diag);
    }
    if (status == HYP_OK && report->failed) {
        hyp_graph_dispose(out);
        status = hyp_fail_memory(diag, report->len);
    }
    hyp_free(narrow);
    hyp_free(constant);
    return status;
}

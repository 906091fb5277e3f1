/* quantize.c - linear layers of a bf16 graph in f8e4m3, by scales from what they read on samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"

enum { UNIT = 16 }; /* K and N are multiples of it */

/* A linear layer of a graph, whatever its operator: which inputs of the node are what, NONE where it has no such. */
typedef struct layer {
    uint32_t x, w, b, added;
    bool nk; /* w is [n k], else [k n] */
    const char *act, *add;
} layer;
enum { NONE = UINT8_MAX };

static hyp_value_id input(const hyp_value_id *inputs, uint32_t which)
{
    return which == NONE ? HYP_NO_VALUE : inputs[which];
}

static const hyp_type *type_of(const hyp_graph *g, hyp_value_id v) { return &g->values.data[v].type; }

/* False for what is no layer. A fused-mlp is none: it has several. */
static bool read_layer(const hyp_graph *g, const hyp_node *n, layer *out)
{
    *out = (layer){.w = 0, .b = 1, .x = 2, .added = NONE, .nk = true, .act = "none", .add = "before"};
    switch (n->op) {
    case HYP_OP_linear: return true;
    case HYP_OP_fused_linear: out->act = n->attrs[0].sym; return true;
    case HYP_OP_fused_linear_add:
        out->added = 2;
        out->x = 3;
        out->act = n->attrs[0].sym;
        out->add = n->attrs[1].sym;
        return true;
    case HYP_OP_matmul:
        out->x = 0;
        out->w = 1;
        out->b = NONE;
        out->nk = n->attrs[1].i != 0;
        return type_of(g, n->inputs[1])->rank == 2 && n->attrs[2].f == 1 &&
               (n->attrs[0].i == 0 || type_of(g, n->inputs[0])->rank == 1);
    default: return false;
    }
}

/* ---- which layers fit --------------------------------------------------------------------------------------- */

/* By value: does it depend on constants alone? The list is the caller's. */
static hyp_status find_constants(const hyp_graph *g, bool **out, hyp_diag *diag)
{
    bool *constant = *out = hyp_calloc(g->values.len + 1, sizeof *constant);
    if (!constant) return hyp_fail_memory(diag, g->values.len);
    hyp_fold_budget budget = hyp_fold_budget_of(g, 0, 0);
    hyp_status status = hyp_constants_find(g, &budget, constant, diag);
    if (status == HYP_OK) return HYP_OK;
    hyp_free(constant);
    *out = NULL;
    return status;
}

static bool is_unit(hyp_dim d) { return hyp_dim_is_const(d) && d > 0 && d % UNIT == 0; }

static bool weight_fits(const hyp_graph *g, const bool *constant, hyp_value_id w)
{
    const hyp_type *t = type_of(g, w);
    return constant[w] && t->dtype == HYP_BF16 && is_unit(t->dims[0]) && is_unit(t->dims[1]);
}

/* What people call a layer: a node of the model, and, as one may stand for several, the constant that its weight is
 * made of. */
typedef struct layer_name {
    char text[192];
} layer_name;

static layer_name name_of(const hyp_graph *g, const hyp_node *n, const layer *l)
{
    layer_name out;
    const hyp_value *w = &g->values.data[n->inputs[l->w]];
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
    for (uint32_t i = 0; i + 1 < n->input_count; i += 2) any = any || weight_fits(o->in, o->constant, n->inputs[i]);
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
    bool *constant;
    HYP_TRY(find_constants(in, &constant, diag));
    opening o = {in, constant};
    hyp_status status = hyp_graph_rebuild(in, open_chain, &o, out, diag);
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
        if (read_layer(g, n, &l) && weight_fits(g, constant, n->inputs[l.w])) c->nodes[i] |= HYP_WATCH_TELL;
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
    bool *constant;
    HYP_TRY(find_constants(graph, &constant, diag));
    *c = (hyp_calibration){graph, hyp_calloc(count, sizeof *c->layers), hyp_calloc(count, sizeof *c->nodes)};
    hyp_status status = c->layers && c->nodes ? HYP_OK : hyp_fail_memory(diag, count * sizeof *c->layers);
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
    layer_name name = name_of(c->graph, n, &l);
    HYP_TRY(widen_range(&name, "the input", in[l.x], &range->x, diag));
    if (!range->seen) HYP_TRY(widen_range(&name, "the weight", in[l.w], &range->weight, diag));
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

/* v / scale in f8e4m3. It is divided by a scale of 1, too: what a plan takes does not depend on the samples. */
static hyp_status add_conversion(hyp_graph *out, hyp_value_id v, double scale, const hyp_node *n, hyp_value_id *result,
                                 hyp_diag *diag)
{
    const hyp_type scalar = {.dtype = out->values.data[v].type.dtype};
    const hyp_attr to = {.kind = HYP_ATTR_SYM, .sym = hyp_dtype_name(HYP_F8E4M3)};
    uint64_t inverse;
    hyp_value_id factor;
    hyp_store_f64(scalar.dtype, &inverse, 0, 1 / scale);
    HYP_TRY(hyp_graph_add_const(out, NULL, &scalar, &inverse, hyp_dtype_size(scalar.dtype), true, &factor, diag));
    HYP_TRY(hyp_graph_add_node(out, HYP_OP_mul, (const hyp_value_id[]){v, factor}, 2, NULL, &n->from, &v, 1, diag));
    return hyp_graph_add_node(out, HYP_OP_cast, &v, 1, &to, &n->from, result, 1, diag);
}

static const hyp_node *producer(const hyp_graph *g, hyp_value_id v)
{
    const hyp_value *value = &g->values.data[v];
    return value->kind == HYP_VALUE_NODE ? &g->nodes.data[value->producer] : NULL;
}

/* A weight as it was before demotion, perhaps transposed: so it is rounded once, to 8 bits, and not to 16 before. */
static hyp_status undo_demotion(hyp_graph *out, hyp_value_id *w, hyp_diag *diag)
{
    const hyp_node *swap = producer(out, *w), *cast = swap;
    if (swap && swap->op == HYP_OP_transpose) cast = producer(out, swap->inputs[0]);
    if (!cast || cast->op != HYP_OP_cast || out->values.data[cast->inputs[0]].type.dtype != HYP_F32) return HYP_OK;
    hyp_value_id original = cast->inputs[0];
    const hyp_provenance from = swap->from;
    if (cast != swap) return hyp_graph_add_node(out, HYP_OP_transpose, &original, 1, swap->attrs, &from, w, 1, diag);
    *w = original;
    return HYP_OK;
}

static void report_kept(const quantization *q, const hyp_node *n, const layer *l)
{
    const hyp_graph *g = q->calibration->graph;
    const hyp_type *w = type_of(g, n->inputs[l->w]);
    hyp_dim size = is_unit(w->dims[0]) ? w->dims[1] : w->dims[0];
    hyp_strbuf_printf(q->report, "%s: stays %s, ", name_of(g, n, l).text, hyp_dtype_name(w->dtype));
    if (!q->constant[n->inputs[l->w]])
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
    layer l;
    if (!read_layer(g, n, &l)) return HYP_OK;
    if (!weight_fits(g, q->constant, n->inputs[l.w])) {
        bool of_inputs = n->op == HYP_OP_matmul && !q->constant[n->inputs[l.w]]; /* a product, and no layer */
        if (!of_inputs) report_kept(q, n, &l);
        return HYP_OK;
    }
    double x_scale = scale_of(range->x), w_scale = scale_of(range->weight);
    hyp_value_id *x = &q->narrow[n->inputs[l.x]], w = inputs[l.w];
    if (*x == HYP_NO_VALUE) HYP_TRY(add_conversion(out, inputs[l.x], x_scale, n, x, diag));
    HYP_TRY(undo_demotion(out, &w, diag));
    if (!l.nk) {
        const hyp_attr swap = {.kind = HYP_ATTR_DIMS, .count = 2, .dims = (const hyp_dim[]){1, 0}};
        HYP_TRY(hyp_graph_add_node(out, HYP_OP_transpose, &w, 1, &swap, NULL, &w, 1, diag));
    }
    HYP_TRY(add_conversion(out, w, w_scale, n, &w, diag));
    const hyp_value_id in[] = {w, input(inputs, l.b), input(inputs, l.added), *x};
    const hyp_attr attrs[] = {{.kind = HYP_ATTR_FLOAT, .f = x_scale},
                              {.kind = HYP_ATTR_FLOAT, .f = w_scale},
                              {.kind = HYP_ATTR_SYM, .sym = l.act},
                              {.kind = HYP_ATTR_SYM, .sym = l.add},
                              {.kind = HYP_ATTR_SYM, .sym = hyp_dtype_name(HYP_BF16)}};
    *out_made = true;
    hyp_strbuf_printf(q->report, "%s: x scaled by %g, its largest magnitude %g; weight by %g, %g\n",
                      name_of(g, n, &l).text, x_scale, range->x, w_scale, range->weight);
    return hyp_graph_add_node(out, HYP_OP_quantized_linear, in, 4, attrs, &n->from, outputs, 1, diag);
}

hyp_status hyp_graph_quantize(const hyp_calibration *c, hyp_graph *out, hyp_strbuf *report, hyp_diag *diag)
{
    size_t count = c->graph->values.len + 1;
    bool *constant;
    HYP_TRY(find_constants(c->graph, &constant, diag));
    quantization q = {c, constant, hyp_malloc(count * sizeof *q.narrow), report};
    hyp_status status = q.narrow ? HYP_OK : hyp_fail_memory(diag, count * sizeof *q.narrow);
    if (status == HYP_OK) {
        memset(q.narrow, 0xff, count * sizeof *q.narrow); /* HYP_NO_VALUE */
        status = hyp_graph_rebuild(c->graph, quantize_node, &q, out, diag);
    }
    if (status == HYP_OK && report->failed) {
        hyp_graph_dispose(out);
        status = hyp_fail_memory(diag, report->len);
    }
    hyp_free(q.narrow);
    hyp_free(constant);
    return status;
}

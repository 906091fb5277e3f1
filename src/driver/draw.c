/* draw.c - sample inputs by the types of a graph's inputs and by what their values are for. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "driver/driver.h"

void hyp_sample_dispose(const hyp_graph *g, hyp_sample *s)
{
    for (size_t i = 0; s->inputs && i < g->inputs.len; i++) hyp_tensor_dispose(&s->inputs[i]);
    hyp_free(s->inputs);
    hyp_free(s->drawn);
    hyp_free_outputs(s->values, g->outputs.len);
    hyp_free_outputs(s->tolerances, g->outputs.len);
    *s = (hyp_sample){0};
}

/* ---- sizes ---------------------------------------------------------------------------------------------- */

void hyp_sample_sizes(const hyp_graph *g, const hyp_settings *settings, hyp_draw how, int attempt, int64_t *sizes)
{
    static const int64_t small[] = {2, 3, 5, 7, 11, 13};
    enum { SMALL = sizeof small / sizeof *small };
    const hyp_compile_options *o = &settings->options;
    for (size_t i = 0; i < hyp_dims_symbol_count(g->dims); i++) {
        const char *name = hyp_dims_symbol_name(g->dims, i);
        switch (attempt / 4) {
        case 0: sizes[i] = small[(i + (size_t)how) % SMALL]; break; /* all different: what is mixed up is seen */
        case 1: sizes[i] = 8; break;
        case 2: sizes[i] = 1; break;
        case 3: sizes[i] = 16 * small[i % SMALL]; break;
        case 4: sizes[i] = HYP_TYPICAL_SIZE; break;
        default: sizes[i] = 224;
        }
        for (size_t k = 0; k < o->typical_count; k++)
            if (strcmp(o->typical_names[k], name) == 0) sizes[i] = o->typical_values[k];
    }
}

/* ---- integers ------------------------------------------------------------------------------------------- */

/* What an integer input may hold. */
typedef struct range {
    int64_t high; /* largest, INT64_MAX where nothing bounds it */
    bool index;   /* it may count from the end */
} range;

enum { NONE = -1 };

static int64_t size_of(const hyp_graph *g, hyp_value_id v, int64_t axis, const int64_t *sizes)
{
    const hyp_type *t = &g->values.data[v].type;
    int64_t size;
    if (axis < 0) axis += t->rank;
    if (axis < 0 || axis >= t->rank || hyp_dim_eval(g->dims, t->dims[axis], sizes, &size, NULL) != HYP_OK) return 1;
    return size;
}

static void bound(range *ranges, const int32_t *origin, hyp_value_id v, int64_t high, bool index)
{
    if (v == HYP_NO_VALUE || origin[v] == NONE) return;
    range *r = &ranges[origin[v]];
    if (high < r->high) r->high = high > 0 ? high : 0;
    r->index = r->index && index;
}

/* The axes that the tuples of gather-nd and scatter-nd go along. */
static void bound_tuples(const hyp_graph *g, const hyp_node *n, int64_t first, range *ranges, const int32_t *origin,
                         const int64_t *sizes)
{
    const hyp_type *indices = &g->values.data[n->inputs[1]].type;
    int64_t count = indices->rank ? size_of(g, n->inputs[1], -1, sizes) : 0;
    for (int64_t a = first; a < first + count; a++)
        bound(ranges, origin, n->inputs[1], size_of(g, n->inputs[0], a, sizes) - 1, true);
}

static void bound_node(const hyp_graph *g, const hyp_node *n, range *ranges, const int32_t *origin,
                       const int64_t *sizes)
{
    switch (n->op) {
    case HYP_OP_gather:
    case HYP_OP_gather_elements:
    case HYP_OP_scatter_elements:
        bound(ranges, origin, n->inputs[1], size_of(g, n->inputs[0], n->attrs[0].i, sizes) - 1, true);
        break;
    case HYP_OP_gather_nd: bound_tuples(g, n, n->attrs[0].i, ranges, origin, sizes); break;
    case HYP_OP_scatter_nd: bound_tuples(g, n, 0, ranges, origin, sizes); break;
    case HYP_OP_one_hot: {
        int64_t depth;
        if (hyp_dim_eval(g->dims, n->attrs[1].dims[0], sizes, &depth, NULL) == HYP_OK)
            bound(ranges, origin, n->inputs[0], depth - 1, true);
        break;
    }
    case HYP_OP_reverse_sequence:
        bound(ranges, origin, n->inputs[1], size_of(g, n->inputs[0], n->attrs[1].i, sizes), false);
        break;
    case HYP_OP_lstm:
    case HYP_OP_lstm_cells:
    case HYP_OP_gru:
    case HYP_OP_rnn: {
        uint32_t lengths = n->op == HYP_OP_gru ? 3 : 2;
        if (lengths < n->input_count)
            bound(ranges, origin, n->inputs[lengths], size_of(g, n->inputs[0], 0, sizes), false);
        break;
    }
    case HYP_OP_roi_align:
    case HYP_OP_roi_align_gradient:
        bound(ranges, origin, n->inputs[2], size_of(g, n->inputs[0], 0, sizes) - 1, false);
        break;
    case HYP_OP_tensor_scatter:
        if (n->input_count > 2) bound(ranges, origin, n->inputs[2], 0, false);
        break;
    case HYP_OP_trilu:
        if (n->input_count > 1) bound(ranges, origin, n->inputs[1], 2, true);
        break;
    default: break;
    }
}

/* Follows every integer input through what only moves or converts it to where it is an index. */
static hyp_status find_ranges(const hyp_graph *g, const int64_t *sizes, range *ranges, hyp_diag *diag)
{
    int32_t *origin = hyp_calloc(g->values.len ? g->values.len : 1, sizeof *origin);
    if (!origin) return hyp_fail_memory(diag, g->values.len * sizeof *origin);
    for (size_t i = 0; i < g->values.len; i++) origin[i] = NONE;
    for (size_t i = 0; i < g->inputs.len; i++) {
        ranges[i] = (range){INT64_MAX, true};
        origin[g->inputs.data[i]] = (int32_t)i;
    }
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        bound_node(g, n, ranges, origin, sizes);
        bool moves = (hyp_op_get(n->op)->flags & (HYP_OPF_VIEW | HYP_OPF_COPY)) || n->op == HYP_OP_cast ||
                     n->op == HYP_OP_where || n->op == HYP_OP_min || n->op == HYP_OP_max || n->op == HYP_OP_add;
        for (uint32_t k = 0; moves && k < n->input_count; k++) {
            hyp_value_id v = n->inputs[k];
            if (v == HYP_NO_VALUE || origin[v] == NONE || (n->op == HYP_OP_gather && k == 1)) continue;
            for (uint32_t j = 0; j < n->output_count; j++) origin[n->outputs[j]] = origin[v];
        }
    }
    hyp_free(origin);
    return HYP_OK;
}

static hyp_drawn draw_integers(hyp_dtype t, range r, hyp_draw how, int attempt)
{
    hyp_drawn d = {.how = how, .low = 0, .high = 3};
    bool is_signed = t == HYP_I8 || t == HYP_I16 || t == HYP_I32 || t == HYP_I64;
    int64_t wide = t == HYP_U8 ? 255 : t == HYP_I8 ? 127 : t == HYP_I16 || t == HYP_U16 ? 32767 : 1 << 20;
    if (r.high != INT64_MAX) {
        d.high = r.high;
        if (how == HYP_DRAW_WIDE && r.index && is_signed) d.low = -r.high - 1;
    } else if (how != HYP_DRAW_ORDINARY || t == HYP_U8 || t == HYP_I8) {
        d.high = wide;
        d.low = is_signed ? -wide : 0;
    }
    switch (attempt % 4) {
    case 0: break;
    case 1: d.low = 0, d.high = d.high < 1 ? d.high : 1; break;
    case 2: d.low = d.high = 0; break;
    default: d.low = d.high = 1;
    }
    return d;
}

/* ---- floats --------------------------------------------------------------------------------------------- */

/* Whether every value is one of an input, or comes from few of them without being multiplied up: what is very large or
 * no number stays where it is. */
static bool is_elementwise(const hyp_graph *g)
{
    for (size_t i = 0; i < g->nodes.len; i++)
        if (!(hyp_op_get(g->nodes.data[i].op)->flags & (HYP_OPF_ELEMENTWISE | HYP_OPF_VIEW | HYP_OPF_COPY)))
            return false;
    return true;
}

static hyp_drawn draw_floats(const hyp_graph *g, hyp_dtype t, const hyp_settings *settings, hyp_draw how)
{
    bool narrow = t == HYP_F16 || settings->precision == HYP_PRECISION_FP16 ||
                  settings->precision == HYP_PRECISION_BF16 || settings->precision == HYP_PRECISION_FP8;
    hyp_drawn d = {.how = how};
    if (how == HYP_DRAW_WIDE) d.high = narrow ? 3 : 10;
    if (how == HYP_DRAW_WIDE) d.low = narrow ? -4 : -14;
    if (how == HYP_DRAW_EDGES) d.high = !narrow && is_elementwise(g);
    return d;
}

/* ---- samples -------------------------------------------------------------------------------------------- */

static hyp_status draw_input(const hyp_graph *g, size_t i, const int64_t *sizes, const hyp_drawn *d, hyp_tensor *out,
                             hyp_diag *diag)
{
    const hyp_value *v = &g->values.data[g->inputs.data[i]];
    hyp_tensor t = {.name = v->name, .dtype = v->type.dtype, .rank = v->type.rank};
    for (int32_t a = 0; a < t.rank; a++) HYP_TRY(hyp_dim_eval(g->dims, v->type.dims[a], sizes, &t.dims[a], diag));
    HYP_TRY(hyp_tensor_alloc(&t, diag));
    hyp_tensor_draw(&t, d->how, d->seed, d->low, d->high);
    *out = t;
    return HYP_OK;
}

static void make_positive(const hyp_tensor *t)
{
    size_t size = hyp_dtype_size(t->dtype);
    for (size_t i = 0; hyp_dtype_is_float(t->dtype) && i < t->bytes / size; i++)
        hyp_store_f64(t->dtype, t->data, i, fabs(hyp_load_f64(t->dtype, t->data, i)));
}

hyp_status hyp_draw_variable(const hyp_graph *g, size_t variable, hyp_tensor *out, hyp_diag *diag)
{
    const hyp_value *v = hyp_graph_variable(g, variable);
    hyp_tensor t = {.name = v->name, .dtype = v->type.dtype, .rank = v->type.rank};
    memcpy(t.dims, v->type.dims, sizeof t.dims);
    HYP_TRY(hyp_tensor_alloc(&t, diag));
    if (v->bytes) {
        memcpy(t.data, v->data, v->bytes);
    } else {
        hyp_tensor_draw(&t, HYP_DRAW_ORDINARY, variable, 0, 9);
        make_positive(&t);
    }
    *out = t;
    return HYP_OK;
}

hyp_status hyp_sample_draw(const hyp_graph *g, const hyp_settings *settings, hyp_draw how, int attempt, hyp_sample *out,
                           hyp_diag *diag)
{
    size_t count = g->inputs.len + 1, symbols = hyp_dims_symbol_count(g->dims) + 1;
    hyp_sample s = {.inputs = hyp_calloc(count, sizeof *s.inputs), .drawn = hyp_calloc(count, sizeof *s.drawn)};
    int64_t *sizes = hyp_calloc(symbols, sizeof *sizes);
    range *ranges = hyp_calloc(count, sizeof *ranges);
    hyp_status status =
        s.inputs && s.drawn && sizes && ranges ? HYP_OK : hyp_fail_memory(diag, count * sizeof *s.inputs);
    if (status == HYP_OK) {
        hyp_sample_sizes(g, settings, how, attempt, sizes);
        status = find_ranges(g, sizes, ranges, diag);
    }
    size_t shown = hyp_graph_shown_inputs(g);
    for (size_t i = 0; i < g->variables.len && status == HYP_OK; i++)
        status = hyp_draw_variable(g, i, &s.inputs[shown + i], diag);
    for (size_t i = 0; i < shown && status == HYP_OK; i++) {
        hyp_dtype t = g->values.data[g->inputs.data[i]].type.dtype;
        s.drawn[i] =
            hyp_dtype_is_float(t) ? draw_floats(g, t, settings, how) : draw_integers(t, ranges[i], how, attempt);
        s.drawn[i].seed = ((uint64_t)how + 1) * 1000003 + i;
        status = draw_input(g, i, sizes, &s.drawn[i], &s.inputs[i], diag);
    }
    hyp_free(sizes);
    hyp_free(ranges);
    if (status == HYP_OK)
        *out = s;
    else
        hyp_sample_dispose(g, &s);
    return status;
}

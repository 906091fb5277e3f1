/* loop_run.c - loops that the runtime runs: those whose trips cannot be written out, because only a run tells how many
 * there are, or because there are too many. The body is imported once, into the graph, from inputs that stand for what
 * a trip is given; it is then taken out of the graph as one of its own, and compiled. */
#include <stdio.h>
#include <string.h>

#include "base/loop.h"
#include "ir/constants.h"
#include "onnx/loop.h"

/* What a step may have; trips that results have room for where nothing is said. */
enum { MOST_INPUTS = HYP_ONNX_CUSTOM_INPUTS, MOST_OUTPUTS = HYP_ONNX_CUSTOM_OUTPUTS, MOST_TRIPS = 1024 };

typedef struct making {
    hyp_onnx_loop *l;
    hyp_onnx_run *run;
    const hyp_onnx_node *n;
    hyp_importer *im;
    hyp_onnx_mark before;
    hyp_value_id *given; /* what stands for what a trip is given: its number, the condition, what is handed on */
    bool *wanted;        /* by value: the body is computed of it */
    hyp_value_id *map;   /* by value of the graph: of the body's */
    HYP_VEC(hyp_value_id) alike; /* values around that every trip is given */
    hyp_graph graph;             /* of the body */
    hyp_value_id plan;
} making;

/* ---- the graph before ------------------------------------------------------------------------------------------- */

hyp_onnx_mark hyp_onnx_mark_end(const hyp_importer *im)
{
    return (hyp_onnx_mark){im->g->values.len, im->g->nodes.len, im->data_sizes.len,
                           im->states.len,    im->unrolled,     im->unrolled_bytes};
}

void hyp_onnx_go_back(hyp_importer *im, const hyp_onnx_mark *mark)
{
    im->g->values.len = mark->values;
    im->g->nodes.len = mark->nodes;
    if (im->from_data.len > mark->values) im->from_data.len = mark->values;
    im->data_sizes.len = mark->data_sizes;
    im->states.len = mark->states;
    im->unrolled = mark->unrolled;
    im->unrolled_bytes = mark->unrolled_bytes;
}

/* ---- one trip in the graph -------------------------------------------------------------------------------------- */

/* A value that stands for what a trip is given: an input, which the graph does not list. */
static hyp_status stand_in(const making *m, hyp_type type, hyp_value_id *out)
{
    hyp_graph *g = m->im->g;
    const char *name = hyp_arena_printf(&m->im->arena, "%s: value %zu of a trip", m->n->name, g->values.len);
    if (!name) return hyp_fail_memory(m->im->diag, 64);
    HYP_TRY(hyp_graph_add_input(g, name, &type, out, m->im->diag));
    g->inputs.len--;
    return HYP_OK;
}

static hyp_status add_trip(making *m)
{
    const hyp_onnx_run *r = m->run;
    hyp_importer *im = m->im;
    m->given = hyp_arena_zalloc(&im->arena, 2 + r->carried, sizeof *m->given);
    if (!m->given) return hyp_fail_memory(im->diag, r->carried * sizeof *m->given);
    HYP_TRY(stand_in(m, (hyp_type){.dtype = HYP_I64}, &m->given[0]));
    HYP_TRY(stand_in(m, (hyp_type){.dtype = HYP_BOOL}, &m->given[1]));
    for (uint32_t k = 0; k < r->carried; k++) {
        if (hyp_onnx_is_sequence(r->from[k]))
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED,
                            "hands on a sequence, which only a loop with known trips can");
        HYP_TRY(stand_in(m, hyp_onnx_value_type(m->n, r->from[k]), &m->given[2 + k]));
    }
    HYP_TRY(r->set_inputs(r->user, m->given[0], m->given[1], m->given + 2, m->l->in));
    HYP_TRY(hyp_onnx_branch_add(m->n, &m->l->body, m->l->in, m->l->out));
    for (uint32_t o = 0; o < m->l->graph->n_output; o++)
        if (hyp_onnx_is_sequence(m->l->out[o]))
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "output %u of its body is a sequence; a tensor is wanted",
                            o);
    if (im->data_sizes.len == m->before.data_sizes) return HYP_OK;
    return hyp_fail(
        im->diag, HYP_ERR_UNSUPPORTED,
        "a trip makes something whose size only its data tell ('%s'), which only a loop with known trips can",
        im->data_sizes.data[im->data_sizes.len - 1].name);
}

static hyp_status check_types(const making *m)
{
    const hyp_onnx_run *r = m->run;
    hyp_importer *im = m->im;
    if (r->first) {
        hyp_type type = hyp_onnx_value_type(m->n, m->l->out[0]);
        if (type.dtype != HYP_BOOL || type.rank > 1 || (type.rank == 1 && type.dims[0] != 1))
            return hyp_fail(im->diag, HYP_ERR_MALFORMED, "its condition should be one bool");
    }
    for (uint32_t k = 0; k < r->carried; k++) {
        hyp_type before = hyp_onnx_value_type(m->n, r->from[k]),
                 after = hyp_onnx_value_type(m->n, m->l->out[r->first + k]);
        if (hyp_type_equal(&before, &after)) continue;
        hyp_strbuf sb = {0};
        hyp_type_print(&sb, im->g->dims, &before);
        hyp_strbuf_puts(&sb, ", and hands on ");
        hyp_type_print(&sb, im->g->dims, &after);
        hyp_status status =
            hyp_fail(im->diag, HYP_ERR_UNSUPPORTED,
                     "a trip is given %s, as value %u: where it is not known how many trips there are, all "
                     "have the same shapes",
                     hyp_strbuf_text(&sb), k);
        hyp_strbuf_dispose(&sb);
        return status;
    }
    for (uint32_t k = 0; k < m->run->collected; k++)
        if (hyp_onnx_value_type(m->n, m->l->out[r->first + r->carried + k]).rank == HYP_MAX_RANK)
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "stacks tensors of rank %d; its results may have %d axes",
                            HYP_MAX_RANK, HYP_MAX_RANK);
    return HYP_OK;
}

/* ---- the body as a graph of its own ----------------------------------------------------------------------------- */

/* Whether a node is computed in every trip: it is the body's, or says of sizes what inference then knows there, too. */
static bool is_inside(const making *m, size_t node)
{
    const hyp_node *n = &m->im->g->nodes.data[node];
    if (node >= m->before.nodes) return true;
    for (uint32_t o = 0; o < n->output_count; o++)
        if (hyp_value_is_listed(&m->im->g->values.data[n->outputs[o]])) return true;
    return false;
}

static void find_wanted(making *m)
{
    const hyp_graph *g = m->im->g;
    const hyp_onnx_run *r = m->run;
    for (uint32_t o = 0; o < r->first + r->carried + r->collected; o++) m->wanted[m->l->out[o]] = true;
    for (size_t i = g->nodes.len; i-- > 0;) {
        const hyp_node *n = &g->nodes.data[i];
        bool wanted = false;
        for (uint32_t o = 0; o < n->output_count; o++) wanted = wanted || m->wanted[n->outputs[o]];
        for (uint32_t k = 0; wanted && is_inside(m, i) && k < n->input_count; k++)
            if (n->inputs[k] != HYP_NO_VALUE) m->wanted[n->inputs[k]] = true;
    }
}

static bool is_given(const making *m, hyp_value_id v)
{
    for (uint32_t k = 0; k < 2 + m->run->carried; k++)
        if (m->given[k] == v) return true;
    return false;
}

static hyp_status add_alike(making *m, hyp_value_id v)
{
    char name[32];
    snprintf(name, sizeof name, "alike %zu", m->alike.len);
    HYP_TRY(hyp_graph_add_input(&m->graph, name, &m->im->g->values.data[v].type, &m->map[v], m->im->diag));
    return hyp_vec_push(&m->alike, m->im->diag, v);
}

/* An input of the model that has a symbol as the size of an axis: given to the body, it tells it there. */
static hyp_status tell_symbol(making *m, size_t symbol)
{
    const hyp_graph *g = m->im->g;
    hyp_dim d;
    HYP_TRY(hyp_dim_symbol(g->dims, hyp_dims_symbol_name(g->dims, symbol), &d, m->im->diag));
    for (size_t i = 0; i < m->graph.inputs.len; i++) {
        const hyp_type *t = &m->graph.values.data[m->graph.inputs.data[i]].type;
        for (int32_t a = 0; a < t->rank; a++)
            if (t->dims[a] == d) return HYP_OK;
    }
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_type *t = &g->values.data[g->inputs.data[i]].type;
        for (int32_t a = 0; a < t->rank; a++)
            if (t->dims[a] == d) return add_alike(m, g->inputs.data[i]);
    }
    return hyp_fail(m->im->diag, HYP_ERR_UNSUPPORTED,
                    "a trip needs to know the size '%s', which no input has as that of an axis",
                    hyp_dims_symbol_name(g->dims, symbol));
}

static hyp_status tell_symbols(making *m)
{
    const hyp_graph *g = m->im->g;
    for (size_t s = 0; s < hyp_dims_symbol_count(g->dims); s++) {
        bool used = false;
        for (size_t v = 0; v < g->values.len && !used; v++)
            for (int32_t a = 0; m->wanted[v] && a < g->values.data[v].type.rank; a++)
                used = used || hyp_dim_depends(g->dims, g->values.data[v].type.dims[a], s);
        if (used) HYP_TRY(tell_symbol(m, s));
    }
    return HYP_OK;
}

static hyp_status add_inputs(making *m)
{
    static const char *const first[] = {"trip", "condition"};
    const hyp_graph *g = m->im->g;
    for (uint32_t k = 0; k < 2 + m->run->carried; k++) {
        char name[32];
        if (k >= 2) snprintf(name, sizeof name, "value %u", k - 2);
        const hyp_value_id v = m->given[k];
        HYP_TRY(
            hyp_graph_add_input(&m->graph, k < 2 ? first[k] : name, &g->values.data[v].type, &m->map[v], m->im->diag));
    }
    for (size_t v = 0; v < g->values.len; v++) {
        const hyp_value *value = &g->values.data[v];
        if (!m->wanted[v] || is_given(m, (hyp_value_id)v)) continue;
        if (value->kind == HYP_VALUE_NODE && is_inside(m, value->producer)) continue;
        HYP_TRY(value->kind == HYP_VALUE_CONST && !value->updatable
                    ? hyp_graph_copy_const(&m->graph, value, &m->map[v], m->im->diag)
                    : add_alike(m, (hyp_value_id)v));
    }
    return tell_symbols(m);
}

static hyp_status add_outputs(making *m)
{
    const hyp_onnx_run *r = m->run;
    hyp_value_id more;
    bool truth = true;
    const hyp_type type = {.dtype = HYP_BOOL};
    HYP_TRY(r->first ? (more = m->map[m->l->out[0]], HYP_OK)
                     : hyp_graph_add_const(&m->graph, NULL, &type, &truth, sizeof truth, true, &more, m->im->diag));
    HYP_TRY(hyp_graph_add_output(&m->graph, "more", more, m->im->diag));
    for (uint32_t o = 0; o < r->carried + r->collected; o++) {
        char name[32];
        snprintf(name, sizeof name, "result %u", o);
        HYP_TRY(hyp_graph_add_output(&m->graph, name, m->map[m->l->out[r->first + o]], m->im->diag));
    }
    return HYP_OK;
}

static hyp_status take_out(making *m)
{
    const hyp_graph *g = m->im->g;
    m->wanted = hyp_calloc(g->values.len, sizeof *m->wanted);
    m->map = hyp_calloc(g->values.len, sizeof *m->map);
    if (!m->wanted || !m->map) return hyp_fail_memory(m->im->diag, g->values.len * sizeof *m->map);
    find_wanted(m);
    HYP_TRY(add_inputs(m));
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        bool wanted = false;
        for (uint32_t o = 0; o < n->output_count; o++) wanted = wanted || m->wanted[n->outputs[o]];
        if (wanted && is_inside(m, i)) HYP_TRY(hyp_graph_copy_node(&m->graph, g, n, m->map, m->im->diag));
    }
    HYP_TRY(add_outputs(m));
    return hyp_graph_verify(&m->graph, m->im->diag);
}

/* ---- the step --------------------------------------------------------------------------------------------------- */

/* The plan of the body, as a constant. */
static hyp_status compile(making *m)
{
    hyp_importer *im = m->im;
    void *bytes;
    size_t size;
    HYP_TRY(im->options->compile_body(im->options->compile_user, &m->graph, &bytes, &size, im->diag));
    const hyp_type type = {.dtype = HYP_U8, .rank = 1, .dims = {(hyp_dim)size}};
    hyp_onnx_go_back(im, &m->before);
    hyp_status status = hyp_graph_add_const(im->g, NULL, &type, bytes, size, true, &m->plan, im->diag);
    hyp_free(bytes);
    return status;
}

/* What a value is a copy of: most bodies hand on the condition as it was given to them. */
static hyp_value_id find_copied(const hyp_graph *g, hyp_value_id v)
{
    while (g->values.data[v].kind == HYP_VALUE_NODE) {
        const hyp_node *n = &g->nodes.data[g->values.data[v].producer];
        if (n->op != HYP_OP_identity) break;
        v = n->inputs[0];
    }
    return v;
}

/* Whether every trip goes on: it gives the condition that it was given, which is true, or a constant. */
static bool goes_on(const making *m)
{
    const hyp_graph *g = m->im->g;
    if (!m->run->first) return true;
    if (m->run->condition != HYP_NO_VALUE) return false;
    hyp_value_id v = find_copied(g, m->l->out[0]);
    const hyp_value *value = &g->values.data[v];
    return v == m->given[1] || (value->kind == HYP_VALUE_CONST && hyp_load_i64(HYP_BOOL, value->data, 0));
}

/* The texts and numbers of a custom operator. */
typedef struct attributes {
    const char *values[4];
    const char *types[MOST_OUTPUTS];
    hyp_dim shapes[MOST_OUTPUTS * (1 + HYP_MAX_RANK)];
    uint32_t outputs, shape_count;
} attributes;

static void add_result(attributes *a, const hyp_type *row, const hyp_dim *rows)
{
    a->types[a->outputs++] = hyp_dtype_name(row->dtype);
    a->shapes[a->shape_count++] = row->rank + (rows != NULL);
    if (rows) a->shapes[a->shape_count++] = *rows;
    for (int32_t i = 0; i < row->rank; i++) a->shapes[a->shape_count++] = row->dims[i];
}

static hyp_status set_values(const making *m, bool counts, int64_t most, attributes *a)
{
    hyp_arena *arena = &m->im->arena;
    a->values[0] = hyp_arena_printf(arena, HYP_LOOP_CARRIED "=i:%u,", m->run->carried);
    a->values[1] = hyp_arena_printf(arena, HYP_LOOP_COLLECTED "=i:%u,", m->run->collected);
    a->values[2] = hyp_arena_printf(arena, HYP_LOOP_COUNTS "=i:%d,", counts);
    a->values[3] = hyp_arena_printf(arena, HYP_LOOP_MOST "=i:%lld,", (long long)most);
    bool there = a->values[0] && a->values[1] && a->values[2] && a->values[3];
    return there ? HYP_OK : hyp_fail_memory(m->im->diag, 64);
}

/* How many rows there is room for; *counts: of which a run says how many there are. */
static hyp_status count_rows(const making *m, bool always, hyp_dim *rows, bool *counts)
{
    const hyp_onnx_run *r = m->run;
    int64_t most = m->im->options->loop_limit ? m->im->options->loop_limit : MOST_TRIPS;
    *rows = r->is_sized ? r->most : most;
    if (hyp_dim_is_const(*rows) && *rows < 0) *rows = 0;
    if (!always && m->im->options->loop_limit && hyp_dim_is_const(*rows) && *rows > most) *rows = most;
    *counts = r->collected && (!always || !r->is_sized);
    return *counts ? hyp_onnx_new_data_size(m->n, *rows, rows) : HYP_OK;
}

static hyp_status emit(making *m, bool always, const hyp_type *types)
{
    const hyp_onnx_run *r = m->run;
    hyp_importer *im = m->im;
    const uint32_t results = r->carried + r->collected,
                   inputs = HYP_LOOP_FIRST + r->carried + (uint32_t)m->alike.len;
    attributes a = {.outputs = 0};
    hyp_value_id in[MOST_INPUTS], out[MOST_OUTPUTS];
    hyp_dim rows;
    bool counts;
    HYP_TRY(count_rows(m, always, &rows, &counts));
    if (inputs > MOST_INPUTS || results + counts > MOST_OUTPUTS)
        return hyp_fail(
            im->diag, HYP_ERR_UNSUPPORTED,
            "has %u values that go in and %u that come out; a loop whose trips are not known has at most %d and %d",
            inputs, results + counts, MOST_INPUTS, MOST_OUTPUTS);
    in[HYP_LOOP_PLAN] = m->plan;
    in[HYP_LOOP_TRIPS] = r->trips;
    in[HYP_LOOP_CONDITION] = r->condition;
    for (uint32_t k = 0; k < r->carried; k++) in[HYP_LOOP_FIRST + k] = r->from[k];
    for (size_t k = 0; k < m->alike.len; k++) in[HYP_LOOP_FIRST + r->carried + k] = m->alike.data[k];
    for (uint32_t o = 0; o < results; o++) add_result(&a, &types[o], o < r->carried ? NULL : &rows);
    const hyp_type one = {.dtype = HYP_I64};
    if (counts) add_result(&a, &one, NULL);
    bool limited = im->options->loop_limit && !(always && r->is_sized); /* only the data tell how many there are */
    HYP_TRY(set_values(m, counts, limited ? im->options->loop_limit : -1, &a));
    const hyp_attr attrs[] = {
        hyp_attr_of_sym(HYP_LOOP_OPERATOR),
        {.kind = HYP_ATTR_SYMS, .count = 4, .syms = a.values},
        {.kind = HYP_ATTR_SYMS, .count = a.outputs, .syms = a.types},
        hyp_attr_of_dims(a.shapes, a.shape_count),
    };
    HYP_TRY(hyp_onnx_emit(m->n, HYP_OP_custom, in, inputs, attrs, out, a.outputs));
    memcpy(r->results, out, results * sizeof *out);
    if (counts) im->data_sizes.data[im->data_sizes.len - 1].count = out[results];
    return HYP_OK;
}

static hyp_status make(making *m)
{
    const hyp_onnx_run *r = m->run;
    uint32_t results = r->carried + r->collected;
    HYP_TRY(add_trip(m));
    HYP_TRY(check_types(m));
    HYP_TRY(take_out(m));
    hyp_type *types = hyp_arena_zalloc(&m->im->arena, results + 1, sizeof *types);
    if (!types) return hyp_fail_memory(m->im->diag, results * sizeof *types);
    for (uint32_t o = 0; o < results; o++) types[o] = hyp_onnx_value_type(m->n, m->l->out[r->first + o]);
    bool always = goes_on(m);
    if (always && r->trips == HYP_NO_VALUE)
        return hyp_fail(m->im->diag, HYP_ERR_UNSUPPORTED,
                        "nothing ends it: it has no trip count, and its condition is always true");
    HYP_TRY(compile(m));
    return emit(m, always, types);
}

/* A condition that is known: *out_known and *out. */
hyp_status hyp_onnx_loop_condition(const hyp_onnx_node *n, hyp_value_id condition, bool *out_known, bool *out)
{
    const hyp_graph *g = n->im->g;
    const hyp_type type = hyp_onnx_value_type(n, condition);
    hyp_onnx_node one = *n;
    hyp_eval_tensor t;
    condition = find_copied(g, condition);
    if (type.dtype != HYP_BOOL || type.rank > 1 || (type.rank == 1 && type.dims[0] != 1))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "its condition should be one bool");
    *out_known = g->values.data[condition].kind == HYP_VALUE_CONST;
    if (*out_known) return *out = hyp_load_i64(HYP_BOOL, g->values.data[condition].data, 0) != 0, HYP_OK;
    one.inputs = &condition;
    one.input_count = 1;
    hyp_status status = hyp_onnx_constant(&one, 0, "the condition", &t);
    *out_known = status == HYP_OK;
    *out = status == HYP_OK && t.i[0];
    hyp_eval_tensor_dispose(&t);
    if (status != HYP_ERR_UNSUPPORTED) return status;
    *n->im->diag = (hyp_diag){0};
    return HYP_OK;
}

/* Whether a loop that failed to be written out with this status is to be run: for want of numbers (`only` that is
 * possible), or because it is too much, which the outermost of those that are written out is then. In these few are
 * run, each of whose trips would have a plan of its own. */
hyp_status hyp_onnx_loop_want_run(const hyp_importer *im, bool only, hyp_status status)
{
    enum { MOST_BODIES = 16 };
    if (!im->options->compile_body || (!only && (status != HYP_ERR_LIMIT || im->writing))) return status;
    if (im->writing && im->bodies >= MOST_BODIES)
        return hyp_fail(im->diag, HYP_ERR_LIMIT, "is to be run, in a loop that is written out, as %d are already",
                        MOST_BODIES);
    return HYP_OK;
}

static hyp_status run_loop(hyp_onnx_loop *l, hyp_onnx_run *r)
{
    hyp_importer *im = l->n->im;
    making m = {.l = l, .run = r, .n = l->n, .im = im, .before = hyp_onnx_mark_end(im)};
    const uint32_t writing = im->writing;
    im->writing = 0;
    im->running++;
    hyp_graph_init(&m.graph, im->g->dims);
    hyp_status status = make(&m);
    im->writing = writing;
    im->running--;
    im->bodies++;
    hyp_graph_dispose(&m.graph);
    hyp_vec_free(&m.alike);
    hyp_free(m.wanted);
    hyp_free(m.map);
    if (status != HYP_OK) hyp_diag_prefix(im->diag, "as a loop that is run");
    return status;
}

hyp_status hyp_onnx_loop_run(hyp_onnx_loop *l, hyp_onnx_run *run)
{
    const hyp_onnx_node *n = l->n;
    hyp_importer *im = n->im;
    bool known, truth;
    if (im->running == HYP_LOOP_DEEPEST)
        return hyp_fail(im->diag, HYP_ERR_LIMIT, "is in %d others that are run, as many as there may be",
                        HYP_LOOP_DEEPEST);
    run->results = hyp_arena_zalloc(&im->arena, run->carried + run->collected + 1, sizeof *run->results);
    if (!run->results) return hyp_fail_memory(im->diag, run->carried * sizeof *run->results);
    if (run->condition != HYP_NO_VALUE) {
        HYP_TRY(hyp_onnx_loop_condition(n, run->condition, &known, &truth));
        if (known && truth) run->condition = HYP_NO_VALUE;
    }
    HYP_TRY(run_loop(l, run));
    for (uint32_t k = 0; k < run->carried && k < n->output_count; k++) n->outputs[k] = run->results[k];
    return HYP_OK;
}

/* Random graphs from the operator table: rewritten, they verify, keep their interface, compute the same and cost
 * no more. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/rewrite.h"
#include "rewrite/term_graph.h"

enum { GRAPHS = 300, NODES = 14, MAX_POOL = 64 };

typedef struct maker {
    hyp_graph *g;
    term_random *random;
    hyp_dim batch;
    hyp_value_id pool[MAX_POOL];
    uint32_t count;
    hyp_diag diag; /* of attempts that do not fit, ignored */
} maker;

/* Left out: functions that blow small differences up, and those that jump. */
static bool is_smooth(hyp_op op)
{
    switch (op) {
    case HYP_OP_div:
    case HYP_OP_pow:
    case HYP_OP_exp:
    case HYP_OP_sqrt:
    case HYP_OP_tan:
    case HYP_OP_sinh:
    case HYP_OP_cosh:
    case HYP_OP_atanh:
    case HYP_OP_log:
    case HYP_OP_mod:
    case HYP_OP_sign:
    case HYP_OP_ceil:
    case HYP_OP_floor:
    case HYP_OP_round:
    case HYP_OP_equal:
    case HYP_OP_less:
    case HYP_OP_less_equal:
    case HYP_OP_cast: return false;
    default: return true;
    }
}

static uint32_t below(maker *m, uint32_t n) { return term_random_below(m->random, n); }

static hyp_dim random_dim(maker *m)
{
    static const hyp_dim sizes[] = {1, 2, 3, 2, 4};
    return below(m, 5) == 0 ? m->batch : sizes[below(m, 5)];
}

static void add_to_pool(maker *m, hyp_value_id id)
{
    if (m->count < MAX_POOL) m->pool[m->count++] = id;
}

/* A constant of random shape, sometimes of one number that rules look for. */
static void add_const(maker *m)
{
    static const double numbers[] = {0, 1, 0.5, -2};
    hyp_type type = {.dtype = HYP_F32, .rank = (int32_t)below(m, 4)};
    float data[64];
    hyp_dim elements = 1;
    hyp_value_id id;
    bool same = below(m, 3) == 0;
    double number = numbers[below(m, 4)];
    for (int32_t i = 0; i < type.rank; i++) elements *= type.dims[i] = 1 + below(m, 4);
    for (hyp_dim i = 0; i < elements; i++) data[i] = (float)(same ? number : (double)below(m, 2000) / 1000 - 1);
    assert_int_equal(hyp_graph_add_const(m->g, NULL, &type, data, (size_t)elements * 4, true, &id, &m->diag), HYP_OK);
    add_to_pool(m, id);
}

static const hyp_value *value(const maker *m, hyp_value_id id) { return &m->g->values.data[id]; }

/* A list that has a chance to fit an operator on x. */
static void random_list(maker *m, const char *name, const hyp_type *x, hyp_dim out[HYP_MAX_RANK], uint32_t *out_count)
{
    uint32_t rank = (uint32_t)x->rank;
    *out_count = rank;
    if (strcmp(name, "perm") == 0) {
        for (uint32_t i = 0; i < rank; i++) out[i] = i;
        for (uint32_t i = 1; i < rank; i++) {
            uint32_t k = below(m, i + 1);
            hyp_dim t = out[i];
            out[i] = out[k];
            out[k] = t;
        }
    } else if (strcmp(name, "shape") == 0) { /* the same axes, with a 1 put in or two of them joined */
        memcpy(out, x->dims, rank * sizeof *out);
        if (below(m, 2) && rank >= 2) {
            hyp_dim joined;
            if (hyp_dim_mul(m->g->dims, out[0], out[1], &joined, &m->diag) != HYP_OK) return;
            out[0] = joined;
            memmove(out + 1, out + 2, (rank - 2) * sizeof *out);
            *out_count = rank - 1;
        } else if (below(m, 2)) {
            out[rank] = 1;
            *out_count = rank + 1;
        }
    } else if (strcmp(name, "steps") == 0) {
        for (uint32_t i = 0; i < rank; i++) out[i] = 1;
    } else if (strcmp(name, "starts") == 0) {
        for (uint32_t i = 0; i < rank; i++) out[i] = 0;
    } else if (strcmp(name, "sizes") == 0) {
        memcpy(out, x->dims, rank * sizeof *out);
    } else { /* axes */
        *out_count = 1;
        out[0] = rank ? (hyp_dim)below(m, rank) : 0;
    }
}

static void random_attr(maker *m, hyp_op op, const hyp_attr_info *info, const hyp_type *x, hyp_attr *out)
{
    static const double floats[] = {0, 1, 0.5, -1, 2, INFINITY, -INFINITY};
    static const char *const acts[] = {"none", "relu", "gelu", "tanh"};
    *out = (hyp_attr){.kind = info->kind};
    switch (info->kind) {
    case HYP_ATTR_INT: out->i = (int64_t)below(m, 4) - 1; break;
    case HYP_ATTR_FLOAT: out->f = floats[below(m, op == HYP_OP_clip ? 7 : 5)]; break;
    case HYP_ATTR_SYM: out->sym = acts[below(m, 4)]; break;
    case HYP_ATTR_SYMS: {
        const char **list = hyp_arena_zalloc(&m->g->arena, 2, sizeof *list);
        assert_non_null(list);
        for (int i = 0; i < 2; i++) list[i] = acts[below(m, 4)];
        out->syms = list;
        out->count = 2;
        break;
    }
    case HYP_ATTR_DIMS: {
        hyp_dim *list = hyp_arena_zalloc(&m->g->arena, HYP_MAX_RANK + 1, sizeof *list);
        assert_non_null(list);
        random_list(m, info->name, x, list, &out->count);
        out->dims = list;
        break;
    }
    }
}

/* Weights and such that fit x exactly would be rare among random values: made to measure. */
static hyp_value_id fitting(maker *m, hyp_op op, uint32_t input, uint32_t inputs, const hyp_type *x)
{
    bool product = op == HYP_OP_linear || op == HYP_OP_fused_linear || op == HYP_OP_matmul || op == HYP_OP_gemm;
    hyp_type type = {.dtype = HYP_F32, .rank = 2};
    float data[64];
    hyp_value_id id;
    hyp_dim k = x->rank ? x->dims[x->rank - 1] : 1;
    if (!product || x->rank == 0 || !hyp_dim_is_const(k) || k > 8) return HYP_NO_VALUE;
    bool linear = op == HYP_OP_linear || op == HYP_OP_fused_linear;
    bool bias = input == (linear ? 1 : 2) && inputs == 3;
    type.dims[0] = linear ? 3 : k;
    type.dims[1] = linear ? k : 3;
    if (bias) type = (hyp_type){.dtype = HYP_F32, .rank = 1, .dims = {3}};
    for (int i = 0; i < 64; i++) data[i] = (float)below(m, 2000) / 1000 - 1;
    size_t bytes = (size_t)(type.dims[0] * (bias ? 1 : type.dims[1])) * 4;
    assert_int_equal(hyp_graph_add_const(m->g, NULL, &type, data, bytes, true, &id, &m->diag), HYP_OK);
    return id;
}

static bool add_node(maker *m, hyp_op op)
{
    const hyp_op_info *info = hyp_op_get(op);
    hyp_attr attrs[HYP_MAX_ATTRS];
    hyp_value_id inputs[8], outs[8];
    uint32_t count = info->min_inputs, outputs = info->outputs == HYP_VARIADIC ? 1 : info->outputs;
    bool linear = op == HYP_OP_linear || op == HYP_OP_fused_linear;
    if (count < info->max_inputs && count < 3) count += below(m, 2);
    uint32_t main = linear ? 2 : 0; /* the input that attributes and weights are made for */
    inputs[main] = m->pool[below(m, m->count)];
    hyp_type x = value(m, inputs[main])->type;
    for (uint32_t i = 0; i < count; i++) {
        if (i == main) continue;
        inputs[i] = below(m, 4) ? fitting(m, op, i, count, &x) : HYP_NO_VALUE;
        if (inputs[i] == HYP_NO_VALUE) inputs[i] = m->pool[below(m, m->count)];
        if (linear && i == 1 && below(m, 3) == 0) inputs[i] = HYP_NO_VALUE;
    }
    for (uint32_t i = 0; i < info->attr_count; i++) random_attr(m, op, &info->attrs[i], &x, &attrs[i]);
    if (op == HYP_OP_split) { /* one axis in two */
        hyp_dim *sizes = hyp_arena_zalloc(&m->g->arena, 2, sizeof *sizes);
        int64_t axis = attrs[0].i < 0 ? attrs[0].i + x.rank : attrs[0].i;
        if (!sizes || axis < 0 || axis >= x.rank || !hyp_dim_is_const(x.dims[axis]) || x.dims[axis] < 2) return false;
        sizes[0] = 1;
        sizes[1] = x.dims[axis] - 1;
        attrs[1].dims = sizes;
        attrs[1].count = outputs = 2;
    }
    const char *source = info->name;
    hyp_provenance from = {.sources = &source, .source_count = 1};
    if (hyp_graph_add_node(m->g, op, inputs, count, attrs, &from, outs, outputs, &m->diag) != HYP_OK) return false;
    for (uint32_t i = 0; i < outputs; i++) add_to_pool(m, outs[i]);
    return true;
}

static void make_graph(hyp_graph *g, term_random *random)
{
    maker m = {.g = g, .random = random};
    assert_int_equal(hyp_dim_symbol(g->dims, "batch", &m.batch, &m.diag), HYP_OK);
    for (int i = 0; i < 2; i++) {
        hyp_type type = {.dtype = HYP_F32, .rank = 1 + (int32_t)below(&m, 3)};
        hyp_value_id id;
        for (int32_t k = 0; k < type.rank; k++) type.dims[k] = random_dim(&m);
        assert_int_equal(hyp_graph_add_input(g, i ? "x1" : "x0", &type, &id, &m.diag), HYP_OK);
        add_to_pool(&m, id);
    }
    for (int i = 0; i < 4; i++) add_const(&m);
    for (int i = 0, tries = 0; i < NODES && tries < 4000; tries++) {
        /* Half of them are the first rows of the table, which most rules are about; few are calls of kernels. */
        hyp_op op = (hyp_op)below(&m, below(&m, 2) ? HYP_OP_relu + 1 : HYP_OP_COUNT);
        if ((hyp_op_get(op)->flags & HYP_OPF_CALL) && below(&m, 8)) continue;
        if (is_smooth(op) && add_node(&m, op)) i++;
    }
    static const char *const names[] = {"y0", "y1", "y2"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(hyp_graph_add_output(g, names[i], m.pool[m.count - 1 - below(&m, 6)], &m.diag), HYP_OK);
}

static void show_and_fail(const hyp_graph *a, const hyp_graph *b, int seed, const char *what)
{
    hyp_strbuf sa = {0}, sb = {0};
    if (hyp_graph_print(&sa, a, 4096, NULL) == HYP_OK && hyp_graph_print(&sb, b, 4096, NULL) == HYP_OK)
        print_error("%s\nbecame\n%s\n", hyp_strbuf_text(&sa), hyp_strbuf_text(&sb));
    fail_msg("graph %d: %s", seed, what);
}

static void compare(const hyp_graph *a, const hyp_graph *b, term_random *random, int seed)
{
    hyp_eval_tensor inputs[2] = {{0}}, ya[3] = {{0}}, yb[3] = {{0}};
    hyp_diag diag = {0};
    assert_int_equal(term_inputs(a, TERM_FINITE, random, inputs, &diag), HYP_OK);
    bool runs = hyp_graph_eval(a, HYP_EVAL_DOUBLE, inputs, 2, ya, &diag) == HYP_OK; /* else a gather went astray */
    if (runs && hyp_graph_eval(b, HYP_EVAL_DOUBLE, inputs, 2, yb, &diag) != HYP_OK)
        show_and_fail(a, b, seed, diag.message);
    for (int i = 0; runs && i < 3; i++) {
        double scale = 1; /* numbers that rules compute from constants are rounded to f32 */
        assert_int_equal(ya[i].count, yb[i].count);
        for (size_t k = 0; ya[i].f && k < ya[i].count; k++) scale = fmax(scale, fabs(ya[i].f[k]));
        for (size_t k = 0; k < ya[i].count; k++)
            if (ya[i].f ? fabs(ya[i].f[k] - yb[i].f[k]) > 1e-6 * scale : ya[i].i[k] != yb[i].i[k])
                show_and_fail(a, b, seed, "the results differ");
        hyp_eval_tensor_dispose(&ya[i]);
        hyp_eval_tensor_dispose(&yb[i]);
    }
    for (int i = 0; i < 2; i++) hyp_eval_tensor_dispose(&inputs[i]);
}

static void random_graphs_keep_their_meaning(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    static const int64_t sizes[4] = {8, 8, 8, 8};
    hyp_roofline lines[2] = {{.sizes = sizes, .size_count = 4}, {.sizes = sizes, .size_count = 4}};
    hyp_diag diag = {0};
    size_t fused = 0;
    for (int i = 0; i < 2; i++) {
        const char *text = hyp_profile_builtin(i ? "h200" : "cpu");
        assert_int_equal(hyp_profile_parse(&arena, "profile", text, strlen(text), &lines[i].profile, &diag), HYP_OK);
    }
    for (int seed = 0; seed < GRAPHS; seed++) {
        term_random random = {(uint64_t)seed};
        hyp_graph in, out;
        hyp_dims *dims;
        hyp_rewrite_report report;
        hyp_rewrite_options options = {.cost = hyp_roofline_cost, .cost_user = &lines[seed % 2], .max_nodes = 5000};
        assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
        hyp_graph_init(&in, dims);
        hyp_graph_init(&out, dims);
        make_graph(&in, &random);
        if (hyp_rewrite(&in, &options, &out, &report, &diag) != HYP_OK) show_and_fail(&in, &in, seed, diag.message);
        compare(&in, &out, &random, seed);
        if (report.cost_after > report.cost_before * 1.0001) show_and_fail(&in, &out, seed, "it costs more");
        for (size_t i = 0; i < out.nodes.len; i++)
            fused += (hyp_op_get(out.nodes.data[i].op)->flags & HYP_OPF_FUSED) != 0;
        hyp_rewrite_report_dispose(&report);
        hyp_graph_dispose(&in);
        hyp_graph_dispose(&out);
        hyp_dims_destroy(dims);
    }
    hyp_arena_dispose(&arena);
    assert_true(fused > 10); /* the graphs do reach the rules */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_keep_their_meaning)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

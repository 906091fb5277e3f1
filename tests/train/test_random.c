/* Gradients of random graphs over the whole table of operators against central differences. HYPATIA_RANDOM_GRADIENTS
 * says how many, 200 else. */
#include "support/random_graph.h"
#include "support/count.h"
#include "train/central.h"
#include "train/gradient.h"

/* Leaves the outputs that can be differentiated, by some input; returns how many. */
static size_t keep_smooth_outputs(hyp_graph *g)
{
    hyp_value_id wrt[64];
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < g->inputs.len && count < 64; i++)
        if (hyp_dtype_is_float(g->values.data[g->inputs.data[i]].type.dtype)) wrt[count++] = g->inputs.data[i];
    for (size_t i = 0; i < g->outputs.len && kept < 6; i++) {
        bool reached[64] = {false}, any = false;
        hyp_value_id v = g->outputs.data[i].value;
        hyp_diag diag = {0};
        if (!hyp_dtype_is_float(g->values.data[v].type.dtype)) continue;
        hyp_status status = hyp_gradient_reach(g, v, wrt, count, reached, &diag);
        if (status != HYP_OK &&
            (status != HYP_ERR_UNSUPPORTED || !strstr(diag.message, "cannot be differentiated: \"")))
            fail_msg("%s", diag.message);
        for (size_t k = 0; k < count && status == HYP_OK; k++) any |= reached[k];
        if (any) g->outputs.data[kept++] = g->outputs.data[i];
    }
    g->outputs.len = kept;
    return kept;
}

/* The random data, off their grid, for kinks and ties lie on it. */
static void draw(const hyp_graph *g, const int64_t *symbols, hyp_random *random, rng *r, hyp_eval_tensor *out)
{
    for (size_t i = 0; i < g->inputs.len; i++) {
        hyp_tensor t;
        hyp_diag diag = {0};
        assert_ok(hyp_random_input(g, i, symbols, random, &t, &diag), &diag);
        assert_ok(hyp_eval_tensor_load(&out[i], &t, &diag), &diag);
        hyp_free(t.data);
        for (size_t k = 0; out[i].f && k < out[i].count; k++)
            out[i].f[k] += (uniform(r) - 0.5) / 64;
    }
}

static bool run_graph(uint64_t seed, central *found)
{
    hyp_dims *dims = new_dims();
    hyp_graph g;
    hyp_diag diag = {0};
    hyp_random_graph_options options = {.seed = seed,
                                        .nodes = 2 + (int)(seed % 12),
                                        .dtype = seed % 5 == 4 ? HYP_F32 : HYP_F64,
                                        .symbolic = seed % 3 == 0,
                                        .no_fused = true,
                                        .first_op = (int)(seed % HYP_RANDOM_OPS)};
    assert_ok(hyp_random_graph(&options, dims, &g, NULL, &diag), &diag);
    bool any = g.inputs.len <= 16 && keep_smooth_outputs(&g) > 0;
    if (any) {
        int64_t symbols[16];
        char what[64];
        rng r = {.state = seed * 0x9e3779b97f4a7c15u + 1};
        hyp_random random = {.state = seed};
        hyp_eval_tensor inputs[16] = {{0}};
        assert_true(hyp_dims_symbol_count(dims) <= 16);
        hyp_random_bind(dims, 2, 3, symbols);
        draw(&g, symbols, &random, &r, inputs);
        snprintf(what, sizeof what, "random graph %llu", (unsigned long long)seed);
        check_central(&g, what, &r, inputs, symbols, found);
    }
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return any;
}

/* In narrow types, whose constants say too little to compare numbers: the graph is valid, and types are what they
 * should be. */
static bool type_graph(uint64_t seed)
{
    static const hyp_dtype types[] = {HYP_F16, HYP_BF16};
    hyp_dims *dims = new_dims();
    hyp_graph g;
    hyp_diag diag = {0};
    hyp_random_graph_options options = {.seed = seed,
                                        .nodes = 2 + (int)(seed % 12),
                                        .dtype = types[seed % 2],
                                        .symbolic = seed % 3 == 0,
                                        .no_fused = true,
                                        .first_op = (int)(seed % HYP_RANDOM_OPS)};
    assert_ok(hyp_random_graph(&options, dims, &g, NULL, &diag), &diag);
    bool any = keep_smooth_outputs(&g) > 0;
    for (size_t i = 0; i < g.outputs.len; i++) {
        hyp_value_id from = g.outputs.data[i].value, wrt[64], gradients[64];
        size_t count = 0;
        for (size_t k = 0; k < g.inputs.len && count < 64; k++)
            if (hyp_dtype_is_float(g.values.data[g.inputs.data[k]].type.dtype)) wrt[count++] = g.inputs.data[k];
        if (hyp_gradient_from(&g, from, from, wrt, count, gradients, &diag) != HYP_OK)
            fail_msg("graph %llu: %s", (unsigned long long)seed, diag.message);
        for (size_t k = 0; k < count; k++)
            if (gradients[k] != HYP_NO_VALUE)
                assert_true(hyp_type_equal(&g.values.data[gradients[k]].type, &g.values.data[wrt[k]].type));
        assert_ok(hyp_graph_verify(&g, &diag), &diag);
    }
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return any;
}

static void gradients_in_narrow_types_are_valid(void **state)
{
    size_t done = 0;
    (void)state;
    for (uint64_t seed = 1; done < 200; seed++) done += type_graph(seed);
}

static void random_graphs_agree_with_differences(void **state)
{
    const char *first = getenv("HYPATIA_RANDOM_SEED");
    size_t graphs = test_count("HYPATIA_RANDOM_GRADIENTS", 200), done = 0, operators = 0;
    central found = {0};
    (void)state;
    for (uint64_t seed = first ? strtoull(first, NULL, 10) : 1; done < graphs; seed++) done += run_graph(seed, &found);
    for (int op = 0; op < HYP_OP_COUNT; op++) operators += found.differentiated[op];
    print_message("%zu graphs, %zu operators, %zu elements compared, %zu beside kinks\n", done, operators,
                  found.checked, found.skipped);
    assert_true(found.checked > 20 * found.skipped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_agree_with_differences),
                                       cmocka_unit_test(gradients_in_narrow_types_are_valid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

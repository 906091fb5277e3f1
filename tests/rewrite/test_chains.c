/* Chains of products of random sizes: the multiplications of what rewriting extracts are those of a dynamic program
 * that knows nothing of e-graphs.
 *
 * Of linears with constant weights, any run of layers can become one: the program divides the chain into runs (Bellman
 * 1957). Of matrices that are all inputs, the program places the parentheses (Godbole, On Efficient Computation of
 * Matrix Chain Products, IEEE Trans. Computers 1973). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rewrite/rewrite.h"
#include "rewrite/term_graph.h"

enum { CHAINS = 24, MAX_LAYERS = 16 };

typedef struct chain {
    uint32_t layers;
    int64_t batch, widths[MAX_LAYERS + 1];
} chain;

/* Multiplications, and next to nothing for every other operator, so that idle ones are not preferred. */
static double multiplications(const hyp_cost_query *q, void *user)
{
    const hyp_type *y = &q->outputs[0], *x = q->inputs[q->op == HYP_OP_matmul ? 0 : q->input_count - 1];
    double count = 1;
    (void)user;
    for (int32_t i = 0; i < y->rank; i++) count *= (double)y->dims[i];
    switch (q->op) {
    case HYP_OP_linear: x = q->inputs[0]; return count * (double)x->dims[1];
    case HYP_OP_matmul: return count * (double)x->dims[x->rank - (q->attrs[0].i ? 2 : 1)];
    default: return 1e-3;
    }
}

static chain draw(term_random *random)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 13, 21, 34, 55};
    chain c = {.layers = 2 + term_random_below(random, MAX_LAYERS - 1)};
    c.batch = sizes[term_random_below(random, 9)];
    for (uint32_t i = 0; i <= c.layers; i++) c.widths[i] = sizes[term_random_below(random, 9)];
    return c;
}

/* The least number of multiplications of a chain of linears with constant weights. */
static double best_runs(const chain *c)
{
    double best[MAX_LAYERS + 1] = {0};
    for (uint32_t to = 1; to <= c->layers; to++) {
        best[to] = -1;
        for (uint32_t from = 0; from < to; from++) {
            double sum = best[from] + (double)(c->batch * c->widths[from] * c->widths[to]);
            if (best[to] < 0 || sum < best[to]) best[to] = sum;
        }
    }
    return best[c->layers];
}

/* The same of the product of `layers` matrices, matrix i being widths[i] by widths[i + 1]. */
static double best_parentheses(const chain *c)
{
    double best[MAX_LAYERS][MAX_LAYERS] = {{0}};
    for (uint32_t len = 2; len <= c->layers; len++)
        for (uint32_t i = 0; i + len <= c->layers; i++) {
            uint32_t j = i + len - 1;
            best[i][j] = -1;
            for (uint32_t k = i; k < j; k++) {
                double sum = best[i][k] + best[k + 1][j] + (double)(c->widths[i] * c->widths[k + 1] * c->widths[j + 1]);
                if (best[i][j] < 0 || sum < best[i][j]) best[i][j] = sum;
            }
        }
    return best[0][c->layers - 1];
}

static hyp_value_id add(hyp_graph *g, hyp_op op, const hyp_value_id *inputs, uint32_t count)
{
    static const hyp_attr plain[] = {{.kind = HYP_ATTR_INT}, {.kind = HYP_ATTR_INT}, {.kind = HYP_ATTR_FLOAT, .f = 1}};
    hyp_value_id out;
    hyp_provenance from = {0};
    assert_int_equal(hyp_graph_add_node(g, op, inputs, count, op == HYP_OP_matmul ? plain : NULL, &from, &out, 1, NULL),
                     HYP_OK);
    return out;
}

static hyp_value_id constant(hyp_graph *g, int32_t rank, int64_t a, int64_t b, term_random *random)
{
    static float data[64 * 64];
    hyp_type type = {.dtype = HYP_F32, .rank = rank, .dims = {a, b}};
    hyp_value_id id;
    size_t count = (size_t)(rank == 2 ? a * b : a);
    for (size_t i = 0; i < count; i++) data[i] = (float)term_random_below(random, 2000) / 1000 - 1;
    assert_int_equal(hyp_graph_add_const(g, NULL, &type, data, count * sizeof *data, true, &id, NULL), HYP_OK);
    return id;
}

static hyp_value_id input(hyp_graph *g, const char *name, int64_t a, int64_t b)
{
    hyp_type type = {.dtype = HYP_F32, .rank = 2, .dims = {a, b}};
    hyp_value_id id;
    assert_int_equal(hyp_graph_add_input(g, name, &type, &id, NULL), HYP_OK);
    return id;
}

static void make_linears(hyp_graph *g, const chain *c, term_random *random)
{
    hyp_value_id x = input(g, "x", c->batch, c->widths[0]);
    for (uint32_t i = 0; i < c->layers; i++) {
        hyp_value_id w = constant(g, 2, c->widths[i + 1], c->widths[i], random);
        bool biased = term_random_below(random, 2) == 0;
        hyp_value_id b = biased ? constant(g, 1, c->widths[i + 1], 0, random) : HYP_NO_VALUE;
        x = add(g, HYP_OP_linear, (hyp_value_id[]){w, b, x}, 3);
    }
    assert_int_equal(hyp_graph_add_output(g, "y", x, NULL), HYP_OK);
}

/* Inputs that are multiplied in a random order. */
static void make_products(hyp_graph *g, const chain *c, term_random *random)
{
    static const char *const names[MAX_LAYERS] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                   "i", "j", "k", "l", "m", "n", "o", "p"};
    hyp_value_id part[MAX_LAYERS];
    uint32_t left = c->layers;
    for (uint32_t i = 0; i < left; i++) part[i] = input(g, names[i], c->widths[i], c->widths[i + 1]);
    for (; left > 1; left--) {
        uint32_t at = term_random_below(random, left - 1);
        part[at] = add(g, HYP_OP_matmul, part + at, 2);
        for (uint32_t i = at + 1; i + 1 < left; i++) part[i] = part[i + 1];
    }
    assert_int_equal(hyp_graph_add_output(g, "y", part[0], NULL), HYP_OK);
}

static void check(bool linears)
{
    for (uint64_t seed = 0; seed < CHAINS; seed++) {
        term_random random = {seed};
        chain c = draw(&random);
        hyp_graph in, out;
        hyp_dims *dims;
        hyp_diag diag = {0};
        hyp_rewrite_report report;
        hyp_rewrite_options options = {.cost = multiplications};
        assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
        hyp_graph_init(&in, dims);
        hyp_graph_init(&out, dims);
        (linears ? make_linears : make_products)(&in, &c, &random);
        if (hyp_rewrite(&in, &options, &out, &report, &diag) != HYP_OK) fail_msg("%s", diag.message);
        double want = linears ? best_runs(&c) : best_parentheses(&c);
        if ((int64_t)(report.cost_after + 0.5) != (int64_t)want)
            fail_msg("chain %d of %u layers: %.0f multiplications, %.0f are enough (%s)", (int)seed, c.layers,
                     report.cost_after, want, report.phases[2].stop == HYP_STOP_SATURATED ? "saturated" : "a limit");
        hyp_rewrite_report_dispose(&report);
        hyp_graph_dispose(&in);
        hyp_graph_dispose(&out);
        hyp_dims_destroy(dims);
    }
}

static void linears_multiply_as_little_as_possible(void **state)
{
    (void)state;
    check(true);
}

static void products_of_inputs_multiply_as_little_as_possible(void **state)
{
    (void)state;
    check(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(linears_multiply_as_little_as_possible),
                                       cmocka_unit_test(products_of_inputs_multiply_as_little_as_possible)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

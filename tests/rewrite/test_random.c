/* Random graphs from the operator table: rewritten, they verify, keep their interface, compute the same and cost
 * no more.
 *
 * The imported graph says what is expected of an implementation (hyp_graph_expect), the rewritten one runs in native
 * arithmetic. Where rules that round took part, all values of the imported graph are to be of sizes of which class R
 * promises something (docs/rules.md), and where zeros may differ in sign nothing is divided by one; else they are what
 * they are.
 *
 *   test_rewrite_random [COUNT [FIRST]] */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/any_graph.h"
#include "rewrite/rewrite.h"

static int first, graphs = 500;

static void show_and_fail(const hyp_graph *a, const hyp_graph *b, int seed, const char *what)
{
    hyp_strbuf sa = {0}, sb = {0};
    if (hyp_graph_print(&sa, a, 4096, NULL) == HYP_OK && hyp_graph_print(&sb, b, 4096, NULL) == HYP_OK)
        fprintf(stderr, "%s\nbecame\n%s\n", hyp_strbuf_text(&sa), hyp_strbuf_text(&sb));
    fail_msg("graph %d: %s", seed, what);
}

typedef struct tally {
    size_t fused, rounds, compared, elements; /* e-nodes; graphs that rules of class R changed; runs; elements of which
                                                something is known */
} tally;

/* Of class Z those that were applied count: where x + 0 became an input x, no step owes its form to that. */
static bool used_class(const hyp_rewrite_report *r, const char *classes)
{
    for (size_t i = 0; i < r->rule_count; i++) {
        char class = r->rules[i].numeric_class[0];
        if ((class == 'Z' ? r->rules[i].applications : r->rules[i].used) && strchr(classes, class)) return true;
    }
    return false;
}

/* ---- what classes speak of -------------------------------------------------------------------------- */

/* Whether values are such that classes below E promise something of the results of a graph. */
typedef struct promise {
    const hyp_graph *g;
    bool rounds; /* class R: sizes are about normal */
    bool kept;
} promise;

static void look_at(promise *p, const hyp_eval_tensor *x, bool divides)
{
    double most = x->dtype == HYP_F16 ? 0x1p6 : 0x1p30;
    for (size_t k = 0; k < x->count; k++) {
        double size = fabs(x->f[k]);
        if (size == 0 && divides) p->kept = false; /* the sign of a zero becomes that of an infinity */
        if (size != 0 && p->rounds && !(size <= most && size >= 1 / most)) p->kept = false;
    }
}

static hyp_status look(void *user, hyp_node_id id, const hyp_eval_tensor *const *in, hyp_diag *diag)
{
    promise *p = user;
    const hyp_node *node = &p->g->nodes.data[id];
    (void)diag;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (in[i] && in[i]->f) look_at(p, in[i], (node->op == HYP_OP_div && i == 1) || node->op == HYP_OP_pow);
    return HYP_OK;
}

static bool is_promised(const hyp_graph *g, const hyp_eval_tensor *inputs, bool rounds)
{
    promise p = {g, rounds, true};
    hyp_diag diag = {0};
    uint8_t *nodes = hyp_calloc(g->nodes.len + 1, 1);
    assert_non_null(nodes);
    memset(nodes, HYP_WATCH_RUN | HYP_WATCH_TELL, g->nodes.len);
    const hyp_eval_watch watch = {look, &p, nodes};
    bool runs = hyp_graph_watch(g, HYP_EVAL_NATIVE, inputs, ANY_INPUTS, &watch, &diag) == HYP_OK;
    hyp_free(nodes);
    return runs && p.kept;
}

/* ---- comparing -------------------------------------------------------------------------------------- */

static bool as_expected(const hyp_eval_tensor *want, const hyp_eval_tensor *tolerance, const hyp_eval_tensor *got,
                        size_t i)
{
    if (isinf(tolerance->f[i])) return true;
    if (!want->f) return want->i[i] == got->i[i];
    if (isnan(want->f[i])) return isnan(got->f[i]);
    return want->f[i] == got->f[i] || fabs(want->f[i] - got->f[i]) <= tolerance->f[i];
}

static void compare(const hyp_graph *a, const hyp_graph *b, const hyp_rewrite_report *report, term_random *random,
                    int seed, tally *sum)
{
    enum { DRAWS = 4 };
    bool rounds = used_class(report, "RA"), exact = !used_class(report, "ZNRA");
    const hyp_expect_options options = {
        .determined = !rounds, .any_inf = rounds, .any_nan = rounds || used_class(report, "N")};
    for (int draw = 0; draw < DRAWS; draw++) {
        hyp_eval_tensor inputs[ANY_INPUTS] = {{0}}, want[ANY_OUTPUTS] = {{0}}, got[ANY_OUTPUTS] = {{0}},
                        tolerances[ANY_OUTPUTS] = {{0}};
        hyp_diag diag = {0};
        term_data data = rounds ? (draw % 2 ? TERM_ROOM : TERM_FINITE) : TERM_ANY;
        assert_int_equal(term_inputs(a, data, random, inputs, &diag), HYP_OK);
        bool runs = (exact || is_promised(a, inputs, rounds)) && /* and no gather goes astray */
                    hyp_graph_expect(a, inputs, ANY_INPUTS, &options, want, tolerances, &diag) == HYP_OK;
        if (runs && hyp_graph_eval(b, HYP_EVAL_NATIVE, inputs, ANY_INPUTS, got, &diag) != HYP_OK)
            show_and_fail(a, b, seed, diag.message);
        sum->compared += runs;
        for (int i = 0; runs && i < ANY_OUTPUTS; i++) {
            assert_int_equal(want[i].count, got[i].count);
            for (size_t k = 0; k < want[i].count; k++) {
                sum->elements += !isinf(tolerances[i].f[k]);
                if (as_expected(&want[i], &tolerances[i], &got[i], k)) continue;
                char what[160] = "integers differ";
                if (want[i].f)
                    snprintf(what, sizeof what, "output %d, element %zu is %.17g, was %.17g within %g", i, k,
                             got[i].f[k], want[i].f[k], tolerances[i].f[k]);
                show_and_fail(a, b, seed, what);
            }
            hyp_eval_tensor_dispose(&want[i]);
            hyp_eval_tensor_dispose(&tolerances[i]);
            hyp_eval_tensor_dispose(&got[i]);
        }
        for (int i = 0; i < ANY_INPUTS; i++) hyp_eval_tensor_dispose(&inputs[i]);
    }
}

static void rewrite_one(int seed, hyp_roofline *line, tally *sum)
{
    static const hyp_dtype reals[] = {HYP_F32, HYP_F32, HYP_F64, HYP_F16, HYP_BF16};
    term_random random = {(uint64_t)seed};
    hyp_graph in, out;
    hyp_dims *dims;
    hyp_diag diag = {0};
    hyp_rewrite_report report;
    hyp_rewrite_options options = {.cost = hyp_roofline_cost, .cost_user = line, .max_nodes = 5000};
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    hyp_graph_init(&in, dims);
    hyp_graph_init(&out, dims);
    bool steps = seed % 3 == 0;
    any_graph_make(&in, reals[seed % 5], steps, &random);
    if (hyp_rewrite(&in, &options, &out, &report, &diag) != HYP_OK) show_and_fail(&in, &in, seed, diag.message);
    compare(&in, &out, &report, &random, seed, sum);
    sum->rounds += used_class(&report, "R");
    if (!steps &&
        report.cost_after > report.cost_before * 1.0001) { /* elsewhere the normal form may cost a little more */
        char what[96];
        snprintf(what, sizeof what, "it costs more: %g instead of %g", report.cost_after, report.cost_before);
        show_and_fail(&in, &out, seed, what);
    }
    for (size_t i = 0; i < 2 && i < report.phase_count; i++) /* normalize and recognize end by themselves */
        if (report.phases[i].stop != HYP_STOP_SATURATED) show_and_fail(&in, &out, seed, "a phase met a limit");
    for (size_t i = 0; i < out.nodes.len; i++)
        sum->fused += (hyp_op_get(out.nodes.data[i].op)->flags & HYP_OPF_FUSED) != 0;
    hyp_rewrite_report_dispose(&report);
    hyp_graph_dispose(&in);
    hyp_graph_dispose(&out);
    hyp_dims_destroy(dims);
}

static void random_graphs_keep_their_meaning(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    static const int64_t sizes[4] = {8, 8, 8, 8};
    hyp_roofline lines[2] = {{.sizes = sizes, .size_count = 4}, {.sizes = sizes, .size_count = 4}};
    hyp_diag diag = {0};
    tally sum = {0};
    for (int i = 0; i < 2; i++) {
        const char *text = hyp_profile_builtin(i ? "h200" : "cpu");
        assert_int_equal(hyp_profile_parse(&arena, "profile", text, strlen(text), &lines[i].profile, &diag), HYP_OK);
    }
    for (int seed = first; seed < first + graphs; seed++) rewrite_one(seed, &lines[seed % 2], &sum);
    hyp_arena_dispose(&arena);
    print_message("%zu graphs with rules that round; %zu runs compared, %zu elements of which something is known\n",
                  sum.rounds, sum.compared, sum.elements);
    if (graphs >= 100) { /* the graphs do reach the rules, and something is known of their results */
        assert_true(sum.fused > 10);
        assert_true(sum.compared > (size_t)graphs);
        assert_true(sum.elements > 10 * (size_t)graphs);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_keep_their_meaning)};
    if (argc > 1) graphs = atoi(argv[1]);
    if (argc > 2) first = atoi(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

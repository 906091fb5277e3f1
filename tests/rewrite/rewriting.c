#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/rewriting.h"
#include "rewrite/term_graph.h"

void use_profile(fixture *f, const char *name)
{
    const char *text = name[0] == '(' ? name : hyp_profile_builtin(name); /* or the text of one */
    assert_non_null(text);
    assert_int_equal(hyp_profile_parse(&f->arena, name, text, strlen(text), &f->roofline.profile, &f->diag), HYP_OK);
}

void begin(fixture *f, const char *text)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(hyp_dims_create(&f->dims, &f->diag), HYP_OK);
    hyp_graph_init(&f->in, f->dims);
    hyp_graph_init(&f->out, f->dims);
    use_profile(f, "cpu");
    f->options = (hyp_rewrite_options){.cost = hyp_roofline_cost, .cost_user = &f->roofline};
    hyp_status status = strncmp(text, "(graph", 6) == 0 ? hyp_graph_parse(&f->in, "test", text, strlen(text), &f->diag)
                                                        : term_graph_parse(&f->in, text, &f->diag);
    if (status != HYP_OK) fail_msg("%s", f->diag.message);
}

void run(fixture *f)
{
    if (hyp_rewrite(&f->in, &f->options, &f->out, &f->report, &f->diag) != HYP_OK) fail_msg("%s", f->diag.message);
}

void end(fixture *f)
{
    hyp_rewrite_report_dispose(&f->report);
    hyp_graph_dispose(&f->in);
    hyp_graph_dispose(&f->out);
    hyp_dims_destroy(f->dims);
    hyp_arena_dispose(&f->arena);
}

/* Both graphs compute the same, in double. */
void assert_same_results(fixture *f, double tolerance)
{
    hyp_eval_tensor inputs[8] = {{0}}, a[8] = {{0}}, b[8] = {{0}};
    term_random random = {42};
    assert_true(f->in.inputs.len <= 8 && f->in.outputs.len <= 8);
    assert_int_equal(f->in.outputs.len, f->out.outputs.len);
    assert_int_equal(term_inputs(&f->in, TERM_FINITE, &random, inputs, &f->diag), HYP_OK);
    for (const hyp_graph *g = &f->in;; g = &f->out) {
        hyp_status status = hyp_graph_eval(g, HYP_EVAL_DOUBLE, inputs, f->in.inputs.len, g == &f->in ? a : b, &f->diag);
        if (status != HYP_OK) fail_msg("%s", f->diag.message);
        if (g == &f->out) break;
    }
    for (size_t i = 0; i < f->in.outputs.len; i++) {
        assert_int_equal(a[i].count, b[i].count);
        for (size_t k = 0; k < a[i].count && a[i].f; k++)
            if (!(fabs(a[i].f[k] - b[i].f[k]) <= tolerance * (1 + fabs(a[i].f[k]))))
                fail_msg("output %zu, element %zu: %.17g became %.17g", i, k, a[i].f[k], b[i].f[k]);
        hyp_eval_tensor_dispose(&a[i]);
        hyp_eval_tensor_dispose(&b[i]);
    }
    for (size_t i = 0; i < f->in.inputs.len; i++) hyp_eval_tensor_dispose(&inputs[i]);
}

size_t count_op(const hyp_graph *g, hyp_op op)
{
    size_t n = 0;
    for (size_t i = 0; i < g->nodes.len; i++) n += g->nodes.data[i].op == op;
    return n;
}

/* Nodes that run: neither views nor computed from constants alone. */
size_t count_running(const fixture *f) { return f->report.nodes_after; }

const hyp_node *only(const fixture *f, hyp_op op)
{
    const hyp_node *found = NULL;
    assert_int_equal(count_op(&f->out, op), 1);
    for (size_t i = 0; i < f->out.nodes.len; i++)
        if (f->out.nodes.data[i].op == op) found = &f->out.nodes.data[i];
    return found;
}

bool has_rule(const hyp_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->from.rule_count; i++)
        if (strcmp(n->from.rules[i], name) == 0) return true;
    return false;
}

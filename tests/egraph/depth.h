/* depth.h - an analysis of depths, a condition on them, and runs that are compared: for tests of what changes ids. */
#ifndef TESTS_EGRAPH_DEPTH_H
#define TESTS_EGRAPH_DEPTH_H

#include "support.h"

typedef struct fact {
    uint32_t depth;
} fact;

static inline hyp_status make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    size_t n;
    uint32_t most = 0;
    (void)user, (void)diag;
    const hyp_class_id *kids = hyp_enode_children(eg, node, &n);
    for (size_t j = 0; j < n; j++) {
        const fact *kid = hyp_egraph_data(eg, kids[j]);
        if (kid->depth > most) most = kid->depth;
    }
    ((fact *)data)->depth += most < 9 ? most + 1 : 9; /* it is zero */
    return HYP_OK;
}

static inline hyp_status merge(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag)
{
    fact *a = into;
    const fact *b = from;
    (void)eg, (void)user, (void)diag;
    *out_changed = b->depth > a->depth;
    if (*out_changed) *a = *b;
    return HYP_OK;
}

/* Declines until there is something to see. */
static inline hyp_status deep(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const fact *f = hyp_egraph_data(call->eg, call->args[0]);
    (void)diag;
    *out = !f || f->depth > 3;
    return HYP_OK;
}

static inline void run(hyp_egraph *eg, hyp_ruleset *rules, size_t iterations, hyp_egraph_run_report *report)
{
    hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = iterations, .max_nodes = 4000};
    must(hyp_egraph_run(eg, rules, &options, report, &diag));
}

static inline void assert_same_run(hyp_egraph_run_report *a, hyp_egraph_run_report *b)
{
    assert_int_equal(a->stop, b->stop);
    assert_int_equal(a->iteration_count, b->iteration_count);
    for (size_t i = 0; i < a->iteration_count; i++) {
        assert_int_equal(a->iterations[i].e_nodes, b->iterations[i].e_nodes);
        assert_int_equal(a->iterations[i].e_classes, b->iterations[i].e_classes);
        assert_int_equal(a->iterations[i].matches, b->iterations[i].matches);
    }
    hyp_egraph_run_report_dispose(a);
    hyp_egraph_run_report_dispose(b);
}

#endif

/* Times long rows of small steps, each of which has to cost the same however large the e-graph is.
 *
 *     bench-egraph-steps [-n STEPS]
 *
 * STEPS (20,000) times each: unites the next of so many leaves with those before, and rebuilds, from the oldest to the
 * youngest and the other way round; the same where leaves are operands of e-nodes, which become congruent; adds a leaf and
 * lists its class; adds a leaf and rebuilds; adds a leaf, unites it with the first, and rebuilds; unites the leaves of
 * two towers of so many floors, each of which becomes congruent then; adds a leaf and rebuilds where an analysis lists each
 * new class; adds a leaf between a push and its pop; and proves that a leaf is its neighbour where all are. Prints
 * milliseconds, one line of JSON. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "bench-egraph-steps"
#include "egraph_bench.h"

static hyp_egraph *new_egraph(void)
{
    hyp_diag diag = {0};
    hyp_egraph *eg;
    need(hyp_egraph_create(NULL, &eg, &diag), &diag);
    return eg;
}

static hyp_class_id leaf(hyp_egraph *eg, size_t i)
{
    hyp_diag diag = {0};
    char name[24];
    hyp_symbol symbol;
    hyp_class_id c;
    snprintf(name, sizeof name, "x%zu", i);
    need(hyp_egraph_symbol(eg, name, &symbol, &diag), &diag);
    need(hyp_egraph_add(eg, symbol, NULL, 0, &c, NULL, &diag), &diag);
    return c;
}

/* Unites all leaves one after the other; with `used`, each is the operand of an e-node. */
static double unite(size_t steps, bool backwards, bool used)
{
    hyp_diag diag = {0};
    hyp_egraph *eg = new_egraph();
    hyp_symbol f;
    need(hyp_egraph_symbol(eg, "f", &f, &diag), &diag);
    for (size_t i = 0; i < steps; i++) leaf(eg, i);
    for (hyp_class_id i = 0; used && i < steps; i++) need(hyp_egraph_add(eg, f, &i, 1, NULL, NULL, &diag), &diag);
    double begin = now();
    for (size_t i = 1; i < steps; i++) {
        hyp_class_id a = (hyp_class_id)(backwards ? steps - i : i);
        need(hyp_egraph_union(eg, a, a - 1, NULL, NULL, &diag), &diag);
        need(hyp_egraph_rebuild(eg, &diag), &diag);
    }
    double took = 1e3 * (now() - begin);
    if (hyp_egraph_class_count(eg) != (used ? 2 : 1)) exit(1);
    hyp_egraph_destroy(eg);
    return took;
}

static double add(size_t steps, bool list, bool rebuild, bool join)
{
    hyp_diag diag = {0};
    hyp_egraph *eg = new_egraph();
    double begin = now();
    for (size_t i = 0; i < steps; i++) {
        size_t count = 1;
        hyp_class_id c = leaf(eg, i);
        if (join) need(hyp_egraph_union(eg, 0, c, NULL, NULL, &diag), &diag);
        if (rebuild) need(hyp_egraph_rebuild(eg, &diag), &diag);
        if (list && (!hyp_egraph_class_nodes(eg, c, &count) || count != 1)) exit(1);
    }
    double took = 1e3 * (now() - begin);
    hyp_egraph_destroy(eg);
    return took;
}

static double towers(size_t floors)
{
    hyp_diag diag = {0};
    hyp_egraph *eg = new_egraph();
    hyp_symbol f;
    hyp_class_id leaves[2] = {leaf(eg, 0), leaf(eg, 1)};
    need(hyp_egraph_symbol(eg, "f", &f, &diag), &diag);
    for (size_t t = 0; t < 2; t++) {
        hyp_class_id top = leaves[t];
        for (size_t i = 0; i < floors; i++) need(hyp_egraph_add(eg, f, &top, 1, &top, NULL, &diag), &diag);
    }
    need(hyp_egraph_rebuild(eg, &diag), &diag);
    double begin = now();
    need(hyp_egraph_union(eg, leaves[0], leaves[1], NULL, NULL, &diag), &diag);
    need(hyp_egraph_rebuild(eg, &diag), &diag);
    double took = 1e3 * (now() - begin);
    if (hyp_egraph_class_count(eg) != floors + 1) exit(1);
    hyp_egraph_destroy(eg);
    return took;
}

static hyp_status list_class(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    size_t count;
    (void)user, (void)diag;
    return hyp_egraph_class_nodes(eg, c, &count) && count == 1 ? HYP_OK : HYP_ERR_INTERNAL;
}

static double show(size_t steps)
{
    hyp_diag diag = {0};
    hyp_egraph *eg;
    const hyp_analysis analysis = {.modify = list_class};
    const hyp_egraph_options options = {.size = sizeof options, .analysis = &analysis};
    need(hyp_egraph_create(&options, &eg, &diag), &diag);
    double begin = now();
    for (size_t i = 0; i < steps; i++) {
        leaf(eg, i);
        need(hyp_egraph_rebuild(eg, &diag), &diag);
    }
    double took = 1e3 * (now() - begin);
    hyp_egraph_destroy(eg);
    return took;
}

static double push_and_pop(size_t steps)
{
    hyp_diag diag = {0};
    hyp_egraph *eg = new_egraph();
    double begin = now();
    for (size_t i = 0; i < steps; i++) {
        need(hyp_egraph_push(eg, &diag), &diag);
        leaf(eg, i);
        need(hyp_egraph_pop(eg, &diag), &diag);
    }
    double took = 1e3 * (now() - begin);
    if (hyp_egraph_node_count(eg)) exit(1);
    hyp_egraph_destroy(eg);
    return took;
}

static double explain(size_t steps)
{
    enum { GROUP = 16 };
    hyp_diag diag = {0};
    hyp_egraph *eg;
    const hyp_egraph_options options = {.size = sizeof options, .explain = true};
    need(hyp_egraph_create(&options, &eg, &diag), &diag);
    for (size_t i = 0; i < steps; i++) leaf(eg, i);
    for (hyp_class_id i = 1; i < steps; i++)
        if (i % GROUP) need(hyp_egraph_union(eg, i - 1, i, NULL, NULL, &diag), &diag);
    need(hyp_egraph_rebuild(eg, &diag), &diag);
    double begin = now();
    for (hyp_class_id i = 1; i < steps; i++) {
        hyp_shared_proof proof;
        if (i % GROUP == 0) continue;
        need(hyp_egraph_explain_nodes(eg, i - 1, i, &proof, &diag), &diag);
        if (proof.lemma_count != 1) exit(1);
        hyp_shared_proof_dispose(&proof);
    }
    double took = 1e3 * (now() - begin);
    hyp_egraph_destroy(eg);
    return took;
}

int main(int argc, char **argv)
{
    size_t steps = 20000;
    if (argc == 3 && strcmp(argv[1], "-n") == 0)
        steps = (size_t)strtoull(argv[2], NULL, 10);
    else if (argc > 1)
        steps = 0;
    if (steps < 2 || steps > 100000000) {
        fprintf(stderr, "usage: bench-egraph-steps [-n STEPS]\n");
        return 2;
    }
    printf("{\"workload\": \"steps\", \"steps\": %zu, \"unite_ms\": %.1f, \"unite_backwards_ms\": %.1f, ", steps,
           unite(steps, false, false), unite(steps, true, false));
    printf("\"unite_used_ms\": %.1f, \"unite_used_backwards_ms\": %.1f, ", unite(steps, false, true),
           unite(steps, true, true));
    printf("\"list_ms\": %.1f, \"rebuild_ms\": %.1f, \"join_ms\": %.1f, \"towers_ms\": %.1f, ",
           add(steps, true, false, false), add(steps, false, true, false), add(steps, false, true, true), towers(steps));
    printf("\"show_ms\": %.1f, \"push_ms\": %.1f, \"explain_ms\": %.1f}\n", show(steps), push_and_pop(steps),
           explain(steps));
    return 0;
}

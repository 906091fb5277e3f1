/* Copies of an e-graph go on as it would, and one that is made compact does, too. */
#include "base/diag.h"
#include "base/mem.h"
#include "depth.h"

static hyp_status wrap(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_symbol symbol;
    HYP_TRY(hyp_egraph_symbol(call->eg, "wrapped", &symbol, diag));
    return hyp_egraph_add(call->eg, symbol, call->args + 1, call->arg_count - 1, out, NULL, diag);
}

#define MORE_RULES                                                                                                     \
    "(rule if-deep (cos ?x) => (l ?x ?x ?x ?x) :if (deep ?x))"                                                         \
    "(rule seq (l ?a ?xs...) => (l ?xs... ?a) :if (deep ?a))"                                                          \
    "(rule many (collect (?x) (?y = (* ?w ?x))) => (let ?m (l (each ?w))) (union ?y (pick <i> ?m ?x)))"

static hyp_egraph *begin(bool explain, bool analysed, hyp_ruleset **out)
{
    const hyp_analysis analysis = {.data_size = sizeof(fact), .make = make, .merge = merge};
    hyp_egraph *eg = new_graph(explain, analysed ? &analysis : NULL);
    must(hyp_egraph_register_condition(eg, "deep", 1, deep, NULL, &diag));
    *out = rules_of(eg, MATH_RULES MORE_RULES);
    must(hyp_ruleset_add(
        *out,
        &(hyp_rule_source){.size = sizeof(hyp_rule_source), .name = "in c (a)", .left = "(d ?x ?y)", .apply = wrap},
        &diag));
    add_math_terms(eg);
    term(eg, "(l a b c d)");
    return eg;
}

static void copies_go_on_alike(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        for (size_t before = 0; before < 5; before++) {
            hyp_ruleset *rules, *others;
            hyp_egraph_run_report mine, theirs;
            hyp_egraph *eg = begin(kind & 1, kind & 2, &rules), *copy;
            run(eg, rules, before + 1, &mine);
            hyp_egraph_run_report_dispose(&mine);
            must(hyp_egraph_rebuild(eg, &diag));
            must(hyp_egraph_copy(eg, &rules, 1, &copy, &others, &diag));
            must(hyp_egraph_check(copy, &diag));
            assert_int_equal(hyp_ruleset_count(others), hyp_ruleset_count(rules));
            run(eg, rules, 3, &mine);
            run(copy, others, 3, &theirs);
            assert_same_run(&mine, &theirs);
            must(hyp_egraph_check(copy, &diag));
            assert_int_equal(hyp_egraph_class_bound(eg), hyp_egraph_class_bound(copy));
            for (hyp_class_id c = 0; c < hyp_egraph_class_bound(eg); c++) {
                size_t n, m;
                assert_int_equal(hyp_egraph_find(eg, c), hyp_egraph_find(copy, c));
                const hyp_enode_id *a = hyp_egraph_class_nodes(eg, c, &n), *b = hyp_egraph_class_nodes(copy, c, &m);
                assert_int_equal(n, m);
                assert_memory_equal(a, b, n * sizeof *a);
            }
            hyp_ruleset_destroy(rules);
            hyp_egraph_destroy(eg);
            rebuild_and_check(copy); /* lives on by itself */
            unite(copy, "x", "y");
            run(copy, others, 1, &theirs);
            hyp_egraph_run_report_dispose(&theirs);
            rebuild_and_check(copy);
            hyp_ruleset_destroy(others);
            hyp_egraph_destroy(copy);
        }
    }
}

static void copies_prove_what_they_were_told(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL), *copy;
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES), *others;
    hyp_egraph_run_report report;
    hyp_proof proof;
    const char *from = "(+ 1 (+ 2 (+ 3 4)))", *to = "(+ (+ 4 3) (+ 2 1))";
    term(eg, from);
    must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
    hyp_egraph_run_report_dispose(&report);
    must(hyp_egraph_copy(eg, NULL, 0, &copy, NULL, &diag)); /* what proofs name comes along all the same */
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
    others = rules_of(copy, ASSOC_RULES);
    must(hyp_egraph_explain(copy, from, to, &proof, &diag));
    must(hyp_proof_check(&proof, from, to, &others, 1, NULL, NULL, &diag));
    hyp_proof_dispose(&proof);
    hyp_ruleset_destroy(others);
    hyp_egraph_destroy(copy);
}

static void declarations_are_copied(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL), *copy;
    static const char text[] = "(operators E (f E) (g E E...) (a)) (literals E int)";
    hyp_class_id c;
    must(hyp_egraph_declare(eg, "e", text, strlen(text), &diag));
    term(eg, "(f a)");
    must(hyp_egraph_copy(eg, NULL, 0, &copy, NULL, &diag));
    hyp_egraph_destroy(eg);
    term(copy, "(g a 1 2 3)");
    assert_int_equal(hyp_egraph_add_text(copy, "(f b)", &c, NULL), HYP_ERR_MALFORMED);
    assert_string_equal(hyp_egraph_sort(copy, 0), "E");
    hyp_egraph_destroy(copy);
}

/* ---- compact ------------------------------------------------------------------------------------------ */

static void compact_graphs_go_on_alike(void **state)
{
    (void)state;
    for (int analysed = 0; analysed < 2; analysed++) {
        hyp_ruleset *rules, *others;
        hyp_egraph_run_report mine, theirs;
        hyp_egraph *eg = begin(false, analysed, &rules), *other = begin(false, analysed, &others);
        size_t died = 0;
        for (size_t i = 0; i < 9; i++) {
            size_t bound = hyp_egraph_class_bound(other);
            hyp_class_id *classes = malloc(bound * sizeof *classes), *roots = malloc(bound * sizeof *roots);
            hyp_enode_id *nodes = malloc(bound * sizeof *nodes);
            char **names = calloc(bound, sizeof *names);
            for (size_t c = 0; c < bound; c++) {
                classes[c] = nodes[c] = (uint32_t)c;
                roots[c] = hyp_egraph_find(other, (uint32_t)c);
                names[c] = strdup(hyp_egraph_symbol_name(other, hyp_enode_op(other, (uint32_t)c)));
            }
            must(hyp_egraph_compact(other, classes, bound, nodes, bound, &diag));
            must(hyp_egraph_check(other, &diag));
            assert_int_equal(hyp_egraph_enode_bound(other), hyp_egraph_node_count(other));
            died += bound - hyp_egraph_enode_bound(other);
            for (size_t c = 0; c < bound; c++) { /* who was one class is, and an e-node is what it was */
                assert_int_equal(classes[c], classes[roots[c]]);
                assert_int_equal(hyp_egraph_find(other, classes[c]), classes[c]);
                assert_true(nodes[c] != HYP_NONE);
                assert_int_equal(hyp_enode_class(other, nodes[c]), classes[c]);
                assert_string_equal(hyp_egraph_symbol_name(other, hyp_enode_op(other, nodes[c])), names[c]);
                free(names[c]);
            }
            free(classes), free(roots), free(nodes), free(names);
            run(eg, rules, 1, &mine);
            run(other, others, 1, &theirs);
            assert_same_run(&mine, &theirs);
            must(hyp_egraph_check(other, &diag));
        }
        assert_true(died > 100);
        assert_true(equal(other, "(* y (+ x y))", "(* (+ y x) y)"));
        hyp_ruleset_destroy(rules);
        hyp_ruleset_destroy(others);
        hyp_egraph_destroy(eg);
        hyp_egraph_destroy(other);
    }
}

/* Adds members and users to the class of (f b), in small steps. */
static void grow(hyp_egraph *eg, int first, int end)
{
    for (int i = first; i < end; i++) {
        char text[32];
        snprintf(text, sizeof text, i % 3 ? "(leaf %d)" : "(user (f b) %d)", i);
        hyp_class_id leaf = term(eg, text);
        if (i % 3) must(hyp_egraph_union(eg, term(eg, "(f b)"), leaf, NULL, NULL, &diag));
        must(hyp_egraph_rebuild(eg, &diag));
    }
}

static hyp_egraph *begin_large(hyp_class_id *out)
{
    const hyp_analysis analysis = {.data_size = sizeof(fact), .make = make, .merge = merge};
    hyp_egraph *eg = new_graph(false, &analysis);
    term(eg, "(f a)");
    *out = term(eg, "(f b)");
    unite(eg, "(f (g 1))", "(f b)");
    return eg;
}

/* However far it is until changes are followed by the index, where a large class keeps its name. */
static void copies_choose_the_same_names(void **state)
{
    (void)state;
    size_t kept = 0;
    for (int steps = 1; steps < 60; steps++) {
        hyp_class_id c;
        hyp_egraph *eg = begin_large(&c), *copy;
        grow(eg, 0, steps);
        must(hyp_egraph_copy(eg, NULL, 0, &copy, NULL, &diag));
        unite(eg, "a", "b");
        unite(copy, "a", "b");
        rebuild_and_check(eg);
        rebuild_and_check(copy);
        for (hyp_class_id i = 0; i < hyp_egraph_class_bound(eg); i++)
            assert_int_equal(hyp_egraph_find(eg, i), hyp_egraph_find(copy, i));
        kept += hyp_egraph_find(eg, c) == c;
        hyp_egraph_destroy(eg);
        hyp_egraph_destroy(copy);
    }
    assert_true(kept > 0);
}

static void names_that_died_are_given_up(void **state)
{
    (void)state;
    hyp_class_id c;
    hyp_egraph *eg = begin_large(&c);
    size_t nodes, now;
    grow(eg, 0, 90);
    unite(eg, "a", "b");
    rebuild_and_check(eg);
    assert_int_equal(hyp_egraph_find(eg, term(eg, "(f a)")), c); /* an e-node that has died */
    for (int i = 0; i < 20; i++) { /* more that die */
        char text[32];
        snprintf(text, sizeof text, "(h p%d %d)", i % 2, i / 2);
        term(eg, text);
    }
    unite(eg, "p0", "p1");
    must(hyp_egraph_rebuild(eg, &diag));
    fact *f = hyp_egraph_data(eg, c);
    assert_int_equal(f->depth, 3);
    hyp_egraph_class_nodes(eg, c, &nodes);
    must(hyp_egraph_compact(eg, &c, 1, NULL, 0, &diag));
    must(hyp_egraph_check(eg, &diag));
    assert_int_equal(hyp_egraph_enode_bound(eg), hyp_egraph_node_count(eg));
    assert_int_equal(hyp_egraph_find(eg, term(eg, "(f b)")), c);
    assert_int_equal(hyp_egraph_find(eg, term(eg, "(leaf 59)")), c);
    hyp_egraph_class_nodes(eg, c, &now);
    assert_int_equal(now, nodes);
    f = hyp_egraph_data(eg, c);
    assert_int_equal(f->depth, 3);
    f = hyp_egraph_data(eg, term(eg, "(user (f a) 3)"));
    assert_int_equal(f->depth, 4);
    f = hyp_egraph_data(eg, term(eg, "(new (g (f a) (f b) (f a)))")); /* facts of e-nodes that come are made of nothing */
    assert_int_equal(f->depth, 5);
    hyp_egraph_run_report report;
    hyp_ruleset *rules = rules_of(eg, "(rule deep (f ?x) => (deep (deep (deep (deep ?x)))))");
    run(eg, rules, 1, &report);
    hyp_egraph_run_report_dispose(&report);
    rebuild_and_check(eg);
    f = hyp_egraph_data(eg, c);
    assert_int_equal(f->depth, 6); /* (deep (deep (deep (deep (g 1))))) */
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static hyp_status compact_now(hyp_egraph *eg, size_t iteration, void *user, hyp_diag *diag)
{
    (void)iteration;
    return hyp_egraph_compact(eg, user, 1, NULL, 0, diag);
}

/* Terms that become equal to what is there, for ever: the e-graph stays as large as what lives. */
static void long_runs_stay_small(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, &(hyp_analysis){.data_size = 4});
    hyp_ruleset *rules = rules_of(eg, "(rule fold (next ?x (last ?x)) => ?x) (rule down (f (last ?x)) => (f ?x))");
    hyp_class_id root = term(eg, "(f start)");
    size_t most = 0;
    for (size_t i = 0; i < 3000; i++) {
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .hook = compact_now, .hook_user = &root};
        hyp_class_id x, f;
        char text[64];
        snprintf(text, sizeof text, "(last (g %zu %zu %zu))", i % 3, i % 5, i % 7);
        x = term(eg, text);
        snprintf(text, sizeof text, "(f (last (g %zu %zu %zu)))", i % 3, i % 5, i % 7);
        f = term(eg, text);
        must(hyp_egraph_union(eg, x, term(eg, "start"), NULL, NULL, &diag));
        must(hyp_egraph_union(eg, f, root, NULL, NULL, &diag));
        must(hyp_egraph_rebuild(eg, &diag));
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        if (hyp_egraph_enode_bound(eg) > most) most = hyp_egraph_enode_bound(eg);
        hyp_egraph_run_report_dispose(&report);
        assert_int_equal(root, hyp_egraph_find(eg, term(eg, "(f start)")));
    }
    rebuild_and_check(eg);
    assert_true(most < 400);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void compact_says_when_it_cannot(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_class_id c = 77, none = HYP_NONE;
    term(eg, "(f a)");
    assert_int_equal(hyp_egraph_compact(eg, NULL, 0, NULL, 0, NULL), HYP_ERR_UNSUPPORTED);
    hyp_egraph_destroy(eg);
    eg = new_graph(false, NULL);
    assert_int_equal(hyp_egraph_compact(eg, &none, 1, NULL, 0, NULL), HYP_OK); /* there is nothing yet */
    term(eg, "(f a)");
    assert_int_equal(hyp_egraph_compact(eg, &c, 1, NULL, 0, NULL), HYP_ERR_INVALID_ARGUMENT);
    unite(eg, "(f a)", "a");
    hyp_ruleset *others;
    hyp_egraph *copy;
    assert_int_equal(hyp_egraph_copy(eg, NULL, 0, &copy, NULL, NULL), HYP_ERR_INVALID_ARGUMENT); /* not rebuilt */
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(hyp_egraph_copy(eg, &(hyp_ruleset *){NULL}, 1, &copy, &others, NULL), HYP_ERR_INVALID_ARGUMENT);
    must(hyp_egraph_compact(eg, &none, 1, NULL, 0, &diag));
    assert_int_equal(none, HYP_NONE);
    hyp_egraph_destroy(eg);
}

static void memory_may_be_out(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        hyp_ruleset *rules, *others;
        hyp_egraph_run_report report;
        hyp_egraph *eg = begin(kind, true, &rules), *copy;
        run(eg, rules, 3, &report);
        hyp_egraph_run_report_dispose(&report);
        hyp_status status = HYP_ERR_NO_MEMORY;
        for (uint64_t n = 1; status == HYP_ERR_NO_MEMORY; n++) {
            hyp_mem_fail_after(n);
            status = hyp_egraph_copy(eg, &rules, 1, &copy, &others, NULL);
            hyp_mem_fail_after(0);
        }
        assert_int_equal(status, HYP_OK);
        must(hyp_egraph_check(copy, &diag));
        hyp_egraph_destroy(copy);
        status = HYP_ERR_NO_MEMORY;
        for (uint64_t n = 1; status == HYP_ERR_NO_MEMORY; n++) {
            hyp_mem_fail_after(n);
            status = hyp_egraph_compact(eg, NULL, 0, NULL, 0, NULL);
            hyp_mem_fail_after(0);
        }
        assert_int_equal(status, kind ? HYP_ERR_UNSUPPORTED : HYP_OK);
        rebuild_and_check(eg);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_go_on_alike),      cmocka_unit_test(copies_prove_what_they_were_told),
        cmocka_unit_test(declarations_are_copied), cmocka_unit_test(compact_graphs_go_on_alike),
        cmocka_unit_test(long_runs_stay_small),    cmocka_unit_test(compact_says_when_it_cannot),
        cmocka_unit_test(memory_may_be_out),       cmocka_unit_test(names_that_died_are_given_up),
        cmocka_unit_test(copies_choose_the_same_names),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

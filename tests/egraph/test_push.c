/* Going back to a state noted before. */
#include "base/diag.h"
#include "base/mem.h"
#include "support.h"

static uint64_t fingerprint(hyp_egraph *eg)
{
    uint64_t h = hyp_egraph_class_count(eg);
    for (hyp_enode_id n = 0; n < hyp_egraph_enode_bound(eg); n++) {
        size_t count;
        const hyp_class_id *kids = hyp_enode_children(eg, n, &count);
        h = h * 31 + hyp_enode_op(eg, n);
        h = h * 31 + hyp_enode_class(eg, n);
        for (size_t j = 0; j < count; j++) h = h * 31 + hyp_egraph_find(eg, kids[j]);
    }
    return h;
}

static void run_on(hyp_egraph *eg, hyp_ruleset *rules, size_t iterations) { run_checked(eg, rules, iterations); }

/* A state is the same after a detour, and what follows from it is, too: ids, proofs, facts of the rules. */
static void a_detour_leaves_no_trace(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        hyp_egraph *eg = new_graph(explain, NULL);
        hyp_ruleset *rules = rules_of(eg, MATH_RULES);
        add_math_terms(eg);
        run_on(eg, rules, 4);
        must(hyp_egraph_push(eg, &diag));
        uint64_t before = fingerprint(eg);
        run_on(eg, rules, 3);
        uint64_t after = fingerprint(eg);
        assert_true(before != after);
        for (int round = 0; round < 2; round++) {
            must(hyp_egraph_pop(eg, &diag));
            must(hyp_egraph_check(eg, &diag));
            assert_true(fingerprint(eg) == before);
            if (round == 1) break;
            must(hyp_egraph_push(eg, &diag));
            unite(eg, "x", "y"); /* another way this time, not even rebuilt */
            term(eg, "(new (+ x y) x y)");
        }
        run_on(eg, rules, 3);
        assert_true(fingerprint(eg) == after);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

static void states_nest(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    term(eg, "(f a b)");
    must(hyp_egraph_push(eg, &diag));
    unite(eg, "a", "b");
    assert_true(equal(eg, "(f a a)", "(f b b)"));
    must(hyp_egraph_push(eg, &diag));
    unite(eg, "b", "c");
    assert_true(equal(eg, "(f a a)", "(f c c)"));
    must(hyp_egraph_pop(eg, &diag));
    must(hyp_egraph_check(eg, &diag));
    assert_false(equal(eg, "a", "c"));
    assert_true(equal(eg, "a", "b"));
    hyp_proof proof;
    must(hyp_egraph_explain(eg, "(f a a)", "(f b b)", &proof, &diag));
    hyp_proof_dispose(&proof);
    must(hyp_egraph_pop(eg, &diag));
    must(hyp_egraph_check(eg, &diag));
    assert_false(equal(eg, "a", "b"));
    hyp_diag said = {0};
    assert_int_equal(hyp_egraph_pop(eg, &said), HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_destroy(eg);
}

/* What a copy that was made at a push is like: the e-graph after the pop. */
static void same(hyp_egraph *eg, hyp_egraph *was)
{
    size_t bound = hyp_egraph_enode_bound(was);
    must(hyp_egraph_check(eg, &diag));
    assert_int_equal(hyp_egraph_enode_bound(eg), bound);
    assert_int_equal(hyp_egraph_node_count(eg), hyp_egraph_node_count(was));
    assert_int_equal(hyp_egraph_class_count(eg), hyp_egraph_class_count(was));
    for (hyp_enode_id n = 0; n < bound; n++) {
        size_t count, more;
        const hyp_class_id *kids = hyp_enode_children(eg, n, &count), *others = hyp_enode_children(was, n, &more);
        assert_int_equal(hyp_egraph_find(eg, n), hyp_egraph_find(was, n));
        assert_int_equal(hyp_enode_op(eg, n), hyp_enode_op(was, n));
        assert_int_equal(count, more);
        for (size_t i = 0; i < count; i++) assert_int_equal(kids[i], others[i]);
        hyp_origin origin = hyp_egraph_origin(eg, n), other = hyp_egraph_origin(was, n);
        assert_int_equal(origin.rule, other.rule);
        assert_int_equal(origin.matched_count, other.matched_count);
        hyp_shared_proof a, b;
        if (hyp_egraph_find(eg, n) == n || n % 4) continue;
        must(hyp_egraph_explain_nodes(eg, n, hyp_egraph_find(eg, n), &a, &diag));
        must(hyp_egraph_explain_nodes(was, n, hyp_egraph_find(eg, n), &b, &diag));
        assert_int_equal(a.term_count, b.term_count);
        assert_int_equal(a.lemma_count, b.lemma_count);
        for (size_t i = 0; i < a.lemma_count; i++) assert_int_equal(a.lemmas[i].to, b.lemmas[i].to);
        hyp_shared_proof_dispose(&a);
        hyp_shared_proof_dispose(&b);
    }
}

/* States in states, of e-nodes of many children, too, unions that are rebuilt and others that are not, and runs: each pop
 * gives what there was, to the proofs. */
static void every_state_is_as_it_was(void **state)
{
    (void)state;
    enum { DEEP = 6, STEPS = 400 };
    hyp_egraph *eg = new_graph(true, NULL), *was[DEEP];
    hyp_ruleset *rules = rules_of(eg, "(rule comm (f ?a ?b) => (f ?b ?a)) (rule turn (g ?a ?b ?c) => (f ?a (g ?b ?c ?a)))");
    uint32_t random = 1, depth = 0;
    hyp_symbol ops[3];
    for (int i = 0; i < 3; i++) must(hyp_egraph_symbol(eg, (const char *[]){"h", "f", "g"}[i], &ops[i], &diag));
    for (int i = 0; i < STEPS || depth; i++) {
        hyp_class_id ids[3];
        hyp_egraph_run_report report;
        size_t bound = hyp_egraph_enode_bound(eg);
        for (int j = 0; j < 3; j++) {
            random = random * 1664525 + 1013904223;
            ids[j] = bound ? (random >> 8) % (uint32_t)bound : 0;
        }
        uint32_t what = i < STEPS ? (random >> 16) % 16 : 15;
        if (what < 2 || bound < 3)
            term(eg, (const char *[]){"a", "b", "c", "d"}[(random >> 20) % 4]);
        else if (what < 7)
            must(hyp_egraph_add(eg, ops[what % 3], ids, what % 3 + 1, NULL, NULL, &diag));
        else if (what < 10)
            must(hyp_egraph_union(eg, ids[0], ids[1], NULL, NULL, &diag));
        else if (what == 10)
            rebuild_and_check(eg);
        else if (what == 11) {
            must(hyp_egraph_run(eg, rules, &(hyp_egraph_run_options){.size = sizeof(hyp_egraph_run_options), .max_nodes = 60},
                                &report, &diag));
            hyp_egraph_run_report_dispose(&report);
        } else if (what < 14 && depth < DEEP) {
            must(hyp_egraph_push(eg, &diag));
            must(hyp_egraph_copy(eg, NULL, 0, &was[depth++], NULL, &diag));
        } else if (depth) {
            must(hyp_egraph_pop(eg, &diag));
            same(eg, was[--depth]);
            hyp_egraph_destroy(was[depth]);
        }
    }
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* Rules that were parsed in between know nothing of the state they come back to, and find everything in it. */
static void rules_outlive_a_state(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    char text[256];
    chain_text(text, sizeof text, 6);
    term(eg, text);
    must(hyp_egraph_push(eg, &diag));
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    run_on(eg, rules, 2);
    must(hyp_egraph_pop(eg, &diag));
    assert_int_equal(hyp_egraph_node_count(eg), 11);
    assert_int_equal(run_checked(eg, rules, 50), HYP_STOP_SATURATED);
    assert_int_equal(hyp_egraph_class_count(eg), 63);
    assert_int_equal(hyp_egraph_node_count(eg), 608);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* The least number that a class has been seen with, to watch facts go back. */
static hyp_status make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    int *out = data;
    size_t n;
    hyp_enode_children(eg, node, &n);
    *out = n ? 1000 : atoi(hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node)));
    return HYP_OK;
}

static hyp_status merge(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag)
{
    (void)eg, (void)user, (void)diag;
    int *a = into;
    const int *b = from;
    *out_changed = *b < *a;
    if (*out_changed) *a = *b;
    return HYP_OK;
}

static void facts_go_back(void **state)
{
    (void)state;
    hyp_analysis analysis = {.data_size = sizeof(int), .make = make, .merge = merge};
    hyp_egraph *eg = new_graph(false, &analysis);
    hyp_class_id nine = term(eg, "9");
    term(eg, "(g 9 9 9 9)");
    must(hyp_egraph_push(eg, &diag));
    unite(eg, "9", "3");
    rebuild_and_check(eg);
    assert_int_equal(*(int *)hyp_egraph_data(eg, nine), 3);
    must(hyp_egraph_pop(eg, &diag));
    must(hyp_egraph_check(eg, &diag));
    assert_int_equal(*(int *)hyp_egraph_data(eg, nine), 9);
    hyp_egraph_destroy(eg);
}

static void without_memory_a_push_changes_nothing(void **state)
{
    (void)state;
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status != HYP_OK; n++) {
        hyp_egraph *eg = new_graph(true, NULL);
        hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
        term(eg, "(+ 1 (+ 2 (+ 3 4)))");
        run_on(eg, rules, 1);
        uint64_t before = fingerprint(eg);
        hyp_diag said = {0};
        hyp_mem_fail_after(n);
        status = hyp_egraph_push(eg, &said);
        hyp_mem_fail_after(0);
        assert_true(status == HYP_OK || status == HYP_ERR_NO_MEMORY);
        run_on(eg, rules, 1);
        assert_int_equal(hyp_egraph_pop(eg, &said), status == HYP_OK ? HYP_OK : HYP_ERR_INVALID_ARGUMENT);
        if (status == HYP_OK) assert_true(fingerprint(eg) == before);
        must(hyp_egraph_check(eg, &diag));
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

/* Every e-node that a rule made says which, of older ones, before and after a detour; what was told stays until something
 * changes. */
static void origins_outlive_a_state(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, MATH_RULES);
    add_math_terms(eg);
    size_t given = hyp_egraph_enode_bound(eg);
    for (size_t round = 0; round < 4; round++) {
        run_on(eg, rules, 2);
        if (round == 1) must(hyp_egraph_push(eg, &diag));
        if (round == 2) must(hyp_egraph_pop(eg, &diag));
        size_t bound = hyp_egraph_enode_bound(eg);
        hyp_origin *told = calloc(bound, sizeof *told);
        for (hyp_enode_id n = 0; n < bound; n++) told[n] = hyp_egraph_origin(eg, n);
        for (hyp_enode_id n = 0; n < bound; n++) {
            assert_int_equal(told[n].rule == HYP_NONE, n < given);
            if (n < given) continue;
            assert_true(told[n].rule < hyp_ruleset_count(rules) && told[n].matched_count > 0);
            hyp_origin again = hyp_egraph_origin(eg, n);
            assert_int_equal(again.rule, told[n].rule);
            assert_memory_equal(again.matched, told[n].matched, again.matched_count * sizeof *again.matched);
            const char *text = strchr(strstr(hyp_ruleset_rule(rules, again.rule).text, " ("), '(') + 1;
            const char *op = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, again.matched[0]));
            assert_int_equal(strncmp(text, op, strlen(op)), 0); /* the root of the rule's left side */
            for (size_t i = 0; i < again.matched_count; i++) assert_true(again.matched[i] < n);
        }
        free(told);
    }
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* An e-node of an application that a limit has cut has no origin, also when the application is made up for; what that makes
 * has one. */
static void what_a_limit_cut_has_no_origin(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule r (f ?x) => (g (h ?x) (k ?x)))");
    hyp_egraph_run_options options = {.size = sizeof options, .max_nodes = 3};
    hyp_egraph_run_report report;
    term(eg, "(f a)");
    for (int round = 0; round < 2; round++) {
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        assert_int_equal(report.stop, round ? HYP_STOP_SATURATED : HYP_STOP_NODES);
        assert_int_equal(hyp_egraph_enode_bound(eg), round ? 5 : 3);
        hyp_egraph_run_report_dispose(&report);
        must(hyp_egraph_check(eg, &diag));
        for (hyp_enode_id n = 0; n < 3; n++) assert_int_equal(hyp_egraph_origin(eg, n).rule, HYP_NONE);
        options.max_nodes = 0;
    }
    for (hyp_enode_id n = 3; n < 5; n++) assert_int_equal(hyp_egraph_origin(eg, n).matched[0], 1);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* Operators whose e-nodes a pop takes back are as if they had never had one, and may come again. */
static void operators_come_and_go(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "(f a)");
    for (int round = 0; round < 3; round++) {
        must(hyp_egraph_push(eg, &diag));
        hyp_ruleset *rules = rules_of(eg, "(rule r (g ?x) => (h ?x b))");
        term(eg, "(g a)");
        if (round == 1) must(hyp_egraph_rebuild(eg, &diag)); /* else it is not known to any log */
        must(hyp_egraph_push(eg, &diag));
        term(eg, "(k a c)");
        must(hyp_egraph_pop(eg, &diag));
        must(hyp_egraph_check(eg, &diag));
        assert_int_equal(run_checked(eg, rules, 3), HYP_STOP_SATURATED);
        assert_true(equal(eg, "(g a)", "(h a b)"));
        must(hyp_egraph_pop(eg, &diag));
        must(hyp_egraph_check(eg, &diag));
        assert_int_equal(hyp_egraph_node_count(eg), 2);
        assert_int_equal(run_checked(eg, rules, 3), HYP_STOP_SATURATED);
        assert_int_equal(hyp_egraph_node_count(eg), 2);
        hyp_ruleset_destroy(rules);
    }
    hyp_egraph_destroy(eg);
}

static size_t steps_of(hyp_egraph *eg, const char *a, const char *b)
{
    hyp_proof proof;
    must(hyp_egraph_explain(eg, a, b, &proof, &diag));
    size_t count = proof.count - 1;
    hyp_proof_dispose(&proof);
    return count;
}

/* What is kept of a proof for the next one is not that of another state. */
static void proofs_are_of_the_moment(void **state)
{
    (void)state;
    hyp_egraph *eg;
    hyp_proof proof;
    hyp_egraph_options options = {.size = sizeof options, .explain = true, .explain_all = true};
    must(hyp_egraph_create(&options, &eg, &diag));
    hyp_ruleset *rules = rules_of(eg, "(rule short a => c)");
    hyp_class_id b = (term(eg, "a"), term(eg, "b"));
    unite(eg, "a", "b");
    must(hyp_egraph_push(eg, &diag));
    assert_int_equal(steps_of(eg, "a", "b"), 1);
    must(hyp_egraph_union(eg, b, term(eg, "c"), NULL, NULL, &diag));
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(steps_of(eg, "a", "c"), 2);
    assert_int_equal(steps_of(eg, "c", "a"), 2);
    run_on(eg, rules, 2); /* unites nothing, and is a shorter way */
    assert_int_equal(steps_of(eg, "a", "c"), 1);
    unite(eg, "c", "(f c)");
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(steps_of(eg, "(f (f c))", "a"), 3);
    must(hyp_egraph_pop(eg, &diag));
    assert_int_equal(steps_of(eg, "a", "b"), 1);
    term(eg, "c");
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(hyp_egraph_explain(eg, "a", "c", &proof, NULL), HYP_ERR_MISMATCH);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A ruleset gets back what it had seen, whichever others have come and gone since. */
static void rulesets_come_and_go(void **state)
{
    (void)state;
    enum { SETS = 7 };
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *sets[2 * SETS];
    term(eg, "(f0 a)");
    for (int i = 0; i < SETS; i++) {
        char text[64];
        snprintf(text, sizeof text, "(rule r (f%d ?x) => (f%d ?x))", i, i + 1);
        sets[i] = rules_of(eg, text);
        run_on(eg, sets[i], 3);
    }
    must(hyp_egraph_push(eg, &diag));
    for (int i = SETS; i < 2 * SETS; i++) sets[i] = rules_of(eg, "(rule r (f0 ?x) => (g ?x))");
    static const int gone[] = {2, SETS + 1, 0, SETS - 1, 2 * SETS - 1}; /* old and new, in the middle and at both ends */
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        hyp_ruleset_destroy(sets[gone[i]]);
        sets[gone[i]] = NULL;
    }
    run_on(eg, sets[SETS], 3);
    must(hyp_egraph_pop(eg, &diag));
    for (int i = 0; i < 2 * SETS; i++) {
        hyp_egraph_run_report report;
        if (!sets[i]) continue;
        must(hyp_egraph_run(eg, sets[i], NULL, &report, &diag));
        assert_int_equal(report.matches, i >= SETS); /* of an old one nothing is new */
        hyp_egraph_run_report_dispose(&report);
    }
    rebuild_and_check(eg);
    for (int i = 0; i < 2 * SETS; i++) hyp_ruleset_destroy(sets[i]);
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_detour_leaves_no_trace),
        cmocka_unit_test(states_nest),
        cmocka_unit_test(every_state_is_as_it_was),
        cmocka_unit_test(rules_outlive_a_state),
        cmocka_unit_test(facts_go_back),
        cmocka_unit_test(origins_outlive_a_state),
        cmocka_unit_test(what_a_limit_cut_has_no_origin),
        cmocka_unit_test(operators_come_and_go),
        cmocka_unit_test(rulesets_come_and_go),
        cmocka_unit_test(proofs_are_of_the_moment),
        cmocka_unit_test(without_memory_a_push_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Class analyses: constant folding, facts that travel upward, contradictions, limits inside callbacks. */
#include "base/diag.h"
#include "support.h"

/* The integer that a class is known to be. */
typedef struct fact {
    bool known;
    long value;
} fact;

typedef struct folding {
    int makes, modifies;
    bool add_constants; /* modify adds the literal and unites */
} folding;

static hyp_status make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)diag;
    fact *out = data;
    size_t n;
    char *end;
    const char *name = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    const hyp_class_id *kids = hyp_enode_children(eg, node, &n);
    ((folding *)user)->makes++;
    if (n == 0) {
        out->value = strtol(name, &end, 10);
        out->known = end != name && *end == 0;
    } else if (n == 2) {
        const fact *a = hyp_egraph_data(eg, kids[0]), *b = hyp_egraph_data(eg, kids[1]);
        out->known = a->known && b->known && (*name == '+' || *name == '*');
        if (out->known) out->value = *name == '+' ? a->value + b->value : a->value * b->value;
    } else if (!strcmp(name, "fail")) {
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "no fact for 'fail'");
    } else if (!strcmp(name, "odd")) {
        return hyp_fail(diag, HYP_ERR_MALFORMED, "'odd' means nothing");
    }
    return HYP_OK;
}

static hyp_status merge(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag)
{
    (void)eg, (void)user;
    fact *a = into;
    const fact *b = from;
    if (a->known && b->known && a->value != b->value)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%ld cannot be %ld", a->value, b->value);
    *out_changed = !a->known && b->known;
    if (*out_changed) *a = *b;
    return HYP_OK;
}

static hyp_status modify(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    folding *f = user;
    const fact *known = hyp_egraph_data(eg, c);
    f->modifies++;
    if (!f->add_constants || !known->known) return HYP_OK;
    char text[32];
    hyp_symbol symbol;
    hyp_class_id literal;
    snprintf(text, sizeof text, "%ld", known->value);
    HYP_TRY(hyp_egraph_symbol(eg, text, &symbol, diag));
    HYP_TRY(hyp_egraph_add(eg, symbol, NULL, 0, &literal, NULL, diag));
    return hyp_egraph_union(eg, c, literal, "folded", NULL, diag);
}

static hyp_egraph *folding_graph(folding *f)
{
    f->add_constants = true;
    hyp_analysis analysis = {.data_size = sizeof(fact), .user = f, .make = make, .merge = merge, .modify = modify};
    return new_graph(false, &analysis);
}

static void constants_are_folded(void **state)
{
    (void)state;
    folding f = {0};
    hyp_egraph *eg = folding_graph(&f);
    hyp_class_id c = term(eg, "(* (+ 1 2) (+ 3 4))");
    rebuild_and_check(eg);
    assert_int_equal(hyp_egraph_find(eg, c), hyp_egraph_find(eg, term(eg, "21")));
    assert_true(equal(eg, "(* (+ 1 2) 7)", "21"));
    assert_int_equal(((fact *)hyp_egraph_data(eg, c))->value, 21);
    hyp_egraph_destroy(eg);
}

/* A union deep below makes facts anew all the way up. */
static void facts_travel_to_users(void **state)
{
    (void)state;
    folding f = {0};
    hyp_egraph *eg = folding_graph(&f);
    hyp_class_id top = term(eg, "(+ (+ (+ (+ x 1) 1) 1) (* y x))");
    rebuild_and_check(eg);
    assert_false(((fact *)hyp_egraph_data(eg, top))->known);
    unite(eg, "x", "5");
    rebuild_and_check(eg);
    assert_true(equal(eg, "(+ (+ (+ x 1) 1) 1)", "8"));
    assert_false(((fact *)hyp_egraph_data(eg, top))->known);
    unite(eg, "y", "x");
    rebuild_and_check(eg);
    assert_int_equal(((fact *)hyp_egraph_data(eg, top))->value, 33);
    hyp_egraph_destroy(eg);
}

/* The loser of a union may be the one that knew: its users are older and must learn too, either way. */
static void both_sides_of_a_union_learn(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        folding f = {0};
        hyp_egraph *eg = folding_graph(&f);
        if (order) term(eg, "4");
        hyp_class_id a = term(eg, "(+ x 1)"), b = term(eg, "(+ 4 2)");
        (void)b;
        unite(eg, "x", "4");
        rebuild_and_check(eg);
        assert_int_equal(((fact *)hyp_egraph_data(eg, a))->value, 5);
        hyp_egraph_destroy(eg);
    }
}

static void facts_take_part_in_saturation(void **state)
{
    (void)state;
    folding f = {0};
    hyp_egraph *eg = folding_graph(&f);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES "(rule zero (* ?a 0) => 0) (rule unit (+ ?a 0) => ?a)");
    hyp_class_id c = term(eg, "(+ 1 (+ x (+ 2 (+ 3 (* x (+ 1 -1))))))");
    run_checked(eg, rules, 6);
    assert_int_equal(hyp_egraph_find(eg, c), hyp_egraph_find(eg, term(eg, "(+ x 6)")));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void contradictions_are_errors_and_the_graph_stays_sound(void **state)
{
    (void)state;
    folding f = {0};
    hyp_egraph *eg = folding_graph(&f);
    term(eg, "(f (g 3))");
    term(eg, "(f (g 4))");
    unite(eg, "3", "4");
    hyp_diag diag = {0};
    assert_int_equal(hyp_egraph_rebuild(eg, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "cannot be"));
    assert_true(equal(eg, "(f (g 3))", "(f (g 4))")); /* congruence was closed all the same */
    hyp_egraph_destroy(eg);

    eg = folding_graph(&f);
    hyp_ruleset *wrong = rules_of(eg, "(rule wrong (half ?x) => (+ ?x 1)) (rule also (half ?x) => (+ ?x 2))");
    term(eg, "(half 4)");
    hyp_egraph_run_report report;
    assert_int_equal(hyp_egraph_run(eg, wrong, NULL, &report, &diag), HYP_ERR_MALFORMED);
    assert_int_equal(report.stop, HYP_STOP_ERROR);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(wrong);
    hyp_egraph_destroy(eg);
}

static void a_failing_make_adds_nothing(void **state)
{
    (void)state;
    folding f = {0};
    hyp_egraph *eg = folding_graph(&f);
    hyp_diag said = {0};
    hyp_class_id c;
    term(eg, "(g x)");
    size_t nodes = hyp_egraph_node_count(eg);
    assert_int_equal(hyp_egraph_add_text(eg, "(fail x)", &c, &said), HYP_ERR_UNSUPPORTED);
    assert_int_equal(hyp_egraph_node_count(eg), nodes);
    rebuild_and_check(eg);
    hyp_ruleset *rules = rules_of(eg, "(rule bad (g ?x) => (fail ?x))");
    hyp_egraph_run_report report;
    assert_int_equal(hyp_egraph_run(eg, rules, NULL, &report, &said), HYP_ERR_UNSUPPORTED);
    assert_string_equal(said.message, "rule bad: no fact for 'fail'");
    hyp_egraph_run_report_dispose(&report);
    must(hyp_egraph_check(eg, &diag));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- refusals ---------------------------------------------------------------------------------------- */

static hyp_status agree(hyp_egraph *eg, const void *a, const void *b, void *user, hyp_diag *diag)
{
    (void)eg, (void)user;
    const fact *x = a, *y = b;
    if (!x->known || !y->known || x->value == y->value) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_MALFORMED, "%ld is not %ld", x->value, y->value);
}

/* What an application would make means nothing, or its sides differ: it is refused and counted, is not asked again, and
 * the other rules run as without it, with proofs and without. */
static void what_means_nothing_is_refused(void **state)
{
    (void)state;
    static const char text[] = "(rule bad (g ?x) => (h (k ?x) (odd ?x)))"
                               "(rule right (+ ?x ?x) => (* ?x 2))"
                               "(rule wrong (+ ?x ?x) => (* ?x ?x))"
                               "(rule two (multi (?y = (p ?x)) (?z = (q ?x))) => (union ?y (r ?x)) (union ?z (odd ?x)))"
                               "(rule good (g ?x) => (ok ?x))";
    for (int explain = 0; explain < 2; explain++) {
        hyp_analysis analysis = {
            .data_size = sizeof(fact), .user = &(folding){0}, .make = make, .merge = merge, .agree = agree};
        hyp_egraph *eg = new_graph(explain, &analysis);
        hyp_ruleset *rules = rules_of(eg, text);
        for (const char *const *t = (const char *const[]){"(g x)", "(g y)", "(+ 3 3)", "(p x)", "(q x)", NULL};
             *t; t++)
            term(eg, *t);
        hyp_egraph_run_report report;
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        assert_int_equal(report.stop, HYP_STOP_SATURATED);
        assert_int_equal(report.rules[0].refused, 2);
        assert_string_equal(report.rules[0].refusal, "'odd' means nothing");
        assert_int_equal(report.rules[1].refused, 0);
        assert_int_equal(report.rules[2].refused, 1);
        assert_string_equal(report.rules[2].refusal, "6 is not 9");
        assert_int_equal(report.rules[3].refused, 1);
        assert_int_equal(report.rules[4].refused, 0);
        assert_null(report.rules[4].refusal);
        hyp_egraph_run_report_dispose(&report);
        must(hyp_egraph_check(eg, &diag));
        assert_true(equal(eg, "(g x)", "(ok x)") && equal(eg, "(+ 3 3)", "(* 3 2)") && equal(eg, "(p x)", "(r x)"));
        assert_false(equal(eg, "(+ 3 3)", "(* 3 3)"));
        if (explain) {
            hyp_proof proof;
            must(hyp_egraph_explain(eg, "(p x)", "(r x)", &proof, &diag));
            must(hyp_proof_check(&proof, "(p x)", "(r x)", &rules, 1, NULL, NULL, &diag));
            hyp_proof_dispose(&proof);
        }
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

/* A row that was refused is taken back, and leaves its number in the hash-cons: applications after it that ask for the same
 * row are refused, too, wherever in a bucket it was. */
static void what_was_refused_is_not_met_later(void **state)
{
    (void)state;
    for (int count = 100; count <= 1000; count += 100) {
        hyp_analysis analysis = {.data_size = sizeof(fact), .user = &(folding){0}, .make = make, .merge = merge};
        hyp_egraph *eg = new_graph(false, &analysis);
        hyp_ruleset *rules = rules_of(eg, "(rule bad (k ?x ?y) => (p (odd ?x)))");
        for (int i = 0; i < 2 * count; i++) {
            char text[32];
            snprintf(text, sizeof text, "(k x%d y%d)", i / 2, i % 2);
            term(eg, text);
        }
        hyp_egraph_run_report report;
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        assert_int_equal(report.rules[0].refused, 2 * count);
        assert_int_equal(report.e_nodes, 3 * count + 2);
        hyp_egraph_run_report_dispose(&report);
        must(hyp_egraph_check(eg, &diag));
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

/* What modify adds counts: it is cut by the limit, and caught up on later. */
static void limits_hold_inside_modify(void **state)
{
    (void)state;
    folding f = {0};
    hyp_egraph *eg = folding_graph(&f);
    hyp_ruleset *rules = rules_of(eg, "(rule start (go ?x) => (+ (+ (+ 1 2) 10) (+ 100 200)))");
    term(eg, "(go x)");
    for (size_t limit = 3; limit <= 14; limit++) {
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .max_nodes = limit};
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        assert_true(report.e_nodes <= limit);
        if (report.stop != HYP_STOP_SATURATED) assert_int_equal(report.stop, HYP_STOP_NODES);
        hyp_egraph_run_report_dispose(&report);
        must(hyp_egraph_check(eg, &diag));
    }
    assert_true(equal(eg, "(go x)", "313"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- reading the e-graph from modify ---------------------------------------------------------------- */

/* Unites every class that holds a leaf named xK with the leaf K: modify reads class lists while the
 * e-graph changes under it. */
static hyp_status read_and_unite(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    (void)user;
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(hyp_enode_class(eg, nodes[i]), hyp_egraph_find(eg, c));
        if (i) assert_true(nodes[i - 1] < nodes[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, nodes[i]));
        if (*name != 'x') continue;
        hyp_symbol symbol;
        hyp_class_id leaf;
        HYP_TRY(hyp_egraph_symbol(eg, name + 1, &symbol, diag));
        HYP_TRY(hyp_egraph_add(eg, symbol, NULL, 0, &leaf, NULL, diag));
        return hyp_egraph_union(eg, c, leaf, NULL, NULL, diag);
    }
    return HYP_OK;
}

static void modify_reads_a_changing_graph(void **state)
{
    (void)state;
    hyp_analysis analysis = {.modify = read_and_unite};
    hyp_egraph *eg = new_graph(true, &analysis);
    term(eg, "(f x1 (g x2 x3))");
    term(eg, "(f 1 (g 2 3))");
    rebuild_and_check(eg);
    assert_true(equal(eg, "(f x1 (g x2 x3))", "(f 1 (g 2 3))"));
    hyp_ruleset *rules = rules_of(eg, "(rule more (g ?a ?b) => (h x7 ?a))");
    run_checked(eg, rules, 3);
    assert_true(equal(eg, "(g x2 x3)", "(h 7 2)"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_folded),
        cmocka_unit_test(facts_travel_to_users),
        cmocka_unit_test(both_sides_of_a_union_learn),
        cmocka_unit_test(facts_take_part_in_saturation),
        cmocka_unit_test(contradictions_are_errors_and_the_graph_stays_sound),
        cmocka_unit_test(a_failing_make_adds_nothing),
        cmocka_unit_test(what_means_nothing_is_refused),
        cmocka_unit_test(what_was_refused_is_not_met_later),
        cmocka_unit_test(limits_hold_inside_modify),
        cmocka_unit_test(modify_reads_a_changing_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

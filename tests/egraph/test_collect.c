/* Rules that collect: which parts come together, in which order, and that what they made is proved. */
#include <stdio.h>

#include "support.h"

static const char merge[] = "(rule merge (collect (?x) (?y = (lin ?w ?x)))"
                            " => (let ?m (split (wide (cat (each ?w)) ?x))) (union ?y (part <i> ?m))"
                            " :if (stored ?w))";

static hyp_status is_stored(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(call->eg, call->args[0], &count);
    *out = count > 0 && hyp_egraph_symbol_name(call->eg, hyp_enode_op(call->eg, nodes[0]))[0] == 'w';
    return HYP_OK;
}

static hyp_egraph *collecting_graph(const char *text, hyp_ruleset **out)
{
    hyp_egraph *eg = new_graph(true, NULL);
    must(hyp_egraph_register_condition(eg, "stored", 1, is_stored, NULL, &diag));
    *out = rules_of(eg, text);
    return eg;
}

/* What is equal has a proof that the judge takes, from rules that were read anew. */
static void assert_proved(hyp_egraph *eg, const char *text, const char *a, const char *b)
{
    hyp_proof proof;
    hyp_ruleset *rules;
    hyp_egraph *other = collecting_graph(text, &rules);
    assert_true(equal(eg, a, b));
    must(hyp_egraph_explain(eg, a, b, &proof, &diag));
    must(hyp_proof_check(&proof, a, b, &rules, 1, NULL, NULL, &diag));
    hyp_proof_dispose(&proof);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(other);
}

static void all_parts_of_one_key_are_one_match(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = collecting_graph(merge, &rules);
    static const char *const terms[] = {"(lin w1 x)", "(lin w2 x)", "(lin w3 x)", "(lin w1 y)",
                                        "(lin w4 y)", "(lin v x)",  "(lin w5 z)"};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) term(eg, terms[i]);
    hyp_egraph_run_report report;
    must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    assert_int_equal(report.rules[0].applications, 2);
    hyp_egraph_run_report_dispose(&report);
    assert_proved(eg, merge, "(lin w1 x)", "(part 0 (split (wide (cat w1 w2 w3) x)))");
    assert_proved(eg, merge, "(lin w3 x)", "(part 2 (split (wide (cat w1 w2 w3) x)))");
    assert_proved(eg, merge, "(lin w4 y)", "(part 1 (split (wide (cat w1 w4) y)))");
    assert_false(equal(eg, "(lin w1 x)", "(part 0 (split (wide (cat w1 w2) x)))")); /* not of each choice */
    hyp_class_id alone = term(eg, "(lin w5 z)");
    size_t count;
    hyp_egraph_class_nodes(eg, alone, &count);
    assert_int_equal(count, 1);
    hyp_egraph_destroy(eg);
}

/* What comes later, also by a union, is collected with the rest; what was made before stays. */
static void parts_that_come_later_are_collected(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = collecting_graph(merge, &rules);
    term(eg, "(lin w1 x)");
    term(eg, "(lin w2 x)");
    run_checked(eg, rules, 3);
    must(hyp_egraph_push(eg, &diag));
    term(eg, "(lin w3 y)");
    unite(eg, "x", "y");
    run_checked(eg, rules, 3);
    assert_true(equal(eg, "(lin w3 x)", "(part 2 (split (wide (cat w1 w2 w3) x)))"));
    assert_true(equal(eg, "(lin w1 x)", "(part 0 (split (wide (cat w1 w2) x)))"));
    must(hyp_egraph_pop(eg, &diag));
    run_checked(eg, rules, 3);
    assert_false(equal(eg, "(lin w3 x)", "(part 2 (split (wide (cat w1 w2 w3) x)))"));
    assert_true(equal(eg, "(lin w1 x)", "(part 0 (split (wide (cat w1 w2) x)))"));
    hyp_egraph_destroy(eg);
}

/* Two parts of one root would be two names for one value. */
static void equal_parts_are_one(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = collecting_graph(merge, &rules);
    term(eg, "(lin w1 x)");
    term(eg, "(lin w2 x)");
    unite(eg, "(lin w1 x)", "(lin w2 x)");
    run_checked(eg, rules, 3);
    size_t count;
    hyp_egraph_class_nodes(eg, term(eg, "(lin w1 x)"), &count);
    assert_int_equal(count, 2); /* as they were */
    hyp_egraph_destroy(eg);
}

static void add_parts(hyp_egraph *eg, int count, const char *input)
{
    char text[64];
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "(lin w%s%04d %s)", input, i, input);
        term(eg, text);
    }
}

/* How many parts of `count` are equal to what was made of them. */
static int count_merged(hyp_egraph *eg, int count, const char *input)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        char text[64];
        size_t nodes;
        snprintf(text, sizeof text, "(lin w%s%04d %s)", input, i, input);
        hyp_class_id c = term(eg, text);
        hyp_egraph_class_nodes(eg, c, &nodes);
        found += nodes == 2;
    }
    return found;
}

static hyp_rule_report run_once(hyp_egraph *eg, hyp_ruleset *rules)
{
    hyp_egraph_run_report report;
    must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    hyp_rule_report rule = report.rules[0];
    hyp_egraph_run_report_dispose(&report);
    return rule;
}

/* More parts than one application takes are several of them, as even as can be, and the report says how many were
 * beyond. */
static void there_may_be_many_parts(void **state)
{
    (void)state;
    enum { PARTS = 2100, FEW = 1024, WIDEST = 1024 };
    hyp_ruleset *rules;
    hyp_egraph *eg = collecting_graph(merge, &rules);
    add_parts(eg, PARTS, "x");
    add_parts(eg, FEW, "y");
    term(eg, "(lin v x)");
    hyp_rule_report done = run_once(eg, rules);
    assert_int_equal(done.applications, 4);
    assert_int_equal(done.matches, 2 * (PARTS + FEW + 1)); /* once to apply it, once to see that nothing is new */
    assert_int_equal(done.declined, 1);
    assert_int_equal(done.beyond, PARTS - WIDEST);
    assert_int_equal(count_merged(eg, PARTS, "x"), PARTS);
    assert_int_equal(count_merged(eg, FEW, "y"), FEW);
    static const char *const first[] = {"(lin wx0000 x)", "(lin wx0700 x)", "(lin wx1400 x)"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) { /* each is the first part of its application */
        size_t count, kids;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, term(eg, first[i]), &count);
        assert_int_equal(count, 2);
        assert_int_equal(hyp_egraph_find(eg, hyp_enode_children(eg, nodes[1], &kids)[0]), term(eg, "0"));
    }
    done = run_once(eg, rules); /* nothing is new: what is left out still is */
    assert_int_equal(done.matches, 0);
    assert_int_equal(done.declined, 1);
    assert_int_equal(done.beyond, PARTS - WIDEST);
    hyp_egraph_destroy(eg);
}

/* What a wide application made is proved, and the judge takes it, as of a few parts. */
static void wide_applications_are_proved(void **state)
{
    (void)state;
    enum { PARTS = 500 };
    hyp_ruleset *rules;
    hyp_egraph *eg = collecting_graph(merge, &rules);
    add_parts(eg, PARTS, "x");
    hyp_rule_report done = run_once(eg, rules);
    assert_int_equal(done.applications, 1);
    assert_int_equal(done.beyond, 0);
    static char text[PARTS * 8 + 64];
    int len = snprintf(text, sizeof text, "(part 3 (split (wide (cat");
    for (int i = 0; i < PARTS; i++) len += snprintf(text + len, sizeof text - (size_t)len, " wx%04d", i);
    snprintf(text + len, sizeof text - (size_t)len, ") x)))");
    assert_proved(eg, merge, "(lin wx0003 x)", text);
    hyp_egraph_destroy(eg);
}

/* A key may be a term: parts are told apart by its class. */
static hyp_status kind(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(call->eg, call->args[0], &count);
    const char *name = hyp_egraph_symbol_name(call->eg, hyp_enode_op(call->eg, nodes[0]));
    char text[2] = {name[1], 0};
    return hyp_egraph_add_text(call->eg, text, out, diag);
}

static void a_key_may_be_computed(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    must(hyp_egraph_register_function(eg, "kind", 1, kind, NULL, &diag));
    hyp_ruleset *rules =
        rules_of(eg, "(rule merge (collect (?x (kind ?w)) (?y = (lin ?w ?x))) => (union ?y (part <i> (cat (each ?w)))))");
    static const char *const terms[] = {"(lin wa1 x)", "(lin wb1 x)", "(lin wa2 x)", "(lin wb2 x)", "(lin wc x)"};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) term(eg, terms[i]);
    run_checked(eg, rules, 3);
    assert_true(equal(eg, "(lin wa2 x)", "(part 1 (cat wa1 wa2))"));
    assert_true(equal(eg, "(lin wb1 x)", "(part 0 (cat wb1 wb2))"));
    hyp_egraph_destroy(eg);
}

/* ---- why not --------------------------------------------------------------------------------------- */

static hyp_status note_kind(const hyp_near_miss *near, void *user, hyp_diag *diag)
{
    (void)diag;
    int *counts = user;
    counts[near->kind]++;
    return HYP_OK;
}

static void near_misses_are_told_of_each_part(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = collecting_graph(merge, &rules);
    static const char *const terms[] = {"(lin w1 x)", "(lin w2 x)", "(lin w3 y)", "(lin v x)"};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) term(eg, terms[i]);
    must(hyp_egraph_rebuild(eg, &diag));
    int before[HYP_NEAR_REFUSED + 1] = {0}, after[HYP_NEAR_REFUSED + 1] = {0};
    must(hyp_ruleset_near_misses(rules, 0, NULL, 0, 10, note_kind, before, &diag));
    assert_int_equal(before[HYP_NEAR_PENDING], 2);
    assert_int_equal(before[HYP_NEAR_ALONE], 1);
    assert_int_equal(before[HYP_NEAR_CONDITION], 1);
    run_checked(eg, rules, 3);
    must(hyp_ruleset_near_misses(rules, 0, NULL, 0, 10, note_kind, after, &diag));
    assert_int_equal(after[HYP_NEAR_APPLIES], 2);
    assert_int_equal(after[HYP_NEAR_ALONE], 1);
    hyp_egraph_destroy(eg);
}

/* A let may be another name of a variable, or of another let. */
static void names_of_names_are_what_they_stand_for(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        hyp_egraph *eg = new_graph(explain, NULL);
        hyp_ruleset *rules = rules_of(eg, "(rule names (multi (?a = (f ?x)) (?b = (k ?y)))"
                                          " => (let ?m ?x) (let ?n ?m) (let ?o (g ?n ?b)) (let ?p ?o)"
                                          " (union ?a (h ?n ?m ?x ?p)) (union ?p ?n))");
        term(eg, "(f c)");
        term(eg, "(k d)");
        assert_int_equal(run_checked(eg, rules, 5), HYP_STOP_SATURATED);
        assert_true(equal(eg, "(f c)", "(h c c c (g c (k d)))"));
        assert_true(equal(eg, "c", "(g c (k d))"));
        if (explain) {
            hyp_proof proof;
            must(hyp_egraph_explain(eg, "(f c)", "(h c c c (g c (k d)))", &proof, &diag));
            must(hyp_proof_check(&proof, "(f c)", "(h c c c (g c (k d)))", &rules, 1, NULL, NULL, &diag));
            hyp_proof_dispose(&proof);
        }
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_of_one_key_are_one_match),
        cmocka_unit_test(parts_that_come_later_are_collected),
        cmocka_unit_test(equal_parts_are_one),
        cmocka_unit_test(there_may_be_many_parts),
        cmocka_unit_test(wide_applications_are_proved),
        cmocka_unit_test(a_key_may_be_computed),
        cmocka_unit_test(near_misses_are_told_of_each_part),
        cmocka_unit_test(names_of_names_are_what_they_stand_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

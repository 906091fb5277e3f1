/* Why rules do not apply: the match that gets furthest, and what the rest of the rule says. */
#include "base/diag.h"
#include "support.h"

/* What was told last, and how often. */
typedef struct told {
    hyp_egraph *eg;
    size_t count;
    hyp_near_kind kind;
    size_t matched;
    char premise[128], x[64];
    hyp_class_id root, at, other, right, x_class;
} told;

static hyp_status note(const hyp_near_miss *near, void *user, hyp_diag *diag)
{
    told *t = user;
    (void)diag;
    t->count++;
    t->kind = near->kind;
    t->matched = near->matched;
    t->root = near->root;
    t->at = near->at;
    t->other = near->other;
    t->right = near->right;
    t->x_class = HYP_NONE;
    snprintf(t->premise, sizeof t->premise, "%s", near->premise);
    for (size_t i = 0; i < near->variable_count; i++)
        if (strcmp(near->variables[i].name, "?x") == 0) t->x_class = near->variables[i].class_id;
    return HYP_OK;
}

static told ask(hyp_ruleset *rules, hyp_egraph *eg, const char *focus)
{
    told t = {.eg = eg};
    hyp_class_id c = focus ? term(eg, focus) : HYP_NONE;
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_ruleset_near_misses(rules, 0, &c, focus != NULL, 16, note, &t, &diag));
    must(hyp_egraph_check(eg, &diag));
    return t;
}

static hyp_status is_leaf(const hyp_call *call, bool *out, hyp_diag *diag)
{
    size_t n;
    (void)diag;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(call->eg, call->args[0], &n);
    hyp_enode_children(call->eg, nodes[0], &n);
    *out = n == 0;
    return HYP_OK;
}

static hyp_status declines(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    (void)call;
    (void)diag;
    *out = HYP_NONE;
    return HYP_OK;
}

static void the_failing_part_of_a_pattern_is_named(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id sum = term(eg, "(+ a (* b (- c)))"), minus = term(eg, "(- c)");
    hyp_ruleset *rules = rules_of(eg, "(rule r (+ ?x (* ?y (/ ?z 2))) => ?x)");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.count, 1);
    assert_int_equal(t.kind, HYP_NEAR_OPERATOR);
    assert_int_equal(t.matched, 2);
    assert_int_equal(t.root, sum);
    assert_int_equal(t.at, minus);
    assert_int_equal(t.x_class, term(eg, "a"));
    assert_string_equal(t.premise, "(/ ?z 2)");
    hyp_ruleset_destroy(rules);

    rules = rules_of(eg, "(rule r (* ?x (+ ?y ?y)) => ?x)"); /* the e-graph has no (* _ (+ _ _)) */
    t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_OPERATOR);
    assert_string_equal(t.premise, "(+ ?y ?y)");
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void a_literal_is_named_with_what_it_is_in(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "(scale 3 a)");
    hyp_ruleset *rules = rules_of(eg, "(rule r (scale 2 ?x) => (+ ?x ?x))");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_OPERATOR);
    assert_string_equal(t.premise, "(scale 2 ?x)");
    assert_int_equal(t.at, term(eg, "3"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void a_variable_that_stands_for_two_things_is_named(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "(- (f a) b)");
    hyp_ruleset *rules = rules_of(eg, "(rule r (- (f ?x) ?x) => 0)");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_VARIABLE);
    assert_string_equal(t.premise, "?x");
    bool seen = (t.at == term(eg, "a") && t.other == term(eg, "b")) || (t.at == term(eg, "b") && t.other == term(eg, "a"));
    assert_true(seen);
    unite(eg, "a", "b");
    t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_PENDING); /* nothing was run */
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void a_focus_leaves_other_places_out(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "(relu (lin a))");
    term(eg, "(tanh (lin b))");
    hyp_ruleset *rules = rules_of(eg, "(rule r (relu (lin ?x)) => (fused ?x))");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_PENDING);
    t = ask(rules, eg, "(lin b)");
    assert_int_equal(t.count, 1);
    assert_int_equal(t.kind, HYP_NEAR_USER);
    assert_string_equal(t.premise, "(relu (lin ?x))");
    assert_int_equal(t.at, term(eg, "(lin b)"));
    t = ask(rules, eg, "(lin a)");
    assert_int_equal(t.kind, HYP_NEAR_PENDING);
    t = ask(rules, eg, "(tanh (lin b))");
    assert_int_equal(t.kind, HYP_NEAR_OPERATOR);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void the_smallest_false_part_of_a_condition_is_named(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "(+ a (f b))");
    must(hyp_egraph_register_condition(eg, "leaf", 1, is_leaf, NULL, &diag));
    must(hyp_egraph_register_function(eg, "never", 1, declines, NULL, &diag));
    static const struct {
        const char *rule, *premise;
        hyp_near_kind kind;
    } cases[] = {
        {"(rule r (+ ?x ?y) => ?x :if (and (leaf ?x) (leaf ?y)))", "(leaf ?y)", HYP_NEAR_CONDITION},
        {"(rule r (+ ?x ?y) => ?x :if (and (leaf ?x) (not (leaf ?x))))", "(not (leaf ?x))", HYP_NEAR_CONDITION},
        {"(rule r (+ ?x ?y) => ?x :if (or (leaf ?y) (leaf (g ?x))))", "(or (leaf ?y) (leaf (g ?x)))",
         HYP_NEAR_CONDITION},
        {"(rule r (+ ?x ?y) => (h (never ?y)))", "(never ?y)", HYP_NEAR_FUNCTION},
        {"(rule r (+ ?x ?y) => (h ?y) :if (leaf ?x))", "", HYP_NEAR_PENDING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_ruleset *rules = rules_of(eg, cases[i].rule);
        told t = ask(rules, eg, NULL);
        assert_int_equal(t.count, 1);
        assert_int_equal(t.kind, cases[i].kind);
        assert_string_equal(t.premise, cases[i].premise);
        hyp_ruleset_destroy(rules);
    }
    hyp_egraph_destroy(eg);
}

static void a_rule_that_was_applied_says_so(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_class_id root = term(eg, "(+ a b)");
    hyp_ruleset *rules = rules_of(eg, "(rule swap (+ ?x ?y) => (+ ?y ?x))");
    hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 3};
    hyp_egraph_run_report report;
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    hyp_egraph_run_report_dispose(&report);
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.kind, HYP_NEAR_APPLIES);
    assert_int_equal(hyp_egraph_find(eg, t.right), hyp_egraph_find(eg, root));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void roots_of_a_multi_pattern_are_searched_together(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "(lin a)");
    term(eg, "(con b)");
    hyp_ruleset *rules =
        rules_of(eg, "(rule merge (multi (?p = (lin ?x)) (?q = (con ?x))) => (union ?p (get 0 (both ?x))))");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_VARIABLE);
    assert_string_equal(t.premise, "?x");
    term(eg, "(con a)");
    t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_PENDING);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void a_second_root_that_is_nowhere_is_told_within_the_focus(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id a = term(eg, "a");
    term(eg, "(lin a)");
    hyp_class_id other = term(eg, "(f (f b))");
    hyp_ruleset *rules =
        rules_of(eg, "(rule merge (multi (?p = (lin ?x)) (?q = (con ?y))) => (union ?p (get 0 (both ?y))))");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_OPERATOR);
    assert_string_equal(t.premise, "(con ?y)");
    assert_int_equal(t.matched, 1);
    assert_int_equal(t.at, a); /* the first class */
    t = ask(rules, eg, "(f (f b))");
    assert_int_equal(t.kind, HYP_NEAR_OPERATOR);
    assert_string_equal(t.premise, "(con ?y)");
    assert_int_equal(t.at, other);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* Half a million pairs of roots, of which the last one is the match, and as many classes again that begin no second one. */
static void second_roots_are_tried_where_they_can_begin(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    char text[64];
    for (int i = 0; i < 700; i++) {
        snprintf(text, sizeof text, "(lin x%d)", i);
        term(eg, text);
        snprintf(text, sizeof text, "(con y%d)", i);
        term(eg, text);
        snprintf(text, sizeof text, "(f (f z%d))", i);
        term(eg, text);
    }
    hyp_ruleset *rules =
        rules_of(eg, "(rule merge (multi (?p = (lin ?x)) (?q = (con ?x))) => (union ?p (get 0 (both ?x))))");
    assert_int_equal(ask(rules, eg, NULL).kind, HYP_NEAR_VARIABLE);
    term(eg, "(con x699)");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_PENDING);
    assert_int_equal(t.x_class, term(eg, "x699"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void sequences_match_any_number_of_children(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "(cat a b c)");
    hyp_ruleset *rules = rules_of(eg, "(rule r (cat ?first ?more... d) => ?first)");
    told t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_OPERATOR);
    assert_int_equal(t.at, term(eg, "c"));
    unite(eg, "c", "d");
    t = ask(rules, eg, NULL);
    assert_int_equal(t.kind, HYP_NEAR_PENDING);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void a_rule_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    hyp_diag said = {0};
    hyp_egraph *eg = new_graph(false, NULL);
    told t = {.eg = eg};
    hyp_ruleset *rules = rules_of(eg, "(rule r (f ?x) => ?x)");
    assert_int_equal(hyp_ruleset_near_misses(rules, 1, NULL, 0, 1, note, &t, &said), HYP_ERR_INVALID_ARGUMENT);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_failing_part_of_a_pattern_is_named),
        cmocka_unit_test(a_literal_is_named_with_what_it_is_in),
        cmocka_unit_test(a_variable_that_stands_for_two_things_is_named),
        cmocka_unit_test(a_focus_leaves_other_places_out),
        cmocka_unit_test(the_smallest_false_part_of_a_condition_is_named),
        cmocka_unit_test(a_rule_that_was_applied_says_so),
        cmocka_unit_test(roots_of_a_multi_pattern_are_searched_together),
        cmocka_unit_test(a_second_root_that_is_nowhere_is_told_within_the_focus),
        cmocka_unit_test(second_roots_are_tried_where_they_can_begin),
        cmocka_unit_test(sequences_match_any_number_of_children),
        cmocka_unit_test(a_rule_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Declared operators: what was not declared is refused, with the name that is near. */
#include "base/diag.h"
#include "support.h"

#define MATH                                                                                                           \
    "(operators Math (+ Math Math) (- Math Math) (- Math) (sin Math) (sum Math...) (if Bool Math Math) (x) y)\n"       \
    "(operators Bool (< Math Math) (not Bool) (all Bool Bool...))\n"                                                   \
    "(literals Math int float) (literals Bool name)\n"

static hyp_egraph *declared(const char *text)
{
    hyp_egraph *eg = new_graph(false, NULL);
    must(hyp_egraph_declare(eg, "math", text, strlen(text), &diag));
    return eg;
}

static void refuses(hyp_egraph *eg, const char *text, const char *wanted)
{
    hyp_class_id c;
    hyp_diag said = {0};
    size_t before = hyp_egraph_node_count(eg);
    assert_int_equal(hyp_egraph_add_text(eg, text, &c, &said), HYP_ERR_MALFORMED);
    if (!strstr(said.message, wanted)) fail_msg("%s: %s", text, said.message);
    assert_true(hyp_egraph_node_count(eg) <= before + 3); /* its parts that are right may be there */
}

static void terms_are_held_to_it(void **state)
{
    (void)state;
    hyp_egraph *eg = declared(MATH);
    static const char *const right[] = {"(+ 1 2.5)",   "(- 3)",
                                        "(- (- x) y)", "(sum)",
                                        "(sum 1)",     "(sum 1 x 2 y -1e3)",
                                        "(all true)",  "(if (< x 1) 2 (sin 3))",
                                        "(not maybe)", "(all a b c)"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) term(eg, right[i]);
    assert_string_equal(hyp_egraph_sort(eg, term(eg, "(sin 3)")), "Math");
    assert_string_equal(hyp_egraph_sort(eg, term(eg, "(< 1 2)")), "Bool");
    assert_string_equal(hyp_egraph_sort(eg, term(eg, "maybe")), "Bool");
    assert_string_equal(hyp_egraph_sort(eg, term(eg, "-17")), "Math");
    assert_null(hyp_egraph_sort(eg, 1000000));
    refuses(eg, "(+ 1)", "'+' takes (Math Math), not (Math)");
    refuses(eg, "(+ 1 2 3)", "not (Math Math Math)");
    refuses(eg, "(+ 1 true)", "not (Math Bool)");
    refuses(eg, "(- 1 2 3)", "(Math) or (Math Math)");
    refuses(eg, "(all)", "(Bool Bool...)");
    refuses(eg, "(sum 1 maybe)", "(Math...)");
    refuses(eg, "(sni 1)", "did you mean 'sin'");
    refuses(eg, "(if 1 2 3)", "(Bool Math Math)");
    refuses(eg, "(quux 1 2 3)", "'quux' is not declared");
    refuses(eg, "(x 1)", "'x' takes ()");
    hyp_diag said = {0};
    hyp_class_id number = term(eg, "1"), truth = term(eg, "true");
    assert_int_equal(hyp_egraph_union(eg, number, truth, NULL, NULL, &said), HYP_ERR_MALFORMED);
    assert_non_null(strstr(said.message, "a Math and a Bool"));
    rebuild_and_check(eg);
    hyp_egraph_destroy(eg);

    eg = declared("(operators E (f E) (a))");
    refuses(eg, "(f b)", "'b' is not declared");
    refuses(eg, "(f 1)", "'1' is not declared");
    assert_string_equal(hyp_egraph_sort(eg, term(eg, "(f (f a))")), "E");
    hyp_egraph_destroy(eg);
}

static void wrong_rules(hyp_egraph *eg, const char *text, const char *wanted)
{
    hyp_ruleset *rules;
    hyp_diag said = {0};
    if (hyp_ruleset_parse(eg, "math", text, strlen(text), &rules, &said) != HYP_ERR_MALFORMED)
        fail_msg("read: %s", text);
    if (!strstr(said.message, wanted)) fail_msg("%s: %s", text, said.message);
}

static hyp_status yes(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)call, (void)diag;
    *out = true;
    return HYP_OK;
}

/* Gives the number 1, whatever sort was wanted. */
static hyp_status give_one(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    return hyp_egraph_add_text(call->eg, "1", out, diag);
}

static void rules_are_held_to_it(void **state)
{
    (void)state;
    hyp_egraph *eg = declared(MATH MATH); /* said twice, it is the same */
    must(hyp_egraph_register_condition(eg, "ask", -1, yes, NULL, &diag));
    must(hyp_egraph_register_function(eg, "one", -1, give_one, NULL, &diag));
    static const char *const right[] = {
        "(rule comm (+ ?a ?b) => (+ ?b ?a))",
        "(rule branch (if ?c ?x ?x) => ?x)",
        "(rule turn (if (not ?c) ?x ?y) => (if ?c ?y ?x))",
        "(rule more (sum ?x ?xs...) => (+ ?x (sum ?xs...)))",
        "(rule asked (- ?x) => (one ?x) :if (ask (+ ?x 1)))",
        "(rule parts (multi (?a = (sin ?x)) (?b = (- ?x))) => (let ?s (+ ?a ?b)) (union ?a (- ?s ?b)))",
        "(rule collected (collect (?x) (?y = (+ ?w ?x))) => (let ?m (sum (each ?w))) (union ?y (+ <i> ?m)))",
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) hyp_ruleset_destroy(rules_of(eg, right[i]));
    wrong_rules(eg, "(rule r (pluss ?a ?b) => ?a)", "not declared");
    wrong_rules(eg, "(rule r (sinn ?a) => ?a)", "did you mean 'sin'?");
    wrong_rules(eg, "(rule r (+ ?a ?b ?c) => ?a)", "'+' takes (Math Math)");
    wrong_rules(eg, "(rule r (if ?c ?x ?y) => (if ?x ?c ?y))", "'if' takes (Bool Math Math), not (Math Bool Math)");
    wrong_rules(eg, "(rule r (if ?c ?x ?y) => ?c)", "a Math and its right side a Bool");
    wrong_rules(eg, "(rule r (< ?x ?y) => (- ?x ?y))", "Bool and its right side a Math");
    wrong_rules(eg, "(rule r (if ?x ?x ?y) => ?y)", "stands where");
    wrong_rules(eg, "(rule r (- ?x) => ?x :if (ask (+ ?x)))", "'+' takes");
    wrong_rules(eg, "(rule r (+ ?x true) => ?x)", "not (? Bool)");
    wrong_rules(eg, "(rule r (multi (?a = (sin ?x)) (?b = (< ?x ?y))) => (union ?a ?b))",
                "Math and its right side a Bool");
    hyp_ruleset_destroy(
        rules_of(eg, "(operators E (g E) (e)) (rule more (g e) => e)")); /* more may be declared at any time */
    hyp_pattern *pattern;
    must(hyp_pattern_parse(eg, "(< ?x (sin ?y))", &pattern, &diag)); /* of any sort */
    hyp_pattern_destroy(pattern);
    assert_int_equal(hyp_pattern_parse(eg, "(sin ?x ?y)", &pattern, NULL), HYP_ERR_MALFORMED);
    hyp_egraph_destroy(eg);
}

/* What functions give is looked at when it is united. */
static void functions_are_held_to_it(void **state)
{
    (void)state;
    hyp_egraph *eg = declared(MATH);
    hyp_egraph_run_report report;
    must(hyp_egraph_register_function(eg, "one", -1, give_one, NULL, &diag));
    hyp_ruleset *rules = rules_of(eg, "(rule ok (- ?x) => (one ?x)) (rule wrong (not ?x) => (one ?x))");
    term(eg, "(- 3)");
    term(eg, "(not maybe)");
    must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
    assert_int_equal(report.rules[0].refused, 0);
    assert_int_equal(report.rules[1].refused, 1);
    assert_non_null(strstr(report.rules[1].refusal, "a Bool and a Math"));
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* What stands behind a sequence variable is of no sort that is known when the rule is read. */
static void what_no_rule_can_know_is_looked_at(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        hyp_egraph *eg = new_graph(explain, NULL);
        hyp_egraph_run_report report;
        hyp_ruleset *rules = rules_of(eg, "(operators A (a) (l A B...)) (operators B (b) (g) (h))\n"
                                          "(rule new (multi (?l = (l ?xs... ?y))) => (union ?y (g)))\n"
                                          "(rule there (multi (?l = (l ?xs... ?y))) => (union ?y (h)))");
        term(eg, "(l a)");
        term(eg, "h");
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(report.rules[i].refused, 1);
            assert_non_null(strstr(report.rules[i].refusal, "a A and a B cannot be one class"));
            assert_int_equal(report.rules[i].applications, 0);
        }
        hyp_egraph_run_report_dispose(&report);
        assert_string_equal(hyp_egraph_sort(eg, term(eg, "a")), "A");
        assert_int_not_equal(hyp_egraph_find(eg, term(eg, "a")), hyp_egraph_find(eg, term(eg, "g")));
        term(eg, "(l a b)");
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        assert_int_equal(report.rules[0].applications, 1);
        assert_int_equal(hyp_egraph_find(eg, term(eg, "g")), hyp_egraph_find(eg, term(eg, "b")));
        assert_int_equal(hyp_egraph_find(eg, term(eg, "h")), hyp_egraph_find(eg, term(eg, "b")));
        must(hyp_egraph_check(eg, &diag));
        hyp_egraph_run_report_dispose(&report);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

static void declarations_are_looked_at(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } wrong[] = {{"(operators)", "a declaration is"},
                 {"(operators E)", "a declaration is"},
                 {"(sorts E)", "a declaration is"},
                 {"(operators E (f E) (f E E)) (operators F (f F))", "one sort"},
                 {"(operators E (f E... E))", "last argument"},
                 {"(operators E ((f) E))", "(name sort...)"},
                 {"(operators E ())", "(name sort...)"},
                 {"(operators (E) (f E))", "a word"},
                 {"(literals E number)", "int, float and name"},
                 {"(literals E int) (literals F int)", "another sort already"},
                 {"(literals E... int)", "a word"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_diag said = {0};
        assert_int_equal(hyp_egraph_declare(eg, "math", wrong[i].text, strlen(wrong[i].text), &said),
                         HYP_ERR_MALFORMED);
        if (!strstr(said.message, wrong[i].wanted)) fail_msg("%s: %s", wrong[i].text, said.message);
        hyp_egraph_destroy(eg);
    }
    hyp_egraph *eg = new_graph(false, NULL);
    must(hyp_egraph_declare(eg, NULL, NULL, 0, &diag)); /* nothing */
    term(eg, "(f x)");
    assert_null(hyp_egraph_sort(eg, 0));
    assert_int_equal(hyp_egraph_declare(eg, NULL, "(operators E (f E))", 19, NULL), HYP_ERR_MALFORMED); /* too late */
    term(eg, "(f x y)");
    hyp_egraph_destroy(eg);

    static const char rules[] = "(operators E (f E) (a)) (rule r (f a) => a)"; /* in one text */
    eg = new_graph(false, NULL);
    hyp_ruleset_destroy(rules_of(eg, rules));
    hyp_ruleset_destroy(rules_of(eg, rules)); /* the same again says nothing new */
    refuses(eg, "b", "not declared");
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_are_held_to_it),
        cmocka_unit_test(rules_are_held_to_it),
        cmocka_unit_test(functions_are_held_to_it),
        cmocka_unit_test(declarations_are_looked_at),
        cmocka_unit_test(what_no_rule_can_know_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

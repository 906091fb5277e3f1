/* Schedules of several rulesets, and backoff by rule. */
#include "egraph/rules/language.h"
#include "support.h"

#define RUN(r, n)                                                                                                      \
    {                                                                                                                  \
        .kind = HYP_SCHEDULE_RUN, .rules = (r), .times = (n)                                                           \
    }

static hyp_egraph_run_report run(hyp_egraph *eg, hyp_schedule schedule, hyp_egraph_run_options options)
{
    hyp_egraph_run_report report;
    options.size = sizeof options;
    must(hyp_egraph_run_schedule(eg, &schedule, &options, &report, &diag));
    must(hyp_egraph_check(eg, &diag));
    return report;
}

/* Two rulesets that need each other, over and over, to take a tower down. */
static void saturating_alternates_until_nothing_changes(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *even = rules_of(eg, "(rule es (even (s ?x)) => (odd ?x))"),
                *odd = rules_of(eg, "(rule os (odd (s ?x)) => (even ?x))");
    term(eg, "(even (s (s (s (s (s z))))))");
    hyp_schedule parts[] = {RUN(even, 1), RUN(odd, 1)};
    hyp_egraph_run_report report =
        run(eg, (hyp_schedule){.kind = HYP_SCHEDULE_SATURATE, .parts = parts, .part_count = 2},
            (hyp_egraph_run_options){0});
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    assert_true(equal(eg, "(even (s (s (s (s (s z))))))", "(odd z)"));
    assert_int_equal(report.rule_count, 2);
    assert_int_equal(report.rules[0].applications, 3);
    assert_int_equal(report.rules[1].applications, 2);
    assert_true(report.iteration_count >= 6);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(even);
    hyp_ruleset_destroy(odd);
    hyp_egraph_destroy(eg);
}

static void a_sequence_runs_its_parts_in_order(void **state)
{
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *first = rules_of(eg, "(rule ab (f a) => (f b))"), *then = rules_of(eg, "(rule bc (f b) => (f c))");
        term(eg, "(f a)");
        hyp_schedule parts[] = {RUN(swapped ? then : first, 1), RUN(swapped ? first : then, 1)};
        hyp_egraph_run_report report =
            run(eg, (hyp_schedule){.kind = HYP_SCHEDULE_SEQUENCE, .parts = parts, .part_count = 2},
                (hyp_egraph_run_options){0});
        assert_int_equal(report.stop, HYP_STOP_ITERATIONS);
        assert_int_equal(report.iteration_count, 2);
        assert_true(equal(eg, "(f a)", "(f b)"));
        assert_true(equal(eg, "(f a)", "(f c)") == !swapped);
        hyp_egraph_run_report_dispose(&report);
        hyp_ruleset_destroy(first);
        hyp_ruleset_destroy(then);
        hyp_egraph_destroy(eg);
    }
}

/* A schedule of one ruleset is a run of it. */
static void repeating_is_running_on(void **state)
{
    (void)state;
    size_t nodes[2];
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, MATH_RULES);
        add_math_terms(eg);
        hyp_schedule part = RUN(rules, 2);
        if (scheduled) {
            hyp_egraph_run_report report =
                run(eg, (hyp_schedule){.kind = HYP_SCHEDULE_REPEAT, .times = 3, .parts = &part, .part_count = 1},
                    (hyp_egraph_run_options){0});
            assert_int_equal(report.iteration_count, 6);
            assert_int_equal(report.stop, HYP_STOP_ITERATIONS);
            hyp_egraph_run_report_dispose(&report);
        } else {
            run_checked(eg, rules, 6);
        }
        nodes[scheduled] = hyp_egraph_node_count(eg);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
    assert_int_equal(nodes[0], nodes[1]);
}

static void limits_are_of_the_whole(void **state)
{
    (void)state;
    static const struct {
        hyp_egraph_run_options options;
        hyp_stop stop;
    } cases[] = {{{.max_iterations = 5}, HYP_STOP_ITERATIONS},
                 {{.max_nodes = 500}, HYP_STOP_NODES},
                 {{.max_matches = 300}, HYP_STOP_MATCHES},
                 {{.max_seconds = 1e-9}, HYP_STOP_TIME},
                 {{.max_bytes = 200000}, HYP_STOP_MEMORY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, MATH_RULES), *more = rules_of(eg, ASSOC_RULES);
        add_math_terms(eg);
        hyp_schedule parts[] = {RUN(more, 1), RUN(rules, 1)};
        hyp_egraph_run_report report =
            run(eg, (hyp_schedule){.kind = HYP_SCHEDULE_SATURATE, .parts = parts, .part_count = 2}, cases[i].options);
        assert_int_equal(report.stop, cases[i].stop);
        if (cases[i].stop == HYP_STOP_ITERATIONS) assert_int_equal(report.iteration_count, 5);
        if (cases[i].stop == HYP_STOP_NODES) assert_true(report.e_nodes <= 500);
        if (cases[i].stop == HYP_STOP_MATCHES) assert_int_equal(report.matches, 300);
        if (cases[i].stop == HYP_STOP_MEMORY) assert_true(report.peak_bytes <= 200000);
        hyp_egraph_run_report_dispose(&report);
        hyp_ruleset_destroy(rules);
        hyp_ruleset_destroy(more);
        hyp_egraph_destroy(eg);
    }
}

/* What has found everything is saturated, also where that took the last iteration that the limit allows, as in a run. */
static void a_limit_that_just_suffices_is_no_reason(void **state)
{
    (void)state;
    size_t needed = 0;
    for (int scheduled = 0; scheduled < 4; scheduled++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
        term(eg, "(+ 1 (+ 2 (+ 3 (+ 4 5))))");
        hyp_schedule part = RUN(rules, 100);
        hyp_schedule whole = {.kind = scheduled == 2 ? HYP_SCHEDULE_SEQUENCE : HYP_SCHEDULE_SATURATE,
                              .parts = &part,
                              .part_count = 1};
        hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = needed - (scheduled == 3)};
        hyp_egraph_run_report report;
        if (scheduled)
            report = run(eg, whole, options);
        else
            must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        assert_int_equal(report.stop, scheduled == 3 ? HYP_STOP_ITERATIONS : HYP_STOP_SATURATED);
        if (!scheduled) needed = report.iteration_count;
        hyp_egraph_run_report_dispose(&report);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
    assert_true(needed > 2);
}

static hyp_status never(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)call, (void)diag;
    *out_holds = false;
    return HYP_OK;
}

/* What a condition declines is not counted. */
static void declined_matches_do_not_use_up_the_limit(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    must(hyp_egraph_register_condition(eg, "never", 1, never, NULL, &diag));
    hyp_ruleset *rules =
        rules_of(eg, "(rule no (+ ?a ?b) => (- ?a ?b) :if (never ?a)) (rule yes (+ ?a ?b) => (+ ?b ?a))");
    for (int i = 0; i < 5; i++) term(eg, (const char *[]){"(+ a b)", "(+ a c)", "(+ a d)", "(+ a e)", "(+ a f)"}[i]);
    hyp_schedule part = RUN(rules, 1);
    hyp_egraph_run_report report =
        run(eg, (hyp_schedule){.kind = HYP_SCHEDULE_SATURATE, .parts = &part, .part_count = 1},
            (hyp_egraph_run_options){.max_matches = 12});
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    assert_int_equal(report.matches, 10);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void what_is_no_schedule_is_refused(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_egraph_run_report report;
    hyp_diag said = {0};
    hyp_schedule nothing = RUN(NULL, 1), knot = {.kind = HYP_SCHEDULE_REPEAT, .part_count = 1};
    knot.parts = &knot;
    assert_int_equal(hyp_egraph_run_schedule(eg, &nothing, NULL, &report, &said), HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_run_report_dispose(&report);
    assert_int_equal(hyp_egraph_run_schedule(eg, &knot, NULL, &report, &said), HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
}

/* ---- backoff by rule ---------------------------------------------------------------------------- */

static size_t matches_of(size_t limit, size_t rule)
{
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, MATH_RULES);
    add_math_terms(eg);
    hyp_ruleset_backoff(rules, rule, limit, 0);
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = {.size = sizeof options,
                                      .max_iterations = 8,
                                      .scheduler = HYP_SCHEDULER_BACKOFF,
                                      .backoff_match_limit = SIZE_MAX};
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    size_t matches = report.rules[rule].matches;
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
    return matches;
}

static void a_rule_has_its_own_limit(void **state)
{
    (void)state;
    enum { COMM_ADD };
    assert_true(matches_of(0, COMM_ADD) > 200);
    assert_true(matches_of(50, COMM_ADD) <= 50);
    assert_int_equal(matches_of(SIZE_MAX, COMM_ADD), matches_of(0, COMM_ADD));
}

static void rules_of_which_only_names_are_read_do_nothing(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule turned (turn ?x) => ?x)");
    static const char named[] = "(birule gone :class N :doc \"d\" (flip ?x) <=> (unknown ?x) :if (nobody-knows ?x))";
    static const char more[] = "(rule last (end ?x) => ?x)";
    must(hyp_ruleset_extend_names(rules, "n", named, strlen(named), &diag));
    must(hyp_ruleset_extend_with(rules, "m", more, strlen(more), NULL, NULL, &diag));
    assert_int_equal(hyp_ruleset_count(rules), 4);
    const hyp_rule_info info = hyp_ruleset_rule(rules, 1);
    assert_string_equal(info.name, "gone");
    assert_string_equal(info.numeric_class, "N");
    assert_string_equal(info.doc, "d");
    assert_string_equal(info.text, "");
    assert_string_equal(hyp_ruleset_rule(rules, 3).name, "last");
    hyp_ruleset_enable(rules, 1, true);
    term(eg, "(flip (turn (end a)))");
    run_checked(eg, rules, 3);
    assert_true(equal(eg, "(turn (end a))", "a"));
    assert_false(equal(eg, "(flip a)", "(unknown a)"));
    hyp_diag said = {0};
    assert_int_equal(hyp_ruleset_extend_names(rules, "n", named, strlen(named), &said), HYP_ERR_MALFORMED);
    assert_non_null(strstr(said.message, "a rule of this name already"));
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saturating_alternates_until_nothing_changes),
        cmocka_unit_test(a_sequence_runs_its_parts_in_order),
        cmocka_unit_test(repeating_is_running_on),
        cmocka_unit_test(limits_are_of_the_whole),
        cmocka_unit_test(a_limit_that_just_suffices_is_no_reason),
        cmocka_unit_test(declined_matches_do_not_use_up_the_limit),
        cmocka_unit_test(what_is_no_schedule_is_refused),
        cmocka_unit_test(a_rule_has_its_own_limit),
        cmocka_unit_test(rules_of_which_only_names_are_read_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

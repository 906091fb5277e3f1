/* Callbacks that do what they may not, calls that come late, and arguments that are none: each is an error that says
 * so, and the e-graph works on. */
#include "base/diag.h"
#include "hypatia/egglog.h"
#include "support.h"

/* ---- callbacks that may only read ----------------------------------------------------------------- */

/* What a callback tries, and what came of it. */
typedef struct attempt {
    hyp_egraph *eg;
    hyp_ruleset *rules;
    size_t called, refused;
    char said[HYP_DIAG_SIZE];
} attempt;

static void note(attempt *a, hyp_status status, const hyp_diag *diag)
{
    if (status != HYP_ERR_INVALID_ARGUMENT) return;
    if (a->refused++ == 0) snprintf(a->said, sizeof a->said, "%s", diag->message);
}

/* What no callback may do: each call is refused. */
static void restart_all(attempt *a)
{
    hyp_diag diag = {0};
    hyp_egraph_run_report report;
    size_t before = a->refused;
    note(a, hyp_egraph_rebuild(a->eg, &diag), &diag);
    note(a, hyp_egraph_push(a->eg, &diag), &diag);
    note(a, hyp_egraph_pop(a->eg, &diag), &diag);
    if (a->rules) note(a, hyp_egraph_run(a->eg, a->rules, NULL, &report, &diag), &diag);
    hyp_ruleset_destroy(a->rules); /* goes with the e-graph */
    hyp_egraph_destroy(a->eg);     /* is not heard */
    assert_int_equal(a->refused - before, a->rules ? 4 : 3);
}

/* Everything that would change an e-graph: each call is refused. */
static void change_all(attempt *a)
{
    hyp_diag diag = {0};
    hyp_class_id c;
    size_t before = a->refused;
    a->called++;
    note(a, hyp_egraph_add_text(a->eg, "(new 3 3 3)", &c, &diag), &diag);
    note(a, hyp_egraph_union(a->eg, 0, 1, NULL, NULL, &diag), &diag);
    assert_int_equal(a->refused - before, 2);
    restart_all(a);
}

/* It may add terms, and unite them. */
static void on_rewrite(const hyp_rewrite_event *event, void *user)
{
    attempt *a = user;
    size_t count;
    char text[32];
    assert_non_null(hyp_egraph_class_nodes(a->eg, event->left, &count));
    snprintf(text, sizeof text, "(new %zu)", a->called++);
    must(hyp_egraph_union(a->eg, term(a->eg, text), term(a->eg, "new"), NULL, NULL, &diag));
    restart_all(a);
}

static void events_may_not_begin_anything(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const hyp_analysis empty = {.data_size = 4};
        attempt a = {.eg = new_graph(kind & 2, kind & 1 ? &empty : NULL)};
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {
            .size = sizeof options, .max_iterations = 4, .on_rewrite = on_rewrite, .user = &a};
        a.rules = rules_of(a.eg, ASSOC_RULES);
        term(a.eg, "(+ 1 (+ 2 (+ 3 (+ 4 5))))");
        must(hyp_egraph_run(a.eg, a.rules, &options, &report, &diag));
        assert_true(a.called > 10);
        assert_non_null(strstr(a.said, "from inside a callback"));
        assert_int_equal(hyp_egraph_find(a.eg, term(a.eg, "(new 7)")), hyp_egraph_find(a.eg, term(a.eg, "new")));
        hyp_egraph_run_report_dispose(&report);
        rebuild_and_check(a.eg);
        hyp_egraph_destroy(a.eg);
    }
}

static void on_iteration(const hyp_iteration_report *it, size_t count, void *user)
{
    (void)it, (void)count;
    change_all(user);
}

static bool on_stop(void *user)
{
    change_all(user);
    return false;
}

static void iterations_and_stops_may_only_read(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        attempt a = {.eg = new_graph(false, NULL)};
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 3};
        if (which) {
            options.stop = on_stop;
            options.stop_user = &a;
        } else {
            options.on_iteration = on_iteration;
            options.on_iteration_user = &a;
        }
        a.rules = rules_of(a.eg, ASSOC_RULES);
        term(a.eg, "(+ 1 (+ 2 3))");
        must(hyp_egraph_run(a.eg, a.rules, &options, &report, &diag));
        assert_true(a.called >= 3);
        hyp_egraph_run_report_dispose(&report);
        rebuild_and_check(a.eg);
        hyp_egraph_destroy(a.eg);
    }
}

static attempt *analysed; /* whose analysis is under way */

static hyp_status bad_make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)node, (void)data, (void)user, (void)diag;
    if (analysed && analysed->eg == eg) change_all(analysed);
    return HYP_OK;
}

/* Facts that differ, so that they are merged. */
static hyp_status number(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)eg, (void)user, (void)diag;
    memcpy(data, &node, sizeof node);
    return HYP_OK;
}

static hyp_status bad_merge(hyp_egraph *eg, void *into, const void *from, bool *changed, void *user, hyp_diag *diag)
{
    (void)into, (void)from, (void)user, (void)diag;
    if (analysed && analysed->eg == eg) change_all(analysed);
    *changed = false;
    return HYP_OK;
}

static hyp_status bad_agree(hyp_egraph *eg, const void *a, const void *b, void *user, hyp_diag *diag)
{
    (void)eg, (void)a, (void)b, (void)user, (void)diag;
    change_all(analysed);
    return HYP_OK;
}

static void analyses_may_only_read(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        hyp_analysis analysis = {.data_size = 8};
        hyp_egraph_run_report report;
        if (which == 0) analysis.make = bad_make;
        if (which == 1) analysis.make = number, analysis.merge = bad_merge;
        if (which == 2) analysis.agree = bad_agree;
        attempt a = {0};
        analysed = &a;
        a.eg = new_graph(false, &analysis);
        term(a.eg, "(+ 1 (+ 2 3))");
        term(a.eg, "(list (+ 2 3) 3 (+ 2 3) 3)");
        unite(a.eg, "1", "2");
        rebuild_and_check(a.eg);
        hyp_ruleset *rules = rules_of(a.eg, ASSOC_RULES);
        must(hyp_egraph_run(a.eg, rules,
                            &(hyp_egraph_run_options){.size = sizeof(hyp_egraph_run_options), .max_iterations = 4},
                            &report, &diag));
        hyp_egraph_run_report_dispose(&report);
        assert_true(a.called > 0);
        analysed = NULL;
        rebuild_and_check(a.eg);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(a.eg);
    }
}

static double bad_cost(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node;
    change_all(user);
    return 1;
}

static void bad_write(const char *text, size_t len, void *user)
{
    (void)text, (void)len;
    change_all(user);
}

static void costs_and_writers_may_only_read(void **state)
{
    (void)state;
    attempt a = {.eg = new_graph(false, NULL)};
    hyp_class_id root = term(a.eg, "(+ 1 (+ 2 3))");
    hyp_extraction ex;
    must(hyp_egraph_rebuild(a.eg, &diag));
    must(hyp_egraph_extract(a.eg, &root, 1, HYP_EXTRACT_DAG, bad_cost, &a, &ex, &diag));
    assert_int_equal(a.called, 5);
    hyp_extraction_dispose(&ex);
    must(hyp_egraph_write_json(a.eg, &root, 1, bad_cost, &a, bad_write, &a, &diag));
    must(hyp_egraph_write_dot(a.eg, &root, 1, 0, NULL, bad_write, &a, &diag));
    assert_int_equal(a.called, 12);
    rebuild_and_check(a.eg);
    assert_int_equal(hyp_egraph_node_count(a.eg), 5);
    hyp_egraph_destroy(a.eg);
}

static hyp_status bad_near(const hyp_near_miss *near, void *user, hyp_diag *diag)
{
    (void)near, (void)diag;
    change_all(user);
    return HYP_OK;
}

static void near_misses_may_only_read(void **state)
{
    (void)state;
    attempt a = {.eg = new_graph(false, NULL)};
    a.rules = rules_of(a.eg, "(rule r (+ ?a ?b) => (+ ?b ?a))");
    hyp_class_id root = term(a.eg, "(+ 1 2)"), none = 1000;
    must(hyp_egraph_rebuild(a.eg, &diag));
    must(hyp_ruleset_near_misses(a.rules, 0, &root, 1, 4, bad_near, &a, &diag));
    assert_int_equal(a.called, 1);
    assert_int_equal(hyp_ruleset_near_misses(a.rules, 0, &none, 1, 4, bad_near, &a, NULL), HYP_ERR_INVALID_ARGUMENT);
    rebuild_and_check(a.eg);
    hyp_egraph_destroy(a.eg);
}

/* ---- callbacks that may add --------------------------------------------------------------------------- */

/* Adds terms, unites some, and tries to rebuild and run, which is refused. */
static hyp_status busy_function(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    attempt *a = call->user;
    hyp_diag said = {0};
    hyp_class_id c[8];
    hyp_egraph_run_report report;
    a->called++;
    for (size_t i = 0; i < 8; i++) {
        char text[48];
        snprintf(text, sizeof text, "(made %zu %zu)", a->called, i);
        HYP_TRY(hyp_egraph_add_text(call->eg, text, &c[i], diag));
    }
    HYP_TRY(hyp_egraph_union(call->eg, c[0], c[1], NULL, NULL, diag));
    note(a, hyp_egraph_rebuild(call->eg, &said), &said);
    note(a, hyp_egraph_run(call->eg, a->rules, NULL, &report, &said), &said);
    note(a, hyp_egraph_push(call->eg, &said), &said);
    hyp_ruleset_destroy(a->rules);
    assert_int_equal(a->refused, 3 * a->called);
    *out = c[7];
    return HYP_OK;
}

static hyp_status busy_condition(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_class_id c;
    *out = true;
    return busy_function(call, &c, diag);
}

static void functions_may_add_and_unite(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        attempt a = {.eg = new_graph(explain, NULL)};
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 3};
        must(hyp_egraph_register_function(a.eg, "grow", -1, busy_function, &a, &diag));
        must(hyp_egraph_register_condition(a.eg, "grows", -1, busy_condition, &a, &diag));
        a.rules = rules_of(a.eg, "(rule r (+ ?a ?b) => (+ (grow ?b) ?a) :if (grows ?a))" ASSOC_RULES);
        term(a.eg, "(+ 1 (+ 2 (+ 3 (+ 4 5))))");
        must(hyp_egraph_run(a.eg, a.rules, &options, &report, &diag));
        hyp_egraph_run_report_dispose(&report);
        assert_true(a.called > 20);
        rebuild_and_check(a.eg);
        hyp_egraph_destroy(a.eg);
    }
}

/* ---- late calls ------------------------------------------------------------------------------------------ */

static double one(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node, (void)user;
    return 1;
}

/* After unions an extraction may have gaps or circles: then there is no text, and a message says why. */
static void extractions_may_be_old(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id root = term(eg, "(f (g a) b)"), top = term(eg, "(h c)");
    hyp_extraction ex;
    hyp_diag said = {0};
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_TREE, one, NULL, &ex, &diag));
    char *text = hyp_extraction_text(eg, &ex, root);
    assert_string_equal(text, "(f (g a) b)");
    free(text);
    assert_int_equal(hyp_extraction_term(eg, &ex, top, &text, &said), HYP_ERR_INVALID_ARGUMENT); /* not chosen */
    assert_int_equal(hyp_extraction_term(eg, &ex, 12345, &text, &said), HYP_ERR_INVALID_ARGUMENT);

    unite(eg, "(f (g a) b)", "a"); /* a circle: the choice of the class is f, which needs the class */
    must(hyp_egraph_rebuild(eg, &diag));
    hyp_egraph_find(eg, root);
    text = NULL;
    hyp_status status = hyp_extraction_term(eg, &ex, root, &text, &said);
    if (status == HYP_OK) assert_string_equal(text, "a");
    free(text);
    must(hyp_egraph_push(eg, &diag));
    hyp_class_id late = term(eg, "(k late)");
    hyp_extraction_dispose(&ex);
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_extract(eg, &late, 1, HYP_EXTRACT_TREE, one, NULL, &ex, &diag));
    must(hyp_egraph_pop(eg, &diag)); /* its e-nodes are gone */
    assert_null(hyp_extraction_text(eg, &ex, late));
    assert_int_equal(hyp_extraction_term(eg, &ex, late, &text, &said), HYP_ERR_INVALID_ARGUMENT);
    hyp_extraction_dispose(&ex);
    hyp_egraph_destroy(eg);
}

static void circles_have_no_text(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id leaf = term(eg, "x"), root = term(eg, "(f (f x))");
    hyp_extraction ex;
    hyp_diag said = {0};
    char *text = NULL;
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_TREE, one, NULL, &ex, &diag));
    must(hyp_egraph_union(eg, leaf, root, NULL, NULL, &diag));
    must(hyp_egraph_rebuild(eg, &diag));
    hyp_class_id c = hyp_egraph_find(eg, root);
    ex.choice[c] = 1; /* as if the younger id had won */
    assert_int_equal(hyp_extraction_term(eg, &ex, root, &text, &said), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(said.message, "extract again"));
    assert_null(hyp_extraction_text(eg, &ex, root));
    hyp_extraction_dispose(&ex);
    hyp_egraph_destroy(eg);
}

/* ---- arguments that are none --------------------------------------------------------------------------- */

static void ids_may_be_unknown(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule r (f ?x) => ?x)");
    hyp_class_id c = term(eg, "(f x)");
    hyp_symbol f;
    size_t count = 7;
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_symbol(eg, "f", &f, &diag));
    for (uint32_t bad = 2; bad > 1; bad = bad == 2 ? 1000 : bad == 1000 ? HYP_NONE : 0) {
        hyp_shared_proof proof;
        hyp_extraction ex;
        assert_int_equal(hyp_enode_op(eg, bad), HYP_NONE);
        assert_null(hyp_enode_children(eg, bad, &count));
        assert_int_equal(count, 0);
        assert_int_equal(hyp_enode_class(eg, bad), HYP_NONE);
        assert_int_equal(hyp_egraph_find(eg, bad), HYP_NONE);
        assert_null(hyp_egraph_class_nodes(eg, bad, &count));
        assert_null(hyp_egraph_data(eg, bad));
        assert_int_equal(hyp_egraph_lookup(eg, f, &bad, 1), HYP_NONE);
        assert_int_equal(hyp_egraph_lookup(eg, f, NULL, 1), HYP_NONE);
        assert_int_equal(hyp_egraph_add(eg, f, &bad, 1, NULL, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
        assert_int_equal(hyp_egraph_add(eg, bad, NULL, 0, NULL, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
        assert_int_equal(hyp_egraph_union(eg, c, bad, NULL, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
        assert_int_equal(hyp_egraph_extract(eg, &bad, 1, HYP_EXTRACT_TREE, one, NULL, &ex, NULL),
                         HYP_ERR_INVALID_ARGUMENT);
        assert_int_equal(hyp_egraph_explain_nodes(eg, 0, bad, &proof, NULL), HYP_ERR_INVALID_ARGUMENT);
        assert_int_equal(hyp_egraph_origin(eg, bad).rule, HYP_NONE);
        hyp_ruleset_enable(rules, bad, false);
        hyp_ruleset_backoff(rules, bad, 1, 1);
        assert_null(hyp_ruleset_rule(rules, bad).name);
    }
    assert_null(hyp_egraph_symbol_name(eg, HYP_NONE));
    assert_int_equal(hyp_egraph_register_condition(eg, "c", 1, NULL, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_register_function(eg, "f", 1, NULL, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A struct without its size is no struct of ours: nothing of it is taken to be meant. */
static void options_have_a_size(void **state)
{
    (void)state;
    hyp_diag said = {0};
    hyp_egraph *eg = new_graph(true, NULL), *other;
    hyp_ruleset *rules = rules_of(eg, "(rule grow (f ?x) => (f (f ?x)))");
    hyp_class_id c = term(eg, "(f x)");
    hyp_egraph_run_report report;
    hyp_extraction ex;
    hyp_proof proof = {0};
    hyp_schedule schedule = {.kind = HYP_SCHEDULE_RUN, .rules = rules};
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(hyp_egraph_create(&(hyp_egraph_options){.explain = true}, &other, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_run(eg, rules, &(hyp_egraph_run_options){.max_iterations = 1}, &report, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(said.message, "size"));
    assert_int_equal(
        hyp_egraph_run_schedule(eg, &schedule, &(hyp_egraph_run_options){.max_iterations = 1}, &report, &said),
        HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(
        hyp_egraph_extract_with(eg, &c, 1, &(hyp_extract_options){.method = HYP_EXTRACT_DAG}, one, NULL, &ex, &said),
        HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_extract(eg, &c, 1, (hyp_extract_method)77, one, NULL, &ex, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_proof_check(&proof, "x", "x", &rules, 1, &(hyp_proof_check_options){.ask = true}, NULL, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_node_count(eg), 2);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A schedule that holds itself is none, however it is walked. */
static void schedules_may_not_hold_themselves(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_egraph_run_report report;
    hyp_schedule parts[2] = {{.kind = HYP_SCHEDULE_SEQUENCE, .parts = parts, .part_count = 2},
                             {.kind = HYP_SCHEDULE_SEQUENCE, .parts = parts, .part_count = 2}};
    assert_int_equal(hyp_egraph_run_schedule(eg, parts, NULL, &report, NULL), HYP_ERR_INVALID_ARGUMENT);
    hyp_schedule odd = {.kind = (hyp_schedule_kind)9};
    assert_int_equal(hyp_egraph_run_schedule(eg, &odd, NULL, &report, NULL), HYP_ERR_INVALID_ARGUMENT);
    hyp_schedule empty = {.kind = HYP_SCHEDULE_SATURATE, .part_count = 1};
    assert_int_equal(hyp_egraph_run_schedule(eg, &empty, NULL, &report, NULL), HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_destroy(eg);
}

/* The limit says the same of a run and of a schedule that is one run. */
static void schedules_say_what_runs_say(void **state)
{
    (void)state;
    for (size_t most = 1; most < 8; most++) {
        hyp_egraph_run_report run, scheduled;
        hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = most};
        for (int which = 0; which < 2; which++) {
            hyp_egraph *eg = new_graph(false, NULL);
            hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
            hyp_schedule schedule = {.kind = HYP_SCHEDULE_RUN, .rules = rules, .times = 100};
            term(eg, "(+ 1 (+ 2 (+ 3 4)))");
            must(which ? hyp_egraph_run_schedule(eg, &schedule, &options, &scheduled, &diag)
                       : hyp_egraph_run(eg, rules, &options, &run, &diag));
            hyp_ruleset_destroy(rules);
            hyp_egraph_destroy(eg);
        }
        assert_int_equal(run.stop, scheduled.stop);
        assert_int_equal(run.iteration_count, scheduled.iteration_count);
        hyp_egraph_run_report_dispose(&run);
        hyp_egraph_run_report_dispose(&scheduled);
    }
}

/* Seconds that are none do not quietly mean "no limit". */
static void seconds_are_numbers(void **state)
{
    (void)state;
    static const double odd[] = {-1, NAN, -INFINITY};
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    hyp_class_id root = term(eg, "(+ 1 2)");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        hyp_egraph_run_report report;
        hyp_extraction ex;
        hyp_egglog *db;
        hyp_schedule schedule = {.kind = HYP_SCHEDULE_RUN, .rules = rules, .times = 1};
        hyp_egraph_run_options run = {.size = sizeof run, .max_seconds = odd[i]};
        hyp_extract_options extract = {.size = sizeof extract, .method = HYP_EXTRACT_EXACT, .budget_seconds = odd[i]};
        hyp_egglog_options egglog = {.size = sizeof egglog, .max_seconds = odd[i]};
        assert_int_equal(hyp_egraph_run(eg, rules, &run, &report, NULL), HYP_ERR_INVALID_ARGUMENT);
        hyp_egraph_run_report_dispose(&report);
        assert_int_equal(hyp_egraph_run_schedule(eg, &schedule, &run, &report, NULL), HYP_ERR_INVALID_ARGUMENT);
        hyp_egraph_run_report_dispose(&report);
        assert_int_equal(hyp_egraph_extract_with(eg, &root, 1, &extract, one, NULL, &ex, NULL), HYP_ERR_INVALID_ARGUMENT);
        assert_null(ex.choice);
        assert_int_equal(hyp_egglog_create(&egglog, &db, NULL), HYP_ERR_INVALID_ARGUMENT);
        assert_null(db);
    }
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_may_not_begin_anything),
        cmocka_unit_test(iterations_and_stops_may_only_read),
        cmocka_unit_test(analyses_may_only_read),
        cmocka_unit_test(costs_and_writers_may_only_read),
        cmocka_unit_test(near_misses_may_only_read),
        cmocka_unit_test(functions_may_add_and_unite),
        cmocka_unit_test(extractions_may_be_old),
        cmocka_unit_test(circles_have_no_text),
        cmocka_unit_test(ids_may_be_unknown),
        cmocka_unit_test(options_have_a_size),
        cmocka_unit_test(schedules_may_not_hold_themselves),
        cmocka_unit_test(schedules_say_what_runs_say),
        cmocka_unit_test(seconds_are_numbers),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

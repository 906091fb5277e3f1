/* Saturation against known counts, known theorems and a naive search; limits, schedulers, determinism. */
#include "egraph/rules/language.h"
#include <pthread.h>
#include <semaphore.h>

#include "base/mem.h"
#include "naive_match.h"

/* ---- counts ------------------------------------------------------------------------------------- */

/* Sums of n distinct terms: 2^n-1 classes, one per non-empty subset, and per class a node for each ordered
 * split in two, and n leaves: 3^n - 2^(n+1) + 1 + n nodes. */
static void sums_saturate_to_the_closed_form(void **state)
{
    (void)state;
    for (int n = 3; n <= 8; n++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
        char text[256];
        chain_text(text, sizeof text, n);
        term(eg, text);
        assert_int_equal(run_checked(eg, rules, 50), HYP_STOP_SATURATED);
        size_t three = 1, two = (size_t)1 << n;
        for (int i = 0; i < n; i++) three *= 3;
        assert_int_equal(hyp_egraph_class_count(eg), two - 1);
        assert_int_equal(hyp_egraph_node_count(eg), three - 2 * two + 1 + (size_t)n);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

static const size_t math_nodes[] = {35, 69, 118, 208, 389, 784, 1576, 3160, 8113, 28303};
static const size_t math_classes[] = {35, 50, 71, 116, 197, 361, 666, 1347, 3576, 12445};

static void mathematics_grows_as_known(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        hyp_egraph *eg = new_graph(explain, NULL);
        hyp_ruleset *rules = rules_of(eg, MATH_RULES);
        add_math_terms(eg);
        for (size_t i = 0; i < 10; i++) {
            assert_int_equal(hyp_egraph_node_count(eg), math_nodes[i]);
            assert_int_equal(hyp_egraph_class_count(eg), math_classes[i]);
            if (i < 9) assert_int_equal(run_checked(eg, rules, 1), HYP_STOP_ITERATIONS);
        }
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

/* The same counts in one run, so that nothing hangs on runs being cut in pieces. */
static void one_run_reports_every_iteration(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, MATH_RULES);
    add_math_terms(eg);
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 8};
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    assert_int_equal(report.stop, HYP_STOP_ITERATIONS);
    assert_int_equal(report.iteration_count, 8);
    assert_int_equal(report.rule_count, hyp_ruleset_count(rules));
    size_t matches = 0, by_rule = 0;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(report.iterations[i].e_nodes, math_nodes[i + 1]);
        assert_int_equal(report.iterations[i].e_classes, math_classes[i + 1]);
        assert_true(report.iterations[i].applications <= report.iterations[i].matches);
        matches += report.iterations[i].matches;
    }
    for (size_t i = 0; i < report.rule_count; i++) by_rule += report.rules[i].matches;
    assert_int_equal(matches, by_rule);
    assert_true(report.peak_bytes > report.e_nodes * 16);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- theorems ----------------------------------------------------------------------------------- */

static bool proves(const char *rules_text, const char *start, const char *goal, size_t iterations)
{
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, rules_text);
    term(eg, start);
    run_checked(eg, rules, iterations);
    bool found = equal(eg, start, goal);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
    return found;
}

static void theorems_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *start, *goal;
    } theorems[] = {
        {"(+ x 0)", "x"},
        {"(+ (+ a b) (+ c d))", "(+ d (+ c (+ b a)))"},
        {"(* (+ x 3) (+ x 1))", "(+ (+ (* x x) (* x 1)) (+ (* 3 x) (* 3 1)))"},
        {"(+ (* a x) (* a y))", "(* (+ y x) a)"},
        {"(d x (sin x))", "(cos x)"},
        {"(i (* x (cos x)) x)", "(- (* x (sin x)) (i (* (d x x) (sin x)) x))"},
        {"(* (pow x 1) (pow x 1))", "(* x x)"},
        {"(- (+ a b) (+ a b))", "0"},
    };
    for (size_t i = 0; i < sizeof theorems / sizeof *theorems; i++)
        if (!proves(MATH_RULES, theorems[i].start, theorems[i].goal, 5))
            fail_msg("not found: %s = %s", theorems[i].start, theorems[i].goal);
}

static void what_is_not_so_is_not_found(void **state)
{
    (void)state;
    assert_false(proves(MATH_RULES, "(+ x y)", "(* x y)", 5));
    assert_false(proves(MATH_RULES, "(- x y)", "(- y x)", 5));
    assert_false(proves(MATH_RULES, "(d x (sin y))", "(cos y)", 5)); /* the variable occurs twice */
    assert_false(proves("(rule same (eq ?a ?a) => true)", "(eq p q)", "true", 5));
}

/* Lists and booleans: rules whose sides shrink, grow and repeat variables. */
static void a_small_language_is_evaluated(void **state)
{
    (void)state;
    static const char rules[] = "(rule if-true (if true ?a ?b) => ?a) (rule if-false (if false ?a ?b) => ?b)"
                                "(rule if-same (if ?c ?a ?a) => ?a) (rule eq-same (eq ?a ?a) => true)"
                                "(rule map-cons (map ?f (cons ?x ?l)) => (cons (app ?f ?x) (map ?f ?l)))"
                                "(rule map-nil (map ?f nil) => nil)"
                                "(rule map-map (map ?f (map ?g ?l)) => (map (o ?f ?g) ?l))"
                                "(rule app-o (app (o ?f ?g) ?x) => (app ?f (app ?g ?x)))"
                                "(rule app-id (app id ?x) => ?x)";
    assert_true(proves(rules, "(if (eq (map id (cons a nil)) (map id (cons a nil))) yes no)", "yes", 5));
    assert_true(proves(rules, "(map f (map g (cons a (cons b nil))))",
                       "(cons (app f (app g a)) (cons (app f (app g b)) nil))", 5));
    assert_true(proves(rules, "(map (o id id) (cons a nil))", "(cons a nil)", 5));
    assert_false(proves(rules, "(if (eq a b) yes no)", "yes", 5));
}

/* ---- completeness ------------------------------------------------------------------------------- */

/* Random ground terms under rules that join, repeat and use constants: after saturation a naive search
 * must find nothing that was missed. */
static void nothing_is_missed_at_saturation(void **state)
{
    (void)state;
    static const char text[] = "(rule comm (f ?a ?b) => (f ?b ?a)) (rule idem (f ?a ?a) => ?a)"
                               "(rule absorb (f ?a (g ?a ?b)) => ?a) (rule unit (g ?a e) => ?a)"
                               "(rule zero (f ?a z) => z) (rule swap (g (f ?a ?b) ?a) => (g ?a (f ?a ?b)))"
                               "(rule ground (g z z) => e) (rule deep (g z (g e ?x)) => (f ?x ?x))"
                               "(rule flip (h (g ?a ?b) (g ?b ?a)) => (f ?a ?b))";
    uint64_t seed = 7;
    size_t all = 0;
    for (int round = 0; round < 200; round++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, text);
        hyp_class_id ids[24];
        for (uint32_t n = 0; n < 24; n++) {
            uint32_t r = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
            static const char *const leaves[] = {"a", "b", "e", "z"}, *const ops[] = {"f", "g", "h"};
            hyp_symbol op;
            if (n < 4) {
                ids[n] = term(eg, leaves[n]);
                continue;
            }
            hyp_class_id kids[2] = {ids[r / 4 % n], ids[r / 256 % n]};
            must(hyp_egraph_symbol(eg, ops[r % 3], &op, &diag));
            must(hyp_egraph_add(eg, op, kids, 2, &ids[n], NULL, &diag));
            if (r % 5 == 0) run_checked(eg, rules, 1); /* terms also come between iterations */
            if (r % 7 == 0) must(hyp_egraph_union(eg, ids[r / 16 % n], ids[r / 64 % n], NULL, NULL, &diag));
        }
        assert_int_equal(run_checked(eg, rules, 60), HYP_STOP_SATURATED);
        size_t matches;
        assert_int_equal(missed_matches(text, eg, &matches), 0);
        all += matches;
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
    assert_true(all > 1000);
}

/* ---- limits ------------------------------------------------------------------------------------- */

static hyp_egraph_run_report limited(hyp_egraph_run_options options, const char *rules_text, void (*fill)(hyp_egraph *),
                                     hyp_egraph **out)
{
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, rules_text);
    fill(eg);
    hyp_egraph_run_report report;
    options.size = sizeof options;
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    must(hyp_egraph_check(eg, &diag));
    hyp_ruleset_destroy(rules);
    *out = eg;
    return report;
}

static void fill_sum(hyp_egraph *eg)
{
    char text[256];
    chain_text(text, sizeof text, 7);
    term(eg, text);
}

static void the_node_limit_is_never_passed(void **state)
{
    (void)state;
    for (size_t limit = 36; limit < 3000; limit = limit * 5 / 4 + 1) {
        hyp_egraph *eg;
        hyp_egraph_run_report report =
            limited((hyp_egraph_run_options){.max_nodes = limit}, MATH_RULES, add_math_terms, &eg);
        assert_int_equal(report.stop, HYP_STOP_NODES);
        assert_true(report.e_nodes <= limit);
        assert_true(report.e_nodes * 10 >= limit * 9); /* and it is used */
        for (size_t i = 0; i < report.iteration_count; i++) assert_true(report.iterations[i].e_nodes <= limit);
        hyp_egraph_run_report_dispose(&report);
        hyp_egraph_destroy(eg);
    }
}

/* Nodes that turn out equal to others make room again: a limit that an iteration reaches on the way does
 * not keep a run from its end. */
static void a_limit_on_the_way_is_not_the_end(void **state)
{
    (void)state;
    hyp_egraph *eg;
    hyp_egraph_run_report report = limited((hyp_egraph_run_options){.max_nodes = 2100}, ASSOC_RULES, fill_sum, &eg);
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    assert_int_equal(report.e_nodes, 1939);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
    report = limited((hyp_egraph_run_options){.max_nodes = 1938}, ASSOC_RULES, fill_sum, &eg);
    assert_int_equal(report.stop, HYP_STOP_NODES);
    assert_true(report.e_nodes <= 1938);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
}

static void the_match_limit_is_exact(void **state)
{
    (void)state;
    for (size_t limit = 1; limit < 2000; limit = limit * 3 + 1) {
        hyp_egraph *eg;
        hyp_egraph_run_report report =
            limited((hyp_egraph_run_options){.max_matches = limit}, ASSOC_RULES, fill_sum, &eg);
        assert_int_equal(report.stop, HYP_STOP_MATCHES);
        assert_int_equal(report.matches, limit);
        hyp_egraph_run_report_dispose(&report);
        hyp_egraph_destroy(eg);
    }
}

static void the_memory_limit_is_kept(void **state)
{
    (void)state;
    for (size_t limit = 300000; limit < 1500000; limit = limit * 4 / 3)
        for (int explain = 0; explain < 3; explain++) {
            hyp_egraph *eg;
            hyp_egraph_options options = {.size = sizeof options, .explain = explain > 0, .explain_all = explain > 1};
            must(hyp_egraph_create(&options, &eg, &diag));
            hyp_ruleset *rules = rules_of(eg, MATH_RULES);
            add_math_terms(eg);
            hyp_egraph_run_report report;
            hyp_egraph_run_options run = {.size = sizeof run, .max_bytes = limit};
            must(hyp_egraph_run(eg, rules, &run, &report, &diag));
            must(hyp_egraph_check(eg, &diag));
            assert_int_equal(report.stop, HYP_STOP_MEMORY);
            if (report.peak_bytes > limit)
                fail_msg("%zu bytes, limit %zu, explain %d", report.peak_bytes, limit, explain);
            assert_true(report.e_nodes > 500);
            hyp_egraph_run_report_dispose(&report);
            hyp_ruleset_destroy(rules);
            hyp_egraph_destroy(eg);
        }
}

static void iterations_and_time_are_limits(void **state)
{
    (void)state;
    hyp_egraph *eg;
    hyp_egraph_run_report report =
        limited((hyp_egraph_run_options){.max_iterations = 3}, MATH_RULES, add_math_terms, &eg);
    assert_int_equal(report.stop, HYP_STOP_ITERATIONS);
    assert_int_equal(report.iteration_count, 3);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
    report = limited((hyp_egraph_run_options){.max_seconds = 0.02}, MATH_RULES, add_math_terms, &eg);
    assert_int_equal(report.stop, HYP_STOP_TIME);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
    /* It is asked often: no time at all is up within the first iteration. */
    report = limited((hyp_egraph_run_options){.max_seconds = 1e-9}, MATH_RULES, add_math_terms, &eg);
    assert_int_equal(report.stop, HYP_STOP_TIME);
    assert_true(report.iteration_count <= 1 && report.e_nodes < math_nodes[1]);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
}

/* A run that was cut goes on where it was, and ends where an uncut one ends. */
static void a_cut_run_can_be_continued(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    fill_sum(eg);
    hyp_stop stop = HYP_STOP_MATCHES;
    for (int i = 0; i < 2000 && stop != HYP_STOP_SATURATED; i++) {
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .max_matches = 100 + 50 * (size_t)i};
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        must(hyp_egraph_check(eg, &diag));
        stop = report.stop;
        hyp_egraph_run_report_dispose(&report);
    }
    assert_int_equal(stop, HYP_STOP_SATURATED);
    assert_int_equal(hyp_egraph_node_count(eg), 1939);
    assert_int_equal(hyp_egraph_class_count(eg), 127);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static bool stop_at_last(void *left)
{
    size_t *n = left;
    return *n == 0 || --*n == 0;
}

static void a_callback_can_stop(void **state)
{
    (void)state;
    for (size_t polls = 1; polls < 40; polls += 7) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, MATH_RULES);
        add_math_terms(eg);
        size_t left = polls;
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {
            .size = sizeof options, .max_nodes = 5000000, .stop = stop_at_last, .stop_user = &left};
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        assert_int_equal(report.stop, HYP_STOP_CANCELLED);
        must(hyp_egraph_check(eg, &diag));
        hyp_egraph_run_report_dispose(&report);
        assert_int_equal(run_checked(eg, rules, 1), HYP_STOP_ITERATIONS); /* the next run is not stopped */
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

typedef struct watcher {
    hyp_egraph *eg;
    size_t count;
    hyp_iteration_report seen[16];
} watcher;

static void watch(const hyp_iteration_report *iteration, size_t count, void *user)
{
    watcher *w = user;
    assert_int_equal(count, w->count + 1);
    assert_int_equal(iteration->e_nodes, hyp_egraph_node_count(w->eg)); /* it is rebuilt */
    assert_int_equal(iteration->e_classes, hyp_egraph_class_count(w->eg));
    must(hyp_egraph_check(w->eg, &diag));
    if (w->count < 16) w->seen[w->count] = *iteration;
    w->count = count;
}

static void a_callback_sees_every_iteration(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, MATH_RULES);
    add_math_terms(eg);
    watcher w = {.eg = eg};
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = {
        .size = sizeof options, .max_iterations = 5, .on_iteration = watch, .on_iteration_user = &w};
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    assert_true(w.count == 5 && report.iteration_count == 5);
    assert_memory_equal(w.seen, report.iterations, 5 * sizeof *w.seen);
    hyp_egraph_run_report_dispose(&report);
    w.count = 0; /* one that a limit of e-nodes cuts is told of as well */
    options.max_iterations = 0;
    options.max_nodes = hyp_egraph_node_count(eg) + 10;
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    assert_true(report.stop == HYP_STOP_NODES && w.count == report.iteration_count && w.count > 0);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

typedef struct canceller {
    hyp_egraph *eg;
    sem_t runs; /* the run has begun */
} canceller;

static void *cancel_run(void *user)
{
    canceller *c = user;
    while (sem_wait(&c->runs) != 0) {
    }
    hyp_egraph_cancel(c->eg);
    return NULL;
}

/* Lets the other thread go first, however busy the machine is: without this the run could reach its limit before. */
static bool tell_canceller(void *user)
{
    canceller *c = user;
    struct timespec pause = {.tv_nsec = 1000000};
    sem_post(&c->runs);
    nanosleep(&pause, NULL);
    return false;
}

static void another_thread_can_cancel(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, MATH_RULES);
    add_math_terms(eg);
    pthread_t thread;
    canceller c = {.eg = eg};
    assert_int_equal(sem_init(&c.runs, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, cancel_run, &c), 0);
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = {
        .size = sizeof options, .max_nodes = 5000000, .stop = tell_canceller, .stop_user = &c};
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    pthread_join(thread, NULL);
    sem_destroy(&c.runs);
    assert_int_equal(report.stop, HYP_STOP_CANCELLED);
    must(hyp_egraph_check(eg, &diag));
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- schedulers --------------------------------------------------------------------------------- */

/* egg 0.11 under its default scheduler has the first of these sizes after 30 iterations (and 320438 after 60, as here).
 * In the next ten, bans are shortened. */
static void backoff_bans_the_rules_that_egg_bans(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{30, 47434, 28736}, {40, 92137, 54663}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hyp_egraph *eg;
        hyp_egraph_run_options options = {.max_iterations = sizes[i][0], .scheduler = HYP_SCHEDULER_BACKOFF};
        hyp_egraph_run_report report = limited(options, MATH_RULES, add_math_terms, &eg);
        assert_int_equal(report.stop, HYP_STOP_ITERATIONS);
        assert_int_equal(report.e_nodes, sizes[i][1]);
        assert_int_equal(report.e_classes, sizes[i][2]);
        hyp_egraph_run_report_dispose(&report);
        hyp_egraph_destroy(eg);
    }
}

static void backoff_saturates_only_when_all_rules_rest(void **state)
{
    (void)state;
    hyp_egraph *eg;
    hyp_egraph_run_options options = {.scheduler = HYP_SCHEDULER_BACKOFF, .backoff_match_limit = 20};
    hyp_egraph_run_report report = limited(options, ASSOC_RULES, fill_sum, &eg);
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    assert_int_equal(report.e_nodes, 1939);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
}

static void disabled_rules_do_not_run(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    fill_sum(eg);
    hyp_ruleset_enable(rules, 1, false);
    assert_int_equal(run_checked(eg, rules, 20), HYP_STOP_SATURATED);
    assert_int_equal(hyp_egraph_node_count(eg), 19); /* 13, and each of 6 sums the other way round */
    hyp_ruleset_enable(rules, 1, true);
    assert_int_equal(run_checked(eg, rules, 20), HYP_STOP_SATURATED);
    assert_int_equal(hyp_egraph_node_count(eg), 1939);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void no_rules_are_saturated_at_once(void **state)
{
    (void)state;
    hyp_egraph *eg;
    hyp_egraph_run_report report = limited((hyp_egraph_run_options){0}, "; nothing\n", fill_sum, &eg);
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_destroy(eg);
}

/* ---- determinism -------------------------------------------------------------------------------- */

static uint64_t fingerprint(hyp_egraph *eg)
{
    uint64_t h = 0;
    for (hyp_enode_id n = 0; n < hyp_egraph_enode_bound(eg); n++) {
        size_t count;
        const hyp_class_id *kids = hyp_enode_children(eg, n, &count);
        h = h * 31 + hyp_enode_op(eg, n);
        h = h * 31 + hyp_enode_class(eg, n);
        for (size_t j = 0; j < count; j++) h = h * 31 + hyp_egraph_find(eg, kids[j]);
    }
    return h;
}

static void two_runs_give_the_same_ids(void **state)
{
    (void)state;
    uint64_t first = 0;
    for (int i = 0; i < 2; i++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, MATH_RULES);
        add_math_terms(eg);
        run_checked(eg, rules, 7);
        if (i == 0) first = fingerprint(eg);
        assert_true(fingerprint(eg) == first);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

/* ---- final conditions -------------------------------------------------------------------------------- */

static hyp_status is_named_a(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *(size_t *)call->user += 1;
    *out = *hyp_egraph_symbol_name(call->eg, hyp_enode_op(call->eg, call->args[0])) == 'a';
    return HYP_OK;
}

/* A condition whose no is for good ends a search early; what is found is the same. */
static void a_final_condition_ends_the_search(void **state)
{
    (void)state;
    size_t nodes[2], asked[2] = {0, 0};
    for (int final = 0; final < 2; final++) {
        hyp_egraph *eg = new_graph(false, NULL);
        must(hyp_egraph_register_condition(eg, "named-a", 1, is_named_a, &asked[final], &diag));
        if (final) hyp_egraph_make_final(eg, "named-a");
        hyp_ruleset *rules = rules_of(
            eg, "(rule three (multi (?x = (f ?a ?z)) (?y = (f ?b ?z)) (?w = (f ?c ?z))) => (union ?x (t ?a ?b ?c))"
                " :if (and (named-a ?a) (named-a ?b) (named-a ?c)))");
        for (int i = 0; i < 26; i++) {
            char text[16];
            snprintf(text, sizeof text, "(f %c z)", 'a' + i);
            term(eg, text);
        }
        run_checked(eg, rules, 4);
        assert_true(equal(eg, "(f a z)", "(t a a a)"));
        nodes[final] = hyp_egraph_node_count(eg);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
    assert_int_equal(nodes[0], nodes[1]);
    assert_true(asked[0] > 26 * 26 * 26 && asked[1] < 26 * 26);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_final_condition_ends_the_search),
        cmocka_unit_test(sums_saturate_to_the_closed_form),
        cmocka_unit_test(mathematics_grows_as_known),
        cmocka_unit_test(one_run_reports_every_iteration),
        cmocka_unit_test(theorems_are_found),
        cmocka_unit_test(what_is_not_so_is_not_found),
        cmocka_unit_test(a_small_language_is_evaluated),
        cmocka_unit_test(nothing_is_missed_at_saturation),
        cmocka_unit_test(the_node_limit_is_never_passed),
        cmocka_unit_test(a_limit_on_the_way_is_not_the_end),
        cmocka_unit_test(the_match_limit_is_exact),
        cmocka_unit_test(the_memory_limit_is_kept),
        cmocka_unit_test(iterations_and_time_are_limits),
        cmocka_unit_test(a_cut_run_can_be_continued),
        cmocka_unit_test(another_thread_can_cancel),
        cmocka_unit_test(a_callback_can_stop),
        cmocka_unit_test(a_callback_sees_every_iteration),
        cmocka_unit_test(backoff_bans_the_rules_that_egg_bans),
        cmocka_unit_test(backoff_saturates_only_when_all_rules_rest),
        cmocka_unit_test(disabled_rules_do_not_run),
        cmocka_unit_test(no_rules_are_saturated_at_once),
        cmocka_unit_test(two_runs_give_the_same_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

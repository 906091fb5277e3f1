/* What users of an e-graph build on it: walks over it, hooks and schedulers of runs, rules in C, costs of terms. */
#include "base/diag.h"
#include "support.h"

static hyp_egraph *math_graph(hyp_ruleset **out_rules, size_t iterations)
{
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = iterations};
    *out_rules = rules_of(eg, MATH_RULES);
    add_math_terms(eg);
    if (iterations) {
        must(hyp_egraph_run(eg, *out_rules, &options, &report, &diag));
        hyp_egraph_run_report_dispose(&report);
    }
    return eg;
}

/* ---- walks ------------------------------------------------------------------------------------------- */

static void classes_and_users_are_all_met(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = math_graph(&rules, 5);
    size_t classes = 0, bound = hyp_egraph_enode_bound(eg), total = 0, expected = 0;
    uint32_t *seen = calloc(bound, sizeof *seen), *users = malloc(bound * sizeof *users);
    hyp_class_id last = HYP_NONE;
    for (hyp_class_id c = hyp_egraph_next_class(eg, HYP_NONE); c != HYP_NONE; c = hyp_egraph_next_class(eg, c)) {
        size_t count, again;
        assert_int_equal(hyp_egraph_find(eg, c), c);
        assert_true(last == HYP_NONE || c > last);
        last = c;
        classes++;
        must(hyp_egraph_class_users(eg, c, users, bound, &count, &diag));
        must(hyp_egraph_class_users(eg, c, NULL, 0, &again, &diag));
        assert_int_equal(count, again);
        for (size_t i = 0; i < count; i++) {
            size_t n, uses = 0;
            const hyp_class_id *kids = hyp_enode_children(eg, users[i], &n);
            for (size_t j = 0; j < n; j++) uses += kids[j] == c;
            assert_true(uses > 0);
            assert_true(seen[users[i]] != c + 1); /* once */
            seen[users[i]] = c + 1;
        }
        total += count;
    }
    assert_int_equal(classes, hyp_egraph_class_count(eg));
    for (hyp_class_id c = hyp_egraph_next_class(eg, HYP_NONE); c != HYP_NONE; c = hyp_egraph_next_class(eg, c)) {
        size_t count, n;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
        for (size_t i = 0; i < count; i++) {
            const hyp_class_id *kids = hyp_enode_children(eg, nodes[i], &n);
            for (size_t j = 0; j < n; j++) {
                bool before = false;
                for (size_t k = 0; k < j; k++) before = before || kids[k] == kids[j];
                expected += !before;
            }
        }
    }
    assert_int_equal(total, expected);
    assert_int_equal(hyp_egraph_class_users(eg, (hyp_class_id)bound, users, 1, &total, NULL), HYP_ERR_INVALID_ARGUMENT);
    free(seen);
    free(users);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- schedulers --------------------------------------------------------------------------------------- */

enum { RULES = 32, LIMIT = 30, LENGTH = 3 };

/* Backoff, as a user would write it. */
typedef struct backoff {
    size_t times[RULES], until[RULES], rules, asked;
} backoff;

/* A class that loses its name and gets it back, because it has many users, while a row that uses it is moved. */
static void names_that_come_back_leave_nothing_behind(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    size_t users, before;
    char text[64];
    hyp_class_id old = term(eg, "old"), heavy = term(eg, "heavy"), out;
    term(eg, "a"), term(eg, "x");
    for (int i = 0; i < 600; i++) {
        snprintf(text, sizeof text, "(f heavy y%d)", i);
        term(eg, text);
    }
    term(eg, "(g x heavy)"), term(eg, "(three x heavy x heavy)");
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_class_users(eg, heavy, &out, 1, &before, &diag)); /* by an index, which rebuilds then follow */
    unite(eg, "a", "x");
    must(hyp_egraph_union(eg, old, heavy, NULL, NULL, &diag));
    rebuild_and_check(eg);
    assert_int_equal(hyp_egraph_find(eg, old), heavy); /* it has kept its name */
    must(hyp_egraph_class_users(eg, heavy, &out, 1, &users, &diag));
    assert_int_equal(users, before);
    hyp_egraph_destroy(eg);
}

static size_t take_turn(hyp_egraph *eg, const hyp_rule_turn *turn, void *user)
{
    backoff *b = user;
    hyp_class_id c;
    b->asked++;
    assert_int_equal(hyp_egraph_add_text(eg, "(new thing)", &c, NULL), HYP_ERR_INVALID_ARGUMENT);
    if (turn->kind == HYP_TURN_IDLE) {
        size_t least = SIZE_MAX;
        for (size_t i = 0; i < b->rules; i++)
            if (b->until[i] > turn->iteration && b->until[i] - turn->iteration < least)
                least = b->until[i] - turn->iteration;
        for (size_t i = 0; i < b->rules; i++)
            if (b->until[i] > turn->iteration) b->until[i] -= least;
        return 1;
    }
    size_t r = turn->rule;
    if (turn->kind == HYP_TURN_BEGIN) return b->until[r] > turn->iteration ? 0 : (size_t)LIMIT << b->times[r];
    assert_int_equal(turn->matches, (size_t)LIMIT << b->times[r]);
    b->until[r] = turn->iteration + ((size_t)LENGTH << b->times[r]++);
    return 0;
}

static void schedulers_may_be_functions(void **state)
{
    (void)state;
    hyp_egraph_run_report mine, own;
    backoff b = {.rules = 24};
    hyp_egraph_run_options options = {.size = sizeof options,
                                      .max_iterations = 25,
                                      .scheduler = HYP_SCHEDULER_BACKOFF,
                                      .backoff_match_limit = LIMIT,
                                      .backoff_ban_length = LENGTH};
    hyp_ruleset *rules, *others;
    hyp_egraph *eg = math_graph(&rules, 0), *other = math_graph(&others, 0);
    must(hyp_egraph_run(eg, rules, &options, &own, &diag));
    options.scheduler = HYP_SCHEDULER_CALLBACK;
    assert_int_equal(hyp_egraph_run(other, others, &options, &mine, NULL), HYP_ERR_INVALID_ARGUMENT);
    options.turn = take_turn;
    options.turn_user = &b;
    must(hyp_egraph_run(other, others, &options, &mine, &diag));
    assert_int_equal(mine.stop, own.stop);
    assert_int_equal(mine.iteration_count, own.iteration_count);
    for (size_t i = 0; i < own.iteration_count; i++) {
        assert_int_equal(mine.iterations[i].e_nodes, own.iterations[i].e_nodes);
        assert_int_equal(mine.iterations[i].e_classes, own.iterations[i].e_classes);
    }
    assert_true(b.asked > 200);
    hyp_egraph_run_report_dispose(&mine);
    hyp_egraph_run_report_dispose(&own);
    hyp_ruleset_destroy(rules);
    hyp_ruleset_destroy(others);
    hyp_egraph_destroy(eg);
    hyp_egraph_destroy(other);
}

/* Says no to everything, until it is asked whether that is all. */
static size_t never(hyp_egraph *eg, const hyp_rule_turn *turn, void *user)
{
    size_t *idle = user;
    (void)eg;
    if (turn->kind == HYP_TURN_IDLE) return --*idle;
    return 0;
}

static void schedulers_end_idle_runs(void **state)
{
    (void)state;
    hyp_egraph_run_report report;
    size_t idle = 3;
    hyp_egraph_run_options options = {
        .size = sizeof options, .scheduler = HYP_SCHEDULER_CALLBACK, .turn = never, .turn_user = &idle};
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    term(eg, "(+ 1 2)");
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    assert_int_equal(report.iteration_count, 3);
    assert_int_equal(report.matches, 0);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- hooks ----------------------------------------------------------------------------------------------- */

typedef struct hooked {
    size_t calls, cancel_at, fail_at, add_at;
    hyp_class_id root, made;
} hooked;

static double one(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node, (void)user;
    return 1;
}

static hyp_status hook(hyp_egraph *eg, size_t iteration, void *user, hyp_diag *diag)
{
    hooked *h = user;
    hyp_extraction ex;
    hyp_egraph_run_report report;
    assert_int_equal(iteration, h->calls);
    h->calls++;
    HYP_TRY(hyp_egraph_check(eg, diag)); /* it is rebuilt */
    HYP_TRY(hyp_egraph_extract(eg, &h->root, 1, HYP_EXTRACT_TREE, one, NULL, &ex, diag));
    hyp_extraction_dispose(&ex);
    assert_int_equal(hyp_egraph_push(eg, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_run(eg, NULL, NULL, &report, NULL), HYP_ERR_INVALID_ARGUMENT);
    if (h->calls == h->cancel_at) hyp_egraph_cancel(eg);
    if (h->calls == h->fail_at) return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the hook does not like it");
    if (h->calls != h->add_at) return HYP_OK;
    HYP_TRY(hyp_egraph_add_text(eg, "(* zero (+ a b))", &h->made, diag));
    hyp_class_id zero;
    HYP_TRY(hyp_egraph_add_text(eg, "zero", &zero, diag));
    HYP_TRY(hyp_egraph_union(eg, zero, h->made, "hook", NULL, diag));
    return hyp_egraph_rebuild(eg, diag);
}

static void run_hooked(hooked *h, const hyp_egraph_run_options *given, hyp_egraph_run_report *report,
                       hyp_status expected)
{
    hyp_egraph_run_options options = *given;
    hyp_diag said = {0};
    hyp_ruleset *rules;
    hyp_egraph *eg = math_graph(&rules, 0);
    options.hook = hook;
    options.hook_user = h;
    h->root = term(eg, "(+ x x)");
    assert_int_equal(hyp_egraph_run(eg, rules, &options, report, &said), expected);
    if (expected != HYP_OK) assert_non_null(strstr(said.message, "does not like"));
    if (h->add_at) assert_true(hyp_egraph_find(eg, h->made) == hyp_egraph_find(eg, term(eg, "(* (+ b a) zero)")));
    rebuild_and_check(eg);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void hooks_come_before_iterations(void **state)
{
    (void)state;
    hyp_egraph_run_report plain, report;
    hyp_egraph_run_options options = {.size = sizeof options,
                                      .max_iterations = 15,
                                      .scheduler = HYP_SCHEDULER_BACKOFF,
                                      .backoff_match_limit = 20,
                                      .backoff_ban_length = 2};
    hyp_ruleset *rules;
    hyp_egraph *eg = math_graph(&rules, 0);
    term(eg, "(+ x x)");
    must(hyp_egraph_run(eg, rules, &options, &plain, &diag));
    hooked h = {0};
    run_hooked(&h, &options, &report, HYP_OK);
    assert_int_equal(h.calls, 15);
    for (size_t i = 0; i < 15; i++) /* bans go on as if the hook were not there */
        assert_int_equal(report.iterations[i].e_nodes, plain.iterations[i].e_nodes);
    hyp_egraph_run_report_dispose(&report);

    h = (hooked){.cancel_at = 4};
    run_hooked(&h, &options, &report, HYP_OK);
    assert_int_equal(report.stop, HYP_STOP_CANCELLED);
    assert_int_equal(report.iteration_count, 3);
    hyp_egraph_run_report_dispose(&report);

    h = (hooked){.fail_at = 4};
    run_hooked(&h, &options, &report, HYP_ERR_UNSUPPORTED);
    assert_int_equal(report.stop, HYP_STOP_ERROR);
    hyp_egraph_run_report_dispose(&report);

    h = (hooked){.add_at = 3};
    run_hooked(&h, &(hyp_egraph_run_options){.size = sizeof options, .max_iterations = 6}, &report, HYP_OK);
    assert_int_equal(h.calls, 6);
    hyp_egraph_run_report_dispose(&report);
    hyp_egraph_run_report_dispose(&plain);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- rules in C -------------------------------------------------------------------------------------------- */

static bool number_of(hyp_egraph *eg, hyp_class_id c, long *out)
{
    size_t count, kids;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
    for (size_t i = 0; i < count; i++) {
        char *end;
        const char *name = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, nodes[i]));
        hyp_enode_children(eg, nodes[i], &kids);
        *out = strtol(name, &end, 10);
        if (kids == 0 && *end == 0 && end != name) return true;
    }
    return false;
}

static size_t fold_calls;

/* (+ ?a ?b) of two numbers is their sum; declines while one is none. */
static hyp_status fold(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    long a, b;
    char text[32];
    fold_calls++;
    assert_int_equal(call->arg_count, 3);
    if (!number_of(call->eg, call->args[1], &a) || !number_of(call->eg, call->args[2], &b)) return HYP_OK;
    snprintf(text, sizeof text, "%ld", a + b);
    return hyp_egraph_add_text(call->eg, text, out, diag);
}

static void rules_may_be_functions(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        hyp_egraph *eg = new_graph(explain, NULL);
        hyp_ruleset *rules;
        hyp_egraph_run_report report;
        const hyp_rule_source source = {.size = sizeof source, .name = "fold it", .left = "(+ ?a ?b)", .apply = fold};
        must(hyp_ruleset_parse(eg, "c", NULL, 0, &rules, &diag));
        must(hyp_ruleset_add(rules, &source, &diag));
        assert_int_equal(hyp_ruleset_count(rules), 1);
        assert_string_equal(hyp_ruleset_rule(rules, 0).name, "fold it");
        hyp_class_id sum = term(eg, "(+ (+ 1 2) (+ x (+ 3 4)))");
        fold_calls = 0;
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        assert_int_equal(report.stop, HYP_STOP_SATURATED);
        assert_int_equal(report.rules[0].applications, 2);
        hyp_egraph_run_report_dispose(&report);
        assert_true(equal(eg, "(+ 1 2)", "3"));
        unite(eg, "x", "10"); /* what was declined is asked again */
        must(hyp_egraph_rebuild(eg, &diag));
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        hyp_egraph_run_report_dispose(&report);
        assert_int_equal(hyp_egraph_find(eg, sum), hyp_egraph_find(eg, term(eg, "20")));
        if (explain) {
            hyp_proof proof;
            must(hyp_egraph_explain(eg, "(+ (+ 1 2) (+ x (+ 3 4)))", "20", &proof, &diag));
            must(hyp_proof_check(&proof, "(+ (+ 1 2) (+ x (+ 3 4)))", "20", &rules, 1, NULL, NULL, &diag));
            assert_string_equal(proof.steps[1].rule, "fold it");
            hyp_proof_dispose(&proof);
        }
        rebuild_and_check(eg);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

static size_t seen_calls, seen_args;

/* Unites by itself what it likes, and gives back the root: there is nothing more. */
static hyp_status swap(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_symbol plus;
    hyp_class_id other;
    seen_calls++;
    seen_args = call->arg_count;
    HYP_TRY(hyp_egraph_symbol(call->eg, "+", &plus, diag));
    HYP_TRY(hyp_egraph_add(call->eg, plus, (hyp_class_id[]){call->args[2], call->args[1]}, 2, &other, NULL, diag));
    HYP_TRY(hyp_egraph_union(call->eg, call->args[0], other, "swapped", NULL, diag));
    *out = call->args[0];
    return HYP_OK;
}

/* The same sizes as by the rule of text, and each match is met once. */
static void functions_meet_each_match_once(void **state)
{
    (void)state;
    static const char assoc[] = "(rule assoc-add (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c))";
    char text[128];
    size_t nodes[2], matches[2];
    chain_text(text, sizeof text, 7);
    for (int in_c = 0; in_c < 2; in_c++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_egraph_run_report report;
        hyp_ruleset *rules = rules_of(eg, in_c ? assoc : ASSOC_RULES);
        if (in_c)
            must(hyp_ruleset_add(
                rules,
                &(hyp_rule_source){
                    .size = sizeof(hyp_rule_source), .name = "comm-add", .left = "(+ ?a ?b)", .apply = swap},
                &diag));
        term(eg, text);
        seen_calls = 0;
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        nodes[in_c] = report.e_nodes;
        matches[in_c] = report.rules[in_c ? 1 : 0].matches;
        hyp_egraph_run_report_dispose(&report);
        rebuild_and_check(eg);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
    assert_int_equal(nodes[0], 1939); /* 3^7 - 2^8 + 1 + 7 */
    assert_int_equal(nodes[0], nodes[1]);
    assert_int_equal(seen_calls, matches[1]);
    assert_int_equal(seen_args, 3);
}

static hyp_status count_args(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    (void)diag;
    seen_calls++;
    seen_args = call->arg_count;
    *out = call->args[0];
    return HYP_OK;
}

static void rules_in_c_are_looked_at(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule one (f ?x) => ?x)");
    hyp_egraph_run_report report;
    hyp_diag said = {0};
    static const struct {
        const char *name, *left, *condition, *wanted;
    } wrong[] = {{"one", "(f ?x)", NULL, "already"},    {"a", "?x", NULL, "variable alone"},
                 {"a", "(f ?x", NULL, "never closed"},  {"a", "(f ?x) (g)", NULL, "one form"},
                 {"a", "(f ?x)", "(no ?x)", "unknown"}, {"a", "(collect (?x) (?y = (f ?x)))", NULL, "collects"},
                 {"", "(f ?x)", NULL, "name"},          {"\xff", "(f ?x)", NULL, "UTF-8"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hyp_rule_source source = {.size = sizeof source,
                                  .name = wrong[i].name,
                                  .left = wrong[i].left,
                                  .condition = wrong[i].condition,
                                  .apply = count_args};
        assert_int_not_equal(hyp_ruleset_add(rules, &source, &said), HYP_OK);
        if (!strstr(said.message, wrong[i].wanted)) fail_msg("%s", said.message);
        assert_int_equal(hyp_ruleset_count(rules), 1);
    }
    hyp_rule_source source = {.size = sizeof source,
                              .name = "a",
                              .left = "(multi (?r = (f ?x)) (?s = (g ?x ?ys...)))",
                              .doc = "two roots",
                              .apply = count_args};
    must(hyp_ruleset_add(rules, &source, &diag)); /* the name is free still */
    source.name = "b";
    must(hyp_ruleset_add(rules, &source, &diag));
    hyp_ruleset_enable(rules, 0, false);
    term(eg, "(f 1)");
    term(eg, "(g 1 2 3)");
    seen_calls = 0;
    must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
    hyp_egraph_run_report_dispose(&report);
    assert_int_equal(seen_calls, 2);
    assert_int_equal(seen_args, 5); /* ?r ?x ?s and two of ?ys... */
    assert_string_equal(hyp_ruleset_rule(rules, 1).doc, "two roots");
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- costs of terms ------------------------------------------------------------------------------------------ */

static double depth(hyp_egraph *eg, hyp_enode_id node, const double *kids, size_t count, void *user)
{
    double most = 0;
    size_t *calls = user;
    (void)eg, (void)node;
    ++*calls;
    for (size_t i = 0; i < count; i++) most = fmax(most, kids[i]);
    return most + 1;
}

/* Least costs of all classes by plain repetition. */
static double *least_costs(hyp_egraph *eg, hyp_term_cost_fn cost, void *user)
{
    double *least = malloc(hyp_egraph_class_bound(eg) * sizeof *least), kid_costs[4];
    for (size_t c = 0; c < hyp_egraph_class_bound(eg); c++) least[c] = INFINITY;
    for (bool changed = true; changed;) {
        changed = false;
        for (hyp_class_id c = hyp_egraph_next_class(eg, HYP_NONE); c != HYP_NONE; c = hyp_egraph_next_class(eg, c)) {
            size_t count, n;
            const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
            for (size_t i = 0; i < count; i++) {
                bool known = true;
                const hyp_class_id *kids = hyp_enode_children(eg, nodes[i], &n);
                for (size_t j = 0; j < n; j++) known = isfinite(kid_costs[j] = least[kids[j]]) && known;
                double own = known ? cost(eg, nodes[i], kid_costs, n, user) : INFINITY;
                if (own < least[c]) least[c] = own, changed = true;
            }
        }
    }
    return least;
}

/* When a term is there on a machine that has as many of everything as it needs: * takes 3, + 1. */
static double ready(hyp_egraph *eg, hyp_enode_id node, const double *kids, size_t count, void *user)
{
    const char *op = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    double latest = 0;
    (void)user;
    if (strcmp(op, "d") == 0 || strcmp(op, "i") == 0) return INFINITY;
    for (size_t i = 0; i < count; i++) latest = fmax(latest, kids[i]);
    return latest + (*op == '*' ? 3 : count ? 1 : 0);
}

static void costs_may_see_children(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = math_graph(&rules, 6);
    size_t calls = 0, ignored = 0, cheap = 0;
    double *deep = least_costs(eg, depth, &ignored), *late = least_costs(eg, ready, NULL);
    for (hyp_class_id c = hyp_egraph_next_class(eg, HYP_NONE); c != HYP_NONE; c = hyp_egraph_next_class(eg, c)) {
        hyp_extraction ex;
        calls = 0;
        must(hyp_egraph_extract_by_term(eg, &c, 1, depth, &calls, &ex, &diag));
        assert_true(ex.tree_cost == deep[c]);
        assert_true(calls <= hyp_egraph_node_count(eg));
        assert_true(ex.proven && isnan(ex.dag_cost));
        hyp_extraction_dispose(&ex);
        if (c % 5) continue;
        hyp_status status = hyp_egraph_extract_by_term(eg, &c, 1, ready, NULL, &ex, NULL);
        assert_int_equal(status, isinf(late[c]) ? HYP_ERR_UNSUPPORTED : HYP_OK);
        if (status == HYP_OK) assert_true(ex.tree_cost == late[c]);
        cheap += status == HYP_OK;
        hyp_extraction_dispose(&ex);
    }
    assert_true(cheap > 10);
    free(deep);
    free(late);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static double shrinking(hyp_egraph *eg, hyp_enode_id node, const double *kids, size_t count, void *user)
{
    (void)eg, (void)node;
    return count ? kids[0] * *(double *)user : 4;
}

static void costs_of_terms_only_grow(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id root = term(eg, "(f (f x))");
    hyp_extraction ex;
    hyp_diag said = {0};
    must(hyp_egraph_rebuild(eg, &diag));
    for (double factor = -1; factor < 1; factor += 0.5)
        assert_int_equal(hyp_egraph_extract_by_term(eg, &root, 1, shrinking, &factor, &ex, &said),
                         HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(said.message, "children"));
    double factor = NAN;
    assert_int_equal(hyp_egraph_extract_by_term(eg, &root, 1, shrinking, &factor, &ex, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    factor = 2;
    must(hyp_egraph_extract_by_term(eg, &root, 1, shrinking, &factor, &ex, &diag));
    assert_true(ex.tree_cost == 16);
    hyp_extraction_dispose(&ex);
    hyp_egraph_destroy(eg);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_and_users_are_all_met), cmocka_unit_test(schedulers_may_be_functions),
        cmocka_unit_test(schedulers_end_idle_runs),      cmocka_unit_test(hooks_come_before_iterations),
        cmocka_unit_test(rules_may_be_functions),        cmocka_unit_test(functions_meet_each_match_once),
        cmocka_unit_test(rules_in_c_are_looked_at),      cmocka_unit_test(costs_may_see_children),
        cmocka_unit_test(costs_of_terms_only_grow),      cmocka_unit_test(names_that_come_back_leave_nothing_behind),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Whatever a language has beside rules, runs reach the same e-graph; and what is done in small steps is done right. */
#include "support.h"

static const size_t math_nodes[] = {69, 118, 208, 389, 784, 1576, 3160, 8113};
static const size_t math_classes[] = {50, 71, 116, 197, 361, 666, 1347, 3576};
enum { STEPS = sizeof math_nodes / sizeof *math_nodes };

/* ---- the cost of the cheapest term of a class, as a fact ---------------------------------------------- */

enum { DEAR = 1000000 };

static hyp_status make_cost(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    size_t count;
    const hyp_class_id *kids = hyp_enode_children(eg, node, &count);
    int cost = count ? 1 : hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node))[0] % 7 + 1;
    for (size_t i = 0; i < count; i++) cost += *(const int *)hyp_egraph_data(eg, kids[i]);
    *(int *)data = cost < DEAR ? cost : DEAR;
    return HYP_OK;
}

static hyp_status merge_cost(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag)
{
    (void)eg, (void)user, (void)diag;
    int *a = into;
    const int *b = from;
    *out_changed = *b < *a;
    if (*out_changed) *a = *b;
    return HYP_OK;
}

static const hyp_analysis costs = {.data_size = sizeof(int), .make = make_cost, .merge = merge_cost};

/* The facts are those of the cheapest terms, found from nothing. */
static void check_costs(hyp_egraph *eg)
{
    size_t bound = hyp_egraph_class_bound(eg), count, arity;
    int *best = malloc((bound + 1) * sizeof *best);
    assert_non_null(best);
    for (size_t c = 0; c < bound; c++) best[c] = DEAR;
    for (bool changed = true; changed;) {
        changed = false;
        for (hyp_class_id c = 0; c < bound; c++) {
            if (hyp_egraph_find(eg, c) != c) continue;
            const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
            for (size_t i = 0; i < count; i++) {
                const hyp_class_id *kids = hyp_enode_children(eg, nodes[i], &arity);
                int cost = arity ? 1 : hyp_egraph_symbol_name(eg, hyp_enode_op(eg, nodes[i]))[0] % 7 + 1;
                for (size_t j = 0; j < arity; j++) cost += best[hyp_egraph_find(eg, kids[j])];
                if (cost >= best[c]) continue;
                best[c] = cost;
                changed = true;
            }
        }
    }
    for (hyp_class_id c = 0; c < bound; c++)
        if (hyp_egraph_find(eg, c) == c) assert_int_equal(*(const int *)hyp_egraph_data(eg, c), best[c]);
    free(best);
}

/* ---- the same run, six ways --------------------------------------------------------------------------- */

static hyp_status holds(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)diag;
    assert_int_equal(call->arg_count, 1);
    assert_int_equal(hyp_egraph_find(call->eg, call->args[0]), call->args[0]);
    *out_holds = true;
    return HYP_OK;
}

static hyp_status itself(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    (void)diag;
    *out = call->args[0];
    return HYP_OK;
}

/* Copies rules; each may get a condition on its first variable, and a function around the first one of its right side. */
static char *decorate(const char *text, bool condition, bool function)
{
    char *out = malloc(4 * strlen(text) + 1), *to = out;
    char variable[3] = "";
    bool right = false, done = false;
    int depth = 0;
    assert_non_null(out);
    for (const char *at = text; *at; at++) {
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        if (*at == '?' && !variable[0]) memcpy(variable, at, 2);
        right = right || (at[0] == '=' && at[1] == '>');
        if (function && right && !done && *at == '?') {
            to += sprintf(to, "(itself %.2s)", at);
            at++;
            done = true;
            continue;
        }
        if (*at == ')' && depth == 0) {
            if (condition) to += sprintf(to, " :if (holds %s)", variable);
            variable[0] = 0;
            right = done = false;
        }
        *to++ = *at;
    }
    *to = 0;
    return out;
}

typedef struct listener {
    hyp_egraph *eg;
    size_t count;
} listener;

/* Looks up, and adds what is there already, several times for each rewrite. */
static void listen(const hyp_rewrite_event *event, void *user)
{
    listener *l = user;
    l->count++;
    assert_int_equal(hyp_egraph_find(l->eg, event->left), hyp_egraph_find(l->eg, event->right));
    for (int i = 0; i < 4; i++) term(l->eg, "(+ 1 (cos x))");
}

static void check_run(bool analysis, bool condition, bool function, bool listens, bool explain)
{
    hyp_egraph *eg = new_graph(explain, analysis ? &costs : NULL);
    must(hyp_egraph_register_condition(eg, "holds", 1, holds, NULL, &diag));
    must(hyp_egraph_register_function(eg, "itself", 1, itself, NULL, &diag));
    char *text = decorate(MATH_RULES, condition, function);
    hyp_ruleset *rules = rules_of(eg, text);
    listener l = {.eg = eg};
    free(text);
    add_math_terms(eg);
    if (listens) term(eg, "(+ 1 (cos x))");
    size_t applications = 0;
    for (int i = 0; i < STEPS; i++) {
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 1};
        if (listens) options.on_rewrite = listen, options.user = &l;
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        if (!listens) assert_int_equal(report.e_nodes, math_nodes[i]);
        if (!listens) assert_int_equal(report.e_classes, math_classes[i]);
        for (size_t r = 0; r < report.rule_count; r++) applications += report.rules[r].applications;
        hyp_egraph_run_report_dispose(&report);
        if (i + 1 == STEPS || i < 4) must(hyp_egraph_check(eg, &diag));
        if (analysis && i < 5) check_costs(eg);
    }
    if (listens) assert_int_equal(l.count, applications);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void all_languages_reach_the_same(void **state)
{
    (void)state;
    for (int bits = 0; bits < 32; bits++) check_run(bits & 1, bits & 2, bits & 4, bits & 8, bits & 16);
}

/* Listeners may add terms that are new, as many as they like. */
static void add_much(const hyp_rewrite_event *event, void *user)
{
    listener *l = user;
    (void)event;
    for (int i = 0; i < 8; i++) {
        char text[32];
        snprintf(text, sizeof text, "(new %zu)", l->count++ % 4000);
        term(l->eg, text);
    }
}

static void listeners_may_add_terms(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, MATH_RULES);
    listener l = {.eg = eg};
    add_math_terms(eg);
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 8, .on_rewrite = add_much, .user = &l};
    must(hyp_egraph_run(eg, rules, &options, &report, &diag));
    assert_true(l.count > 8000);
    assert_int_equal(report.e_nodes, 8113 + 2 * 4000 - 4); /* 1, 2, 3 and 7 were there */
    hyp_egraph_run_report_dispose(&report);
    must(hyp_egraph_check(eg, &diag));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A limit of e-nodes is reached and not passed, also in the middle of a batch of rules with all that there is. */
static void limits_hold_in_a_batch(void **state)
{
    (void)state;
    for (int analysis = 0; analysis < 2; analysis++) {
        for (size_t limit = 60; limit < 3000; limit += 97) {
            hyp_egraph *eg = new_graph(limit % 2, analysis ? &costs : NULL);
            hyp_ruleset *rules = rules_of(eg, MATH_RULES);
            add_math_terms(eg);
            hyp_egraph_run_report report;
            hyp_egraph_run_options options = {.size = sizeof options, .max_nodes = limit};
            must(hyp_egraph_run(eg, rules, &options, &report, &diag));
            assert_int_equal(report.stop, HYP_STOP_NODES);
            assert_int_equal(report.e_nodes, limit);
            hyp_egraph_run_report_dispose(&report);
            must(hyp_egraph_check(eg, &diag));
            hyp_ruleset_destroy(rules);
            hyp_egraph_destroy(eg);
        }
    }
}

/* ---- small steps -------------------------------------------------------------------------------------- */

static hyp_class_id leaf(hyp_egraph *eg, int i)
{
    char text[16];
    snprintf(text, sizeof text, "%c%d", 'a' + i % 20, i);
    return term(eg, text);
}

/* A class of many parts keeps its name when it is united with one of few, and proofs and facts do not mind. */
static void large_classes_keep_their_names(void **state)
{
    (void)state;
    enum { LEAVES = 400 };
    hyp_egraph *eg = new_graph(true, &costs);
    for (int i = 0; i < LEAVES; i++) leaf(eg, i);
    for (int i = 0; i < LEAVES; i++) {
        hyp_class_id c = leaf(eg, i);
        hyp_symbol f;
        must(hyp_egraph_symbol(eg, "f", &f, &diag));
        must(hyp_egraph_add(eg, f, &c, 1, NULL, NULL, &diag));
    }
    rebuild_and_check(eg);
    for (int i = LEAVES - 1; i > 0; i--) { /* the older of the two is always alone */
        must(hyp_egraph_union(eg, leaf(eg, i - 1), leaf(eg, i), NULL, NULL, &diag));
        rebuild_and_check(eg);
    }
    check_costs(eg);
    assert_int_equal(hyp_egraph_class_count(eg), 2);
    assert_true(hyp_egraph_find(eg, leaf(eg, 0)) > LEAVES / 2);
    hyp_proof proof;
    must(hyp_egraph_explain(eg, "(f a0)", "(f t399)", &proof, &diag));
    must(hyp_proof_check(&proof, "(f a0)", "(f t399)", NULL, 0, NULL, NULL, &diag));
    hyp_proof_dispose(&proof);
    hyp_egraph_destroy(eg);
}

/* Facts, lists and invariants of an e-graph that is rebuilt after every random step, and of one that is rebuilt once. */
static void random_steps_agree(void **state)
{
    (void)state;
    enum { ROUNDS = 30, NODES = 160 };
    uint64_t seed = 12;
    for (int round = 0; round < ROUNDS; round++) {
        hyp_egraph *both[2] = {new_graph(round % 2, &costs), new_graph(false, &costs)};
        hyp_class_id ids[2][NODES];
        for (int n = 0; n < NODES; n++) {
            uint32_t r = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
            for (int k = 0; k < 2; k++) {
                hyp_egraph *eg = both[k];
                hyp_symbol f;
                hyp_class_id kids[3] = {0};
                must(hyp_egraph_symbol(eg, r % 3 ? "f" : "g", &f, &diag));
                for (int j = 0; j < 3 && n >= 6; j++) kids[j] = ids[k][(r >> (4 + 7 * j)) % (uint32_t)n];
                if (n < 6) ids[k][n] = leaf(eg, n);
                if (n >= 6) must(hyp_egraph_add(eg, f, kids, 1 + r % 3, &ids[k][n], NULL, &diag));
                if (n >= 6 && r % 5 == 0)
                    must(hyp_egraph_union(eg, ids[k][n], ids[k][(r >> 11) % (uint32_t)n], NULL, NULL, &diag));
                if (k == 0) rebuild_and_check(eg);
                if (k == 0 && n % 16 == 0) check_costs(eg);
            }
        }
        rebuild_and_check(both[1]);
        for (int k = 0; k < 2; k++) check_costs(both[k]);
        assert_int_equal(hyp_egraph_node_count(both[0]), hyp_egraph_node_count(both[1]));
        for (int a = 0; a < NODES; a++) {
            size_t count[2];
            for (int k = 0; k < 2; k++) assert_non_null(hyp_egraph_class_nodes(both[k], ids[k][a], &count[k]));
            assert_int_equal(count[0], count[1]);
            for (int b = 0; b < a; b++)
                assert_int_equal(hyp_egraph_find(both[0], ids[0][a]) == hyp_egraph_find(both[0], ids[0][b]),
                                 hyp_egraph_find(both[1], ids[1][a]) == hyp_egraph_find(both[1], ids[1][b]));
        }
        for (int k = 0; k < 2; k++) hyp_egraph_destroy(both[k]);
    }
}

/* Classes that are listed one by one after each change are those that are listed all at once. */
static void lists_follow_changes(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    for (int i = 0; i < 300; i++) {
        size_t count = 0;
        hyp_class_id c = leaf(eg, i);
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
        assert_int_equal(count, 1);
        assert_int_equal(nodes[0], c);
        if (i % 3 == 0) continue;
        must(hyp_egraph_union(eg, c, leaf(eg, i - 1), NULL, NULL, &diag));
        must(hyp_egraph_rebuild(eg, &diag));
        nodes = hyp_egraph_class_nodes(eg, c, &count);
        assert_int_equal(count, i % 3 + 1);
        for (size_t n = 0; n < count; n++) assert_int_equal(nodes[n], i - i % 3 + (int)n);
    }
    must(hyp_egraph_check(eg, &diag));
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_languages_reach_the_same),   cmocka_unit_test(listeners_may_add_terms),
        cmocka_unit_test(limits_hold_in_a_batch),         cmocka_unit_test(large_classes_keep_their_names),
        cmocka_unit_test(random_steps_agree),             cmocka_unit_test(lists_follow_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

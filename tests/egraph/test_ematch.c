/* Patterns that are looked for on their own. */
#include "base/diag.h"
#include "base/mem.h"
#include "support.h"

typedef struct found {
    size_t count;
    uint64_t order; /* of what was found */
    hyp_class_id root, first;
    size_t stop_at;
    hyp_egraph *eg;
} found;

static hyp_status note(const hyp_match_view *match, void *user, hyp_diag *diag)
{
    found *f = user;
    f->root = match->root;
    f->first = match->variable_count ? match->variables[0] : HYP_NONE;
    for (size_t i = 0; i < match->variable_count; i++) f->order = f->order * 31 + match->variables[i];
    if (++f->count == f->stop_at) return hyp_fail(diag, HYP_ERR_LIMIT, "enough");
    return HYP_OK;
}

static found look(hyp_egraph *eg, const char *text)
{
    found f = {.eg = eg};
    hyp_pattern *pattern;
    must(hyp_pattern_parse(eg, text, &pattern, &diag));
    must(hyp_egraph_ematch(eg, pattern, note, &f, &diag));
    found again = {.eg = eg};
    must(hyp_egraph_ematch(eg, pattern, note, &again, &diag)); /* nothing is remembered */
    assert_int_equal(again.count, f.count);
    assert_true(again.order == f.order);
    hyp_pattern_destroy(pattern);
    return f;
}

static void patterns_find_what_is_there(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id sum = term(eg, "(+ a (* b c))"), a = term(eg, "a");
    term(eg, "(+ b (* b b))");
    term(eg, "(h a b c d)");
    assert_int_equal(look(eg, "(+ ?x ?y)").count, 2);
    found one = look(eg, "(+ ?x (* ?y c))");
    assert_int_equal(one.count, 1);
    assert_int_equal(one.root, sum);
    assert_int_equal(one.first, a);
    assert_int_equal(look(eg, "(+ ?x (* ?x ?x))").count, 1);
    assert_int_equal(look(eg, "(* ?x ?x)").count, 1);
    assert_int_equal(look(eg, "(h ?x ?rest...)").count, 1);
    assert_int_equal(look(eg, "(+ a (* b c))").count, 1);
    assert_int_equal(look(eg, "(+ a a)").count, 0);
    assert_int_equal(look(eg, "(multi (?p = (+ ?x ?m)) (?q = (* ?y ?z)))").count, 4);
    assert_int_equal(look(eg, "(multi (?p = (+ ?x ?q)) (?q = (* ?y ?z)))").count, 2);
    hyp_class_id b = term(eg, "b");
    must(hyp_egraph_union(eg, a, b, NULL, NULL, &diag));
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(look(eg, "(+ ?x (* ?x c))").count, 1);
    hyp_egraph_destroy(eg);
}

/* In a sum that is saturated the matches are known: every class of k terms is split in 2^k - 2 ways, and one
 * part of k' terms again in 2^k' - 2. */
static void all_matches_of_a_saturated_sum_are_found(void **state)
{
    (void)state;
    enum { N = 7 };
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    char text[256];
    chain_text(text, sizeof text, N);
    term(eg, text);
    run_checked(eg, rules, 50);
    size_t three = 1, four = 1;
    for (int i = 0; i < N; i++) three *= 3, four *= 4;
    assert_int_equal(look(eg, "(+ ?x ?y)").count, three - 2 * ((size_t)1 << N) + 1);
    /* ordered partitions of subsets into three non-empty parts */
    assert_int_equal(look(eg, "(+ ?x (+ ?y ?z))").count, four - 3 * three + 3 * ((size_t)1 << N) - 1);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void variables_have_names(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_pattern *pattern;
    must(hyp_pattern_parse(eg, "(f ?left (g ?right ?more...) ?left)", &pattern, &diag));
    assert_int_equal(hyp_pattern_variable_count(pattern), 2);
    assert_string_equal(hyp_pattern_variable(pattern, 0), "?left");
    assert_string_equal(hyp_pattern_variable(pattern, 1), "?right");
    assert_null(hyp_pattern_variable(pattern, 2));
    hyp_pattern_destroy(pattern);
    hyp_egraph_destroy(eg);
}

static hyp_status grow(const hyp_match_view *match, void *user, hyp_diag *diag)
{
    found *f = user;
    hyp_symbol plus;
    hyp_class_id made, kids[2] = {match->root, match->variables[0]};
    f->count++;
    HYP_TRY(hyp_egraph_symbol(f->eg, "+", &plus, diag));
    HYP_TRY(hyp_egraph_add(f->eg, plus, kids, 2, &made, NULL, diag));
    hyp_diag said = {0};
    assert_int_equal(hyp_egraph_rebuild(f->eg, &said), HYP_ERR_INVALID_ARGUMENT);
    return hyp_egraph_union(f->eg, made, match->root, NULL, NULL, diag);
}

static void a_callback_may_add_and_stop(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_pattern *pattern;
    term(eg, "(+ a (+ b (+ c d)))");
    must(hyp_pattern_parse(eg, "(+ ?x ?y)", &pattern, &diag));
    found f = {.eg = eg};
    must(hyp_egraph_ematch(eg, pattern, grow, &f, &diag));
    assert_int_equal(f.count, 3);
    hyp_diag said = {0};
    assert_int_equal(hyp_egraph_ematch(eg, pattern, note, &f, &said), HYP_ERR_INVALID_ARGUMENT); /* not rebuilt */
    rebuild_and_check(eg);
    f = (found){.eg = eg, .stop_at = 2};
    assert_int_equal(hyp_egraph_ematch(eg, pattern, note, &f, &said), HYP_ERR_LIMIT);
    assert_int_equal(f.count, 2);
    hyp_pattern_destroy(pattern);
    hyp_egraph_destroy(eg);
}

static void what_is_no_pattern_is_refused(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    static const char *const bad[] = {
        "", "(f", "(?x a)", "(f ?a... ?b...)", "(f a) (g a)", "(f a) => b) (rule x (g a)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hyp_pattern *pattern;
        hyp_diag said = {0};
        if (hyp_pattern_parse(eg, bad[i], &pattern, &said) == HYP_OK) fail_msg("accepted: %s", bad[i]);
        assert_true(said.message[0] != 0);
    }
    hyp_pattern_destroy(NULL);
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_find_what_is_there),   cmocka_unit_test(all_matches_of_a_saturated_sum_are_found),
        cmocka_unit_test(variables_have_names),          cmocka_unit_test(a_callback_may_add_and_stop),
        cmocka_unit_test(what_is_no_pattern_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

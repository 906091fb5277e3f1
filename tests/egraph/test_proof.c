/* Explanations: each proof is replayed by a judge that knows only the rules. */
#include "replay.h"

/* Proves a = b after saturating, and has the proof judged. Returns its steps. */
static size_t judged(hyp_egraph *eg, const char *rules, const char *givens, const char *a, const char *b)
{
    replay judge = replay_open(rules);
    hyp_proof proof;
    must(hyp_egraph_explain(eg, a, b, &proof, &diag));
    check_proof(&judge, givens, &proof, a, b);
    size_t steps = proof.count - 1;
    hyp_proof_dispose(&proof);
    replay_close(&judge);
    return steps;
}

static size_t proved(const char *rules_text, const char *start, const char *goal, size_t iterations)
{
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, rules_text);
    term(eg, start);
    run_checked(eg, rules, iterations);
    hyp_ruleset_destroy(rules); /* proofs outlive the rules */
    term(eg, goal);
    size_t steps = judged(eg, rules_text, "", start, goal);
    judged(eg, rules_text, "", goal, start);
    hyp_egraph_destroy(eg);
    return steps;
}

/* Unites terms that are all in the e-graph already, so that each id stands for the very term. */
static void unite_nodes(hyp_egraph *eg, const char *const (*pairs)[2], size_t count)
{
    hyp_class_id ids[16];
    for (size_t i = 0; i < 2 * count; i++) ids[i] = term(eg, pairs[i / 2][i % 2]);
    for (size_t i = 0; i < count; i++) must(hyp_egraph_union(eg, ids[2 * i], ids[2 * i + 1], NULL, NULL, &diag));
}

static void given_equalities_are_quoted(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    static const char givens[] = "(= a b) (= b c) (= (f a) d) (= (f c) e)";
    unite_nodes(eg, (const char *const[][2]){{"a", "b"}, {"b", "c"}, {"(f a)", "d"}, {"(f c)", "e"}}, 4);
    term(eg, "(g d (f b))");
    term(eg, "(g e d)");
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(judged(eg, "", givens, "a", "c"), 2);
    judged(eg, "", givens, "d", "e");
    judged(eg, "", givens, "(g d (f b))", "(g e d)");
    judged(eg, "", givens, "(g (f a) (f c))", "(g (f b) e)");
    assert_int_equal(judged(eg, "", givens, "a", "a"), 0);
    hyp_egraph_destroy(eg);
}

static void congruence_is_explained_through_its_children(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    static const char givens[] = "(= (f (f (f (f (f a))))) a) (= (f (f (f a))) a)";
    unite_nodes(eg, (const char *const[][2]){{"(f (f (f (f (f a)))))", "a"}, {"(f (f (f a)))", "a"}}, 2);
    must(hyp_egraph_rebuild(eg, &diag));
    judged(eg, "", givens, "(f a)", "a");
    judged(eg, "", givens, "(f (f a))", "a");
    hyp_egraph_destroy(eg);
}

static void theorems_are_explained(void **state)
{
    (void)state;
    assert_int_equal(proved(MATH_RULES, "(+ x 0)", "x", 2), 1);
    proved(MATH_RULES, "(+ (* a x) (* a y))", "(* (+ y x) a)", 4);
    proved(MATH_RULES, "(* (+ x 3) (+ x 1))", "(+ (* x (+ x 1)) (* 3 (+ x 1)))", 4);
    proved(MATH_RULES, "(i (* x (cos x)) x)", "(- (* x (sin x)) (i (* (d x x) (sin x)) x))", 4);
    proved(MATH_RULES, "(- (+ a b) (+ a b))", "0", 4);
    proved(ASSOC_RULES, "(+ 1 (+ 2 (+ 3 (+ 4 (+ 5 6)))))", "(+ 6 (+ 5 (+ 4 (+ 3 (+ 2 1)))))", 20);
}

static void sequences_and_reversed_rules_are_explained(void **state)
{
    (void)state;
    static const char rules[] = "(rule flat (cat ?a... (cat ?b...)) => (cat ?a... ?b...))"
                                "(rule front (cat ?a... end) => (cat start ?a...))"
                                "(birule flip (two ?x (neg ?y)) <=> (one (sub ?x ?y)))"
                                "(rule one (one ?x) => ?x)";
    proved(rules, "(cat a b (cat c d e))", "(cat a b c d e)", 3);
    proved(rules, "(cat a b (cat c end))", "(cat start a b c)", 4);
    proved(rules, "(two a (neg (cat x (cat y z))))", "(sub a (cat x y z))", 4);
    proved(rules, "(one (sub (cat end) b))", "(two (cat start) (neg b))", 4);
}

/* Every equality that an e-graph holds between its own terms can be explained. */
static void all_pairs_of_a_saturated_graph_are_explained(void **state)
{
    (void)state;
    static const char rules_text[] = "(rule comm (f ?a ?b) => (f ?b ?a)) (rule idem (f ?a ?a) => ?a)"
                                     "(rule absorb (f ?a (g ?a ?b)) => ?a) (rule unit (g ?a e) => ?a)"
                                     "(rule swap (g (f ?a ?b) ?a) => (g ?a (f ?a ?b))) (rule ground (g z z) => e)"
                                     "(rule same (g ?x ?x) => (f ?x z))";
    static const char *const leaves[] = {"a", "b", "e", "z"}, *const ops[] = {"f", "g"};
    uint64_t seed = 3;
    size_t proofs = 0;
    for (int round = 0; round < 25; round++) {
        char texts[24][600], givens[3000] = "";
        hyp_class_id ids[24];
        hyp_egraph *eg = new_graph(true, NULL);
        hyp_ruleset *rules = rules_of(eg, rules_text);
        for (uint32_t n = 0; n < 24; n++) {
            uint32_t r = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
            const char *x = texts[r / 4 % (n + !n)], *y = texts[r / 256 % (n + !n)];
            if (n < 4 || strlen(x) > 250 || strlen(y) > 250)
                snprintf(texts[n], sizeof texts[n], "%s", leaves[n % 4]);
            else
                snprintf(texts[n], sizeof texts[n], "(%s %.250s %.250s)", ops[r % 2], x, y);
            if (n == 12) { /* the terms so far stand for themselves; later ones meet what the rules found */
                for (uint32_t i = 4; i < 12; i += 3) {
                    must(hyp_egraph_union(eg, ids[i], ids[i / 2], NULL, NULL, &diag));
                    size_t len = strlen(givens);
                    snprintf(givens + len, sizeof givens - len, "(= %s %s)", texts[i], texts[i / 2]);
                }
                run_checked(eg, rules, 2);
            }
            ids[n] = term(eg, texts[n]);
            if (n > 12 && r % 4 == 0) run_checked(eg, rules, 1);
        }
        run_checked(eg, rules, 20);
        for (int a = 0; a < 24; a++)
            for (int b = 0; b < 24; b++) {
                if (a == b || !equal(eg, texts[a], texts[b])) continue;
                judged(eg, rules_text, givens, texts[a], texts[b]);
                proofs++;
            }
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
    assert_true(proofs > 500);
}

static void rules_with_several_roots_are_explained(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule merge (multi (?a = (mul ?x ?u)) (?b = (mul ?x ?v)))"
                                      " => (union ?a (first (pair ?x ?u ?v))) (union ?b (second (pair ?x ?u ?v))))");
    term(eg, "(mul x p)");
    term(eg, "(neg (mul x q))");
    run_checked(eg, rules, 3);
    hyp_proof proof;
    must(hyp_egraph_explain(eg, "(neg (mul x q))", "(neg (second (pair x p q)))", &proof, &diag));
    assert_int_equal(proof.count, 2);
    assert_string_equal(proof.steps[1].rule, "merge");
    assert_string_equal(proof.steps[1].term, "(neg (second (pair x p q)))");
    hyp_proof_dispose(&proof);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void what_cannot_be_explained_is_said(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL), *plain = new_graph(false, NULL);
    hyp_proof proof;
    hyp_diag diag = {0};
    term(eg, "(f a b)");
    assert_int_equal(hyp_egraph_explain(eg, "a", "c", &proof, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'c' is not in the e-graph"));
    assert_int_equal(hyp_egraph_explain(eg, "a", "b", &proof, &diag), HYP_ERR_MISMATCH);
    assert_int_equal(hyp_egraph_explain(eg, "(f a", "b", &proof, &diag), HYP_ERR_MALFORMED);
    assert_int_equal(hyp_egraph_explain(plain, "a", "b", &proof, &diag), HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_destroy(eg);
    hyp_egraph_destroy(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_equalities_are_quoted),
        cmocka_unit_test(congruence_is_explained_through_its_children),
        cmocka_unit_test(theorems_are_explained),
        cmocka_unit_test(sequences_and_reversed_rules_are_explained),
        cmocka_unit_test(all_pairs_of_a_saturated_graph_are_explained),
        cmocka_unit_test(rules_with_several_roots_are_explained),
        cmocka_unit_test(what_cannot_be_explained_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

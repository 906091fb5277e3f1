/* Explanations: each proof is replayed by the judge of proofs, which knows only the rules; and the judge is judged. */
#include "support.h"

static void refused(const hyp_proof *proof, const char *a, const char *b, hyp_ruleset *rules,
                    const hyp_proof_check_options *options, size_t step, const char *why)
{
    hyp_diag diag = {0};
    size_t at = SIZE_MAX;
    hyp_status status = hyp_proof_check(proof, a, b, &rules, 1, options, &at, &diag);
    if (status != HYP_ERR_MISMATCH || at != step || !strstr(diag.message, why))
        fail_msg("step %zu, %s was wanted; step %zu: %s: %s", step, why, at, hyp_status_name(status), diag.message);
}

/* Proves a = b, and has the proof judged by rules that were read anew. Returns its steps. */
static size_t judged(hyp_egraph *eg, const char *rules_text, const hyp_equation *given, size_t given_count,
                     const char *a, const char *b)
{
    static const hyp_equation none = {"", ""};
    hyp_egraph *other = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(other, rules_text);
    hyp_proof_check_options options = {sizeof options, given ? given : &none, given_count, false};
    hyp_proof proof;
    hyp_shared_proof shared;
    must(hyp_egraph_explain(eg, a, b, &proof, &diag));
    must(hyp_proof_check(&proof, a, b, &rules, 1, &options, NULL, &diag));
    must(hyp_egraph_explain_shared(eg, a, b, &shared, &diag));
    must(hyp_shared_proof_check(&shared, a, b, &rules, 1, &options, NULL, &diag));
    hyp_shared_proof_dispose(&shared);
    size_t steps = proof.count - 1;
    hyp_proof_dispose(&proof);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(other);
    return steps;
}

/* An e-graph that explains, by all applications or only by those that changed something. */
static hyp_egraph *explaining(bool all)
{
    hyp_egraph *eg;
    hyp_egraph_options options = {.size = sizeof options, .explain = true, .explain_all = all};
    must(hyp_egraph_create(&options, &eg, &diag));
    return eg;
}

static size_t proved_by(bool all, const char *rules_text, const char *start, const char *goal, size_t iterations)
{
    hyp_egraph *eg = explaining(all);
    hyp_ruleset *rules = rules_of(eg, rules_text);
    term(eg, start);
    run_checked(eg, rules, iterations);
    hyp_ruleset_destroy(rules); /* proofs outlive the rules */
    term(eg, goal);
    size_t steps = judged(eg, rules_text, NULL, 0, start, goal);
    judged(eg, rules_text, NULL, 0, goal, start);
    hyp_egraph_destroy(eg);
    return steps;
}

static size_t proved(const char *rules_text, const char *start, const char *goal, size_t iterations)
{
    size_t all = proved_by(true, rules_text, start, goal, iterations);
    assert_true(all <= proved_by(false, rules_text, start, goal, iterations));
    return all;
}

/* Unites terms that are all in the e-graph already, so that each id stands for the very term. */
static void unite_nodes(hyp_egraph *eg, const hyp_equation *pairs, size_t count)
{
    hyp_class_id ids[16];
    for (size_t i = 0; i < 2 * count; i++) ids[i] = term(eg, i % 2 ? pairs[i / 2].right : pairs[i / 2].left);
    for (size_t i = 0; i < count; i++) must(hyp_egraph_union(eg, ids[2 * i], ids[2 * i + 1], NULL, NULL, &diag));
}

static void given_equalities_are_quoted(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    static const hyp_equation givens[] = {{"a", "b"}, {"b", "c"}, {"(f a)", "d"}, {"(f c)", "e"}};
    unite_nodes(eg, givens, 4);
    term(eg, "(g d (f b))");
    term(eg, "(g e d)");
    must(hyp_egraph_rebuild(eg, &diag));
    assert_int_equal(judged(eg, "", givens, 4, "a", "c"), 2);
    judged(eg, "", givens, 4, "d", "e");
    judged(eg, "", givens, 4, "(g d (f b))", "(g e d)");
    judged(eg, "", givens, 4, "(g (f a) (f c))", "(g (f b) e)");
    assert_int_equal(judged(eg, "", givens, 4, "a", "a"), 0);
    hyp_egraph_destroy(eg);
}

static void congruence_is_explained_through_its_children(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    static const hyp_equation givens[] = {{"(f (f (f (f (f a)))))", "a"}, {"(f (f (f a)))", "a"}};
    unite_nodes(eg, givens, 2);
    must(hyp_egraph_rebuild(eg, &diag));
    judged(eg, "", givens, 2, "(f a)", "a");
    judged(eg, "", givens, 2, "(f (f a))", "a");
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

/* The forest's paths have 10, 12, 15 steps; egg ends with 13, 15 for 7, 8 terms. */
static void proofs_are_shortened(void **state)
{
    (void)state;
    static const size_t most[] = {9, 12, 14};
    for (int n = 6; n <= 8; n++) {
        char up[128], down[128];
        size_t len = 0;
        chain_text(up, sizeof up, n);
        for (int i = n; i > 1; i--) len += (size_t)snprintf(down + len, sizeof down - len, "(+ %d ", i);
        len += (size_t)snprintf(down + len, sizeof down - len, "1");
        for (int i = 1; i < n; i++) len += (size_t)snprintf(down + len, sizeof down - len, ")");
        hyp_egraph *eg = explaining(true);
        hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
        term(eg, up);
        term(eg, down);
        hyp_egraph_run_report report;
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        hyp_egraph_run_report_dispose(&report);
        assert_in_range(judged(eg, ASSOC_RULES, NULL, 0, up, down), 2 * (size_t)n - 3, most[n - 6]);
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
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
    for (int round = 0; round < 12; round++) {
        char texts[24][600];
        hyp_equation givens[3];
        size_t given = 0;
        hyp_class_id ids[24];
        hyp_egraph *eg = explaining(round % 2);
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
                    givens[given++] = (hyp_equation){texts[i], texts[i / 2]};
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
                judged(eg, rules_text, givens, given, texts[a], texts[b]);
                proofs++;
            }
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
    assert_true(proofs > 250);
}

static void rules_with_several_roots_are_explained(void **state)
{
    (void)state;
    static const char rules_text[] =
        "(rule merge (multi (?a = (mul ?x ?u)) (?b = (mul ?x ?v)))"
        " => (union ?a (first (pair ?x ?u ?v))) (union ?b (second (pair ?x ?u ?v))))"
        "(rule use (multi (?a = (neg ?b)) (?b = (mul ?x ?v))) => (union ?a (mulneg ?x ?v)))"
        "(rule all (multi (?a = (list ?h... end)) (?b = (neg ?a))) =>"
        " (union (boxed ?h...) (box ?b)))"
        "(rule comm (mul ?x ?y) => (mul ?y ?x))";
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, rules_text);
    term(eg, "(mul x p)");
    term(eg, "(neg (mul x q))");
    term(eg, "(neg (list x y end))");
    run_checked(eg, rules, 3);
    assert_int_equal(judged(eg, rules_text, NULL, 0, "(neg (mul x q))", "(neg (second (pair x p q)))"), 1);
    assert_int_equal(judged(eg, rules_text, NULL, 0, "(neg (mul x q))", "(mulneg x q)"), 1);
    judged(eg, rules_text, NULL, 0, "(mulneg q x)", "(neg (second (pair x p q)))");
    judged(eg, rules_text, NULL, 0, "(first (pair x p q))", "(mul p x)");
    assert_int_equal(judged(eg, rules_text, NULL, 0, "(boxed x y)", "(box (neg (list x y end)))"), 1);

    /* A part is a proof of its own. */
    hyp_proof proof;
    const char *a = "(mulneg q x)", *b = "(neg (mul x q))";
    must(hyp_egraph_explain(eg, a, b, &proof, &diag));
    must(hyp_proof_check(&proof, a, b, &rules, 1, NULL, NULL, &diag));
    hyp_proof_step *step = NULL;
    size_t at = 1;
    for (; at < proof.count; at++)
        if (strcmp(proof.steps[at].rule, "use") == 0) step = &proof.steps[at];
    assert_non_null(step);
    at = (size_t)(step - proof.steps);
    assert_int_equal(step->part_count, 2);
    hyp_proof parts[2] = {step->parts[0], step->parts[1]};
    hyp_proof_step other = {.forward = true, .term = "(mul q p)"};
    step->part_count = 1;
    refused(&proof, a, b, rules, NULL, at, "1 parts are proven, the rule has 2");
    step->part_count = 2;
    step->parts = parts;
    parts[1].count = 0;
    refused(&proof, a, b, rules, NULL, at, "part 2: a proof has at least one term");
    parts[1] = (hyp_proof){.steps = &other, .count = 1};
    refused(&proof, a, b, rules, NULL, at, "one use of this rule");
    hyp_proof_dispose(&proof);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- conditions and functions ------------------------------------------------------------------- */

static hyp_status is_even(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)diag;
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(call->eg, call->args[0], &count);
    *out_holds = false;
    for (size_t i = 0; i < count; i++) {
        int value = atoi(hyp_egraph_symbol_name(call->eg, hyp_enode_op(call->eg, nodes[i])));
        if (value && value % 2 == 0) *out_holds = true;
    }
    return HYP_OK;
}

/* Declines what is no number. */
static hyp_status half(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(call->eg, call->args[0], &count);
    *out = HYP_NONE;
    for (size_t i = 0; i < count; i++) {
        char text[16];
        int value = atoi(hyp_egraph_symbol_name(call->eg, hyp_enode_op(call->eg, nodes[i])));
        if (value == 0) continue;
        snprintf(text, sizeof text, "%d", value / 2);
        return hyp_egraph_add_text(call->eg, text, out, diag);
    }
    return HYP_OK;
}

static const char asking_rules[] =
    "(rule shift (* ?x ?n) => (<< (* ?x (half (half ?n))) 2) :if (or (even (box ?n)) (and (even ?n) (even (half ?n)))))"
    "(rule odd (* ?x ?n) => (odd ?x ?n) :if (not (even ?n)))"
    "(rule same (two ?a... ?b) => (two ?b ?a...) :if (all ?a... ?b))"
    "(rule dozen (dozen) => 12)";

static hyp_status always(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)diag;
    *out_holds = call->arg_count == 3;
    return HYP_OK;
}

static hyp_ruleset *asking(hyp_egraph *eg)
{
    must(hyp_egraph_register_condition(eg, "even", 1, is_even, NULL, &diag));
    must(hyp_egraph_register_condition(eg, "all", -1, always, NULL, &diag));
    must(hyp_egraph_register_function(eg, "half", 1, half, NULL, &diag));
    return rules_of(eg, asking_rules);
}

static void answers_are_recorded_and_asked_again(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"(* a 12)", "(<< (* a 3) 2)"},
                                           {"(* a 7)", "(odd a 7)"},
                                           {"(f (two 1 2 3) (* b 8))", "(f (two 2 3 1) (<< (* b 2) 2))"}};
    hyp_egraph *eg = new_graph(true, NULL), *other = new_graph(false, NULL);
    hyp_ruleset *rules = asking(eg), *again = asking(other);
    hyp_proof_check_options ask = {.size = sizeof ask, .ask = true};
    for (size_t i = 0; i < 3; i++) term(eg, pairs[i][0]);
    run_checked(eg, rules, 4);
    for (size_t i = 0; i < 3; i++) {
        hyp_proof proof;
        term(eg, pairs[i][1]);
        must(hyp_egraph_explain(eg, pairs[i][0], pairs[i][1], &proof, &diag));
        must(hyp_proof_check(&proof, pairs[i][0], pairs[i][1], &again, 1, &ask, NULL, &diag));
        hyp_proof_dispose(&proof);
    }

    hyp_proof proof;
    must(hyp_egraph_explain(eg, pairs[0][0], pairs[0][1], &proof, &diag));
    assert_int_equal(proof.count, 2);
    static const struct {
        const char *name, *arg, *result;
        hyp_answer answer;
    } wanted[] = {{"even", "(box 12)", NULL, HYP_ANSWER_ABSENT}, {"even", "12", NULL, HYP_ANSWER_YES},
                  {"half", "12", "6", HYP_ANSWER_TERM},          {"even", "6", NULL, HYP_ANSWER_YES},
                  {"half", "12", "6", HYP_ANSWER_TERM},          {"half", "6", "3", HYP_ANSWER_TERM}};
    assert_int_equal(proof.steps[1].query_count, 6);
    for (size_t i = 0; i < 6; i++) {
        const hyp_proof_query *q = &proof.steps[1].queries[i];
        assert_string_equal(q->name, wanted[i].name);
        assert_string_equal(q->args[0], wanted[i].arg);
        assert_int_equal(q->answer, wanted[i].answer);
        if (q->result) assert_string_equal(q->result, wanted[i].result);
    }

    hyp_proof_query queries[7] = {{0}};
    hyp_proof_step *step = &proof.steps[1];
    const hyp_proof_query *honest = step->queries;
    const char *a = pairs[0][0], *b = pairs[0][1], *wrong[] = {"13"};
    step->queries = queries;
#define CORRUPT(options, why, ...)                                                                                     \
    do {                                                                                                               \
        memcpy(queries, honest, 6 * sizeof *queries);                                                                  \
        __VA_ARGS__;                                                                                                   \
        refused(&proof, a, b, again, options, 1, why);                                                                 \
        step->query_count = 6;                                                                                         \
    } while (0)
    CORRUPT(NULL, "the condition of the rule does not hold", queries[1].answer = HYP_ANSWER_NO, queries[2] = honest[4],
            queries[3] = honest[5], step->query_count = 4);
    CORRUPT(NULL, "even was asked about other terms", queries[1].args = wrong);
    CORRUPT(NULL, "even was asked about other terms", queries[1].arg_count = 0);
    CORRUPT(NULL, "half was asked about other terms", queries[4].args = wrong);
    CORRUPT(NULL, "not recorded what the condition even", step->query_count = 1);
    CORRUPT(NULL, "not recorded what a function", step->query_count = 5);
    CORRUPT(NULL, "half was asked about other terms", queries[4].result = "7"); /* then the outer half is asked of 7 */
    CORRUPT(NULL, "one use of this rule", queries[5].result = "4");
    CORRUPT(NULL, "the function half gave no term", queries[5].answer = HYP_ANSWER_YES);
    CORRUPT(NULL, "even is a condition", queries[3].answer = HYP_ANSWER_TERM);
    CORRUPT(NULL, "which the rule does not ask", queries[6] = honest[0], step->query_count = 7);
    step->term = "(<< (* a 4) 2)"; /* true to the record, but the record is not true */
    b = step->term;
    memcpy(queries, honest, 6 * sizeof *queries);
    queries[5].result = "4";
    must(hyp_proof_check(&proof, a, b, &again, 1, NULL, NULL, &diag));
    refused(&proof, a, b, again, &ask, 1, "asked again, half gives another term than 4");
#undef CORRUPT
    hyp_proof_dispose(&proof);

    must(hyp_egraph_explain(eg, "(* a 7)", "(odd a 7)", &proof, &diag));
    queries[0] = proof.steps[1].queries[0];
    proof.steps[1].queries = queries;
    const char *even[] = {"8"}; /* a lie that holds together, until it is asked again */
    queries[0].args = even;
    proof.steps[0].term = "(* a 8)";
    proof.steps[1].term = "(odd a 8)";
    must(hyp_proof_check(&proof, "(* a 8)", "(odd a 8)", &again, 1, NULL, NULL, &diag));
    refused(&proof, "(* a 8)", "(odd a 8)", again, &ask, 1, "asked again, even answers yes");
    hyp_proof_dispose(&proof);

    /* That a dozen is even took a rule that this proof has no step of, so it cannot be seen again. */
    a = "(* c (dozen))", b = "(<< (* c 3) 2)";
    term(eg, a);
    run_checked(eg, rules, 6);
    must(hyp_egraph_explain(eg, a, b, &proof, &diag));
    must(hyp_proof_check(&proof, a, b, &again, 1, NULL, NULL, &diag));
    refused(&proof, a, b, again, &ask, 1, "asked again, even answers no");
    hyp_proof_dispose(&proof);
    hyp_ruleset_destroy(rules);
    hyp_ruleset_destroy(again);
    hyp_egraph_destroy(eg);
    hyp_egraph_destroy(other);
}

/* ---- the judge ---------------------------------------------------------------------------------- */

static void corrupted_proofs_are_refused(void **state)
{
    (void)state;
    static const char *const a = "(f (+ 1 (+ 2 3)))", *const b = "(f (+ 3 (+ 1 2)))";
    static const hyp_equation stated[] = {{"(g a)", "b"}};
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES), *others = rules_of(eg, "(rule other (f ?x) => ?x)");
    hyp_proof proof, copy;
    term(eg, a);
    run_checked(eg, rules, 4);
    term(eg, b);
    must(hyp_egraph_explain(eg, a, b, &proof, &diag));
    must(hyp_proof_check(&proof, a, b, &rules, 1, NULL, NULL, &diag));
    assert_true(proof.count >= 3);
    hyp_proof_step steps[16];
    assert_in_range(proof.count, 3, 15);
#define CORRUPT(step, why, ...)                                                                                        \
    do {                                                                                                               \
        memcpy(steps, proof.steps, proof.count * sizeof *steps);                                                       \
        copy = (hyp_proof){steps, proof.count, NULL};                                                                  \
        __VA_ARGS__;                                                                                                   \
        refused(&copy, a, b, rules, NULL, step, why);                                                                  \
    } while (0)
    size_t last = proof.count - 1;
    CORRUPT(1, "one use of this rule", steps[1].term = "(f (+ 1 (+ 3 4)))");
    CORRUPT(1, "one use of this rule", steps[1].term = steps[0].term);
    CORRUPT(1, "there is no rule of this name", steps[1].rule = "other");
    CORRUPT(1, "one use of this rule",
            steps[1].rule = strcmp(steps[1].rule, "comm-add") == 0 ? "assoc-add" : "comm-add");
    CORRUPT(1, "is not a term", steps[1].term = "(f (+ 1");
    CORRUPT(1, "one term was wanted", steps[1].term = "a b");
    CORRUPT(1, "begins with an operator", steps[1].term = "((f))");
    CORRUPT(1, "a term is missing", steps[1].term = NULL);
    CORRUPT(1, "it names no rule", steps[1].rule = NULL);
    CORRUPT(0, "uses no rule", steps[0].rule = "comm-add");
    CORRUPT(0, "at least one term", copy.count = 0);
    CORRUPT(last - 1, "the proof ends with", copy.count = last);
    CORRUPT(1, "one use of this rule", memmove(steps + 1, steps + 2, (last - 1) * sizeof *steps), copy.count = last);
    CORRUPT(0, "the proof begins with", copy.steps = steps + 1, copy.count = last, steps[1].rule = NULL);
    CORRUPT(1, "parts are proven", steps[1].parts = &proof, steps[1].part_count = 1);
    CORRUPT(1, "the rule does not ask", steps[1].queries = &(hyp_proof_query){.name = "even"},
            steps[1].query_count = 1);
    for (size_t i = 1; i <= last; i++)
        if (strcmp(proof.steps[i].rule, "assoc-add") == 0)
            CORRUPT(i, "one use of this rule", steps[i].forward = !steps[i].forward);
#undef CORRUPT
    refused(&proof, a, b, others, NULL, 1, "there is no rule of this name");
    hyp_ruleset *both[] = {others, rules};
    must(hyp_proof_check(&proof, a, b, both, 2, NULL, NULL, &diag));
    hyp_proof_dispose(&proof);

    /* What was stated passes if it was given. */
    unite_nodes(eg, stated, 1);
    must(hyp_egraph_rebuild(eg, &diag));
    term(eg, "(h (g a))");
    must(hyp_egraph_explain(eg, "(h (g a))", "(h b)", &proof, &diag));
    assert_true(proof.steps[1].stated);
    hyp_proof_check_options given = {.size = sizeof given, .given = stated, .given_count = 1};
    must(hyp_proof_check(&proof, "(h (g a))", "(h b)", NULL, 0, NULL, NULL, &diag));
    must(hyp_proof_check(&proof, "(h (g a))", "(h b)", NULL, 0, &given, NULL, &diag));
    given.given_count = 0;
    refused(&proof, "(h (g a))", "(h b)", rules, &given, 1, "this equality was not given");
    proof.steps[1].query_count = 1;
    refused(&proof, "(h (g a))", "(h b)", rules, &given, 1, "asks nothing");
    proof.steps[1].query_count = 0;
    proof.steps[1].stated = false;
    refused(&proof, "(h (g a))", "(h b)", rules, &given, 1, "there is no rule of this name");
    hyp_proof_dispose(&proof);
    hyp_ruleset_destroy(rules);
    hyp_ruleset_destroy(others);
    hyp_egraph_destroy(eg);
}

/* (f x x) over and over: as a tree it has 2^depth leaves. */
static hyp_class_id doubled(hyp_egraph *eg, const char *leaf, int depth)
{
    hyp_class_id id = term(eg, leaf);
    hyp_symbol f;
    must(hyp_egraph_symbol(eg, "f", &f, &diag));
    for (int i = 0; i < depth; i++) must(hyp_egraph_add(eg, f, (hyp_class_id[]){id, id}, 2, &id, NULL, &diag));
    return id;
}

static void shared_proofs_stay_small(void **state)
{
    (void)state;
    enum { DEPTH = 60 };
    hyp_egraph *eg = explaining(false);
    hyp_ruleset *rules = rules_of(eg, "(rule flip a => b)");
    hyp_shared_proof shared;
    hyp_proof flat;
    hyp_symbol p, q;
    must(hyp_egraph_symbol(eg, "p", &p, &diag));
    must(hyp_egraph_symbol(eg, "q", &q, &diag));
    hyp_class_id left = doubled(eg, "a", DEPTH), right = doubled(eg, "b", DEPTH), ids[2];
    must(hyp_egraph_add(eg, p, &left, 1, &ids[0], NULL, &diag));
    must(hyp_egraph_add(eg, q, &right, 1, &ids[1], NULL, &diag));
    must(hyp_egraph_union(eg, ids[0], term(eg, "start"), NULL, NULL, &diag));
    must(hyp_egraph_union(eg, ids[1], term(eg, "goal"), NULL, NULL, &diag));
    must(hyp_egraph_add(eg, p, &right, 1, &ids[0], NULL, &diag)); /* (p ...b...) is (q ...b...) */
    must(hyp_egraph_union(eg, ids[0], ids[1], "given", NULL, &diag));
    run_checked(eg, rules, 3);
    must(hyp_egraph_explain_shared(eg, "start", "goal", &shared, &diag));
    assert_true(shared.lemma_count < 2 * DEPTH && shared.term_count < 3 * DEPTH);
    must(hyp_shared_proof_check(&shared, "start", "goal", &rules, 1, NULL, NULL, &diag));
    hyp_diag why = {0};
    assert_int_equal(hyp_shared_proof_flatten(&shared, &flat, &why), HYP_ERR_LIMIT);
    assert_non_null(strstr(why.message, "ask for the shared one"));
    assert_int_equal(hyp_egraph_explain(eg, "start", "goal", &flat, &why), HYP_ERR_LIMIT);
    hyp_shared_proof_dispose(&shared);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* Deeper than calls can be nested. */
static void deep_terms_are_shared(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    hyp_egraph *eg = explaining(false);
    hyp_class_id id = term(eg, "a");
    hyp_symbol f;
    hyp_shared_proof shared;
    hyp_proof flat;
    hyp_diag why = {0};
    hyp_proof_check_options ask = {.size = sizeof ask, .ask = true};
    must(hyp_egraph_symbol(eg, "f", &f, &diag));
    for (int i = 0; i < DEPTH; i++) must(hyp_egraph_add(eg, f, &id, 1, &id, NULL, &diag));
    must(hyp_egraph_union(eg, id, term(eg, "b"), "given", NULL, &diag));
    must(hyp_egraph_union(eg, id, term(eg, "c"), "given", NULL, &diag));
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_explain_shared(eg, "b", "c", &shared, &diag));
    assert_int_equal(shared.term_count, DEPTH + 3);
    hyp_ruleset *rules = rules_of(eg, "");
    must(hyp_shared_proof_check(&shared, "b", "c", &rules, 1, &ask, NULL, &diag));
    assert_int_equal(hyp_shared_proof_flatten(&shared, &flat, &why), HYP_ERR_LIMIT);
    hyp_shared_proof_dispose(&shared);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void refused_shared(const hyp_shared_proof *proof, hyp_ruleset *rules, const char *why)
{
    hyp_diag said = {0};
    hyp_status status = hyp_shared_proof_check(proof, "(+ a (+ 0 b))", "(+ b a)", &rules, 1, NULL, NULL, &said);
    if (status != HYP_ERR_MISMATCH || !strstr(said.message, why))
        fail_msg("%s was wanted: %s: %s", why, hyp_status_name(status), said.message);
}

static void corrupted_shared_proofs_are_refused(void **state)
{
    (void)state;
    hyp_egraph *eg = explaining(false);
    hyp_ruleset *rules = rules_of(eg, "(rule comm (+ ?x ?y) => (+ ?y ?x)) (rule zero (+ 0 ?x) => ?x)");
    hyp_shared_proof p;
    term(eg, "(+ a (+ 0 b))");
    run_checked(eg, rules, 3);
    must(hyp_egraph_explain_shared(eg, "(+ a (+ 0 b))", "(+ b a)", &p, &diag));
    must(hyp_shared_proof_check(&p, "(+ a (+ 0 b))", "(+ b a)", &rules, 1, NULL, NULL, &diag));
    assert_true(p.lemma_count >= 3);
    for (size_t i = 0; i < p.lemma_count; i++) {
        hyp_lemma *l = &p.lemmas[i], whole = *l;
        l->from = (uint32_t)p.term_count;
        refused_shared(&p, rules, "a term that is not there");
        *l = whole;
        l->from = whole.to;
        l->to = whole.from;
        if (l->kind == HYP_LEMMA_CHAIN) refused_shared(&p, rules, "begins at another term");
        if (l->kind == HYP_LEMMA_CONGRUENCE) refused_shared(&p, rules, "not one operator over");
        *l = whole;
        if (l->kind == HYP_LEMMA_RULE) {
            l->rule = "nosuch";
            refused_shared(&p, rules, "there is no rule of this name");
            l->rule = strcmp(whole.rule, "comm") == 0 ? "zero" : "comm";
            refused_shared(&p, rules, "does not lead from");
            *l = whole;
        }
        l->kind = HYP_LEMMA_CHAIN;
        l->uses = NULL;
        l->use_count = l->query_count = 0;
        refused_shared(&p, rules, "the chain ends at another term");
        *l = whole;
        if (!whole.use_count) continue;
        ((hyp_lemma_use *)l->uses)[0].lemma = (uint32_t)i; /* of itself */
        refused_shared(&p, rules, "a lemma that is not before it");
        ((hyp_lemma_use *)l->uses)[0].lemma = UINT32_MAX;
        refused_shared(&p, rules, "no lemma says");
        hyp_shared_proof_dispose(&p);
        must(hyp_egraph_explain_shared(eg, "(+ a (+ 0 b))", "(+ b a)", &p, &diag));
    }
    hyp_lemma_use claim = p.claim;
    p.claim = (hyp_lemma_use){claim.from, claim.from, UINT32_MAX};
    refused_shared(&p, rules, "ends with another term");
    p.claim = (hyp_lemma_use){claim.to, claim.from, claim.lemma};
    refused_shared(&p, rules, "begins with another term");
    p.claim = claim;
    ((uint32_t *)p.terms[p.term_count - 1].kids)[0] = (uint32_t)p.term_count;
    refused_shared(&p, rules, "a child that is not before it");
    hyp_shared_proof_dispose(&p);
    hyp_shared_proof_dispose(&p); /* twice is once */
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
        cmocka_unit_test(proofs_are_shortened),
        cmocka_unit_test(sequences_and_reversed_rules_are_explained),
        cmocka_unit_test(all_pairs_of_a_saturated_graph_are_explained),
        cmocka_unit_test(rules_with_several_roots_are_explained),
        cmocka_unit_test(answers_are_recorded_and_asked_again),
        cmocka_unit_test(corrupted_proofs_are_refused),
        cmocka_unit_test(shared_proofs_stay_small),
        cmocka_unit_test(deep_terms_are_shared),
        cmocka_unit_test(corrupted_shared_proofs_are_refused),
        cmocka_unit_test(what_cannot_be_explained_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is asked many times of one e-graph: extractions that remember, and proofs that share their terms. Each answer is
 * the one that the question gets alone. */
#include "base/diag.h"
#include "base/mem.h"
#include "egraph/extract/memo.h"
#include "egraph/prove/explainer.h"
#include "support.h"

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

/* ---- extraction --------------------------------------------------------------------------------- */

enum { CLASSES = 8, NODES = 16, KIDS = 24 };

/* A problem for `copies` of one, which share nothing; each is acyclic as a whole, so that there is an answer. */
static hyp_problem copied_problem(uint64_t seed, uint32_t copies)
{
    hyp_problem p;
    uint32_t node = 0, kid = 0, made = 0;
    must(hyp_problem_alloc(&p, CLASSES * copies, NODES * copies, KIDS * copies, copies, &diag));
    for (uint32_t i = 0; i < copies; i++) {
        uint64_t same = seed;
        for (uint32_t n = 0; n < NODES; n++, node++) {
            uint32_t c = n < CLASSES ? n : draw(&same, CLASSES);
            p.owner[node] = i * CLASSES + c;
            p.cost[node] = 1 + draw(&same, 50) * 0.1;
            p.kid_at[node] = kid;
            for (uint32_t k = c ? draw(&same, 4) : 0; k > 0 && kid < KIDS * (i + 1); k--)
                p.kids[kid++] = i * CLASSES + draw(&same, c);
        }
        p.roots[made++] = i * CLASSES + CLASSES - 1;
    }
    p.kid_at[node] = kid;
    must(hyp_problem_link(&p, &diag));
    return p;
}

static void unlink_problem(hyp_problem *p)
{
    hyp_free(p->up_at);
    hyp_free(p->up);
    p->up_at = p->up = NULL;
}

static double solved(hyp_problem *p, uint64_t work, hyp_extraction *out)
{
    uint32_t choice[CLASSES * 9];
    hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = work};
    *out = (hyp_extraction){0};
    unlink_problem(p);
    must(hyp_problem_solve(p, &options, choice, out, &diag));
    return out->dag_cost;
}

static void equal_parts_have_equal_answers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        hyp_problem one = copied_problem(seed, 1), many = copied_problem(seed, 9);
        hyp_extraction alone, together;
        double cost = solved(&one, 0, &alone);
        assert_true(fabs(solved(&many, 0, &together) - 9 * cost) < 1e-9 * cost);
        assert_true(together.proven == alone.proven && fabs(together.lower_bound - 9 * alone.lower_bound) < 1e-6);
        for (uint64_t work = 1; work < 100000; work *= 10) { /* what is known may cost more than there is left */
            assert_true(solved(&many, work, &together) >= 9 * cost - 1e-9);
            assert_true(together.lower_bound <= 9 * cost + 1e-9);
        }
        hyp_problem_dispose(&one);
        hyp_problem_dispose(&many);
    }
}

/* Only what is equal in every number is known. */
static void a_memo_knows_what_it_was_told(void **state)
{
    (void)state;
    hyp_extract_memo *memo;
    const hyp_memo_answer *found;
    must(hyp_memo_create(&memo, &diag));
    for (int round = 0; round < 2; round++)
        for (uint64_t seed = 1; seed <= 200; seed++) {
            hyp_problem p = copied_problem(seed, 1);
            uint32_t choice[CLASSES];
            for (uint32_t c = 0; c < CLASSES; c++) choice[c] = (uint32_t)seed + c;
            hyp_memo_answer answer = {.choice = choice, .dag_cost = (double)seed, .work = seed, .proven = seed % 2};
            must(hyp_memo_find(memo, &p, 7, &found, &diag));
            assert_true((found != NULL) == (round == 1));
            if (found) {
                assert_memory_equal(found->choice, choice, sizeof choice);
                assert_true(found->work == seed && found->proven == answer.proven && found->dag_cost == answer.dag_cost);
                uint32_t *const words[] = {&p.owner[NODES - 1], &p.kids[0], &p.roots[0], &p.kid_at[1]};
                for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
                    if (i == 1 && !p.kid_at[NODES]) continue;
                    ++*words[i];
                    must(hyp_memo_find(memo, &p, 7, &found, &diag));
                    assert_null(found);
                    --*words[i];
                }
                p.cost[3] += 0.5;
                must(hyp_memo_find(memo, &p, 7, &found, &diag));
                assert_null(found);
                p.cost[3] -= 0.5;
                must(hyp_memo_find(memo, &p, 8, &found, &diag));
                assert_null(found);
            } else {
                must(hyp_memo_add(memo, &answer, &diag));
            }
            hyp_problem_dispose(&p);
        }
    hyp_memo_destroy(memo);
    hyp_memo_destroy(NULL);
}

static double by_operator(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    const double *factor = user;
    const char *name = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    return *factor * (1 + (name[0] * 7 + (int)strlen(name)) % 11);
}

static hyp_egraph *algebra(bool explain, hyp_ruleset **rules)
{
    hyp_egraph *eg = new_graph(explain, NULL);
    *rules = rules_of(eg, MATH_RULES);
    term(eg, "(d x (* (+ x 1) (* y (+ x z))))");
    term(eg, "(i (* (sin x) (+ 1 (pow x 2))) x)");
    run_checked(eg, *rules, 4);
    return eg;
}

static void extractions_that_remember_are_the_same(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = algebra(false, &rules);
    hyp_extract_memo *memo;
    must(hyp_memo_create(&memo, &diag));
    size_t bound = hyp_egraph_class_bound(eg), compared = 0;
    for (int round = 0; round < 2; round++)
        for (double factor = 1; factor < 3; factor++)
            for (hyp_class_id c = 0; c < bound; c += 7) {
                hyp_class_id roots[2] = {hyp_egraph_find(eg, c), hyp_egraph_find(eg, (hyp_class_id)(c * 31 % bound))};
                hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = 20000};
                hyp_extraction alone, again;
                must(hyp_egraph_extract_with(eg, roots, 2, &options, by_operator, &factor, &alone, &diag));
                must(hyp_egraph_extract_again(eg, roots, 2, &options, by_operator, &factor, memo, &again, &diag));
                assert_memory_equal(alone.choice, again.choice, bound * sizeof *alone.choice);
                assert_true(alone.dag_cost == again.dag_cost && alone.tree_cost == again.tree_cost);
                assert_true(alone.lower_bound == again.lower_bound && alone.proven == again.proven);
                hyp_extraction_dispose(&alone);
                hyp_extraction_dispose(&again);
                compared++;
            }
    assert_true(compared > 100);
    hyp_memo_destroy(memo);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- proofs ------------------------------------------------------------------------------------- */

static char *flat(const hyp_shared_proof *proof, size_t *out_steps)
{
    hyp_proof list;
    hyp_diag why = {0};
    *out_steps = 0;
    hyp_status status = hyp_shared_proof_flatten(proof, &list, &why);
    if (status == HYP_ERR_LIMIT) return NULL;
    assert_int_equal(status, HYP_OK);
    size_t size = 1;
    for (size_t i = 0; i < list.count; i++) size += strlen(list.steps[i].term) + 64;
    char *text = calloc(size, 1);
    assert_non_null(text);
    for (size_t i = 0, len = 0; i < list.count; i++)
        len += (size_t)snprintf(text + len, size - len, "%s %.50s %d\n", list.steps[i].term,
                                list.steps[i].rule ? list.steps[i].rule : "", list.steps[i].forward);
    *out_steps = list.count;
    hyp_proof_dispose(&list);
    return text;
}

/* Asks for a proof of two e-nodes of a class, alone and of who has proven others before. */
static void compare_proofs(hyp_egraph *eg, hyp_explainer *x, hyp_checker *judge, hyp_enode_id a, hyp_enode_id b)
{
    hyp_shared_proof alone;
    const hyp_shared_proof *again;
    size_t terms, steps, same_steps;
    must(hyp_egraph_explain_nodes(eg, a, b, &alone, &diag));
    must(hyp_explainer_nodes(x, a, b, &again, &terms, &diag));
    must(hyp_judge_check(judge, again, &diag));
    assert_int_equal(terms, alone.term_count);
    assert_int_equal(again->lemma_count, alone.lemma_count);
    char *text = flat(&alone, &steps), *same = flat(again, &same_steps);
    assert_int_equal(steps, same_steps);
    if (text) assert_string_equal(text, same);
    free(text);
    free(same);
    hyp_shared_proof_dispose(&alone);
}

static void proofs_that_share_terms_are_the_same(void **state)
{
    (void)state;
    hyp_ruleset *rules;
    hyp_egraph *eg = algebra(true, &rules);
    hyp_explainer *x;
    hyp_checker *judge;
    uint64_t seed = 5;
    must(hyp_explainer_create(eg, &x, &diag));
    must(hyp_judge_create(&rules, 1, &judge, &diag));
    for (size_t tried = 0; tried < 400;) {
        size_t count;
        hyp_class_id c = hyp_egraph_find(eg, draw(&seed, (uint32_t)hyp_egraph_class_bound(eg)));
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
        if (count < 2) continue;
        hyp_enode_id a = nodes[draw(&seed, (uint32_t)count)], b = nodes[draw(&seed, (uint32_t)count)];
        compare_proofs(eg, x, judge, a, b);
        tried++;
    }
    hyp_judge_destroy(judge);
    hyp_explainer_destroy(x);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A judge that has seen right proofs sees a wrong one, also where its terms are old. */
static void a_judge_of_many_refuses_one(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule one (f ?x) => (g ?x)) (rule two (g ?x) => (h ?x))");
    hyp_explainer *x;
    hyp_checker *judge;
    const hyp_shared_proof *proof;
    hyp_diag why = {0};
    size_t terms;
    hyp_class_id outer = term(eg, "(f (f a))"), inner = term(eg, "(f a)");
    run_checked(eg, rules, 5);
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, hyp_egraph_find(eg, outer), &count);
    hyp_enode_id f = nodes[0], h = nodes[count - 1];
    assert_true(count == 3);
    must(hyp_explainer_create(eg, &x, &diag));
    must(hyp_judge_create(&rules, 1, &judge, &diag));
    must(hyp_explainer_nodes(x, f, h, &proof, &terms, &diag));
    must(hyp_judge_check(judge, proof, &diag));
    hyp_shared_proof wrong = *proof;
    wrong.lemma_count = 0;
    assert_int_equal(hyp_judge_check(judge, &wrong, &why), HYP_ERR_MISMATCH);
    wrong = *proof;
    wrong.term_count--;
    assert_int_equal(hyp_judge_check(judge, &wrong, &why), HYP_ERR_MISMATCH);
    for (size_t i = 0; i < proof->lemma_count; i++) {
        hyp_lemma *lemma = &((hyp_lemma *)proof->lemmas)[i];
        if (lemma->kind != HYP_LEMMA_RULE) continue;
        const char *rule = lemma->rule;
        lemma->rule = strcmp(rule, "one") == 0 ? "two" : "one";
        assert_int_equal(hyp_judge_check(judge, proof, &why), HYP_ERR_MISMATCH);
        lemma->rule = rule;
    }
    must(hyp_judge_check(judge, proof, &diag));
    assert_int_equal(hyp_explainer_nodes(x, f, inner, &proof, &terms, &why), HYP_ERR_MISMATCH);
    assert_int_equal(hyp_explainer_nodes(x, f, UINT32_MAX, &proof, &terms, &why), HYP_ERR_INVALID_ARGUMENT);
    must(hyp_explainer_nodes(x, h, f, &proof, &terms, &diag)); /* it goes on */
    must(hyp_judge_check(judge, proof, &diag));
    hyp_judge_destroy(judge);
    hyp_explainer_destroy(x);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* Everything above, as far as memory goes. */
static hyp_status ask_all(hyp_egraph *eg, hyp_ruleset *rules, hyp_enode_id a, hyp_enode_id b)
{
    hyp_diag why = {0};
    hyp_extract_memo *memo = NULL;
    hyp_explainer *x = NULL;
    hyp_checker *judge = NULL;
    const hyp_shared_proof *proof;
    size_t terms;
    double factor = 1;
    hyp_class_id root = hyp_egraph_find(eg, a);
    hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = 2000};
    hyp_status status = hyp_memo_create(&memo, &why);
    for (int i = 0; i < 2 && status == HYP_OK; i++) {
        hyp_extraction out;
        status = hyp_egraph_extract_again(eg, &root, 1, &options, by_operator, &factor, memo, &out, &why);
        if (status == HYP_OK) hyp_extraction_dispose(&out);
    }
    if (status == HYP_OK) status = hyp_explainer_create(eg, &x, &why);
    if (status == HYP_OK) status = hyp_judge_create(&rules, 1, &judge, &why);
    for (int i = 0; i < 2 && status == HYP_OK; i++) {
        status = hyp_explainer_nodes(x, i ? b : a, i ? a : b, &proof, &terms, &why);
        if (status == HYP_OK) status = hyp_judge_check(judge, proof, &why);
    }
    hyp_judge_destroy(judge);
    hyp_explainer_destroy(x);
    hyp_memo_destroy(memo);
    return status;
}

static void memory_may_end(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    hyp_class_id a = term(eg, "(+ x (+ y (+ z w)))"), b = term(eg, "(+ (+ w z) (+ y x))");
    run_checked(eg, rules, 20);
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status != HYP_OK; n++) {
        hyp_mem_fail_after(n);
        status = ask_all(eg, rules, a, b);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        assert_true(n < 100000);
    }
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_parts_have_equal_answers),
        cmocka_unit_test(a_memo_knows_what_it_was_told),
        cmocka_unit_test(extractions_that_remember_are_the_same),
        cmocka_unit_test(proofs_that_share_terms_are_the_same),
        cmocka_unit_test(a_judge_of_many_refuses_one),
        cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

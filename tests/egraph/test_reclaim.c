/* Who lets an e-graph give e-nodes new ids has one that stays as large as what lives, and that is otherwise the same. */
#include "base/diag.h"
#include "base/mem.h"
#include "depth.h"

enum { KEPT = 3 };

/* Ids that are kept over renumberings, and how many there were. */
typedef struct keeper {
    hyp_class_id classes[KEPT];
    hyp_enode_id nodes[KEPT];
    size_t times;
} keeper;

static void renumbered(hyp_egraph *eg, const hyp_renumbering *now, void *user)
{
    keeper *k = user;
    k->times++;
    assert_true(now->bound > hyp_egraph_enode_bound(eg));
    for (size_t i = 0; i < now->bound; i++) { /* every id of before has an answer */
        assert_int_equal(hyp_egraph_find(eg, now->classes[i]), now->classes[i]);
        assert_true(now->nodes[i] == HYP_NONE || now->nodes[i] < hyp_egraph_enode_bound(eg));
    }
    for (size_t i = 0; i < KEPT; i++) {
        if (k->classes[i] != HYP_NONE) k->classes[i] = now->classes[k->classes[i]];
        if (k->nodes[i] != HYP_NONE) k->nodes[i] = now->nodes[k->nodes[i]];
    }
    assert_int_equal(hyp_egraph_rebuild(eg, NULL), HYP_ERR_INVALID_ARGUMENT); /* it may only read */
    assert_int_equal(hyp_egraph_compact(eg, NULL, 0, NULL, 0, NULL), HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_destroy(eg);
}

static hyp_egraph *new_small(bool told, bool analysed, keeper *k)
{
    hyp_egraph *eg;
    const hyp_analysis analysis = {.data_size = sizeof(fact), .make = make, .merge = merge};
    hyp_egraph_options options = {.size = sizeof options,
                                  .analysis = analysed ? &analysis : NULL,
                                  .renumbered = told ? renumbered : NULL,
                                  .renumbered_user = k};
    memset(k, 0xff, sizeof *k); /* HYP_NONE */
    k->times = 0;
    must(hyp_egraph_create(&options, &eg, &diag));
    return eg;
}

/* So many terms over a leaf that turns out to be another one: all of them die. */
static void add_and_merge(hyp_egraph *eg, size_t round, size_t terms)
{
    char text[64];
    hyp_class_id below;
    snprintf(text, sizeof text, "leaf%zu", round % 50);
    must(hyp_egraph_add_text(eg, text, &below, &diag));
    hyp_symbol pair, three;
    must(hyp_egraph_symbol(eg, "pair", &pair, &diag));
    must(hyp_egraph_symbol(eg, "three", &three, &diag));
    hyp_class_id x = below, first = term(eg, "leaf0");
    for (size_t i = 0; i < terms; i++) {
        must(hyp_egraph_add(eg, pair, (hyp_class_id[]){x, below}, 2, &x, NULL, &diag));
        if (i % 8 == 0) must(hyp_egraph_add(eg, three, (hyp_class_id[]){x, first, below}, 3, &x, NULL, &diag));
    }
    must(hyp_egraph_union(eg, below, first, NULL, NULL, &diag));
    must(hyp_egraph_rebuild(eg, &diag));
}

/* What is added and dies again costs no memory in the end, and what lives is what it is without. */
static void what_dies_is_reclaimed(void **state)
{
    (void)state;
    enum { ROUNDS = 50, TERMS = 400 };
    for (int analysed = 0; analysed < 2; analysed++) {
        keeper k, other;
        hyp_egraph *eg = new_small(true, analysed, &k), *plain = new_small(false, analysed, &other);
        term(eg, "leaf0"), term(plain, "leaf0");
        size_t most = 0;
        for (size_t round = 0; round < ROUNDS; round++) {
            add_and_merge(eg, round, TERMS);
            add_and_merge(plain, round, TERMS);
            must(hyp_egraph_check(eg, &diag));
            assert_int_equal(hyp_egraph_node_count(eg), hyp_egraph_node_count(plain));
            assert_int_equal(hyp_egraph_class_count(eg), hyp_egraph_class_count(plain));
            if (round == 0) k.classes[0] = term(eg, "(pair leaf0 leaf0)"), k.classes[1] = term(eg, "leaf0");
            assert_int_equal(hyp_egraph_find(eg, k.classes[0]), term(eg, "(pair leaf0 leaf0)"));
            assert_int_equal(hyp_egraph_find(eg, k.classes[1]), term(eg, "leaf0"));
            if (hyp_egraph_enode_bound(eg) > most) most = hyp_egraph_enode_bound(eg);
        }
        assert_true(k.times > 2 && k.times <= ROUNDS);
        assert_true(hyp_egraph_enode_bound(plain) > ROUNDS * TERMS);
        assert_true(most <= 2 * hyp_egraph_node_count(eg) + 2 * TERMS + 2100); /* two halves, a round, and what is too few */
        if (analysed) {
            fact *a = hyp_egraph_data(eg, k.classes[0]), *b = hyp_egraph_data(plain, term(plain, "(pair leaf0 leaf0)"));
            assert_int_equal(a->depth, b->depth);
        }
        hyp_egraph_destroy(eg);
        hyp_egraph_destroy(plain);
    }
}

/* Runs are the same whether ids change meanwhile or not. */
static void runs_go_on_when_ids_change(void **state)
{
    (void)state;
    for (int analysed = 0; analysed < 2; analysed++) {
        keeper k, other;
        hyp_egraph *eg = new_small(true, analysed, &k), *plain = new_small(false, analysed, &other);
        hyp_egraph *both[2] = {eg, plain};
        hyp_ruleset *rules[2];
        for (int i = 0; i < 2; i++) {
            must(hyp_egraph_register_condition(both[i], "deep", 1, deep, NULL, &diag));
            rules[i] = rules_of(both[i], MATH_RULES "(rule if-deep (cos ?x) => (l ?x ?x ?x ?x) :if (deep ?x))"
                                                    "(rule fold (pair ?x ?y) => ?x)");
            add_math_terms(both[i]);
            term(both[i], "leaf0");
        }
        k.classes[0] = term(eg, "(d x (+ 1 (* 2 x)))");
        for (size_t i = 0; i < 12; i++) {
            hyp_egraph_run_report mine, theirs;
            for (int j = 0; j < 2; j++) add_and_merge(both[j], i + 1, 1200 + i);
            run(eg, rules[0], 1, &mine);
            run(plain, rules[1], 1, &theirs);
            assert_same_run(&mine, &theirs);
            must(hyp_egraph_check(eg, &diag));
            assert_int_equal(hyp_egraph_find(eg, k.classes[0]), term(eg, "(d x (+ 1 (* 2 x)))"));
        }
        assert_true(k.times > 2);
        for (int i = 0; i < 2; i++) hyp_ruleset_destroy(rules[i]), hyp_egraph_destroy(both[i]);
    }
}

/* A pop finds what its push has noted, whatever was reclaimed between; and in the end nothing is left of it. */
static void pushes_and_pops_stay_small(void **state)
{
    (void)state;
    keeper k, other;
    hyp_egraph *eg = new_small(true, true, &k), *plain = new_small(false, true, &other);
    term(eg, "leaf0"), term(plain, "leaf0");
    add_and_merge(eg, 1, 300);
    add_and_merge(plain, 1, 300);
    hyp_class_id c = term(eg, "(pair leaf0 leaf1)");
    size_t most = 0, base = hyp_egraph_enode_bound(eg);
    for (size_t i = 0; i < 60; i++) {
        must(hyp_egraph_push(eg, &diag));
        size_t nodes = hyp_egraph_node_count(eg), bound = hyp_egraph_enode_bound(eg), classes = hyp_egraph_class_count(eg);
        assert_int_equal(hyp_egraph_node_count(plain), nodes);
        for (size_t j = 0; j < 6; j++) {
            add_and_merge(eg, 2 + j, 900);
            assert_int_equal(hyp_egraph_find(eg, c), term(eg, "(pair leaf0 leaf1)"));
            if (j != 2) continue;
            must(hyp_egraph_push(eg, &diag));
            unite(eg, "leaf0", "(pair leaf0 leaf1)");
            must(hyp_egraph_rebuild(eg, &diag));
            must(hyp_egraph_compact(eg, NULL, 0, NULL, 0, &diag));
            must(hyp_egraph_check(eg, &diag));
            if (i % 2) must(hyp_egraph_pop(eg, &diag));
        }
        must(hyp_egraph_check(eg, &diag));
        if (hyp_egraph_enode_bound(eg) > most) most = hyp_egraph_enode_bound(eg);
        must(hyp_egraph_pop(eg, &diag));
        if (i % 2 == 0) must(hyp_egraph_pop(eg, &diag));
        must(hyp_egraph_check(eg, &diag));
        assert_int_equal(hyp_egraph_node_count(eg), nodes);
        assert_int_equal(hyp_egraph_class_count(eg), classes);
        assert_int_equal(hyp_egraph_enode_bound(eg), bound);
        assert_int_equal(hyp_egraph_find(eg, c), term(eg, "(pair leaf0 leaf1)"));
        assert_true(equal(eg, "(pair leaf0 leaf1)", "(pair leaf1 leaf0)"));
    }
    assert_true(k.times > 60);
    assert_true(most < base + 6 * 1050);
    hyp_egraph_destroy(eg);
    hyp_egraph_destroy(plain);
}

/* The bytes that a run says the e-graph had at most do not grow with how often terms come and die. */
static void memory_stays_bounded(void **state)
{
    (void)state;
    size_t bytes[2];
    keeper k;
    hyp_egraph *eg = new_small(true, true, &k);
    hyp_ruleset *rules = rules_of(eg, "(rule none (nothing ?x) => ?x)");
    term(eg, "leaf0");
    for (size_t i = 0; i < 600; i++) {
        if (i % 3) must(hyp_egraph_push(eg, &diag));
        for (size_t j = 0; j < 2; j++) add_and_merge(eg, i + j, 600);
        if (i % 3) must(hyp_egraph_pop(eg, &diag));
        if (i != 150 && i != 599) continue;
        hyp_egraph_run_report report;
        run(eg, rules, 1, &report);
        bytes[i == 599] = report.peak_bytes;
        hyp_egraph_run_report_dispose(&report);
    }
    assert_int_equal(bytes[0], bytes[1]); /* arrays do not shrink: as large as ever */
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* Who does not want to be told, or wants proofs, keeps all ids. */
static void ids_stay_where_nobody_is_told(void **state)
{
    (void)state;
    keeper k;
    hyp_egraph *eg = new_small(false, false, &k);
    for (size_t i = 0; i < 6; i++) add_and_merge(eg, i, 3000);
    assert_true(hyp_egraph_enode_bound(eg) > 18000);
    hyp_egraph_destroy(eg);
    hyp_egraph_options options = {
        .size = sizeof options, .explain = true, .renumbered = renumbered, .renumbered_user = &k};
    must(hyp_egraph_create(&options, &eg, &diag));
    for (size_t i = 0; i < 6; i++) add_and_merge(eg, i, 3000);
    assert_true(hyp_egraph_enode_bound(eg) > 18000);
    assert_int_equal(k.times, 0);
    hyp_egraph_destroy(eg);
}

/* Without memory for it ids stay until there is some. */
static void reclaiming_may_lack_memory(void **state)
{
    (void)state;
    keeper k;
    size_t done = 0, without = 0;
    for (uint64_t n = 1; n < 400 && !done; n++) {
        hyp_egraph *eg = new_small(true, true, &k);
        for (size_t i = 0; i < 3; i++) add_and_merge(eg, i, 1500);
        k.times = 0;
        add_and_merge(eg, 1, 900);
        unite(eg, "leaf0", "(pair leaf0 leaf0)"); /* then everything is leaf0 */
        unite(eg, "leaf0", "(three (pair leaf0 leaf0) leaf0 leaf0)");
        hyp_mem_fail_after(n);
        hyp_status status = hyp_egraph_rebuild(eg, NULL);
        hyp_mem_fail_after(0);
        assert_true(status == HYP_OK || status == HYP_ERR_NO_MEMORY);
        done += status == HYP_OK && k.times > 0;
        without += status == HYP_OK && k.times == 0;
        must(hyp_egraph_rebuild(eg, &diag));
        must(hyp_egraph_check(eg, &diag));
        hyp_egraph_destroy(eg);
    }
    assert_true(done > 0 && without > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_dies_is_reclaimed),
        cmocka_unit_test(runs_go_on_when_ids_change),
        cmocka_unit_test(pushes_and_pops_stay_small),
        cmocka_unit_test(memory_stays_bounded),
        cmocka_unit_test(ids_stay_where_nobody_is_told),
        cmocka_unit_test(reclaiming_may_lack_memory),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Extraction on made-up graphs with known answers, and on random cyclic ones against brute force. */
#include "support.h"

/* The cost of a node is the number after the last ':' of its symbol, or 1. "f:inf" is never chosen. */
static double by_name(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)user;
    const char *colon = strrchr(hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node)), ':');
    return colon ? strtod(colon + 1, NULL) : 1;
}

static void expect(hyp_egraph *eg, hyp_class_id root, hyp_extract_method method, const char *text, double tree,
                   double dag)
{
    hyp_extraction ex;
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_extract(eg, &root, 1, method, by_name, NULL, &ex, &diag));
    char *got = hyp_extraction_text(eg, &ex, root);
    assert_string_equal(got, text);
    assert_true(ex.tree_cost == tree);
    assert_true(ex.dag_cost == dag);
    free(got);
    hyp_extraction_dispose(&ex);
}

static void the_cheapest_term_is_taken(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id c = term(eg, "(f:5 a)");
    unite(eg, "(f:5 a)", "(g:1 (h:1 a))");
    expect(eg, c, HYP_EXTRACT_TREE, "(g:1 (h:1 a))", 3, 3);
    unite(eg, "(f:5 a)", "(k:1 a)");
    expect(eg, c, HYP_EXTRACT_TREE, "(k:1 a)", 2, 2);
    unite(eg, "(f:5 a)", "(l:1 a)"); /* as cheap: the older one stays */
    expect(eg, c, HYP_EXTRACT_TREE, "(k:1 a)", 2, 2);
    expect(eg, c, HYP_EXTRACT_DAG, "(k:1 a)", 2, 2);
    hyp_egraph_destroy(eg);
}

static void cycles_are_never_taken(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id c = term(eg, "(f:9 x)");
    unite(eg, "(f:9 x)", "(id:0 (f:9 x))");
    unite(eg, "x", "(id:0 x)");
    unite(eg, "(g:0 (f:9 x))", "x"); /* x is cheaper through a cycle, if that were allowed */
    expect(eg, c, HYP_EXTRACT_TREE, "(f:9 x)", 10, 10);
    expect(eg, c, HYP_EXTRACT_DAG, "(f:9 x)", 10, 10);
    hyp_egraph_destroy(eg);
}

static void infinite_cost_is_never_taken(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id c = term(eg, "(f:inf a)"), d = term(eg, "(h a:inf)");
    hyp_extraction ex;
    hyp_diag said = {0};
    for (int m = HYP_EXTRACT_TREE; m <= HYP_EXTRACT_DAG; m++) {
        assert_int_equal(hyp_egraph_extract(eg, &c, 1, (hyp_extract_method)m, by_name, NULL, &ex, &said),
                         HYP_ERR_UNSUPPORTED);
        assert_int_equal(hyp_egraph_extract(eg, &d, 1, (hyp_extract_method)m, by_name, NULL, &ex, &said),
                         HYP_ERR_UNSUPPORTED);
    }
    unite(eg, "(f:inf a)", "(g:700 a)");
    expect(eg, c, HYP_EXTRACT_DAG, "(g:700 a)", 701, 701);
    hyp_class_id bad = term(eg, "(f:-1 a)"), nan = term(eg, "(f:nan a)");
    assert_int_equal(hyp_egraph_extract(eg, &bad, 1, HYP_EXTRACT_TREE, by_name, NULL, &ex, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_extract(eg, &nan, 1, HYP_EXTRACT_TREE, by_name, NULL, &ex, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    expect(eg, bad, HYP_EXTRACT_EXACT, "(f:-1 a)", 0, 0); /* a class counts once: there is a least choice */
    unite(eg, "p", "q");
    assert_int_equal(hyp_egraph_extract(eg, &c, 1, HYP_EXTRACT_TREE, by_name, NULL, &ex, &said),
                     HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_destroy(eg);
}

/* What is given costs nothing, has no choice, and nothing below it is asked for; so another term may be the cheapest. */
static void what_is_given_is_not_extracted(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id c = term(eg, "(f:3 a:1)"), dear = term(eg, "(h:50 b:nan)"); /* NaN: who asks fails */
    unite(eg, "(f:3 a:1)", "(g:2 (h:50 b:nan))");
    must(hyp_egraph_rebuild(eg, &diag));
    c = hyp_egraph_find(eg, c);
    dear = hyp_egraph_find(eg, dear);
    bool *given = calloc(hyp_egraph_class_bound(eg), sizeof *given);
    hyp_class_id roots[] = {c, dear};
    given[dear] = true;
    for (int m = HYP_EXTRACT_TREE; m <= HYP_EXTRACT_EXACT; m++) {
        hyp_extraction ex;
        hyp_extract_options options = {.size = sizeof options, .method = (hyp_extract_method)m, .given = given};
        must(hyp_egraph_extract_with(eg, roots, 2, &options, by_name, NULL, &ex, &diag));
        assert_true(ex.tree_cost == 2 && ex.dag_cost == 2);
        assert_int_equal(ex.choice[c], hyp_egraph_class_nodes(eg, c, &(size_t){0})[1]);
        assert_int_equal(ex.choice[dear], HYP_NONE);
        hyp_extraction_dispose(&ex);
        options.given = NULL;
        assert_int_equal(hyp_egraph_extract_with(eg, roots, 2, &options, by_name, NULL, &ex, &(hyp_diag){0}),
                         HYP_ERR_INVALID_ARGUMENT);
    }
    free(given);
    hyp_egraph_destroy(eg);
}

/* Sharing: by itself the first child is cheapest as `u`, but its sibling needs `big` anyway. */
static void shared_work_counts_once(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id c = term(eg, "(p:0 (u:4 x:0) (t:0 (big:5 z:0)))");
    unite(eg, "(u:4 x:0)", "(s:0 (big:5 z:0))");
    expect(eg, c, HYP_EXTRACT_TREE, "(p:0 (u:4 x:0) (t:0 (big:5 z:0)))", 9, 9);
    expect(eg, c, HYP_EXTRACT_DAG, "(p:0 (s:0 (big:5 z:0)) (t:0 (big:5 z:0)))", 10, 5);
    hyp_egraph_destroy(eg);
}

/* A value that another root needs anyway makes the form that reuses it cheaper. */
static void a_value_needed_elsewhere_is_reused(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id roots[2] = {term(eg, "(linear:10 w2:0 (linear:10 w1:0 x:0))"), term(eg, "(linear:10 w1:0 x:0)")};
    unite(eg, "(linear:10 w2:0 (linear:10 w1:0 x:0))", "(mlp:15 w1:0 w2:0 x:0)");
    must(hyp_egraph_rebuild(eg, &diag));
    hyp_extraction ex;
    must(hyp_egraph_extract(eg, roots, 1, HYP_EXTRACT_DAG, by_name, NULL, &ex, &diag));
    assert_true(ex.dag_cost == 15);
    assert_int_equal(ex.choice[hyp_egraph_find(eg, roots[1])], HYP_NONE); /* not needed */
    hyp_extraction_dispose(&ex);
    must(hyp_egraph_extract(eg, roots, 2, HYP_EXTRACT_DAG, by_name, NULL, &ex, &diag));
    assert_true(ex.dag_cost == 20);
    hyp_extraction_dispose(&ex);
    hyp_egraph_destroy(eg);
}

static void symbols_that_need_quotes_are_quoted(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id c = term(eg, "(turn \"(1 0)\" \"\" x)"), again;
    hyp_extraction ex;
    must(hyp_egraph_extract(eg, &c, 1, HYP_EXTRACT_TREE, by_name, NULL, &ex, &diag));
    char *text = hyp_extraction_text(eg, &ex, c);
    assert_string_equal(text, "(turn \"(1 0)\" \"\" x)");
    must(hyp_egraph_add_text(eg, text, &again, &diag));
    assert_int_equal(again, c);
    free(text);
    hyp_extraction_dispose(&ex);
    hyp_egraph_destroy(eg);
}

static void deep_terms_do_not_exhaust_the_stack(void **state)
{
    (void)state;
    enum { DEEP = 20000 };
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id c = term(eg, "x");
    hyp_symbol f;
    must(hyp_egraph_symbol(eg, "f", &f, &diag));
    for (int i = 0; i < DEEP; i++) must(hyp_egraph_add(eg, f, (hyp_class_id[]){c, c}, 1 + i % 2, &c, NULL, &diag));
    for (int m = HYP_EXTRACT_TREE; m <= HYP_EXTRACT_DAG; m++) {
        hyp_extraction ex;
        must(hyp_egraph_extract(eg, &c, 1, (hyp_extract_method)m, by_name, NULL, &ex, &diag));
        assert_true(ex.dag_cost == DEEP + 1);
        hyp_extraction_dispose(&ex);
    }
    c = term(eg, "x");
    hyp_symbol g;
    must(hyp_egraph_symbol(eg, "g", &g, &diag));
    for (int i = 0; i < DEEP; i++) must(hyp_egraph_add(eg, g, &c, 1, &c, NULL, &diag));
    hyp_extraction ex;
    must(hyp_egraph_extract(eg, &c, 1, HYP_EXTRACT_TREE, by_name, NULL, &ex, &diag));
    char *text = hyp_extraction_text(eg, &ex, c);
    assert_int_equal(strlen(text), 4 * DEEP + 1);
    free(text);
    hyp_extraction_dispose(&ex);
    hyp_egraph_destroy(eg);
}

/* ---- brute force -------------------------------------------------------------------------------- */

enum { CLASSES = 64, SIZE = 24 };

typedef struct brute {
    hyp_egraph *eg;
    hyp_class_id root;
    hyp_enode_id choice[CLASSES];
    double best;
    size_t tried;
} brute;

/* The DAG cost of the choices below the root; infinite with a cycle. */
static double dag_cost(brute *b, hyp_class_id c, char *mark)
{
    if (mark[c] == 2) return 0;
    if (mark[c] == 1) return INFINITY;
    mark[c] = 1;
    size_t n;
    const hyp_class_id *kids = hyp_enode_children(b->eg, b->choice[c], &n);
    double sum = by_name(b->eg, b->choice[c], NULL);
    for (size_t j = 0; j < n; j++) sum += dag_cost(b, kids[j], mark);
    mark[c] = 2;
    return sum;
}

/* Tries every choice for every class from c on. */
static void try_all(brute *b, hyp_class_id c)
{
    hyp_class_id bound = (hyp_class_id)hyp_egraph_class_bound(b->eg);
    while (c < bound && hyp_egraph_find(b->eg, c) != c) c++;
    if (c == bound) {
        char mark[CLASSES] = {0};
        double cost = dag_cost(b, b->root, mark);
        if (cost < b->best) b->best = cost;
        b->tried++;
        return;
    }
    size_t n;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(b->eg, c, &n);
    for (size_t i = 0; i < n && b->tried < 20000; i++) {
        b->choice[c] = nodes[i];
        try_all(b, c + 1);
    }
}

/* The least tree costs, by sweeps to a fixed point. */
static double tree_cost(hyp_egraph *eg, hyp_class_id root)
{
    double cost[CLASSES];
    for (int i = 0; i < CLASSES; i++) cost[i] = INFINITY;
    for (bool again = true; again;) {
        again = false;
        for (hyp_enode_id i = 0; i < hyp_egraph_enode_bound(eg); i++) {
            size_t n;
            const hyp_class_id *kids = hyp_enode_children(eg, i, &n);
            double sum = by_name(eg, i, NULL);
            for (size_t j = 0; j < n; j++) sum += cost[hyp_egraph_find(eg, kids[j])];
            hyp_class_id c = hyp_enode_class(eg, i);
            if (sum < cost[c]) cost[c] = sum, again = true;
        }
    }
    return cost[hyp_egraph_find(eg, root)];
}

static void random_graphs_agree_with_brute_force(void **state)
{
    (void)state;
    uint64_t seed = 11;
    double greedy = 0, best = 0;
    int cyclic_or_shared = 0, compared = 0;
    for (int round = 0; round < 300; round++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_class_id ids[SIZE];
        for (uint32_t n = 0; n < SIZE; n++) {
            uint32_t r = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
            char name[24];
            hyp_symbol op;
            snprintf(name, sizeof name, "o%u:%u", r % 64, r / 64 % 10);
            must(hyp_egraph_symbol(eg, name, &op, &diag));
            hyp_class_id kids[3] = {0};
            size_t arity = n < 3 ? 0 : 1 + r % 3;
            for (size_t j = 0; j < arity; j++) kids[j] = ids[(r >> (8 + 5 * j)) % n];
            must(hyp_egraph_add(eg, op, kids, arity, &ids[n], NULL, &diag));
        }
        for (int u = 0; u < 9; u++) {
            uint32_t r = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
            must(hyp_egraph_union(eg, ids[r % SIZE], ids[r / 32 % SIZE], NULL, NULL, &diag));
        }
        rebuild_and_check(eg);
        hyp_class_id root = hyp_egraph_find(eg, ids[SIZE - 1]);
        hyp_extraction tree, dag;
        must(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_TREE, by_name, NULL, &tree, &diag));
        must(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_DAG, by_name, NULL, &dag, &diag));
        assert_true(tree.tree_cost == tree_cost(eg, root));
        assert_true(dag.dag_cost <= tree.dag_cost);
        brute b = {.eg = eg, .root = root, .best = INFINITY};
        try_all(&b, 0);
        if (b.tried < 20000) {
            char mark[CLASSES] = {0};
            memcpy(b.choice, dag.choice, dag.class_bound * sizeof *dag.choice);
            assert_true(dag_cost(&b, root, mark) == dag.dag_cost); /* what was chosen costs what was said, no cycle */
            assert_true(dag.dag_cost >= b.best);
            greedy += dag.dag_cost;
            best += b.best;
            compared++;
        }
        cyclic_or_shared += tree.tree_cost != tree.dag_cost;
        hyp_extraction_dispose(&tree);
        hyp_extraction_dispose(&dag);
        hyp_egraph_destroy(eg);
    }
    assert_true(compared > 100 && cyclic_or_shared > 20);
    assert_true(greedy <= best * 1.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_term_is_taken),           cmocka_unit_test(cycles_are_never_taken),
        cmocka_unit_test(infinite_cost_is_never_taken),         cmocka_unit_test(shared_work_counts_once),
        cmocka_unit_test(what_is_given_is_not_extracted),       cmocka_unit_test(a_value_needed_elsewhere_is_reused),
        cmocka_unit_test(symbols_that_need_quotes_are_quoted),  cmocka_unit_test(deep_terms_do_not_exhaust_the_stack),
        cmocka_unit_test(random_graphs_agree_with_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

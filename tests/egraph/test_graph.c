/* The e-graph itself: hash-consing, congruence, reading, and agreement with a naive closure. */
#include "egraph/core/table.h"
#include "support.h"

static void equal_terms_are_one_node(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id a = term(eg, "(f (g x) (g x))"), b = term(eg, "(f (g x) (g x))");
    assert_int_equal(a, b);
    assert_int_equal(hyp_egraph_node_count(eg), 3);
    assert_int_equal(hyp_egraph_class_count(eg), 3);
    assert_int_not_equal(term(eg, "(f x)"), term(eg, "(f x x)")); /* arity is part of the operator */
    must(hyp_egraph_check(eg, &diag));
    hyp_egraph_destroy(eg);
}

static void any_arity_is_kept(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_symbol leaf, many;
    must(hyp_egraph_symbol(eg, "leaf", &leaf, &diag));
    must(hyp_egraph_symbol(eg, "many", &many, &diag));
    hyp_class_id kids[300], c;
    hyp_enode_id node;
    for (uint32_t i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%u", i);
        kids[i] = term(eg, name);
    }
    for (size_t n = 0; n <= 300; n += n < 6 ? 1 : 98) {
        must(hyp_egraph_add(eg, many, kids, n, &c, &node, &diag));
        size_t count;
        const hyp_class_id *have = hyp_enode_children(eg, node, &count);
        assert_int_equal(count, n);
        if (n) assert_memory_equal(have, kids, n * sizeof *kids);
        assert_int_equal(hyp_egraph_lookup(eg, many, kids, n), c);
        /* Children may be given straight out of the e-graph. */
        hyp_class_id again;
        must(hyp_egraph_add(eg, many, have, n, &again, NULL, &diag));
        assert_int_equal(again, c);
        hyp_symbol other;
        must(hyp_egraph_symbol(eg, "other", &other, &diag));
        have = hyp_enode_children(eg, node, &count);
        must(hyp_egraph_add(eg, other, have, n, &again, &node, &diag));
        have = hyp_enode_children(eg, node, &count);
        if (n) assert_memory_equal(have, kids, n * sizeof *kids);
    }
    for (int i = 1; i < 300; i++) must(hyp_egraph_union(eg, kids[0], kids[i], NULL, NULL, &diag));
    rebuild_and_check(eg);
    hyp_egraph_destroy(eg);
}

static void congruence_follows_unions(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_class_id fa = term(eg, "(f a (g a) c)"), fb = term(eg, "(f b (g b) c)");
    term(eg, "(h (f a (g a) c))");
    term(eg, "(h (f b (g b) c))");
    unite(eg, "a", "b");
    rebuild_and_check(eg);
    assert_int_equal(hyp_egraph_find(eg, fa), hyp_egraph_find(eg, fb));
    assert_true(equal(eg, "(h (f a (g b) c))", "(h (f b (g a) c))"));
    assert_int_equal(hyp_egraph_node_count(eg), 6); /* a b c (g a) (f a ..) (h ..) */
    hyp_egraph_destroy(eg);
}

/* f(f(f(f(f(a))))) = a and f(f(f(a))) = a make f(a) = a. */
static void congruence_reaches_through_cycles(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    unite(eg, "(f (f (f (f (f a)))))", "a");
    unite(eg, "(f (f (f a)))", "a");
    rebuild_and_check(eg);
    assert_true(equal(eg, "(f a)", "a"));
    assert_int_equal(hyp_egraph_class_count(eg), 1);
    assert_int_equal(hyp_egraph_node_count(eg), 2);
    hyp_egraph_destroy(eg);
}

static void the_older_id_names_the_class(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id a = term(eg, "a"), b = term(eg, "b");
    bool changed;
    must(hyp_egraph_union(eg, b, a, "because", &changed, &diag));
    assert_true(changed);
    assert_int_equal(hyp_egraph_find(eg, b), a);
    must(hyp_egraph_union(eg, a, b, "because", &changed, &diag));
    assert_false(changed);
    hyp_egraph_destroy(eg);
}

static void class_nodes_are_listed_oldest_first(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    term(eg, "z");
    unite(eg, "a", "b");
    unite(eg, "(f a)", "b");
    unite(eg, "(f b)", "c");
    must(hyp_egraph_rebuild(eg, &diag));
    size_t na, nz;
    const hyp_enode_id *in_a = hyp_egraph_class_nodes(eg, term(eg, "c"), &na);
    const hyp_enode_id *in_z = hyp_egraph_class_nodes(eg, term(eg, "z"), &nz);
    assert_int_equal(na, 4); /* a b (f a) c */
    assert_int_equal(nz, 1);
    for (size_t i = 1; i < na; i++) assert_true(in_a[i - 1] < in_a[i]);
    assert_string_equal(hyp_egraph_symbol_name(eg, hyp_enode_op(eg, in_a[0])), "a");
    assert_string_equal(hyp_egraph_symbol_name(eg, hyp_enode_op(eg, in_z[0])), "z"); /* both lists stand */
    for (size_t i = 0; i < na; i++) assert_int_equal(hyp_enode_class(eg, in_a[i]), term(eg, "a"));
    hyp_egraph_destroy(eg);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_diag diag = {0};
    hyp_class_id c = term(eg, "a"), beyond = 7;
    assert_int_equal(hyp_egraph_add(eg, 99, NULL, 0, &c, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_add(eg, 0, &beyond, 1, &c, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_union(eg, c, beyond, NULL, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egraph_find(eg, beyond), HYP_NONE);
    assert_int_equal(hyp_egraph_lookup(eg, 0, &beyond, 1), HYP_NONE);
    static const char *const bad[] = {"", "(", "()", "((f) a)", "a b", "(f a))"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hyp_egraph_add_text(eg, bad[i], &c, &diag), HYP_ERR_MALFORMED);
    assert_int_equal(hyp_egraph_node_count(eg), 1);
    hyp_egraph_destroy(eg);
    hyp_egraph_destroy(NULL);
}

/* ---- against a naive congruence closure ---------------------------------------------------------- */

enum { NODES = 60, KIDS = 3 };

typedef struct naive {
    uint32_t op, kids[KIDS], count, class;
} naive;

static void naive_union(naive *nodes, uint32_t n, uint32_t a, uint32_t b)
{
    uint32_t from = nodes[b].class, to = nodes[a].class;
    for (uint32_t i = 0; i < n; i++)
        if (nodes[i].class == from) nodes[i].class = to;
}

static bool naive_congruent(const naive *nodes, uint32_t a, uint32_t b)
{
    if (nodes[a].op != nodes[b].op || nodes[a].count != nodes[b].count) return false;
    for (uint32_t j = 0; j < nodes[a].count; j++)
        if (nodes[nodes[a].kids[j]].class != nodes[nodes[b].kids[j]].class) return false;
    return true;
}

static void naive_close(naive *nodes, uint32_t n)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < a; b++)
                if (nodes[a].class != nodes[b].class && naive_congruent(nodes, a, b)) {
                    naive_union(nodes, n, a, b);
                    again = true;
                }
    }
}

static void closure_agrees_with_the_naive_one(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 150; round++) {
        hyp_egraph *eg = new_graph(round % 2, NULL);
        naive nodes[NODES];
        hyp_class_id ids[NODES];
        hyp_symbol ops[4];
        for (int i = 0; i < 4; i++)
            must(hyp_egraph_symbol(eg, (const char *[]){"f", "g", "h", "k"}[i], &ops[i], &diag));
        uint32_t n = 0;
        while (n < NODES) {
            uint32_t r = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
            if (n < 4 || r % 4) {
                naive *node = &nodes[n];
                *node = (naive){.op = r / 4 % 4, .count = n < 4 ? 0 : 1 + r / 16 % KIDS, .class = n};
                if (n < 4) node->op = n;
                hyp_class_id kids[KIDS];
                for (uint32_t j = 0; j < node->count; j++) {
                    node->kids[j] = (r >> (6 + 7 * j)) % n;
                    kids[j] = ids[node->kids[j]];
                }
                must(hyp_egraph_add(eg, ops[node->op], kids, node->count, &ids[n], NULL, &diag));
                n++;
            } else if (r % 8 == 0) {
                uint32_t a = r / 8 % n, b = r / 1024 % n;
                must(hyp_egraph_union(eg, ids[a], ids[b], NULL, NULL, &diag));
                naive_union(nodes, n, a, b);
            } else if (r % 64 == 4) {
                rebuild_and_check(eg);
            }
        }
        rebuild_and_check(eg);
        naive_close(nodes, n);
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < a; b++)
                assert_int_equal(nodes[a].class == nodes[b].class,
                                 hyp_egraph_find(eg, ids[a]) == hyp_egraph_find(eg, ids[b]));
        hyp_egraph_destroy(eg);
    }
}

/* The hash-cons grows many times, with slots in it that are stale. */
static void a_table_that_grows_finds_all(void **state)
{
    (void)state;
#ifdef HYP_SMALL_SIZES
    enum { LEAVES = 100, ROWS = 10000 };
#else
    enum { LEAVES = 700, ROWS = 400000 };
#endif
    static hyp_class_id leaves[LEAVES], ids[ROWS];
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_symbol f;
    must(hyp_egraph_symbol(eg, "f", &f, &diag));
    for (uint32_t i = 0; i < LEAVES; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%u", i);
        leaves[i] = term(eg, name);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        must(hyp_egraph_add(eg, f, (hyp_class_id[]){leaves[i % LEAVES], leaves[i / LEAVES]}, 2, &ids[i], NULL, &diag));
        if (i % (ROWS / 40) != 1) continue;
        must(hyp_egraph_union(eg, leaves[i % LEAVES], leaves[(i + 1) % LEAVES], NULL, NULL, &diag));
        must(hyp_egraph_rebuild(eg, &diag));
    }
    rebuild_and_check(eg);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_int_equal(hyp_egraph_lookup(eg, f, (hyp_class_id[]){leaves[i % LEAVES], leaves[i / LEAVES]}, 2),
                         hyp_egraph_find(eg, ids[i]));
    hyp_egraph_destroy(eg);
}

/* Rows at home at the end of the table, of which few, or many, are pushed over it, are found, also when it has grown; so are
 * rows that are told apart by nothing that the table has of them. */
static void what_is_pushed_over_the_end_is_found(void **state)
{
    (void)state;
#ifdef HYP_SMALL_SIZES
    enum { LEAVES = 700, MOST = 200, MORE = 10000 };
#else
    enum { LEAVES = 700, MOST = 200, MORE = 200000 };
#endif
    static const struct {
        uint32_t wanted, last, tag; /* rows, the least hash, and bits that all have alike */
    } cases[] = {{MOST / 5, UINT32_MAX - (UINT32_MAX >> 10), 0}, /* of 1024 buckets the last */
                 {MOST, UINT32_MAX - (UINT32_MAX >> 10), 0},
                 {MOST / 2, UINT32_MAX - (UINT32_MAX >> 3), 0xff},
                 {MOST / 2, 0, 0xff}};
    static hyp_class_id leaves[LEAVES], pairs[MOST][2], ids[MOST];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t wanted = cases[c].wanted;
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_symbol f;
        uint32_t op, count = 0;
        must(hyp_egraph_symbol(eg, "f", &f, &diag));
        must(hyp_eg_op(eg, f, 2, &op, &diag));
        for (uint32_t i = 0; i < LEAVES; i++) {
            char name[16];
            snprintf(name, sizeof name, "x%u", i);
            leaves[i] = term(eg, name);
        }
        for (uint32_t i = 0; i < LEAVES * LEAVES && count < wanted; i++) {
            const hyp_class_id kids[] = {leaves[i % LEAVES], leaves[i / LEAVES]};
            uint32_t hash = hyp_table_hash(op, kids, 2);
            if (hash < cases[c].last || hash & cases[c].tag) continue;
            memcpy(pairs[count], kids, sizeof kids);
            must(hyp_egraph_add(eg, f, kids, 2, &ids[count++], NULL, &diag));
        }
        assert_int_equal(count, wanted);
        for (uint32_t i = 0; i < MORE; i++)
            must(hyp_egraph_add(eg, f, (hyp_class_id[]){leaves[i % LEAVES], leaves[i / LEAVES]}, 2, NULL, NULL, &diag));
        rebuild_and_check(eg);
        for (uint32_t i = 0; i < count; i++) assert_int_equal(hyp_egraph_lookup(eg, f, pairs[i], 2), ids[i]);
        hyp_egraph_destroy(eg);
    }
}

static hyp_class_id numbered(hyp_egraph *eg, char letter, uint32_t number)
{
    char name[16];
    snprintf(name, sizeof name, "%c%u", letter, number);
    return term(eg, name);
}

/* (f (f ... leaf)), so many floors. */
static hyp_class_id tower(hyp_egraph *eg, hyp_symbol f, hyp_class_id leaf, uint32_t floors)
{
    for (uint32_t i = 0; i < floors; i++) must(hyp_egraph_add(eg, f, &leaf, 1, &leaf, NULL, &diag));
    return leaf;
}

/* One union below makes two towers one, floor by floor: many more floors than a rebuild makes sweeps. */
static void towers_become_one(void **state)
{
    (void)state;
    enum { FLOORS = 30000 };
    for (int explain = 0; explain < 2; explain++) {
        hyp_egraph *eg = new_graph(explain, NULL);
        hyp_symbol f;
        must(hyp_egraph_symbol(eg, "f", &f, &diag));
        hyp_class_id a = term(eg, "a"), b = term(eg, "b"), tops[2] = {tower(eg, f, a, FLOORS), tower(eg, f, b, FLOORS)};
        must(hyp_egraph_rebuild(eg, &diag));
        must(hyp_egraph_union(eg, a, b, NULL, NULL, &diag));
        rebuild_and_check(eg);
        assert_int_equal(hyp_egraph_find(eg, tops[0]), hyp_egraph_find(eg, tops[1]));
        assert_int_equal(hyp_egraph_node_count(eg), FLOORS + 2);
        assert_int_equal(hyp_egraph_class_count(eg), FLOORS + 1);
        hyp_egraph_destroy(eg);
    }
}

/* The same where each floor that falls was there before the one that makes it fall, so that sweeps in the order of age
 * mend one floor each. */
static void older_floors_fall_after_younger_ones(void **state)
{
    (void)state;
    enum { FLOORS = 4000 };
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_class_id leaf[2][FLOORS + 2];
    hyp_symbol f;
    must(hyp_egraph_symbol(eg, "f", &f, &diag));
    for (uint32_t i = FLOORS + 1; i > 0; i--)
        for (int side = 0; side < 2; side++) leaf[side][i] = numbered(eg, side ? 'm' : 'l', i);
    for (uint32_t i = FLOORS; i > 0; i--)
        for (int side = 0; side < 2; side++) {
            hyp_class_id floor;
            must(hyp_egraph_add(eg, f, &leaf[side][i], 1, &floor, NULL, &diag));
            must(hyp_egraph_union(eg, floor, leaf[side][i + 1], NULL, NULL, &diag));
        }
    rebuild_and_check(eg);
    size_t classes = hyp_egraph_class_count(eg);
    must(hyp_egraph_union(eg, leaf[0][1], leaf[1][1], NULL, NULL, &diag));
    rebuild_and_check(eg);
    for (uint32_t i = 1; i <= FLOORS + 1; i++)
        assert_int_equal(hyp_egraph_find(eg, leaf[0][i]), hyp_egraph_find(eg, leaf[1][i]));
    assert_int_equal(hyp_egraph_class_count(eg), classes - FLOORS - 1);
    hyp_egraph_destroy(eg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_become_one),            cmocka_unit_test(older_floors_fall_after_younger_ones),
        cmocka_unit_test(equal_terms_are_one_node),     cmocka_unit_test(any_arity_is_kept),
        cmocka_unit_test(congruence_follows_unions),    cmocka_unit_test(congruence_reaches_through_cycles),
        cmocka_unit_test(the_older_id_names_the_class), cmocka_unit_test(class_nodes_are_listed_oldest_first),
        cmocka_unit_test(bad_calls_are_refused),        cmocka_unit_test(closure_agrees_with_the_naive_one),
        cmocka_unit_test(a_table_that_grows_finds_all), cmocka_unit_test(what_is_pushed_over_the_end_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

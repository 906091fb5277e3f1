/* What has no bound where it needs none, and one where it does: the depth of terms, memory of long runs, the stack. */
#include <pthread.h>

#include "base/diag.h"
#include "support.h"

static double one(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node, (void)user;
    return 1;
}

/* ---- texts ------------------------------------------------------------------------------------------------ */

/* (f (f ... x)): n times. */
static char *nested(size_t n)
{
    char *text = malloc(4 * n + 2), *at = text;
    for (size_t i = 0; i < n; i++) at = memcpy(at, "(f ", 3), at += 3;
    *at++ = 'x';
    for (size_t i = 0; i < n; i++) *at++ = ')';
    *at = 0;
    return text;
}

static void deep_terms_read_back(void **state)
{
    (void)state;
    for (size_t depth = 255; depth < 100000; depth = depth < 260 ? depth + 1 : depth * 20) {
        hyp_egraph *eg = new_graph(false, NULL);
        char *text = nested(depth);
        hyp_class_id root = term(eg, text);
        hyp_extraction ex;
        must(hyp_egraph_rebuild(eg, &diag));
        must(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_TREE, one, NULL, &ex, &diag));
        char *back = hyp_extraction_text(eg, &ex, root);
        assert_non_null(back);
        assert_string_equal(back, text);
        assert_int_equal(term(eg, back), root);
        assert_int_equal(hyp_egraph_node_count(eg), depth + 1);
        free(back);
        free(text);
        hyp_extraction_dispose(&ex);
        hyp_egraph_destroy(eg);
    }
}

/* What a ruleset says of a rule can be read as a rule, and says the same again. */
static void rule_text_reads_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "(rule \"a name\" :class \"x y\" :ruleset \"(\" :doc \"d \\\" d\" (f ?x) => ?x)",
        "(rule \"\\u0007;\" (\"f g\" ?x \"a(\") => (\"\" ?x))",
        "(birule \"two ways\" (f ?x) <=> (g ?x))",
        "(for-each <w> (\"one two\" three) (rule \"r-<w>\" (op-<w> ?x) => (<w> ?x)))",
        "a name\t(f ?x)\t?x",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hyp_egraph *eg = new_graph(false, NULL);
        hyp_ruleset *rules = rules_of(eg, texts[i]);
        for (size_t r = 0; r < hyp_ruleset_count(rules); r++) {
            hyp_rule_info info = hyp_ruleset_rule(rules, r), back;
            hyp_ruleset *again = rules_of(eg, info.text);
            assert_int_equal(hyp_ruleset_count(again), 1);
            back = hyp_ruleset_rule(again, 0);
            assert_string_equal(back.text, info.text);
            assert_string_equal(back.name, info.name);
            assert_string_equal(back.numeric_class, info.numeric_class);
            assert_string_equal(back.ruleset, info.ruleset);
            assert_string_equal(back.doc, info.doc);
            hyp_ruleset_destroy(again);
        }
        hyp_ruleset_destroy(rules);
        hyp_egraph_destroy(eg);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

/* Bytes that the process has of the heap. */
static size_t heap(void);

static void patterns_go_while_explaining(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, NULL);
    size_t before = 0;
    for (size_t i = 0; i < 3000; i++) {
        hyp_pattern *pattern;
        hyp_ruleset *unused = rules_of(eg, "(rule r (f ?x) => ?x)");
        must(hyp_pattern_parse(eg, "(f (g ?x) (h ?y ?z))", &pattern, &diag));
        hyp_pattern_destroy(pattern);
        hyp_ruleset_destroy(unused);
        if (i == 1000) before = heap();
    }
    if (heap() > before + 100000) fail_msg("%zu bytes, and %zu after 2000 more", before, heap());
    hyp_egraph_destroy(eg);
}

static void going_back_takes_no_more_memory(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(true, &(hyp_analysis){.data_size = 8});
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES);
    term(eg, "(+ 1 (+ 2 (+ 3 4)))");
    size_t before = 0;
    for (size_t i = 0; i < 600; i++) {
        hyp_egraph_run_report report;
        must(hyp_egraph_push(eg, &diag));
        term(eg, "(+ a (+ b (+ c d)))");
        must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
        hyp_egraph_run_report_dispose(&report);
        must(hyp_egraph_pop(eg, &diag));
        if (i == 200) before = heap();
    }
    if (heap() > before + 10000) fail_msg("%zu bytes, and %zu after 400 more", before, heap());
    rebuild_and_check(eg);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A state costs what is changed after it, not what there is. */
static void states_take_what_changes(void **state)
{
    (void)state;
    enum { STATES = 2000 };
    hyp_egraph *eg = new_graph(true, NULL);
    char name[16];
    for (int i = 0; i < STATES; i++) {
        snprintf(name, sizeof name, "(f x%d)", i);
        term(eg, name);
    }
    size_t before = heap();
    for (int i = 0; i < STATES; i++) {
        must(hyp_egraph_push(eg, &diag));
        snprintf(name, sizeof name, "y%d", i);
        term(eg, name);
        if (i % 100 == 0) unite(eg, name, "x0");
    }
    if (heap() > before + 2000 * STATES) fail_msg("%zu bytes, and %zu with %d states", before, heap(), STATES);
    for (int i = 0; i < STATES; i++) must(hyp_egraph_pop(eg, &diag));
    assert_int_equal(hyp_egraph_node_count(eg), 2 * STATES);
    rebuild_and_check(eg);
    hyp_egraph_destroy(eg);
}

/* ---- a small stack ------------------------------------------------------------------------------------------ */

/* f^n(a) = f^n(b), of a = b: each step rests on the one before. */
static void *explain_deep(void *unused)
{
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_shared_proof proof;
    enum { DEPTH = 4800 };
    hyp_class_id a = term(eg, "a"), b = term(eg, "b"), c = a, d = b;
    hyp_enode_id x = a, y = b;
    hyp_symbol f;
    must(hyp_egraph_symbol(eg, "f", &f, &diag));
    for (int i = 0; i < DEPTH; i++) {
        must(hyp_egraph_add(eg, f, &c, 1, &c, &x, &diag));
        must(hyp_egraph_add(eg, f, &d, 1, &d, &y, &diag));
    }
    must(hyp_egraph_union(eg, a, b, NULL, NULL, &diag));
    must(hyp_egraph_rebuild(eg, &diag));
    hyp_diag said = {0};
    hyp_status status = hyp_egraph_explain_nodes(eg, x, y, &proof, &said);
    if (status == HYP_OK) {
        assert_int_equal(proof.lemma_count, DEPTH + 1);
        hyp_shared_proof_dispose(&proof);
    } else {
        assert_int_equal(status, HYP_ERR_LIMIT);
        fail_msg("%s", said.message);
    }
    hyp_egraph_destroy(eg);
    return unused;
}

static void proofs_need_little_stack(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, 1 << 20), 0);
    assert_int_equal(pthread_create(&thread, &attr, explain_deep, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
size_t __sanitizer_get_current_allocated_bytes(void);
static size_t heap(void) { return __sanitizer_get_current_allocated_bytes(); }
#elif defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
#include <malloc.h>
static size_t heap(void) { return mallinfo2().uordblks + mallinfo2().hblkhd; }
#else /* nobody tells */
static size_t heap(void) { return 0; }
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_terms_read_back),
        cmocka_unit_test(rule_text_reads_back),
        cmocka_unit_test(patterns_go_while_explaining),
        cmocka_unit_test(going_back_takes_no_more_memory),
        cmocka_unit_test(states_take_what_changes),
        cmocka_unit_test(proofs_need_little_stack),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

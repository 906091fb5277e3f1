/* egraph-serialize files: what is read, what is refused and where it says the fault is, and that an e-graph comes back
 * as it was written. */
#include "base/strbuf.h"
#include "support.h"

static hyp_serialized *parse(const char *text)
{
    hyp_serialized *s;
    must(hyp_serialized_parse("t.json", text, strlen(text), &s, &diag));
    return s;
}

static void expect_refused(const char *text, const char *message)
{
    hyp_serialized *s;
    hyp_diag said = {0};
    assert_int_equal(hyp_serialized_parse("t.json", text, strlen(text), &s, &said), HYP_ERR_MALFORMED);
    assert_null(s);
    if (!strstr(said.message, message)) fail_msg("'%s' does not say '%s'", said.message, message);
}

#define SMALL                                                                                                          \
    "{\"class_data\": {\"k\": {\"type\": \"Math\", \"more\": [1, {\"a\": null}]}},\n \"nodes\": {\n"                   \
    "  \"n0\": {\"op\": \"f\\\"\\u00e9\\ud83d\\ude00\", \"children\": [\"n1\", \"k\", \"n2\"], \"eclass\": \"r\"},\n"  \
    "  \"n1\": {\"eclass\": \"k\", \"op\": \"a\", \"cost\": 2.5e0},\n"                                                 \
    "  \"n2\": {\"eclass\": \"k\", \"op\": \"b\", \"cost\": 1, \"subsumed\": true},\n"                                 \
    "  \"n3\": {\"eclass\": \"k\", \"op\": \"c\", \"cost\": null, \"children\": []}},\n"                               \
    " \"comment\": \"any\", \"root_eclasses\": [\"r\"]}"

static void every_field_is_read(void **state)
{
    (void)state;
    hyp_serialized *s = parse(SMALL);
    assert_int_equal(hyp_serialized_node_count(s), 4);
    assert_int_equal(hyp_serialized_class_count(s), 2);
    hyp_serialized_node n = hyp_serialized_get(s, 0);
    assert_string_equal(n.op, "f\"\xc3\xa9\xf0\x9f\x98\x80");
    assert_string_equal(n.id, "n0");
    assert_true(n.cost == 1 && !n.subsumed);
    assert_int_equal(n.child_count, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(hyp_serialized_class_name(s, n.children[i]), "k");
    assert_true(hyp_serialized_get(s, 1).cost == 2.5 && hyp_serialized_get(s, 2).subsumed);
    assert_true(isinf(hyp_serialized_get(s, 3).cost));
    assert_null(hyp_serialized_class_type(s, n.eclass));
    assert_string_equal(hyp_serialized_class_type(s, n.children[0]), "Math");
    size_t roots;
    assert_int_equal(hyp_serialized_roots(s, &roots)[0], n.eclass);
    assert_int_equal(roots, 1);
    hyp_serialized_destroy(s);
}

static void extraction_skips_subsumed_and_infinite_nodes(void **state)
{
    (void)state;
    hyp_serialized *s = parse(SMALL);
    for (int m = HYP_EXTRACT_TREE; m <= HYP_EXTRACT_EXACT; m++) {
        hyp_extraction ex;
        hyp_extract_options options = {.size = sizeof options, .method = (hyp_extract_method)m};
        must(hyp_serialized_extract(s, &options, &ex, &diag));
        assert_true(ex.tree_cost == 1 + 3 * 2.5 && ex.dag_cost == 3.5);
        assert_int_equal(ex.choice[hyp_serialized_get(s, 1).eclass], 1);
        if (m == HYP_EXTRACT_EXACT) assert_true(ex.proven && ex.lower_bound == 3.5);
        hyp_extraction_dispose(&ex);
    }
    hyp_serialized_destroy(s);
}

static void what_cannot_be_extracted_is_said(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"x\", \"cost\": -1}}, \"root_eclasses\": [\"x\"]}",
        "{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"x\", \"children\": [\"a\"]}}, \"root_eclasses\": [\"x\"]}",
        "{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"x\"}}}",
        "{\"nodes\": {}}",
    };
    static const char *const says[] = {"negative cost", "no term of finite cost", "root_eclasses", "root_eclasses"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hyp_serialized *s = parse(texts[i]);
        hyp_extraction ex;
        hyp_diag said = {0};
        hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_DAG};
        assert_int_equal(hyp_serialized_extract(s, &options, &ex, &said), HYP_ERR_UNSUPPORTED);
        assert_non_null(strstr(said.message, says[i]));
        hyp_serialized_destroy(s);
    }
}

static void faults_name_their_place(void **state)
{
    (void)state;
    expect_refused("", "t.json:1:1: expected '{'");
    expect_refused("{\"nodes\": {}} x", "more text");
    expect_refused("{\n \"nodes\": 3}", "t.json:2:11: expected '{'");
    expect_refused("{}", "no \"nodes\"");
    expect_refused("{\"nodes\": {\"a\": {\"op\": \"a\"}}}", "needs \"op\" and \"eclass\"");
    expect_refused("{\"nodes\": {\"a\": {\"op\": 3}}}", "expected '\"'");
    expect_refused("{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"x\", \"cost\": \"1\"}}}", "expected a number");
    expect_refused("{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"x\", \"subsumed\": 1}}}", "true or false");
    expect_refused("{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"x\", \"children\": [\"b\"]}}}",
                   "node 'a' has the child 'b', which is neither");
    expect_refused(
        "{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"x\"}, \"a\": {\"op\": \"a\", \"eclass\": \"x\"}}}",
        "a second node");
    expect_refused("{\"nodes\": {}, \"root_eclasses\": [\"q\"]}", "'q' has no node");
    expect_refused("{\"nodes\": {\"a\\q\": 1}}", "bad escape");
    expect_refused("{\"nodes\": {\"a\\ud800\": 1}}", "bad escape");
    expect_refused("{\"nodes\": {\"a\n\": 1}}", "control character");
    expect_refused("{\"more\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "deep");
}

/* Every prefix, and every single byte changed, is read or refused, without a crash. */
static void damaged_files_are_refused(void **state)
{
    (void)state;
    size_t len = strlen(SMALL);
    hyp_serialized *s;
    hyp_diag said = {0};
    for (size_t i = 0; i < len; i++)
        assert_int_equal(hyp_serialized_parse("t", SMALL, i, &s, &said), HYP_ERR_MALFORMED);
    uint32_t seed = 1;
    for (size_t i = 0; i < 20 * len; i++) {
        char text[] = SMALL;
        text[i % len] = (char)((seed = seed * 1664525 + 1013904223) >> 24);
        if (hyp_serialized_parse("t", text, len, &s, &said) != HYP_OK) continue;
        hyp_extraction ex;
        hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT};
        if (hyp_serialized_extract(s, &options, &ex, &said) == HYP_OK) hyp_extraction_dispose(&ex);
        hyp_serialized_destroy(s);
    }
}

static void gather(const char *text, size_t len, void *sb) { hyp_strbuf_add(sb, text, len); }

static hyp_egraph *saturated(hyp_class_id *root)
{
    hyp_egraph *eg = new_graph(false, NULL);
    *root = term(eg, "(+ (f \"a b\") (+ b (+ c \"d\\\"\")))");
    hyp_ruleset *rules = rules_of(eg, ASSOC_RULES "(rule id (+ ?a ?b) => (id (+ ?a ?b)))");
    run_checked(eg, rules, 4);
    hyp_ruleset_destroy(rules);
    return eg;
}

static double two_if_plus(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)user;
    return strcmp(hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node)), "+") == 0 ? 2.25 : INFINITY;
}

static void an_egraph_comes_back_as_it_was_written(void **state)
{
    (void)state;
    hyp_class_id root;
    hyp_egraph *eg = saturated(&root), *again = new_graph(false, NULL);
    hyp_strbuf text = {0}, second = {0};
    must(hyp_egraph_write_json(eg, &root, 1, NULL, NULL, gather, &text, &diag));
    must(hyp_egraph_write_json(eg, &root, 1, NULL, NULL, gather, &second, &diag));
    assert_string_equal(text.data, second.data);
    hyp_serialized *s = parse(text.data);
    assert_int_equal(hyp_serialized_node_count(s), hyp_egraph_node_count(eg));
    assert_int_equal(hyp_serialized_class_count(s), hyp_egraph_class_count(eg));
    hyp_class_id *classes = calloc(hyp_serialized_class_count(s), sizeof *classes);
    must(hyp_serialized_load(s, again, classes, &diag));
    must(hyp_egraph_check(again, &diag));
    assert_int_equal(hyp_egraph_node_count(again), hyp_egraph_node_count(eg));
    assert_int_equal(hyp_egraph_class_count(again), hyp_egraph_class_count(eg));
    size_t count;
    hyp_class_id same = classes[hyp_serialized_roots(s, &count)[0]];
    assert_int_equal(same, term(again, "(+ (+ (+ c \"d\\\"\") b) (f \"a b\"))"));
    hyp_serialized_destroy(s);
    second.len = 0;
    must(hyp_egraph_write_json(eg, NULL, 0, two_if_plus, NULL, gather, &second, &diag));
    s = parse(second.data);
    for (uint32_t n = 0; n < hyp_serialized_node_count(s); n++) {
        hyp_serialized_node node = hyp_serialized_get(s, n);
        assert_true(strcmp(node.op, "+") == 0 ? node.cost == 2.25 : isinf(node.cost));
    }
    hyp_serialized_destroy(s);
    free(classes);
    hyp_strbuf_dispose(&text);
    hyp_strbuf_dispose(&second);
    hyp_egraph_destroy(eg);
    hyp_egraph_destroy(again);
}

static void a_drawing_that_is_cut_says_so(void **state)
{
    (void)state;
    hyp_class_id root;
    hyp_egraph *eg = saturated(&root);
    hyp_strbuf text = {0};
    char label[64];
    must(hyp_egraph_write_dot(eg, &root, 1, 0, NULL, gather, &text, &diag));
    assert_null(strstr(text.data, "shown"));
    size_t drawn = 0;
    for (const char *at = text.data; (at = strstr(at, " [label=\"")); at++) drawn++;
    assert_int_equal(drawn, hyp_egraph_node_count(eg));
    text.len = 0;
    hyp_extraction ex;
    must(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_TREE, two_if_plus, NULL, &ex, &diag) == HYP_ERR_UNSUPPORTED
             ? HYP_OK
             : HYP_ERR_INTERNAL);
    must(hyp_egraph_write_dot(eg, &root, 1, 7, NULL, gather, &text, &diag));
    snprintf(label, sizeof label, "label=\"7 of %zu e-nodes shown\"", hyp_egraph_node_count(eg));
    assert_non_null(strstr(text.data, label));
    drawn = 0;
    for (const char *at = text.data; (at = strstr(at, " [label=\"")); at++) drawn++;
    assert_int_equal(drawn, 7);
    hyp_strbuf_dispose(&text);
    hyp_egraph_destroy(eg);
}

/* Classes that are a step from this one: of each whether it is inside of the part that is written. */
static void check_part(hyp_egraph *eg, hyp_class_id around, size_t depth)
{
    size_t bound = hyp_egraph_class_bound(eg), inside_count = 0, count, kids;
    uint8_t *inside = calloc(bound + 1, 1), *next = calloc(bound + 1, 1);
    inside[hyp_egraph_find(eg, around)] = 1;
    for (size_t step = 0; step < depth; step++) {
        memcpy(next, inside, bound);
        for (hyp_class_id c = 0; c < bound; c++) {
            if (hyp_egraph_find(eg, c) != c) continue;
            const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
            for (size_t n = 0; n < count; n++) {
                const hyp_class_id *list = hyp_enode_children(eg, nodes[n], &kids);
                for (size_t k = 0; k < kids; k++) {
                    hyp_class_id kid = hyp_egraph_find(eg, list[k]);
                    if (inside[c]) next[kid] = 1;
                    if (inside[kid]) next[c] = 1;
                }
            }
        }
        memcpy(inside, next, bound);
    }
    hyp_strbuf text = {0};
    const hyp_egraph_part part = {&around, 1, depth};
    must(hyp_egraph_write_part_json(eg, &part, NULL, NULL, gather, &text, &diag));
    hyp_serialized *s = parse(text.data);
    for (uint32_t c = 0; c < hyp_serialized_class_count(s); c++) {
        size_t in_file = 0, border = 0;
        hyp_class_id class = (hyp_class_id)strtoul(hyp_serialized_class_name(s, c), NULL, 10);
        for (uint32_t n = 0; n < hyp_serialized_node_count(s); n++) {
            hyp_serialized_node node = hyp_serialized_get(s, n);
            in_file += node.eclass == c;
            border += node.eclass == c && node.cost == 0;
        }
        hyp_egraph_class_nodes(eg, class, &count);
        assert_int_equal(in_file, inside[class] ? count : 1);
        assert_int_equal(border, !inside[class]);
        inside_count += inside[class];
    }
    size_t wanted = 0;
    for (size_t c = 0; c < bound; c++) wanted += inside[c];
    assert_int_equal(inside_count, wanted);
    hyp_serialized_destroy(s);
    text.len = 0;
    must(hyp_egraph_write_part_dot(eg, &part, 0, NULL, gather, &text, &diag));
    size_t clusters = 0;
    for (const char *at = text.data; (at = strstr(at, "subgraph cluster_")); at++) clusters++;
    assert_int_equal(clusters, wanted);
    hyp_strbuf_dispose(&text);
    free(inside);
    free(next);
}

static void a_part_is_what_is_near(void **state)
{
    (void)state;
    hyp_class_id root;
    hyp_egraph *eg = saturated(&root);
    for (size_t depth = 0; depth < 4; depth++) {
        check_part(eg, root, depth);
        check_part(eg, term(eg, "c"), depth);
        check_part(eg, term(eg, "(f \"a b\")"), depth);
    }
    hyp_strbuf text = {0};
    hyp_class_id none = 123456;
    const hyp_egraph_part nowhere = {&none, 1, 1}, nothing = {NULL, 0, 1};
    assert_int_equal(hyp_egraph_write_part_json(eg, &nowhere, NULL, NULL, gather, &text, NULL), HYP_ERR_INVALID_ARGUMENT);
    must(hyp_egraph_write_part_json(eg, &nothing, NULL, NULL, gather, &text, &diag));
    hyp_serialized *s = parse(text.data);
    assert_int_equal(hyp_serialized_node_count(s), 0);
    hyp_serialized_destroy(s);
    hyp_strbuf_dispose(&text);
    hyp_egraph_destroy(eg);
}

static void what_is_not_in_a_file_is_nothing(void **state)
{
    (void)state;
    hyp_serialized *s = parse("{\"nodes\": {\"a\": {\"op\": \"a\", \"eclass\": \"c\"}}}");
    for (uint32_t i = 1; i < 3; i++) {
        hyp_serialized_node node = hyp_serialized_get(s, i == 1 ? 1 : HYP_NONE);
        assert_null(node.id);
        assert_null(node.op);
        assert_int_equal(node.child_count, 0);
        assert_int_equal(node.eclass, HYP_NONE);
        assert_null(hyp_serialized_class_name(s, i == 1 ? 1 : HYP_NONE));
        assert_null(hyp_serialized_class_type(s, i == 1 ? 1 : HYP_NONE));
    }
    hyp_serialized_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(extraction_skips_subsumed_and_infinite_nodes),
        cmocka_unit_test(what_cannot_be_extracted_is_said),
        cmocka_unit_test(faults_name_their_place),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(an_egraph_comes_back_as_it_was_written),
        cmocka_unit_test(a_drawing_that_is_cut_says_so),
        cmocka_unit_test(a_part_is_what_is_near),
        cmocka_unit_test(what_is_not_in_a_file_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

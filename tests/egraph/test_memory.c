/* Every allocation in turn fails: the call says so, nothing leaks (under the address sanitizer), and the
 * e-graph works on when there is memory again. */
#include "base/diag.h"
#include "base/mem.h"
#include "support.h"

typedef struct fact {
    size_t depth;
} fact;

static hyp_status make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    size_t n;
    const hyp_class_id *kids = hyp_enode_children(eg, node, &n);
    fact *out = data;
    out->depth = 1;
    for (size_t j = 0; j < n; j++) {
        const fact *kid = hyp_egraph_data(eg, kids[j]);
        if (kid->depth + 1 < 100 && kid->depth + 1 > out->depth) out->depth = kid->depth + 1;
    }
    return HYP_OK;
}

static hyp_status merge(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag)
{
    (void)eg, (void)user, (void)diag;
    fact *a = into;
    const fact *b = from;
    *out_changed = b->depth > a->depth;
    if (*out_changed) *a = *b;
    return HYP_OK;
}

static hyp_status modify(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    size_t n;
    (void)user;
    if (!hyp_egraph_class_nodes(eg, c, &n)) return hyp_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    return HYP_OK;
}

static hyp_status has_nodes(const hyp_call *call, bool *out, hyp_diag *diag)
{
    size_t n;
    if (!hyp_egraph_class_nodes(call->eg, call->args[0], &n)) return hyp_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    *out = n % 2 == 1;
    return HYP_OK;
}

static hyp_status wrap(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_symbol symbol;
    HYP_TRY(hyp_egraph_symbol(call->eg, "wrapped", &symbol, diag));
    return hyp_egraph_add(call->eg, symbol, call->args, call->arg_count, out, NULL, diag);
}

static double one(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node, (void)user;
    return 1;
}

static hyp_status seen(const hyp_match_view *match, void *user, hyp_diag *diag)
{
    (void)match, (void)user, (void)diag;
    return HYP_OK;
}

static hyp_status nearly(const hyp_near_miss *near, void *user, hyp_diag *diag)
{
    (void)near, (void)user, (void)diag;
    return HYP_OK;
}

/* Searching alone, a schedule, why rules do not apply, and back again. */
static hyp_status look_around(hyp_egraph *eg, hyp_ruleset *rules, hyp_diag *diag)
{
    hyp_pattern *pattern;
    hyp_egraph_run_report report;
    hyp_schedule part = {.kind = HYP_SCHEDULE_RUN, .rules = rules};
    hyp_schedule twice = {.kind = HYP_SCHEDULE_REPEAT, .times = 2, .parts = &part, .part_count = 1};
    HYP_TRY(hyp_pattern_parse(eg, "(+ ?a (+ ?b 3))", &pattern, diag));
    hyp_status status = hyp_egraph_ematch(eg, pattern, seen, NULL, diag);
    hyp_pattern_destroy(pattern);
    HYP_TRY(status);
    HYP_TRY(hyp_egraph_push(eg, diag));
    status = hyp_egraph_run_schedule(eg, &twice, NULL, &report, diag);
    hyp_egraph_run_report_dispose(&report);
    HYP_TRY(status);
    for (size_t i = 0; i < hyp_ruleset_count(rules); i++)
        HYP_TRY(hyp_ruleset_near_misses(rules, i, NULL, 0, 4, nearly, NULL, diag));
    return hyp_egraph_pop(eg, diag);
}

/* Everything that the engine does, on a small scale; the e-graph is *out as soon as there is one. */
static hyp_status use_all(bool explain, hyp_egraph **out, hyp_ruleset **out_rules, hyp_diag *diag)
{
    static const char rules[] =
        ASSOC_RULES "(rule seq (cat ?a... (cat ?b...)) => (cat ?a... ?b...))"
                    "(rule fun (+ ?a 3) => (plus ?a (wrap ?a ?a)) :if (or (has-nodes ?a) (not (has-nodes (+ ?a 1)))))"
                    "(rule two (multi (?x = (+ ?a ?b)) (?y = (cat ?a ?c...))) => (union (near ?x ?y) (mix ?c...)))";
    static const hyp_analysis analysis = {.data_size = sizeof(fact), .make = make, .merge = merge, .modify = modify};
    hyp_egraph_options options = {.size = sizeof options, .explain = explain, .explain_all = explain};
    if (!explain) options.analysis = &analysis;
    hyp_class_id a, b;
    HYP_TRY(hyp_egraph_create(&options, out, diag));
    hyp_egraph *eg = *out;
    HYP_TRY(hyp_egraph_register_condition(eg, "has-nodes", 1, has_nodes, NULL, diag));
    HYP_TRY(hyp_egraph_register_function(eg, "wrap", -1, wrap, NULL, diag));
    HYP_TRY(hyp_ruleset_parse(eg, "r", rules, strlen(rules), out_rules, diag));
    HYP_TRY(hyp_egraph_add_text(eg, "(+ 1 (+ 2 (+ 3 4)))", &a, diag));
    HYP_TRY(hyp_egraph_add_text(eg, "(cat 1 2 3 4 5 (cat 6 7 8))", &b, diag));
    HYP_TRY(hyp_egraph_union(eg, a, b, "why not", NULL, diag));
    hyp_egraph_run_report report;
    hyp_egraph_run_options run = {.size = sizeof run, .max_iterations = 4};
    hyp_status status = hyp_egraph_run(eg, *out_rules, &run, &report, diag);
    hyp_egraph_run_report_dispose(&report);
    HYP_TRY(status);
    for (int method = HYP_EXTRACT_TREE; method <= HYP_EXTRACT_DAG; method++) {
        hyp_extraction ex;
        HYP_TRY(hyp_egraph_extract(eg, &a, 1, (hyp_extract_method)method, one, NULL, &ex, diag));
        char *text = hyp_extraction_text(eg, &ex, a);
        hyp_extraction_dispose(&ex);
        if (!text) return hyp_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
        free(text);
    }
    HYP_TRY(look_around(eg, *out_rules, diag));
    if (!explain) return HYP_OK;
    static const char *const pairs[][2] = {{"(+ 1 (+ 2 (+ 3 4)))", "(+ (+ 4 3) (+ 2 1))"},
                                           {"(+ (+ 4 2) 3)", "(plus (+ 4 2) (wrapped (+ 4 2) (+ 4 2)))"}};
    for (size_t i = 0; i < 2; i++) {
        hyp_proof proof;
        hyp_proof_check_options check = {.size = sizeof check, .ask = true};
        HYP_TRY(hyp_egraph_explain(eg, pairs[i][0], pairs[i][1], &proof, diag));
        status = hyp_proof_check(&proof, pairs[i][0], pairs[i][1], out_rules, 1, &check, NULL, diag);
        hyp_proof_dispose(&proof);
        if (status != HYP_OK) break;
        hyp_shared_proof shared;
        HYP_TRY(hyp_egraph_explain_shared(eg, pairs[i][0], pairs[i][1], &shared, diag));
        status = hyp_shared_proof_check(&shared, pairs[i][0], pairs[i][1], out_rules, 1, &check, NULL, diag);
        hyp_shared_proof_dispose(&shared);
        HYP_TRY(status);
    }
    return HYP_OK;
}

static void count_text(const char *text, size_t len, void *user)
{
    (void)text;
    *(size_t *)user += len;
}

/* Extracts from a file by every method, loads it, writes it. */
static hyp_status use_serialized(hyp_egraph *eg, const hyp_serialized *s, hyp_diag *diag)
{
    size_t written = 0, count;
    hyp_class_id c;
    for (int method = HYP_EXTRACT_TREE; method <= HYP_EXTRACT_EXACT; method++) {
        hyp_extraction ex;
        hyp_extract_options options = {.size = sizeof options, .method = (hyp_extract_method)method};
        HYP_TRY(hyp_serialized_extract(s, &options, &ex, diag));
        hyp_extraction_dispose(&ex);
    }
    hyp_class_id *classes = hyp_malloc(hyp_serialized_class_count(s) * sizeof *classes);
    if (!classes) return hyp_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    const uint32_t *roots = hyp_serialized_roots(s, &count);
    hyp_status status = hyp_serialized_load(s, eg, classes, diag);
    c = status == HYP_OK && count ? classes[roots[0]] : HYP_NONE;
    hyp_free(classes);
    HYP_TRY(status);
    HYP_TRY(hyp_egraph_write_json(eg, &c, 1, one, NULL, count_text, &written, diag));
    HYP_TRY(hyp_egraph_write_dot(eg, &c, 1, 20, NULL, count_text, &written, diag));
    const hyp_egraph_part part = {&c, 1, 2};
    HYP_TRY(hyp_egraph_write_part_json(eg, &part, one, NULL, count_text, &written, diag));
    HYP_TRY(hyp_egraph_write_part_dot(eg, &part, 20, NULL, count_text, &written, diag));
    return written > 1000 ? HYP_OK : hyp_fail(diag, HYP_ERR_INTERNAL, "nothing was written");
}

static void every_allocation_for_a_file_may_fail(void **state)
{
    (void)state;
    /* Classes that share children in more than one way, with a cycle, so that the exact search has something to do. */
    char text[12000];
    size_t len = (size_t)snprintf(text, sizeof text, "{\"nodes\": {");
    uint32_t seed = 7;
    for (uint32_t n = 0; n < 120; n++) {
        uint32_t c = n % 40, kids[2];
        for (int k = 0; k < 2; k++) kids[k] = (seed = seed * 1664525 + 1013904223) >> 20;
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%s\"n%u\": {\"op\": \"f%u\", \"eclass\": \"c%u\", \"cost\": %u", n ? ", " : "", n,
                                n % 7, c, 1 + seed % 5);
        if (c < 34 && n < 80)
            len += (size_t)snprintf(text + len, sizeof text - len, ", \"children\": [\"n%u\", \"n%u\"]",
                                    c + 1 + kids[0] % (39 - c), c + 1 + kids[1] % (39 - c));
        else if (c < 34)
            len += (size_t)snprintf(text + len, sizeof text - len, ", \"children\": [\"n%u\"]", kids[0] % 40);
        len += (size_t)snprintf(text + len, sizeof text - len, "}");
    }
    snprintf(text + len, sizeof text - len, "}, \"root_eclasses\": [\"c0\", \"c1\"]}");
    hyp_status status = HYP_ERR_NO_MEMORY;
    uint64_t n = 1;
    for (; status != HYP_OK; n += n < 1500 ? 1 : n / 300) {
        hyp_serialized *s = NULL;
        hyp_egraph *eg = NULL;
        hyp_diag said = {0};
        hyp_mem_fail_after(n);
        status = hyp_serialized_parse("file.json", text, strlen(text), &s, &said);
        if (status == HYP_OK) status = hyp_egraph_create(NULL, &eg, &said);
        if (status == HYP_OK) status = use_serialized(eg, s, &said);
        hyp_mem_fail_after(0);
        if (status != HYP_OK && (status != HYP_ERR_NO_MEMORY || !strstr(said.message, "memory")))
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, hyp_status_name(status), said.message);
        hyp_serialized_destroy(s);
        hyp_egraph_destroy(eg);
    }
    assert_true(n > 100);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        hyp_status status = HYP_ERR_NO_MEMORY;
        uint64_t n = 1;
        for (; status != HYP_OK; n += n < 3000 ? 1 : n / 300) {
            hyp_egraph *eg = NULL;
            hyp_ruleset *rules = NULL;
            hyp_diag said = {0};
            hyp_mem_fail_after(n);
            status = use_all(explain, &eg, &rules, &said);
            hyp_mem_fail_after(0);
            if (status != HYP_OK && (status != HYP_ERR_NO_MEMORY || !strstr(said.message, "memory")))
                fail_msg("allocation %llu: %s: %s", (unsigned long long)n, hyp_status_name(status), said.message);
            if (eg && n % 3 == 0) { /* memory is back: what was begun can be ended */
                rebuild_and_check(eg);
                if (rules) run_checked(eg, rules, 3);
            }
            hyp_ruleset_destroy(rules);
            hyp_egraph_destroy(eg);
        }
        assert_true(n > 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail),
                                       cmocka_unit_test(every_allocation_for_a_file_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

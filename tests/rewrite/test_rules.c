/* Every rule against the reference interpreter: rules.cases has graphs that a rule matches (`case`) and graphs
 * that it must not match (`never`). Sizes, element types and data are drawn; the graph with the rule applied must
 * compute what the graph without it computes, as strictly as the rule's class says. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "rewrite/builtin.h"
#include "rewrite/internal.h"
#include "rewrite/term_graph.h"

enum { TRIALS = 16, MAX_VALUES = 8 };

typedef struct rule_texts {
    const hyp_builtin_text *texts;
    size_t count;
} rule_texts;

typedef struct trial {
    bool applied;
    char difference[512]; /* empty when both sides agree */
} trial;

/* ---- one rule on one graph -------------------------------------------------------------------------- */

/* New e-nodes are cheap, so that the result is built by the rule. */
static double prefer_new(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    size_t children;
    hyp_enode_children(eg, node, &children);
    if (children == 0) return 0;
    return node < *(const size_t *)user ? 1 : 0.001;
}

static hyp_status parse_rules(hyp_rw *rw, rule_texts rules, hyp_ruleset **out, hyp_diag *diag)
{
    *out = NULL;
    for (size_t i = 0; i < rules.count; i++) {
        const hyp_builtin_text *t = &rules.texts[i];
        if (*out)
            HYP_TRY(hyp_ruleset_extend_with(*out, t->name, t->text, t->len, hyp_rw_desugar, rw, diag));
        else
            HYP_TRY(hyp_ruleset_parse_with(rw->eg, t->name, t->text, t->len, hyp_rw_desugar, rw, out, diag));
    }
    return HYP_OK;
}

/* Where `head` begins a form of a text, and the form's length: up to the next one that starts a line. */
static const char *find_form(const char *text, const char *head, size_t *out_len)
{
    const char *start = strstr(text, head), *end = start ? strstr(start, "\n(") : NULL;
    if (start) *out_len = end ? (size_t)(end - start) : strlen(start);
    return start;
}

/* The for-each form that makes a rule: the one that has a rule whose name is the rule's with a word replaced by its
 * mark, and the word in its list. */
static const char *find_each(const char *text, const char *rule, size_t *out_len)
{
    static const char mark[] = "<op>";
    for (const char *at = text; (at = strstr(at, "(for-each <op> (")) != NULL; at++) {
        size_t len = 0;
        const char *form = find_form(at, "(for-each <op> (", &len), *words = form + strlen("(for-each <op> (");
        const char *stop = strchr(words, ')');
        for (const char *word = words; word < stop;) {
            size_t n = strcspn(word, " )");
            for (const char *hit = rule; *hit; hit++) {
                if (strncmp(hit, word, n) != 0) continue;
                char head[128];
                snprintf(head, sizeof head, "rule %.*s%s%s ", (int)(hit - rule), rule, mark, hit + n);
                const char *found = strstr(form, head);
                if (found && found < form + len) {
                    *out_len = len;
                    return form;
                }
            }
            word += n + 1;
        }
    }
    return NULL;
}

/* The text of one rule, cut out of its file: reading all of them in every trial would take most of the time. */
static rule_texts cut_out(rule_texts rules, const char *rule, hyp_builtin_text *out)
{
    char base[112], heads[3][128];
    size_t len = strlen(rule), n = len > 4 && strcmp(rule + len - 4, "-rev") == 0 ? len - 4 : len;
    snprintf(base, sizeof base, "%.*s", (int)n, rule);
    snprintf(heads[0], sizeof heads[0], "(rule %s ", rule);
    snprintf(heads[1], sizeof heads[1], "(birule %s ", rule);
    snprintf(heads[2], sizeof heads[2], "(birule %s ", base);
    for (size_t i = 0; i < rules.count; i++) {
        const char *text = rules.texts[i].text, *start = NULL;
        for (int k = 0; k < 3 && !start; k++) start = find_form(text, heads[k], &len);
        if (!start) start = find_each(text, rule, &len);
        if (!start) start = find_each(text, base, &len);
        if (!start) continue;
        *out = (hyp_builtin_text){rules.texts[i].name, start, len};
        return (rule_texts){out, 1};
    }
    return rules;
}

/* Applies the rule alone. *out_class is its numeric class, or 0 when there is no such rule. */
static hyp_status apply_rule(const hyp_graph *in, rule_texts rules, const char *rule, hyp_graph *out, bool *out_applied,
                             char *out_class, hyp_diag *diag)
{
    hyp_rw rw = {0};
    hyp_ruleset *set;
    hyp_run_report report = {0};
    hyp_extraction choice = {0};
    hyp_class_id roots[MAX_VALUES];
    const char **names = NULL;
    hyp_builtin_text text;
    size_t bound = 0;
    *out_class = 0;
    hyp_status status = hyp_rw_encode(&rw, in, diag);
    if (status == HYP_OK) status = parse_rules(&rw, cut_out(rules, rule, &text), &set, diag);
    if (status == HYP_OK) {
        names = hyp_arena_zalloc(&rw.arena, hyp_ruleset_count(set), sizeof *names);
        status = names ? HYP_OK : hyp_fail_memory(diag, hyp_ruleset_count(set) * sizeof *names);
    }
    if (status == HYP_OK) {
        bound = hyp_egraph_enode_bound(rw.eg);
        for (size_t i = 0; i < hyp_ruleset_count(set); i++) {
            hyp_rule_info info = hyp_ruleset_rule(set, i);
            bool is_it = strcmp(info.name, rule) == 0;
            names[i] = info.name;
            if (is_it) *out_class = info.numeric_class[0] ? info.numeric_class[0] : 'E';
            hyp_ruleset_enable(set, i, is_it);
        }
        hyp_run_options options = {.size = sizeof options, .max_iterations = 3, .max_nodes = 2000};
        status = hyp_egraph_run(rw.eg, set, &options, &report, diag);
        for (size_t i = 0; status == HYP_OK && i < report.rule_count; i++)
            if (report.rules[i].refused) /* for a rule of the project a condition is missing, which says where it fits */
                status = hyp_fail(diag, HYP_ERR_MISMATCH, "a rule is wrong: %s", report.rules[i].refusal);
    }
    *out_applied = false;
    for (size_t i = 0; i < report.rule_count; i++) *out_applied = *out_applied || report.rules[i].applications > 0;
    if (status == HYP_OK) {
        for (size_t i = 0; i < in->outputs.len; i++) roots[i] = rw.class_of[in->outputs.data[i].value];
        status = hyp_egraph_extract(rw.eg, roots, in->outputs.len, HYP_EXTRACT_DAG, prefer_new, &bound, &choice, diag);
    }
    hyp_rw_rules known = {names, status == HYP_OK ? hyp_ruleset_count(set) : 0};
    if (status == HYP_OK) status = hyp_rw_decode(&rw, &choice, &known, out, diag);
    if (status == HYP_OK) status = hyp_graph_verify(out, diag);
    hyp_extraction_dispose(&choice);
    hyp_run_report_dispose(&report);
    hyp_rw_dispose(&rw);
    return status;
}

/* ---- comparing -------------------------------------------------------------------------------------- */

/* How two graphs are compared. */
typedef struct strictness {
    char numeric_class;
    term_data data;
    hyp_eval_mode mode;
} strictness;

static bool same_real(double a, double b, strictness s, double scale)
{
    char numeric_class = s.numeric_class;
    if (isnan(a) || isnan(b)) return (isnan(a) && isnan(b)) || (numeric_class == 'N' && s.data != TERM_FINITE);
    if (numeric_class == 'E') return a == b && !signbit(a) == !signbit(b);
    if (numeric_class == 'Z' || numeric_class == 'N') return a == b;
    double tolerance = numeric_class == 'A' ? 1e-3 : s.mode == HYP_EVAL_NATIVE ? 1e-5 : 1e-7;
    return a == b || fabs(a - b) <= tolerance * scale;
}

/* Fills `difference` when two results are not as equal as the class demands. */
static void compare(const hyp_eval_tensor *a, const hyp_eval_tensor *b, strictness s, char *difference, size_t size)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->count != b->count ||
        memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0) {
        snprintf(difference, size, "the results differ in type");
        return;
    }
    double scale = 1;
    for (size_t i = 0; a->f && i < a->count; i++)
        if (isfinite(a->f[i]) && fabs(a->f[i]) > scale) scale = fabs(a->f[i]);
    for (size_t i = 0; i < a->count; i++) {
        if (a->f ? same_real(a->f[i], b->f[i], s, scale) : a->i[i] == b->i[i]) continue;
        if (a->f)
            snprintf(difference, size, "element %zu is %.17g, with the rule %.17g (%s)", i, a->f[i], b->f[i],
                     s.mode == HYP_EVAL_NATIVE ? "rounded" : "in double");
        else
            snprintf(difference, size, "element %zu is %lld, with the rule %lld", i, (long long)a->i[i],
                     (long long)b->i[i]);
        return;
    }
}

static hyp_status compare_graphs(const hyp_graph *a, const hyp_graph *b, char numeric_class, term_random *random,
                                 char *difference, size_t size, hyp_diag *diag)
{
    hyp_eval_tensor inputs[MAX_VALUES] = {{0}}, ya[MAX_VALUES] = {{0}}, yb[MAX_VALUES] = {{0}};
    strictness s = {.numeric_class = numeric_class, .data = TERM_FINITE};
    if (numeric_class == 'E' || numeric_class == 'Z') s.data = TERM_ANY;
    if (numeric_class == 'N' && term_random_below(random, 2)) s.data = TERM_NO_NAN;
    hyp_status status = term_inputs(a, s.data, random, inputs, diag);
    for (int mode = 0; mode < 2 && status == HYP_OK; mode++) {
        s.mode = mode ? HYP_EVAL_NATIVE : HYP_EVAL_DOUBLE;
        status = hyp_graph_eval(a, s.mode, inputs, a->inputs.len, ya, diag);
        if (status == HYP_OK) status = hyp_graph_eval(b, s.mode, inputs, b->inputs.len, yb, diag);
        for (size_t i = 0; i < a->outputs.len && status == HYP_OK; i++)
            if (!difference[0]) compare(&ya[i], &yb[i], s, difference, size);
        for (size_t i = 0; i < a->outputs.len; i++) {
            hyp_eval_tensor_dispose(&ya[i]);
            hyp_eval_tensor_dispose(&yb[i]);
        }
    }
    for (size_t i = 0; i < a->inputs.len; i++) hyp_eval_tensor_dispose(&inputs[i]);
    return status;
}

/* ---- cases ------------------------------------------------------------------------------------------ */

/* (case RULE (sizes M N ...) form...): the symbols listed get numbers, others stay symbols; in half of the trials
 * all get numbers. */
static void draw_sizes(const hyp_sexpr *kase, term_random *random, term_sizes *out)
{
    static const int64_t choices[] = {1, 2, 3, 4, 5, 2, 3};
    out->count = 0;
    if (kase->count <= 2 || !hyp_sexpr_is_form(kase->items[2], "sizes")) return;
    int64_t same = term_random_below(random, 3) == 0 ? choices[term_random_below(random, 7)] : 0; /* square */
    for (uint32_t i = 1; i < kase->items[2]->count; i++) {
        out->names[out->count] = kase->items[2]->items[i]->text;
        out->values[out->count++] = same ? same : choices[term_random_below(random, 7)];
    }
}

static hyp_status run_trial(const hyp_sexpr *kase, rule_texts rules, uint64_t seed, trial *out, hyp_diag *diag)
{
    term_random random = {seed};
    term_sizes sizes;
    hyp_graph before, after;
    hyp_dims *dims;
    char numeric_class = 0;
    const char *rule = kase->items[1]->text;
    static const hyp_dtype reals[] = {HYP_F32, HYP_F64};
    *out = (trial){0};
    draw_sizes(kase, &random, &sizes);
    HYP_TRY(hyp_dims_create(&dims, diag));
    hyp_graph_init(&before, dims);
    hyp_graph_init(&after, dims);
    uint32_t first = kase->count > 2 && hyp_sexpr_is_form(kase->items[2], "sizes") ? 3 : 2;
    hyp_status status =
        term_graph_build(&before, kase, first, &sizes, reals[term_random_below(&random, 2)], &random, diag);
    if (status == HYP_OK) status = apply_rule(&before, rules, rule, &after, &out->applied, &numeric_class, diag);
    if (status == HYP_OK && !numeric_class)
        snprintf(out->difference, sizeof out->difference, "there is no rule of this name");
    if (status == HYP_OK && out->applied && hyp_graph_equal(&before, &after))
        snprintf(out->difference, sizeof out->difference, "the rule was applied and nothing came of it");
    if (status == HYP_OK && !out->difference[0])
        status = compare_graphs(&before, &after, numeric_class, &random, out->difference, sizeof out->difference, diag);
    hyp_graph_dispose(&before);
    hyp_graph_dispose(&after);
    hyp_dims_destroy(dims);
    return status;
}

/* The outcome of all trials of a case; the message says what is wrong, or is empty. */
static void run_case(const hyp_sexpr *kase, rule_texts rules, char *message, size_t size)
{
    bool never = hyp_sexpr_is_form(kase, "never"), applied = false;
    message[0] = 0;
    for (uint64_t i = 0; i < TRIALS && !message[0]; i++) {
        hyp_diag diag = {0};
        trial t;
        hyp_status status = run_trial(kase, rules, i * 7919 + kase->line, &t, &diag);
        if (status != HYP_OK)
            snprintf(message, size, "%.400s", diag.message);
        else if (t.difference[0])
            snprintf(message, size, "%.400s", t.difference);
        else if (never && t.applied)
            snprintf(message, size, "the rule was applied");
        applied = applied || t.applied;
    }
    if (!message[0] && !never && !applied) snprintf(message, size, "the rule was never applied");
}

/* ---- tests ------------------------------------------------------------------------------------------ */

static rule_texts built_in(void) { return (rule_texts){hyp_builtin_rules, hyp_builtin_rules_count}; }

static const hyp_sexpr *read_cases(hyp_arena *arena)
{
    const char *path = HYP_SOURCE_DIR "/tests/rewrite/rules.cases";
    hyp_mapping map;
    hyp_diag diag = {0};
    const hyp_sexpr *forms = NULL;
    if (hyp_map_file(path, &map, &diag) != HYP_OK ||
        hyp_sexpr_parse(arena, path, (const char *)map.data, map.size, &forms, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    hyp_unmap(&map);
    return forms;
}

static void every_case_holds(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    const hyp_sexpr *cases = read_cases(&arena);
    int bad = 0;
    for (uint32_t i = 0; i < cases->count; i++) {
        char message[512];
        run_case(cases->items[i], built_in(), message, sizeof message);
        if (!message[0]) continue;
        print_error("rules.cases:%u: %s %s: %s\n", cases->items[i]->line, cases->items[i]->items[0]->text,
                    cases->items[i]->items[1]->text, message);
        bad++;
    }
    hyp_arena_dispose(&arena);
    assert_int_equal(bad, 0);
}

static void every_rule_has_a_case(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    hyp_rw rw = {0};
    hyp_dims *dims;
    hyp_diag diag = {0};
    hyp_ruleset *rules;
    const hyp_sexpr *cases = read_cases(&arena);
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    assert_int_equal(hyp_rw_init(&rw, dims, &diag), HYP_OK);
    if (parse_rules(&rw, built_in(), &rules, &diag) != HYP_OK) fail_msg("%s", diag.message);
    int missing = 0;
    for (size_t i = 0; i < hyp_ruleset_count(rules); i++) {
        hyp_rule_info info = hyp_ruleset_rule(rules, i);
        bool found = false;
        for (uint32_t k = 0; k < cases->count; k++)
            found = found || (hyp_sexpr_is_form(cases->items[k], "case") &&
                              strcmp(cases->items[k]->items[1]->text, info.name) == 0);
        if (!found) print_error("rule %s has no case in rules.cases\n", info.name);
        missing += !found;
        assert_true(info.doc[0] != 0);
        assert_true(strlen(info.numeric_class) == 1 && strchr("EZRAN", info.numeric_class[0]));
    }
    hyp_rw_dispose(&rw);
    hyp_dims_destroy(dims);
    hyp_arena_dispose(&arena);
    assert_int_equal(missing, 0);
}

/* A file of rules that the build leaves out would have no tests either. */
static void every_rule_file_is_built_in(void **state)
{
    (void)state;
    DIR *folder = opendir(HYP_SOURCE_DIR "/rules");
    assert_non_null(folder);
    size_t files = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".rules") != 0) continue;
        size_t stem = (size_t)(dot - entry->d_name);
        bool found = false;
        for (size_t i = 0; i < hyp_builtin_rules_count; i++) {
            const char *name = hyp_builtin_rules[i].name;
            found = found || (strlen(name) == stem && strncmp(name, entry->d_name, stem) == 0);
        }
        if (!found) fail_msg("rules/%s is not among the built-in rules", entry->d_name);
        files++;
    }
    closedir(folder);
    assert_int_equal(files, hyp_builtin_rules_count);
}

/* What run_case says of a rule text and a case text. */
static void judge(const char *rule, const char *kase, char *message, size_t size)
{
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    hyp_builtin_text text = {"test", rule, strlen(rule)};
    assert_int_equal(hyp_sexpr_parse(&arena, "case", kase, strlen(kase), &forms, NULL), HYP_OK);
    run_case(forms->items[0], (rule_texts){&text, 1}, message, size);
    hyp_arena_dispose(&arena);
}

static void wrong_rules_are_caught(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"(rule w :class E (sub ?x ?y) => (sub ?y ?x))",
         "(case w (sizes M) (input x F M) (input y F M) (out (sub x y)))"},
        /* the length of a column is that of a row where the matrix is square */
        {"(rule w :class R (add (linear ?w none ?x) ?b) => (linear ?w (reshape :shape (rows ?w) ?b) ?x) :if (has-shape "
         "?b (3 1)))",
         "(case w (input x F 3 2) (const w F 3 2) (const b F 3 1) (out (add (linear w none x) b)))"},
        /* exact in double, not when rounded */
        {"(rule w :class E (add (linear ?w none ?x) ?b) => (linear ?w ?b ?x))",
         "(case w (sizes M) (input x f32 M 20) (const w f32 5 20) (const b f32 5) (out (add (linear w none x) b)))"},
        {"(rule w :class Z (mul ?x ?c) => ?c :if (all-equal ?c 0))",
         "(case w (input x F 3) (const c F 3 0.0) (out (mul x c)))"},
        {"(rule w :class E (relu ?x) => (max ?x (scalar -0.0 ?x)))", "(case w (input x F 9) (out (relu x)))"},
        /* axes swapped, transposes dropped and operands exchanged: square matrices hide them from the types */
        {"(rule w :class R (reduce-sum :axes (0) :keep 0 ?x) => (reduce-sum :axes (1) :keep 0 ?x))",
         "(case w (input x F 3 3) (out (reduce-sum :axes (0) :keep 0 x)))"},
        {"(rule w :class R (softmax :axis 1 ?x) => (softmax :axis 0 ?x))",
         "(case w (input x F M M) (out (softmax :axis 1 x)))"},
        {"(rule w :class E (transpose :perm (1 0) ?x) => ?x)",
         "(case w (input x F M M) (out (relu (transpose :perm (1 0) x))))"},
        {"(rule w :class R (linear (transpose :perm (1 0) ?w) none ?x) => (linear ?w none ?x))",
         "(case w (input x F M 3) (const w F 3 3) (out (linear (transpose :perm (1 0) w) none x)))"},
        {"(rule w :class R (matmul ?x ?y) => (matmul ?y ?x))",
         "(case w (sizes N) (input x F N N) (input y F N N) (out (matmul x y)))"},
        {"(rule w :class E (transpose :perm (1 0) ?x) => (reshape :shape (3 2) ?x))",
         "(case w (input x F 2 3) (out (transpose :perm (1 0) x)))"},
        {"(rule w :class E (concat :axis 0 ?x ?y) => (concat :axis 0 ?y ?x))",
         "(case w (input x F M 3) (input y F M 3) (out (concat :axis 0 x y)))"},
        /* no condition on broadcasting: the constant makes the result larger */
        {"(rule w :class E (mul ?x ?c) => ?x :if (all-equal ?c 1))",
         "(case w (input x F 1 3) (const c F 4 3 1.0) (out (mul x c)))"},
        {"(rule w :class E (add ?x ?c) => ?x :if (all-equal ?c 0))",
         "(case w (sizes N) (input x F 3) (const c F N 1 0.0) (out (add x c)))"},
        /* no condition on the element type */
        {"(rule w :class E (cast :to f32 (cast :to f16 ?x)) => ?x)",
         "(case w (input x f32 M 9) (out (cast :to f32 (cast :to f16 x))))"},
        {"(rule w :class R (mul (div ?x ?c) ?c) => ?x)",
         "(case w (input x i32 M 9) (const c i32 1 2.0) (out (mul (div x c) c)))"},
        /* a class that promises too much: of the zero's sign, of rounding, of infinities */
        {"(rule w :class E (sub ?x ?x) => (mul ?x (scalar 0 ?x)))", "(case w (input x F M 9) (out (sub x x)))"},
        {"(rule w :class Z (add (add ?x ?y) ?z) => (add ?x (add ?y ?z)))",
         "(case w (input x f32 9) (input y f32 9) (input z f32 9) (out (add (add x y) z)))"},
        {"(rule w :class Z (sub (add ?x ?y) ?y) => ?x)",
         "(case w (input x F 9) (input y F 9) (out (sub (add x y) y)))"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[512];
        judge(wrong[i][0], wrong[i][1], message, sizeof message);
        if (!message[0]) fail_msg("a wrong rule passed: %s", wrong[i][0]);
        /* A mistake in the rule's text or in its case is no catch. */
        if (strncmp(message, "element ", 8) != 0 && !strstr(message, "a rule is wrong"))
            fail_msg("a wrong rule was not judged: %s: %s", wrong[i][0], message);
    }
}

static void rules_that_change_the_type_are_caught(void **state)
{
    (void)state;
    char message[512];
    judge("(rule w :class E (transpose :perm (1 0) ?x) => ?x)",
          "(case w (input x F 2 3) (out (transpose :perm (1 0) x)))", message, sizeof message);
    assert_non_null(strstr(message, "[3 2]"));
    assert_non_null(strstr(message, "[2 3]"));
    assert_non_null(strstr(message, "a rule is wrong"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_file_is_built_in),
        cmocka_unit_test(every_rule_has_a_case),
        cmocka_unit_test(every_case_holds),
        cmocka_unit_test(wrong_rules_are_caught),
        cmocka_unit_test(rules_that_change_the_type_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

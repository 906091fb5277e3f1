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

#include "rewrite/trials.h"
#include "support/count.h"

/* ---- tests ------------------------------------------------------------------------------------------ */

/* Empty where all is well. */
static void run_case(const hyp_sexpr *kase, rule_texts rules, uint32_t trials, char *message, size_t size)
{
    rule_outcome outcome;
    rule_case_run(kase, rules, trials, &outcome);
    snprintf(message, size, "%s", outcome.message);
}

static rule_texts built_in(void) { return (rule_texts){hyp_builtin_rules, hyp_builtin_rules_count}; }

static const hyp_sexpr *read_cases(hyp_arena *arena)
{
    hyp_diag diag = {0};
    const hyp_sexpr *forms = NULL;
    if (rule_cases_read(arena, &forms, &diag) != HYP_OK) fail_msg("%s", diag.message);
    return forms;
}

static void every_case_holds(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    const hyp_sexpr *cases = read_cases(&arena);
    uint32_t trials = (uint32_t)test_count("HYPATIA_RULE_TRIALS", 16);
    int bad = 0;
    for (uint32_t i = 0; i < cases->count; i++) {
        char message[512];
        run_case(cases->items[i], built_in(), trials, message, sizeof message);
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
    if (rule_texts_parse(&rw, built_in(), &rules, &diag) != HYP_OK) fail_msg("%s", diag.message);
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

/* What run_case says of a rule text and a case text, of as many trials as show what is wrong. */
static void judge(const char *rule, const char *kase, char *message, size_t size)
{
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    hyp_builtin_text text = {"test", rule, strlen(rule)};
    assert_int_equal(hyp_sexpr_parse(&arena, "case", kase, strlen(kase), &forms, NULL), HYP_OK);
    enum { TRIALS = 32 };
    run_case(forms->items[0], (rule_texts){&text, 1}, TRIALS, message, size);
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

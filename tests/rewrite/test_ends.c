/* Normalizing ends on every graph, soon: what exporters leave behind that does nothing, and sums behind layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/sexpr.h"
#include "rewrite/builtin.h"
#include "rewrite/rewriting.h"

/* Most iterations and e-nodes of a phase, for graphs of a few nodes. */
enum { ITERATIONS = 20, E_NODES = 200 };

static void assert_ends(const fixture *f, const char *what, size_t iterations, size_t e_nodes)
{
    assert_int_equal(f->report.phase_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct hyp_rewrite_phase *p = &f->report.phases[i];
        if (p->stop != HYP_STOP_SATURATED || p->iterations > iterations || p->e_nodes > e_nodes)
            fail_msg("%s\n%s: %s, %zu iterations, %zu e-nodes, %g s", what, p->name, hyp_stop_name(p->stop),
                     p->iterations, p->e_nodes, p->seconds);
    }
}

static void what_does_nothing_ends(void **state)
{
    (void)state;
    /* Weights of 128: their products with constants are too large for rules to look at. */
    static const char *const graphs[] = {
        /* a class that contains itself, before weights and behind them */
        "(input x f32 n 128) (const z f32 128 0.0) (const w f32 128 128) (const b f32 128) (out (gemm (add x z) w b))",
        "(input x f32 n 128) (const w f32 128 128) (const z f32 128 0.0) (const v f32 128 128) (const b f32 128)"
        "(out (gemm (gemm x w z) v b))",
        "(input x f32 n 128) (const c f32 1 -1.0) (const w f32 128 128) (out (matmul (mul (mul x c) c) w))",
        "(input x f32 n 128) (const c f32 1 -1.0) (const w f32 128 128) (out (matmul (div (div x c) c) w))",
        "(input x f32 n 128) (const v f32 128 -1.0) (const w f32 128 128) (out (matmul (mul (mul x v) v) w))",
        "(input x f32 n 128) (const v f32 128) (const w f32 128 128) (out (matmul (mul (mul x v) v) w))",
        "(input x f32 n 128) (const w f32 128 128) (out (matmul (neg (neg x)) w))",
        "(input x f32 n 128) (const w f32 128 128) (out (neg (neg (matmul (relu (relu x)) w))))",
        "(input x f32 n 128) (const z f32 128 0.0) (const w f32 128 128) (const b f32 128)"
        "(out (gemm (add (relu x) z) w b))",
        "(input x f32 n 128) (const z f32 128 0.0) (const o f32 128 1.0) (const w f32 128 128) (const b f32 128)"
        "(out (gemm (mul (add (sub x z) z) o) w b)) (out (div (mul (matmul x w) o) o))",
        "(input x f32 n 128) (const a f32 128 2.0) (const h f32 128 0.5) (const w f32 128 128)"
        "(out (matmul (mul (mul x a) h) w)) (out (mul (mul (matmul x w) a) h))",
        "(input x f32 n 128) (const a f32 128 2.0) (const h f32 128 -2.0) (const w f32 128 128)"
        "(out (matmul (add (add x a) h) w)) (out (add (add (matmul x w) a) h))",
        "(input x f32 2 4 128) (const z f32 128 0.0) (const o f32 128 1.0) (const e f32 1e-05) (const w f32 128 128)"
        "(const b f32 128) (let d (sub x (reduce-mean :axes (2) x)))"
        "(out (gemm (reshape :shape (8 128) (add (mul (div d (sqrt (add (reduce-mean :axes (2) (mul d d)) e))) o) z)) "
        "w b))",
        "(input x f32 n 128) (const w f32 128 128) (out (matmul (transpose :perm (1 0) (transpose :perm (1 0) x)) w))",
        "(input x f32 8 128) (const w f32 128 8) (out (matmul :trans-a 1 (matmul :trans-a 1 x (matmul x w)) w))",
        /* infinities and NaN, where rules move constants */
        "(input x f32 n 128) (const z f32 128 0.0) (const w f32 128 128 inf) (const b f32 128) (out (gemm (add x z) w "
        "b))",
        "(input x f32 n 128) (const z f32 128 0.0) (const w f32 128 128 nan) (const b f32 128) (out (gemm (add x z) w "
        "b))",
        "(input x f32 n 128) (const c f32 128 inf) (const w f32 128 128) (out (matmul (mul (add x c) c) w))"
        "(out (mul (add (matmul x w) c) c))",
        "(input x f32 n 128) (const c f32 128 nan) (const w f32 128 128) (out (matmul (mul (mul x c) c) w))"
        "(out (add (add (matmul x w) c) c))",
        /* the same in the middle of products of two inputs */
        "(input x f32 n 128) (input y f32 n 128) (const c f32 1 -1.0) (const h f32 1 0.5)"
        "(out (matmul :trans-b 1 (mul (mul x c) c) (mul (mul y h) c)))",
        "(input x f32 n 128) (const c f32 1 -1.0) (out (mul (mul (mul x c) (mul (mul x c) x)) c))",
        "(input x f32 n 128) (const a f32 1 0.0) (const b f32 1 6.0) (out (min (max (min (max x a) b) a) b))",
        "(input x f32 n 128) (out (relu (clip :min 0.0 :max 6.0 (relu (clip :min -1.0 :max 6.0 x)))))",
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        fixture f;
        begin(&f, graphs[i]);
        run(&f);
        assert_ends(&f, graphs[i], ITERATIONS, E_NODES);
        end(&f);
    }
}

/* Two-level lattice networks: products, each with two sums behind it and no activation between. */
static void sums_behind_layers_end(void **state)
{
    (void)state;
    for (int depth = 1; depth <= 21; depth += 5) {
        hyp_strbuf sb = {0};
        fixture f;
        hyp_strbuf_puts(&sb, "(input x f32 n 32)");
        for (int i = 0; i < depth; i++)
            hyp_strbuf_printf(&sb, "(const w%d f32 32 32) (const b%d f32 32) (const c%d f32 32)", i, i, i);
        hyp_strbuf_puts(&sb, "(let h x)");
        for (int i = 0; i < depth; i++) hyp_strbuf_printf(&sb, "(let h (add (add (matmul h w%d) b%d) c%d))", i, i, i);
        hyp_strbuf_puts(&sb, "(out h)");
        begin(&f, hyp_strbuf_text(&sb));
        run(&f);
        assert_ends(&f, "sums behind layers", 30 + (size_t)depth, 500 * (size_t)depth);
        end(&f);
        hyp_strbuf_dispose(&sb);
    }
}

/* Products in a row become one. There are n^2 runs of n layers, and little more than that may be looked at: no triples
 * of what reads one value, no orders of the products of weights. */
static void long_chains_of_products_end(void **state)
{
    (void)state;
    enum { LAYERS = 40 };
    hyp_strbuf sb = {0};
    fixture f;
    size_t matches = 0;
    hyp_strbuf_puts(&sb, "(input x f32 n 16)");
    for (int i = 0; i < LAYERS; i++) hyp_strbuf_printf(&sb, "(const w%d f32 16 16)", i);
    hyp_strbuf_puts(&sb, "(let h x)");
    for (int i = 0; i < LAYERS; i++) hyp_strbuf_printf(&sb, "(let h (matmul h w%d))", i);
    hyp_strbuf_puts(&sb, "(out h)");
    begin(&f, hyp_strbuf_text(&sb));
    run(&f);
    assert_true(count_running(&f) <= 3); /* as long as a product of weights is sure to be finite */
    assert_ends(&f, "products in a row", LAYERS + 10, 4 * LAYERS * LAYERS);
    assert_true(f.report.phases[2].proven);
    for (size_t i = 0; i < f.report.rule_count; i++) matches += f.report.rules[i].matches;
#ifdef HYP_SMALL_SIZES /* in small batches, what is put off is found again and again */
    assert_true(matches > 0);
#else
    assert_true(matches < 20 * LAYERS * LAYERS);
#endif
    end(&f);
    hyp_strbuf_dispose(&sb);
}

/* `count` times `step`, in which W, V, B and S stand for constants of that step and h for the value before it. */
static void repeat(hyp_strbuf *sb, const char *step, int count)
{
    hyp_strbuf_puts(sb, "(input x f32 8 8)");
    for (int i = 0; i < count; i++)
        hyp_strbuf_printf(sb, "(const w%d f32 8 8) (const v%d f32 8 8) (const b%d f32 8) (const s%d f32 1 %d.5)", i, i,
                          i, i, i);
    hyp_strbuf_puts(sb, "(let h x)");
    for (int i = 0; i < count; i++) {
        hyp_strbuf_puts(sb, "(let h ");
        for (const char *c = step; *c; c++) {
            if (*c == 'W' || *c == 'V' || *c == 'B' || *c == 'S')
                hyp_strbuf_printf(sb, "%c%d", *c + 'a' - 'A', i);
            else
                hyp_strbuf_printf(sb, "%c", *c);
        }
        hyp_strbuf_puts(sb, ")");
    }
    hyp_strbuf_puts(sb, "(out h)");
}

/* A constant that goes from one side of a value to the other, and one that has two ways to go, make forms without end,
 * or 2^n of them. */
static void chains_of_all_kinds_end(void **state)
{
    (void)state;
    enum { STEPS = 20 };
    static const char *const steps[] = {
        "(transpose :perm (1 0) (matmul h W))",
        "(transpose :perm (1 0) (add (matmul h W) B))",
        "(add (transpose :perm (1 0) (matmul h W)) B)",
        "(relu (transpose :perm (1 0) (matmul h W)))",
        "(transpose :perm (1 0) (mul (matmul h W) S))",
        "(mul (add (matmul h W) B) S)",
        "(transpose :perm (1 0) (reshape :shape (8 8) (reshape :shape (4 16) (matmul h W))))",
        "(transpose :perm (1 0) (reshape :shape (8 8) (matmul (reshape :shape (2 4 8) (matmul h W)) V)))",
        "(matmul V (matmul h W))",
        "(matmul (matmul V h) W)",
        "(matmul V (relu (matmul h W)))",
        "(matmul h W)",
        "(add (matmul h W) B)",
        "(relu (add (matmul h W) (matmul h V)))",
        "(relu (add (add (matmul h W) B) (matmul h V)))",
        "(add h (matmul (matmul h W) V))",
        "(add h (matmul (relu (matmul h W)) V))",
        "(add h B)",
        "(mul h B)",
        "(mul (add h B) B)",
        "(sub (div h B) B)",
        "(add (transpose :perm (1 0) h) B)",
        "(neg (add h B))",
        ("(concat :axis 1 (slice :starts (0 4) :sizes (8 4) :steps (1 1) h)"
         " (slice :starts (0 0) :sizes (8 4) :steps (1 1) h))"),
        "(matmul (exp h) W)",
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        hyp_strbuf sb = {0};
        fixture f;
        repeat(&sb, steps[i], STEPS);
        begin(&f, hyp_strbuf_text(&sb));
        run(&f);
        assert_ends(&f, steps[i], 3 * STEPS, 200 * STEPS);
        end(&f);
        hyp_strbuf_dispose(&sb);
    }
}

/* The constants of both sides are one each in the end. */
static void products_and_transpositions_in_a_row_become_two(void **state)
{
    (void)state;
    hyp_strbuf sb = {0};
    fixture f;
    repeat(&sb, "(transpose :perm (1 0) (matmul h W))", 10);
    begin(&f, hyp_strbuf_text(&sb));
    run(&f);
    assert_true(count_running(&f) <= 2);
    end(&f);
    hyp_strbuf_dispose(&sb);
}

/* ---- the rules themselves ---------------------------------------------------------------------------- */

/* Rules of normalize that make a class. docs/rules.md says why none of them is fed by one of them. */
static const char *const makers[] = {
    "sub-const", "div-power-of-two",  "div-const",     "gather-slice",        "gemm-add",
    "gemm-beta", "matmul-one-matrix", "matmul-linear", "matmul-weight-alpha", "matmul-weight-trans-a"};

static bool is_maker(const char *name)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i], name) == 0) return true;
    return false;
}

/* One operator, or a function, over variables: attributes are no classes that could grow. */
static bool is_flat(const hyp_sexpr *term)
{
    if (term->kind != HYP_SX_LIST) return true;
    for (uint32_t i = 1; i < term->count; i++) {
        if (term->items[i]->text && term->items[i]->text[0] == ':')
            i++;
        else if (term->items[i]->kind == HYP_SX_LIST)
            return false;
    }
    return true;
}

static bool same_text(const hyp_sexpr *a, const hyp_sexpr *b)
{
    hyp_strbuf x = {0}, y = {0};
    hyp_sexpr_print(&x, a);
    hyp_sexpr_print(&y, b);
    bool same = strcmp(hyp_strbuf_text(&x), hyp_strbuf_text(&y)) == 0;
    hyp_strbuf_dispose(&x);
    hyp_strbuf_dispose(&y);
    return same;
}

static bool is_part(const hyp_sexpr *part, const hyp_sexpr *term)
{
    for (uint32_t i = 0; term->kind == HYP_SX_LIST && i < term->count; i++)
        if (same_text(part, term->items[i]) || is_part(part, term->items[i])) return true;
    return false;
}

typedef struct counts {
    size_t flat, making, moving;
} counts;

/* Looks at one rule, with `right` made equal to `left`. */
static void look(const char *set, const char *name, const hyp_sexpr *left, const hyp_sexpr *right, counts *out)
{
    if (strcmp(set, "normalize") == 0) {
        if (!is_flat(right) && !is_maker(name))
            fail_msg("%s makes a class: does normalize still end? See docs/rules.md", name);
        if (is_flat(right) && is_maker(name)) fail_msg("%s makes no class: it is not to be listed", name);
        out->flat += is_flat(right);
        out->making += !is_flat(right);
    } else {
        if (right->kind != HYP_SX_LIST || is_part(right, left))
            fail_msg("%s: its right side is a part of the left one, so it belongs into normalize", name);
        out->moving++;
    }
}

static void look_at_form(const char *set, const hyp_sexpr *form, counts *out)
{
    uint32_t arrow = 0;
    if (hyp_sexpr_is_form(form, "for-each"))
        for (uint32_t i = 3; i < form->count; i++) look_at_form(set, form->items[i], out);
    if (!hyp_sexpr_is_form(form, "rule")) {
        assert_true(hyp_sexpr_is_form(form, "for-each")); /* a birule has a right side that is a left side, too */
        return;
    }
    while (!hyp_sexpr_is(form->items[arrow], "=>")) arrow++;
    const hyp_sexpr *left = form->items[arrow - 1];
    for (uint32_t i = arrow + 1; i < form->count && form->items[i]->kind == HYP_SX_LIST; i++) {
        const hyp_sexpr *right = form->items[i];
        look(set, form->items[1]->text, left, hyp_sexpr_is_form(right, "union") ? right->items[2] : right, out);
    }
    if (form->items[arrow + 1]->kind != HYP_SX_LIST) look(set, form->items[1]->text, left, form->items[arrow + 1], out);
}

static void rules_are_of_one_kind(void **state)
{
    (void)state;
    counts seen = {0};
    for (size_t i = 0; i < hyp_builtin_rules_count; i++) {
        const char *name = hyp_builtin_rules[i].name, *text = hyp_builtin_rules[i].text;
        if (strcmp(name, "normalize") != 0 && strcmp(name, "recognize") != 0 && strcmp(name, "linear") != 0) continue;
        hyp_arena arena = {0};
        const hyp_sexpr *forms;
        assert_int_equal(hyp_sexpr_parse(&arena, name, text, strlen(text), &forms, NULL), HYP_OK);
        for (uint32_t k = 0; k < forms->count; k++) look_at_form(name, forms->items[k], &seen);
        hyp_arena_dispose(&arena);
    }
    assert_true(seen.flat > 40 && seen.moving > 30);
    assert_int_equal(seen.making, sizeof makers / sizeof *makers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_of_one_kind),
        cmocka_unit_test(what_does_nothing_ends),
        cmocka_unit_test(sums_behind_layers_end),
        cmocka_unit_test(long_chains_of_products_end),
        cmocka_unit_test(chains_of_all_kinds_end),
        cmocka_unit_test(products_and_transpositions_in_a_row_become_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

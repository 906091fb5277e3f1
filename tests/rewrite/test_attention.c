/* What becomes of attention and the blocks around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "rewrite/rewriting.h"

/* One block of a transformer over 50 tokens, and the numbers made of its first token. `more` is another output. */
static void begin_block(fixture *f, const char *more)
{
    static const char block[] =
        "(input x f32 2 50 8) (const wq f32 8 8) (const wk f32 8 8) (const wv f32 8 8) (const wo f32 8 8)"
        "(const wu f32 32 8) (const wd f32 8 32) (const wc f32 3 8) (const first i64 0.0) (let n (layer-norm :axis 2 "
        "x))"
        "(let q (transpose :perm (0 2 1 3) (reshape :shape (2 50 2 4) (linear wq none n))))"
        "(let k (transpose :perm (0 2 1 3) (reshape :shape (2 50 2 4) (linear wk none n))))"
        "(let v (transpose :perm (0 2 1 3) (reshape :shape (2 50 2 4) (linear wv none n))))"
        "(let o (transpose :perm (0 2 1 3) (matmul (softmax :axis 3 (matmul :trans-b 1 q k)) v)))"
        "(let h (add (linear wo none (reshape :shape (2 50 8) o)) x))"
        "(let y (add (linear wd none (gelu (linear wu none (layer-norm :axis 2 h)))) h))"
        "(out (linear wc none (gather :axis 1 (layer-norm :axis 2 y) first)))";
    hyp_strbuf sb = {0};
    hyp_strbuf_printf(&sb, "%s%s", block, more);
    begin(f, hyp_strbuf_text(&sb));
    run(f);
    hyp_strbuf_dispose(&sb);
}

/* The products that multiply rows of all tokens. */
static size_t count_whole_products(const fixture *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->out.nodes.len; i++) {
        const hyp_node *node = &f->out.nodes.data[i];
        const hyp_type *y = &f->out.values.data[node->outputs[0]].type;
        bool product = node->op == HYP_OP_linear || node->op == HYP_OP_fused_linear ||
                       node->op == HYP_OP_fused_linear_add || node->op == HYP_OP_fused_mlp;
        n += product && y->rank == 3 && y->dims[1] == 50;
    }
    return n;
}

static void a_token_that_is_gathered_is_computed_alone(void **state)
{
    (void)state;
    fixture f;
    begin_block(&f, "");
    assert_in_range(count_whole_products(&f), 1, 2); /* keys and values, perhaps as one */
    assert_same_results(&f, 1e-9);
    end(&f);
}

/* Where attention reads parts in place, q, k and v are one product; elsewhere splitting it costs copies. */
static void one_product_makes_what_attention_reads(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        size_t products;
    } rows[] = {{"(profile p (like h200))", 1}, {"(profile p (like h200) (attention-reads-parts false))", 3}, {"cpu", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        begin(&f, "(input x f32 2 50 64) (const wq f32 64 64) (const wk f32 64 64) (const wv f32 64 64)"
                  "(let q (transpose :perm (0 2 1 3) (reshape :shape (2 50 2 32) (linear wq none x))))"
                  "(let k (transpose :perm (0 2 1 3) (reshape :shape (2 50 2 32) (linear wk none x))))"
                  "(let v (transpose :perm (0 2 1 3) (reshape :shape (2 50 2 32) (linear wv none x))))"
                  "(out (matmul (softmax :axis 3 (matmul :trans-b 1 q k)) v))");
        use_profile(&f, rows[i].profile);
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_attention), 1);
        assert_int_equal(count_op(&f.out, HYP_OP_linear), rows[i].products);
        assert_same_results(&f, 1e-9);
        end(&f);
    }
}

/* Decoded tokens: what is cut out of one product goes behind the past, where it is read in place, too. Of a single token the
 * parts would be windows, which cost nothing anywhere. */
static void one_product_stays_one_where_its_parts_join_a_past(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        size_t products;
    } rows[] = {{"(profile p (like h200))", 1}, {"(profile p (like h200) (attention-reads-parts false))", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        begin(&f, "(input x f32 2 1 64) (input pk f32 2 2 50 32) (input pv f32 2 2 50 32) (const w f32 192 64)"
                  "(let y (linear w none x))"
                  "(let q (transpose :perm (0 2 1 3) (reshape :shape (2 1 2 32)"
                  "  (slice :starts (0 0 0) :sizes (2 1 64) :steps (1 1 1) y))))"
                  "(let k (transpose :perm (0 2 1 3) (reshape :shape (2 1 2 32)"
                  "  (slice :starts (0 0 64) :sizes (2 1 64) :steps (1 1 1) y))))"
                  "(let v (transpose :perm (0 2 1 3) (reshape :shape (2 1 2 32)"
                  "  (slice :starts (0 0 128) :sizes (2 1 64) :steps (1 1 1) y))))"
                  "(let ks (concat :axis 2 pk k)) (let vs (concat :axis 2 pv v))"
                  "(out (matmul (softmax :axis 3 (matmul :trans-b 1 q ks)) vs)) (out ks) (out vs)");
        use_profile(&f, rows[i].profile);
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_attention), 1);
        assert_int_equal(count_op(&f.out, HYP_OP_linear), rows[i].products);
        assert_same_results(&f, 1e-9);
        end(&f);
    }
}

static void a_token_is_not_computed_beside_all(void **state)
{
    (void)state;
    fixture f;
    begin_block(&f, "(out y)");
    assert_int_equal(count_op(&f.out, HYP_OP_gather), 1);
    assert_true(count_whole_products(&f) > 2);
    assert_same_results(&f, 1e-9);
    end(&f);
}

static void attention_is_one_step_where_its_kernel_is_good(void **state)
{
    (void)state;
    static const struct {
        const char *profile, *type;
        int width, attention;
    } cases[] = {{"cpu", "f32", 64, 1},
                 {"cpu", "f16", 64, 0},
                 {"(profile p (like h200))", "f32", 64, 1},
                 {"(profile p (like h200))", "f16", 128, 1},
                 {"(profile p (like h200))", "f16", 160, 0},
                 {"(profile p (like h200))", "f64", 64, 0},
                 {"(profile p (like h200) (attention-in-one-kernel))", "f32", 64, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *t = cases[i].type;
        int w = cases[i].width;
        char text[256];
        snprintf(text, sizeof text,
                 "(input q %s 8 b %d) (input k %s 8 b %d) (input v %s 8 b %d) "
                 "(out (matmul (softmax (matmul :trans-b 1 q k)) v))",
                 t, w, t, w, t, w);
        fixture f;
        begin(&f, text);
        use_profile(&f, cases[i].profile);
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_attention), cases[i].attention);
        assert_int_equal(count_op(&f.out, HYP_OP_softmax), !cases[i].attention);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_that_is_gathered_is_computed_alone),
        cmocka_unit_test(one_product_makes_what_attention_reads),
        cmocka_unit_test(one_product_stays_one_where_its_parts_join_a_past),
        cmocka_unit_test(a_token_is_not_computed_beside_all),
        cmocka_unit_test(attention_is_one_step_where_its_kernel_is_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

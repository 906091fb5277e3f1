/* What comes out of rewriting whole graphs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/rewriting.h"

static const hyp_rule_use *rule(const fixture *f, const char *name)
{
    for (size_t i = 0; i < f->report.rule_count; i++)
        if (strcmp(f->report.rules[i].name, name) == 0) return &f->report.rules[i];
    fail_msg("no rule %s", name);
    return NULL;
}

static const char two_layers[] =
    "(input x f32 batch 6) (const w1 f32 8 6) (const b1 f32 8) (const w2 f32 3 8) (const b2 f32 3)"
    "(out (gemm :trans-b 1 (relu (gemm :trans-b 1 x w1 b1)) w2 b2))";

/* What a run changes is nothing that is known: the sum is not folded, and the same value may be shown and kept. */
static void variables_stay_variables(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(graph \"step\" (input %x (f32 batch 6)) (variable %w (f32 4 6)) (variable %b (f32 4) 1 2 3 4) "
              "(variable %same "
              "(f32) 1) (variable %n (i64) 7) (const %c (f32 4) 1 1 1 1) (const %one (i64) 1) (%l (linear %w %b %x)) "
              "(%r (relu "
              "%l)) (%s (add %b %c)) (%t (add %s %c)) (%k (add %n %one)) (output \"y\" %r) (output \"t\" %t) (set %b "
              "%t) (set "
              "%same %same) (set %n %k) (set %w %w))");
    run(&f);
    assert_int_equal(hyp_graph_verify(&f.out, &f.diag), HYP_OK);
    assert_int_equal(f.out.variables.len, 4);
    assert_int_equal(hyp_graph_shown(&f.out), 2);
    assert_int_equal(f.out.outputs.data[1].value, f.out.outputs.data[f.out.variables.data[1].output].value);
    assert_true(((const float *)hyp_graph_variable(&f.out, 1)->data)[3] == 4);
    assert_true(has_rule(only(&f, HYP_OP_fused_linear), "fuse-linear-relu"));
    assert_same_results(&f, 1e-12);
    end(&f);
}

/* ---- the main job ------------------------------------------------------------------------------------ */

static void linear_and_relu_become_one(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 batch 6) (const w f32 6 4) (const b f32 4) (out (relu (add (matmul x w) b)))");
    run(&f);
    const hyp_node *n = only(&f, HYP_OP_fused_linear);
    assert_string_equal(n->attrs[0].sym, "relu");
    assert_true(has_rule(n, "matmul-linear") && has_rule(n, "linear-bias") && has_rule(n, "fuse-linear-relu"));
    assert_int_equal(n->from.source_count, 3);
    assert_int_equal(count_running(&f), 1);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void two_layers_become_a_fused_mlp(void **state)
{
    (void)state;
    static const char *const profiles[] = {"cpu", "h200"};
    for (int i = 0; i < 2; i++) {
        fixture f;
        begin(&f, two_layers);
        use_profile(&f, profiles[i]);
        run(&f);
        const hyp_node *n = only(&f, HYP_OP_fused_mlp);
        assert_int_equal(n->attrs[0].count, 2);
        assert_string_equal(n->attrs[0].syms[0], "relu");
        assert_string_equal(n->attrs[0].syms[1], "none");
        assert_true(has_rule(n, "fuse-linear-relu") && has_rule(n, "fuse-mlp"));
        assert_int_equal(n->from.source_count, 3);
        assert_string_equal(n->from.sources[0], "gemm_0");
        assert_int_equal(f.report.nodes_before, 3);
        assert_int_equal(f.report.nodes_after, 1);
        assert_true(f.report.cost_after < f.report.cost_before);
        assert_int_equal(rule(&f, "fuse-mlp")->used, 1);
        assert_true(rule(&f, "fuse-mlp")->applications >= 1);
        assert_same_results(&f, 1e-12);
        end(&f);
    }
}

/* ---- rules that fit where they should not -------------------------------------------------------------- */

/* A rule that lacks a condition, or that is plain wrong: what it would make has no type, or unites values of different
 * types. It is refused there, and the rest of the compilation is as it would be without it. */
static void what_has_no_type_is_declined(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *graph, *reason;
    } cases[] = {
        {"(rule wide (add (linear ?v none ?x) (linear ?w none ?y))"
         " => (linear (concat :axis 1 ?v ?w) none (concat :axis 1 ?x ?y)))",
         "(input x f32 4 3) (input y f32 4 2) (const v f32 1 3) (const w f32 5 2)"
         "(out (add (linear v none x) (linear w none y)))",
         "concat"},
        {"(rule row (add (linear ?v ?b ?x) (linear ?w none ?x)) => (linear (add ?v ?w) ?b ?x))",
         "(input x f32 4 3) (const v f32 1 3) (const b f32 1) (const w f32 5 3)"
         "(out (add (linear v b x) (linear w none x)))",
         "linear"},
        {"(rule flat (relu ?x) => (reduce-sum :axes (0) :keep 0 ?x))", "(input x f32 4 3) (out (relu x))",
         "terms of the types f32[4 3] and f32[3] cannot be equal"},
        {"(rule drop (tanh (reduce-sum :axes ?a ?x)) => ?x)", "(input x f32 4 3) (out (tanh (reduce-sum :axes (1) x)))",
         "cannot be equal"},
        {"(rule spread (neg ?x) => (transpose :perm (1 0 2) ?x))", "(input x f32 4 3) (out (neg x))", "transpose"},
        {"(rule far (neg ?x) => (reshape :shape (7) ?x))", "(input x f32 b 5) (out (neg x))",
         "the new shape f32[7] has 7"},
        {"(rule odd (neg ?x) => (transpose :perm ?x ?x))", "(input x f32 4 3) (out (neg x))", "value of an attribute"},
        {"(rule part (multi (?y = (neg ?x)) (?z = (tanh ?x))) => (union ?y (relu ?x)) (union ?z (reshape :shape (5) "
         "?x)))",
         "(input x f32 4 3) (out (neg x)) (out (tanh x))", "reshape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int normalize = 0; normalize < 2; normalize++) {
            fixture f;
            hyp_strbuf rule_text = {0}, answer = {0};
            const char *file = normalize ? "normalize.rules" : "mine.rules";
            hyp_strbuf_puts(&rule_text, cases[i].rule);
            const char *text = hyp_strbuf_text(&rule_text);
            char name[16] = {0};
            sscanf(text, "(rule %15s", name);
            begin(&f, cases[i].graph);
            f.options.rule_files = &file;
            f.options.rule_texts = &text;
            f.options.rule_file_count = 1;
            f.options.why_not = name;
            f.options.answer = &answer;
            run(&f);
            assert_true(rule(&f, name)->refused > 0);
            if (!strstr(rule(&f, name)->refusal, cases[i].reason)) fail_msg("%s: %s", name, rule(&f, name)->refusal);
            if (i + 1 < sizeof cases / sizeof *cases) { /* the last one is refused in part */
                assert_non_null(strstr(hyp_strbuf_text(&answer), "means nothing"));
                assert_non_null(strstr(hyp_strbuf_text(&answer), cases[i].reason));
                assert_int_equal(rule(&f, name)->applications, 0);
                assert_same_results(&f, 1e-12);
            }
            for (size_t k = 0; k < f.report.phase_count; k++)
                assert_int_equal(f.report.phases[k].stop, HYP_STOP_SATURATED);
            end(&f);
            hyp_strbuf_dispose(&rule_text);
            hyp_strbuf_dispose(&answer);
        }
}

/* A chain of n layers of this many features; the text of one layer is `layer` with %s for its input and %d for
 * its number. */
static void chain(hyp_strbuf *sb, int n, const char *input, bool gemm, const char *act)
{
    hyp_strbuf_puts(sb, input);
    for (int i = 0; i < n; i++) hyp_strbuf_printf(sb, "(const w%d f32 5 5) (const b%d f32 5)", i, i);
    hyp_strbuf_puts(sb, "(let h x)");
    for (int i = 0; i < n; i++) {
        bool last = i == n - 1;
        const char *open = last ? "" : act, *close = last ? "" : ")";
        if (gemm)
            hyp_strbuf_printf(sb, "(let h %s%s (gemm h w%d b%d)%s)", last ? "" : "(", open, i, i, close);
        else
            hyp_strbuf_printf(sb, "(let h %s%s (add b%d (matmul h w%d))%s)", last ? "" : "(", open, i, i, close);
    }
    hyp_strbuf_puts(sb, "(out h)");
}

static void chains_of_any_depth_become_one_fused_mlp(void **state)
{
    (void)state;
    static const char *const acts[] = {"relu", "gelu", "tanh"};
    for (int n = 2; n <= 8; n++)
        for (int form = 0; form < 3; form++) {
            hyp_strbuf sb = {0};
            fixture f;
            chain(&sb, n, form == 2 ? "(input x f32 b t 5)" : "(input x f32 b 5)", form == 0, acts[form]);
            begin(&f, hyp_strbuf_text(&sb));
            run(&f);
            const hyp_node *mlp = only(&f, HYP_OP_fused_mlp);
            assert_int_equal(mlp->attrs[0].count, n);
            for (int i = 0; i < n; i++) assert_string_equal(mlp->attrs[0].syms[i], i == n - 1 ? "none" : acts[form]);
            assert_int_equal(count_running(&f), 1);
            assert_int_equal(f.report.phases[2].stop, HYP_STOP_SATURATED);
            assert_same_results(&f, 1e-12);
            end(&f);
            hyp_strbuf_dispose(&sb);
        }
}

/* A fused-mlp has 32 layers at most, so e-nodes grow with a chain and not with its square. */
static void chains_of_layers_are_fused_within_the_limits(void **state)
{
    (void)state;
    static const int lengths[] = {32, 33, 48, 90};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        hyp_strbuf sb = {0};
        fixture f;
        chain(&sb, lengths[i], "(input x f32 b 5)", true, "relu");
        begin(&f, hyp_strbuf_text(&sb));
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_fused_mlp), (lengths[i] + 31) / 32 - (lengths[i] % 32 == 1));
        assert_true(count_running(&f) == (size_t)(lengths[i] + 31) / 32);
        assert_int_equal(f.report.phases[2].stop, HYP_STOP_SATURATED);
        assert_true(f.report.phases[2].proven);
        assert_true(f.report.phases[2].e_nodes < 75 * (size_t)lengths[i]);
        end(&f);
        hyp_strbuf_dispose(&sb);
    }
}

static void a_limit_is_reported_and_the_result_is_right(void **state)
{
    (void)state;
    hyp_strbuf sb = {0};
    fixture f;
    chain(&sb, 12, "(input x f32 b 5)", true, "relu");
    begin(&f, hyp_strbuf_text(&sb));
    f.options.max_iterations = 6;
    run(&f);
    assert_int_equal(f.report.phases[2].stop, HYP_STOP_ITERATIONS);
    assert_true(count_running(&f) > 1 && count_running(&f) < 12);
    assert_same_results(&f, 1e-12);
    end(&f);
    begin(&f, hyp_strbuf_text(&sb));
    f.options.max_nodes = 150;
    run(&f);
    assert_int_equal(f.report.phases[2].stop, HYP_STOP_NODES);
    assert_same_results(&f, 1e-12);
    end(&f);
    hyp_strbuf_dispose(&sb);
}

static void an_activation_at_the_end_joins(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 6) (const w1 f32 8 6) (const w2 f32 3 8) (const b2 f32 3)"
              "(out (sigmoid (add (matmul :trans-b 1 (relu (matmul :trans-b 1 x w1)) w2) b2)))");
    run(&f);
    const hyp_node *n = only(&f, HYP_OP_fused_mlp);
    assert_string_equal(n->attrs[0].syms[1], "sigmoid");
    assert_int_equal(n->inputs[1], HYP_NO_VALUE);
    assert_int_equal(count_running(&f), 1);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void a_hidden_value_that_is_an_output_stays(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 6) (const w1 f32 8 6) (const b1 f32 8) (const w2 f32 3 8) (const b2 f32 3)"
              "(let h (relu (gemm :trans-b 1 x w1 b1))) (out (gemm :trans-b 1 h w2 b2)) (out h) (out h)");
    run(&f);
    assert_int_equal(f.out.outputs.len, 3);
    assert_string_equal(f.out.outputs.data[1].name, "y1");
    assert_int_equal(f.out.outputs.data[1].value, f.out.outputs.data[2].value);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 1); /* once, not again inside a fused-mlp */
    assert_int_equal(count_op(&f.out, HYP_OP_linear), 1);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void a_hidden_value_used_twice_is_computed_once(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 64) (const w1 f32 512 64) (const w2 f32 512 512) (const w3 f32 3 512)"
              "(let h (relu (matmul :trans-b 1 x w1)))"
              "(out (relu (matmul :trans-b 1 h w2))) (out (matmul :trans-b 1 h w3))");
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 2);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_mlp), 0);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void shared_weights_stay_shared(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 5) (const w f32 5 5) (const c f32 5) (let h (relu (gemm x w c)))"
              "(let h (relu (gemm h w c))) (out (gemm h w c))");
    run(&f);
    const hyp_node *n = only(&f, HYP_OP_fused_mlp);
    assert_int_equal(n->inputs[0], n->inputs[2]);
    assert_int_equal(n->inputs[0], n->inputs[4]);
    assert_int_equal(n->inputs[1], n->inputs[5]);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void equal_constants_and_equal_nodes_are_shared(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 5) (const a f32 3 5 0.25) (const c f32 3 5 0.25) (const d f32 3 5 0.5)"
              "(out (matmul :trans-b 1 x a)) (out (matmul :trans-b 1 x c)) (out (matmul :trans-b 1 x d))");
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_linear), 2);
    assert_int_equal(f.out.outputs.data[0].value, f.out.outputs.data[1].value);
    assert_same_results(&f, 1e-12);
    end(&f);
}

/* ---- gemm -------------------------------------------------------------------------------------------- */

static void every_gemm_with_a_constant_weight_is_a_linear(void **state)
{
    (void)state;
    static const char *const addends[] = {"", "c0", "c1", "cn", "c1n", "cm1", "cmn"};
    static const char *const scales[] = {"", ":alpha 0.5", ":beta 0.5", ":alpha 1.75 :beta -2.0", ":beta 0.0"};
    for (int flags = 0; flags < 4; flags++)
        for (size_t a = 0; a < sizeof addends / sizeof *addends; a++)
            for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
                hyp_strbuf sb = {0};
                fixture f;
                hyp_strbuf_printf(&sb,
                                  "(input x f32 %s) (const w f32 %s) (const c0 f32) (const c1 f32 1) (const cn f32 3)"
                                  "(const c1n f32 1 3) (const cm1 f32 3 1) (const cmn f32 3 3)"
                                  "(out (gemm :trans-a %d :trans-b %d %s x w %s))",
                                  flags & 1 ? "4 3" : "3 4", flags & 2 ? "3 4" : "4 3", flags & 1, flags >> 1,
                                  scales[s], addends[a]);
                begin(&f, hyp_strbuf_text(&sb));
                run(&f);
                bool column = a == 5 && s != 4, matrix = a == 6 && s != 4;
                if (flags & 1) {
                    assert_int_equal(count_op(&f.out, HYP_OP_gemm), 0);
                } else {
                    assert_int_equal(count_op(&f.out, matrix ? HYP_OP_fused_linear_add : HYP_OP_linear), 1);
                    assert_int_equal(count_running(&f), column ? 2 : 1); /* which is added apart */
                    assert_int_equal(count_op(&f.out, HYP_OP_matmul), 0);
                }
                assert_same_results(&f, 1e-9);
                end(&f);
                hyp_strbuf_dispose(&sb);
            }
}

static void a_column_is_no_bias_on_a_square_matrix(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 4 4) (const w f32 4 4) (const c f32 4 1) (out (relu (add (matmul x w) c)))");
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 0);
    assert_int_equal(only(&f, HYP_OP_linear)->inputs[1], HYP_NO_VALUE);
    assert_int_equal(count_op(&f.out, HYP_OP_add), 1);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void a_weight_that_is_an_input_fuses_too(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 64) (input w f32 64 32) (input c f32 32) (out (relu (add (matmul x w) c)))");
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 1);
    assert_same_results(&f, 1e-12);
    end(&f);
}

/* A layer reads its weight in either order: large ones are not transposed, nor is that a reason not to fuse. */
static void a_large_weight_that_is_trained_fuses_in_either_order(void **state)
{
    (void)state;
    fixture f;
    for (int turned = 0; turned < 2; turned++) {
        begin(&f, turned ? "(input x f32 b 512) (input w f32 512 512) (input c f32 512) (out (relu (add (matmul :trans-b 1 x w) c)))"
                         : "(input x f32 b 512) (input w f32 512 512) (input c f32 512) (out (relu (add (matmul x w) c)))");
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 1);
        assert_int_equal(count_op(&f.out, HYP_OP_matmul), 0);
        end(&f);
    }
}

/* ---- clean-up ---------------------------------------------------------------------------------------- */

static void clutter_disappears(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 2 3) (const zero f32 0.0) (const one f32 6 1.0) (const w f32 6 6) (const c f32 6)"
              "(let v (identity (dropout (flatten :axis 1 x))))"
              "(let v (add (mul v one) zero))"
              "(let v (reshape :shape (b 6) (squeeze :axes (1) (unsqueeze :axes (1) v))))"
              "(let v (relu (relu (add (matmul v w) c))))"
              "(let v (transpose :perm (1 0) (transpose :perm (1 0) v)))"
              "(out (cast :to f32 v))");
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 1);
    assert_int_equal(count_op(&f.out, HYP_OP_reshape), 1);
    assert_int_equal(count_running(&f), 1);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void reshapes_around_products_cancel(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b t 5) (const w f32 5 7) (const c f32 7) (const v f32 7 3)"
              "(let h (gemm (reshape :shape ((* b t) 5) x) w c))"
              "(let h (relu (reshape :shape (b t 7) h)))"
              "(out (reshape :shape (b t 3) (matmul (reshape :shape ((* b t) 7) h) v)))");
    run(&f);
    assert_int_equal(f.out.nodes.len - count_op(&f.out, HYP_OP_transpose), 1); /* and the weights' transpositions */
    assert_int_equal(only(&f, HYP_OP_fused_mlp)->attrs[0].count, 2);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static void exported_gelus_are_recognized(void **state)
{
    (void)state;
    static const char *const forms[][2] = {
        {"gelu", "(mul (mul x half) (add (erf (div x root)) one))"},
        {"gelu", "(mul half (mul x (add one (erf (mul inverse x)))))"},
        {"gelu", "(mul (mul x (add (erf (div x old)) one)) half)"},
        {"gelu-tanh", "(mul (mul half x) (add one (tanh (mul k (add x (mul c (pow x three)))))))"},
        {"gelu-tanh", "(mul (mul x half) (add (tanh (mul (add (mul (mul c x) x) one) (mul x k))) one))"},
        {"gelu-tanh", "(mul half (mul x (add (tanh (mul (add x (mul (mul x (mul x x)) c)) k)) one)))"},
        {"gelu-tanh", "(mul x (sigmoid (mul (mul k2 x) (add one (mul c (mul x x))))))"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        hyp_strbuf sb = {0};
        fixture f;
        hyp_op op = HYP_OP_gelu;
        hyp_strbuf_printf(&sb,
                          "(input x f32 b 5) (const half f32 0.5) (const one f32 1 1.0) (const three f32 3.0)"
                          "(const root f32 1.4142135) (const old f32 1.4142099618911743) (const inverse f32 0.70710677)"
                          "(const c f32 0.044714998453855515) (const k f32 0.7978845834732056) (const k2 f32 1.5957691)"
                          "(out %s)",
                          forms[i][1]);
        begin(&f, hyp_strbuf_text(&sb));
        run(&f);
        assert_true(hyp_op_find(forms[i][0], &op));
        if (f.out.nodes.len != 1 || f.out.nodes.data[0].op != op) {
            hyp_strbuf text = {0};
            assert_int_equal(hyp_graph_print(&text, &f.out, 64, &f.diag), HYP_OK);
            fail_msg("%s is not recognized: %s", forms[i][1], hyp_strbuf_text(&text));
        }
        assert_same_results(&f, 1e-5);
        end(&f);
        hyp_strbuf_dispose(&sb);
    }
}

static void constants_may_be_outputs_and_inputs_too(void **state)
{
    (void)state;
    fixture f;
    begin(&f,
          "(input x f32 b 3) (input unused f32 2) (const c f32 3) (out x) (out c) (out (relu c)) (out (identity x))");
    run(&f);
    assert_int_equal(f.out.inputs.len, 2);
    assert_int_equal(f.out.outputs.data[0].value, f.out.outputs.data[3].value);
    assert_int_equal(f.report.nodes_after, 0);
    assert_same_results(&f, 0);
    end(&f);
}

static void parts_of_a_split_are_kept_apart(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 6) (let p (split :axis -1 :sizes (2 3 1) x)) (out (relu (get :index 1 p)))"
              "(out (get :index 0 p)) (out (concat :axis 1 (get :index 2 p) (get :index 0 p)))");
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_split), 1);
    assert_same_results(&f, 0);
    end(&f);
}

/* ---- cost -------------------------------------------------------------------------------------------- */

static void a_fused_form_that_costs_more_is_taken_apart(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 6) (const w1 f32 8 6) (const w2 f32 3 8) (const w3 f32 2 3)"
              "(out (fused-mlp :acts (relu tanh none) w1 none w2 none w3 none x))");
    f.options.disabled = (const char *const[]){"fuse-linear-relu"};
    f.options.disabled_count = 1;
    f.roofline.profile.launch_seconds = 1e-12;
    f.roofline.profile.cache_bytes_per_second = 1; /* hidden values in the cache become dear */
    f.roofline.profile.cache_bytes = 0;
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_mlp), 0);
    assert_same_results(&f, 1e-12);
    end(&f);
}

static double no_fused_mlp(const hyp_cost_query *query, void *user)
{
    return query->op == HYP_OP_fused_mlp ? INFINITY : hyp_roofline_cost(query, user);
}

static void what_a_target_cannot_run_is_not_chosen(void **state)
{
    (void)state;
    fixture f;
    begin(&f, two_layers);
    f.options.cost = no_fused_mlp;
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 1);
    assert_int_equal(count_op(&f.out, HYP_OP_linear), 1);
    end(&f);
}

/* ---- options ----------------------------------------------------------------------------------------- */

static void a_disabled_rule_is_not_applied(void **state)
{
    (void)state;
    fixture f;
    begin(&f, two_layers);
    f.options.disabled = (const char *const[]){"fuse-mlp"};
    f.options.disabled_count = 1;
    run(&f);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_mlp), 0);
    assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), 1);
    assert_int_equal(rule(&f, "fuse-mlp")->matches, 0);
    end(&f);
}

static void an_unknown_rule_to_disable_is_refused(void **state)
{
    (void)state;
    fixture f;
    begin(&f, two_layers);
    f.options.disabled = (const char *const[]){"fuse-mpl"};
    f.options.disabled_count = 1;
    assert_int_equal(hyp_rewrite(&f.in, &f.options, &f.out, &f.report, &f.diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(f.diag.message, "fuse-mpl"));
    assert_non_null(strstr(f.diag.message, "did you mean 'fuse-mlp'"));
    assert_int_equal(hyp_rewrite_list(&f.options, &f.report, &f.diag), HYP_ERR_INVALID_ARGUMENT);
    end(&f);
}

static void approximations_need_to_be_allowed(void **state)
{
    (void)state;
    for (int allow = 0; allow < 2; allow++) {
        fixture f;
        begin(&f, "(input x f32 b 8) (const w f32 8 8) (out (gelu (matmul x w)))");
        use_profile(&f, "h200"); /* which has the tanh form only */
        f.options.allow_approximate = allow;
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_fused_linear), allow);
        assert_int_equal(count_op(&f.out, HYP_OP_gelu), !allow);
        assert_int_equal(rule(&f, "approximate-gelu")->applications > 0, allow);
        end(&f);
    }
}

static void what_a_device_cannot_run_stays_written_out(void **state)
{
    (void)state;
    static const char *const profiles[] = {"cpu", "h200", "(profile p (like cpu) (kernel-calls conv))"};
    for (int i = 0; i < 3; i++) {
        fixture f;
        begin(&f, "(input x f32 b 8) (const e f32 1e-5) (const t f32 2.0) (let c (sub x (reduce-mean :axes (1) x))) "
                  "(out (div c (sqrt (add (reduce-mean :axes (1) (pow c t)) e))))");
        use_profile(&f, profiles[i]);
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_layer_norm), i < 2);
        assert_int_equal(count_op(&f.out, HYP_OP_rms_norm), 0);
        end(&f);
    }
}

static void several_rule_files_make_one_set(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 5) (out (relu (relu (identity x))))");
    f.options.rule_files = (const char *const[]){"a/normalize.rules", "b.rules"};
    f.options.rule_texts =
        (const char *const[]){"(rule one (identity ?x) => ?x)", "(rule two (relu (relu ?x)) => (relu ?x))"};
    f.options.rule_file_count = 2;
    f.options.no_builtin = true;
    run(&f);
    assert_string_equal(rule(&f, "one")->ruleset, "normalize");
    assert_string_equal(rule(&f, "one")->numeric_class, "E");
    assert_string_equal(rule(&f, "two")->ruleset, "b");
    assert_int_equal(f.out.nodes.len, 1);
    end(&f);
    begin(&f, "(input x f32 b 5) (out x)");
    f.options.rule_files = (const char *const[]){"a.rules", "b.rules"};
    f.options.rule_texts = (const char *const[]){"(rule one (identity ?x) => ?x)", "\n(rule one (dropout ?x) => ?x)"};
    f.options.rule_file_count = 2;
    f.options.no_builtin = true;
    assert_int_not_equal(hyp_rewrite(&f.in, &f.options, &f.out, &f.report, &f.diag), HYP_OK);
    assert_non_null(strstr(f.diag.message, "b.rules:2:1"));
    end(&f);
}

static void own_rules_join_the_built_in_ones(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 5) (const w f32 4 5) (out (relu (sigmoid (relu (linear w none (identity x))))))");
    f.options.rule_files = (const char *const[]){"own.rules"};
    f.options.rule_texts = (const char *const[]){"(rule relu-sigmoid :class N (relu (sigmoid ?x)) => (sigmoid ?x))"};
    f.options.rule_file_count = 1;
    run(&f);
    assert_string_equal(rule(&f, "relu-sigmoid")->ruleset, "own");
    assert_true(rule(&f, "relu-sigmoid")->applications > 0);
    assert_true(rule(&f, "fuse-linear-relu")->used > 0);
    end(&f);
}

static void only_the_rules_asked_for_are_applied(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 5) (const w f32 4 5) (out (relu (linear w none (identity x))))");
    f.options.only = (const char *const[]){"fuse-linear-relu"};
    f.options.only_count = 1;
    run(&f);
    for (size_t i = 0; i < f.report.rule_count; i++)
        assert_int_equal(f.report.rules[i].applications > 0, strcmp(f.report.rules[i].name, "fuse-linear-relu") == 0);
    assert_int_equal(count_op(&f.out, HYP_OP_identity), 1);
    end(&f);
    begin(&f, "(input x f32 b 5) (out x)");
    f.options.only = (const char *const[]){"fuse-linear-rely"};
    f.options.only_count = 1;
    assert_int_not_equal(hyp_rewrite(&f.in, &f.options, &f.out, &f.report, &f.diag), HYP_OK);
    assert_non_null(strstr(f.diag.message, "did you mean 'fuse-linear-relu'"));
    end(&f);
}

typedef struct seen {
    size_t count, optimize;
    bool relu, mlp;
} seen;

static void note(const hyp_rewrite_trace *e, void *user)
{
    seen *s = user;
    s->count++;
    s->optimize += strcmp(e->phase, "optimize") == 0;
    if (strcmp(e->rule, "fuse-linear-relu") == 0) {
        s->relu = true;
        assert_string_equal(e->matched, "(relu (linear w1 b1 x))");
        assert_string_equal(e->result, "(fused-linear-relu w1 b1 x)");
        assert_int_equal(e->source_count, 2);
        assert_string_equal(e->sources[0], "gemm_0");
        assert_string_equal(e->sources[1], "relu_1");
        assert_true(e->cost_after < e->cost_before);
    }
    if (strcmp(e->rule, "fuse-mlp") == 0) {
        s->mlp = true;
        assert_string_equal(e->matched, "(linear w2 b2 (fused-linear-relu w1 b1 x))");
        assert_string_equal(e->result, "(fused-mlp :acts (relu none) w1 b1 w2 b2 x)");
        assert_true(e->cost_after < e->cost_before);
    }
}

static void a_trace_tells_what_was_done(void **state)
{
    (void)state;
    fixture f;
    seen s = {0};
    begin(&f, two_layers);
    f.options.trace = note;
    f.options.trace_user = &s;
    run(&f);
    assert_true(s.relu && s.mlp);
    assert_true(s.count > s.optimize && s.optimize >= 2);
    end(&f);
}

static void the_result_is_the_same_every_time(void **state)
{
    (void)state;
    hyp_strbuf first = {0}, again = {0};
    for (int i = 0; i < 2; i++) {
        hyp_strbuf sb = {0};
        fixture f;
        chain(&sb, 6, "(input x f32 b 5)", false, "relu");
        begin(&f, hyp_strbuf_text(&sb));
        run(&f);
        assert_int_equal(hyp_graph_print(i ? &again : &first, &f.out, 64, &f.diag), HYP_OK);
        end(&f);
        hyp_strbuf_dispose(&sb);
    }
    assert_string_equal(hyp_strbuf_text(&first), hyp_strbuf_text(&again));
    hyp_strbuf_dispose(&first);
    hyp_strbuf_dispose(&again);
}

/* Fails the n-th allocation for n = 1, 2, 3... until the rewriting succeeds. `all`: each of them; else always further apart, by
 * 1/32 of what lies before: most are those of reading hundreds of rules, which are alike. */
static void fail_allocations(fixture *f, bool all)
{
    hyp_status status;
    uint64_t n = 1;
    do {
        hyp_graph_dispose(&f->out);
        hyp_graph_init(&f->out, f->dims);
        hyp_mem_fail_after(n);
        status = hyp_rewrite(&f->in, &f->options, &f->out, &f->report, &f->diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, f->diag.message);
        n += all ? 1 : 1 + n / 32;
    } while (status != HYP_OK);
    assert_same_results(f, 1e-9);
    hyp_rewrite_report_dispose(&f->report);
}

static void note_whole(const hyp_rewrite_trace *e, void *user)
{
    bool *whole = user;
    *whole = *whole || strcmp(e->matched, "(gemm :trans-b 1 (relu (gemm :trans-b 1 x w1 b1)) w2 b2)") == 0;
    assert_null(strstr(e->matched, "..."));
}

/* Terms down to inputs, also below what the rule looked into. */
static void whole_terms_leave_nothing_out(void **state)
{
    (void)state;
    fixture f;
    bool whole = false;
    begin(&f, two_layers);
    f.options.trace = note_whole;
    f.options.trace_user = &whole;
    f.options.full_terms = true;
    fail_allocations(&f, false);
    assert_true(whole);
    end(&f);
}

static void running_out_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "(input x f32 b 4) (const w f32 4 4) (const half f32 0.5) (let p (split :axis 1 :sizes (1 3) x))"
              "(out (relu (div (matmul x w) half))) (out (get :index 1 p))");
    f.options.rule_files = (const char *const[]){"normalize.rules"};
    f.options.rule_texts =
        (const char *const[]){"(rule a (div ?x ?c) => (mul ?x (div (scalar 1 ?c) ?c)) :if (power-of-two ?c))"
                              "(rule b (matmul ?x ?w) => (linear (transpose :perm (swap-last ?w) ?w) none ?x))"
                              "(birule c :ruleset fuse (relu (linear ?w ?b ?x)) <=> (fused-linear-relu ?w ?b ?x))"};
    f.options.rule_file_count = 1;
    f.options.no_builtin = true;
    fail_allocations(&f, true);
    f.options.rule_file_count = 0;
    f.options.no_builtin = false;
    fail_allocations(&f, false);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_no_type_is_declined),
        cmocka_unit_test(variables_stay_variables),
        cmocka_unit_test(linear_and_relu_become_one),
        cmocka_unit_test(two_layers_become_a_fused_mlp),
        cmocka_unit_test(chains_of_any_depth_become_one_fused_mlp),
        cmocka_unit_test(chains_of_layers_are_fused_within_the_limits),
        cmocka_unit_test(a_limit_is_reported_and_the_result_is_right),
        cmocka_unit_test(an_activation_at_the_end_joins),
        cmocka_unit_test(a_hidden_value_that_is_an_output_stays),
        cmocka_unit_test(a_hidden_value_used_twice_is_computed_once),
        cmocka_unit_test(shared_weights_stay_shared),
        cmocka_unit_test(equal_constants_and_equal_nodes_are_shared),
        cmocka_unit_test(every_gemm_with_a_constant_weight_is_a_linear),
        cmocka_unit_test(a_column_is_no_bias_on_a_square_matrix),
        cmocka_unit_test(a_weight_that_is_an_input_fuses_too),
        cmocka_unit_test(a_large_weight_that_is_trained_fuses_in_either_order),
        cmocka_unit_test(clutter_disappears),
        cmocka_unit_test(reshapes_around_products_cancel),
        cmocka_unit_test(exported_gelus_are_recognized),
        cmocka_unit_test(constants_may_be_outputs_and_inputs_too),
        cmocka_unit_test(parts_of_a_split_are_kept_apart),
        cmocka_unit_test(a_fused_form_that_costs_more_is_taken_apart),
        cmocka_unit_test(what_a_target_cannot_run_is_not_chosen),
        cmocka_unit_test(a_disabled_rule_is_not_applied),
        cmocka_unit_test(an_unknown_rule_to_disable_is_refused),
        cmocka_unit_test(approximations_need_to_be_allowed),
        cmocka_unit_test(what_a_device_cannot_run_stays_written_out),
        cmocka_unit_test(several_rule_files_make_one_set),
        cmocka_unit_test(own_rules_join_the_built_in_ones),
        cmocka_unit_test(only_the_rules_asked_for_are_applied),
        cmocka_unit_test(a_trace_tells_what_was_done),
        cmocka_unit_test(the_result_is_the_same_every_time),
        cmocka_unit_test(whole_terms_leave_nothing_out),
        cmocka_unit_test(running_out_of_memory_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

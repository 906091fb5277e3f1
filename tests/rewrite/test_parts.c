/* Parts of a chosen graph that have another form of nearly the same price: what is asked about them, and what an answer
 * changes. Forms are judged by the interpreter, prices by the sum over nodes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/internal.h"
#include "rewrite/rewriting.h"

/* Two equal blocks, wide enough that an activation apart costs little more than one within the layer. */
static const char *const blocks =
    "(input x f32 16 512) (const v f32 512 512) (const w f32 512 512) (const b f32 512) (const c f32 512)"
    "(let h (softmax :axis 1 (relu (add (matmul x v) b)))) (out (softmax :axis 1 (relu (add (matmul h w) c))))";

typedef struct asker {
    int parts, wholes;
    size_t take_part, take_whole; /* the form to take: of a part, or its last, of the whole */
    size_t most;                  /* forms of a part */
    double second;                /* seconds of the second form of the first part */
    hyp_strbuf said;              /* both forms of every part, and the names of the whole's */
} asker;

/* Steps are told apart by the text of the graph. */
static hyp_status price(const hyp_graph *g, hyp_rewrite_price *out, void *user, hyp_diag *diag)
{
    fixture *f = user;
    size_t nodes;
    hyp_fold_budget fold = hyp_fold_budget_of(&f->in, 0, 0);
    hyp_strbuf text = {0};
    HYP_TRY(hyp_graph_print(&text, g, 0, diag));
    out->steps = hyp_hash(hyp_strbuf_text(&text), text.len, 0);
    hyp_strbuf_dispose(&text);
    HYP_TRY(hyp_rw_graph_cost(g, &fold, hyp_roofline_cost, &f->roofline, &out->seconds, &nodes, diag));
    out->work = out->seconds;
    return HYP_OK;
}

/* An input of a form, the same for all that call it so. */
static void fill(hyp_eval_tensor *t, const hyp_graph *g, hyp_value_id id, hyp_diag *diag)
{
    const hyp_value *v = &g->values.data[id];
    uint64_t state = hyp_hash(v->name, strlen(v->name), 1);
    assert_int_equal(hyp_eval_tensor_alloc(t, v->type.dtype, v->type.rank, v->type.dims, diag), HYP_OK);
    for (size_t i = 0; i < t->count; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        t->f[i] = (double)(int32_t)(state >> 32) / INT32_MAX;
    }
}

static void evaluate(const hyp_graph *g, hyp_eval_tensor *outputs, hyp_diag *diag)
{
    hyp_eval_tensor inputs[8] = {{0}};
    assert_true(g->inputs.len <= 8 && g->outputs.len <= 8);
    for (size_t i = 0; i < g->inputs.len; i++) fill(&inputs[i], g, g->inputs.data[i], diag);
    assert_int_equal(hyp_graph_eval(g, HYP_EVAL_DOUBLE, inputs, g->inputs.len, outputs, diag), HYP_OK);
    for (size_t i = 0; i < g->inputs.len; i++) hyp_eval_tensor_dispose(&inputs[i]);
}

static void assert_same_part(const hyp_graph *a, const hyp_graph *b, hyp_diag *diag)
{
    hyp_eval_tensor x[8] = {{0}}, y[8] = {{0}};
    assert_int_equal(a->outputs.len, b->outputs.len);
    evaluate(a, x, diag);
    evaluate(b, y, diag);
    for (size_t i = 0; i < a->outputs.len; i++) {
        assert_true(x[i].count > 0 && x[i].count == y[i].count);
        for (size_t k = 0; k < x[i].count; k++)
            assert_true(fabs(x[i].f[k] - y[i].f[k]) <= 1e-9 * (1 + fabs(x[i].f[k])));
        hyp_eval_tensor_dispose(&x[i]);
        hyp_eval_tensor_dispose(&y[i]);
    }
}

static hyp_status ask(const hyp_rewrite_forms *forms, size_t *out, void *user, hyp_diag *diag)
{
    asker *a = user;
    assert_true(forms->count >= 2 && *out == 0);
    for (size_t i = 0; i < forms->count; i++) assert_int_equal(hyp_graph_verify(forms->graphs[i], diag), HYP_OK);
    if (forms->names) {
        a->wholes++;
        for (size_t i = 0; i < forms->count; i++) hyp_strbuf_printf(&a->said, "%s\n", forms->names[i]);
        *out = a->take_whole;
        return HYP_OK;
    }
    if (a->parts++ == 0) a->second = forms->seconds[1];
    a->most = forms->count > a->most ? forms->count : a->most;
    for (size_t i = 0; i < forms->count; i++) {
        assert_int_equal(hyp_graph_print(&a->said, forms->graphs[i], 0, diag), HYP_OK);
        for (size_t k = 0; k < i; k++) assert_false(hyp_graph_equal(forms->graphs[k], forms->graphs[i]));
        if (i == 0) continue;
        assert_true(forms->seconds[i] <= 1.1 * forms->seconds[0]);
        assert_true(i == 1 || forms->seconds[i] >= forms->seconds[i - 1]);
        assert_same_part(forms->graphs[0], forms->graphs[i], diag);
    }
    *out = a->take_part < forms->count ? a->take_part : forms->count - 1;
    return HYP_OK;
}

static void begin_asking(fixture *f, asker *a, const char *text)
{
    begin(f, text);
    f->options.price = price;
    f->options.price_user = f;
    f->options.choose = ask;
    f->options.choose_user = a;
}

static void forms_of_parts_are_different_close_and_equal_in_value(void **state)
{
    asker a = {0}, again = {0};
    fixture f, g;
    (void)state;
    begin_asking(&f, &a, blocks);
    run(&f);
    assert_true(a.parts >= 2 && a.wholes == 1); /* one in each block at least */
    assert_null(f.report.form);
    assert_int_equal(f.report.parts_changed, 0);
    begin_asking(&g, &again, blocks);
    run(&g);
    assert_string_equal(hyp_strbuf_text(&a.said), hyp_strbuf_text(&again.said));

    /* what the first form of everything gives is what nobody who can time would give */
    fixture plain;
    begin(&plain, blocks);
    plain.options.price = price;
    plain.options.price_user = &plain;
    run(&plain);
    assert_true(hyp_graph_equal(&plain.out, &f.out));
    end(&plain);
    end(&g);
    end(&f);
    hyp_strbuf_dispose(&a.said);
    hyp_strbuf_dispose(&again.said);
}

static void an_answer_changes_its_part_alone(void **state)
{
    asker a = {.take_part = 1};
    fixture f;
    (void)state;
    begin_asking(&f, &a, blocks);
    run(&f);
    assert_true(f.report.parts_changed >= 2);
    assert_string_equal(f.report.form, "by parts");
    assert_int_equal(count_op(&f.out, HYP_OP_softmax), 2);
    assert_int_equal(count_op(&f.out, HYP_OP_relu), 2); /* apart now */
    assert_non_null(strstr(hyp_strbuf_text(&a.said), "by parts\nrewritten\nnormal form\nas it is\n"));
    assert_same_results(&f, 1e-9);
    end(&f);
    hyp_strbuf_dispose(&a.said);
}

/* A chain has a form for each way to cut it, and one more for each layer that may be called a fused one. */
static const char *const chain =
    "(input x f32 256 256) (const u f32 256 256) (const v f32 256 256) (const w f32 256 256)"
    "(out (softmax :axis 1 (matmul (relu (matmul (relu (matmul x u)) v)) w)))";

static void the_best_forms_are_told_as_many_as_are_wanted(void **state)
{
    (void)state;
    static const size_t wanted[] = {HYP_REWRITE_FORMS, 5, 2};
    double second = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t forms = wanted[i];
        asker a = {0};
        fixture f;
        begin_asking(&f, &a, chain);
        f.options.forms = forms;
        run(&f);
        assert_true(a.parts >= 1);
        assert_int_equal(a.most, forms);
        if (i > 0) assert_true(a.second == second); /* fewer are not others */
        second = a.second;
        end(&f);
        hyp_strbuf_dispose(&a.said);
    }
}

static void any_of_the_forms_can_be_taken(void **state)
{
    (void)state;
    for (size_t form = 0; form < 4; form++) {
        asker a = {.take_part = form};
        fixture f;
        begin_asking(&f, &a, chain);
        f.options.forms = 4;
        run(&f);
        assert_int_equal(f.report.parts_changed > 0, form > 0);
        if (form == 0) assert_int_equal(count_op(&f.out, HYP_OP_fused_mlp), 1);
        if (form == 3) assert_int_equal(count_op(&f.out, HYP_OP_fused_mlp), 0); /* the last one is all apart */
        assert_same_results(&f, 1e-9);
        end(&f);
        hyp_strbuf_dispose(&a.said);
    }
}

static void the_whole_can_be_taken_as_predicted_or_as_it_came(void **state)
{
    (void)state;
    for (size_t whole = 1; whole < 4; whole++) {
        asker a = {.take_part = 1, .take_whole = whole};
        fixture f, plain;
        begin_asking(&f, &a, blocks);
        run(&f);
        begin(&plain, blocks);
        run(&plain);
        if (whole == 1) { /* no advice was taken in the end */
            assert_null(f.report.form);
            assert_true(hyp_graph_equal(&f.out, &plain.out));
        } else {
            assert_string_equal(f.report.form, whole == 2 ? "normal form" : "as it is");
            assert_int_equal(count_op(&f.out, HYP_OP_relu), 2);
            assert_int_equal(count_op(&f.out, HYP_OP_matmul), whole == 2 ? 0 : 2);
        }
        assert_same_results(&f, 1e-9);
        end(&plain);
        end(&f);
        hyp_strbuf_dispose(&a.said);
    }
}

/* Layers of one input, which are one in the chosen plan; a form without that is told of, and can be taken. */
static const char *const layers =
    "(input x f32 1 256) (const a f32 256 256) (const b f32 256 256) (const c f32 256 256) (const p f32 256)"
    "(const q f32 256) (const r f32 256) (out (softmax :axis 1 (relu (add (matmul x a) p))))"
    "(out (softmax :axis 1 (relu (add (matmul x b) q)))) (out (softmax :axis 1 (relu (add (matmul x c) r))))";
/* A launch costs this many seconds, and a layer 1e-5. */
#define LAUNCH(seconds)                                                                                                \
    "(profile slow (like cpu) (flops-f32 1.31072e10) (launch-seconds " seconds ") (next-launch-seconds " seconds "))"

static void the_whole_can_be_taken_with_nothing_merged(void **state)
{
    (void)state;
    const struct {
        const char *profile;
        size_t whole; /* the form to take */
        const char *names, *form;
        size_t layers;
    } cases[] = {{LAUNCH("1e-6"), 0, "rewritten\napart\nnormal form\nas it is\n", NULL, 1},
                 {LAUNCH("1e-6"), 1, "rewritten\napart\nnormal form\nas it is\n", "apart", 3},
                 {LAUNCH("1e-5"), 0, "rewritten\nnormal form\nas it is\n", NULL, 1}}; /* it is much slower there */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asker a = {.take_whole = cases[i].whole};
        fixture f;
        begin_asking(&f, &a, layers);
        use_profile(&f, cases[i].profile);
        run(&f);
        const char *names = strstr(hyp_strbuf_text(&a.said), "rewritten\n");
        assert_string_equal(names, cases[i].names);
        assert_int_equal(count_op(&f.out, HYP_OP_split) > 0, cases[i].layers == 1);
        assert_int_equal(count_op(&f.out, HYP_OP_linear) + count_op(&f.out, HYP_OP_fused_linear), cases[i].layers);
        assert_int_equal(count_op(&f.out, HYP_OP_relu), 0);
        assert_int_equal(f.report.form == NULL, cases[i].form == NULL);
        if (cases[i].form) assert_string_equal(f.report.form, cases[i].form);
        assert_same_results(&f, 1e-9);
        end(&f);
        hyp_strbuf_dispose(&a.said);
    }
}

static void nobody_is_asked_once_the_limit_is_reached(void **state)
{
    asker a = {0};
    fixture f;
    volatile sig_atomic_t asked = 1;
    hyp_limit limit = {.asked = &asked};
    (void)state;
    begin_asking(&f, &a, blocks);
    f.options.limit = &limit;
    run(&f);
    assert_int_equal(a.parts + a.wholes, 0);
    end(&f);
}

static hyp_status fail_to_answer(const hyp_rewrite_forms *forms, size_t *out, void *user, hyp_diag *diag)
{
    (void)forms;
    (void)out;
    (void)user;
    return hyp_fail(diag, HYP_ERR_DEVICE, "the clock has stopped");
}

static void a_failure_to_answer_is_one_to_rewrite(void **state)
{
    asker a = {0};
    fixture f;
    (void)state;
    begin_asking(&f, &a, blocks);
    f.options.choose = fail_to_answer;
    assert_int_equal(hyp_rewrite(&f.in, &f.options, &f.out, &f.report, &f.diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(f.diag.message, "the clock has stopped"));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_of_parts_are_different_close_and_equal_in_value),
        cmocka_unit_test(an_answer_changes_its_part_alone),
        cmocka_unit_test(the_best_forms_are_told_as_many_as_are_wanted),
        cmocka_unit_test(any_of_the_forms_can_be_taken),
        cmocka_unit_test(the_whole_can_be_taken_as_predicted_or_as_it_came),
        cmocka_unit_test(the_whole_can_be_taken_with_nothing_merged),
        cmocka_unit_test(nobody_is_asked_once_the_limit_is_reached),
        cmocka_unit_test(a_failure_to_answer_is_one_to_rewrite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

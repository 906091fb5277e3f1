/* Where steps run side by side, what is put together is left apart if the plan is better so; elsewhere it stays. The
 * price of a plan is that of its longest path here, on any number of streams, or of all its nodes on one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/rewriting.h"

/* Four layers of one input, each with something behind it; a launch costs a tenth of a layer. */
static const char *const layers =
    "(input x f32 1 256) (const a f32 256 256) (const b f32 256 256) (const c f32 256 256) (const d f32 256 256)"
    "(out (softmax :axis 1 (matmul x a))) (out (softmax :axis 1 (matmul x b))) (out (softmax :axis 1 (matmul x c)))"
    "(out (softmax :axis 1 (matmul x d)))";
/* Merged with the activations or before them, so that there is more than one joint form to do without. */
static const char *const active =
    "(input x f32 1 256) (const a f32 256 256) (const b f32 256 256) (const c f32 256 256) (const p f32 256)"
    "(const q f32 256) (const r f32 256) (out (softmax :axis 1 (relu (add (matmul x a) p))))"
    "(out (softmax :axis 1 (relu (add (matmul x b) q)))) (out (softmax :axis 1 (relu (add (matmul x c) r))))";
static const char *const profile =
    "(profile slow (like h200) (launch-seconds 1e-6) (next-launch-seconds 1e-6) (flops-f32 1.31072e10)"
    " (measured add 1 f32 1e-6))"; /* 1e-5 seconds for 256 of 256 */

/* How plans are priced. */
typedef struct pricing {
    fixture *f;
    bool serial;       /* by the sum, whatever runs side by side */
    hyp_op costly;     /* an operator that makes any plan cost a second; HYP_OP_COUNT: none */
    hyp_op impossible; /* and one that makes it none */
} pricing;

static hyp_status price_node(fixture *f, const hyp_graph *g, const hyp_node *n, double *out, hyp_diag *diag)
{
    return hyp_roofline_kernel(g, &n, 1, &f->roofline, out, diag);
}

static hyp_status price(const hyp_graph *g, hyp_rewrite_price *out, void *user, hyp_diag *diag)
{
    const pricing *p = user;
    static double ends[1000];
    assert_true(g->values.len <= 1000);
    memset(ends, 0, sizeof ends);
    *out = (hyp_rewrite_price){0};
    bool constant[1000] = {false};
    hyp_fold_budget fold = hyp_fold_budget_of(&p->f->in, 0, 0);
    HYP_TRY(hyp_constants_find(g, &fold, constant, diag));
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        double begins = 0, seconds;
        if (n->op == p->impossible) return HYP_ERR_UNSUPPORTED;
        if (constant[n->outputs[0]]) continue;
        HYP_TRY(price_node(p->f, g, n, &seconds, diag));
        out->work += seconds;
        if (n->op == p->costly) out->work += 1;
        for (uint32_t k = 0; k < n->input_count; k++)
            if (n->inputs[k] != HYP_NO_VALUE) begins = fmax(begins, ends[n->inputs[k]]);
        for (uint32_t k = 0; k < n->output_count; k++) ends[n->outputs[k]] = begins + seconds;
        out->seconds = fmax(out->seconds, begins + seconds);
    }
    if (p->serial || p->f->options.streams < 2 || out->work > 1) out->seconds = out->work;
    return HYP_OK;
}

static void begin_priced(fixture *f, pricing *p, const char *text, uint32_t streams)
{
    begin(f, text);
    use_profile(f, profile);
    *p = (pricing){.f = f, .costly = HYP_OP_COUNT, .impossible = HYP_OP_COUNT};
    f->options.price = price;
    f->options.price_user = p;
    f->options.streams = streams;
}

static size_t count_layers(const hyp_graph *g)
{
    return count_op(g, HYP_OP_linear) + count_op(g, HYP_OP_fused_linear) + count_op(g, HYP_OP_matmul);
}

static void layers_side_by_side_are_not_merged(void **state)
{
    (void)state;
    const struct {
        const char *graph;
        uint32_t streams;
        bool serial; /* the price of the whole has the last word */
        size_t layers;
    } cases[] = {{layers, 0, false, 1}, {layers, 1, false, 1}, {layers, 4, false, 4}, {layers, 4, true, 1},
                 {active, 1, false, 1}, {active, 4, false, 3}, {active, 4, true, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        pricing p;
        hyp_rewrite_price want;
        begin_priced(&f, &p, cases[i].graph, cases[i].streams);
        p.serial = cases[i].serial;
        run(&f);
        assert_int_equal(count_layers(&f.out), cases[i].layers);
        assert_int_equal(count_op(&f.out, HYP_OP_split) > 0, cases[i].layers == 1);
        assert_same_results(&f, 1e-9);
        assert_int_equal(price(&f.out, &want, &p, &f.diag), HYP_OK);
        assert_true(f.report.cost_after == want.seconds);
        if (cases[i].layers > 1) assert_true(want.seconds < 0.5 * want.work);
        assert_true(f.report.phases[2].proven); /* that the sum was the least, before */
        end(&f);
    }
}

/* Convolutions of one image merge by the sum of what e-nodes cost. Where the plan of that is the dearer one, since all who
 * read channels of the whole turn it, they stay apart, but are otherwise rewritten. */
static void images_stay_whole_where_their_plan_is_better(void **state)
{
    (void)state;
#define CONV(w) "(out (relu (conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) x " w ")))"
    static const char *const images = "(input x f32 1 16 4 4) (const a f32 16 16 1 1) (const b f32 16 16 1 1)"
                                      "(const c f32 16 16 1 1) (const d f32 16 16 1 1) (const e f32 16 16 1 1)"
                                      "(const g f32 16 16 1 1)" CONV("a") CONV("b") CONV("c") CONV("d") CONV("e") CONV("g");
    for (int turned = 0; turned < 2; turned++) {
        fixture f;
        pricing p;
        begin_priced(&f, &p, images, 1);
        use_profile(&f, "(profile turning (like cpu) (launch-seconds 1e-6) (next-launch-seconds 1e-6))");
        p.costly = turned ? HYP_OP_split : HYP_OP_COUNT;
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_split) > 0, !turned);
        assert_int_equal(count_op(&f.out, HYP_OP_conv), turned ? 6 : 1);
        assert_int_equal(count_op(&f.out, HYP_OP_relu), 0);
        assert_same_results(&f, 1e-9);
        end(&f);
    }
}

/* A chain gains nothing by streams, and is as it is without. */
static void what_runs_one_after_the_other_stays_as_it_is(void **state)
{
    (void)state;
    static const char *const chain = "(input x f32 1 256) (const a f32 256 256) (const b f32 256 256) (const c f32 256)"
                                     "(out (softmax :axis 1 (relu (add (matmul (relu (add (matmul x a) c)) b) c))))";
    fixture one, four;
    pricing p, q;
    begin_priced(&one, &p, chain, 1);
    begin_priced(&four, &q, chain, 4);
    run(&one);
    run(&four);
    hyp_strbuf a = {0}, b = {0};
    assert_int_equal(hyp_graph_print(&a, &one.out, 0, &one.diag), HYP_OK);
    assert_int_equal(hyp_graph_print(&b, &four.out, 0, &four.diag), HYP_OK);
    assert_string_equal(hyp_strbuf_text(&a), hyp_strbuf_text(&b));
    hyp_strbuf_dispose(&a);
    hyp_strbuf_dispose(&b);
    end(&one);
    end(&four);
}

/* What came in is taken where its plan is the best one, if it can be a plan. */
static void nothing_is_slower_than_what_came(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f;
        pricing p;
        begin_priced(&f, &p, layers, 4);
        p.costly = HYP_OP_linear; /* which the normal form makes of each matmul, and merging of all */
        p.impossible = i ? HYP_OP_matmul : HYP_OP_COUNT;
        run(&f);
        assert_int_equal(count_op(&f.out, HYP_OP_matmul), i ? 0 : 4);
        assert_int_equal(count_op(&f.out, HYP_OP_linear) > 0, i);
        if (!i) assert_true(f.report.cost_after == f.report.cost_before);
        assert_same_results(&f, 1e-9);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_side_by_side_are_not_merged),
        cmocka_unit_test(images_stay_whole_where_their_plan_is_better),
        cmocka_unit_test(what_runs_one_after_the_other_stays_as_it_is),
        cmocka_unit_test(nothing_is_slower_than_what_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

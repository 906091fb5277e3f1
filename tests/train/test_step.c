/* Training steps: what they are made of, and what is refused. Numbers are judged by judge_steps.py. */
#include <math.h>

#include "train/central.h"

#define MLP                                                                                                            \
    "(graph \"mlp\" (input %x (f32 batch 3)) (const %w (f32 4 3) 1 2 3 4 5 6 7 8 9 1 2 3) (const %b (f32 4) 1 2 3 4)"  \
    " (const %v (f32 2 4) 1 2 3 4 5 6 7 8) (%h (linear %w %b %x) :from (\"first\")) (%r (relu %h) :from (\"act\"))"    \
    " (%y (linear %v none %r) :from (\"second\")) (output \"y\" %y))"

#define DROPPING                                                                                                       \
    "(graph \"g\" (input %x (bf16 batch 3)) (const %w (bf16 2 3) 1 2 3 4 5 6) (%d (dropout :ratio 0.25 %x) :from (\"drop\"))" \
    " (%h (linear %w none %d)) (%y (dropout :ratio 1 %h)) (output \"y\" %y))"

static hyp_train_options sgd(const char *loss)
{
    hyp_train_options o = HYP_TRAIN_OPTIONS_INIT;
    o.loss = loss;
    o.optimizer = "sgd";
    return o;
}

/* As the importer does for the pattern "*". */
static void mark_updatable(hyp_graph *g)
{
    for (size_t i = 0; i < g->values.len; i++) {
        hyp_value *v = &g->values.data[i];
        v->updatable = v->kind == HYP_VALUE_CONST && v->name && hyp_dtype_is_float(v->type.dtype) && v->bytes > 4;
    }
}

static hyp_graph model_of(hyp_dims *dims, const char *text)
{
    hyp_graph g = parse(dims, text);
    mark_updatable(&g);
    return g;
}

static hyp_graph step_of(const hyp_graph *model, const hyp_train_options *o)
{
    hyp_graph step;
    hyp_diag diag = {0};
    assert_ok(hyp_train_step(model, o, &step, &diag), &diag);
    assert_ok(hyp_graph_verify(&step, &diag), &diag);
    return step;
}

/* One product for each weight, with flags for what is transposed, none for the input; one mask; provenance. */
static void a_step_is_what_it_should_be(void **state)
{
    static const char wanted[] = "(graph \"mlp\"\n"
                                 "  (input %x (f32 batch 3))\n"
                                 "  (input %target (f32 batch 2))\n"
                                 "  (input %learning-rate (f32))\n"
                                 "  (variable %w (f32 4 3) 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 1.0 2.0 3.0)\n"
                                 "  (variable %v (f32 2 4) 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0)\n"
                                 "  (const %b (f32 4) 1.0 2.0 3.0 4.0)\n"
                                 "  (const %6 (f32) 2.0)\n"
                                 "  (const %7 (f32) 0.0)\n"
                                 "  (%h (linear %w %b %x) :from (\"first\"))\n"
                                 "  (%r (relu %h) :from (\"act\"))\n"
                                 "  (%y (linear %v none %r) :from (\"second\"))\n"
                                 "  (%11 (sub %y %target))\n"
                                 "  (%12 (mul %11 %11))\n"
                                 "  (%13 (size %12))\n"
                                 "  (%14 (cast :to f32 %13))\n"
                                 "  (%15 (reduce-mean :axes (0 1) :keep 0 %12))\n"
                                 "  (%16 (div %6 %14))\n"
                                 "  (%17 (mul %11 %16))\n"
                                 "  (%18 (matmul :trans-a 1 %17 %r) :from (\"second\"))\n"
                                 "  (%19 (matmul %17 %v) :from (\"second\"))\n"
                                 "  (%20 (less %7 %r) :from (\"act\"))\n"
                                 "  (%21 (where %20 %19 %7) :from (\"act\"))\n"
                                 "  (%22 (matmul :trans-a 1 %21 %x) :from (\"first\"))\n"
                                 "  (%23 (mul %learning-rate %22))\n"
                                 "  (%24 (sub %w %23))\n"
                                 "  (%25 (mul %learning-rate %18))\n"
                                 "  (%26 (sub %v %25))\n"
                                 "  (output \"loss\" %15)\n"
                                 "  (output \"y\" %y)\n"
                                 "  (set %w %24)\n"
                                 "  (set %v %26))\n";
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, MLP);
    hyp_train_options o = sgd("mse");
    o.frozen = (const char *const[]){"b*"};
    o.frozen_count = 1;
    (void)state;
    hyp_graph step = step_of(&model, &o), again = step_of(&model, &o);
    char *text = print(&step, SIZE_MAX), *second = print(&again, SIZE_MAX);
    if (strcmp(text, wanted) != 0) fputs(text, stderr); /* whole, which a message of cmocka's would not be */
    assert_string_equal(text, wanted);
    assert_string_equal(second, wanted);
    for (size_t i = 0; i < step.values.len; i++) assert_false(step.values.data[i].updatable);
    hyp_free(text);
    hyp_free(second);
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&again);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

/* Names of outputs in their order, joined by spaces. */
static void expect_outputs(const hyp_graph *g, const char *wanted)
{
    hyp_strbuf sb = {0};
    for (size_t i = 0; i < hyp_graph_shown(g); i++)
        hyp_strbuf_printf(&sb, "%s%s", i ? " " : "", g->outputs.data[i].name);
    hyp_strbuf_puts(&sb, " |");
    for (size_t i = 0; i < g->variables.len; i++) hyp_strbuf_printf(&sb, " %s", hyp_graph_variable(g, i)->name);
    assert_string_equal(hyp_strbuf_text(&sb), wanted);
    hyp_strbuf_dispose(&sb);
}

static void outputs_and_variables_have_their_names(void **state)
{
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, MLP), step;
    hyp_train_options o = sgd("mse");
    (void)state;
    step = step_of(&model, &o);
    expect_outputs(&step, "loss y | w b v");
    hyp_graph_dispose(&step);
    o.momentum = 0.9;
    o.clip_norm = 1;
    step = step_of(&model, &o);
    expect_outputs(&step, "loss y gradient-norm | w b v w:momentum b:momentum v:momentum");
    hyp_graph_dispose(&step);
    o = sgd("cross-entropy");
    o.optimizer = NULL;
    step = step_of(&model, &o);
    expect_outputs(&step, "loss y | w b v :step w:m w:v b:m b:v v:m v:v");
    hyp_graph_dispose(&step);
    o.gradients = true;
    o.optimizer = "no such thing is looked at";
    step = step_of(&model, &o);
    expect_outputs(&step, "loss y gradient:w gradient:b gradient:v | w b v");
    hyp_graph_dispose(&step);
    o.loss_only = true;
    step = step_of(&model, &o);
    expect_outputs(&step, "loss gradient:w gradient:b gradient:v | w b v");
    assert_int_equal(hyp_graph_shown_inputs(&step), 2); /* no learning rate */
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

/* The output that is the loss and is called so is there once, another beside it. */
static void an_output_can_be_the_loss(void **state)
{
    static const char text[] =
        "(graph \"g\" (input %labels (f32 2)) (const %w (f32 2) 3 4) (%d (sub %w %labels)) (%q (mul %d %d)) "
        "(%l (reduce-mean :axes (0) :keep 0 %q)) (output \"loss\" %l) (output \"same\" %l) (output \"q\" %q))";
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, text);
    hyp_train_options o = sgd("loss");
    hyp_diag diag = {0};
    (void)state;
    hyp_graph step = step_of(&model, &o);
    expect_outputs(&step, "loss same q | w");
    hyp_eval_tensor in[3] = {{0}}, out[8];
    const int64_t two[] = {2};
    assert_ok(hyp_eval_tensor_alloc(&in[0], HYP_F32, 1, two, &diag), &diag);
    assert_ok(hyp_eval_tensor_alloc(&in[1], HYP_F32, 0, NULL, &diag), &diag);
    assert_ok(hyp_eval_tensor_alloc(&in[2], HYP_F32, 1, two, &diag), &diag);
    in[0].f[0] = 1, in[0].f[1] = 2, in[1].f[0] = 0.5, in[2].f[0] = 3, in[2].f[1] = 4;
    assert_ok(hyp_graph_eval(&step, HYP_EVAL_NATIVE, in, 3, out, &diag), &diag);
    assert_true(out[0].f[0] == 4 && out[3].f[0] == 2 && out[3].f[1] == 3); /* w - 0.5 * (w - labels) */
    for (size_t i = 0; i < step.outputs.len; i++) hyp_eval_tensor_dispose(&out[i]);
    for (size_t i = 0; i < 3; i++) hyp_eval_tensor_dispose(&in[i]);
    hyp_graph_dispose(&step);
    o = sgd("same"); /* the same value */
    step = step_of(&model, &o);
    expect_outputs(&step, "loss same q | w");
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

/* ---- cross-entropy ---------------------------------------------------------------------------------- */

/* The loss of two rows of logits, of three classes each, in f32: x w for w = 1. */
static hyp_status cross_entropy_of(const double x[6], int64_t first, int64_t second, double *out, hyp_diag *diag)
{
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(
        dims, "(graph \"g\" (input %x (f32 2 3)) (const %w (f32 2 1) 1 1) (%y (mul %x %w)) (output \"y\" %y))");
    hyp_train_options o = sgd("cross-entropy");
    hyp_graph step = step_of(&model, &o);
    hyp_eval_tensor in[4] = {{0}}, result[3] = {{0}};
    for (size_t i = 0; i < 4; i++) {
        const hyp_type *t = &step.values.data[step.inputs.data[i]].type;
        assert_ok(hyp_eval_tensor_alloc(&in[i], t->dtype, t->rank, t->dims, diag), diag);
    }
    memcpy(in[0].f, x, 6 * sizeof *x);
    in[1].i[0] = first, in[1].i[1] = second, in[2].f[0] = 0.5, in[3].f[0] = in[3].f[1] = 1;
    hyp_status status = hyp_graph_eval(&step, HYP_EVAL_NATIVE, in, 4, result, diag);
    if (status == HYP_OK) *out = result[0].f[0];
    for (size_t i = 0; i < 4; i++) hyp_eval_tensor_dispose(&in[i]);
    for (size_t i = 0; i < 3; i++) hyp_eval_tensor_dispose(&result[i]);
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
    return status;
}

static void cross_entropy_is_stable_and_strict(void **state)
{
    static const double large[6] = {1000, 0, -3000, -3e38, 3e38, 0}, near[6] = {5000, 5000, 5000, 0, 60, 0};
    hyp_diag diag = {0};
    double loss = 0;
    (void)state;
    assert_ok(cross_entropy_of(large, 0, 1, &loss, &diag), &diag);
    assert_true(loss == 0);
    assert_ok(cross_entropy_of(large, 2, 1, &loss, &diag), &diag);
    assert_true(loss == 2000);
    assert_ok(cross_entropy_of(large, 1, -100, &loss, &diag), &diag); /* the second row does not count */
    assert_true(loss == 1000);
    assert_ok(cross_entropy_of(near, 1, -100, &loss, &diag), &diag);
    assert_true(fabs(loss - log(3)) < 1e-6);
    assert_ok(cross_entropy_of(near, -100, 1, &loss, &diag), &diag);
    assert_true(fabs(loss) < 1e-20); /* 2 e^-60 */
    assert_ok(cross_entropy_of(near, -100, -100, &loss, &diag), &diag);
    assert_true(isnan(loss)); /* as PyTorch has it: nothing over nothing */
    static const int64_t wrong[] = {3, -1, -2, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (cross_entropy_of(near, 0, wrong[i], &loss, &diag) != HYP_ERR_INVALID_ARGUMENT ||
            !strstr(diag.message, "gather"))
            fail_msg("a label of %lld: %s", (long long)wrong[i], diag.message);
}

/* Logits that a model in 16 bits gives in 32, and the same where something hides that: what is no elementwise operator reads
 * those of 16 bits themselves, and every result has the same bits. */
static void cross_entropy_reads_narrow_logits(void **state)
{
    static const char *const types[] = {"bf16", "f16"};
    static const double x[6] = {3.3, -1.7, 0.1, -2.9, 7.7, 7.6};
    (void)state;
    for (int t = 0; t < 4; t++) {
        hyp_eval_tensor out[2][3] = {{{0}}};
        hyp_diag diag = {0};
        for (int hidden = 0; hidden < 2; hidden++) {
            char text[256];
            snprintf(text, sizeof text,
                     "(graph \"g\" (input %%x (f32 2 3)) (const %%w (f32 2 1) 1 1) (%%m (mul %%x %%w)) "
                     "(%%n (cast :to %s %%m)) (%%c (cast :to f32 %%n)) (%%h (identity %%c)) (output \"y\" %s))",
                     types[t % 2], hidden ? "%h" : "%c");
            hyp_dims *dims = new_dims();
            hyp_graph model = model_of(dims, text);
            hyp_train_options o = sgd("cross-entropy");
            o.label_smoothing = t < 2 ? 0 : 0.1;
            hyp_graph step = step_of(&model, &o);
            size_t narrow = 0;
            for (size_t i = 0; i < step.nodes.len; i++) {
                const hyp_node *n = &step.nodes.data[i];
                if (n->op == HYP_OP_softmax_stats || n->op == HYP_OP_gather_elements)
                    narrow += step.values.data[n->inputs[0]].type.dtype != HYP_F32;
            }
            assert_int_equal(narrow, hidden ? 0 : 2);
            hyp_eval_tensor in[4] = {{0}};
            for (size_t i = 0; i < 4; i++) {
                const hyp_type *type = &step.values.data[step.inputs.data[i]].type;
                assert_ok(hyp_eval_tensor_alloc(&in[i], type->dtype, type->rank, type->dims, &diag), &diag);
            }
            memcpy(in[0].f, x, sizeof x);
            in[1].i[0] = 2, in[1].i[1] = 1, in[2].f[0] = 0.5, in[3].f[0] = in[3].f[1] = 1;
            assert_ok(hyp_graph_eval(&step, HYP_EVAL_NATIVE, in, 4, out[hidden], &diag), &diag);
            for (size_t i = 0; i < 4; i++) hyp_eval_tensor_dispose(&in[i]);
            hyp_graph_dispose(&step);
            hyp_graph_dispose(&model);
            hyp_dims_destroy(dims);
        }
        if (t < 2) /* (3.2 + log(1 + e^-5 + e^-3.2) + log(1 + e^-0.1)) / 2 */
            assert_true(fabs(out[0][0].f[0] - 1.945) < 0.05);
        for (size_t i = 0; i < 3; i++)
            assert_memory_equal(out[0][i].f, out[1][i].f, out[0][i].count * sizeof(double));
        for (size_t i = 0; i < 6; i++) hyp_eval_tensor_dispose(&out[i / 3][i % 3]);
    }
}

/* ---- narrow types ----------------------------------------------------------------------------------- */

#define NARROW                                                                                                         \
    "(graph \"n\" (input %x (f32 2 3)) (const %w (f32 2 3) 0.5 -1 2 1 0.25 -0.5) (%xn (cast :to f16 %x)) "             \
    "(%wn (cast :to f16 %w)) (%n (linear %wn none %xn)) (%y (cast :to f32 %n)) (output \"y\" %y))"

static void dispose(hyp_eval_tensor *t, size_t count)
{
    for (size_t i = 0; i < count; i++) hyp_eval_tensor_dispose(&t[i]);
}

/* Inputs of a step of NARROW: x, the target, the rate, and variables as they begin. */
static void fill_narrow(const hyp_graph *step, double x, double target, hyp_eval_tensor *in)
{
    hyp_diag diag = {0};
    assert_true(step->inputs.len <= 8);
    for (size_t i = 0; i < step->inputs.len; i++) {
        const hyp_value *v = &step->values.data[step->inputs.data[i]];
        assert_ok(hyp_eval_tensor_alloc(&in[i], v->type.dtype, v->type.rank, v->type.dims, &diag), &diag);
        for (size_t k = 0; in[i].f && k < in[i].count; k++)
            in[i].f[k] = i == 0    ? x * (double)(k + 1)
                         : i == 1  ? target
                         : i == 2  ? 0.5
                         : v->data ? hyp_load_f64(HYP_F32, v->data, k)
                                   : 0;
    }
}

/* The weights after a step of sgd at a rate of 0.5. */
static void run_narrow(const hyp_train_options *o, double x, double target, double *out_w)
{
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, NARROW), step = step_of(&model, o);
    hyp_eval_tensor in[8] = {{0}}, out[8] = {{0}};
    hyp_diag diag = {0};
    fill_narrow(&step, x, target, in);
    assert_ok(hyp_graph_eval(&step, HYP_EVAL_NATIVE, in, step.inputs.len, out, &diag), &diag);
    memcpy(out_w, out[step.variables.data[0].output].f, 6 * sizeof *out_w);
    dispose(in, step.inputs.len);
    dispose(out, step.outputs.len);
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

/* Gradients of y by its n-th row are 4e-8 or so, which f16 holds with a bit or two; the products with x, 1e-11, it does
 * not. */
static void a_scale_keeps_small_gradients(void **state)
{
    static const double w[6] = {0.5, -1, 2, 1, 0.25, -0.5};
    const double size = 1.0 / 8192;
    hyp_train_options o = sgd("mse");
    double plain[6], scaled[6];
    (void)state;
    run_narrow(&o, size, 0, plain);
    o.loss_scale = 65536;
    run_narrow(&o, size, 0, scaled);
    for (int n = 0; n < 2; n++)
        for (int k = 0; k < 3; k++) { /* the mean of y^2 over 4 elements: dw = y^T x / 2 */
            double g = 0;
            for (int r = 0; r < 2; r++) {
                double y = 0;
                for (int j = 0; j < 3; j++) y += w[3 * n + j] * size * (3 * r + j + 1);
                g += 0.5 * y * size * (3 * r + k + 1);
            }
            double moved = w[3 * n + k] - scaled[3 * n + k], rounding = 6e-8 * fabs(w[3 * n + k]);
            if (!(fabs(moved - 0.5 * g) <= 0.01 * fabs(0.5 * g) + rounding))
                fail_msg("%d %d: moved by %.9g, half of %.9g is wanted", n, k, moved, g);
            if (0.5 * fabs(g) > 4 * rounding) assert_true(fabs(w[3 * n + k] - plain[3 * n + k]) < 2 * fabs(g));
        }
}

/* Each variable of `step` after the run, by its place among the outputs: whether it is what it was. */
static bool is_unchanged(const hyp_eval_tensor *before, const hyp_eval_tensor *after)
{
    bool same = before->count == after->count;
    for (size_t i = 0; same && i < after->count; i++)
        same = after->f ? before->f[i] == after->f[i] : before->i[i] == after->i[i];
    return same;
}

static void a_step_that_overflows_changes_nothing(void **state)
{
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        hyp_dims *dims = new_dims();
        hyp_graph model = model_of(dims, NARROW);
        hyp_train_options o = sgd("mse");
        hyp_eval_tensor in[8] = {{0}}, out[16] = {{0}};
        hyp_diag diag = {0};
        o.optimizer = "adam";
        o.loss_scale = scaled ? 65536 : 0;
        hyp_graph step = step_of(&model, &o);
        fill_narrow(&step, 100, 0, in); /* gradients of some 1e4, times the scale */
        assert_ok(hyp_graph_eval(&step, HYP_EVAL_NATIVE, in, step.inputs.len, out, &diag), &diag);
        assert_true(isfinite(out[0].f[0]) && out[0].f[0] > 0);
        assert_int_equal(step.variables.len, 4);
        for (size_t v = 0; v < 4; v++)
            assert_true(is_unchanged(&in[step.variables.data[v].input], &out[step.variables.data[v].output]) ==
                        (scaled == 1));
        dispose(in, step.inputs.len);
        dispose(out, step.outputs.len);
        hyp_graph_dispose(&step);
        hyp_graph_dispose(&model);
        hyp_dims_destroy(dims);
    }
}

/* ---- what is refused -------------------------------------------------------------------------------- */

/* The dropout of a step: its stream, the node that it is from, its arithmetic in 32 bits where x has 16, and its count. */
static void a_step_drops_what_the_model_says(void **state)
{
    static const char *const parts[] = {"(input %learning-rate (f32))\n  (input %seed (i64))\n  (input %training (bool))\n",
                                        "(variable %:draws (i64))",
                                        "(random-uniform :shape (batch 3) %seed %:draws) :from (\"drop\"))",
                                        "(random-uniform :shape (batch 2) :stream 1 %seed %:draws))",
                                        "(cast :to f32 %x) :from (\"drop\"))",
                                        "(where %training %", /* the ratio, and what scales the rest */
                                        "(set %:draws %"};
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, DROPPING);
    hyp_train_options o = sgd("mse");
    hyp_strbuf text = {0};
    hyp_diag diag = {0};
    (void)state;
    o.dropout = true;
    hyp_graph step = step_of(&model, &o);
    assert_ok(hyp_graph_print(&text, &step, 1000, &diag), &diag);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(hyp_strbuf_text(&text), parts[i])) fail_msg("no %s in\n%s", parts[i], hyp_strbuf_text(&text));
    hyp_strbuf_dispose(&text);
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

static void refuse(const char *model_text, const hyp_train_options *o, hyp_status wanted, const char *part)
{
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, model_text), step;
    hyp_diag diag = {0};
    hyp_status status = hyp_train_step(&model, o, &step, &diag);
    if (status != wanted || !strstr(diag.message, part))
        fail_msg("%d and \"%s\" instead of %d and \"%s\"", status, diag.message, wanted, part);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

static void options_out_of_range_are_refused(void **state)
{
    const hyp_status wrong = HYP_ERR_INVALID_ARGUMENT;
    hyp_train_options o;
    (void)state;
#define REFUSE(part, ...)                                                                                              \
    do {                                                                                                               \
        o = sgd("mse");                                                                                                \
        __VA_ARGS__;                                                                                                   \
        refuse(MLP, &o, wrong, part);                                                                                  \
    } while (0)
    REFUSE("no loss is named", o.loss = NULL);
    REFUSE("no output of the model is called 'mes', nor is a loss", o.loss = "mes");
    REFUSE("no output of the model is called 'x'; the nearest name is 'y'", o.output = "x");
    REFUSE("a loss is a scalar; reduce it in the model", o.loss = "y");
    REFUSE("no optimizer is called 'sdg'; there are sgd, adam and adamw; the nearest is 'sgd'", o.optimizer = "sdg");
    REFUSE("the momentum is 1", o.momentum = 1);
    REFUSE("the momentum is nan", o.momentum = (double)NAN);
    REFUSE("momentum is for the optimizer sgd, not for adam", o.momentum = 0.5, o.optimizer = "adam");
    REFUSE("Nesterov", o.nesterov = true);
    REFUSE("beta1 is -0.1", o.beta1 = -0.1);
    REFUSE("beta2 is 1,", o.beta2 = 1);
    REFUSE("epsilon is -1", o.epsilon = -1);
    REFUSE("the weight decay is inf", o.weight_decay = (double)INFINITY);
    REFUSE("the norm to clip to is -2", o.clip_norm = -2);
    REFUSE("the scale of the loss is inf", o.loss_scale = (double)INFINITY);
    REFUSE("a label smoothing of 1.5", o.loss = "cross-entropy", o.label_smoothing = 1.5);
    REFUSE("the label 9007199254740993 is to be ignored", o.loss = "cross-entropy", o.ignore_index = 9007199254740993);
    REFUSE("label smoothing is for the loss cross-entropy, not for mse", o.label_smoothing = 0.1);
    REFUSE("class weights are for the loss cross-entropy, not for bce", o.loss = "bce", o.class_weight_count = 2,
           o.class_weights = (const float[]){1, 1});
    REFUSE("3 class weights are given for 2 classes", o.loss = "cross-entropy", o.class_weight_count = 3,
           o.class_weights = (const float[]){1, 1, 1});
    REFUSE("the weight of class 1 is -1", o.loss = "cross-entropy", o.class_weight_count = 2,
           o.class_weights = (const float[]){1, -1});
    REFUSE("no parameter is called like 'u*', which was to be frozen", o.frozen_count = 2,
           o.frozen = (const char *const[]){"w", "u*"});
    REFUSE("there is nothing to drop", o.dropout = true);
    REFUSE("of 3 initializers of floats, 0 are not frozen", o.frozen_count = 1, o.frozen = (const char *const[]){"*"});
#undef REFUSE
}

static void models_that_cannot_be_trained_are_refused(void **state)
{
    const hyp_status wrong = HYP_ERR_INVALID_ARGUMENT;
    hyp_train_options mse = sgd("mse"), entropy = sgd("cross-entropy"), named = sgd("y");
    (void)state;
    refuse("(graph \"g\" (input %x (f32 2)) (output \"y\" %x))", &mse, wrong,
           "there is nothing to train: of 0 initializers");
    refuse("(graph \"g\" (input %x (f32 2)))", &mse, wrong, "the model has no output");
    refuse("(graph \"g\" (input %x (i64 2)) (output \"y\" %x))", &mse, wrong, "i64[2], floats are wanted");
    refuse("(graph \"g\" (input %x (i64)) (output \"y\" %x))", &named, wrong, "i64[], floats are wanted");
    refuse("(graph \"g\" (input %x (f32 2)) (const %w (f32 2) 1 2) (%y (mul %x %w)) (%f (floor %y)) (output \"y\" %f))",
           &mse, wrong, "the loss depends on none of these");
    refuse("(graph \"g\" (input %x (f32 2 n)) (const %w (f32 2 1) 1 2) (%y (mul %x %w)) (output \"y\" %y))", &entropy,
           wrong, "cross-entropy wants logits [N C ...] with a fixed number C of classes");
    refuse("(graph \"g\" (input %x (f32)) (const %w (f32 2) 1 2) (%m (mul %x %w)) (%y (reduce-sum :axes (0) :keep 0 "
           "%m)) (output "
           "\"y\" %y))",
           &entropy, wrong, "f32[], cross-entropy wants logits");
    refuse("(graph \"g\" (input %target (f32 2)) (const %w (f32 2) 1 2) (%y (mul %target %w)) (output \"y\" %y))", &mse,
           wrong, "the model has an input 'target', as the step has one of its own");
    refuse("(graph \"g\" (input %learning-rate (f32 2)) (const %w (f32 2) 1 2) (%y (mul %learning-rate %w)) (output "
           "\"y\" %y))",
           &mse, wrong, "the model has an input 'learning-rate'");
    refuse("(graph \"g\" (input %x (f32 2)) (const %w (f32 2) 1 2) (%y (mul %x %w)) (output \"y\" %y) (output \"loss\" "
           "%y))",
           &mse, wrong, "the model has an output 'loss'");
    refuse("(graph \"g\" (input %x (f32 2)) (variable %v (f32 2)) (const %w (f32 2) 1 2) (%y (mul %x %w)) (output "
           "\"y\" %y) (set "
           "%v %y))",
           &mse, wrong, "the model has variables");
    mse.dropout = true;
    refuse("(graph \"g\" (input %seed (f32 2)) (const %w (f32 2) 1 2) (%d (dropout :ratio 0.5 %seed)) (%y (mul %d %w)) (output "
           "\"y\" %y))",
           &mse, wrong, "the model has an input 'seed', as the step has one of its own");
    refuse("(graph \"g\" (input %x (f32 2)) (const %w (f32 2) 1 2) (%d (dropout %x)) (%y (mul %d %w)) (output \"y\" %y))", &mse,
           wrong, "no Dropout with a ratio above 0");
    mse.dropout = false;
    refuse("(graph \"g\" (input %x (f32 2)) (const %w (f32 2) (hash \"0123456789abcdef\")) (%y (mul %x %w)) (output "
           "\"y\" %y))",
           &mse, wrong, "the elements of 'w' are not there");
}

/* All of them, by their names, and only those between a parameter and the loss. */
static void what_has_no_gradient_is_listed(void **state)
{
    static const char text[] =
        "(graph \"g\" (input %x (f32 2 3)) (const %w (f32 2 3) 1 2 3 4 5 6) (%m (mul %x %w)) (%p (softmax-gradient :axis 0 %m %x) "
        ":from (\"first\")) (%q (softmax-gradient :axis 1 %p %p)) (output \"y\" %q))";
    static const char fine[] =
        "(graph \"g\" (input %x (f32 2 3)) (const %w (f32 2 3) 1 2 3 4 5 6) (%p (softmax-gradient :axis 0 %x %x)) "
        "(%m (mul %p %w)) (%o (softmax-gradient :axis 0 %m %m)) (output \"y\" %m) (output \"o\" %o))";
    hyp_train_options mse = sgd("mse");
    (void)state;
    refuse(text, &mse, HYP_ERR_UNSUPPORTED,
           "2 nodes between the loss and what is trained cannot be differentiated: \"first\" (softmax-gradient), \"q\" "
           "(softmax-gradient)");
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, fine), step = step_of(&model, &mse);
    expect_outputs(&step, "loss y o | w");
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
    refuse("(graph \"g\" (input %x (f32 2 3 4)) (const %w (f32 2 3 1) 1 2 3 4 5 6) (%y (conv :strides (1) :pads (0 0) "
           ":dilations (1) :act relu %x %w)) (output \"y\" %y))",
           &mse, HYP_ERR_UNSUPPORTED, "\"y\" (conv)");
}

static void values_that_cannot_be_differentiated_are_refused(void **state)
{
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(
        dims,
        "(graph \"g\" (input %x (f32 2)) (input %i (i64)) (%s (reduce-sum :axes (0) :keep 0 %x)) (output \"s\" %s))");
    hyp_diag diag = {0};
    hyp_value_id x = g.inputs.data[0], i = g.inputs.data[1], s = g.outputs.data[0].value, none = 1000, out[1] = {0};
    (void)state;
    assert_int_equal(hyp_differentiate(&g, x, &x, 1, out, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "the loss is f32[2], a scalar of floats is wanted"));
    assert_int_equal(hyp_differentiate(&g, i, &x, 1, out, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "not of floats"));
    assert_int_equal(hyp_differentiate(&g, none, &x, 1, out, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_differentiate(&g, s, &i, 1, out, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "value 0, by which to differentiate, is not of floats"));
    assert_int_equal(hyp_differentiate(&g, s, &none, 1, out, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_ok(hyp_differentiate(&g, s, &s, 1, out, &diag), &diag); /* by itself: 1 */
    assert_true(*(const float *)g.values.data[out[0]].data == 1);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

/* Outputs of which the data say how much there is keep their counts when the loss comes before them. */
static void counts_stay_with_their_outputs(void **state)
{
    hyp_dims *dims = new_dims();
    hyp_graph model =
        model_of(dims, "(graph \"g\" (input %x (f32 4)) (const %w (f32 4) 1 2 3 4) (%y (mul %x %w)) ((%p %n) (nonzero "
                       ":size (4) %x)) (output \"y\" %y) (output \"p\" %p) (output \"n\" %n))");
    hyp_train_options o = sgd("mse");
    hyp_diag diag = {0};
    (void)state;
    assert_ok(hyp_vec_push(&model.sizes, &diag, (hyp_data_size){1, 1, 2}), &diag);
    model.hidden_outputs = 1;
    o.clip_norm = 1;
    hyp_graph step = step_of(&model, &o);
    expect_outputs(&step, "loss y p gradient-norm | w");
    assert_int_equal(step.sizes.len, 1);
    assert_string_equal(step.outputs.data[step.sizes.data[0].output].name, "p");
    assert_string_equal(step.outputs.data[step.sizes.data[0].count].name, "n");
    assert_int_equal(step.hidden_outputs, 2);
    hyp_graph_dispose(&step);
    o.loss_only = true;
    step = step_of(&model, &o);
    expect_outputs(&step, "loss gradient-norm | w");
    assert_int_equal(step.sizes.len, 0);
    assert_int_equal(step.hidden_outputs, 1);
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

static hyp_status make_and_forget(const hyp_graph *model, const hyp_train_options *o, hyp_diag *diag)
{
    hyp_graph step, written;
    HYP_TRY(hyp_train_step(model, o, &step, diag));
    hyp_status status = hyp_write_out(&step, &written, diag);
    if (status == HYP_OK) hyp_graph_dispose(&written);
    hyp_graph_dispose(&step);
    return status;
}

/* Fails each allocation of one step in turn. */
static void fail_allocations(const char *text, const hyp_train_options *o)
{
    hyp_dims *dims = new_dims();
    hyp_diag diag = {0};
    hyp_graph model = model_of(dims, text);
    assert_ok(make_and_forget(&model, o, &diag), &diag);
    for (uint64_t n = 1;; n++) {
        hyp_mem_fail_after(n);
        hyp_status status = make_and_forget(&model, o, &diag);
        hyp_mem_fail_after(0);
        if (status == HYP_OK) break;
        if (status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, diag.message);
        assert_true(n < 100000);
    }
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

/* The second model goes through heads of all kinds. */
static void every_failed_allocation_is_an_error(void **state)
{
    static const char heads[] =
        "(graph \"g\" (input %x (f32 n 2 6 6)) (input %i (i64 3)) (const %w (f32 2 1 1 2) 1 2 3 4) (const %s (f32 6) 1 "
        "2 3 4 5 6) "
        "(const %e (f32 4 6) 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6) "
        "(%c (conv :strides (1 1) :pads (0 1 0 0) :dilations (1 1) :group 2 %x %w)) "
        "(%m (max-pool :kernel (3 3) :strides (1 1) :pads (1 1 1 1) :dilations (1 1) %c)) "
        "(%t (max-pool :kernel (2 2) :strides (2 2) :pads (0 0 0 0) :dilations (1 1) %m)) "
        "(%a (average-pool :kernel (3 3) :strides (1 1) :pads (1 1 1 1) :dilations (1 1) %m)) "
        "(%u (resize :sizes (n 2 6 6) :mode linear %t)) (%b (add %a %u)) (%l (layer-norm %b %s)) ((%p %q) (split :axis "
        "1 :sizes (1 1) %l)) "
        "(%d (concat :axis 1 %p %q %p)) (%f (slice :starts (0 2 0 5) :sizes (n 3 6 3) :steps (1 -1 1 -2) %d)) "
        "(%r (reduce-prod :axes (1 2) :keep 0 %f)) (%g (gather %e %i)) (%z (reduce-mean :axes (0) :keep 0 %g)) (%h "
        "(linear %e none %z)) "
        "(%k (slice :starts (0) :sizes (3) :steps (1) %h)) (%y (add %r %k)) (output \"y\" %y))";
    hyp_train_options o = sgd("cross-entropy");
    (void)state;
    fail_allocations(heads, &o);
    o.optimizer = "adamw";
    o.clip_norm = 1;
    o.label_smoothing = 0.1;
    o.loss_scale = 8;
    o.frozen = (const char *const[]){"b"};
    o.frozen_count = 1;
    fail_allocations(MLP, &o);
    o = sgd("mse");
    o.dropout = true;
    fail_allocations(DROPPING, &o);
    o = sgd("mse");
    fail_allocations("(graph \"g\" (input %x (bf16 batch 3)) (const %s (f32 3) 1 2 3) (const %v (f32 3) 1 2 3) "
                     "((%y %m %w) (batch-norm %x %s %s %v %v)) (output \"y\" %y))",
                     &o);
}

/* What an operator that is there for its gradient is made of gives what it does, of whatever types; the rest stays as it
 * was. */
static void batch_normalizations_are_written_out(void **state)
{
    static const char *const texts[] = {
        "(graph \"g\" (input %x (f64 3 2 4)) (input %s (f64 2)) (input %b (f64 2)) (input %m (f64 2)) (input %v (f64 2)) "
        "(%r (relu %x)) ((%y %n %w) (batch-norm :epsilon 0.5 :momentum 0.75 %r %s %b %m %v)) (%z (relu %y)) "
        "(output \"z\" %z) (output \"y\" %y) (output \"n\" %n) (output \"w\" %w))",
        "(graph \"g\" (input %x (bf16 5 3)) (input %s (f32 3)) (input %b (f32 3)) (input %m (f32 3)) (input %v (f64 3)) "
        "((%y %n %w) (batch-norm %x %s %b %m %v)) (output \"z\" %y) (output \"y\" %y) (output \"n\" %n) (output \"w\" %w))",
    };
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        hyp_dims *dims = new_dims();
        hyp_graph g = parse(dims, texts[t]), written;
        hyp_diag diag = {0};
        rng r = {t + 1};
        hyp_eval_tensor in[5] = {{0}}, want[4], have[4];
        assert_true(hyp_has_compositions(&g));
        assert_ok(hyp_write_out(&g, &written, &diag), &diag);
        assert_ok(hyp_graph_verify(&written, &diag), &diag);
        assert_false(hyp_has_compositions(&written));
        draw_inputs(&g, &r, -2, 3, 1, NULL, in);
        assert_ok(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, in, 5, want, &diag), &diag);
        assert_ok(hyp_graph_eval(&written, HYP_EVAL_DOUBLE, in, 5, have, &diag), &diag);
        for (size_t o = 0; o < 4; o++) {
            assert_int_equal(want[o].dtype, have[o].dtype);
            for (size_t i = 0; i < want[o].count; i++) assert_true(fabs(want[o].f[i] - have[o].f[i]) <= 1e-6);
            hyp_eval_tensor_dispose(&want[o]);
            hyp_eval_tensor_dispose(&have[o]);
        }
        for (size_t i = 0; i < 5; i++) hyp_eval_tensor_dispose(&in[i]);
        hyp_graph_dispose(&written);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_what_it_should_be),
        cmocka_unit_test(outputs_and_variables_have_their_names),
        cmocka_unit_test(batch_normalizations_are_written_out),
        cmocka_unit_test(an_output_can_be_the_loss),
        cmocka_unit_test(cross_entropy_is_stable_and_strict),
        cmocka_unit_test(cross_entropy_reads_narrow_logits),
        cmocka_unit_test(a_scale_keeps_small_gradients),
        cmocka_unit_test(a_step_that_overflows_changes_nothing),
        cmocka_unit_test(a_step_drops_what_the_model_says),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(models_that_cannot_be_trained_are_refused),
        cmocka_unit_test(what_has_no_gradient_is_listed),
        cmocka_unit_test(values_that_cannot_be_differentiated_are_refused),
        cmocka_unit_test(counts_stay_with_their_outputs),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

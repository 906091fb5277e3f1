/* Logits that are widened by classes which nothing is: losses, gradients and refusals are those of logits that are not.
 */
#include <math.h>

#include "ir/ir_test.h"
#include "train/train.h"

enum { ROWS = 3, WIDTH = 4, CLASSES = 1027, MORE = 5, ROOM = 1 << 17 };

/* A model in 16 bits: parameters w and b in 32, `body` makes %y of %x, %v and %a, which are x, w and b narrowed. */
typedef struct model {
    const char *body;
    bool turned; /* w is [WIDTH, CLASSES] */
} model;

static const model models[] = {
    {"(%y (linear %v %a %x))", false},
    {"(%y (linear %v none %x))", false},
    {"(%p (matmul :trans-b 1 %x %v)) (%y (add %a %p))", false},
    {"(%t (transpose :perm (1 0) %v)) (%p (matmul %x %t)) (%y (reshape :shape (3 CLASSES) %p))", false},
    {"(%p (matmul %x %v)) (%q (reshape :shape (3 CLASSES) %p)) (%y (add %q %a))", true},
    {"(%y (gemm :trans-b 1 :alpha 0.5 %x %v %a))", false},
    {"(%y (gemm %x %v))", true},
};
/* Those whose logits stay as they are. */
static const model others[] = {
    {"(%p (matmul %x %v)) (%y (relu %p))", true},
    {"(%y (gemm :beta 0.5 %x %v %a))", true},
    {"(%p (linear %v %a %x)) (%y (add %p %a))", false},
    {"(%p (linear %v none %x)) (%y (add %p %p))", false},
};

static void add_numbers(char *text, size_t count, int64_t classes, bool turned, const char *dims)
{
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, ROOM - at, dims, (long long)(turned ? WIDTH : classes),
                           (long long)(turned ? classes : WIDTH));
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, ROOM - at, " %g", (double)(i * 37 % 64) / 16 - 2);
    snprintf(text + at, ROOM - at, ")");
}

/* The text of a model with so many classes. */
static void write_model(const model *m, const char *type, int64_t classes, char *text)
{
    snprintf(text, ROOM, "(graph \"g\" (input %%z (f32 3 4))");
    add_numbers(text, (size_t)classes * WIDTH, classes, m->turned, " (const %%w (f32 %lld %lld)");
    add_numbers(text, (size_t)classes, classes, false, " (const %%b (f32 %lld)");
    size_t at = strlen(text);
    at +=
        (size_t)snprintf(text + at, ROOM - at,
                         "(%%x (cast :to %s %%z)) (%%v (cast :to %s %%w)) (%%a (cast :to %s %%b)) ", type, type, type);
    for (const char *c = m->body; *c; c++)
        if (strncmp(c, "CLASSES", 7) == 0)
            at += (size_t)snprintf(text + at, ROOM - at, "%lld", (long long)classes), c += 6;
        else
            text[at++] = *c;
    snprintf(text + at, ROOM - at, " (%%o (cast :to f32 %%y)) (output \"o\" %%o))");
}

static hyp_graph step_of(hyp_dims *dims, const model *m, const char *type, int64_t classes, const hyp_train_options *o)
{
    static char text[ROOM];
    hyp_graph step;
    hyp_diag diag = {0};
    write_model(m, type, classes, text);
    hyp_graph g = parse(dims, text);
    for (size_t i = 0; i < g.values.len; i++) {
        hyp_value *v = &g.values.data[i];
        v->updatable = v->kind == HYP_VALUE_CONST && v->bytes > 4;
    }
    assert_ok(hyp_train_step(&g, o, &step, &diag), &diag);
    assert_ok(hyp_graph_verify(&step, &diag), &diag);
    hyp_graph_dispose(&g);
    return step;
}

static hyp_train_options gradients(bool loss_only)
{
    hyp_train_options o = HYP_TRAIN_OPTIONS_INIT;
    o.loss = "cross-entropy";
    o.gradients = true;
    o.loss_only = loss_only;
    return o;
}

/* Whether some softmax reads rows of so many. */
static bool has_rows_of(const hyp_graph *g, int64_t classes)
{
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        if (n->op == HYP_OP_softmax_stats && g->values.data[n->inputs[0]].type.dims[1] == classes) return true;
    }
    return false;
}

static hyp_status run(const hyp_graph *step, const int64_t labels[ROWS], hyp_eval_tensor *out, hyp_diag *diag)
{
    hyp_eval_tensor in[8] = {{0}};
    for (size_t i = 0; i < step->inputs.len; i++) {
        const hyp_value *v = &step->values.data[step->inputs.data[i]];
        assert_ok(hyp_eval_tensor_alloc(&in[i], v->type.dtype, v->type.rank, v->type.dims, diag), diag);
        for (size_t k = 0; k < in[i].count; k++)
            if (in[i].i)
                in[i].i[k] = labels[k];
            else
                in[i].f[k] = v->data ? hyp_load_f64(HYP_F32, v->data, k) : (double)(k * 5 % 11) / 4 - 1;
    }
    hyp_status status = hyp_graph_eval(step, HYP_EVAL_NATIVE, in, step->inputs.len, out, diag);
    for (size_t i = 0; i < step->inputs.len; i++) hyp_eval_tensor_dispose(&in[i]);
    return status;
}

/* Output `name`, which is there. */
static const hyp_eval_tensor *find(const hyp_graph *g, const hyp_eval_tensor *out, const char *name)
{
    for (size_t i = 0; i < g->outputs.len; i++)
        if (strcmp(g->outputs.data[i].name, name) == 0) return &out[i];
    fail_msg("no %s", name);
    return NULL;
}

static void compare(const model *m, const char *type)
{
    static const int64_t labels[ROWS] = {CLASSES - 1, -100, 17};
    hyp_eval_tensor out[2][8] = {{{0}}};
    hyp_graph step[2];
    hyp_dims *dims = new_dims();
    hyp_diag diag = {0};
    for (int wide = 0; wide < 2; wide++) {
        hyp_train_options o = gradients(wide);
        step[wide] = step_of(dims, m, type, CLASSES, &o);
        assert_true(has_rows_of(&step[wide], wide ? CLASSES + MORE : CLASSES));
        assert_ok(run(&step[wide], labels, out[wide], &diag), &diag);
    }
    for (size_t i = 0; i < step[1].outputs.len; i++) {
        const hyp_eval_tensor *found = &out[1][i], *wanted = find(&step[0], out[0], step[1].outputs.data[i].name);
        assert_int_equal(found->count, wanted->count);
        assert_memory_equal(found->f, wanted->f, found->count * sizeof *found->f);
    }
    assert_true(isfinite(find(&step[1], out[1], "loss")->f[0]));
    for (int wide = 0; wide < 2; wide++) {
        for (size_t i = 0; i < step[wide].outputs.len; i++) hyp_eval_tensor_dispose(&out[wide][i]);
        hyp_graph_dispose(&step[wide]);
    }
    hyp_dims_destroy(dims);
}

static void wider_logits_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        compare(&models[i], "bf16");
        compare(&models[i], "f16");
    }
}

static void expect_as_they_are(const model *m, const char *type, int64_t classes, double smoothing)
{
    hyp_dims *dims = new_dims();
    hyp_train_options o = gradients(true);
    o.label_smoothing = smoothing;
    hyp_graph step = step_of(dims, m, type, classes, &o);
    assert_true(has_rows_of(&step, classes));
    hyp_graph_dispose(&step);
    hyp_dims_destroy(dims);
}

/* Where rows are whole already, short, in 32 bits, or where all classes count in each loss. */
static void others_stay_as_they_are(void **state)
{
    (void)state;
    expect_as_they_are(&models[0], "bf16", 1032, 0);
    expect_as_they_are(&models[0], "bf16", 1001, 0);
    expect_as_they_are(&models[0], "f32", CLASSES, 0);
    expect_as_they_are(&models[0], "bf16", CLASSES, 0.1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) expect_as_they_are(&others[i], "bf16", CLASSES, 0);
}

/* A label of a class that nothing is fails the run, as one behind it does. */
static void labels_of_no_class_are_refused(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_train_options o = gradients(true);
    hyp_graph step = step_of(dims, &models[0], "bf16", CLASSES, &o);
    for (int64_t label = CLASSES; label <= CLASSES + MORE; label += MORE) {
        hyp_eval_tensor out[8] = {{0}};
        hyp_diag diag = {0};
        if (run(&step, (const int64_t[]){1, label, 2}, out, &diag) == HYP_OK || !strstr(diag.message, "gather"))
            fail_msg("a label of %lld: %s", (long long)label, diag.message);
        for (size_t i = 0; i < step.outputs.len; i++) hyp_eval_tensor_dispose(&out[i]);
    }
    hyp_graph_dispose(&step);
    hyp_dims_destroy(dims);
}

static void every_failed_allocation_is_an_error(void **state)
{
    static char text[ROOM];
    hyp_dims *dims = new_dims();
    hyp_train_options o = gradients(true);
    hyp_status status = HYP_ERR_NO_MEMORY;
    (void)state;
    write_model(&models[2], "bf16", CLASSES, text);
    hyp_graph g = parse(dims, text), step;
    for (size_t i = 0; i < g.values.len; i++)
        g.values.data[i].updatable = g.values.data[i].kind == HYP_VALUE_CONST && g.values.data[i].bytes > 4;
    for (uint64_t n = 1; status != HYP_OK; n++) {
        hyp_diag diag = {0};
        hyp_mem_fail_after(n);
        status = hyp_train_step(&g, &o, &step, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, diag.message);
        assert_true(n < 100000);
    }
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wider_logits_give_the_same_bits),
        cmocka_unit_test(others_stay_as_they_are),
        cmocka_unit_test(labels_of_no_class_are_refused),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

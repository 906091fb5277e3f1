/* Linear layers in f8e4m3: which ones, with which scales, and that plans compute what the interpreter does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "run_graph.h"

enum { ROWS = 5, MOST_SIDE = 64 };

/* A graph under construction, what is made of it, and the input for it. */
typedef struct fixture {
    hyp_dims *dims;
    hyp_graph g, opened, quantized;
    hyp_value_id x; /* bf16[n 32] */
    hyp_calibration calibration;
    hyp_strbuf report;
    hyp_eval_tensor input;
    hyp_diag diag;
} fixture;

#define MUST(f, call)                                                                                                  \
    do {                                                                                                               \
        if ((call) != HYP_OK) fail_msg("%s", (f)->diag.message);                                                       \
    } while (0)

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    hyp_dim n = 0;
    const int64_t dims[] = {ROWS, 32};
    assert_non_null(f);
    MUST(f, hyp_dims_create(&f->dims, &f->diag));
    hyp_graph_init(&f->g, f->dims);
    hyp_graph_init(&f->opened, f->dims);
    hyp_graph_init(&f->quantized, f->dims);
    MUST(f, hyp_dim_symbol(f->dims, "n", &n, &f->diag));
    MUST(f, hyp_graph_add_input(&f->g, "x", &(hyp_type){HYP_BF16, 2, {n, 32}}, &f->x, &f->diag));
    MUST(f, hyp_eval_tensor_alloc(&f->input, HYP_BF16, 2, dims, &f->diag));
    for (size_t i = 0; i < f->input.count; i++) f->input.f[i] = (double)((int)(i * 37 % 61) - 30) / 16;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hyp_eval_tensor_dispose(&f->input);
    hyp_strbuf_dispose(&f->report);
    hyp_calibration_dispose(&f->calibration);
    hyp_graph_dispose(&f->quantized);
    hyp_graph_dispose(&f->opened);
    hyp_graph_dispose(&f->g);
    hyp_dims_destroy(f->dims);
    free(f);
    return 0;
}

/* A constant in bf16 whose largest magnitude is `most`. */
static hyp_value_id constant(fixture *f, const char *name, int32_t rank, int64_t rows, int64_t columns, double most)
{
    uint16_t data[MOST_SIDE * MOST_SIDE];
    size_t count = (size_t)(rows * (rank > 1 ? columns : 1));
    hyp_value_id id;
    for (size_t i = 0; i < count; i++) hyp_store_f64(HYP_BF16, data, i, most * ((double)(i * 29 % 97) / 96 * 2 - 1));
    MUST(f, hyp_graph_add_const(&f->g, name, &(hyp_type){HYP_BF16, rank, {rows, columns}}, data, count * sizeof *data,
                                true, &id, &f->diag));
    return id;
}

static hyp_value_id node(fixture *f, hyp_op op, size_t count, const hyp_value_id *in, const hyp_attr *attrs,
                         const char *name)
{
    hyp_value_id out;
    const hyp_provenance from = {.sources = &name, .source_count = 1};
    MUST(f, hyp_graph_add_node(&f->g, op, in, (uint32_t)count, attrs, &from, &out, 1, &f->diag));
    return out;
}

static hyp_attr sym(const char *text) { return (hyp_attr){.kind = HYP_ATTR_SYM, .sym = text}; }

static hyp_value_id fused(fixture *f, hyp_value_id w, hyp_value_id b, const char *act, hyp_value_id x, const char *name)
{
    const hyp_attr a = sym(act);
    return node(f, HYP_OP_fused_linear, 3, (const hyp_value_id[]){w, b, x}, &a, name);
}

static void output(fixture *f, const char *name, hyp_value_id v)
{
    MUST(f, hyp_graph_add_output(&f->g, name, v, &f->diag));
}

static hyp_status quantize(fixture *f)
{
    HYP_TRY(hyp_graph_open_layers(&f->g, &f->opened, &f->diag));
    HYP_TRY(hyp_calibration_init(&f->calibration, &f->opened, &f->diag));
    HYP_TRY(hyp_calibrate(&f->calibration, &f->input, 1, &f->diag));
    HYP_TRY(hyp_graph_quantize(&f->calibration, &f->quantized, &f->report, &f->diag));
    return hyp_graph_verify(&f->quantized, &f->diag);
}

static size_t count_nodes(const hyp_graph *g, hyp_op op)
{
    size_t count = 0;
    for (size_t i = 0; i < g->nodes.len; i++) count += g->nodes.data[i].op == op;
    return count;
}

/* Quantized layer number `at`. */
static const hyp_node *layer(const fixture *f, size_t at)
{
    const hyp_graph *g = &f->quantized;
    for (size_t i = 0; i < g->nodes.len; i++)
        if (g->nodes.data[i].op == HYP_OP_quantized_linear && at-- == 0) return &g->nodes.data[i];
    fail_msg("there are fewer layers");
    return NULL;
}

/* Runs the plan of the graph on this input, and compares with the interpreter. */
static void plan_equals_interpreter(fixture *f)
{
    static const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    enum { OUTPUTS = 4 };
    uint16_t data[ROWS * 32];
    hyp_tensor in = {.data = data, .bytes = sizeof data, .dtype = HYP_BF16, .rank = 2, .dims = {ROWS, 32}};
    hyp_eval_tensor want[OUTPUTS] = {{0}};
    char path[] = "/tmp/hypatia-quantize-XXXXXX";
    size_t count = f->quantized.outputs.len;
    int file = mkstemp(path);
    assert_true(file >= 0 && count <= OUTPUTS);
    close(file);
    hyp_eval_tensor_store(&f->input, data);
    MUST(f, run_interpreter(&f->quantized, HYP_EVAL_NATIVE, &in, want, &f->diag));
    MUST(f, write_plan(&f->quantized, path, &f->diag));
    for (int d = 0; d < 2; d++) {
        hyp_tensor got[OUTPUTS] = {{0}};
        MUST(f, run_plan(path, devices[d], &in, 1, want, got, count, &f->diag));
        for (size_t i = 0; i < count; i++) {
            if (!results_agree(&got[i], &want[i], 2e-2, false, &f->diag)) fail_msg("%s", f->diag.message);
            hyp_free(got[i].data);
        }
    }
    for (size_t i = 0; i < count; i++) hyp_eval_tensor_dispose(&want[i]);
    unlink(path);
}

static void scales_are_the_least_powers_of_two_in_range(void **state)
{
    fixture *f = *state;
    static const struct {
        double most, scale;
    } rows[] = {{448, 1}, {450, 2}, {224, 0.5}, {225, 1}, {0.4375, 0.0009765625}, {0, 1}};
    char name[16];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "y%zu", i);
        hyp_value_id w = constant(f, "w", 2, 16, 32, 1);
        memset((void *)(uintptr_t)f->g.values.data[w].data, 0, f->g.values.data[w].bytes);
        hyp_store_f64(HYP_BF16, (void *)(uintptr_t)f->g.values.data[w].data, 7, -rows[i].most);
        output(f, name, fused(f, w, HYP_NO_VALUE, "none", f->x, name));
    }
    MUST(f, quantize(f));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(layer(f, i)->attrs[1].f == rows[i].scale);
        assert_true(layer(f, i)->attrs[0].f == 0.0078125); /* of x, whose largest is 30/16 */
    }
}

static void every_form_of_a_layer_is_quantized(void **state)
{
    fixture *f = *state;
    static const hyp_attr none[] = {{.kind = HYP_ATTR_INT}, {.kind = HYP_ATTR_INT}, {.kind = HYP_ATTR_FLOAT, .f = 1}};
    const hyp_attr add[] = {sym("gelu"), sym("after")};
    hyp_value_id w = constant(f, "w", 2, 32, 32, 0.3), b = constant(f, "b", 1, 32, 0, 0.5),
                 v = constant(f, "v", 2, 32, 48, 2);
    hyp_value_id plain = node(f, HYP_OP_linear, 3, (const hyp_value_id[]){w, b, f->x}, NULL, "plain");
    hyp_value_id sum = node(f, HYP_OP_fused_linear_add, 4, (const hyp_value_id[]){w, b, f->x, plain}, add, "sum");
    output(f, "y", fused(f, w, HYP_NO_VALUE, "relu", sum, "relu"));
    output(f, "z", node(f, HYP_OP_matmul, 2, (const hyp_value_id[]){f->x, v}, none, "product"));
    MUST(f, quantize(f));
    assert_int_equal(count_nodes(&f->quantized, HYP_OP_quantized_linear), 4);
    assert_non_null(strstr(hyp_strbuf_text(&f->report),
                           "product, weight v: x scaled by 0.0078125, its largest magnitude 1.875; weight"));
    assert_string_equal(layer(f, 1)->attrs[3].sym, "after");
    assert_true(layer(f, 0)->inputs[3] == layer(f, 3)->inputs[3]); /* both read x: one conversion */
    assert_true(layer(f, 0)->inputs[3] != layer(f, 1)->inputs[3]);
    plan_equals_interpreter(f);
}

static void layers_that_do_not_fit_stay_and_say_why(void **state)
{
    fixture *f = *state;
    hyp_value_id w = constant(f, "w", 2, 10, 32, 1), u = constant(f, "u", 2, 16, 10, 1);
    hyp_value_id narrow = fused(f, w, HYP_NO_VALUE, "relu", f->x, "narrow");
    output(f, "y", fused(f, u, HYP_NO_VALUE, "none", narrow, "thin"));
    hyp_value_id square = constant(f, "s", 2, 16, 32, 1);
    const hyp_attr mul[] = {{.kind = HYP_ATTR_INT}, {.kind = HYP_ATTR_INT, .i = 1}, {.kind = HYP_ATTR_FLOAT, .f = 1}};
    hyp_value_id mixed = node(f, HYP_OP_matmul, 2, (const hyp_value_id[]){f->x, f->x}, mul, "scores");
    output(f, "z", mixed);
    output(f, "fits", fused(f, square, HYP_NO_VALUE, "none", f->x, "fits"));
    MUST(f, quantize(f));
    const char *text = hyp_strbuf_text(&f->report);
    assert_non_null(
        strstr(text, "narrow, weight w: stays bf16, it has [10 32] weights, and 10 is no multiple of 16\n"));
    assert_non_null(strstr(text, "thin, weight u: stays bf16, it has [16 10] weights, and 10 is no multiple of 16\n"));
    assert_null(strstr(text, "scores"));
    assert_int_equal(count_nodes(&f->quantized, HYP_OP_quantized_linear), 1);
    assert_int_equal(count_nodes(&f->quantized, HYP_OP_matmul), 1);
}

static void a_chain_becomes_layers_where_one_of_them_fits(void **state)
{
    fixture *f = *state;
    const char *const acts[] = {"relu", "tanh", "none"};
    const hyp_attr a = {.kind = HYP_ATTR_SYMS, .count = 3, .syms = acts};
    hyp_value_id w1 = constant(f, "w1", 2, 48, 32, 0.2), w2 = constant(f, "w2", 2, 16, 48, 0.2);
    hyp_value_id w3 = constant(f, "w3", 2, 3, 16, 0.2), b = constant(f, "b", 1, 48, 0, 0.1);
    const hyp_value_id in[] = {w1, b, w2, HYP_NO_VALUE, w3, HYP_NO_VALUE, f->x};
    output(f, "y", node(f, HYP_OP_fused_mlp, 7, in, &a, "chain"));
    const hyp_attr two = {.kind = HYP_ATTR_SYMS, .count = 2, .syms = acts};
    hyp_value_id u1 = constant(f, "u1", 2, 5, 32, 0.2), u2 = constant(f, "u2", 2, 3, 5, 0.2);
    output(
        f, "z",
        node(f, HYP_OP_fused_mlp, 5, (const hyp_value_id[]){u1, HYP_NO_VALUE, u2, HYP_NO_VALUE, f->x}, &two, "thin"));
    MUST(f, quantize(f));
    assert_int_equal(count_nodes(&f->quantized, HYP_OP_quantized_linear), 2);
    assert_int_equal(count_nodes(&f->quantized, HYP_OP_fused_linear), 1);
    assert_int_equal(count_nodes(&f->quantized, HYP_OP_fused_mlp), 1); /* of which nothing fits */
    assert_non_null(strstr(hyp_strbuf_text(&f->report), "chain, weight w2: x scaled by"));
    plan_equals_interpreter(f);
}

static void what_is_no_number_is_an_error_that_names_the_layer(void **state)
{
    fixture *f = *state;
    hyp_value_id w = constant(f, "w", 2, 16, 32, 1);
    output(f, "y", fused(f, w, HYP_NO_VALUE, "relu", f->x, "Gemm_7"));
    f->input.f[3] = NAN;
    assert_int_equal(quantize(f), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(f->diag.message, "the input of the layer 'Gemm_7, weight w' has nan among its numbers"));
}

/* The index behind the layer is out of range: it would fail the run. */
static void only_what_layers_depend_on_runs(void **state)
{
    fixture *f = *state;
    const int64_t index = 16;
    hyp_value_id i, w = constant(f, "w", 2, 16, 32, 1);
    hyp_value_id y = fused(f, w, HYP_NO_VALUE, "relu", f->x, "Gemm_7");
    MUST(f, hyp_graph_add_const(&f->g, "i", &(hyp_type){.dtype = HYP_I64}, &index, sizeof index, true, &i, &f->diag));
    const hyp_attr axis = {.kind = HYP_ATTR_INT, .i = 1};
    output(f, "y", node(f, HYP_OP_gather, 2, (const hyp_value_id[]){y, i}, &axis, "gather"));
    MUST(f, quantize(f));
    assert_int_equal(count_nodes(&f->quantized, HYP_OP_quantized_linear), 1);
}

static void an_allocation_that_fails_is_an_error(void **state)
{
    fixture *f = *state;
    hyp_status status = HYP_ERR_NO_MEMORY;
    hyp_value_id w = constant(f, "w", 2, 16, 32, 1);
    output(f, "y", fused(f, w, HYP_NO_VALUE, "relu", f->x, "Gemm_7"));
    for (uint64_t n = 1; status != HYP_OK; n++) {
        assert_true(n < 10000);
        hyp_calibration_dispose(&f->calibration);
        hyp_strbuf_dispose(&f->report);
        hyp_graph_dispose(&f->quantized);
        hyp_graph_dispose(&f->opened);
        hyp_graph_init(&f->opened, f->dims);
        hyp_graph_init(&f->quantized, f->dims);
        hyp_mem_fail_after(n);
        status = quantize(f);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(scales_are_the_least_powers_of_two_in_range),
        TEST(every_form_of_a_layer_is_quantized),
        TEST(layers_that_do_not_fit_stay_and_say_why),
        TEST(a_chain_becomes_layers_where_one_of_them_fits),
        TEST(what_is_no_number_is_an_error_that_names_the_layer),
        TEST(only_what_layers_depend_on_runs),
        TEST(an_allocation_that_fails_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

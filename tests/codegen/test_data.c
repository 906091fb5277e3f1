/* What only the data can tell: indices and regions out of range are errors that say where, on every host backend and in
 * the interpreter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "run_graph.h"

typedef struct row {
    const char *nodes; /* of a graph with x (f32 2 3) and i, whose result is y */
    const char *type;  /* of i */
    double index;      /* every element of i */
    const char *message;
} row;

static const row bad[] = {
    {"(%y (gather :axis 1 %x %i))", "i64 2", 3, "index 3"},
    {"(%y (gather :axis 1 %x %i))", "i32 2", -4, "index -4"},
    {"(%y (gather-elements :axis 1 %x %i))", "i64 2 1", 3, "gather-elements: index 3 is out of range for axis 1 of 3"},
    {"(%y (gather-elements :axis 0 %x %i))", "i64 1 3", 1e18, "index 1000000000000000000 is out of range for axis 0"},
    {"(%y (gather-nd %x %i))", "i64 4 2", 2, "gather-nd: index 2 is out of range for axis 0 of 2"},
    {"(%y (gather-nd :batch-axes 1 %x %i))", "i32 2 1", -4, "gather-nd: index -4 is out of range for axis 1 of 3"},
    {"(%y (scatter-elements :axis 1 :reduction add %x %i %x))", "i64 2 3", -4, "index -4 is out of range for axis 1"},
    {"(const %u (f32 1 3) 1 2 3) (%y (scatter-nd %x %i %u))", "i64 1 1", 2, "index 2 is out of range for axis 0 of 2"},
    {"(%y (tensor-scatter :axis 1 %x %x %i))", "i64 2", 1, "index 1 is out of range for 3 updates along axis 1 of 3"},
    {"(%y (tensor-scatter :axis 1 :mode circular %x %x %i))", "i64 2", -1, "index -1 is out of range"},
    {"(%y (reverse-sequence :batch-axis 0 :time-axis 1 %x %i))", "i64 2", 4, "length 4 is out of range for axis 1"},
    {"(const %m (f32 1 1 2 2) 1 2 3 4) (const %r (f32 2 4) 0 0 1 1 0 0 1 1) (%y (roi-align :bins (1 1) %m %r %i))",
     "i64 2", 1, "roi-align: index 1 is out of range for axis 0 of 1"},
    {"(const %m (f32 1 1 2 2) 1 2 3 4) (const %j (i64 1) 0) (%y (roi-align :bins (1 1) %m %i %j))", "f32 1 4", NAN,
     "region 0 is too large"},
};

/* Strange, but defined: nothing is read from outside. */
static const row good[] = {
    {"(const %v (f32 2) 0 1) (%y (one-hot :new-axis 0 :depth (3) %i %v))", "i64 2", 9e18, NULL},
    {"(%y (trilu %x %i))", "i64", -9e18, NULL},
    {"(const %m (f32 1 1 2 2) 1 2 3 4) (%y (grid-sample :mode cubic %m %i))", "f32 1 2 2 2", NAN, NULL},
    {"(const %m (f32 1 1 2 2) 1 2 3 4) (%y (grid-sample :padding reflection %m %i))", "f32 1 2 2 2", INFINITY, NULL},
    {"(const %m (f32 1 1 2 1) 1 2) (%y (grid-sample :padding reflection :align-corners 1 %m %i))", "f32 1 2 2 2", 1e30,
     NULL},
    {"(const %m (f32 1 1 2 2) 1 2 3 4) (%y (grid-sample :mode nearest :padding border %m %i))", "f32 1 2 2 2", -1e30,
     NULL},
    {"(const %s (f64 2) 1 2) (%y (resize :mode linear :sizes (2 6) :coordinates tf_crop_and_resize %x %s %i))", "f32 4",
     NAN, NULL},
    {"(const %s (f64 2) 1 2) (%y (resize :mode cubic :sizes (2 6) :coordinates tf_crop_and_resize %x %s %i))", "f32 4",
     1e30, NULL},
};

static void parse(const row *r, hyp_dims *dims, hyp_graph *g)
{
    char text[512];
    hyp_diag diag = {0};
    snprintf(text, sizeof text, "(graph \"\" (input %%x (f32 2 3)) (input %%i (%s)) %s (output \"y\" %%y))", r->type,
             r->nodes);
    hyp_graph_init(g, dims);
    if (hyp_graph_parse(g, "row", text, strlen(text), &diag) != HYP_OK) fail_msg("%s: %s", text, diag.message);
}

static void expect(const row *r, const char *how, hyp_status status, const hyp_diag *diag)
{
    if (!r->message && status != HYP_OK) fail_msg("%s %s: %s", how, r->nodes, diag->message);
    if (r->message && (status != HYP_ERR_INVALID_ARGUMENT || !strstr(diag->message, r->message)))
        fail_msg("%s %s: \"%s\" instead of \"%s\"", how, r->nodes, diag->message, r->message);
}

static void run_row(const row *r, const char *path)
{
    static const hyp_device_kind devices[] = {HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};
    hyp_graph g;
    hyp_dims *dims;
    hyp_diag diag = {0};
    hyp_eval_tensor in[2] = {{0}}, like = {0};
    hyp_tensor inputs[2];
    unsigned char data[2][256] = {{0}};
    int64_t shape[HYP_MAX_RANK];
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    parse(r, dims, &g);
    for (size_t i = 0; i < 2; i++) {
        const hyp_value *v = &g.values.data[g.inputs.data[i]];
        inputs[i] = (hyp_tensor){.name = v->name, .data = data[i], .dtype = v->type.dtype, .rank = v->type.rank};
        memcpy(inputs[i].dims, v->type.dims, sizeof inputs[i].dims);
        assert_true(hyp_type_bytes(&v->type, &inputs[i].bytes));
        size_t count = inputs[i].bytes / hyp_dtype_size(v->type.dtype);
        for (size_t k = 0; k < count && i == 1; k++) hyp_store_f64(v->type.dtype, data[i], k, r->index);
        assert_int_equal(hyp_eval_tensor_load(&in[i], &inputs[i], NULL), HYP_OK);
    }
    expect(r, "interpreter", hyp_graph_eval(&g, HYP_EVAL_NATIVE, in, 2, &like, &diag), &diag);
    if (r->message) { /* the plan's outputs get memory of this size */
        const hyp_type *y = &g.values.data[g.outputs.data[0].value].type;
        memcpy(shape, y->dims, sizeof shape);
        assert_int_equal(hyp_eval_tensor_alloc(&like, y->dtype, y->rank, shape, NULL), HYP_OK);
    }
    assert_int_equal(write_plan(&g, path, &diag), HYP_OK);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        hyp_tensor y = {0};
        hyp_diag why = {0};
        expect(r, d ? "reference" : "cpu", run_plan(path, devices[d], inputs, 2, &like, &y, 1, &why), &why);
        if (r->message) assert_non_null(strstr(why.message, "step 0"));
        hyp_free(y.data);
    }
    for (size_t i = 0; i < 2; i++) hyp_eval_tensor_dispose(&in[i]);
    hyp_eval_tensor_dispose(&like);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void run_rows(const row *rows, size_t count)
{
    char path[64];
    snprintf(path, sizeof path, "test_data.%ld.bin", (long)getpid());
    for (size_t i = 0; i < count; i++) run_row(&rows[i], path);
    unlink(path);
}

static void indices_out_of_range_are_errors_that_say_where(void **state)
{
    (void)state;
    run_rows(bad, sizeof bad / sizeof *bad);
}

static void odd_numbers_are_harmless(void **state)
{
    (void)state;
    run_rows(good, sizeof good / sizeof *good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(indices_out_of_range_are_errors_that_say_where),
                                       cmocka_unit_test(odd_numbers_are_harmless)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

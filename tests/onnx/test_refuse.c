/* Models that are refused: the status, and what the message must name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model_builder.h"

static void expect_refused(imported *im, hyp_status want, const char *const *parts)
{
    if (im->status == HYP_OK) fail_msg("accepted:\n%s", hyp_strbuf_text(&im->text));
    if (im->status != want || im->diag.status != want)
        fail_msg("%s, wanted %s: %s", hyp_status_name(im->status), hyp_status_name(want), im->diag.message);
    for (; *parts; parts++)
        if (!strstr(im->diag.message, *parts)) fail_msg("no \"%s\" in: %s", *parts, im->diag.message);
    assert_null(im->model);
    imported_dispose(im);
}

static void refuse(model_builder *b, const hyp_onnx_options *options, hyp_status want, const char *const *parts)
{
    imported im;
    mb_import(b, options, &im);
    expect_refused(&im, want, parts);
}
#define REFUSE(b, status, ...) refuse(b, NULL, status, (const char *const[]){"test.onnx: ", __VA_ARGS__, NULL})

static model_builder one(int64_t opset, const char *x_dims, const char *op, const char *inputs, const char *attributes)
{
    model_builder b;
    mb_init(&b, opset);
    mb_input(&b, "x", HYP_F32, x_dims);
    mb_node(&b, op, inputs, "y", attributes);
    mb_output(&b, "y");
    return b;
}

static void bytes_that_are_no_model(void **state)
{
    (void)state;
    static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\6\0\0\0";
    static const char text[] = "this is not a model";
    static const char only_version[] = "\x08\x08";
    static const struct {
        const char *data;
        size_t size;
        const char *part;
    } cases[] = {
        {png, sizeof png - 1, "not ONNX"},
        {text, sizeof text - 1, "not ONNX"},
        {"", 0, "empty"},
        {only_version, 2, "no graph"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        imported im;
        mb_import_bytes(cases[i].data, cases[i].size, NULL, &im);
        expect_refused(&im, HYP_ERR_MALFORMED, (const char *const[]){"test.onnx: ", cases[i].part, NULL});
    }
}

static void texts_that_are_not_utf8(void **state)
{
    (void)state;
    static const char *const bad[] = {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        model_builder b = one(13, "2", "Relu", "x", "");
        b.nodes[0]->name = (char *)(uintptr_t)bad[i];
        REFUSE(&b, HYP_ERR_MALFORMED, "UTF-8", "NodeProto");
    }
    imported im;
    model_builder b = one(13, "2", "Relu", "x", "");
    b.nodes[0]->name = (char[]){"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"};
    mb_import(&b, NULL, &im);
    assert_int_equal(im.status, HYP_OK);
    imported_dispose(&im);
}

static void every_unsupported_operator_is_listed(void **state)
{
    (void)state;
    model_builder b = one(17, "2", "DFT", "x", "");
    b.nodes[0]->name = (char[]){"gru1"};
    for (int i = 0; i < 4; i++) {
        char out[16];
        snprintf(out, sizeof out, "l%d", i);
        mb_node(&b, "STFT", "x", out, "");
    }
    mb_node(&b, "Gelu", "x", "g", "");
    mb_node(&b, "Inverse", "x", "q", "")->domain = (char[]){"com.microsoft"};
    mb_node(&b, "Relu", "x", "r", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "4 operators are not supported (7 nodes)", "DFT x1 (gru1)",
           "STFT x4 (STFT:l0, STFT:l1, STFT:l2, ...)", "Gelu x1 (from opset 20 on, the model has 17; Gelu:g)",
           "com.microsoft::Inverse x1");
}

static void operator_sets_out_of_range(void **state)
{
    (void)state;
    model_builder b = one(29, "2", "Relu", "x", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "version 29", "1 to ");
    b = one(99, "2", "Relu", "x", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "version 99");
    b = one(13, "2", "Relu", "x", "");
    b.model.n_opset_import = 0;
    REFUSE(&b, HYP_ERR_MALFORMED, "does not say which version");
}

static void graphs_with_cycles(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Add", "x c", "");
    mb_node(&b, "Relu", "y", "b", "")->name = (char[]){"second"};
    mb_node(&b, "Exp", "b", "c", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "cycle", "\"Add:y\"", "\"second\"", "\"Exp:c\"");
    b = one(13, "2", "Add", "x y", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "cycle", "\"Add:y\" feeds \"Add:y\"");
}

static void names_given_twice_or_never(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Relu", "x", "");
    mb_node(&b, "Exp", "x", "y", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "\"y\" is given twice");
    b = one(13, "2", "Relu", "x", "");
    mb_input(&b, "x", HYP_F32, "2");
    REFUSE(&b, HYP_ERR_MALFORMED, "\"x\" is given twice");
    b = one(13, "2", "Relu", "x", "");
    mb_const(&b, "y", HYP_F32, "2", NULL);
    REFUSE(&b, HYP_ERR_MALFORMED, "\"y\" is given twice", "an initializer", "the output of a node");
    b = one(13, "2", "Relu", "x", "");
    mb_output(&b, "y");
    REFUSE(&b, HYP_ERR_MALFORMED, "output \"y\"");
    b = one(13, "2", "Add", "x weight", "");
    mb_const(&b, "weights", HYP_F32, "2", NULL);
    REFUSE(&b, HYP_ERR_MALFORMED, "node \"Add:y\" (Add)", "reads \"weight\"", "nearest name is \"weights\"");
    b = one(13, "2", "Relu", "x", "");
    mb_output(&b, "z");
    REFUSE(&b, HYP_ERR_MALFORMED, "output \"z\"");
    b = one(13, "2", "Relu", "x", "");
    b.graph.n_output = 0;
    REFUSE(&b, HYP_ERR_MALFORMED, "no outputs");
}

static void nodes_that_do_not_fit_together(void **state)
{
    (void)state;
    model_builder b = one(13, "2 3 4", "Gemm", "x w", "");
    mb_const(&b, "w", HYP_F32, "4 2", NULL);
    REFUSE(&b, HYP_ERR_MALFORMED, "node \"Gemm:y\" (Gemm)", "two matrices");
    b = one(13, "2 3", "MatMul", "x w", "");
    mb_const(&b, "w", HYP_F32, "4 2", NULL);
    REFUSE(&b, HYP_ERR_MALFORMED, "node \"MatMul:y\"", "3", "4");
    b = one(13, "2 3", "Add", "x w", "");
    mb_const(&b, "w", HYP_F16, "3", NULL);
    REFUSE(&b, HYP_ERR_MALFORMED, "f32 and f16");
    b = one(13, "2 3", "Concat", "x x", "axis=2");
    REFUSE(&b, HYP_ERR_MALFORMED, "axis 2");
    b = one(13, "2 3", "Transpose", "x", "perm=[0,0]");
    REFUSE(&b, HYP_ERR_MALFORMED, "node \"Transpose:y\"");
    b = one(13, "2 3", "Add", "x", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "1 inputs, the operator takes 2");
    b = one(13, "2 3", "Clip", "x x x x", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "4 inputs, the operator takes 1 to 3");
    b = one(13, "2 3", "If", "", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "0 inputs, the operator takes 1");
    b = one(13, "2 3", "Add", "- x", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "input 0 is missing");
    b = one(13, "2 3", "Concat", "x - x", "axis=0");
    REFUSE(&b, HYP_ERR_MALFORMED, "input 1 is missing");
    b = one(13, "2 3", "Reshape", "x s", "");
    mb_const(&b, "s", HYP_I64, "1", "7");
    REFUSE(&b, HYP_ERR_MALFORMED, "node \"Reshape:y\"", "6", "7");
    b = one(13, "2 3", "Relu", "x", "");
    b.outputs[0] = mb_value_info(&b, "y", HYP_I64, "2 3");
    REFUSE(&b, HYP_ERR_MALFORMED, "output \"y\"", "INT64");
}

static void attributes_that_are_wrong(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "LSTM", "x x x", "sparse_value=1");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "attribute \"sparse_value\"");
    b = one(13, "2", "MultiHeadAttention", "x", "slope=0.5");
    b.nodes[0]->domain = (char[]){"com.microsoft"};
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "attribute \"slope\"");
    b = one(13, "2", "Softmax", "x", "axis=1.5");
    REFUSE(&b, HYP_ERR_MALFORMED, "\"axis\"", "another kind");
    b = one(20, "2", "Gelu", "x", "approximate=wild");
    REFUSE(&b, HYP_ERR_MALFORMED, "approximate");
    b = one(13, "2", "Constant", "", "value=0");
    REFUSE(&b, HYP_ERR_MALFORMED, "no tensor");
    b = one(13, "2", "Constant", "", "value_string=a");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "value_string");
    b = one(13, "2", "Cast", "x", "to=8");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "STRING");
}

static void what_only_the_data_tells(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Reshape", "x s", "");
    mb_input(&b, "s", HYP_I64, "2");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "node \"Reshape:y\"", "shape");
    b = one(13, "n m", "Reshape", "x s", "");
    mb_const(&b, "s", HYP_I64, "2", "-1 2");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "--dim");
    b = one(13, "n m", "Reshape", "x s", "");
    mb_const(&b, "s", HYP_I64, "1", "8");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "--dim");
    b = one(13, "1 n", "Squeeze", "x", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "--dim");
    b = one(13, "2", "CumSum", "p k", "reverse=1"); /* along what the data decide, from its end */
    mb_node(&b, "NonZero", "x", "p", "");
    mb_const(&b, "k", HYP_I64, "", "1");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "node \"CumSum:y\"", "'NonZero:p_count'", "only the data tell");
    b = one(13, "2", "Add", "p q", ""); /* two sizes that nothing makes equal */
    mb_node(&b, "NonZero", "x", "p", "");
    mb_node(&b, "Neg", "x", "z", "");
    mb_node(&b, "NonZero", "z", "q", "");
    REFUSE(&b, HYP_ERR_MALFORMED, "node \"Add:y\"", "NonZero:q_count");
    b = one(13, "2", "NonZero", "p", "");
    mb_node(&b, "NonZero", "x", "p", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "node \"NonZero:y\"", "so is that of its input 0");
    b = one(13, "2", "Compress", "x c", "");
    mb_input(&b, "c", HYP_BOOL, "2 1");
    REFUSE(&b, HYP_ERR_MALFORMED, "node \"Compress:y\"", "condition");
    b = one(13, "2", "RandomNormalLike", "x", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "node \"RandomNormalLike:y\"", "its result is random");
    b = one(13, "n 3", "Range", "x x x", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "start", "must be constant");
}

static void tensors_whose_data_does_not_fit(void **state)
{
    (void)state;
    static int64_t nine[9], huge[] = {INT64_MAX, INT64_MAX}, two[] = {1, 2};
    static float three[] = {1, 2, 3};
    static const struct {
        hyp_status status;
        const char *part;
    } wanted[] = {
        {HYP_ERR_MALFORMED, "8 bytes"},   {HYP_ERR_MALFORMED, "dim 0 is -2"}, {HYP_ERR_UNSUPPORTED, "(STRING)"},
        {HYP_ERR_UNSUPPORTED, "rank 9"},  {HYP_ERR_MALFORMED, "any memory"},  {HYP_ERR_MALFORMED, "3 elements"},
        {HYP_ERR_MALFORMED, "meant for"}, {HYP_ERR_MALFORMED, "12 bytes"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        model_builder b = one(13, "2", "Add", "x w", "");
        HypOnnx__TensorProto *w = mb_const(&b, "w", HYP_F32, "2", NULL);
        w->has_raw_data = i < 5;
        switch (i) {
        case 0: w->dims[0] = 3; break;
        case 1: w->dims[0] = -2; break;
        case 2: w->data_type = HYP_ONNX__TENSOR_PROTO__DATA_TYPE__STRING; break;
        case 3: w->dims = nine, w->n_dims = 9; break;
        case 4: w->dims = huge, w->n_dims = 2; break;
        case 5: w->dims[0] = 3, w->data_type = HYP_I64, w->int64_data = two, w->n_int64_data = 2; break;
        case 6: w->int64_data = two, w->n_int64_data = 2; break;
        case 7: w->float_data = three, w->n_float_data = 3; break;
        }
        REFUSE(&b, wanted[i].status, "initializer: tensor \"w\": ", wanted[i].part);
    }
}

static void inputs_that_are_no_plain_tensors(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Relu", "x", "");
    b.inputs[0]->type->tensor_type = NULL;
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "input \"x\" is not a tensor");
    b = one(13, "2", "Relu", "x", "");
    b.inputs[0]->type->tensor_type->elem_type = 19;
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "input \"x\"", "FLOAT8E5M2");
    b = one(13, "1 1 1 1 1 1 1 1 1", "Relu", "x", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "rank 9");
    b = one(13, NULL, "Relu", "x", "");
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "--shapes x:");
}

static void options_that_name_nothing(void **state)
{
    (void)state;
    const char *names[] = {"bacth", "batch"};
    int64_t values[] = {3, 4};
    hyp_onnx_options options = {.dim_names = names, .dim_values = values, .dim_count = 1};
    model_builder b = one(13, "batch seq", "Relu", "x", "");
    refuse(&b, &options, HYP_ERR_INVALID_ARGUMENT,
           (const char *const[]){"\"bacth\"", "there are: batch, seq", "did you mean \"batch\"", NULL});
    hyp_tensor shape = {.name = "z", .rank = 2, .dims = {3, 3}};
    options = (hyp_onnx_options){.shapes = &shape, .shape_count = 1};
    b = one(13, "batch seq", "Relu", "x", "");
    refuse(&b, &options, HYP_ERR_INVALID_ARGUMENT, (const char *const[]){"no input \"z\"", "there are: x", NULL});
    shape.name = "x";
    shape.rank = 1;
    b = one(13, "batch seq", "Relu", "x", "");
    refuse(&b, &options, HYP_ERR_INVALID_ARGUMENT, (const char *const[]){"1 dims", "has 2", NULL});
    shape.rank = 2;
    options.dim_names = names + 1;
    options.dim_values = values + 1;
    options.dim_count = 1;
    b = one(13, "batch seq", "Relu", "x", "");
    refuse(&b, &options, HYP_ERR_INVALID_ARGUMENT,
           (const char *const[]){"\"batch\" is 3 by --shapes, but 4 by --dim", NULL});
    values[1] = -4;
    options.shape_count = 0;
    b = one(13, "batch seq", "Relu", "x", "");
    refuse(&b, &options, HYP_ERR_INVALID_ARGUMENT, (const char *const[]){"-4", NULL});
}

/* A model with external data at `location`, in a folder of its own that also has the file "data". */
static void refuse_external(const char *location, const char *offset, const char *length, const char *part)
{
    char folder[] = "/tmp/hyp-external-XXXXXX", model[64], data[64], link[64];
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/m.onnx", folder);
    snprintf(data, sizeof data, "%s/data", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    FILE *f = fopen(data, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite("12345678", 1, 8, f), 8);
    fclose(f);
    assert_int_equal(symlink("/etc/hostname", link), 0);

    model_builder b = one(13, "2", "Add", "x w", "");
    HypOnnx__TensorProto *w = mb_const(&b, "w", HYP_F32, "2", NULL);
    HypOnnx__StringStringEntryProto entries[3], *list[3];
    const char *const texts[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    for (size_t i = 0; i < 3; i++) {
        hyp_onnx__string_string_entry_proto__init(&entries[i]);
        entries[i].key = (char *)(uintptr_t)texts[i][0];
        entries[i].value = (char *)(uintptr_t)texts[i][1];
        list[i] = &entries[i];
    }
    w->has_raw_data = false;
    w->has_data_location = true;
    w->data_location = HYP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    w->external_data = list;
    w->n_external_data = 3;
    size_t size;
    uint8_t *bytes = mb_pack(&b, &size);
    f = fopen(model, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    mb_dispose(&b);

    imported im = {0};
    assert_int_equal(hyp_dims_create(&im.dims, NULL), HYP_OK);
    hyp_graph_init(&im.graph, im.dims);
    im.status = hyp_onnx_import(model, NULL, &im.graph, &im.model, &im.diag);
    unlink(model);
    unlink(data);
    unlink(link);
    rmdir(folder);
    if (part)
        expect_refused(&im, HYP_ERR_MALFORMED, (const char *const[]){"m.onnx: ", "\"w\"", part, NULL});
    else if (im.status != HYP_OK)
        fail_msg("%s", im.diag.message);
    else
        imported_dispose(&im);
}

static void external_data_outside_the_folder_or_the_file(void **state)
{
    (void)state;
    refuse_external("data", "0", "8", NULL);
    refuse_external("./data", "0", "8", NULL);
    refuse_external("data", "4", "8", "has only 8 bytes");
    refuse_external("data", "0", "4", "4 bytes");
    refuse_external("data", "18446744073709551615", "8", "has only 8 bytes");
    refuse_external("data", "0x4", "8", "not a number");
    refuse_external("absent", "0", "8", "cannot be found");
    refuse_external("/etc/hostname", "0", "8", "relative paths");
    refuse_external("../data", "0", "8", "relative paths");
    refuse_external("sub/../../data", "0", "8", "relative paths");
    refuse_external("link", "0", "8", "outside the model's folder");
    model_builder b = one(13, "2", "Add", "x w", "");
    HypOnnx__TensorProto *w = mb_const(&b, "w", HYP_F32, "2", NULL);
    HypOnnx__StringStringEntryProto entry = HYP_ONNX__STRING_STRING_ENTRY_PROTO__INIT, *list[] = {&entry};
    entry.key = (char[]){"location"};
    entry.value = (char[]){"data"};
    w->has_data_location = true;
    w->data_location = HYP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    w->external_data = list;
    w->n_external_data = 1;
    REFUSE(&b, HYP_ERR_UNSUPPORTED, "\"data\"", "in memory");
}

static void a_missing_file(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_graph g = {0};
    hyp_onnx_model *model = NULL;
    assert_int_equal(hyp_onnx_import("/nowhere/m.onnx", NULL, &g, &model, &diag), HYP_ERR_IO);
    assert_non_null(strstr(diag.message, "/nowhere/m.onnx"));
    assert_null(model);
}

/* Each allocation fails once; nothing may leak or crash, and the import ends with that status. */
static void memory_that_runs_out(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        hyp_dims *dims = NULL;
        hyp_graph g = {0};
        hyp_onnx_model *model = NULL;
        hyp_diag diag = {0};
        assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
        hyp_graph_init(&g, dims);
        hyp_mem_fail_after(n);
        hyp_status status = hyp_onnx_import(HYP_SOURCE_DIR "/tests/models/tiny_mlp.onnx", NULL, &g, &model, &diag);
        hyp_mem_fail_after(0);
        hyp_graph_dispose(&g);
        hyp_onnx_model_destroy(model);
        hyp_dims_destroy(dims);
        if (status == HYP_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, HYP_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_model),
        cmocka_unit_test(texts_that_are_not_utf8),
        cmocka_unit_test(every_unsupported_operator_is_listed),
        cmocka_unit_test(operator_sets_out_of_range),
        cmocka_unit_test(graphs_with_cycles),
        cmocka_unit_test(names_given_twice_or_never),
        cmocka_unit_test(nodes_that_do_not_fit_together),
        cmocka_unit_test(attributes_that_are_wrong),
        cmocka_unit_test(what_only_the_data_tells),
        cmocka_unit_test(tensors_whose_data_does_not_fit),
        cmocka_unit_test(inputs_that_are_no_plain_tensors),
        cmocka_unit_test(options_that_name_nothing),
        cmocka_unit_test(external_data_outside_the_folder_or_the_file),
        cmocka_unit_test(a_missing_file),
        cmocka_unit_test(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

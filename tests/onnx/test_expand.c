/* Functions of the model and branches: what they become, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model_builder.h"

enum { MAX_FUNCTIONS = 32 };

typedef struct functions {
    HypOnnx__FunctionProto items[MAX_FUNCTIONS], *list[MAX_FUNCTIONS];
} functions;

static void *need(void *p)
{
    if (!p) abort();
    return p;
}

static char *copy(model_builder *b, const char *text) { return need(hyp_arena_strdup(&b->arena, text)); }

/* A function "own::name" of the last `count` nodes; inputs and outputs as of mb_node. */
static HypOnnx__FunctionProto *add_function(model_builder *b, functions *fs, const char *name, const char *inputs,
                                            const char *outputs, size_t count)
{
    HypOnnx__NodeProto *interface = mb_node(b, name, inputs, outputs, "");
    (void)mb_take_nodes(b, 1);
    HypOnnx__FunctionProto *f = &fs->items[b->model.n_functions];
    hyp_onnx__function_proto__init(f);
    f->name = interface->op_type;
    f->domain = copy(b, "own");
    f->input = interface->input;
    f->n_input = interface->n_input;
    f->output = interface->output;
    f->n_output = interface->n_output;
    f->node = mb_take_nodes(b, count);
    f->n_node = count;
    fs->list[b->model.n_functions++] = f;
    b->model.functions = fs->list;
    return f;
}

static HypOnnx__NodeProto *call(model_builder *b, const char *name, const char *inputs, const char *outputs,
                                const char *attributes)
{
    HypOnnx__NodeProto *n = mb_node(b, name, inputs, outputs, attributes);
    n->domain = copy(b, "own");
    return n;
}

static void add_branch(model_builder *b, HypOnnx__NodeProto *node, const char *name, const char *output, size_t count)
{
    mb_graph(b, node, name, "", output, count);
}

static void has(const imported *im, const char *part)
{
    if (!strstr(hyp_strbuf_text(&im->text), part)) fail_msg("no \"%s\" in:\n%s", part, hyp_strbuf_text(&im->text));
}

static void expect_refused(model_builder *b, hyp_status want, const char *part)
{
    imported im;
    mb_import(b, NULL, &im);
    if (im.status != want || !strstr(im.diag.message, part))
        fail_msg("%s, wanted %s: no \"%s\" in: %s", hyp_status_name(im.status), hyp_status_name(want), part,
                 im.diag.message);
    imported_dispose(&im);
}

static model_builder start(const char *x_dims)
{
    model_builder b;
    mb_init(&b, 17);
    mb_input(&b, "x", HYP_F32, x_dims);
    return b;
}

/* leaky(x, bias) = LeakyRelu<alpha = its own, by default 0.5>(x), x as it came; opset 11. twice calls it. */
static model_builder calls(functions *fs)
{
    model_builder b = start("2 3 4");
    HypOnnx__NodeProto *relu = mb_node(&b, "LeakyRelu", "a", "t", "alpha=0.25");
    relu->attribute[0]->ref_attr_name = copy(&b, "slope");
    relu->name = copy(&b, "bend");
    mb_node(&b, "Clip", "t bias", "t2", "");
    mb_node(&b, "Softmax", "t2", "r", "");
    HypOnnx__FunctionProto *leaky = add_function(&b, fs, "leaky", "a bias", "r a", 3);
    HypOnnx__NodeProto *defaults = mb_node(&b, "Nothing", "", "n", "slope=0.5");
    (void)mb_take_nodes(&b, 1);
    leaky->attribute_proto = defaults->attribute;
    leaky->n_attribute_proto = 1;
    leaky->opset_import = need(hyp_arena_zalloc(&b.arena, 1, sizeof *leaky->opset_import));
    leaky->opset_import[0] = need(hyp_arena_zalloc(&b.arena, 1, sizeof **leaky->opset_import));
    hyp_onnx__operator_set_id_proto__init(leaky->opset_import[0]);
    leaky->opset_import[0]->has_version = true;
    leaky->opset_import[0]->version = 11;
    leaky->n_opset_import = 1;

    call(&b, "leaky", "p", "t same", "");
    call(&b, "leaky", "t", "q", "slope=0.75");
    mb_node(&b, "Add", "q same", "s", "");
    add_function(&b, fs, "twice", "p", "s", 3);

    call(&b, "twice", "x", "y", "")->name = copy(&b, "first");
    call(&b, "twice", "y", "z", "")->name = copy(&b, "second");
    mb_output(&b, "z");
    return b;
}

static void functions_stand_where_they_are_called(void **state)
{
    (void)state;
    functions fs;
    model_builder b = calls(&fs);
    imported im;
    mb_import(&b, NULL, &im);
    if (im.status != HYP_OK) fail_msg("%s", im.diag.message);
    has(&im, ":alpha 0.5");
    has(&im, ":alpha 0.75");
    has(&im, "flatten"); /* softmax as it was in opset 11 */
    has(&im, "first/leaky:t/bend");
    has(&im, "second/leaky:q/bend");
    imported_dispose(&im);
}

static void functions_that_call_themselves(void **state)
{
    (void)state;
    functions fs;
    model_builder b = start("2");
    call(&b, "g", "a", "r", "");
    add_function(&b, &fs, "f", "a", "r", 1);
    call(&b, "f", "a", "r", "");
    add_function(&b, &fs, "g", "a", "r", 1);
    call(&b, "f", "x", "y", "");
    mb_output(&b, "y");
    expect_refused(&b, HYP_ERR_MALFORMED, "it never ends");
}

static void functions_that_grow_without_bound(void **state)
{
    (void)state;
    functions fs;
    model_builder b = start("2");
    for (int i = 0; i < 28; i++) {
        char name[16], next[16];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(next, sizeof next, "f%d", i + 1);
        call(&b, next, "a", "t", "");
        call(&b, next, "t", "r", "");
        add_function(&b, &fs, name, "a", "r", 2);
    }
    mb_node(&b, "Relu", "a", "r", "");
    add_function(&b, &fs, "f28", "a", "r", 1);
    call(&b, "f0", "x", "y", "");
    mb_output(&b, "y");
    expect_refused(&b, HYP_ERR_LIMIT, "MiB");
}

static void calls_that_do_not_fit(void **state)
{
    (void)state;
    functions fs;
    model_builder b = start("2");
    mb_node(&b, "Relu", "a", "r", "");
    add_function(&b, &fs, "f", "a", "r", 1);
    call(&b, "f", "x x", "y", "");
    mb_output(&b, "y");
    expect_refused(&b, HYP_ERR_MALFORMED, "node \"f:y\"");
}

/* If of the rank of x, in a function, before the node that makes what it reads; an If in its then_branch. */
static model_builder branches(functions *fs)
{
    model_builder b = start("2 3");
    mb_const(&b, "yes", HYP_BOOL, "", "1");
    mb_const(&b, "no", HYP_BOOL, "", "0");
    HypOnnx__NodeProto *outer = mb_node(&b, "If", "c", "r", "");
    HypOnnx__NodeProto *inner = mb_node(&b, "If", "d", "out", "");
    mb_node(&b, "Tanh", "later", "t", "");
    mb_node(&b, "Exp", "t", "out", "");
    add_branch(&b, inner, "else_branch", "out", 2);
    mb_node(&b, "Missing", "later", "out", "");
    add_branch(&b, inner, "then_branch", "out", 1);
    add_branch(&b, outer, "then_branch", "out", 1);
    mb_node(&b, "Sqrt", "a", "out", "");
    add_branch(&b, outer, "else_branch", "out", 1);
    mb_node(&b, "Relu", "a", "later", "");
    add_function(&b, fs, "choose", "a c d", "r", 2);
    call(&b, "choose", "x yes no", "y", "");
    mb_output(&b, "y");
    return b;
}

static void the_branch_of_a_constant_condition_is_taken(void **state)
{
    (void)state;
    functions fs;
    model_builder b = branches(&fs);
    imported im;
    mb_import(&b, NULL, &im);
    if (im.status != HYP_OK) fail_msg("%s", im.diag.message);
    has(&im, "relu");
    has(&im, "tanh");
    has(&im, "exp");
    assert_null(strstr(hyp_strbuf_text(&im.text), "sqrt"));
    imported_dispose(&im);
}

/* In a function a loop that the data end, whose body has a constant and reads the function's input, and a scan of what it has
 * collected; the names of the bodies are those of values outside. */
static model_builder loops(functions *fs)
{
    model_builder b = start("4");
    mb_input(&b, "go", HYP_BOOL, "");
    mb_const(&b, "three", HYP_I64, "", "3");
    HypOnnx__NodeProto *loop = mb_node(&b, "Loop", "n go a", "r rs", "");
    mb_node(&b, "Constant", "", "x", "value_float=0.5");
    mb_node(&b, "Mul", "state x", "next", "");
    mb_node(&b, "ReduceMax", "next", "most", "keepdims=0");
    mb_node(&b, "Greater", "most x", "more", "");
    mb_graph(&b, loop, "body", "i go state", "more next a", 4);
    HypOnnx__NodeProto *scan = mb_node(&b, "Scan", "r fixed", "z zs", "num_scan_inputs=1");
    mb_node(&b, "Add", "state x", "next", "");
    mb_graph(&b, scan, "body", "state x", "next next", 1);
    add_function(&b, fs, "repeat", "a n go fixed", "rs z zs", 2);
    mb_const(&b, "rows", HYP_F32, "2 4", NULL);
    call(&b, "repeat", "x three go rows", "y z zs", "");
    mb_output(&b, "y");
    mb_output(&b, "z");
    mb_output(&b, "zs");
    return b;
}

static void loops_are_written_out(void **state)
{
    (void)state;
    functions fs;
    model_builder b = loops(&fs);
    imported im;
    size_t muls = 0;
    mb_import(&b, NULL, &im);
    if (im.status != HYP_OK) fail_msg("%s", im.diag.message);
    for (size_t i = 0; i < im.graph.nodes.len; i++) muls += im.graph.nodes.data[i].op == HYP_OP_mul;
    assert_int_equal(muls, 3);
    has(&im, "where");
    has(&im, "nonzero");
    assert_int_equal(im.graph.sizes.len, 1); /* how many rows "y" has */
    assert_int_equal(im.graph.hidden_outputs, 1);
    imported_dispose(&im);
}

static void a_condition_from_the_data_is_refused(void **state)
{
    (void)state;
    model_builder b = start("2");
    mb_input(&b, "c", HYP_BOOL, "");
    HypOnnx__NodeProto *node = mb_node(&b, "If", "c", "y", "");
    mb_node(&b, "Relu", "x", "r", "");
    add_branch(&b, node, "then_branch", "r", 1);
    mb_output(&b, "y");
    expect_refused(&b, HYP_ERR_UNSUPPORTED, "node \"If:y\" (If): input 0 (the condition) must be constant");
}

static void a_branch_with_an_unknown_operator_is_refused(void **state)
{
    (void)state;
    model_builder b = start("2");
    mb_const(&b, "c", HYP_BOOL, "", "1");
    HypOnnx__NodeProto *node = mb_node(&b, "If", "c", "y", "");
    mb_node(&b, "Missing", "x", "r", "");
    add_branch(&b, node, "then_branch", "r", 1);
    mb_output(&b, "y");
    expect_refused(&b, HYP_ERR_UNSUPPORTED, "Missing x1 (Missing:r)");
}

static void memory_that_runs_out(void **state)
{
    (void)state;
    model_builder (*const models[])(functions *) = {calls, branches, loops};
    for (size_t model = 0; model < sizeof models / sizeof *models; model++)
        for (uint64_t n = 1;; n++) {
            functions fs;
            imported im;
            model_builder b = models[model](&fs);
            size_t size;
            uint8_t *bytes = mb_pack(&b, &size);
            im = (imported){.status = HYP_OK};
            assert_int_equal(hyp_dims_create(&im.dims, NULL), HYP_OK);
            hyp_graph_init(&im.graph, im.dims);
            hyp_mem_fail_after(n);
            im.status = hyp_onnx_import_memory(bytes, size, "test.onnx", NULL, NULL, &im.graph, &im.model, &im.diag);
            hyp_mem_fail_after(0);
            hyp_status status = im.status;
            imported_dispose(&im);
            mb_dispose(&b);
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
        cmocka_unit_test(functions_stand_where_they_are_called),
        cmocka_unit_test(functions_that_call_themselves),
        cmocka_unit_test(functions_that_grow_without_bound),
        cmocka_unit_test(calls_that_do_not_fit),
        cmocka_unit_test(the_branch_of_a_constant_condition_is_taken),
        cmocka_unit_test(loops_are_written_out),
        cmocka_unit_test(a_condition_from_the_data_is_refused),
        cmocka_unit_test(a_branch_with_an_unknown_operator_is_refused),
        cmocka_unit_test(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

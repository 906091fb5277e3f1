/* Custom operators from the model to their kernels: what the compiler keeps of them, and what the runtime makes of
 * kernels that are given, missing or wrong. Expected numbers are written out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../onnx/model_builder.h"
#include "hypatia/compiler.h"
#include "hypatia/runtime.h"

static const char *const acme[] = {"acme"};

static hyp_compile_options with_domain(void)
{
    return (hyp_compile_options){.size = sizeof(hyp_compile_options), .custom_domains = acme, .custom_domain_count = 1};
}

static HypOnnx__NodeProto *custom_node(model_builder *b, const char *op, const char *inputs, const char *outputs,
                                       const char *attributes)
{
    HypOnnx__NodeProto *n = mb_node(b, op, inputs, outputs, attributes);
    n->domain = (char *)(uintptr_t) "acme";
    return n;
}

static void declare(model_builder *b, const char *name, hyp_dtype dtype, const char *dims)
{
    HypOnnx__ValueInfoProto **list = hyp_arena_zalloc(&b->arena, b->graph.n_value_info + 1, sizeof *list);
    for (size_t i = 0; i < b->graph.n_value_info; i++) list[i] = b->graph.value_info[i];
    list[b->graph.n_value_info++] = mb_value_info(b, name, dtype, dims);
    b->graph.value_info = list;
}

/* A compiled plan, or why there is none. */
typedef struct compiled {
    void *plan;
    size_t size;
    hyp_status status;
    hyp_diag diag;
    char steps[4096], verified[512];
} compiled;

static compiled compile(model_builder *b, const hyp_compile_options *o)
{
    compiled c = {0};
    size_t size;
    hyp_compile_report *report = NULL;
    uint8_t *bytes = mb_pack(b, &size);
    c.status = hyp_compile_memory(bytes, size, o, &c.plan, &c.size, &report, &c.diag);
    if (report) snprintf(c.steps, sizeof c.steps, "%s", report->steps);
    if (report) snprintf(c.verified, sizeof c.verified, "%s", report->verified);
    hyp_compile_report_destroy(report);
    mb_dispose(b);
    return c;
}

static compiled must_compile(model_builder *b, const hyp_compile_options *o)
{
    compiled c = compile(b, o);
    if (c.status != HYP_OK) fail_msg("%s", c.diag.message);
    return c;
}

static hyp_status load(const compiled *c, hyp_device_kind device, const hyp_custom_kernel *const *kernels, size_t count,
                       hyp_engine **out, hyp_diag *diag)
{
    const hyp_engine_options o = {
        .size = sizeof o, .device = device, .custom_kernels = kernels, .custom_kernel_count = count};
    return hyp_engine_load_memory(c->plan, c->size, &o, out, diag);
}

/* Runs the plan of one input and one output of f32. */
static hyp_status run_once(hyp_engine *e, const float *in, int32_t rank, const int64_t *dims, float *out, size_t room,
                           hyp_tensor *y, hyp_diag *diag)
{
    hyp_context *context;
    hyp_tensor x = {.data = (void *)(uintptr_t)in, .bytes = 4, .dtype = HYP_F32, .rank = rank};
    for (int32_t a = 0; a < rank; a++) x.bytes *= (size_t)(x.dims[a] = dims[a]);
    *y = (hyp_tensor){.data = out, .bytes = room * sizeof *out, .dtype = HYP_F32};
    hyp_status status = hyp_context_create(e, NULL, &context, diag);
    if (status != HYP_OK) return status;
    for (int i = 0; i < 2 && status == HYP_OK; i++) status = hyp_context_run(context, &x, 1, y, 1, diag);
    hyp_context_destroy(context);
    return status;
}

static const hyp_device_kind devices[] = {HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};

/* ---- what reaches a kernel ------------------------------------------------------------------------------------ */

/* y = x + 1, after it has looked at all that it is given. */
static hyp_status look(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)diag;
    ++*(int *)user;
    assert_string_equal(call->domain, "acme");
    assert_string_equal(call->name, "Look");
    assert_string_equal(call->node, "the node");
    assert_null(call->stream);
    assert_int_equal(call->input_count, 3);
    assert_int_equal(call->inputs[1].dtype, HYP_DTYPE_NONE);
    assert_null(call->inputs[1].data);
    assert_int_equal(call->inputs[2].dtype, HYP_I64);
    assert_int_equal(((const int64_t *)call->inputs[2].data)[1], -7);
    assert_int_equal(call->attribute_count, 6);
    const hyp_custom_attribute *const *a = call->attributes;
    assert_string_equal(a[0]->name, "axis");
    assert_true(a[0]->kind == HYP_CUSTOM_INTS && !a[0]->list && a[0]->count == 1);
    assert_true(a[0]->ints[0] == INT64_MIN);
    assert_true(a[1]->kind == HYP_CUSTOM_FLOATS && a[1]->floats[0] == 0.1f);
    assert_true(a[2]->kind == HYP_CUSTOM_INTS && a[2]->list && a[2]->count == 2 && a[2]->ints[1] == -1);
    assert_true(a[3]->kind == HYP_CUSTOM_STRINGS && a[3]->string_bytes[0] == 9);
    assert_memory_equal(a[3]->strings[0], "a, (b)=%\0", 10);
    assert_true(a[4]->list && a[4]->count == 0);
    assert_true(a[5]->kind == HYP_CUSTOM_STRINGS && a[5]->list && a[5]->count == 2 && a[5]->string_bytes[0] == 0);
    assert_string_equal(a[5]->strings[1], "\xc3\xa9");
    const hyp_tensor *x = call->inputs, *y = call->outputs;
    assert_true(x->dtype == HYP_F32 && x->memory == HYP_MEMORY_HOST && x->rank == 2 && x->dims[1] == 3);
    assert_int_equal(x->bytes, (size_t)x->dims[0] * 12);
    assert_true(y->rank == 2 && y->dims[0] == x->dims[0] && y->bytes == x->bytes);
    memset(call->workspace, 0x55, call->workspace_bytes);
    assert_int_equal(call->workspace_bytes >= 1000, true);
    assert_int_equal((uintptr_t)call->workspace % 64, 0);
    for (size_t i = 0; i < x->bytes / 4; i++) ((float *)y->data)[i] = ((const float *)x->data)[i] + 1;
    return HYP_OK;
}

static hyp_status want_workspace(hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    assert_null(call->inputs->data);
    call->workspace_bytes = 1000;
    return HYP_OK;
}

static void attribute_bytes(model_builder *b, HypOnnx__AttributeProto *a, const char *bytes, size_t len)
{
    a->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    a->has_type = a->has_s = true;
    a->s.data = (uint8_t *)hyp_arena_strndup(&b->arena, bytes, len);
    a->s.len = len;
}

static model_builder look_model(void)
{
    static ProtobufCBinaryData strings[] = {{0, NULL}, {2, (uint8_t *)"\xc3\xa9"}};
    model_builder b;
    mb_init(&b, 13);
    mb_input(&b, "x", HYP_F32, "n 3");
    mb_const(&b, "k", HYP_I64, "2", "5 -7");
    mb_node(&b, "Relu", "x", "h", "");
    HypOnnx__NodeProto *n =
        custom_node(&b, "Look", "h - k", "s", "axis=3 alpha=0.1 list=[4,-1] text=t none=[1] texts=[1]");
    n->name = hyp_arena_strdup(&b.arena, "the node");
    n->attribute[0]->i = INT64_MIN;
    attribute_bytes(&b, n->attribute[3], "a, (b)=%\0", 9);
    n->attribute[4]->n_ints = 0;
    n->attribute[5]->n_ints = 0;
    n->attribute[5]->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    n->attribute[5]->n_strings = 2;
    n->attribute[5]->strings = strings;
    mb_node(&b, "Neg", "s", "y", "");
    declare(&b, "s", HYP_F32, "n 3");
    mb_output(&b, "y");
    return b;
}

static void kernels_get_what_the_model_says(void **state)
{
    (void)state;
    int calls = 0;
    const hyp_custom_kernel other = {.size = sizeof other, .domain = "acme", .name = "Other", .run = look};
    const hyp_custom_kernel kernel = {
        .size = sizeof kernel, .domain = "acme", .name = "Look", .shape = want_workspace, .run = look, .user = &calls};
    const hyp_custom_kernel *const kernels[] = {&other, &kernel};
    static const char *const precisions[] = {"fp32", "bf16"}; /* whose kernel still reads and writes f32 */
    for (size_t p = 0; p < 2; p++) {
        model_builder b = look_model();
        hyp_compile_options o = with_domain();
        o.precision = precisions[p];
        compiled c = must_compile(&b, &o);
        assert_non_null(strstr(c.steps, "acme::Look"));
        for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
            hyp_engine *e;
            hyp_diag diag = {0};
            hyp_tensor y;
            float in[] = {1, -2, 3, 4, 5, -6}, out[6];
            calls = 0;
            if (load(&c, devices[d], kernels, 2, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
            if (run_once(e, in, 2, (int64_t[]){2, 3}, out, 6, &y, &diag) != HYP_OK) fail_msg("%s", diag.message);
            const float wanted[] = {-2, -1, -4, -5, -6, -1};
            assert_memory_equal(out, wanted, sizeof out);
            assert_int_equal(calls, 2);
            hyp_engine_destroy(e);
        }
        free(c.plan);
    }
}

/* ---- what rewriting leaves alone -------------------------------------------------------------------------------- */

static hyp_status count_up(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)diag;
    ++*(int *)user;
    for (size_t o = 0; o < call->output_count; o++)
        for (size_t i = 0; i < call->outputs[o].bytes / 4; i++) ((float *)call->outputs[o].data)[i] = (float)(o + 2);
    return HYP_OK;
}

/* Inputs that are constants do not make it known before the run; equal calls are one. */
static void nobody_computes_one_before_the_run(void **state)
{
    (void)state;
    int calls = 0;
    model_builder b;
    mb_init(&b, 13);
    mb_input(&b, "x", HYP_F32, "n");
    mb_const(&b, "k", HYP_F32, "1", "3");
    custom_node(&b, "Count", "k", "p q", "");
    custom_node(&b, "Count", "x", "r", "a=1");
    custom_node(&b, "Count", "x", "r2", "a=1");
    custom_node(&b, "Count", "x", "r3", "a=2");
    mb_node(&b, "Add", "p q", "pq", "");
    mb_node(&b, "Sum", "pq r r2 r3", "pqr", "");
    mb_node(&b, "Mul", "x pqr", "y", "");
    declare(&b, "p", HYP_F32, "1");
    declare(&b, "q", HYP_F32, "1");
    declare(&b, "r", HYP_F32, "1");
    declare(&b, "r2", HYP_F32, "1");
    declare(&b, "r3", HYP_F32, "1");
    mb_output(&b, "y");
    hyp_compile_options o = with_domain();
    compiled c = must_compile(&b, &o);
    const hyp_custom_kernel kernel = {
        .size = sizeof kernel, .domain = "acme", .name = "Count", .run = count_up, .user = &calls};
    const hyp_custom_kernel *const kernels[] = {&kernel};
    hyp_engine *e;
    hyp_diag diag = {0};
    hyp_tensor y;
    float in[] = {1, 10}, out[2];
    if (load(&c, HYP_DEVICE_CPU, kernels, 1, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
    if (run_once(e, in, 1, (int64_t[]){2}, out, 2, &y, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_true(out[0] == 11 && out[1] == 110); /* 2 + 3 + 2 + 2 + 2 */
    assert_int_equal(calls, 6);                 /* of two runs */
    hyp_engine_destroy(e);
    free(c.plan);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* Gives each row as often as `times` says, which the plan does not know. */
static hyp_status repeat_shape(hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)diag;
    const int64_t *answer = user;
    assert_int_equal(call->outputs->rank, 2);
    if (answer[0] != 1000) assert_int_equal(call->outputs->dims[1], call->inputs->dims[1]);
    call->outputs->dims[0] = answer[0] < 0 ? answer[0] : answer[0] * call->inputs->dims[0];
    if (answer[1]) call->outputs->dims[1] = answer[1];
    if (answer[2]) call->outputs->rank = (int32_t)answer[2];
    return HYP_OK;
}

static hyp_status repeat(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)diag, (void)user;
    const hyp_tensor *x = call->inputs, *y = call->outputs;
    for (size_t at = 0; at < y->bytes; at += x->bytes) memcpy((char *)y->data + at, x->data, x->bytes);
    return HYP_OK;
}

static compiled repeat_plan(const char *declared)
{
    model_builder b;
    mb_init(&b, 13);
    mb_input(&b, "x", HYP_F32, "n 2");
    custom_node(&b, "Repeat", "x", "s", "");
    custom_node(&b, "Repeat", "s", "t", "");
    mb_node(&b, "Neg", "t", "y", "");
    declare(&b, "s", HYP_F32, declared);
    declare(&b, "t", HYP_F32, "? 2");
    mb_output(&b, "y");
    hyp_compile_options o = with_domain();
    return must_compile(&b, &o);
}

static void a_kernel_tells_sizes_that_the_plan_does_not_know(void **state)
{
    (void)state;
    int64_t answer[3] = {2};
    const hyp_custom_kernel kernel = {.size = sizeof kernel,
                                      .domain = "acme",
                                      .name = "Repeat",
                                      .shape = repeat_shape,
                                      .run = repeat,
                                      .user = answer};
    const hyp_custom_kernel *const kernels[] = {&kernel};
    compiled c = repeat_plan("more 2");
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        hyp_engine *e;
        hyp_diag diag = {0};
        hyp_tensor y;
        float in[] = {1, 2, 3, 4}, out[32];
        if (load(&c, devices[d], kernels, 1, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
        assert_int_equal(hyp_engine_output(e, 0)->dims[0], -1);
        for (int64_t times = 0; times < 3; times++) {
            answer[0] = times;
            if (run_once(e, in, 2, (int64_t[]){2, 2}, out, 32, &y, &diag) != HYP_OK) fail_msg("%s", diag.message);
            assert_true(y.rank == 2 && y.dims[0] == 2 * times * times && y.dims[1] == 2);
            for (int64_t i = 0; i < y.dims[0] * 2; i++) assert_true(out[i] == -in[i % 4]);
        }
        /* What is wrong with the answers of a kernel is said, and the context is as it was. */
        const struct {
            int64_t answer[3];
            const char *says;
        } wrong[] = {{{-1}, "does not tell axis 0 of output 0"},
                     {{1, 3}, "axis 1 of output 0 is 3, the plan that it is 2"},
                     {{1, 0, 1}, "1 axes, the plan 2"}};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            memcpy(answer, wrong[i].answer, sizeof answer);
            assert_int_equal(run_once(e, in, 2, (int64_t[]){2, 2}, out, 32, &y, &diag), HYP_ERR_INVALID_ARGUMENT);
            if (!strstr(diag.message, wrong[i].says) || !strstr(diag.message, "acme::Repeat"))
                fail_msg("%s", diag.message);
        }
        memset(answer, 0, sizeof answer);
        answer[0] = 1;
        hyp_engine_destroy(e);
    }
    free(c.plan);
    /* Without a shape function nobody tells. */
    const hyp_custom_kernel mute = {.size = sizeof mute, .domain = "acme", .name = "Repeat", .run = repeat};
    const hyp_custom_kernel *const mutes[] = {&mute};
    hyp_engine *e;
    hyp_diag diag = {0};
    hyp_tensor y;
    float in[2] = {0}, out[2];
    c = repeat_plan("n 2");
    if (load(&c, HYP_DEVICE_CPU, mutes, 1, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(run_once(e, in, 2, (int64_t[]){1, 2}, out, 2, &y, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "does not tell axis 0"));
    hyp_engine_destroy(e);
    free(c.plan);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static hyp_status refuses(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)call;
    if (user) snprintf(diag->message, sizeof diag->message, "the moon is full");
    return HYP_ERR_DEVICE;
}

static void loading_names_what_is_missing(void **state)
{
    (void)state;
    compiled c = repeat_plan("n 2");
    hyp_engine *e = NULL;
    hyp_diag diag = {0};
    assert_int_equal(load(&c, HYP_DEVICE_AUTO, NULL, 0, &e, &diag), HYP_ERR_UNSUPPORTED);
    if (!strstr(diag.message, "acme::Repeat") || !strstr(diag.message, "custom_kernels")) fail_msg("%s", diag.message);
    hyp_custom_kernel kernel = {.size = sizeof kernel, .domain = "acme", .name = "Repeated", .run = refuses};
    const hyp_custom_kernel *const kernels[] = {&kernel};
    assert_int_equal(load(&c, HYP_DEVICE_CPU, kernels, 1, &e, &diag), HYP_ERR_UNSUPPORTED);
    assert_int_equal(load(&c, HYP_DEVICE_CPU, NULL, 1, &e, &diag), HYP_ERR_INVALID_ARGUMENT);
    kernel.name = "Repeat";
    kernel.run = NULL;
    kernel.run_cuda = refuses;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        assert_int_equal(load(&c, devices[d], kernels, 1, &e, &diag), HYP_ERR_UNSUPPORTED);
        if (!strstr(diag.message, "acme::Repeat has no run")) fail_msg("%s", diag.message);
    }
    kernel.size = 3;
    assert_int_equal(load(&c, HYP_DEVICE_CPU, kernels, 1, &e, &diag), HYP_ERR_INVALID_ARGUMENT);
    free(c.plan);
}

static void a_kernel_that_fails_ends_the_run(void **state)
{
    (void)state;
    compiled c = repeat_plan("n 2");
    for (int told = 0; told < 2; told++) {
        int64_t answer[3] = {1};
        hyp_custom_kernel kernel = {.size = sizeof kernel,
                                    .domain = "acme",
                                    .name = "Repeat",
                                    .shape = repeat_shape,
                                    .run = refuses,
                                    .user = answer};
        const hyp_custom_kernel *const kernels[] = {&kernel};
        hyp_engine *e;
        hyp_diag diag = {0};
        hyp_tensor y;
        float in[2] = {0}, out[2];
        if (load(&c, HYP_DEVICE_CPU, kernels, 1, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
        assert_int_equal(run_once(e, in, 2, (int64_t[]){1, 2}, out, 2, &y, &diag), HYP_ERR_DEVICE);
        if (!strstr(diag.message, "acme::Repeat: the moon is full") || !strstr(diag.message, "step 0"))
            fail_msg("%s", diag.message);
        hyp_engine_destroy(e);
    }
    free(c.plan);
}

static model_builder undeclared_model(void)
{
    model_builder b;
    mb_init(&b, 13);
    mb_input(&b, "x", HYP_F32, "n 2");
    custom_node(&b, "Repeat", "x", "s", "");
    mb_node(&b, "Neg", "s", "y", "");
    mb_output(&b, "y");
    return b;
}

static void the_compiler_says_what_it_wants(void **state)
{
    (void)state;
    const struct {
        const char *domain, *output, *verify, *says;
        hyp_status status;
    } cases[] = {
        {NULL, NULL, NULL, "--custom-domain acme", HYP_ERR_UNSUPPORTED},
        {"ai.onnx", NULL, NULL, "acme::Repeat", HYP_ERR_UNSUPPORTED},
        {"acme", NULL, NULL, "--custom-output s:f32:", HYP_ERR_UNSUPPORTED},
        {"acme", NULL, NULL, "value_info", HYP_ERR_UNSUPPORTED},
        {"acme", "s:f33:nx2", NULL, "'f33' is no element type", HYP_ERR_MALFORMED},
        {"acme", "s:f32:nx-2", NULL, "'-2' is no size", HYP_ERR_MALFORMED},
        {"acme", "s:f32:nxx2", NULL, "'' is no size", HYP_ERR_MALFORMED},
        {"acme", "s:f32:nx2", "strict", "acme::Repeat is computed by a kernel", HYP_ERR_UNSUPPORTED},
        {"acme", "s:f32:nx2", NULL, NULL, HYP_OK},
        {"acme", "s:f32:", NULL, NULL, HYP_OK},
        {"acme", "s:i64", NULL, NULL, HYP_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_builder b = undeclared_model();
        hyp_compile_options o = with_domain();
        o.custom_domains = &cases[i].domain;
        o.custom_domain_count = cases[i].domain != NULL;
        o.custom_outputs = &cases[i].output;
        o.custom_output_count = cases[i].output != NULL;
        o.verify = cases[i].verify;
        compiled c = compile(&b, &o);
        if (c.status != cases[i].status || (cases[i].says && !strstr(c.diag.message, cases[i].says)))
            fail_msg("case %zu: %d %s", i, (int)c.status, c.diag.message);
        if (c.status == HYP_OK) assert_non_null(strstr(c.verified, "not verified: the custom operator acme::Repeat"));
        free(c.plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_get_what_the_model_says),
        cmocka_unit_test(nobody_computes_one_before_the_run),
        cmocka_unit_test(a_kernel_tells_sizes_that_the_plan_does_not_know),
        cmocka_unit_test(loading_names_what_is_missing),
        cmocka_unit_test(a_kernel_that_fails_ends_the_run),
        cmocka_unit_test(the_compiler_says_what_it_wants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

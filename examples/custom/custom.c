/* Runs a plan with an operator of one's own: hypatiac custom.onnx --custom-domain acme -o custom.bin, custom
 * custom.bin. The model says what SoftThreshold gives, the program how. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hypatia/runtime.h"

/* The number that the attribute of this name has. */
static float attribute(const hyp_custom_call *call, const char *name, float missing)
{
    for (size_t i = 0; i < call->attribute_count; i++) {
        const hyp_custom_attribute *a = call->attributes[i];
        if (strcmp(a->name, name) == 0 && a->kind == HYP_CUSTOM_FLOATS && !a->list) return a->floats[0];
    }
    return missing;
}

/* Dims are the plan's; what is left to check is what the plan cannot know of the operator. */
static hyp_status check(hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)user;
    const hyp_tensor *x = call->inputs, *y = call->outputs;
    if (call->input_count == 1 && call->output_count == 1 && x->dtype == HYP_F32 && y->dtype == HYP_F32 &&
        x->rank == y->rank && memcmp(x->dims, y->dims, sizeof x->dims) == 0)
        return HYP_OK;
    snprintf(diag->message, sizeof diag->message, "takes one tensor of f32 and gives one like it");
    return HYP_ERR_INVALID_ARGUMENT;
}

static hyp_status soft_threshold(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    const float *x = call->inputs->data, threshold = attribute(call, "threshold", 0);
    float *y = call->outputs->data;
    for (size_t i = 0; i < call->outputs->bytes / sizeof *y; i++)
        y[i] = fabsf(x[i]) <= threshold ? 0 : x[i] - copysignf(threshold, x[i]);
    return HYP_OK;
}

int main(int argc, char **argv)
{
    const hyp_custom_kernel kernel = {
        .size = sizeof kernel, .domain = "acme", .name = "SoftThreshold", .shape = check, .run = soft_threshold};
    const hyp_custom_kernel *const kernels[] = {&kernel};
    const hyp_engine_options options = {
        .size = sizeof options, .device = HYP_DEVICE_CPU, .custom_kernels = kernels, .custom_kernel_count = 1};
    hyp_diag diag = {0};
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    float in[] = {1, 2, -3, 0.5f}, out[6] = {0};
    hyp_tensor x = {.name = "x", .data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {2, 2}};
    hyp_tensor y = {.name = "y", .data = out, .bytes = sizeof out, .dtype = HYP_F32};
    if (argc != 2) {
        fprintf(stderr, "usage: custom PLAN.bin\n");
        return 2;
    }
    hyp_status status = hyp_engine_load_file(argv[1], &options, &engine, &diag);
    if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, &diag);
    if (status == HYP_OK) status = hyp_context_run(context, &x, 1, &y, 1, &diag);
    if (status == HYP_OK)
        for (int i = 0; i < 6; i++) printf("%g%c", (double)out[i], i % 3 < 2 ? ' ' : '\n');
    else
        fprintf(stderr, "custom: %s\n", diag.message);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return status != HYP_OK;
}

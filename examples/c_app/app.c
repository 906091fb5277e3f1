/* The least program that runs a plan: prints the inputs and outputs, then runs on zeros, every symbolic dim 1. */
#include <stdio.h>
#include <stdlib.h>

#include <hypatia/runtime.h>

enum { MOST = 16 };

static int64_t element_count(const hyp_tensor *t)
{
    int64_t count = 1;
    for (int32_t a = 0; a < t->rank; a++) count *= t->dims[a];
    return count;
}

/* Zeroed memory for a tensor whose type and dims are set. */
static int give_memory(hyp_tensor *t)
{
    t->bytes = (size_t)element_count(t) * hyp_dtype_size(t->dtype);
    t->data = calloc(t->bytes ? t->bytes : 1, 1);
    return t->data != NULL;
}

int main(int argc, char **argv)
{
    hyp_diag diag = {0};
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    hyp_tensor inputs[MOST] = {0}, outputs[MOST] = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: app PLAN.bin (libhypatia-rt %s)\n", hyp_version());
        return 2;
    }
    if (hyp_engine_load_file(argv[1], NULL, &engine, &diag) != HYP_OK ||
        hyp_context_create(engine, NULL, &context, &diag) != HYP_OK)
        goto failed;

    size_t input_count = hyp_engine_input_count(engine), output_count = hyp_engine_output_count(engine);
    if (input_count > MOST || output_count > MOST) return 1;
    for (size_t i = 0; i < input_count; i++) {
        const hyp_io_info *info = hyp_engine_input(engine, i);
        inputs[i] = (hyp_tensor){.name = info->name, .dtype = info->dtype, .rank = info->rank};
        for (int32_t a = 0; a < info->rank; a++) inputs[i].dims[a] = info->dims[a] < 0 ? 1 : info->dims[a];
        if (!give_memory(&inputs[i])) return 1;
    }
    if (hyp_context_output_shapes(context, inputs, input_count, outputs, output_count, &diag) != HYP_OK) goto failed;
    for (size_t i = 0; i < output_count; i++) {
        outputs[i].dtype = hyp_engine_output(engine, i)->dtype;
        if (!give_memory(&outputs[i])) return 1;
    }
    if (hyp_context_run(context, inputs, input_count, outputs, output_count, &diag) != HYP_OK) goto failed;

    for (size_t i = 0; i < output_count; i++)
        printf("%s: %lld elements of %s\n", hyp_engine_output(engine, i)->name, (long long)element_count(&outputs[i]),
               hyp_dtype_name(outputs[i].dtype));
    for (size_t i = 0; i < MOST; i++) {
        free(inputs[i].data);
        free(outputs[i].data);
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return 0;

failed:
    fprintf(stderr, "app: %s\n", diag.message);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return 1;
}

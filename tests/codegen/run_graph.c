#include "run_graph.h"

#include <math.h>

hyp_status write_plan(const hyp_graph *g, const char *path, hyp_diag *diag)
{
    hyp_codegen_options options = {
        .target = hyp_target_find("cpu"), .producer = "test", .model_name = g->name, .model_hash = 1};
    hyp_lowered lowered;
    HYP_TRY(hyp_codegen_lower(g, &options, &lowered, diag));
    hyp_status status = hyp_codegen_add_updates(&lowered, &options, diag);
    if (status == HYP_OK) status = hyp_codegen_write(&lowered, path, NULL, NULL, NULL, diag);
    hyp_lowered_dispose(&lowered);
    return status;
}

hyp_status run_plan(const char *path, hyp_device_kind device, const hyp_tensor *inputs, size_t input_count,
                    const hyp_eval_tensor *like, hyp_tensor *outputs, size_t output_count, hyp_diag *diag)
{
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    HYP_TRY(hyp_engine_load_file(path, &options, &engine, diag));
    hyp_status status = hyp_context_create(engine, NULL, &context, diag);
    for (size_t i = 0; i < output_count && status == HYP_OK; i++) {
        size_t bytes = like[i].count * hyp_dtype_size(like[i].dtype);
        outputs[i] = (hyp_tensor){.data = hyp_malloc(bytes), .bytes = bytes, .dtype = like[i].dtype};
        if (!outputs[i].data) status = hyp_fail_memory(diag, bytes);
    }
    if (status == HYP_OK) status = hyp_context_run(context, inputs, input_count, outputs, output_count, diag);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return status;
}

static hyp_status interpret(const hyp_graph *g, hyp_eval_mode mode, const hyp_tensor *inputs, hyp_eval_tensor *results,
                            hyp_eval_tensor *tolerances, hyp_diag *diag)
{
    const hyp_expect_options options = {.any_nan = true, .any_inf = true};
    size_t count = g->inputs.len;
    hyp_eval_tensor *loaded = hyp_calloc(count, sizeof *loaded);
    if (!loaded) return hyp_fail_memory(diag, count * sizeof *loaded);
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < count && status == HYP_OK; i++) status = hyp_eval_tensor_load(&loaded[i], &inputs[i], diag);
    if (status == HYP_OK && tolerances)
        status = hyp_graph_expect(g, loaded, count, &options, results, tolerances, diag);
    else if (status == HYP_OK)
        status = hyp_graph_eval(g, mode, loaded, count, results, diag);
    for (size_t i = 0; i < count; i++) hyp_eval_tensor_dispose(&loaded[i]);
    hyp_free(loaded);
    return status;
}

hyp_status run_interpreter(const hyp_graph *g, hyp_eval_mode mode, const hyp_tensor *inputs, hyp_eval_tensor *results,
                           hyp_diag *diag)
{
    return interpret(g, mode, inputs, results, NULL, diag);
}

hyp_status run_expecting(const hyp_graph *g, const hyp_tensor *inputs, hyp_eval_tensor *results,
                         hyp_eval_tensor *tolerances, hyp_diag *diag)
{
    return interpret(g, HYP_EVAL_NATIVE, inputs, results, tolerances, diag);
}

bool results_expected(const hyp_tensor *got, const hyp_eval_tensor *want, const hyp_eval_tensor *tolerance,
                      hyp_diag *diag)
{
    const uint64_t least = 1; /* the smallest number of the type, of which sums near it may be some off */
    double unit = got->dtype == HYP_F16 ? 0x1p-10 : got->dtype == HYP_BF16 ? 0x1p-7 : 0; /* neighbours, relative */
    double slack = want->f ? 64 * hyp_load_f64(got->dtype, &least, 0) : 0;
    for (size_t i = 0; i < want->count; i++) {
        double g = hyp_load_f64(got->dtype, got->data, i), w = want->f ? want->f[i] : (double)want->i[i];
        double most = tolerance->f[i] + slack + (tolerance->f[i] > 0 ? unit * fabs(w) : 0);
        if (isinf(tolerance->f[i]) || (isnan(g) && isnan(w)) || g == w || fabs(g - w) <= most) continue;
        hyp_fail(diag, HYP_ERR_MISMATCH, "element %zu is %.9g, wanted %.9g within %.3g", i, g, w, tolerance->f[i]);
        return false;
    }
    return true;
}

static bool elements_agree(double got, double want, double tolerance, bool nan_is_free)
{
    if (isnan(want) && nan_is_free) return true;
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want)) return got == want;
    return fabs(got - want) <= tolerance * (1 + fabs(want));
}

bool results_agree(const hyp_tensor *got, const hyp_eval_tensor *want, double tolerance, bool nan_is_free,
                   hyp_diag *diag)
{
    bool same = got->rank == want->rank;
    for (int32_t i = 0; i < want->rank; i++) same = same && got->dims[i] == want->dims[i];
    if (!same) {
        hyp_fail(diag, HYP_ERR_MISMATCH, "rank %d and first dim %lld, wanted %d and %lld", got->rank,
                 (long long)got->dims[0], want->rank, (long long)want->dims[0]);
        return false;
    }
    for (size_t i = 0; i < want->count && same; i++) {
        double g = hyp_load_f64(got->dtype, got->data, i), w = want->f ? want->f[i] : (double)want->i[i];
        same = want->f ? elements_agree(g, w, tolerance, nan_is_free)
                       : hyp_load_i64(got->dtype, got->data, i) == want->i[i];
        if (!same) hyp_fail(diag, HYP_ERR_MISMATCH, "element %zu is %.9g, wanted %.9g", i, g, w);
    }
    return same;
}

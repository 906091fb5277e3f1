/* Runs a plan for the compiler, which verifies it before it gets its name. */
#include "check.h"

#include "hypatia/onnx.h"

static hyp_status run_on(const char *path, hyp_device_kind device, int32_t threads, const hyp_plan_run *runs,
                         size_t count, hyp_diag *diag)
{
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = threads};
    return hyp_onnx_run_plan(path, runs, count, &options, diag);
}

hyp_status check_run_plan(const char *path, const hyp_plan_run *runs, size_t count, void *threads, hyp_diag *diag)
{
    int32_t n = threads ? *(const int32_t *)threads : 0;
    hyp_status status = run_on(path, HYP_DEVICE_CPU, n, runs, count, diag);
    if (status == HYP_ERR_DEVICE || status == HYP_ERR_UNSUPPORTED)
        status = run_on(path, HYP_DEVICE_REFERENCE, n, runs, count, diag);
    return status;
}

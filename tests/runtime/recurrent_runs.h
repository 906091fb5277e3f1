/* recurrent_runs.h - what tests of recurrences and of their gradients share: a plan of one step runs on the reference
 * backend, and on the CPU with every instruction set, on one thread and on three. */
#ifndef HYP_TESTS_RUNTIME_RECURRENT_RUNS_H
#define HYP_TESTS_RUNTIME_RECURRENT_RUNS_H

#include <math.h>
#include <stdio.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

/* Runs the plan in a file twice. On a CPU no plain loops are to do it. */
static inline hyp_status run_plan(const char *path, hyp_device_kind device, const char *level, int threads,
                                  const hyp_tensor *in, size_t inputs, hyp_tensor *out, size_t outputs, hyp_diag *why)
{
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = threads, .cpu_level = level};
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    for (size_t i = 0; i < outputs; i++) memset(out[i].data, 0x55, out[i].bytes);
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    hyp_status status = HYP_OK;
    for (int again = 0; again < 2 && status == HYP_OK; again++)
        status = hyp_context_run(context, in, inputs, out, outputs, why);
    if (status == HYP_OK && device == HYP_DEVICE_CPU) {
        hyp_choice_info c = hyp_context_choice(context, 0, 0);
        assert_string_equal(hyp_context_alternative(context, 0, 0, c.taken).name, "own");
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return status;
}

/* Elements of an output, `got` on a CPU, as those of the reference backend; `what` says of which step and output. */
static inline void compare_output(hyp_dtype dtype, const void *got, const void *want, size_t count, const char *what)
{
    const double tolerance = dtype == HYP_F32 ? 2e-5 : dtype == HYP_F16 ? 0x1p-9 : 0x1p-6;
    for (size_t i = 0; i < count; i++) {
        double w = hyp_load_f64(dtype, want, i), g = hyp_load_f64(dtype, got, i);
        if (!(fabs(w - g) <= tolerance * fmax(1, fabs(w)))) fail_msg("%s: element %zu is %g, not %g", what, i, g, w);
    }
}

/* Calls on_cpu(step, path, level, threads) for every instruction set and both numbers of threads. */
static inline void on_every_cpu(const void *step, const char *path,
                                void (*on_cpu)(const void *step, const char *path, const char *level, int threads))
{
    static const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    for (size_t i = 0; isa[i]; i++)
        for (int threads = 1; threads <= 3; threads += 2) on_cpu(step, path, isa[i]->isa, threads);
}

#endif

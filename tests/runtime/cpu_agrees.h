/* cpu_agrees.h - what tests of the CPU backend against the reference backend have in common: random plans, and comparing
 * them. */
#ifndef HYP_TESTS_CPU_AGREES_H
#define HYP_TESTS_CPU_AGREES_H

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/support.h"

static plan_builder b;
static rng r;

static inline int64_t pick(size_t count, const int64_t *values) { return values[rng_below(&r, count)]; }
#define PICK(...) pick(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static inline void *random_data(hyp_dtype dtype, size_t count)
{
    void *data = calloc(count ? count : 1, hyp_dtype_size(dtype));
    assert_non_null(data);
    rng_fill(&r, dtype, data, count);
    return data;
}

/* Weights of a layer of depth k: scaled so that values stay near 1 through any number of layers. */
static inline uint32_t random_weight(hyp_dtype dtype, size_t rank, const int64_t *dims, int64_t k)
{
    size_t count = 1;
    for (size_t a = 0; a < rank; a++) count *= (size_t)dims[a];
    void *data = random_data(dtype, count);
    for (size_t i = 0; i < count; i++) hyp_store_f64(dtype, data, i, hyp_load_f64(dtype, data, i) / sqrt((double)k));
    uint32_t t = pb_weight(&b, dtype, rank, dims, data);
    free(data);
    return t;
}

/* Runs the plan, whose inputs are all f32 or all of the given type, on both backends and compares every output. */
static inline void compare_backends(size_t input_count, hyp_tensor *inputs, size_t output_count, const char *const *names,
                             hyp_dtype dtype, size_t elements, double tolerance)
{
    void *out[2][8];
    for (size_t d = 0; d < 2; d++) {
        hyp_tensor outputs[8] = {{0}};
        for (size_t o = 0; o < output_count; o++) {
            out[d][o] = calloc(elements + 1, hyp_dtype_size(dtype));
            outputs[o] = (hyp_tensor){
                .name = names[o], .data = out[d][o], .bytes = elements * hyp_dtype_size(dtype), .dtype = dtype};
        }
        run_once(&b, host_devices[d], inputs, input_count, outputs, output_count);
    }
    for (size_t o = 0; o < output_count; o++) {
        float *want = calloc(elements + 1, sizeof *want), *got = calloc(elements + 1, sizeof *got);
        for (size_t i = 0; i < elements; i++) {
            want[i] = (float)hyp_load_f64(dtype, out[0][o], i);
            got[i] = (float)hyp_load_f64(dtype, out[1][o], i);
        }
        assert_close(got, want, elements, tolerance);
        free(want), free(got), free(out[0][o]), free(out[1][o]);
    }
}

/* What rounding can do to a sum of n terms in F32 in any order, as a part of the sum of their absolute values. */
static inline double rounding(int64_t n) { return (double)n * 0x1p-24 / (1 - (double)n * 0x1p-24); }

/* Runs the builder's plan, with one output y, on 1 to 4 threads. The number of threads chooses kernels, which add in
 * different orders: errors[i] is what rounding can do to y[i] in any of them. */
static inline void check_threads(hyp_tensor *in, size_t inputs, int64_t results, const double *errors)
{
    float *out[4];
    char path[PB_PATH];
    pb_write(&b, path);
    for (int32_t threads = 1; threads < 5; threads++) {
        hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = threads};
        hyp_engine *engine = NULL;
        hyp_context *context = NULL;
        out[threads - 1] = random_data(HYP_F32, (size_t)results);
        hyp_tensor y = tensor_of("y", HYP_F32, out[threads - 1], 1, &results);
        assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        for (int again = 0; again < 2; again++) assert_ok(hyp_context_run(context, in, inputs, &y, 1, diag));
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
        for (int64_t i = 0; i < results; i++)
            if (!(fabs((double)out[threads - 1][i] - (double)out[0][i]) <= 2 * errors[i]))
                fail_msg("%d threads: element %lld is %.9g, with one thread %.9g; bound %.3g", (int)threads,
                         (long long)i, (double)out[threads - 1][i], (double)out[0][i], 2 * errors[i]);
    }
    for (int i = 0; i < 4; i++) free(out[i]);
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    unlink(path);
    pb_dispose(&b);
}

#endif

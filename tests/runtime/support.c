#include "runtime/support.h"

#include <math.h>

const hyp_device_kind host_devices[2] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};

/* splitmix64 */
static uint64_t next(rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t rng_below(rng *r, uint64_t bound) { return next(r) % bound; }
double rng_float(rng *r) { return (double)(next(r) >> 11) * 0x1p-52 - 1; }

void rng_fill(rng *r, hyp_dtype dtype, void *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (hyp_dtype_is_float(dtype))
            hyp_store_f64(dtype, data, i, rng_float(r));
        else
            hyp_store_i64(dtype, data, i, (int64_t)rng_below(r, 8));
    }
}

hyp_tensor tensor_of(const char *name, hyp_dtype dtype, void *data, size_t rank, const int64_t *dims)
{
    hyp_tensor t = {.name = name, .data = data, .dtype = dtype, .rank = (int32_t)rank, .bytes = hyp_dtype_size(dtype)};
    for (size_t a = 0; a < rank; a++) {
        t.dims[a] = dims[a];
        t.bytes *= (size_t)dims[a];
    }
    return t;
}

void run_once(plan_builder *b, hyp_device_kind device, const hyp_tensor *inputs, size_t input_count,
              hyp_tensor *outputs, size_t output_count)
{
    hyp_engine *engine = pb_load(b, device);
    hyp_context *context = NULL;
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_run(context, inputs, input_count, outputs, output_count, diag));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

void assert_close(const float *a, const float *b, size_t count, double tolerance)
{
    for (size_t i = 0; i < count; i++) {
        double x = (double)a[i], y = (double)b[i];
        if ((isnan(x) && isnan(y)) || x == y) continue;
        if (!isfinite(y) || !(fabs(x - y) <= tolerance * fmax(1, fabs(y))))
            fail_msg("element %zu of %zu: %.9g, expected %.9g", i, count, x, y);
    }
}

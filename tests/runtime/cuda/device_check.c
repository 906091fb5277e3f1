#include "runtime/cuda/device_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"

const hyp_dtype floats[FLOATS] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};

/* ---- the device ---------------------------------------------------------------------------------------------- */

#define MUST(call) assert_int_equal((call), CUDA_SUCCESS)

/* False, with the reason in diag, where there is no usable GPU. */
static bool device_open(device *d, hyp_diag *diag)
{
    memset(d, 0, sizeof *d);
    if (hyp_cuda_library_open(&d->lib, diag) != HYP_OK) return false;
    CUdevice first;
    hyp_status status = hyp_cuda_check(&d->lib, d->lib.cuInit(0), "cuInit", diag);
    if (status == HYP_OK) status = hyp_cuda_check(&d->lib, d->lib.cuDeviceGet(&first, 0), "cuDeviceGet", diag);
    if (status == HYP_OK)
        status = hyp_cuda_check(&d->lib, d->lib.cuDevicePrimaryCtxRetain(&d->context, first), "the context", diag);
    if (status == HYP_OK) status = hyp_cuda_check(&d->lib, d->lib.cuCtxPushCurrent(d->context), "the context", diag);
    if (status == HYP_OK)
        status = hyp_cuda_check(
            &d->lib, d->lib.cuStreamCreateWithPriority(&d->stream, CU_STREAM_NON_BLOCKING, 0), "a stream", diag);
    if (status != HYP_OK) hyp_cuda_library_close(&d->lib);
    return status == HYP_OK;
}

bool device_start(device *d, int argc, char **argv)
{
    hyp_diag diag = {0};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (device_open(d, &diag)) return true;
    printf("skipped: %s\n", diag.message);
    return false;
}

void device_close(device *d)
{
    CUcontext context;
    MUST(d->lib.cuStreamDestroy(d->stream));
    MUST(d->lib.cuCtxPopCurrent(&context));
    MUST(d->lib.cuDevicePrimaryCtxRelease(0));
    hyp_cuda_library_close(&d->lib);
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

uint64_t random_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t random_between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

void random_fill(uint64_t *state, hyp_dtype dtype, void *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (hyp_dtype_is_float(dtype))
            hyp_store_f64(dtype, data, i, (double)random_between(state, -4096, 4096) / 4096);
        else
            hyp_store_i64(dtype, data, i, random_between(state, dtype == HYP_BOOL ? 0 : -2, dtype == HYP_BOOL ? 1 : 2));
    }
}

uint32_t random_weight(plan_builder *b, uint64_t *state, hyp_dtype dtype, size_t rank, const int64_t *dims)
{
    size_t count = 1;
    for (size_t a = 0; a < rank; a++) count *= (size_t)dims[a];
    void *room = malloc(count * hyp_dtype_size(dtype) + 1);
    assert_non_null(room);
    random_fill(state, dtype, room, count);
    uint32_t weight = pb_weight(b, dtype, rank, dims, room);
    free(room);
    return weight;
}

tolerance tolerance_of(hyp_dtype dtype, int64_t terms)
{
    double eps = dtype == HYP_F64    ? 1e-13
                 : dtype == HYP_F16  ? 1e-3
                 : dtype == HYP_BF16 ? 8e-3
                 : dtype == HYP_F32  ? 1e-6
                                     : 0;
    return (tolerance){2 * eps, 2 * eps * sqrt((double)terms)};
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* The tensors of one run in host memory, and where a run takes them from. */
typedef struct tensors {
    hyp_tensor t[DC_MAX_TENSORS];
    size_t count;
} tensors;

static size_t elements(const hyp_tensor *t)
{
    size_t n = 1;
    for (int32_t a = 0; a < t->rank; a++) n *= (size_t)t->dims[a];
    return n;
}

static void allocate(hyp_tensor *t, const hyp_io_info *info)
{
    t->name = info->name;
    t->dtype = info->dtype;
    t->bytes = elements(t) * hyp_dtype_size(t->dtype);
    t->data = malloc(t->bytes + 1);
    assert_non_null(t->data);
    memset(t->data, 0xff, t->bytes); /* NaN in every float type: an element that is not written shows */
}

static void release(tensors *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->t[i].data);
}

static void make_inputs(hyp_engine *engine, dims_list dims, tensors *out)
{
    uint64_t seed = 7;
    out->count = hyp_engine_input_count(engine);
    assert_true(out->count <= DC_MAX_TENSORS);
    for (size_t i = 0; i < out->count; i++) {
        const hyp_io_info *info = hyp_engine_input(engine, i);
        out->t[i] = (hyp_tensor){.rank = info->rank};
        memcpy(out->t[i].dims, dims[i], sizeof out->t[i].dims);
        allocate(&out->t[i], info);
        random_fill(&seed, info->dtype, out->t[i].data, elements(&out->t[i]));
    }
}

static void make_outputs(hyp_engine *engine, hyp_context *context, const tensors *inputs, tensors *out)
{
    hyp_diag diag = {0};
    out->count = hyp_engine_output_count(engine);
    assert_true(out->count <= DC_MAX_TENSORS);
    for (size_t i = 0; i < out->count; i++) out->t[i] = (hyp_tensor){.name = hyp_engine_output(engine, i)->name};
    if (hyp_context_output_shapes(context, inputs->t, inputs->count, out->t, out->count, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    for (size_t i = 0; i < out->count; i++) allocate(&out->t[i], hyp_engine_output(engine, i));
}

/* Copies tensors to the device, `offset` bytes behind an aligned address; *block holds all of them. */
static void to_device(device *d, const tensors *host, size_t offset, tensors *out, CUdeviceptr *block)
{
    size_t total = 1;
    for (size_t i = 0; i < host->count; i++) total += (host->t[i].bytes + offset + 511) / 256 * 256;
    MUST(d->lib.cuMemAlloc(block, total));
    *out = *host;
    CUdeviceptr at = *block;
    for (size_t i = 0; i < host->count; i++) {
        out->t[i].memory = HYP_MEMORY_CUDA;
        out->t[i].data = (void *)(uintptr_t)(at + offset);
        if (host->t[i].bytes) MUST(d->lib.cuMemcpyHtoDAsync(at + offset, host->t[i].data, host->t[i].bytes, d->stream));
        at += (host->t[i].bytes + offset + 511) / 256 * 256;
    }
    /* A copy from pageable memory returns before its last bytes have arrived, and other streams do not wait for it. */
    MUST(d->lib.cuStreamSynchronize(d->stream));
}

/* The first run with some buffers is op by op, the second is captured and replayed, the third replayed. */
enum { RUNS = 3 };

static void must_run(hyp_context *context, const tensors *inputs, tensors *outputs)
{
    hyp_diag diag = {0};
    if (hyp_context_run(context, inputs->t, inputs->count, outputs->t, outputs->count, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
}

static void run_on_device(device *d, hyp_context *context, size_t offset, const tensors *inputs, tensors *outputs)
{
    tensors in, out;
    CUdeviceptr in_block, out_block;
    to_device(d, inputs, offset, &in, &in_block);
    to_device(d, outputs, offset, &out, &out_block);
    for (int run = 0; run < RUNS; run++) {
        for (size_t i = 0; i < out.count; i++)
            if (out.t[i].bytes)
                MUST(d->lib.cuMemsetD8Async((CUdeviceptr)(uintptr_t)out.t[i].data, 0xff, out.t[i].bytes, d->stream));
        MUST(d->lib.cuStreamSynchronize(d->stream));
        must_run(context, &in, &out);
        hyp_diag diag = {0};
        if (hyp_context_synchronize(context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    }
    for (size_t i = 0; i < outputs->count; i++)
        if (outputs->t[i].bytes)
            MUST(d->lib.cuMemcpyDtoHAsync(outputs->t[i].data, (CUdeviceptr)(uintptr_t)out.t[i].data,
                                          outputs->t[i].bytes, d->stream));
    MUST(d->lib.cuStreamSynchronize(d->stream));
    MUST(d->lib.cuMemFree(in_block));
    MUST(d->lib.cuMemFree(out_block));
}

static void run_on_host(hyp_context *context, const tensors *inputs, tensors *outputs)
{
    for (int run = 0; run < RUNS; run++) {
        for (size_t i = 0; i < outputs->count; i++) memset(outputs->t[i].data, 0xff, outputs->t[i].bytes);
        must_run(context, inputs, outputs);
    }
}

static void compare(const tensors *reference, const tensors *got, tolerance want, const char *how)
{
    for (size_t i = 0; i < got->count; i++) {
        const hyp_tensor *r = &reference->t[i], *g = &got->t[i];
        size_t n = elements(r);
        for (size_t e = 0; e < n; e++) {
            double a = hyp_load_f64(g->dtype, g->data, e), b = hyp_load_f64(r->dtype, r->data, e);
            bool same = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= want.atol + want.rtol * fabs(b);
            if (!same)
                fail_msg("%s: output %zu, element %zu of %zu is %.9g, the reference has %.9g", how, i, e, n, a, b);
        }
    }
}

static void check_way(device *d, pair *p, const tensors *inputs, const tensors *reference, tolerance want, int way)
{
    static const char *const names[] = {"host tensors", "device tensors", "device tensors at odd addresses",
                                        "device tensors on the caller's stream"};
    tensors outputs;
    make_outputs(p->cuda, p->cuda_context, inputs, &outputs);
    switch (way) {
    case 0: run_on_host(p->cuda_context, inputs, &outputs); break;
    case 1: run_on_device(d, p->cuda_context, 0, inputs, &outputs); break;
    case 2: run_on_device(d, p->cuda_context, 8, inputs, &outputs); break;
    default: run_on_device(d, p->stream_context, 16, inputs, &outputs);
    }
    compare(reference, &outputs, want, names[way]);
    release(&outputs);
}

void pair_open(device *d, plan_builder *b, pair *out)
{
    hyp_diag diag = {0};
    out->reference = pb_load(b, HYP_DEVICE_REFERENCE);
    out->cuda = pb_load(b, HYP_DEVICE_CUDA);
    hyp_context_options options = {.size = sizeof options, .stream = d->stream};
    if (hyp_context_create(out->reference, NULL, &out->reference_context, &diag) != HYP_OK ||
        hyp_context_create(out->cuda, NULL, &out->cuda_context, &diag) != HYP_OK ||
        hyp_context_create(out->cuda, &options, &out->stream_context, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
}

void pair_check(device *d, pair *p, dims_list dims, tolerance want)
{
    tensors inputs, reference;
    make_inputs(p->reference, dims, &inputs);
    make_outputs(p->reference, p->reference_context, &inputs, &reference);
    must_run(p->reference_context, &inputs, &reference);
    for (int way = 0; way < 4; way++) check_way(d, p, &inputs, &reference, want, way);
    release(&inputs);
    release(&reference);
}

static void must_time(pair *p, const tensors *inputs, tensors *outputs)
{
    enum { MOST = 64 };
    double seconds[MOST];
    hyp_diag diag = {0};
    size_t steps = hyp_engine_step_count(p->cuda);
    assert_true(steps <= MOST);
    if (hyp_context_time_steps(p->cuda_context, inputs->t, inputs->count, outputs->t, outputs->count, seconds, steps,
                               &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    for (size_t i = 0; i < steps; i++) assert_true(seconds[i] > 0);
}

static void check_once(pair *p, dims_list dims, tolerance want, bool timed)
{
    tensors inputs, reference, outputs;
    make_inputs(p->reference, dims, &inputs);
    make_outputs(p->reference, p->reference_context, &inputs, &reference);
    must_run(p->reference_context, &inputs, &reference);
    make_outputs(p->cuda, p->cuda_context, &inputs, &outputs);
    if (timed)
        must_time(p, &inputs, &outputs);
    else
        must_run(p->cuda_context, &inputs, &outputs);
    compare(&reference, &outputs, want, timed ? "host tensors, timed" : "host tensors");
    release(&inputs);
    release(&reference);
    release(&outputs);
}

void pair_check_once(pair *p, dims_list dims, tolerance want) { check_once(p, dims, want, false); }

void pair_check_timed(pair *p, dims_list dims, tolerance want) { check_once(p, dims, want, true); }

void pair_close(pair *p)
{
    hyp_context_destroy(p->reference_context);
    hyp_context_destroy(p->cuda_context);
    hyp_context_destroy(p->stream_context);
    hyp_engine_destroy(p->reference);
    hyp_engine_destroy(p->cuda);
}

void check_plan(device *d, plan_builder *b, dims_list dims, tolerance want)
{
    pair p;
    pair_open(d, b, &p);
    pair_check(d, &p, dims, want);
    pair_close(&p);
    pb_dispose(b);
}

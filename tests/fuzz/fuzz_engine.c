/* fuzz_engine.c - libFuzzer target: loads any bytes as a plan on a device, prepares three sets of shapes and runs them,
 * the latter two with other weights where these may be replaced, some with sizes that are rounded up, within limits of
 * memory and work. On a GPU the first runs again, as a graph; of one plan of 16 it is tuned, and runs again. Plans may
 * be refused anywhere; nothing may crash, hang, or read or write beyond a tensor, nor may a GPU be lost (which is how
 * it says that a kernel did).
 *
 * The device is that of FUZZ_DEVICE (cpu, reference, cuda); cpu where it is not set.
 */
#include "fuzz/fuzz_engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/strbuf.h"
#include "fuzz/mutate_plan.h"
#include "hypatia/runtime.h"

enum { MAX_EDGES = 64, MAX_TENSOR = 8 << 20, MAX_SCRATCH = 64 << 20 };
static const double max_work = 3e8,
                    max_emulated = 2e6; /* of a GPU in host memory: a microsecond a warp, some tens a launch */

uint64_t fuzz_opened, fuzz_prepared, fuzz_ran, fuzz_rounded, fuzz_updated, fuzz_tuned;

static hyp_device_kind device(void)
{
    const char *name = getenv("FUZZ_DEVICE");
    if (name && strcmp(name, "reference") == 0) return HYP_DEVICE_REFERENCE;
    return name && strcmp(name, "cuda") == 0 ? HYP_DEVICE_CUDA : HYP_DEVICE_CPU;
}

/* Memory of a tensor's own size, so that a sanitizer sees the first byte beyond it; of floats one in a thousand is infinite.
 * False where it would be too much. */
static bool take(hyp_tensor *t, uint64_t seed)
{
    size_t bytes = hyp_dtype_size(t->dtype);
    for (int32_t a = 0; a < t->rank; a++)
        if (t->dims[a] < 0 || !hyp_mul_size(bytes, (size_t)t->dims[a], &bytes) || bytes > MAX_TENSOR) return false;
    t->data = hyp_calloc(1, bytes);
    t->bytes = bytes;
    if (!t->data) return false;
    for (size_t i = 0; i < bytes / hyp_dtype_size(t->dtype); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (hyp_dtype_is_float(t->dtype))
            hyp_store_f64(t->dtype, t->data, i, seed >> 54 == 0 ? INFINITY : (double)(seed >> 40) / (1 << 23) - 1);
        else
            hyp_store_i64(t->dtype, t->data, i,
                          t->dtype == HYP_BOOL ? (int64_t)(seed >> 63) : (int64_t)(seed >> 33) % 4 - 1);
    }
    return true;
}

/* The dims of the inputs where every symbol has this size, as far as that is possible. */
static bool set_dims(const hyp_engine *engine, hyp_tensor *inputs, size_t count, int64_t size)
{
    hyp_tensor sizes[MAX_EDGES * HYP_MAX_RANK];
    size_t named = 0;
    const char *missing;
    for (size_t i = 0; i < count; i++) {
        const hyp_io_info *info = hyp_engine_input(engine, i);
        inputs[i] = (hyp_tensor){.dtype = info->dtype, .rank = info->rank};
        memcpy(inputs[i].dims, info->dims, sizeof info->dims);
        for (int32_t a = 0; a < info->rank; a++)
            if (info->symbols[a]) sizes[named++] = (hyp_tensor){.name = info->symbols[a], .rank = 1, .dims = {size}};
    }
    return hyp_engine_complete_dims(engine, inputs, count, sizes, named, &missing, NULL) == HYP_OK && !missing;
}

static bool is_done(hyp_status status, const hyp_diag *diag)
{
    if (status != HYP_ERR_DEVICE_LOST) return status == HYP_OK;
    fprintf(stderr, "%s\n", diag->message);
    abort();
}

/* What is held stays within a limit, but for what the C library rounds up. */
static void want_kept(size_t held, uint64_t limit)
{
    if (held <= limit + limit / 8) return;
    fprintf(stderr, "%zu bytes are held, the limit is %llu\n", held, (unsigned long long)limit);
    abort();
}

static void run(hyp_context *context, bool rounded, hyp_tensor *inputs, size_t in, hyp_tensor *outputs, size_t out)
{
    if (hyp_context_output_shapes(context, inputs, in, outputs, out, NULL) != HYP_OK) return;
    for (size_t i = 0; i < out; i++)
        if (!take(&outputs[i], i)) return;
    hyp_diag diag = {0};
    size_t before = hyp_context_memory_bytes(context);
    hyp_status status = hyp_context_reserve(context, inputs, in, &diag);
    if (status == HYP_ERR_LIMIT && device() != HYP_DEVICE_CUDA) want_kept(hyp_context_memory_bytes(context), before);
    if (!is_done(status, &diag)) return;
    fuzz_prepared++;
    bool done = is_done(hyp_context_run(context, inputs, in, outputs, out, &diag), &diag);
    if (is_done(hyp_context_synchronize(context, &diag), &diag) && done) fuzz_ran++, fuzz_rounded += rounded;
}

/* Reads every variable and gives it back what it is. */
static void read_variables(const hyp_engine *engine, hyp_context *context)
{
    for (size_t i = 0; i < hyp_engine_variable_count(engine); i++) {
        const hyp_io_info *info = hyp_engine_variable(engine, i);
        hyp_tensor t = {.name = info->name, .dtype = info->dtype, .rank = info->rank};
        memcpy(t.dims, info->dims, sizeof t.dims);
        hyp_diag diag = {0};
        if (take(&t, i) && is_done(hyp_context_variable_get(context, &t, 1, &diag), &diag) &&
            !is_done(hyp_context_variable_set(context, &t, 1, &diag), &diag))
            abort();
        hyp_free(t.data);
    }
    hyp_diag diag = {0};
    if (!is_done(hyp_context_variables_reset(context, &diag), &diag)) abort();
}

/* Everything that could do a step, for a moment; the next run is by what was faster. */
static void tune(hyp_context *context, const hyp_tensor *inputs, size_t in)
{
    const hyp_tune_options options = {.size = sizeof options, .seconds = 0.01};
    hyp_diag diag = {0};
    if (is_done(hyp_context_tune(context, inputs, in, &options, NULL, &diag), &diag)) fuzz_tuned++;
}

/* `tuned`: between two runs. */
static void try_shapes(hyp_engine *engine, hyp_context *context, bool rounded, bool tuned, int64_t size)
{
    hyp_tensor inputs[MAX_EDGES] = {{0}}, outputs[MAX_EDGES] = {{0}};
    size_t in = hyp_engine_input_count(engine), out = hyp_engine_output_count(engine);
    bool fits = set_dims(engine, inputs, in, size);
    for (size_t i = 0; i < in && fits; i++) fits = take(&inputs[i], i + (uint64_t)size);
    for (size_t i = 0; i < out; i++) outputs[i].dtype = hyp_engine_output(engine, i)->dtype;
    for (int again = 0; fits && again < (tuned || (size == 3 && device() == HYP_DEVICE_CUDA) ? 2 : 1); again++) {
        if (again && tuned) tune(context, inputs, in);
        run(context, rounded, inputs, in, outputs, out);
        for (size_t i = 0; i < out; i++) hyp_free(outputs[i].data), outputs[i].data = NULL;
    }
    for (size_t i = 0; i < in; i++) hyp_free(inputs[i].data);
}

/* Other numbers for all weights that may be replaced, as far as that is allowed. */
static void replace_weights(hyp_engine *engine)
{
    hyp_tensor weights[MAX_EDGES] = {{0}};
    size_t count = hyp_engine_weight_count(engine);
    bool fits = count > 0 && count <= MAX_EDGES;
    for (size_t i = 0; fits && i < count; i++) {
        const hyp_io_info *info = hyp_engine_weight(engine, i);
        weights[i] = (hyp_tensor){.name = info->name, .dtype = info->dtype, .rank = info->rank};
        memcpy(weights[i].dims, info->dims, sizeof info->dims);
        fits = take(&weights[i], i + 7);
    }
    hyp_diag diag = {0};
    if (fits && is_done(hyp_engine_update(engine, weights, count, &diag), &diag)) fuzz_updated++;
    for (size_t i = 0; i < count && i < MAX_EDGES; i++) hyp_free(weights[i].data);
}

/* With sizes rounded up, where the plan allows that, or claims to: *rounded becomes whether it does. */
static bool create(hyp_engine *engine, bool *rounded, hyp_context_options *options, hyp_context **out)
{
    static const hyp_tensor bucket = {.rank = 1, .dims = {4}};
    options->buckets = &bucket;
    options->bucket_count = *rounded;
    hyp_status status = hyp_context_create(engine, options, out, NULL);
    options->bucket_count = 0;
    if (!*rounded || status != HYP_ERR_UNSUPPORTED) return status == HYP_OK;
    *rounded = false;
    status = hyp_context_create(engine, options, out, NULL);
    return status == HYP_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t sizes[] = {3, 1, 0};
    hyp_engine_options options = {.size = sizeof options, .device = device(), .threads = 1, .checks = HYP_CHECKS_OFF};
    hyp_context_options limits = {.size = sizeof limits,
                                  .memory_limit = MAX_SCRATCH,
                                  .work_limit = device() == HYP_DEVICE_CUDA ? max_emulated : max_work};
    uint64_t drawn = hyp_hash(data, size, 0);
    options.memory_limit = drawn % 4 ? MAX_SCRATCH : (uint64_t)4096 << (drawn >> 8) % 12;
    if (drawn % 8 > 5) limits.memory_limit = (uint64_t)4096 << (drawn >> 16) % 12;
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    uint8_t *bytes = hyp_aligned_alloc(64, size);
    if (!bytes) return 0;
    memcpy(bytes, data, size);
    hyp_diag diag = {0};
    bool rounded = drawn >> 24 & 1;
    bool open = is_done(hyp_engine_load_memory(bytes, size, &options, &engine, &diag), &diag);
    if (open && hyp_engine_input_count(engine) <= MAX_EDGES && hyp_engine_output_count(engine) <= MAX_EDGES &&
        create(engine, &rounded, &limits, &context)) {
        fuzz_opened++;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            if (i == 1) replace_weights(engine);
            try_shapes(engine, context, rounded, i == 0 && (drawn >> 32) % 16 == 0, sizes[i]);
            read_variables(engine, context);
            want_kept(hyp_engine_memory_bytes(engine), options.memory_limit);
            want_kept(hyp_context_memory_bytes(context), limits.memory_limit);
        }
    }
    hyp_engine_destroy(engine);
    hyp_context_destroy(context);
    hyp_aligned_free(bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    hyp_random random = {seed};
    size_t mutated;
    uint8_t *mutant = mutate_plan(data, size, &random, &mutated);
    if (mutant && mutated <= max_size) memcpy(data, mutant, size = mutated);
    hyp_free(mutant);
    return size;
}

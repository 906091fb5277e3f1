/* Steps in 16 bits that run by kernels for floats: one of every kind, against the reference backend, with every
 * instruction set; and that none of them is left to plain loops.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

enum { CHANNELS = 4, HIGH = 6, WIDE = 8, SIDE = HIGH * WIDE, COUNT = CHANNELS * SIDE, RESULTS = 13 };

static plan_builder b;
static rng r;
static hyp_dtype dtype;
static uint32_t x, outputs;

static const char *const names[RESULTS] = {"layers", "after",  "in-place",  "norm", "softmax",
                                           "sums",   "of-norm",  "of-scale",  "of-softmax",
                                           "matmul", "attention", "conv", "largest"};

static uint32_t weight(size_t rank, const int64_t *dims, int64_t depth)
{
    uint16_t data[SIDE * SIDE];
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) count *= (size_t)dims[i];
    for (size_t i = 0; i < count; i++) hyp_store_f64(dtype, data, i, rng_float(&r) / sqrt((double)depth));
    return pb_weight(&b, dtype, rank, dims, data);
}
#define WEIGHT(depth, ...)                                                                                             \
    weight(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__}, depth)

static uint32_t result(size_t rank, const uint32_t *dims) { return pb_output(&b, names[outputs++], dtype, rank, dims); }

static void add_layers(const uint32_t *shape)
{
    uint32_t rows = shape[0], hidden = pb_scratch(&b, dtype, 0, 2, shape), all = pb_const(&b, COUNT);
    HypPlan__Linear *s = pb_linear(&b, x, result(2, shape), rows);
    pb_layer(&b, s, SIDE, SIDE, WEIGHT(SIDE, SIDE, SIDE), WEIGHT(1, SIDE), HYP_PLAN__ACT__ACT_GELU, hidden);
    pb_layer(&b, s, SIDE, SIDE, WEIGHT(SIDE, SIDE, SIDE), PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE)->weight_kn = true;
    s = pb_linear(&b, x, result(2, shape), rows);
    pb_layer(&b, s, SIDE, SIDE, WEIGHT(SIDE, SIDE, SIDE), WEIGHT(1, SIDE), HYP_PLAN__ACT__ACT_TANH, PB_NONE);
    s->added_plus1 = x + 1;
    s->add_after = true;
    /* A weight that is computed, which oneDNN multiplies by: it adds to what lies where the result goes. */
    uint32_t square[2] = {shape[1], shape[1]}, w = pb_scratch(&b, dtype, 2, 2, square);
    uint32_t added = pb_scratch(&b, dtype, 1, 2, shape), sum = pb_scratch(&b, dtype, 1, 2, shape);
    pb_copy_all(&b, WEIGHT(SIDE, SIDE, SIDE), w, pb_const(&b, SIDE * SIDE));
    pb_copy_all(&b, x, added, all);
    s = pb_linear(&b, x, sum, rows);
    pb_layer(&b, s, SIDE, SIDE, w, WEIGHT(1, SIDE), HYP_PLAN__ACT__ACT_RELU, PB_NONE);
    s->added_plus1 = added + 1;
    pb_copy_all(&b, sum, result(2, shape), all);
}

static void add_rows(const uint32_t *shape)
{
    uint32_t in[3] = {x, WEIGHT(1, SIDE), WEIGHT(1, SIDE)}, one = pb_const(&b, 1);
    HypPlan__Call *norm = pb_call(&b, "layer-norm", 3, in, result(2, shape));
    pb_call_int(&b, norm, 1);
    pb_call_float(&b, norm, 1e-5);
    HypPlan__Softmax *s = pb_softmax(&b);
    s->x = x, s->y = result(2, shape);
    s->outer = shape[0], s->axis = shape[1], s->inner = one;
    HypPlan__Reduce *k = pb_reduce(&b);
    k->kind = HYP_PLAN__REDUCE__KIND__MEAN, k->x = x, k->y = result(1, shape);
    k->n_kept = k->n_kept_strides = k->n_reduced = k->n_reduced_strides = 1;
    k->kept = pb_consts(&b, 1, (int64_t[]){CHANNELS}), k->reduced = pb_consts(&b, 1, (int64_t[]){SIDE});
    k->kept_strides = pb_consts(&b, 1, (int64_t[]){SIDE}), k->reduced_strides = pb_consts(&b, 1, (int64_t[]){1});
}

static void add_gradients(const uint32_t *shape)
{
    uint32_t in[3] = {x, x, WEIGHT(1, SIDE)};
    for (int by_scale = 0; by_scale < 2; by_scale++) {
        HypPlan__Call *norm = pb_call(&b, "norm-gradient", by_scale ? 2 : 3, in, result(2, shape));
        pb_call_int(&b, norm, 1);
        pb_call_float(&b, norm, 1e-5);
        pb_call_int(&b, norm, 1);
        pb_call_symbol(&b, norm, by_scale ? "scale" : "x");
    }
    pb_call_int(&b, pb_call(&b, "softmax-gradient", 2, in, result(2, shape)), 1);
}

static void add_products(const uint32_t *shape)
{
    HypPlan__Matmul *m = pb_matmul(&b);
    m->a = x, m->b = WEIGHT(SIDE, SIDE, SIDE), m->y = result(2, shape);
    m->m = shape[0], m->n = m->k = shape[1];
    m->trans_b = true;
    m->alpha = 0.5f;
    uint32_t keys[2] = {shape[1], shape[1]}, k = pb_scratch(&b, dtype, 3, 2, keys);
    pb_copy_all(&b, WEIGHT(1, SIDE, SIDE), k, pb_const(&b, SIDE * SIDE));
    const int64_t strides[2] = {SIDE, 1};
    HypPlan__Attention *a = pb_attention(&b);
    a->rows = shape[0], a->keys = a->width = a->columns = shape[1];
    a->q = pb_attended(&b, x, 2, strides, 0), a->k = pb_attended(&b, k, 2, strides, 0);
    a->v = pb_attended(&b, k, 2, strides, 0);
    a->mask = pb_attended(&b, k, 2, strides, SIDE), a->y = pb_attended(&b, result(2, shape), 2, strides, 0);
    a->scale = 0.3f;
}

static void add_images(void)
{
    const int64_t dims[4] = {1, CHANNELS, HIGH, WIDE}, ones[2] = {1, 1}, pads[4] = {1, 1, 1, 1};
    uint32_t *shape = pb_consts(&b, 4, dims), image = pb_view(&b, x, 4, shape);
    uint32_t in[4] = {image, WEIGHT(36, CHANNELS, CHANNELS, 3, 3), WEIGHT(1, CHANNELS), image};
    HypPlan__Call *conv = pb_call(&b, "conv", 4, in, result(4, shape));
    pb_call_ints(&b, conv, 2, ones);
    pb_call_ints(&b, conv, 4, pads);
    pb_call_ints(&b, conv, 2, ones);
    pb_call_int(&b, conv, 1);
    pb_call_symbol(&b, conv, "relu");
    HypPlan__Call *pool = pb_call(&b, "max-pool", 1, &image, result(4, shape));
    pb_call_ints(&b, pool, 2, (int64_t[]){3, 3});
    pb_call_ints(&b, pool, 2, ones);
    pb_call_ints(&b, pool, 4, pads);
    pb_call_ints(&b, pool, 2, ones);
    pb_call_int(&b, pool, 0);
    pb_call_int(&b, pool, 0);
}

static void run(hyp_device_kind device, uint16_t *data, uint16_t out[RESULTS][COUNT])
{
    hyp_tensor in = tensor_of("x", dtype, data, 2, (int64_t[]){CHANNELS, SIDE}), y[RESULTS] = {{0}};
    for (size_t i = 0; i < RESULTS; i++)
        y[i] = (hyp_tensor){.name = names[i], .data = out[i], .bytes = sizeof out[i], .dtype = dtype};
    memset(out, 0x55, RESULTS * sizeof out[0]);
    hyp_engine *engine = pb_load(&b, device);
    hyp_context *context = NULL;
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    for (int again = 0; again < 2; again++) assert_ok(hyp_context_run(context, &in, 1, y, RESULTS, diag));
    for (size_t i = 0; device == HYP_DEVICE_CPU && i < b.program.n_steps; i++) {
        hyp_choice_info c = hyp_context_choice(context, i, 0);
        size_t others = 0; /* one where nothing is faster than loops: by its kind, or without oneDNN */
        for (size_t j = 0; j < c.alternatives; j++) {
            const char *cannot = hyp_context_alternative(context, i, 0, j).cannot;
            others += !cannot || strcmp(cannot, "it has no kernel for this") == 0;
        }
        if (others < 2) continue;
        const char *taken = hyp_context_alternative(context, i, 0, c.taken).name;
        if (strcmp(taken, "plain loops") == 0)
            fail_msg("step %d, a %s, runs by plain loops", (int)i, hyp_plan_kernel_name(b.step_list[i]));
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

/* Both round once, but for what is hidden between layers: by half a unit in the last place, each to its side. */
static void check(void)
{
    static uint16_t data[COUNT], want[RESULTS][COUNT], got[RESULTS][COUNT];
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    pb_init(&b);
    outputs = 0;
    uint32_t *shape = pb_consts(&b, 2, (int64_t[]){CHANNELS, SIDE});
    x = pb_input(&b, "x", dtype, 2, shape);
    add_layers(shape);
    add_rows(shape);
    add_gradients(shape);
    add_products(shape);
    add_images();
    assert_int_equal(outputs, RESULTS);
    rng_fill(&r, dtype, data, COUNT);
    run(HYP_DEVICE_REFERENCE, data, want);
    for (size_t i = 0; isa[i]; i++) {
        assert_int_equal(setenv(HYP_CPU_VARIABLE, isa[i]->isa, 1), 0);
        run(HYP_DEVICE_CPU, data, got);
        for (size_t o = 0; o < RESULTS; o++) {
            float w[COUNT], g[COUNT];
            size_t count = strcmp(names[o], "sums") == 0 ? CHANNELS : COUNT;
            for (size_t j = 0; j < count; j++) {
                w[j] = (float)hyp_load_f64(dtype, want[o], j);
                g[j] = (float)hyp_load_f64(dtype, got[o], j);
            }
            assert_close(g, w, count, dtype == HYP_F16 ? 0x1p-9 : 0x1p-6);
        }
    }
    assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
    pb_dispose(&b);
}

static void steps_of_bf16_agree(void **state)
{
    (void)state;
    dtype = HYP_BF16;
    check();
}

static void steps_of_f16_agree(void **state)
{
    (void)state;
    dtype = HYP_F16;
    check();
}

/* What softmax takes of numbers of 16 bits is of 32, and exact up to how it is summed: rows, and
 * columns of a few parts, each of which may have room of its own. */
static void statistics_of_softmax_are_wide(void **state)
{
    enum { OUTER = 7, AXIS = 37, INNER = 5, MOST = OUTER * AXIS * INNER };
    static uint16_t data[MOST];
    static float results[2][2][OUTER * INNER]; /* of the reference and of the CPU */
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    (void)state;
    hyp_cpu_kernels_list(isa);
    for (size_t i = 0; isa[i]; i++)
        for (int t = 0; t < 4; t++) {
            const int64_t inner = t < 2 ? 1 : INNER, outer = t < 2 ? OUTER : 2;
            const int64_t dims[3] = {outer, AXIS, inner}, one[3] = {outer, 1, inner};
            const hyp_dtype type = t % 2 ? HYP_F16 : HYP_BF16;
            pb_init(&b);
            uint32_t in = pb_input(&b, "x", type, 3, pb_consts(&b, 3, dims)), *shape = pb_consts(&b, 3, one);
            uint32_t top = pb_output(&b, "top", HYP_F32, 3, shape), rest = pb_output(&b, "rest", HYP_F32, 3, shape);
            HypPlan__Call *call = pb_call(&b, "softmax-stats", 1, &in, top);
            pb_call_output(call, rest);
            pb_call_int(&b, call, 1);
            rng_fill(&r, type, data, MOST);
            assert_int_equal(setenv(HYP_CPU_VARIABLE, isa[i]->isa, 1), 0);
            for (int on = 0; on < 2; on++) {
                const hyp_tensor given = tensor_of("x", type, data, 3, dims);
                hyp_tensor y[2] = {tensor_of("top", HYP_F32, results[on][0], 3, one),
                                   tensor_of("rest", HYP_F32, results[on][1], 3, one)};
                hyp_engine *engine = pb_load(&b, on ? HYP_DEVICE_CPU : HYP_DEVICE_REFERENCE);
                hyp_context *context = NULL;
                assert_ok(hyp_context_create(engine, NULL, &context, diag));
                assert_ok(hyp_context_run(context, &given, 1, y, 2, diag));
                hyp_choice_info c = hyp_context_choice(context, 0, 0);
                if (on) assert_string_not_equal(hyp_context_alternative(context, 0, 0, c.taken).name, "plain loops");
                hyp_context_destroy(context);
                hyp_engine_destroy(engine);
            }
            assert_memory_equal(results[1][0], results[0][0], (size_t)(outer * inner) * sizeof(float));
            assert_close(results[1][1], results[0][1], (size_t)(outer * inner), 2e-6);
            pb_dispose(&b);
        }
    assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
}

/* ---- layers, however they are done ------------------------------------------------------------------------------ */

enum { ROWS = 20 };

/* Two layers, and one that has the weights of the first and adds what it reads. */
static void build_layers(void)
{
    pb_init(&b);
    uint32_t *shape = pb_consts(&b, 2, (int64_t[]){ROWS, SIDE}), rows = shape[0];
    x = pb_input(&b, "x", dtype, 2, shape);
    uint32_t y = pb_output(&b, "y", dtype, 2, shape), z = pb_output(&b, "z", dtype, 2, shape);
    uint32_t hidden = pb_scratch(&b, dtype, 0, 2, shape), w = WEIGHT(SIDE, SIDE, SIDE);
    HypPlan__Linear *s = pb_linear(&b, x, y, rows);
    pb_layer(&b, s, SIDE, SIDE, w, WEIGHT(1, SIDE), HYP_PLAN__ACT__ACT_GELU, hidden);
    pb_layer(&b, s, SIDE, SIDE, WEIGHT(SIDE, SIDE, SIDE), PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE)->weight_kn = true;
    s = pb_linear(&b, x, z, rows);
    pb_layer(&b, s, SIDE, SIDE, w, WEIGHT(1, SIDE), HYP_PLAN__ACT__ACT_TANH, PB_NONE);
    s->added_plus1 = x + 1;
}

static bool find(const char *product, hyp_tuned *out, void *user)
{
    (void)product;
    const char *name = user;
    out->algorithm = name, out->algorithm_bytes = strlen(name), out->seconds = 1e-6, out->first_seconds = 2e-6;
    return true;
}

/* Runs the layers in the way of this name; NULL: as chosen. */
static hyp_status run_layers(hyp_engine *engine, const char *name, uint16_t *data, uint16_t out[2][ROWS * SIDE])
{
    const int64_t dims[2] = {ROWS, SIDE};
    const hyp_tensor in = tensor_of("x", dtype, data, 2, dims);
    hyp_tensor y[2] = {tensor_of("y", dtype, out[0], 2, dims), tensor_of("z", dtype, out[1], 2, dims)};
    hyp_tune_options options = {.size = sizeof options, .seconds = 1e6, .find = find, .find_user = (void *)(uintptr_t)name};
    hyp_context *context = NULL;
    memset(out, 0x55, 2 * sizeof out[0]);
    hyp_status status = hyp_context_create(engine, NULL, &context, NULL);
    if (status == HYP_OK && name) status = hyp_context_tune(context, &in, 1, &options, NULL, NULL);
    if (status == HYP_OK) status = hyp_context_run(context, &in, 1, y, 2, NULL);
    for (size_t i = 0; status == HYP_OK && name && i < 2; i++)
        assert_string_equal(hyp_context_alternative(context, i, 0, hyp_context_choice(context, i, 0).taken).name, name);
    hyp_context_destroy(context);
    return status;
}

static void assert_layers_agree(uint16_t got[2][ROWS * SIDE], uint16_t want[2][ROWS * SIDE])
{
    float w[ROWS * SIDE], g[ROWS * SIDE];
    for (int o = 0; o < 2; o++) {
        for (size_t i = 0; i < ROWS * SIDE; i++) {
            w[i] = (float)hyp_load_f64(dtype, want[o], i);
            g[i] = (float)hyp_load_f64(dtype, got[o], i);
        }
        assert_close(g, w, ROWS * SIDE, dtype == HYP_F16 ? 0x1p-9 : 0x1p-6);
    }
}

/* Whether the first step can be done in the way of this name. */
static bool can(hyp_engine *engine, const char *name)
{
    bool is = false;
    hyp_context *context = NULL;
    const hyp_tensor in = tensor_of("x", dtype, NULL, 2, (int64_t[]){ROWS, SIDE});
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_reserve(context, &in, 1, diag));
    for (size_t j = 0; j < hyp_context_choice(context, 0, 0).alternatives; j++) {
        hyp_alternative_info a = hyp_context_alternative(context, 0, 0, j);
        is = is || (!a.cannot && strcmp(a.name, name) == 0);
    }
    hyp_context_destroy(context);
    return is;
}

/* By our kernel, by oneDNN, whose weights are packed as floats while memory runs out here and there, and by loops. */
static void layers_agree_however_they_are_done(void **state)
{
    static const char *const ways[] = {"own", "oneDNN", "plain loops"};
    static uint16_t data[ROWS * SIDE], want[2][ROWS * SIDE], got[2][ROWS * SIDE];
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    (void)state;
    hyp_cpu_kernels_list(isa);
    for (int t = 0; t < 2; t++) {
        dtype = t ? HYP_F16 : HYP_BF16;
        build_layers();
        rng_fill(&r, dtype, data, ROWS * SIDE);
        hyp_engine *engine = pb_load(&b, HYP_DEVICE_REFERENCE);
        assert_int_equal(run_layers(engine, NULL, data, want), HYP_OK);
        hyp_engine_destroy(engine);
        for (size_t i = 0; isa[i]; i++) {
            assert_int_equal(setenv(HYP_CPU_VARIABLE, isa[i]->isa, 1), 0);
            engine = pb_load(&b, HYP_DEVICE_CPU);
            for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
                hyp_status status = can(engine, ways[way]) ? HYP_ERR_NO_MEMORY : HYP_OK;
                for (uint64_t n = 1; status != HYP_OK; n++) {
                    hyp_mem_fail_after(n);
                    status = run_layers(engine, ways[way], data, got);
                    hyp_mem_fail_after(0);
                    if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
                    if (status == HYP_OK) assert_layers_agree(got, want);
                }
            }
            hyp_engine_destroy(engine);
        }
        assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
        pb_dispose(&b);
    }
}

/* A layer whose weight is its operand and what is added, too: the panels are not all that is read of it. */
static void weights_may_be_operands(void **state)
{
    static uint16_t y[2][SIDE * SIDE];
    (void)state;
    dtype = HYP_BF16;
    pb_init(&b);
    const int64_t dims[2] = {SIDE, SIDE};
    uint32_t w = WEIGHT(SIDE, SIDE, SIDE), *shape = pb_consts(&b, 2, dims);
    HypPlan__Linear *s = pb_linear(&b, w, pb_output(&b, "y", dtype, 2, shape), shape[0]);
    pb_layer(&b, s, SIDE, SIDE, w, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    s->added_plus1 = w + 1;
    assert_int_equal(setenv(HYP_CPU_VARIABLE, "generic", 1), 0);
    for (int on = 0; on < 2; on++) {
        hyp_tensor out = tensor_of("y", dtype, y[on], 2, dims);
        run_once(&b, on ? HYP_DEVICE_CPU : HYP_DEVICE_REFERENCE, NULL, 0, &out, 1);
    }
    assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        float got = (float)hyp_load_f64(dtype, y[1], i), want = (float)hyp_load_f64(dtype, y[0], i);
        assert_close(&got, &want, 1, 0x1p-6);
    }
    pb_dispose(&b);
}

int main(void)
{
    r.state = 16;
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_of_bf16_agree), cmocka_unit_test(steps_of_f16_agree),
                                       cmocka_unit_test(layers_agree_however_they_are_done),
                                       cmocka_unit_test(weights_may_be_operands),
                                       cmocka_unit_test(statistics_of_softmax_are_wide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The CPU backend against the reference backend on random plans, and our own multi-layer kernel on every instruction
 * set that the machine has.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

static plan_builder b;
static rng r;

static int64_t pick(size_t count, const int64_t *values) { return values[rng_below(&r, count)]; }
#define PICK(...) pick(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static void *random_data(hyp_dtype dtype, size_t count)
{
    void *data = calloc(count ? count : 1, hyp_dtype_size(dtype));
    assert_non_null(data);
    rng_fill(&r, dtype, data, count);
    return data;
}

/* Weights of a layer of depth k: scaled so that values stay near 1 through any number of layers. */
static uint32_t random_weight(hyp_dtype dtype, size_t rank, const int64_t *dims, int64_t k)
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
static void compare_backends(size_t input_count, hyp_tensor *inputs, size_t output_count, const char *const *names,
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

/* ---- linear ------------------------------------------------------------------------------------------------ */

static double tolerance_of(hyp_dtype dtype) { return dtype == HYP_F32 ? 5e-6 : dtype == HYP_BF16 ? 0.1 : 0.01; }

/* Some biases are weights, some inputs, some not there. */
static void random_linear(hyp_dtype dtype, bool symbolic, int64_t m, size_t layers)
{
    static const char *const names[] = {"x", "b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
    hyp_tensor in[9];
    size_t inputs = 1;
    pb_init(&b);
    int64_t k = PICK(1, 2, 3, 15, 16, 17, 50, 100), first_k = k, n = 0;
    uint32_t rows = symbolic ? pb_symbol(&b, "batch") : pb_const(&b, m);
    uint32_t x = pb_input(&b, "x", dtype, 2, (uint32_t[]){rows, pb_const(&b, k)});
    uint32_t weights[8], biases[8], hidden[8];
    int64_t ks[8], ns[8];
    bool kn[8];
    for (size_t l = 0; l < layers; l++) {
        n = PICK(1, 2, 5, 15, 16, 17, 31, 50, 64, 65, 130);
        kn[l] = rng_below(&r, 2);
        weights[l] = random_weight(dtype, 2, kn[l] ? (int64_t[]){k, n} : (int64_t[]){n, k}, k);
        biases[l] = rng_below(&r, 4) ? random_weight(dtype, 1, &n, 1) : PB_NONE;
        if (rng_below(&r, 4) == 0) {
            uint32_t width = pb_const(&b, n);
            biases[l] = pb_input(&b, names[inputs], dtype, 1, &width);
            in[inputs] = tensor_of(names[inputs], dtype, random_data(dtype, (size_t)n), 1, &n);
            inputs++;
        }
        hidden[l] =
            l + 1 < layers ? pb_scratch(&b, dtype, (uint32_t)l & 1, 2, (uint32_t[]){rows, pb_const(&b, n)}) : PB_NONE;
        ks[l] = k, ns[l] = n, k = n;
    }
    HypPlan__Linear *s = pb_linear(&b, x, pb_output(&b, "y", dtype, 2, (uint32_t[]){rows, pb_const(&b, n)}), rows);
    for (size_t l = 0; l < layers; l++)
        pb_layer(&b, s, ns[l], ks[l], weights[l], biases[l], (HypPlan__Act)rng_below(&r, 6), hidden[l])->weight_kn =
            kn[l];
    in[0] = tensor_of("x", dtype, random_data(dtype, (size_t)(m * first_k)), 2, (int64_t[]){m, first_k});
    compare_backends(inputs, in, 1, (const char *const[]){"y"}, dtype, (size_t)(m * n), tolerance_of(dtype));
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    pb_dispose(&b);
}

static void linear_agrees_on_odd_sizes(void **state)
{
    (void)state;
    for (int i = 0; i < rounds(60); i++)
        random_linear(HYP_F32, rng_below(&r, 2), PICK(0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25, 64),
                      1 + rng_below(&r, 5));
}

static void linear_agrees_in_half_precision(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) random_linear(i & 1 ? HYP_BF16 : HYP_F16, i & 2, PICK(1, 3, 16), 1 + rng_below(&r, 3));
}

/* Weights large enough that the library takes over from our own kernel. */
static void linear_agrees_where_weights_leave_the_cache(void **state)
{
    (void)state;
    enum { N = 900, K = 600 };
    static const int64_t rows[] = {33, 1, 64, 7, 6};
    pb_init(&b);
    uint32_t batch = pb_symbol(&b, "batch"), x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){batch, pb_const(&b, K)});
    uint32_t w = random_weight(HYP_F32, 2, (int64_t[]){N, K}, K), bias = random_weight(HYP_F32, 1, (int64_t[]){N}, 1);
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){batch, pb_const(&b, N)});
    pb_layer(&b, pb_linear(&b, x, y, batch), N, K, w, bias, HYP_PLAN__ACT__ACT_GELU, PB_NONE);
    hyp_engine *engines[2] = {pb_load(&b, HYP_DEVICE_REFERENCE), pb_load(&b, HYP_DEVICE_CPU)};
    hyp_context *contexts[2] = {NULL, NULL};
    for (int d = 0; d < 2; d++) assert_ok(hyp_context_create(engines[d], NULL, &contexts[d], diag));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float *data = random_data(HYP_F32, (size_t)rows[i] * K), *out[2];
        hyp_tensor in = tensor_of("x", HYP_F32, data, 2, (int64_t[]){rows[i], K});
        for (int d = 0; d < 2; d++) {
            out[d] = random_data(HYP_F32, (size_t)rows[i] * N);
            hyp_tensor result = tensor_of("y", HYP_F32, out[d], 2, (int64_t[]){rows[i], N});
            assert_ok(hyp_context_run(contexts[d], &in, 1, &result, 1, diag));
        }
        assert_close(out[1], out[0], (size_t)rows[i] * N, 5e-6);
        free(data), free(out[0]), free(out[1]);
    }
    for (int d = 0; d < 2; d++) {
        hyp_context_destroy(contexts[d]);
        hyp_engine_destroy(engines[d]);
    }
    pb_dispose(&b);
}

/* As its definition in ONNX does. (oneDNN's does not: docs/runtime-cpu.md.) */
static void relu_of_our_kernel_keeps_nan(void **state)
{
    (void)state;
    pb_init(&b);
    uint32_t one = pb_const(&b, 1), x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){one, pb_const(&b, 40)});
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){one, pb_const(&b, 50)});
    uint32_t w = random_weight(HYP_F32, 2, (int64_t[]){50, 40}, 40);
    pb_layer(&b, pb_linear(&b, x, y, one), 50, 40, w, PB_NONE, HYP_PLAN__ACT__ACT_RELU, PB_NONE);
    hyp_tensor in = tensor_of("x", HYP_F32, random_data(HYP_F32, 40), 2, (int64_t[]){1, 40});
    ((float *)in.data)[3] = NAN;
    compare_backends(1, &in, 1, (const char *const[]){"y"}, HYP_F32, 50, 0);
    free(in.data);
    pb_dispose(&b);
}

/* z = act(x w^T + b + r), or act(x w^T + b) + r. In place: r is a copy of the input, which z replaces. Without fixed
 * weights: they are an input. */
typedef enum adding { ADDS_NOTHING, ADDS_BEFORE, ADDS_IN_PLACE, ADDS_AFTER, ADDINGS } adding;
static void check_added(hyp_dtype dtype, adding adds, bool fixed, int64_t m, int64_t n, int64_t k)
{
    bool f8 = dtype == HYP_F8E4M3;
    hyp_dtype wide = f8 ? HYP_BF16 : dtype; /* of all but x and w */
    pb_init(&b);
    uint32_t rows = pb_symbol(&b, "batch"), shape[2] = {rows, pb_const(&b, n)}, k_dim = pb_const(&b, k);
    uint32_t x = pb_input(&b, "x", dtype, 2, (uint32_t[]){rows, k_dim}), r_in = pb_input(&b, "r", wide, 2, shape);
    uint32_t w = fixed ? random_weight(dtype, 2, (int64_t[]){n, k}, k)
                       : pb_input(&b, "w", dtype, 2, (uint32_t[]){shape[1], k_dim});
    uint32_t bias = rng_below(&r, 2) ? random_weight(wide, 1, &n, 1) : PB_NONE;
    uint32_t z = pb_output(&b, "z", wide, 2, shape), y = z, added = r_in;
    uint32_t elements = pb_dim(&b, HYP_PLAN__DIM__KIND__MUL, shape[0], shape[1]);
    if (adds == ADDS_IN_PLACE) {
        added = pb_scratch(&b, wide, 0, 2, shape);
        y = pb_scratch(&b, wide, 0, 2, shape);
        pb_copy_all(&b, r_in, added, elements);
    }
    HypPlan__Linear *s = pb_linear(&b, x, y, rows);
    HypPlan__Layer *layer = pb_layer(&b, s, n, k, w, bias, (HypPlan__Act)rng_below(&r, 6), PB_NONE);
    layer->x_scale = f8 ? 0.5f : 0;
    layer->weight_scale = f8 ? 0.7f : 0;
    s->added_plus1 = added + 1;
    s->add_after = adds == ADDS_AFTER;
    if (adds == ADDS_IN_PLACE) pb_copy_all(&b, y, z, elements);
    void *data[3] = {random_data(dtype, (size_t)(m * k)), random_data(wide, (size_t)(m * n)),
                     random_data(dtype, (size_t)(n * k))};
    hyp_tensor in[3] = {tensor_of("x", dtype, data[0], 2, (int64_t[]){m, k}),
                        tensor_of("r", wide, data[1], 2, (int64_t[]){m, n}),
                        tensor_of("w", dtype, data[2], 2, (int64_t[]){n, k})};
    compare_backends(fixed ? 2 : 3, in, 1, (const char *const[]){"z"}, wide, (size_t)(m * n), 4 * tolerance_of(wide));
    for (int i = 0; i < 3; i++) free(data[i]);
    pb_dispose(&b);
}

/* By our own kernel, by oneDNN where weights leave the cache or are computed, and in types that only it has. */
static void linear_adds_a_tensor_before_or_after_its_activation(void **state)
{
    (void)state;
    for (int adds = ADDS_BEFORE; adds < ADDINGS; adds++)
        for (int i = 0; i < 4; i++) {
            check_added(HYP_F32, (adding)adds, true, PICK(0, 1, 5, 20), PICK(1, 15, 16, 70), PICK(1, 17, 40));
            check_added(HYP_F32, (adding)adds, true, PICK(33, 64), 900, 600);
            check_added(HYP_F32, (adding)adds, false, PICK(1, 9, 33), PICK(1, 20, 64), PICK(1, 30));
            check_added(i & 1 ? HYP_BF16 : HYP_F16, (adding)adds, true, PICK(1, 16), PICK(3, 32), PICK(1, 30));
            check_added(HYP_F8E4M3, (adding)adds, i < 3, PICK(0, 1, 48, 49, 130), PICK(1, 16, 70), PICK(1, 17, 40));
        }
}

/* Rows enough for several tiles of oneDNN and a rest, through several layers. */
static void linear_agrees_where_rows_are_tiled(void **state)
{
    (void)state;
    enum { M = 700, IN = 40, WIDTH = 800 };
    pb_init(&b);
    uint32_t rows = pb_symbol(&b, "batch"), x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){rows, pb_const(&b, IN)});
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){rows, pb_const(&b, IN)});
    uint32_t hidden[2];
    for (uint32_t i = 0; i < 2; i++) hidden[i] = pb_scratch(&b, HYP_F32, i, 2, (uint32_t[]){rows, pb_const(&b, WIDTH)});
    HypPlan__Linear *s = pb_linear(&b, x, y, rows);
    uint32_t w1 = random_weight(HYP_F32, 2, (int64_t[]){WIDTH, IN}, IN),
             b1 = random_weight(HYP_F32, 1, (int64_t[]){WIDTH}, 1);
    uint32_t w2 = random_weight(HYP_F32, 2, (int64_t[]){WIDTH, WIDTH}, WIDTH),
             w3 = random_weight(HYP_F32, 2, (int64_t[]){IN, WIDTH}, WIDTH);
    pb_layer(&b, s, WIDTH, IN, w1, b1, HYP_PLAN__ACT__ACT_RELU, hidden[0]);
    pb_layer(&b, s, WIDTH, WIDTH, w2, PB_NONE, HYP_PLAN__ACT__ACT_TANH, hidden[1]);
    pb_layer(&b, s, IN, WIDTH, w3, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    hyp_tensor in = tensor_of("x", HYP_F32, random_data(HYP_F32, (size_t)M * IN), 2, (int64_t[]){M, IN});
    compare_backends(1, &in, 1, (const char *const[]){"y"}, HYP_F32, (size_t)M * IN, 5e-6);
    free(in.data);
    pb_dispose(&b);
}

/* Several threads give what one gives. */
static void linear_agrees_with_several_threads(void **state)
{
    (void)state;
    enum { M = 256, SIDE = 640 };
    pb_init(&b);
    uint32_t rows = pb_symbol(&b, "batch"), dims[2] = {rows, pb_const(&b, SIDE)};
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, dims), y = pb_output(&b, "y", HYP_F32, 2, dims);
    uint32_t w = random_weight(HYP_F32, 2, (int64_t[]){SIDE, SIDE}, SIDE);
    pb_layer(&b, pb_linear(&b, x, y, rows), SIDE, SIDE, w, PB_NONE, HYP_PLAN__ACT__ACT_SIGMOID, PB_NONE);
    char path[PB_PATH];
    pb_write(&b, path);
    float *data = random_data(HYP_F32, M * SIDE), *out[4];
    hyp_tensor in = tensor_of("x", HYP_F32, data, 2, (int64_t[]){M, SIDE});
    for (int32_t threads = 0; threads < 4; threads++) {
        hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = threads};
        hyp_engine *engine = NULL;
        hyp_context *context = NULL;
        out[threads] = random_data(HYP_F32, M * SIDE);
        hyp_tensor result = tensor_of("y", HYP_F32, out[threads], 2, (int64_t[]){M, SIDE});
        assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        assert_ok(hyp_context_run(context, &in, 1, &result, 1, diag));
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
    for (int i = 0; i < 4; i++)
        if (i != 1) assert_close(out[i], out[1], M * SIDE, 2e-6);
    for (int i = 0; i < 4; i++) free(out[i]);
    free(data);
    unlink(path);
    pb_dispose(&b);
}

/* One step of every kind that is divided among threads, over sizes that leave odd parts. */
enum { LOOP_ROWS = 301, LOOP_COLUMNS = 517, LOOP_RESULTS = 5 };

static void add_loops(int64_t rows, int64_t columns)
{
    uint32_t shape[2] = {pb_const(&b, rows), pb_const(&b, columns)}, turned[2] = {shape[1], shape[0]};
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, shape), column = random_weight(HYP_F32, 1, (int64_t[]){rows}, 1);
    uint32_t along_rows[2] = {pb_const(&b, columns), pb_const(&b, 1)};
    HypPlan__Pointwise *p = pb_pointwise(&b, HYP_F32, 2, shape);
    pb_operand(&b, p, x, along_rows);
    pb_operand(&b, p, column, pb_consts(&b, 2, (int64_t[]){1, 0}));
    pb_result(&b, p, pb_output(&b, "sum", HYP_F32, 2, shape),
              pb_instr(&b, p, HYP_PLAN__POINTWISE__OP__ADD, 0, 1, 0, 0, HYP_F32));
    HypPlan__Softmax *s = pb_softmax(&b);
    s->x = x, s->y = pb_output(&b, "softmax", HYP_F32, 2, shape);
    s->outer = shape[0], s->axis = shape[1], s->inner = pb_const(&b, 1);
    HypPlan__Copy *c = pb_copy(&b);
    c->x = x, c->y = pb_output(&b, "turned", HYP_F32, 2, turned);
    c->n_extents = c->n_x_strides = c->n_y_strides = 2;
    c->extents = pb_consts(&b, 2, (int64_t[]){columns, rows});
    c->x_strides = pb_consts(&b, 2, (int64_t[]){1, columns});
    c->y_strides = pb_consts(&b, 2, (int64_t[]){rows, 1});
    c->x_offset = c->y_offset = pb_const(&b, 0);
    for (int by_row = 0; by_row < 2; by_row++) {
        HypPlan__Reduce *k = pb_reduce(&b);
        uint32_t *kept = pb_consts(&b, 1, (int64_t[]){by_row ? rows : columns});
        k->kind = HYP_PLAN__REDUCE__KIND__SUM, k->x = x;
        k->y = pb_output(&b, by_row ? "by-row" : "by-column", HYP_F32, 1, kept);
        k->n_kept = k->n_kept_strides = k->n_reduced = k->n_reduced_strides = 1;
        k->kept = kept, k->reduced = pb_consts(&b, 1, (int64_t[]){by_row ? columns : rows});
        k->kept_strides = pb_consts(&b, 1, (int64_t[]){by_row ? columns : 1});
        k->reduced_strides = pb_consts(&b, 1, (int64_t[]){by_row ? 1 : columns});
    }
}

/* To the bit: how a loop is divided changes no sum. */
static void loops_give_the_same_on_several_threads(void **state)
{
    (void)state;
    static const char *const names[LOOP_RESULTS] = {"sum", "softmax", "turned", "by-row", "by-column"};
    static const size_t counts[LOOP_RESULTS] = {LOOP_ROWS * LOOP_COLUMNS, LOOP_ROWS * LOOP_COLUMNS,
                                                LOOP_ROWS * LOOP_COLUMNS, LOOP_ROWS, LOOP_COLUMNS};
    pb_init(&b);
    add_loops(LOOP_ROWS, LOOP_COLUMNS);
    char path[PB_PATH];
    pb_write(&b, path);
    float *data = random_data(HYP_F32, counts[0]), *first[LOOP_RESULTS];
    hyp_tensor in = tensor_of("x", HYP_F32, data, 2, (int64_t[]){LOOP_ROWS, LOOP_COLUMNS});
    for (int32_t threads = 1; threads < 5; threads++) {
        hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = threads};
        hyp_engine *engine = NULL;
        hyp_context *context = NULL;
        hyp_tensor out[LOOP_RESULTS];
        for (int i = 0; i < LOOP_RESULTS; i++)
            out[i] = tensor_of(names[i], HYP_F32, random_data(HYP_F32, counts[i]), 1, (int64_t[]){(int64_t)counts[i]});
        assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        for (int again = 0; again < 2; again++) assert_ok(hyp_context_run(context, &in, 1, out, LOOP_RESULTS, diag));
        for (int i = 0; i < LOOP_RESULTS; i++) {
            if (threads == 1) {
                first[i] = out[i].data;
                continue;
            }
            assert_memory_equal(out[i].data, first[i], counts[i] * sizeof(float));
            free(out[i].data);
        }
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
    hyp_tensor reference = tensor_of("x", HYP_F32, data, 2, (int64_t[]){LOOP_ROWS, LOOP_COLUMNS});
    compare_backends(1, &reference, LOOP_RESULTS, names, HYP_F32, counts[0], 1e-5);
    for (int i = 0; i < LOOP_RESULTS; i++) free(first[i]);
    free(data);
    unlink(path);
    pb_dispose(&b);
}

static void linear_takes_weights_that_are_inputs(void **state)
{
    (void)state;
    pb_init(&b);
    uint32_t dim[3] = {pb_const(&b, 9), pb_const(&b, 20), pb_const(&b, 30)}; /* m, n, k */
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){dim[0], dim[2]});
    uint32_t w = pb_input(&b, "w", HYP_F32, 2, (uint32_t[]){dim[1], dim[2]}),
             bias = pb_input(&b, "b", HYP_F32, 1, &dim[1]);
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){dim[0], dim[1]});
    pb_layer(&b, pb_linear(&b, x, y, dim[0]), 20, 30, w, bias, HYP_PLAN__ACT__ACT_RELU, PB_NONE);
    float *data[3] = {random_data(HYP_F32, 270), random_data(HYP_F32, 600), random_data(HYP_F32, 20)};
    hyp_tensor in[3] = {tensor_of("x", HYP_F32, data[0], 2, (int64_t[]){9, 30}),
                        tensor_of("w", HYP_F32, data[1], 2, (int64_t[]){20, 30}),
                        tensor_of("b", HYP_F32, data[2], 1, (int64_t[]){20})};
    compare_backends(3, in, 1, (const char *const[]){"y"}, HYP_F32, 180, 5e-6);
    for (int i = 0; i < 3; i++) free(data[i]);
    pb_dispose(&b);
}

/* Packs as hyp_mlp_layer says and compares with sums in double, for row counts that reach every tile. What is added:
 * nothing, a tensor before the activation, what y holds, a tensor after the activation. */
static void check_mlp(const hyp_cpu_kernels *k, int64_t m, adding adds)
{
    enum { LAYERS = 3, MOST = 160 };
    const int64_t sizes[LAYERS + 1] = {37, 1 + (int64_t)rng_below(&r, MOST), 1 + (int64_t)rng_below(&r, MOST),
                                       1 + (int64_t)rng_below(&r, 40)};
    hyp_mlp_layer layers[LAYERS];
    float *x = random_data(HYP_F32, (size_t)(m * sizes[0])), *y = random_data(HYP_F32, (size_t)(m * sizes[LAYERS]));
    float *added = adds ? random_data(HYP_F32, (size_t)(m * sizes[LAYERS])) : NULL;
    if (adds == ADDS_IN_PLACE) memcpy(y, added, (size_t)(m * sizes[LAYERS]) * sizeof *y);
    double *want = calloc((size_t)(m * sizes[0]), sizeof *want);
    for (int64_t i = 0; i < m * sizes[0]; i++) want[i] = (double)x[i];
    int64_t panel = (int64_t)k->panel * k->width;
    for (int l = 0; l < LAYERS; l++) {
        int64_t n = sizes[l + 1], depth = sizes[l], room = (n + 15) / 16 * 16;
        float *w = random_data(HYP_F32, (size_t)(n * depth)), *bias = aligned_alloc(64, (size_t)room * sizeof *bias);
        float *packed = aligned_alloc(64, (size_t)(room * depth) * sizeof *packed), *at = packed;
        for (int64_t j = 0; j < n * depth; j++) w[j] /= sqrtf((float)depth);
        for (int64_t j = 0; j < room; j++) bias[j] = j < n ? 0.25f * (float)(j % 3) : 0;
        for (int64_t first = 0; first < n; first += panel) {
            int64_t columns = n - first < panel ? n - first : panel,
                    stride = (columns + k->width - 1) / k->width * k->width;
            for (int64_t i = 0; i < depth; i++, at += stride)
                for (int64_t j = 0; j < stride; j++) at[j] = j < columns ? w[(first + j) * depth + i] : 0;
        }
        bool last = l + 1 == LAYERS;
        HypPlan__Act act = last && m % 2 ? HYP_PLAN__ACT__ACT_TANH : HYP_PLAN__ACT__ACT_RELU;
        layers[l] = (hyp_mlp_layer){n, depth, packed, bias, {.op = hyp_plan_act_op(act), .to = HYP_F32}};
        double *next = calloc((size_t)m * (size_t)n, sizeof *next);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = (double)bias[j];
                for (int64_t d = 0; d < depth; d++) sum += want[i * depth + d] * (double)w[j * depth + d];
                if (last && added && adds != ADDS_AFTER) sum += (double)added[i * n + j];
                next[i * n + j] = act == HYP_PLAN__ACT__ACT_RELU ? fmax(sum, 0) : tanh(sum);
                if (last && adds == ADDS_AFTER) next[i * n + j] += (double)added[i * n + j];
            }
        free(want), free(w);
        want = next;
    }
    hyp_mlp mlp = {layers, LAYERS, MOST, adds == ADDS_AFTER, NULL};
    float *hidden = aligned_alloc(64, 2 * HYP_MLP_ROWS * MOST * sizeof *hidden);
    k->mlp(&mlp, m, x, adds == ADDS_IN_PLACE ? y : added, y, hidden);
    for (int64_t i = 0; i < m * sizes[LAYERS]; i++)
        if (fabs((double)y[i] - want[i]) > 3e-6)
            fail_msg("%s, %lld rows, %d: element %lld", k->isa, (long long)m, (int)adds, (long long)i);
    for (int l = 0; l < LAYERS; l++)
        free((void *)(uintptr_t)layers[l].weights), free((void *)(uintptr_t)layers[l].bias);
    free(x), free(y), free(added), free(want), free(hidden);
}

static void multi_layer_kernel_is_right_on_every_instruction_set(void **state)
{
    (void)state;
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    enum { MOST = 2 * HYP_MLP_ROWS + 5, SINGLE = 24 }; /* one row often: blocks of panels, and what is left */
    for (size_t i = 0; list[i]; i++)
        for (int64_t m = 1; m <= MOST + SINGLE; m++)
            check_mlp(list[i], m <= MOST ? m : 1, (adding)((m <= MOST ? m / 2 : m) % ADDINGS));
}

/* ---- matmul ------------------------------------------------------------------------------------------------ */

static void matmul_agrees_on_random_shapes(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(40); round++) {
        pb_init(&b);
        size_t batch_rank = rng_below(&r, 4);
        int64_t batch[3], a_strides[3], b_strides[3], m = PICK(1, 2, 17), n = PICK(1, 5, 16, 33), k = PICK(0, 1, 4, 31);
        int64_t a_count = m * k, b_count = k * n, y_count = m * n;
        for (size_t a = batch_rank; a-- > 0;) {
            batch[a] = PICK(1, 2, 3);
            bool a_broadcast = rng_below(&r, 3) == 0, b_broadcast = rng_below(&r, 3) == 0;
            a_strides[a] = a_broadcast ? 0 : a_count;
            b_strides[a] = b_broadcast ? 0 : b_count;
            if (!a_broadcast) a_count *= batch[a];
            if (!b_broadcast) b_count *= batch[a];
            y_count *= batch[a];
        }
        int64_t y_dims[5];
        memcpy(y_dims, batch, batch_rank * sizeof *batch);
        y_dims[batch_rank] = m, y_dims[batch_rank + 1] = n;
        HypPlan__Matmul *s = pb_matmul(&b);
        s->a = pb_input(&b, "a", HYP_F32, 1, pb_consts(&b, 1, &a_count));
        s->b = pb_input(&b, "b", HYP_F32, 1, pb_consts(&b, 1, &b_count));
        s->y = pb_output(&b, "y", HYP_F32, batch_rank + 2, pb_consts(&b, batch_rank + 2, y_dims));
        s->n_batch = s->n_a_strides = s->n_b_strides = batch_rank;
        s->batch = pb_consts(&b, batch_rank, batch);
        s->a_strides = pb_consts(&b, batch_rank, a_strides), s->b_strides = pb_consts(&b, batch_rank, b_strides);
        s->m = pb_const(&b, m), s->n = pb_const(&b, n), s->k = pb_const(&b, k);
        s->trans_a = rng_below(&r, 2) != 0, s->trans_b = rng_below(&r, 2) != 0;
        s->alpha = rng_below(&r, 2) ? 1.0f : 0.125f;
        float *data[2] = {random_data(HYP_F32, (size_t)a_count), random_data(HYP_F32, (size_t)b_count)};
        hyp_tensor in[2] = {tensor_of("a", HYP_F32, data[0], 1, &a_count),
                            tensor_of("b", HYP_F32, data[1], 1, &b_count)};
        compare_backends(2, in, 1, (const char *const[]){"y"}, HYP_F32, (size_t)y_count, 5e-6);
        free(data[0]), free(data[1]);
        pb_dispose(&b);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------- */

#define ATTENTION_SCALE 0.7

typedef struct attended {
    int64_t batch, heads, rows, keys, width, columns;
    int mask;   /* none, numbers, bools, bools for what is seen */
    bool whole; /* the mask has an element for every score, else one for every key */
} attended;

/* q, k, v are [batch, length, heads, width], or [batch, heads, width, length]; v begins at its second row of heads. The result is
 * [batch, rows, heads, columns], [batch, heads, rows, columns], or [batch, heads, columns, rows]. */
static void build_attention(const attended *a)
{
    int64_t n = a->heads, all = a->batch * n * a->rows * a->keys;
    int64_t q = a->batch * a->rows * n * a->width, k = a->batch * a->keys * n * a->width;
    int64_t v = (a->batch * a->keys + 1) * n * a->columns, y = a->batch * n * a->rows * a->columns;
    int64_t mask = a->whole ? all : a->batch * a->keys;
    bool heads_first = rng_below(&r, 2), turns = a->width * a->keys > 0, keys_last = turns && rng_below(&r, 2);
    bool rows_last[3]; /* of q, v and y */
    for (int i = 0; i < 3; i++) rows_last[i] = turns && rng_below(&r, 3) == 0;
    pb_init(&b);
    HypPlan__Attention *s = pb_attention(&b);
    s->n_batch = 2, s->batch = pb_consts(&b, 2, (int64_t[]){a->batch, n});
    s->rows = pb_const(&b, a->rows), s->keys = pb_const(&b, a->keys);
    s->width = pb_const(&b, a->width), s->columns = pb_const(&b, a->columns);
    s->scale = (float)ATTENTION_SCALE, s->fill = -2.5f, s->shown = a->mask == 3;
    const int64_t q_rows[] = {a->rows * n * a->width, a->width, n * a->width, 1};
    const int64_t q_columns[] = {a->rows * n * a->width, a->rows * a->width, 1, a->rows};
    s->q = pb_attended(&b, pb_input(&b, "q", HYP_F32, 1, pb_consts(&b, 1, &q)), 4, rows_last[0] ? q_columns : q_rows, 0);
    const int64_t k_rows[] = {a->keys * n * a->width, a->width, n * a->width, 1};
    const int64_t k_columns[] = {a->keys * n * a->width, a->keys * a->width, 1, a->keys};
    s->k = pb_attended(&b, pb_input(&b, "k", HYP_F32, 1, pb_consts(&b, 1, &k)), 4, keys_last ? k_columns : k_rows, 0);
    const int64_t v_rows[] = {a->keys * n * a->columns, a->columns, n * a->columns, 1};
    const int64_t v_columns[] = {a->keys * n * a->columns, a->keys * a->columns, 1, a->keys};
    s->v = pb_attended(&b, pb_input(&b, "v", HYP_F32, 1, pb_consts(&b, 1, &v)), 4, rows_last[1] ? v_columns : v_rows,
                       n * a->columns);
    const int64_t whole[] = {n * a->rows * a->keys, a->rows * a->keys, a->keys, 1}, some[] = {a->keys, 0, 0, 1};
    if (a->mask)
        s->mask = pb_attended(&b, pb_input(&b, "mask", a->mask == 1 ? HYP_F32 : HYP_BOOL, 1, pb_consts(&b, 1, &mask)),
                              4, a->whole ? whole : some, 0);
    const int64_t by_row[] = {a->rows * n * a->columns, a->columns, n * a->columns, 1};
    const int64_t by_head[] = {a->rows * n * a->columns, a->rows * a->columns, a->columns, 1};
    const int64_t by_column[] = {a->rows * n * a->columns, a->rows * a->columns, 1, a->rows};
    s->y = pb_attended(&b, pb_output(&b, "y", HYP_F32, 1, pb_consts(&b, 1, &y)), 4,
                       rows_last[2]  ? by_column
                       : heads_first ? by_head
                                     : by_row,
                       0);
}

static size_t attention_inputs(const attended *a, hyp_tensor in[4])
{
    int64_t sizes[] = {a->batch * a->rows * a->heads * a->width, a->batch * a->keys * a->heads * a->width,
                       (a->batch * a->keys + 1) * a->heads * a->columns,
                       a->whole ? a->batch * a->heads * a->rows * a->keys : a->batch * a->keys};
    static const char *const names[] = {"q", "k", "v", "mask"};
    size_t count = a->mask ? 4 : 3;
    for (size_t i = 0; i < count; i++) {
        hyp_dtype t = i == 3 && a->mask > 1 ? HYP_BOOL : HYP_F32;
        in[i] = tensor_of(names[i], t, random_data(t, (size_t)sizes[i]), 1, &sizes[i]);
    }
    return count;
}

static void check_attention(const attended *a)
{
    hyp_tensor in[4];
    build_attention(a);
    size_t inputs = attention_inputs(a, in), results = (size_t)(a->batch * a->heads * a->rows * a->columns);
    compare_backends(inputs, in, 1, (const char *const[]){"y"}, HYP_F32, results, 5e-6);
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    pb_dispose(&b);
}

static void attention_agrees_on_random_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < rounds(60); i++)
        check_attention(&(attended){PICK(1, 2), PICK(1, 2, 3), PICK(1, 2, 17, 70), PICK(1, 3, 16, 33, 100),
                                    PICK(0, 1, 4, 31), PICK(1, 5, 16), (int)rng_below(&r, 4), rng_below(&r, 2)});
    check_attention(&(attended){0, 2, 3, 4, 5, 6, 1, true});
    check_attention(&(attended){1, 2, 3, 0, 5, 6, 1, true});
}

/* Several blocks of rows, the last one shorter: 65536 scores are a block at most. */
static void attention_agrees_on_blocks(void **state)
{
    (void)state;
    check_attention(&(attended){1, 1, 131, 1000, 8, 8, 1, true});
    check_attention(&(attended){1, 2, 70, 3000, 4, 4, 2, false});
    check_attention(&(attended){2, 1, 1, 5000, 4, 4, 3, false});
}

/* A row for each head, with keys that are there before and some behind them: k and v [heads, first, width], then [heads, more,
 * width]. */
static void attention_agrees_on_keys_in_two_parts(void **state)
{
    (void)state;
    enum { HEADS = 3, WIDTH = 20, COLUMNS = 24 };
    static const int64_t parts[][2] = {{1, 1}, {31, 2}, {63, 1}, {64, 70}, {200, 1}, {5, 130}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const int64_t first = parts[i][0], more = parts[i][1];
        const int64_t sizes[] = {HEADS * WIDTH, HEADS * first * WIDTH, HEADS * first * COLUMNS, HEADS * more * WIDTH,
                                 HEADS * more * COLUMNS, HEADS * COLUMNS, first + more};
        static const char *const names[] = {"q", "k", "v", "more_k", "more_v", "y", "mask"};
        HypPlan__Attention__Operand *made[7];
        hyp_tensor in[6];
        pb_init(&b);
        HypPlan__Attention *s = pb_attention(&b);
        s->n_batch = 1, s->batch = pb_consts(&b, 1, (int64_t[]){HEADS});
        s->rows = pb_const(&b, 1), s->keys = pb_const(&b, first + more);
        s->width = pb_const(&b, WIDTH), s->columns = pb_const(&b, COLUMNS);
        s->first_keys = pb_const(&b, first), s->more_keys = pb_const(&b, more);
        s->scale = (float)ATTENTION_SCALE;
        for (int o = 0; o < 7; o++) {
            const int64_t width = o == 0 || o == 1 || o == 3 ? WIDTH : COLUMNS;
            const int64_t by_head[] = {sizes[o] / HEADS, width, 1}, of_keys[] = {0, 0, 1};
            uint32_t *dims = pb_consts(&b, 1, &sizes[o]);
            uint32_t t = o == 5 ? pb_output(&b, names[o], HYP_F32, 1, dims) : pb_input(&b, names[o], HYP_F32, 1, dims);
            made[o] = pb_attended(&b, t, 3, o == 6 ? of_keys : by_head, 0);
            if (o != 5) in[o < 5 ? o : 5] = tensor_of(names[o], HYP_F32, random_data(HYP_F32, (size_t)sizes[o]), 1, &sizes[o]);
        }
        s->q = made[0], s->k = made[1], s->v = made[2], s->more_k = made[3], s->more_v = made[4], s->y = made[5];
        s->mask = made[6];
        compare_backends(6, in, 1, (const char *const[]){"y"}, HYP_F32, HEADS * COLUMNS, 5e-6);
        for (int o = 0; o < 6; o++) free(in[o].data);
        pb_dispose(&b);
    }
}

/* What is infinite or NaN in q, in a mask, or in v spoils what it is to and nothing else. */
static void attention_passes_special_values_on(void **state)
{
    (void)state;
    const attended a = {1, 2, 21, 19, 8, 8, 1, true};
    hyp_tensor in[4];
    build_attention(&a);
    size_t inputs = attention_inputs(&a, in);
    float *q = in[0].data, *mask = in[3].data;
    q[5] = INFINITY;
    q[77] = NAN;
    for (int i = 0; i < 19; i++) mask[40 * 19 / 2 + i] = -INFINITY;
    mask[3] = -INFINITY;
    ((float *)in[2].data)[200] = NAN;
    compare_backends(inputs, in, 1, (const char *const[]){"y"}, HYP_F32, 2 * 21 * 8, 5e-6);
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    pb_dispose(&b);
}

/* What rounding can do to a sum of n terms in F32 in any order, as a part of the sum of their absolute values. */
static double rounding(int64_t n) { return (double)n * 0x1p-24 / (1 - (double)n * 0x1p-24); }

/* Runs the builder's plan, with one output y, on 1 to 4 threads. The number of threads chooses kernels, which add in
 * different orders: errors[i] is what rounding can do to y[i] in any of them. */
static void check_threads(hyp_tensor *in, size_t inputs, int64_t results, const double *errors)
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

static void attention_agrees_with_several_threads(void **state)
{
    (void)state;
    const attended a = {1, 3, 150, 300, 64, 64, 2, true};
    hyp_tensor in[4];
    build_attention(&a);
    size_t inputs = attention_inputs(&a, in);
    /* All numbers are below 1. A score is a scaled sum of `width` products; its error reaches a weight and the sum that
     * the weight is divided by. Results are weighted means over the keys. */
    int64_t results = a.batch * a.heads * a.rows * a.columns;
    double *errors = calloc((size_t)results, sizeof *errors);
    assert_non_null(errors);
    for (int64_t i = 0; i < results; i++)
        errors[i] = 2 * rounding(a.width) * ATTENTION_SCALE * (double)a.width + 2 * rounding(a.keys + 16);
    check_threads(in, inputs, results, errors);
    free(errors);
}

/* A number and what rounding can do to it. */
typedef struct inexact {
    double value, error;
} inexact;

/* act(x). GELU is steeper than 1 by less than an eighth; the kernels' own are good to 16 units in the last place of the
 * larger of 1 and its argument. */
static inexact activated(inexact x, HypPlan__Act act)
{
    if (act == HYP_PLAN__ACT__ACT_RELU) return (inexact){fmax(x.value, 0), x.error};
    double y = x.value * 0.5 * erfc(-x.value * sqrt(0.5));
    return (inexact){y, 1.125 * x.error + 0x1p-20 * fmax(1, fabs(x.value))};
}

static inexact inner_product(const inexact *x, const float *w, int64_t k, double added)
{
    double sum = added, absolute = fabs(added), error = 0;
    for (int64_t i = 0; i < k; i++) {
        double term = x[i].value * (double)w[i];
        sum += term;
        absolute += fabs(term);
        error += x[i].error * fabs((double)w[i]);
    }
    return (inexact){sum, error + rounding(k + 1) * (absolute + error)};
}

/* errors[m,n]: of x through two layers, where `added` comes before or after the last activation. */
static void bound_layers(int64_t m, const int64_t sizes[3], const float *const weights[2], const HypPlan__Act acts[2],
                         const float *x, const float *added, bool after, double *errors)
{
    inexact *in = calloc((size_t)(sizes[0] + sizes[1]), sizeof *in), *hidden = in + sizes[0];
    assert_non_null(in);
    for (int64_t row = 0; row < m; row++) {
        for (int64_t i = 0; i < sizes[0]; i++) in[i] = (inexact){(double)x[row * sizes[0] + i], 0};
        for (int64_t j = 0; j < sizes[1]; j++)
            hidden[j] = activated(inner_product(in, weights[0] + j * sizes[0], sizes[0], 0), acts[0]);
        for (int64_t j = 0; j < sizes[2]; j++) {
            double more = (double)added[row * sizes[2] + j];
            inexact y =
                activated(inner_product(hidden, weights[1] + j * sizes[1], sizes[1], after ? 0 : more), acts[1]);
            errors[row * sizes[2] + j] = y.error + rounding(1) * (fabs(y.value) + y.error + fabs(more));
        }
    }
    free(in);
}

/* Layers wide enough for several threads; the last one ends within a panel, and a tensor is added to it. */
static void layers_agree_with_several_threads(void **state)
{
    (void)state;
    enum { IN = 700, HIDDEN = 1030, OUT = 517 };
    static const HypPlan__Act acts[] = {HYP_PLAN__ACT__ACT_RELU, HYP_PLAN__ACT__ACT_GELU};
    for (int64_t m = 1; m < 100; m = m * 5 + 4) /* 1, 9, 49: our own kernel and the library's */
        for (int after = 0; after < 2; after++) {
            const int64_t x_dims[] = {m, IN}, y_dims[] = {m, OUT}, w1[] = {HIDDEN, IN}, w2[] = {OUT, HIDDEN};
            int64_t x_count = m * IN, y_count = m * OUT;
            float *first = random_data(HYP_F32, HIDDEN * IN), *second = random_data(HYP_F32, OUT * HIDDEN);
            pb_init(&b);
            uint32_t x = pb_input(&b, "x", HYP_F32, 2, pb_consts(&b, 2, x_dims));
            uint32_t added = pb_input(&b, "added", HYP_F32, 2, pb_consts(&b, 2, y_dims));
            uint32_t y = pb_output(&b, "y", HYP_F32, 2, pb_consts(&b, 2, y_dims));
            HypPlan__Linear *s = pb_linear(&b, x, y, pb_const(&b, m));
            const int64_t hidden[] = {m, HIDDEN};
            pb_layer(&b, s, HIDDEN, IN, pb_weight(&b, HYP_F32, 2, w1, first), PB_NONE, acts[after],
                     pb_scratch(&b, HYP_F32, 0, 2, pb_consts(&b, 2, hidden)));
            pb_layer(&b, s, OUT, HIDDEN, pb_weight(&b, HYP_F32, 2, w2, second), PB_NONE, acts[!after], PB_NONE);
            s->added_plus1 = added + 1;
            s->add_after = after;
            hyp_tensor in[] = {tensor_of("x", HYP_F32, random_data(HYP_F32, (size_t)x_count), 2, x_dims),
                               tensor_of("added", HYP_F32, random_data(HYP_F32, (size_t)y_count), 2, y_dims)};
            double *errors = calloc((size_t)y_count, sizeof *errors);
            assert_non_null(errors);
            bound_layers(m, (int64_t[]){IN, HIDDEN, OUT}, (const float *const[]){first, second},
                         (HypPlan__Act[]){acts[after], acts[!after]}, in[0].data, in[1].data, after, errors);
            check_threads(in, 2, y_count, errors);
            free(errors);
            free(first);
            free(second);
        }
}

/* ---- elementwise and movement -------------------------------------------------------------------------------- */

/* Random extents of a random rank with at most `most` elements. */
static size_t random_extents(size_t max_rank, int64_t most, int64_t *extents, int64_t *count)
{
    size_t rank = rng_below(&r, max_rank + 1);
    *count = 1;
    for (size_t a = 0; a < rank; a++) {
        extents[a] = PICK(1, 2, 3, 5, 7, 24, 300);
        if (*count * extents[a] > most) extents[a] = 1;
        *count *= extents[a];
    }
    return rank;
}

static void dense_strides(size_t rank, const int64_t *extents, int64_t *strides)
{
    int64_t step = 1;
    for (size_t a = rank; a-- > 0; step *= extents[a]) strides[a] = step;
}

static void pointwise_agrees_on_random_programs(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        hyp_dtype dtype = (hyp_dtype)PICK(HYP_F32, HYP_F32, HYP_BF16, HYP_F16, HYP_F64);
        int64_t extents[8], strides[3][8], count;
        size_t rank = random_extents(HYP_MAX_RANK, 3000, extents, &count), inputs = 1 + rng_below(&r, 3);
        uint32_t *dims = pb_consts(&b, rank, extents), tensors[3];
        hyp_tensor in[3];
        static const char *const names[] = {"a", "b", "c"};
        for (size_t i = 0; i < inputs; i++) { /* each operand is dense over the axes where it is not broadcast */
            int64_t have[8], own = 1;
            for (size_t a = 0; a < rank; a++) have[a] = i && rng_below(&r, 3) == 0 ? 1 : extents[a];
            dense_strides(rank, have, strides[i]);
            for (size_t a = 0; a < rank; a++) {
                own *= have[a];
                if (have[a] != extents[a]) strides[i][a] = 0;
            }
            tensors[i] = pb_input(&b, names[i], dtype, rank, pb_consts(&b, rank, have));
            in[i] = tensor_of(names[i], dtype, random_data(dtype, (size_t)own), rank, have);
        }
        bool both = rng_below(&r, 2) == 0;
        uint32_t y = pb_output(&b, "y", dtype, rank, dims), z = both ? pb_output(&b, "z", dtype, rank, dims) : y;
        hyp_dtype compute = dtype == HYP_F64 ? HYP_F64 : HYP_F32;
        HypPlan__Pointwise *s = pb_pointwise(&b, compute, rank, dims);
        for (size_t i = 0; i < inputs; i++) pb_operand(&b, s, tensors[i], pb_consts(&b, rank, strides[i]));
        uint32_t last = 0;
        for (size_t i = 0, n = 1 + rng_below(&r, 6); i < n; i++) {
            static const HypPlan__Pointwise__Op ops[] = {
                HYP_PLAN__POINTWISE__OP__ADD,        HYP_PLAN__POINTWISE__OP__SUB,
                HYP_PLAN__POINTWISE__OP__MUL,        HYP_PLAN__POINTWISE__OP__MIN,
                HYP_PLAN__POINTWISE__OP__MAX,        HYP_PLAN__POINTWISE__OP__RELU,
                HYP_PLAN__POINTWISE__OP__LEAKY_RELU, HYP_PLAN__POINTWISE__OP__SIGMOID,
                HYP_PLAN__POINTWISE__OP__TANH,       HYP_PLAN__POINTWISE__OP__GELU,
                HYP_PLAN__POINTWISE__OP__GELU_TANH,  HYP_PLAN__POINTWISE__OP__ERF,
                HYP_PLAN__POINTWISE__OP__CLIP,       HYP_PLAN__POINTWISE__OP__CONST,
                HYP_PLAN__POINTWISE__OP__ABS,        HYP_PLAN__POINTWISE__OP__NEG,
                HYP_PLAN__POINTWISE__OP__SIN,        HYP_PLAN__POINTWISE__OP__COS,
                HYP_PLAN__POINTWISE__OP__ATAN,       HYP_PLAN__POINTWISE__OP__ASINH,
                HYP_PLAN__POINTWISE__OP__SOFTPLUS,   HYP_PLAN__POINTWISE__OP__ELU,
                HYP_PLAN__POINTWISE__OP__SILU,       HYP_PLAN__POINTWISE__OP__QUICK_GELU,
                HYP_PLAN__POINTWISE__OP__HARD_SWISH, HYP_PLAN__POINTWISE__OP__MISH};
            uint32_t known = (uint32_t)(inputs + i), operand = (uint32_t)rng_below(&r, known);
            last = pb_instr(&b, s, ops[rng_below(&r, sizeof ops / sizeof *ops)], last, operand, -0.5, 0.75,
                            compute == HYP_F32 ? dtype : HYP_F64);
        }
        pb_result(&b, s, y, last);
        if (both) pb_result(&b, s, z, (uint32_t)rng_below(&r, last + 1));
        compare_backends(inputs, in, both ? 2 : 1, (const char *const[]){"y", "z"}, dtype, (size_t)count,
                         dtype == HYP_BF16  ? 0.05
                         : dtype == HYP_F16 ? 0.005
                                            : 1e-5);
        for (size_t i = 0; i < inputs; i++) free(in[i].data);
        pb_dispose(&b);
    }
}

/* y = c(x) ? x : 3 where c compares x with 0, of tensors of every type. */
static void comparisons_and_choices_agree_in_every_type(void **state)
{
    (void)state;
    static const HypPlan__Pointwise__Op ops[] = {HYP_PLAN__POINTWISE__OP__EQUAL, HYP_PLAN__POINTWISE__OP__LESS,
                                                 HYP_PLAN__POINTWISE__OP__LESS_EQUAL};
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I64, HYP_I32, HYP_I16,
                                      HYP_I8,  HYP_U64, HYP_U32,  HYP_U16, HYP_U8,  HYP_BOOL};
    const int64_t count = 300, one = 1;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int wide = 0; wide < 2; wide++) {
                hyp_dtype dtype = types[t];
                bool real = hyp_dtype_is_float(dtype), small = hyp_dtype_size(dtype) < 4;
                if (!wide && !small && dtype != HYP_F32) continue; /* f32 does not hold all elements */
                pb_init(&b);
                uint32_t *dims = pb_consts(&b, 1, &count), *ones = pb_consts(&b, 1, &one);
                uint32_t x = pb_input(&b, "x", dtype, 1, dims), y = pb_output(&b, "y", dtype, 1, dims);
                HypPlan__Pointwise *s = pb_pointwise(&b,
                                                     !wide              ? HYP_F32
                                                     : real             ? HYP_F64
                                                     : dtype == HYP_U64 ? HYP_U64
                                                                        : HYP_I64,
                                                     1, dims);
                pb_operand(&b, s, x, ones);
                uint32_t three = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, 3, 0, dtype);
                uint32_t zero = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, 0, 0, dtype);
                uint32_t flag = pb_instr(&b, s, ops[o], 0, zero, 0, 0, HYP_BOOL);
                uint32_t opposite = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__NOT, flag, 0, 0, 0, HYP_BOOL);
                uint32_t choice = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__WHERE, opposite, 0, 0, 0, dtype);
                s->instrs[choice - 1]->c = three;
                pb_result(&b, s, y, choice);
                hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), 1, &count);
                compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)count, 0);
                free(in.data);
                pb_dispose(&b);
            }
}

static void softmax_agrees_on_random_shapes(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        int64_t dims[3] = {PICK(0, 1, 3, 16, 37), PICK(1, 2, 7, 10, 16, 100), PICK(1, 1, 2, 15, 40)},
                count = dims[0] * dims[1] * dims[2];
        hyp_dtype dtype = rng_below(&r, 4) ? HYP_F32 : HYP_BF16;
        uint32_t *d = pb_consts(&b, 3, dims);
        HypPlan__Softmax *s = pb_softmax(&b);
        s->x = pb_input(&b, "x", dtype, 3, d), s->y = pb_output(&b, "y", dtype, 3, d);
        s->outer = d[0], s->axis = d[1], s->inner = d[2];
        hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), 3, dims);
        compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)count, dtype == HYP_F32 ? 1e-6 : 0.01);
        free(in.data);
        pb_dispose(&b);
    }
}

static void gradients_of_softmax_agree_on_random_shapes(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(30); round++) {
        pb_init(&b);
        int64_t dims[3] = {PICK(0, 1, 3), PICK(1, 2, 10, 16, 100), PICK(1, 1, 2, 15, 300)},
                count = dims[0] * dims[1] * dims[2];
        hyp_dtype dtype = rng_below(&r, 4) ? HYP_F32 : HYP_BF16;
        uint32_t *d = pb_consts(&b, 3, dims), in[2] = {pb_input(&b, "y", dtype, 3, d), pb_input(&b, "g", dtype, 3, d)};
        pb_call_int(&b, pb_call(&b, "softmax-gradient", 2, in, pb_output(&b, "z", dtype, 3, d)), 1);
        hyp_tensor x[2] = {tensor_of("y", dtype, random_data(dtype, (size_t)count), 3, dims),
                           tensor_of("g", dtype, random_data(dtype, (size_t)count), 3, dims)};
        compare_backends(2, x, 1, (const char *const[]){"z"}, dtype, (size_t)count, dtype == HYP_F32 ? 1e-5 : 0.01);
        free(x[0].data);
        free(x[1].data);
        pb_dispose(&b);
    }
}

static void reduce_agrees_on_random_axes(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        hyp_dtype dtype = rng_below(&r, 4) ? HYP_F32 : HYP_I32;
        int64_t extents[8], strides[8], count, kept[8], kept_strides[8], reduced[8], reduced_strides[8], results = 1;
        size_t rank = random_extents(HYP_MAX_RANK, 20000, extents, &count), n_kept = 0, n_reduced = 0;
        dense_strides(rank, extents, strides);
        for (size_t a = 0; a < rank; a++) {
            if (rng_below(&r, 2)) {
                kept[n_kept] = extents[a], kept_strides[n_kept++] = strides[a];
                results *= extents[a];
            } else {
                reduced[n_reduced] = extents[a], reduced_strides[n_reduced++] = strides[a];
            }
        }
        HypPlan__Reduce *s = pb_reduce(&b);
        s->kind = dtype == HYP_F32 && rng_below(&r, 2) ? HYP_PLAN__REDUCE__KIND__MEAN : HYP_PLAN__REDUCE__KIND__SUM;
        s->x = pb_input(&b, "x", dtype, rank, pb_consts(&b, rank, extents));
        s->y = pb_output(&b, "y", dtype, n_kept, pb_consts(&b, n_kept, kept));
        s->n_kept = s->n_kept_strides = n_kept, s->n_reduced = s->n_reduced_strides = n_reduced;
        s->kept = pb_consts(&b, n_kept, kept), s->kept_strides = pb_consts(&b, n_kept, kept_strides);
        s->reduced = pb_consts(&b, n_reduced, reduced), s->reduced_strides = pb_consts(&b, n_reduced, reduced_strides);
        hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), rank, extents);
        compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)results, 1e-5);
        free(in.data);
        pb_dispose(&b);
    }
}

/* A random permutation with some axes backwards. */
static void copy_agrees_on_random_permutations(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        hyp_dtype dtype = (hyp_dtype)PICK(HYP_F32, HYP_U8, HYP_F16, HYP_F64);
        int64_t y_dims[8], x_dims[8], strides[8], x_strides[8], y_strides[8], count, offset = 0;
        size_t rank = random_extents(HYP_MAX_RANK, 20000, y_dims, &count), perm[8] = {0};
        for (size_t a = 0; a < rank; a++) {
            size_t at = rng_below(&r, a + 1);
            perm[a] = perm[at], perm[at] = a;
        }
        for (size_t a = 0; a < rank; a++) x_dims[perm[a]] = y_dims[a];
        dense_strides(rank, x_dims, strides);
        dense_strides(rank, y_dims, y_strides);
        for (size_t a = 0; a < rank; a++) {
            bool back = rng_below(&r, 4) == 0;
            x_strides[a] = back ? -strides[perm[a]] : strides[perm[a]];
            if (back) offset += (y_dims[a] - 1) * strides[perm[a]];
        }
        HypPlan__Copy *s = pb_copy(&b);
        s->x = pb_input(&b, "x", dtype, rank, pb_consts(&b, rank, x_dims));
        s->y = pb_output(&b, "y", dtype, rank, pb_consts(&b, rank, y_dims));
        s->n_extents = s->n_x_strides = s->n_y_strides = rank;
        s->extents = pb_consts(&b, rank, y_dims);
        s->x_strides = pb_consts(&b, rank, x_strides), s->y_strides = pb_consts(&b, rank, y_strides);
        s->x_offset = pb_const(&b, offset), s->y_offset = pb_const(&b, 0);
        hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), rank, x_dims);
        compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)count, 0);
        free(in.data);
        pb_dispose(&b);
    }
}

/* Matrices side by side, of bits that are no numbers, too. */
static void matrices_are_transposed(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(40); round++) {
        pb_init(&b);
        int64_t count = PICK(1, 3), rows = PICK(1, 3, 4, 31, 33, 64, 196), columns = PICK(1, 2, 5, 32, 100, 257, 1024);
        int64_t elements = count * rows * columns, x_dims[] = {count, rows, columns}, y_dims[] = {count, columns, rows};
        HypPlan__Copy *s = pb_copy(&b);
        s->x = pb_input(&b, "x", HYP_I32, 3, pb_consts(&b, 3, x_dims));
        s->y = pb_output(&b, "y", HYP_I32, 3, pb_consts(&b, 3, y_dims));
        s->n_extents = s->n_x_strides = s->n_y_strides = 3;
        s->extents = pb_consts(&b, 3, y_dims);
        s->x_strides = pb_consts(&b, 3, (int64_t[]){rows * columns, 1, columns});
        s->y_strides = pb_consts(&b, 3, (int64_t[]){rows * columns, rows, 1});
        s->x_offset = s->y_offset = pb_const(&b, 0);
        int32_t *x = calloc((size_t)elements, sizeof *x), *y = calloc((size_t)elements, sizeof *y);
        for (int64_t i = 0; i < elements; i++) x[i] = (int32_t)(0x7f800000 + rng_below(&r, 1 << 23));
        hyp_tensor in = tensor_of("x", HYP_I32, x, 3, x_dims);
        hyp_tensor out = {.name = "y", .data = y, .bytes = (size_t)elements * sizeof *y, .dtype = HYP_I32};
        run_once(&b, HYP_DEVICE_CPU, &in, 1, &out, 1);
        for (int64_t i = 0; i < elements; i++) {
            int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
            assert_int_equal(y[(matrix * columns + column) * rows + row], x[i]);
        }
        free(x), free(y);
        pb_dispose(&b);
    }
}

/* Pages of this process in memory; 0 where nobody says, and where most are those of a sanitizer that watches the others. */
static size_t resident_pages(void)
{
    size_t size, resident = 0;
    if (THREADS_WATCHED) return 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%zu %zu", &size, &resident) != 2) resident = 0;
    if (file) fclose(file);
    return resident;
}

/* The cells of a network in time, which all have the same weights. */
static void steps_with_the_same_weights_share_what_is_packed(void **state)
{
    (void)state;
    enum { N = 1024, CELLS = 12 };
    for (int rows = 1; rows <= 64; rows *= 64) {
        static float x[64 * N], y[64 * N];
        const int64_t dims[2] = {rows, N};
        pb_init(&b);
        uint32_t at = pb_input(&b, "x", HYP_F32, 2, pb_consts(&b, 2, dims)), weight = random_weight(HYP_F32, 2, (int64_t[]){N, N}, N);
        for (uint32_t i = 0; i < CELLS; i++) {
            uint32_t to = i + 1 < CELLS ? pb_scratch(&b, HYP_F32, i & 1, 2, pb_consts(&b, 2, dims))
                                        : pb_output(&b, "y", HYP_F32, 2, pb_consts(&b, 2, dims));
            pb_layer(&b, pb_linear(&b, at, to, pb_const(&b, rows)), N, N, weight, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE)
                ->weight_kn = i % 3 == 0; /* square, so that it can be either */
            at = to;
        }
        rng_fill(&r, HYP_F32, x, (size_t)rows * N);
        hyp_tensor in = tensor_of("x", HYP_F32, x, 2, dims);
        size_t page = (size_t)sysconf(_SC_PAGESIZE), before = resident_pages();
        hyp_engine *engine = pb_load(&b, HYP_DEVICE_CPU);
        hyp_context *context = NULL;
        hyp_tensor out = {.name = "y", .data = y, .bytes = sizeof y, .dtype = HYP_F32};
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        assert_ok(hyp_context_run(context, &in, 1, &out, 1, diag));
        size_t grown = (resident_pages() - before) * page, each = N * N * sizeof(float);
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
        if (before)
            assert_true(grown < (CELLS - 2) * each); /* the file, and two forms, or more for some rows */
        else
            print_message("what is packed is not measured: nobody says how much memory is in use\n");
        compare_backends(1, &in, 1, (const char *const[]){"y"}, HYP_F32, (size_t)rows * N, 1e-4);
        pb_dispose(&b);
    }
}

int main(void)
{
    r.state = 20;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_agrees_on_odd_sizes),
        cmocka_unit_test(linear_agrees_in_half_precision),
        cmocka_unit_test(linear_agrees_where_weights_leave_the_cache),
        cmocka_unit_test(relu_of_our_kernel_keeps_nan),
        cmocka_unit_test(linear_adds_a_tensor_before_or_after_its_activation),
        cmocka_unit_test(linear_agrees_where_rows_are_tiled),
        cmocka_unit_test(linear_agrees_with_several_threads),
        cmocka_unit_test(loops_give_the_same_on_several_threads),
        cmocka_unit_test(linear_takes_weights_that_are_inputs),
        cmocka_unit_test(multi_layer_kernel_is_right_on_every_instruction_set),
        cmocka_unit_test(matmul_agrees_on_random_shapes),
        cmocka_unit_test(attention_agrees_on_random_shapes),
        cmocka_unit_test(attention_agrees_on_blocks),
        cmocka_unit_test(attention_agrees_on_keys_in_two_parts),
        cmocka_unit_test(attention_passes_special_values_on),
        cmocka_unit_test(attention_agrees_with_several_threads),
        cmocka_unit_test(layers_agree_with_several_threads),
        cmocka_unit_test(pointwise_agrees_on_random_programs),
        cmocka_unit_test(comparisons_and_choices_agree_in_every_type),
        cmocka_unit_test(softmax_agrees_on_random_shapes),
        cmocka_unit_test(gradients_of_softmax_agree_on_random_shapes),
        cmocka_unit_test(reduce_agrees_on_random_axes),
        cmocka_unit_test(copy_agrees_on_random_permutations),
        cmocka_unit_test(matrices_are_transposed),
        cmocka_unit_test(steps_with_the_same_weights_share_what_is_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

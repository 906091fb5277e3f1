/* Products of the CPU backend against the reference backend on random plans, and our own multi-layer kernel on every
 * instruction set that the machine has.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/cpu_agrees.h"

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
        layers[l] = (hyp_mlp_layer){n, depth, packed, bias, {.op = hyp_plan_act_op(act), .to = HYP_F32}, l % 2 == 1};
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
    if (THREADS_WATCHED) {
        print_message("skipped where threads are watched: this kernel runs in one alone\n");
        skip();
    }
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    enum { MOST = 2 * HYP_MLP_ROWS + 5, SINGLE = 24 }; /* one row often: blocks of panels, and what is left */
    for (size_t i = 0; list[i]; i++)
        for (int64_t m = 1; m <= MOST + SINGLE; m++)
            check_mlp(list[i], m <= MOST ? m : 1, (adding)((m <= MOST ? m / 2 : m) % ADDINGS));
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
        uint32_t at = pb_input(&b, "x", HYP_F32, 2, pb_consts(&b, 2, dims));
        uint32_t weight = random_weight(HYP_F32, 2, (int64_t[]){N, N}, N);
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
        cmocka_unit_test(layers_agree_with_several_threads),
        cmocka_unit_test(steps_with_the_same_weights_share_what_is_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

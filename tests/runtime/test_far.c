/* Results of long pointwise steps on the CPU: by one thread and several, by blocks of all lengths, and those that are so
 * large that they are written past the caches, from the beginning of a line of the cache or not. And layers whose weights
 * are so many that they are asked for ahead. Judged by small integers, which are exact. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/support.h"

enum { COLUMNS = 1027 /* rows begin anywhere in a line */, OUTPUTS = 3 };
static const char *const names[OUTPUTS] = {"sum", "twice", "by-row"};

static float x_at(int64_t i) { return (float)(i % 251 - 125); }
static float row_at(int64_t row) { return (float)(row % 17 - 8); }

static float expected(int output, int64_t i)
{
    float x = x_at(i);
    return output == 0 ? x + 3 : output == 1 ? x * 2 : x + row_at(i / COLUMNS);
}

/* sum = x + 3 and twice = x * 2 in one step over all elements; by-row = x + row in one over rows. */
static void build(plan_builder *b, int64_t rows, const float *row)
{
    uint32_t all = pb_const(b, rows * COLUMNS), one = pb_const(b, 1), shape[2] = {pb_const(b, rows), pb_const(b, COLUMNS)};
    uint32_t x = pb_input(b, "x", HYP_F32, 2, shape);
    float three = 3, two = 2;
    uint32_t sum = pb_output(b, names[0], HYP_F32, 2, shape), twice = pb_output(b, names[1], HYP_F32, 2, shape),
             by_row = pb_output(b, names[2], HYP_F32, 2, shape);
    HypPlan__Pointwise *p = pb_pointwise(b, HYP_F32, 1, &all);
    uint32_t none = pb_const(b, 0);
    pb_operand(b, p, x, &one);
    pb_operand(b, p, pb_weight(b, HYP_F32, 0, NULL, &three), &none);
    pb_operand(b, p, pb_weight(b, HYP_F32, 0, NULL, &two), &none);
    pb_result(b, p, sum, pb_instr(b, p, HYP_PLAN__POINTWISE__OP__ADD, 0, 1, 0, 0, HYP_F32));
    pb_result(b, p, twice, pb_instr(b, p, HYP_PLAN__POINTWISE__OP__MUL, 0, 2, 0, 0, HYP_F32));
    p = pb_pointwise(b, HYP_F32, 2, shape);
    pb_operand(b, p, x, pb_consts(b, 2, (int64_t[]){COLUMNS, 1}));
    pb_operand(b, p, pb_weight(b, HYP_F32, 1, (int64_t[]){rows}, row), pb_consts(b, 2, (int64_t[]){1, 0}));
    pb_result(b, p, by_row, pb_instr(b, p, HYP_PLAN__POINTWISE__OP__ADD, 0, 1, 0, 0, HYP_F32));
}

static void results_beyond_the_caches(void **state)
{
    (void)state;
    const int64_t rows = 4200, count = rows * COLUMNS; /* 35 MB are read and written by the smaller step */
    char path[PB_PATH];
    static plan_builder b;
    float *row = malloc((size_t)rows * sizeof *row), *room = malloc((size_t)(count * (OUTPUTS + 1) + OUTPUTS + 1) * sizeof *room);
    assert_true(row && room);
    for (int64_t i = 0; i < rows; i++) row[i] = row_at(i);
    for (int64_t i = 0; i < count; i++) room[i] = x_at(i);
    pb_init(&b);
    build(&b, rows, row);
    pb_write(&b, path);
    for (int32_t threads = 1; threads < 4; threads += 2) {
        const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = threads};
        hyp_engine *engine;
        hyp_context *context;
        hyp_tensor in = tensor_of("x", HYP_F32, room, 2, (int64_t[]){rows, COLUMNS}), out[OUTPUTS];
        for (int i = 0; i < OUTPUTS; i++) /* each begins elsewhere in a line of the cache */
            out[i] = tensor_of(names[i], HYP_F32, room + (i + 1) * (count + 1), 2, (int64_t[]){rows, COLUMNS});
        assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        assert_ok(hyp_context_run(context, &in, 1, out, OUTPUTS, diag));
        for (int o = 0; o < OUTPUTS; o++) {
            const float *y = out[o].data;
            for (int64_t i = 0; i < count; i++)
                if (y[i] != expected(o, i))
                    fail_msg("%s[%lld] is %g, wanted %g (%d threads)", names[o], (long long)i, (double)y[i],
                             (double)expected(o, i), (int)threads);
            memset(out[o].data, 0xff, (size_t)count * sizeof *y);
        }
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
    free(row);
    free(room);
    pb_remove(&b, path);
}

/* One result of one instruction, of two, and two results: the first may be written where they belong, by blocks of a
 * multiple of 16. Nothing behind them is. */
static void blocks_of_any_length_are_right(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 15, 16, 17, 255, 256, 272, 1023, 1024, 1040, 2047, 2064, 4096, 5000};
    enum { MOST = 5000 + 64 };
    static plan_builder b;
    static float x[MOST], y[OUTPUTS + 1][MOST];
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        int64_t n = lengths[l];
        uint32_t none, one;
        pb_init(&b);
        uint32_t all = pb_const(&b, n), in = pb_input(&b, "x", HYP_F32, 1, &all), out[OUTPUTS + 1];
        none = pb_const(&b, 0), one = pb_const(&b, 1);
        float three = 3;
        for (int o = 0; o <= OUTPUTS; o++)
            out[o] = pb_output(&b, (const char *[]){"a", "b", "c", "d"}[o], HYP_F32, 1, &all);
        for (int step = 0; step < OUTPUTS; step++) {
            HypPlan__Pointwise *p = pb_pointwise(&b, HYP_F32, 1, &all);
            pb_operand(&b, p, in, &one);
            pb_operand(&b, p, pb_weight(&b, HYP_F32, 0, NULL, &three), &none);
            uint32_t reg = pb_instr(&b, p, HYP_PLAN__POINTWISE__OP__ADD, 0, 1, 0, 0, HYP_F32);
            if (step == 2) pb_result(&b, p, out[3], reg);
            if (step > 0) reg = pb_instr(&b, p, HYP_PLAN__POINTWISE__OP__MUL, reg, 0, 0, 0, HYP_F32);
            pb_result(&b, p, out[step], reg);
        }
        hyp_tensor from = tensor_of("x", HYP_F32, x, 1, &n), to[OUTPUTS + 1];
        for (int64_t i = 0; i < n; i++) x[i] = x_at(i);
        for (int o = 0; o <= OUTPUTS; o++) {
            for (int64_t i = 0; i < MOST; i++) y[o][i] = -1e9f;
            to[o] = tensor_of((const char *[]){"a", "b", "c", "d"}[o], HYP_F32, y[o], 1, &n);
        }
        run_once(&b, HYP_DEVICE_CPU, &from, 1, to, OUTPUTS + 1);
        for (int o = 0; o <= OUTPUTS; o++)
            for (int64_t i = 0; i < MOST; i++) {
                float sum = x_at(i) + 3, wanted = i >= n ? -1e9f : o == 0 || o == 3 ? sum : sum * x_at(i);
                if (y[o][i] != wanted)
                    fail_msg("%lld elements: result %d at %lld is %g, wanted %g", (long long)n, o, (long long)i,
                             (double)y[o][i], (double)wanted);
            }
        pb_dispose(&b);
    }
}

static void run_far(const char *path, int32_t threads, const hyp_tensor *x, hyp_tensor *y)
{
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = threads};
    hyp_engine *engine;
    hyp_context *context;
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_run(context, x, 1, y, 1, diag));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

/* y = x w with w[j][i] = a(j) b(i), so that what is wanted takes no product: by one row, fewer rows than a tile has, tiles of
 * all sizes, more rows than go together, and by columns that do not fill a panel. */
static void layers_with_far_weights_are_right(void **state)
{
    (void)state;
    enum { K = 1025, N = 1031, MOST = 140 };
    static const int64_t rows[] = {1, 2, 5, 7, 8, 49, 64, 67, MOST};
    char path[PB_PATH];
    static plan_builder b;
    float *w = malloc(sizeof(float[N][K])), *x = malloc(sizeof(float[MOST][K])), *y = malloc(sizeof(float[MOST][N]));
    assert_true(w && x && y);
    for (int64_t j = 0; j < N; j++)
        for (int64_t i = 0; i < K; i++) w[j * K + i] = (float)((j % 5 - 2) * (i % 7 - 3));
    for (int64_t i = 0; i < (int64_t)MOST * K; i++) x[i] = (float)(i % 11 - 5);
    for (size_t l = 0; l < sizeof rows / sizeof *rows; l++) {
        pb_init(&b);
        uint32_t m = pb_const(&b, rows[l]);
        uint32_t in = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){m, pb_const(&b, K)}),
                 out = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){m, pb_const(&b, N)});
        uint32_t weight = pb_weight(&b, HYP_F32, 2, (int64_t[]){N, K}, w);
        pb_layer(&b, pb_linear(&b, in, out, m), N, K, weight, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
        hyp_tensor from = tensor_of("x", HYP_F32, x, 2, (int64_t[]){rows[l], K}),
                   to = tensor_of("y", HYP_F32, y, 2, (int64_t[]){rows[l], N});
        pb_write(&b, path);
        for (int32_t threads = 1; threads < 4; threads += 2) {
            memset(y, 0xff, sizeof(float[MOST][N]));
            run_far(path, threads, &from, &to);
            for (int64_t r = 0; r < rows[l]; r++) {
                float sum = 0;
                for (int64_t i = 0; i < K; i++) sum += x[r * K + i] * (float)(i % 7 - 3);
                for (int64_t j = 0; j < N; j++)
                    if (y[r * N + j] != sum * (float)(j % 5 - 2))
                        fail_msg("%lld rows, %d threads: y[%lld][%lld] is %g, wanted %g", (long long)rows[l], (int)threads,
                                 (long long)r, (long long)j, (double)y[r * N + j], (double)(sum * (float)(j % 5 - 2)));
            }
        }
        pb_remove(&b, path);
    }
    free(w);
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_beyond_the_caches),
                                       cmocka_unit_test(blocks_of_any_length_are_right),
                                       cmocka_unit_test(layers_with_far_weights_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

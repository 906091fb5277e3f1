/* Products where an operand is a vector in a matrix: one column of a result whose rows are further apart, one row of a
 * left side that is stored the other way round, or a part of these for a thread. Libraries have kernels of their own
 * for vectors, which want them dense. Beside them are matrices of as many gaps. With every instruction set, each in a
 * process of its own, since oneDNN chooses once in one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/nn_oracle.h"
#include "runtime/support.h"

enum { COLUMNS = 17, THREADS = 3, ROWS = 2 * THREADS + 1, MOST = 400000 };

static hyp_nn *open_nn(int32_t threads)
{
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = threads};
    hyp_nn *nn = NULL;
    assert_ok(hyp_nn_create(&options, NULL, &nn, diag));
    return nn;
}

/* A layer of `in` inputs and `out` outputs in all forms; nothing changes between the rows of its results. */
static void check_layer(hyp_nn *nn, int64_t rows, int64_t in, int64_t out, uint64_t *seed)
{
    static const hyp_dtype types[] = {HYP_F32, HYP_F32, HYP_F32, HYP_F32, HYP_BF16, HYP_F16};
    static const hyp_nn_act acts[] = {HYP_NN_NONE, HYP_NN_RELU, HYP_NN_GELU};
    for (int form = 0; form < 6; form++) {
        nn_case c = nn_full_case(types[form], rows, 1, (int64_t[]){in, out}, &acts[form % 3]);
        c.bias[0] = form % 4 != 0;
        c.accumulate = form & 1, c.accumulate_input = form & 2;
        c.pad_x = form % 2, c.pad_y = 1 + 6 * (form % 2), c.pad_dx = 1 + 2 * (form % 3);
        nn_check(nn, &c, seed);
    }
}

static void layers_keep_to_their_columns(void **state)
{
    (void)state;
    static const int64_t all_rows[] = {1, 2, 33}, others[] = {1, 2, 136};
    uint64_t seed = 4;
    for (int32_t threads = 1; threads <= THREADS; threads += THREADS - 1) {
        hyp_nn *nn = open_nn(threads);
        for (int64_t columns = 1; columns <= COLUMNS; columns++)
            for (int i = 0; i < rounds(3); i++) {
                check_layer(nn, all_rows[i], others[columns % 3], columns, &seed);
                check_layer(nn, all_rows[i], columns, others[(columns + 1) % 3], &seed);
            }
        hyp_nn_destroy(nn);
    }
}

/* Small integers: every sum is exact. Odd: but for one number that is large, one that is infinite, and one that is none. */
static void check_matmul(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, bool odd)
{
    static float x[MOST], w[MOST], y[MOST];
    const int64_t x_dims[] = {trans_a ? k : m, trans_a ? m : k}, w_dims[] = {trans_b ? n : k, trans_b ? k : n},
                  y_dims[] = {m, n};
    plan_builder b;
    pb_init(&b);
    HypPlan__Matmul *s = pb_matmul(&b);
    s->a = pb_input(&b, "x", HYP_F32, 2, pb_consts(&b, 2, x_dims));
    s->b = pb_input(&b, "w", HYP_F32, 2, pb_consts(&b, 2, w_dims));
    s->y = pb_output(&b, "y", HYP_F32, 2, pb_consts(&b, 2, y_dims));
    assert_true(m * k <= MOST && k * n <= MOST && m * n <= MOST);
    pb_dense(&b, s, (const int64_t[4]){1, m, n, k}, trans_a, trans_b, true);
    for (int64_t i = 0; i < m * k; i++) x[i] = (float)(i * 7 % 11 - 5);
    for (int64_t i = 0; i < n * k; i++) w[i] = (float)(i * 5 % 13 - 6);
    for (int64_t i = 0; odd && i < 3; i++) x[i * (m * k - 1) / 2] = (const float[]){0x1p100f, INFINITY, NAN}[i];
    const hyp_tensor in[] = {tensor_of("x", HYP_F32, x, 2, x_dims), tensor_of("w", HYP_F32, w, 2, w_dims)};
    hyp_tensor out = tensor_of("y", HYP_F32, y, 2, y_dims);
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = THREADS};
    char path[PB_PATH];
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    pb_write(&b, path);
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    unlink(path);
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_run(context, in, 2, &out, 1, diag));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&b);
    for (int64_t i = 0; i < m * n; i++) {
        float sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += x[trans_a ? l * m + i / n : i / n * k + l] * w[trans_b ? i % n * k + l : l * n + i % n];
        float most = odd && isfinite(sum) ? 1e-6f * fabsf(sum) : 0; /* the large one takes digits of the others */
        if (isnan(sum) ? !isnan(y[i]) : !(y[i] == sum || fabsf(y[i] - sum) <= most))
            fail_msg("%dx%dx%d, transposed %d %d: element %d is %g, not %g", (int)m, (int)n, (int)k, trans_a, trans_b,
                     (int)i, (double)y[i], (double)sum);
    }
}

static void parts_of_one_row_are_right(void **state)
{
    (void)state;
    static const struct {
        int64_t n, k;
    } sizes[] = {{1, 3}, {COLUMNS, 40}, {1, MOST / ROWS}, {200, MOST / 200}}; /* the last ones are worth threads */
    for (int64_t m = 1; m <= ROWS; m++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int form = 0; form < 8; form++) check_matmul(m, sizes[i].n, sizes[i].k, form & 1, form & 2, form & 4);
}

static int with_level(const char *level)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_keep_to_their_columns),
        cmocka_unit_test(parts_of_one_row_are_right),
    };
    printf("%s=%s\n", HYP_CPU_VARIABLE, level); /* not every cmocka tells the name */
    fflush(stdout);
    return cmocka_run_group_tests_name(level, tests, NULL, NULL);
}

int main(void)
{
    const hyp_cpu_kernels *levels[HYP_CPU_KERNELS_MAX];
    bool right = true;
    hyp_cpu_kernels_list(levels);
    for (size_t i = 0; levels[i]; i++) {
        pid_t child = fork();
        if (child == 0) {
            setenv(HYP_CPU_VARIABLE, levels[i]->isa, 1);
            return with_level(levels[i]->isa);
        }
        int status = 1;
        right = child > 0 && waitpid(child, &status, 0) == child && status == 0 && right;
    }
    return right ? 0 : 1;
}

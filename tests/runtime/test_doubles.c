/* Products in f64 with every instruction set: of integers, whose sums are exact, against 64-bit integers to the bit,
 * and with what else a layer does against the reference backend.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

enum { MOST = 12000 };

static plan_builder b;
static rng r;
static const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX + 1];

/* Up to 255 in size, as products of bytes less their zero points have them; none is likely to cancel another. */
static void fill(double *x, size_t count)
{
    for (size_t i = 0; i < count; i++) x[i] = (double)rng_below(&r, 511) - 200;
}

static void run(hyp_device_kind device, const hyp_tensor *in, size_t inputs, double *y, size_t count)
{
    hyp_tensor out = {.name = "y", .data = y, .bytes = count * sizeof *y, .dtype = HYP_F64};
    memset(y, 0x55, count * sizeof *y);
    run_once(&b, device, in, inputs, &out, 1);
}

/* y[batch m n]; b has one matrix for all of the batch or one for each. */
static void check_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, bool shared)
{
    static double x[MOST], w[MOST], y[MOST];
    int64_t x_dims[3] = {batch, trans_a ? k : m, trans_a ? m : k};
    int64_t w_dims[3] = {shared ? 1 : batch, trans_b ? n : k, trans_b ? k : n}, y_dims[3] = {batch, m, n};
    assert_true(batch * m * k <= MOST && batch * n * k <= MOST && batch * m * n <= MOST);
    pb_init(&b);
    HypPlan__Matmul *s = pb_matmul(&b);
    s->a = pb_input(&b, "x", HYP_F64, 3, pb_consts(&b, 3, x_dims));
    s->b = pb_input(&b, "w", HYP_F64, 3, pb_consts(&b, 3, w_dims));
    s->y = pb_output(&b, "y", HYP_F64, 3, pb_consts(&b, 3, y_dims));
    pb_dense(&b, s, (const int64_t[4]){batch, m, n, k}, trans_a, trans_b, shared);
    fill(x, MOST);
    fill(w, MOST);
    hyp_tensor in[2] = {tensor_of("x", HYP_F64, x, 3, x_dims), tensor_of("w", HYP_F64, w, 3, w_dims)};
    for (size_t i = 0; isa[i]; i++) {
        assert_int_equal(setenv(HYP_CPU_VARIABLE, isa[i]->isa, 1), 0);
        run(HYP_DEVICE_CPU, in, 2, y, (size_t)(batch * m * n));
        for (int64_t at = 0; at < batch * m * n; at++) {
            int64_t row = at / n % m, column = at % n, of = at / (m * n), sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += (int64_t)x[of * m * k + (trans_a ? l * m + row : row * k + l)] *
                       (int64_t)w[(shared ? 0 : of * n * k) + (trans_b ? column * k + l : l * n + column)];
            if (y[at] != (double)sum)
                fail_msg("%s: element %d is %.17g, not %lld", isa[i]->isa, (int)at, y[at], (long long)sum);
        }
    }
    assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
    pb_dispose(&b);
}

static void sums_of_integers_are_exact(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 1, 1, 1},  {1, 1, 1, 5000}, {1, 3, 5, 700}, {2, 4, 8, 259},  {1, 5, 17, 300},
                                       {3, 9, 16, 1}, {1, 2, 33, 260}, {0, 2, 3, 4},   {2, 0, 3, 5},    {1, 2, 0, 5},
                                       {2, 3, 4, 0},  {1, 13, 31, 64}, {1, 64, 2, 40}, {2, 6, 15, 100}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = 0; form < 8; form++)
            check_matmul(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], form & 1, form & 2, form & 4);
}

/* Two layers; the last adds a tensor, before or after its activation, or where its result goes. */
static void layers_agree(void **state)
{
    (void)state;
    enum { IN = 300, HIDDEN = 21 };
    static double w[2][IN * HIDDEN], biases[HIDDEN], x[7 * IN], added[7 * IN], want[7 * IN], got[7 * IN];
    for (int form = 0; form < 12; form++) {
        const int64_t m = form % 4 == 3 ? 7 : form % 4, x_dims[2] = {m, IN}, h_dims[2] = {m, HIDDEN};
        uint32_t *shape, hidden[2], one, two;
        pb_init(&b);
        shape = pb_consts(&b, 2, x_dims);
        one = pb_input(&b, "x", HYP_F64, 2, shape), two = pb_input(&b, "r", HYP_F64, 2, shape);
        hidden[0] = pb_scratch(&b, HYP_F64, 0, 2, pb_consts(&b, 2, h_dims));
        hidden[1] = pb_scratch(&b, HYP_F64, 1, 2, shape);
        for (size_t i = 0; i < IN * HIDDEN; i++) w[0][i] = rng_float(&r) / 20, w[1][i] = rng_float(&r);
        for (size_t i = 0; i < HIDDEN; i++) biases[i] = rng_float(&r);
        rng_fill(&r, HYP_F64, x, 7 * IN);
        rng_fill(&r, HYP_F64, added, 7 * IN);
        uint32_t y = pb_output(&b, "y", HYP_F64, 2, shape), to = y, all = pb_const(&b, m * IN);
        bool in_place = form / 4 == 2;
        if (in_place) {
            pb_copy_all(&b, two, hidden[1], all);
            two = hidden[1];
            to = pb_scratch(&b, HYP_F64, 1, 2, shape);
        }
        HypPlan__Linear *s = pb_linear(&b, one, to, pb_const(&b, m));
        pb_layer(&b, s, HIDDEN, IN, pb_weight(&b, HYP_F64, 2, (int64_t[]){HIDDEN, IN}, w[0]),
                 pb_weight(&b, HYP_F64, 1, (int64_t[]){HIDDEN}, biases), HYP_PLAN__ACT__ACT_TANH, hidden[0]);
        pb_layer(&b, s, IN, HIDDEN, pb_weight(&b, HYP_F64, 2, (int64_t[]){HIDDEN, IN}, w[1]), PB_NONE,
                 HYP_PLAN__ACT__ACT_RELU, PB_NONE)
            ->weight_kn = true;
        s->added_plus1 = two + 1;
        s->add_after = form / 4 == 1;
        if (in_place) pb_copy_all(&b, to, y, all);
        hyp_tensor in[2] = {tensor_of("x", HYP_F64, x, 2, x_dims), tensor_of("r", HYP_F64, added, 2, x_dims)};
        run(HYP_DEVICE_REFERENCE, in, 2, want, (size_t)(m * IN));
        for (size_t i = 0; isa[i]; i++) {
            assert_int_equal(setenv(HYP_CPU_VARIABLE, isa[i]->isa, 1), 0);
            run(HYP_DEVICE_CPU, in, 2, got, (size_t)(m * IN));
            /* sums of 300 and of 21 terms below 1, in another order */
            for (int64_t j = 0; j < m * IN; j++)
                if (!(fabs(got[j] - want[j]) <= 1e-12)) fail_msg("%s: %.17g, not %.17g", isa[i]->isa, got[j], want[j]);
        }
        assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
        pb_dispose(&b);
    }
}

int main(void)
{
    r.state = 64;
    hyp_cpu_kernels_list(isa);
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_integers_are_exact), cmocka_unit_test(layers_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The functions of hypatia/nn.h on the devices that are everywhere: the CPU and the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "runtime/nn_oracle.h"

static hyp_diag diag[1];

static hyp_nn *open_nn(hyp_device_kind device, int32_t threads)
{
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = threads};
    hyp_nn *nn = NULL;
    if (hyp_nn_create(&options, NULL, &nn, diag) != HYP_OK) fail_msg("%s", diag->message);
    assert_int_equal(hyp_nn_device(nn), device);
    return nn;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* The sum of y dy. */
static double objective(const nn_case *c, const nn_numbers *n)
{
    nn_numbers copy = *n;
    copy.y = copy.dx = NULL;
    nn_oracle(c, false, &copy);
    double sum = 0;
    for (int64_t i = 0; i < c->rows * c->width[c->count]; i++) sum += copy.y[i] * n->dy[i];
    free(copy.y);
    free(copy.dx);
    for (size_t l = 0; l < c->count; l++) free(copy.dw[l]), free(copy.db[l]);
    return sum;
}

static void differs_as(const nn_case *c, const nn_numbers *n, double *numbers, const double *gradient, int64_t count)
{
    static const double step = 1e-5;
    for (int64_t i = 0; i < count; i++) {
        double there = numbers[i];
        numbers[i] = there + step;
        double above = objective(c, n);
        numbers[i] = there - step;
        double slope = (above - objective(c, n)) / (2 * step);
        numbers[i] = there;
        assert_true(fabs(slope - gradient[i]) <= 1e-7 * (1 + fabs(slope)));
    }
}

/* The oracle's gradients are those of its forward pass. */
static void oracle_is_right(void **unused)
{
    (void)unused;
    uint64_t seed = 7;
    for (int act = 0; act <= HYP_NN_SILU; act++) {
        nn_case c = {
            .dtype = HYP_F32, .count = 3, .rows = 3, .width = {4, 5, 3, 2}, .bias = {true, true, true}, .rank = 2};
        for (size_t l = 0; l < c.count; l++) c.act[l] = (hyp_nn_act)((act + (int)l) % 5);
        nn_numbers n = nn_draw(&c, false, &seed);
        nn_oracle(&c, false, &n);
        differs_as(&c, &n, n.x, n.dx, c.rows * c.width[0]);
        for (size_t l = 0; l < c.count; l++) {
            differs_as(&c, &n, n.w[l], n.dw[l], c.width[l] * c.width[l + 1]);
            differs_as(&c, &n, n.b[l], n.db[l], c.width[l + 1]);
        }
        nn_free(&n);
    }
}

static void passes_are_right(void **unused)
{
    (void)unused;
    const struct {
        hyp_device_kind device;
        int32_t threads;
    } handles[] = {{HYP_DEVICE_REFERENCE, 1}, {HYP_DEVICE_CPU, 1}, {HYP_DEVICE_CPU, 3}};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
        hyp_nn *nn = open_nn(handles[i].device, handles[i].threads);
        nn_check_all(nn, 60, false);
        hyp_nn_destroy(nn);
    }
}

/* Sizes beyond a block and a tile of every kernel. */
static void large_passes_are_right(void **unused)
{
    (void)unused;
    uint64_t seed = 5;
    hyp_nn *nn = open_nn(HYP_DEVICE_CPU, 2);
    const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    for (int i = 0; i < 3; i++) {
        nn_case c = nn_full_case(types[i], 300, 2, (int64_t[]){70, 530, 290},
                                 (hyp_nn_act[]){HYP_NN_RELU, HYP_NN_GELU});
        c.rank = 3;
        nn_check(nn, &c, &seed);
    }
    hyp_nn_destroy(nn);
}

/* NaN stays, and the gradient of a relu is 0 there, at 0 and below. Values at the ends of the range have gradients that
 * are numbers. */
static void ends_of_the_range(void **unused)
{
    (void)unused;
    const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    for (size_t d = 0; d < 2; d++)
        for (int act = HYP_NN_RELU; act <= HYP_NN_SILU; act++) {
            hyp_nn *nn = open_nn(devices[d], 1);
            float one = 1, x[6] = {NAN, 0, -0.0f, 3e38f, -3e38f, -INFINITY}, y[6], dy[6] = {1, 1, 1, 1, 1, 1}, dx[6];
            _Alignas(64) char saved[1024];
            const hyp_nn_layer layer = {
                .weight = {.data = &one, .bytes = 4, .dtype = HYP_F32, .rank = 2, .dims = {1, 1}},
                .act = (hyp_nn_act)act};
            const hyp_tensor in = {.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 2, .dims = {6, 1}};
            hyp_tensor out = in, left = {.data = saved, .bytes = sizeof saved}, from = in, to = in;
            out.data = y, from.data = dy, to.data = dx;
            assert_int_equal(hyp_mlp_forward(nn, &layer, 1, &in, &out, &left, NULL, diag), HYP_OK);
            assert_int_equal(hyp_mlp_backward(nn, &layer, 1, &in, &left, &from, &to, NULL, NULL, diag), HYP_OK);
            bool lost = act == HYP_NN_RELU && devices[d] == HYP_DEVICE_CPU; /* by oneDNN */
            assert_true((isnan(y[0]) || lost) && y[1] == 0 && y[3] == 3e38f);
            if (act == HYP_NN_RELU) assert_true(dx[0] == 0 && dx[1] == 0 && dx[2] == 0 && y[5] == 0);
            assert_true(fabsf(dx[3] - 1) < 1e-6f && fabsf(dx[4]) < 1e-6f && fabsf(dx[5]) < 1e-6f);
            hyp_nn_destroy(nn);
        }
}

static void one_layer(void **unused)
{
    (void)unused;
    hyp_nn *nn = open_nn(HYP_DEVICE_CPU, 2);
    float w[6] = {1, 2, -1, 0.5f, 1, 1}, b[3] = {0, 0.5f, -10}, x[4] = {1, 2, 3, -4}, y[6], dy[6] = {1, 1, 1, 1, 1, 1},
          dx[4], dw[6], db[3];
    _Alignas(64) char bits[256];
    const hyp_tensor weight = {.data = w, .bytes = sizeof w, .dtype = HYP_F32, .rank = 2, .dims = {3, 2}},
                     bias = {.data = b, .bytes = sizeof b, .dtype = HYP_F32, .rank = 1, .dims = {3}},
                     in = {.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 3, .dims = {1, 2, 2}};
    hyp_tensor out = {.data = y, .bytes = sizeof y, .dtype = HYP_F32}, saved = {.data = bits}, grad = out, gx = out,
               gw = out, gb = out;
    grad = (hyp_tensor){.data = dy, .bytes = sizeof dy, .dtype = HYP_F32, .rank = 3, .dims = {1, 2, 3}};
    gx.data = dx, gw.data = dw, gb.data = db;
    gx.bytes = sizeof dx, gb.bytes = sizeof db;
    assert_int_equal(hyp_linear_relu_saved_bytes(nn, &weight, &in, &saved.bytes, diag), HYP_OK);
    assert_int_equal(saved.bytes, 256); /* two rows of 128 bits, at a multiple of 256 */
    assert_int_equal(hyp_linear_relu_forward(nn, &weight, &bias, &in, &out, &saved, NULL, diag), HYP_OK);
    const float wanted[] = {5, 0.5f, 0, 0, 0, 0};
    assert_memory_equal(y, wanted, sizeof y);
    assert_int_equal(hyp_linear_relu_backward(nn, &weight, &in, &saved, &grad, &gx, &gw, &gb, NULL, diag), HYP_OK);
    const float wanted_x[] = {0, 2.5f, 0, 0}, wanted_w[] = {1, 2, 1, 2, 0, 0}, wanted_b[] = {1, 1, 0};
    assert_memory_equal(dx, wanted_x, sizeof dx);
    assert_memory_equal(dw, wanted_w, sizeof dw);
    assert_memory_equal(db, wanted_b, sizeof db);
    assert_true(gx.rank == 3 && gx.dims[1] == 2 && gw.rank == 2 && gw.dims[0] == 3 && gb.rank == 1 && out.dims[2] == 3);
    /* Nothing is wanted, and nothing is needed. */
    assert_int_equal(hyp_linear_relu_backward(nn, &weight, &in, &saved, &grad, NULL, NULL, NULL, NULL, diag), HYP_OK);
    hyp_nn_destroy(nn);
}

/* Rows that are none: y has no elements, and sums over them are 0, or what was there. */
static void no_rows(void **unused)
{
    (void)unused;
    const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    for (int i = 0; i < 4; i++) {
        hyp_nn *nn = open_nn(devices[i % 2], 1);
        float w[2] = {1, 1}, dw[2] = {5, 5}, db[1] = {5};
        const hyp_nn_layer layer = {.weight = {.data = w, .bytes = 8, .dtype = HYP_F32, .rank = 2, .dims = {1, 2}}};
        hyp_nn_gradient g = {{.data = dw, .bytes = 8, .dtype = HYP_F32}, {.data = db, .bytes = 4, .dtype = HYP_F32}};
        const hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {0, 2}},
                         dy = {.dtype = HYP_F32, .rank = 2, .dims = {0, 1}};
        hyp_tensor y = {.dtype = HYP_F32}, saved = {0};
        const hyp_nn_run_options options = {.size = sizeof options, .accumulate = i >= 2};
        assert_int_equal(hyp_mlp_forward(nn, &layer, 1, &x, &y, &saved, NULL, diag), HYP_OK);
        assert_int_equal(hyp_mlp_backward(nn, &layer, 1, &x, &saved, &dy, NULL, &g, &options, diag), HYP_OK);
        assert_true(y.rank == 2 && y.dims[0] == 0 && dw[0] == (i < 2 ? 0 : 5) && dw[1] == dw[0] && db[0] == dw[0]);
        hyp_nn_destroy(nn);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static const nn_case usual = {.dtype = HYP_F16,
                              .count = 3,
                              .rows = 40,
                              .width = {24, 48, 32, 16},
                              .act = {HYP_NN_RELU, HYP_NN_GELU_TANH, HYP_NN_SILU},
                              .bias = {true, true, true},
                              .dw = {true, true, true},
                              .db = {true, true, true},
                              .dx = true,
                              .rank = 2};

/* Everything from a handle to its end, until something fails. */
static hyp_status live(hyp_device_kind device, nn_tensors *t, bool reserves)
{
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 2};
    hyp_nn *nn = NULL;
    hyp_status status = hyp_nn_create(&options, NULL, &nn, diag);
    if (status == HYP_OK && reserves) status = nn_reserve(nn, &usual, t, diag);
    if (status == HYP_OK) status = nn_forward(nn, &usual, t, true, diag);
    if (status == HYP_OK) status = nn_backward(nn, &usual, t, diag);
    hyp_nn_destroy(nn);
    return status;
}

static void every_allocation_fails(void **unused)
{
    (void)unused;
    const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    for (int i = 0; i < 4; i++) {
        uint64_t seed = 1;
        hyp_nn *nn = open_nn(devices[i % 2], 2);
        nn_numbers n = nn_draw(&usual, true, &seed);
        nn_tensors t;
        nn_place(nn, &usual, &n, 0, &t);
        hyp_status status = HYP_ERR_NO_MEMORY;
        uint64_t at = 1;
        for (; status != HYP_OK; at++) {
            nn_tensors copy = t;
            hyp_mem_fail_after(at);
            status = live(devices[i % 2], &copy, i >= 2);
            hyp_mem_fail_after(0);
            if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
            assert_true(at < 1000);
        }
        assert_true(at > 2);
        nn_unplace(nn, &usual, &t);
        nn_free(&n);
        hyp_nn_destroy(nn);
    }
}

/* What was reserved allocates nothing, however it is called then. */
static void runs_allocate_nothing(void **unused)
{
    (void)unused;
    const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    for (size_t d = 0; d < 2; d++) {
        uint64_t seed = 1;
        hyp_nn *nn = open_nn(devices[d], 1);
        nn_numbers n = nn_draw(&usual, true, &seed);
        nn_tensors t;
        nn_place(nn, &usual, &n, 0, &t);
        assert_int_equal(nn_reserve(nn, &usual, &t, diag), HYP_OK);
        size_t bytes = hyp_nn_memory_bytes(nn);
        uint64_t before = hyp_mem_count();
        for (int i = 0; i < 3; i++) {
            assert_int_equal(nn_forward(nn, &usual, &t, i > 0, diag), HYP_OK);
            assert_int_equal(nn_backward(nn, &usual, &t, diag), HYP_OK);
        }
        assert_true(hyp_mem_count() == before && hyp_nn_memory_bytes(nn) == bytes && bytes > 0);
        nn_unplace(nn, &usual, &t);
        nn_free(&n);
        hyp_nn_destroy(nn);
    }
}

/* More shapes than a handle remembers: the oldest go, all are right. */
static void many_shapes(void **unused)
{
    (void)unused;
    hyp_nn *nn = open_nn(HYP_DEVICE_CPU, 1);
    uint64_t seed = 2;
    size_t most = 0;
    for (int round = 0; round < 2; round++)
        for (int64_t rows = 1; rows <= 400; rows += round ? 13 : 1) {
            nn_case c = {.dtype = HYP_F32,
                         .count = 1,
                         .rows = rows,
                         .width = {2, 3},
                         .act = {HYP_NN_RELU},
                         .dw = {true},
                         .dx = true,
                         .rank = 2};
            nn_check(nn, &c, &seed);
            if (hyp_nn_memory_bytes(nn) > most) most = hyp_nn_memory_bytes(nn);
        }
    assert_true(most < 8u << 20);
    hyp_nn_destroy(nn);
}

static void memory_has_a_limit(void **unused)
{
    (void)unused;
    const hyp_engine_options options = {
        .size = sizeof options, .device = HYP_DEVICE_CPU, .threads = 2, .memory_limit = 1 << 20}; /* each thread has room */
    hyp_nn *nn = NULL;
    assert_int_equal(hyp_nn_create(&options, NULL, &nn, diag), HYP_OK);
    const hyp_nn_layer layers[] = {{.weight = {.dtype = HYP_F32, .rank = 2, .dims = {512, 4}}},
                                   {.weight = {.dtype = HYP_F32, .rank = 2, .dims = {4, 512}}}};
    hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {1024, 4}};
    assert_int_equal(hyp_mlp_reserve(nn, layers, 2, &x, &x, NULL, NULL, diag), HYP_ERR_LIMIT);
    assert_non_null(strstr(diag->message, "memory_limit"));
    x.dims[0] = 16;
    assert_int_equal(hyp_mlp_reserve(nn, layers, 2, &x, &x, NULL, NULL, diag), HYP_OK);
    assert_in_range(hyp_nn_memory_bytes(nn), 1, 1 << 20);
    x.dims[0] = INT32_MAX; /* more than there can be */
    assert_int_not_equal(hyp_mlp_reserve(nn, layers, 2, &x, &x, NULL, NULL, diag), HYP_OK);
    hyp_nn_destroy(nn);
}

/* ---- calls ---------------------------------------------------------------------------------------------------------
 */

static void wrong_calls(void **unused)
{
    (void)unused;
    hyp_nn *nn = open_nn(HYP_DEVICE_CPU, 1), *none = NULL;
    nn_check_refusals(nn);
    const hyp_engine_options strange = {.size = sizeof strange, .device = (hyp_device_kind)9};
    assert_int_equal(hyp_nn_create(&strange, NULL, &none, diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag->message, "9 is no device kind"));
    const hyp_engine_options cpu = {.size = sizeof cpu, .device = HYP_DEVICE_CPU};
    assert_int_equal(hyp_nn_create(&cpu, (void *)&cpu, &none, diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag->message, "stream"));
    float w[1] = {1}, v[1] = {1}, y[1];
    const hyp_tensor one = {.data = w, .bytes = 4, .dtype = HYP_F32, .rank = 2, .dims = {1, 1}},
                     x = {.data = v, .bytes = 4, .dtype = HYP_F32, .rank = 1, .dims = {1}};
    const hyp_nn_layer layer = {.weight = one};
    hyp_tensor out = {.data = y, .bytes = 4, .dtype = HYP_F32};
    const hyp_nn_run_options streamed = {.size = sizeof streamed, .stream = &diag};
    assert_int_equal(hyp_mlp_forward(nn, &layer, 1, &x, &out, NULL, &streamed, diag), HYP_ERR_UNSUPPORTED);
    assert_int_equal(hyp_nn_tune(nn, &layer, 1, &x, NULL, NULL, NULL, 0, diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag->message, hyp_nn_device_name(nn)));
    assert_int_equal(hyp_nn_tune(nn, &layer, 1, &x, NULL, NULL, NULL, -1, diag), HYP_ERR_INVALID_ARGUMENT);
    assert_null(hyp_nn_stream(nn));
    assert_null(none);
    hyp_nn_destroy(nn);
}

static void note_line(const char *line, void *user)
{
    assert_non_null(strchr(line, ':'));
    ++*(int *)user;
}

/* The same bits in every run, on any number of threads. */
static void results_stand(void **unused)
{
    (void)unused;
    uint64_t seed = 11;
    double *first = NULL;
    for (int i = 0; i < 4; i++) {
        uint64_t again = seed;
        int lines = 0;
        hyp_nn *nn = open_nn(HYP_DEVICE_CPU, 1 + i % 2 * 2);
        nn_numbers n = nn_draw(&usual, false, &again);
        nn_tensors t;
        nn_place(nn, &usual, &n, 0, &t);
        assert_int_equal(nn_forward(nn, &usual, &t, true, diag), HYP_OK);
        assert_int_equal(nn_backward(nn, &usual, &t, diag), HYP_OK);
        double *dw = nn_fetch(nn, &t.gradients[0].weight, 48, 24, 24);
        if (first) assert_memory_equal(dw, first, 48 * 24 * sizeof *dw);
        if (first) free(dw);
        if (!first) first = dw;
        hyp_nn_describe(nn, note_line, &lines);
        assert_int_equal(lines, 9); /* three layers, three products each */
        nn_unplace(nn, &usual, &t);
        nn_free(&n);
        hyp_nn_destroy(nn);
    }
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_is_right),
        cmocka_unit_test(one_layer),
        cmocka_unit_test(passes_are_right),
        cmocka_unit_test(large_passes_are_right),
        cmocka_unit_test(ends_of_the_range),
        cmocka_unit_test(no_rows),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(runs_allocate_nothing),
        cmocka_unit_test(many_shapes),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(results_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

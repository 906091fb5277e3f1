/* LSTM, GRU and RNN on a GPU against the reference backend. Needs a GPU, or the emulator: see device_start. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */

typedef struct recurrence {
    const char *kernel;
    int64_t times, batch, size;
    bool lengths, states, extra; /* inputs; extra: peepholes, or the bias of the candidate */
    bool reverse, other;         /* other: coupled gates, or the reset gate behind the product; of gradients: slopes are absent */
    double clip;
    const char *f, *g, *h;
} recurrence;

enum { MOST_BATCH = 8 };

/* Of every length that there is, the longest one first. */
static uint32_t add_lengths(const recurrence *k)
{
    int64_t list[MOST_BATCH];
    assert_true(k->batch <= MOST_BATCH);
    for (int64_t i = 0; i < k->batch; i++) list[i] = k->times - i % (k->times + 1);
    return pb_weight(&builder, HYP_I64, 1, &k->batch, list);
}

static HypPlan__Call *build(const recurrence *k, hyp_dtype dtype, uint32_t lengths)
{
    const bool lstm = strcmp(k->kernel, "lstm") == 0, gru = strcmp(k->kernel, "gru") == 0;
    const int64_t gates = lstm ? 4 : gru ? 3 : 1, extras = lstm ? 3 * k->size : k->size;
    const int64_t x[] = {k->times, k->batch, gates * k->size}, r[] = {k->size, gates * k->size};
    const int64_t y[] = {k->times, k->batch, k->size}, *state = y + 1;
    uint64_t seed = 5;
    uint32_t in[6] = {pb_input(&builder, "x", dtype, 3, pb_consts(&builder, 3, x)),
                      random_weight(&builder, &seed, dtype, 2, r), PB_NONE, PB_NONE, PB_NONE, PB_NONE};
    size_t at = 2, extra_at = lstm ? 5 : 2, inputs = lstm ? 6 : gru ? 5 : 4;
    if (gru) at++;
    in[at] = lengths;
    if (k->states) in[at + 1] = pb_input(&builder, "h", dtype, 2, pb_consts(&builder, 2, state));
    if (k->states && lstm) in[at + 2] = pb_input(&builder, "c", dtype, 2, pb_consts(&builder, 2, state));
    if (k->extra && (lstm || gru)) in[extra_at] = random_weight(&builder, &seed, dtype, 1, &extras);
    HypPlan__Call *call =
        pb_call(&builder, k->kernel, inputs, in, pb_output(&builder, "y", dtype, 3, pb_consts(&builder, 3, y)));
    pb_call_output(call, pb_output(&builder, "last h", dtype, 2, pb_consts(&builder, 2, state)));
    if (lstm) pb_call_output(call, pb_output(&builder, "last c", dtype, 2, pb_consts(&builder, 2, state)));
    pb_call_int(&builder, call, k->reverse);
    pb_call_float(&builder, call, k->clip);
    pb_call_symbol(&builder, call, k->f);
    if (lstm || gru) pb_call_symbol(&builder, call, k->g);
    if (lstm) pb_call_symbol(&builder, call, k->h);
    if (lstm || gru) pb_call_int(&builder, call, k->other);
    return call;
}

static void check_recurrence(const recurrence *k, hyp_dtype dtype)
{
    const int64_t gates = strcmp(k->kernel, "lstm") == 0 ? 4 : strcmp(k->kernel, "gru") == 0 ? 3 : 1;
    tolerance want = tolerance_of(dtype, k->size);
    want.atol *= 4; /* the state is rounded at every time */
    pb_init(&builder);
    build(k, dtype, k->lengths ? add_lengths(k) : PB_NONE);
    check_plan(&dev, &builder,
               (dims_list){{k->times, k->batch, gates * k->size}, {k->batch, k->size}, {k->batch, k->size}}, want);
}

/* Odd sizes have gates that begin at no multiple of 16 bytes. */
static const recurrence cases[] = {
    {"lstm", 4, 3, 5, false, false, false, false, false, 0, "sigmoid", "tanh", "tanh"},
    {"lstm", 5, 4, 16, true, true, true, false, false, 0, "sigmoid", "tanh", "tanh"},
    {"lstm", 5, 7, 3, true, true, true, true, true, 0.5, "sigmoid", "relu", "tanh"},
    {"lstm", 3, 1, 33, false, true, false, true, true, 0, "tanh", "sigmoid", "sigmoid"},
    {"lstm", 0, 2, 3, false, true, false, false, false, 0, "sigmoid", "tanh", "tanh"},
    {"lstm", 3, 0, 3, false, false, false, false, false, 0, "sigmoid", "tanh", "tanh"},
    {"gru", 4, 3, 5, false, false, false, false, false, 0, "sigmoid", "tanh", ""},
    {"gru", 5, 4, 16, true, true, true, true, false, 0, "sigmoid", "tanh", ""},
    {"gru", 5, 7, 3, true, true, true, true, true, 0.5, "sigmoid", "relu", ""},
    {"gru", 3, 1, 33, false, false, true, false, true, 0, "tanh", "sigmoid", ""},
    {"gru", 0, 2, 3, false, false, false, false, false, 0, "sigmoid", "tanh", ""},
    {"rnn", 4, 3, 5, false, false, false, false, false, 0, "tanh", "", ""},
    {"rnn", 5, 7, 16, true, true, false, true, false, 0.25, "tanh", "", ""},
    {"rnn", 3, 1, 1, false, true, false, false, false, 0, "sigmoid", "", ""},
    {"rnn", 0, 2, 3, false, true, false, false, false, 0, "tanh", "", ""},
};

/* An lstm-cells is an lstm with an output more. */
static void cells_of_all_times_equal_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].kernel, "lstm") != 0) continue;
        for (int t = 0; t < FLOATS; t++) {
            recurrence k = cases[i];
            const int64_t y[] = {k.times, k.batch, k.size};
            tolerance want = tolerance_of(floats[t], k.size);
            want.atol *= 4;
            pb_init(&builder);
            HypPlan__Call *call = build(&k, floats[t], k.lengths ? add_lengths(&k) : PB_NONE);
            call->kernel = (char[]){"lstm-cells"};
            pb_call_output(call, pb_output(&builder, "cells", floats[t], 3, pb_consts(&builder, 3, y)));
            check_plan(&dev, &builder, (dims_list){{k.times, k.batch, 4 * k.size}, {k.batch, k.size}, {k.batch, k.size}}, want);
        }
    }
}

/* Small enough that nothing grows from time to time. */
static uint32_t add_r(uint64_t *seed, hyp_dtype dtype, const int64_t *dims)
{
    enum { MOST = 33 * 4 * 33 };
    static double room[MOST];
    size_t count = (size_t)(dims[0] * dims[1]);
    assert_true(count <= MOST);
    random_fill(seed, dtype, room, count);
    for (size_t i = 0; i < count; i++)
        hyp_store_f64(dtype, room, i, hyp_load_f64(dtype, room, i) / sqrt((double)dims[1]));
    return pb_weight(&builder, dtype, 2, dims, room);
}

/* Gradients: of which x is the first slope, and the other slopes are weights. `after`: the reset gate behind the product. */
static void build_gradient(const recurrence *k, hyp_dtype dtype, bool after)
{
    enum { MOST = 11, R = 1, LENGTHS, G, H };
    const bool lstm = strcmp(k->kernel, "lstm-gradient") == 0, gru = strcmp(k->kernel, "gru-gradient") == 0;
    const int64_t gates = lstm ? 4 : gru ? 3 : 1, inputs = lstm ? 11 : gru ? 9 : 5;
    const int64_t n[] = {k->times, k->batch, k->size}, r[] = {k->size, gates * k->size}, *one = n + 1;
    const int64_t d[] = {k->times, k->batch, gates * k->size};
    uint64_t seed = 6;
    uint32_t in[MOST];
    for (int64_t i = 0; i < inputs; i++) {
        bool first = i == H || (lstm && i == H + 1), slope = i > H && !first;
        if (i == 0)
            in[i] = pb_input(&builder, "x", dtype, 3, pb_consts(&builder, 3, n));
        else if (i == R)
            in[i] = add_r(&seed, dtype, r);
        else if (i == LENGTHS)
            in[i] = k->lengths ? add_lengths(k) : PB_NONE;
        else if (first)
            in[i] = k->states ? random_weight(&builder, &seed, dtype, 2, one) : PB_NONE;
        else
            in[i] = slope && k->other && i % 2 ? PB_NONE : random_weight(&builder, &seed, dtype, 3, n);
    }
    HypPlan__Call *call = pb_call(&builder, k->kernel, (size_t)inputs, in,
                                  pb_output(&builder, "d", dtype, 3, pb_consts(&builder, 3, d)));
    pb_call_output(call, pb_output(&builder, "first h", dtype, 2, pb_consts(&builder, 2, one)));
    if (lstm) pb_call_output(call, pb_output(&builder, "first c", dtype, 2, pb_consts(&builder, 2, one)));
    pb_call_int(&builder, call, k->reverse);
    if (gru) pb_call_int(&builder, call, after);
}

static void gradients_equal_reference_for_every_type_and_option(void **state)
{
    static const char *const kernels[] = {"lstm-gradient", "gru-gradient", "rnn-gradient"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < FLOATS * 6; t++) {
            recurrence k = cases[i];
            hyp_dtype dtype = floats[t % FLOATS];
            k.kernel = kernels[t / FLOATS % 3];
            tolerance want = tolerance_of(dtype, 4 * k.size);
            want.atol *= 4; /* what goes from time to time is multiplied again */
            if (k.times == 0 || k.batch == 0) continue; /* weights of nothing */
            pb_init(&builder);
            build_gradient(&k, dtype, t >= FLOATS * 3);
            check_plan(&dev, &builder, (dims_list){{k.times, k.batch, k.size}}, want);
        }
}

static void recurrences_equal_reference_for_every_type_and_option(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < FLOATS; t++) check_recurrence(&cases[i], floats[t]);
}

static void a_length_that_is_out_of_range_is_an_error(void **state)
{
    (void)state;
    for (int64_t wrong = -1; wrong < 5; wrong += 5) { /* -1 and 4 */
        recurrence k = {"rnn", 3, 2, 4, true, false, false, false, false, 0, "tanh", "", ""};
        float x[3 * 2 * 4] = {0}, y[3 * 2 * 4], last[2 * 4];
        int64_t lengths[] = {3, wrong};
        hyp_diag diag = {0};
        hyp_context *context;
        pb_init(&builder);
        const int64_t two = 2;
        build(&k, HYP_F32, pb_weight(&builder, HYP_I64, 1, &two, lengths));
        hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
        assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
        hyp_tensor in = {.name = "x", .dtype = HYP_F32, .rank = 3, .dims = {3, 2, 4}, .data = x, .bytes = sizeof x};
        hyp_tensor out[] = {
            {.name = "y", .dtype = HYP_F32, .rank = 3, .dims = {3, 2, 4}, .data = y, .bytes = sizeof y},
            {.name = "last h", .dtype = HYP_F32, .rank = 2, .dims = {2, 4}, .data = last, .bytes = sizeof last}};
        assert_int_equal(hyp_context_run(context, &in, 1, out, 2, &diag), HYP_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.message, wrong < 0 ? "-1 is out of range" : "4 is out of range"));
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
        pb_dispose(&builder);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recurrences_equal_reference_for_every_type_and_option),
        cmocka_unit_test(cells_of_all_times_equal_reference),
        cmocka_unit_test(gradients_equal_reference_for_every_type_and_option),
        cmocka_unit_test(a_length_that_is_out_of_range_is_an_error),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

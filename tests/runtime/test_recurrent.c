/* LSTM, GRU and RNN on the CPU against the reference backend: every option of every cell, drawn at random, with every
 * instruction set, on one thread and on three; lengths that are out of range; and that none of it is left to plain
 * loops.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recurrent_runs.h"

enum { MOST = 1 << 16, MOST_TERMS = 1 << 22 /* which sanitizers take their time for */, OUTPUTS = 4, MOST_R = 300 * 1200 };

typedef struct recurrence {
    const char *cell;
    hyp_dtype dtype, lengths_dtype; /* the latter NONE: all are `time` long */
    int64_t time, batch, size, gates;
    bool states, extra, reverse, option; /* extra: a GRU's bias, an LSTM's peepholes; option: coupled, reset after */
    bool trained, cells;                 /* r and what is extra are inputs; an lstm-cells */
    double clip;
    const char *acts[3];
} recurrence;

static plan_builder b;
static rng r;
static const char *const names[OUTPUTS] = {"y", "h", "c", "cells"};
static float x[MOST], weights[2][MOST_R] /* r, what is extra */, first[2][MOST], want[OUTPUTS][MOST], got[OUTPUTS][MOST];
static int64_t lengths[128];

static bool is(const recurrence *k, const char *cell) { return strcmp(k->cell, cell) == 0; }

static size_t outputs_of(const recurrence *k) { return is(k, "lstm") ? k->cells ? 4 : 3 : 2; }

static const char *draw_act(void)
{
    static const char *const names_of[] = {"sigmoid", "tanh", "relu"};
    return names_of[rng_below(&r, 3)];
}

static recurrence draw(void)
{
    static const char *const cells[] = {"lstm", "gru", "rnn"};
    static const int64_t sizes[] = {1, 7, 16, 33, 130, 300}, batches[] = {1, 2, 3, 17, 24, 50, 100};
    static const double clips[] = {0, 0, 0.3};
    static const hyp_dtype types[] = {HYP_F32, HYP_F32, HYP_F32, HYP_BF16, HYP_F16},
                           length_types[] = {HYP_DTYPE_NONE, HYP_I32, HYP_I64};
    recurrence k = {.cell = cells[rng_below(&r, 3)],
                    .dtype = types[rng_below(&r, 5)],
                    .lengths_dtype = length_types[rng_below(&r, 3)],
                    .time = (int64_t)rng_below(&r, 6),
                    .batch = batches[rng_below(&r, 7)],
                    .size = sizes[rng_below(&r, 6)],
                    .states = rng_below(&r, 2),
                    .extra = rng_below(&r, 2),
                    .reverse = rng_below(&r, 2),
                    .option = rng_below(&r, 2),
                    .trained = rng_below(&r, 2),
                    .cells = rng_below(&r, 2),
                    .clip = clips[rng_below(&r, 3)],
                    .acts = {draw_act(), draw_act(), draw_act()}};
    k.gates = is(&k, "lstm") ? 4 : is(&k, "gru") ? 3 : 1;
    while (k.time * k.batch * k.gates * k.size > MOST || k.time * k.batch * k.gates * k.size * k.size > MOST_TERMS)
        k.batch > 1 ? (k.batch /= 2) : k.time--;
    return k;
}

static void fill(hyp_dtype dtype, void *data, int64_t count, double scale)
{
    for (int64_t i = 0; i < count; i++) hyp_store_f64(dtype, data, (size_t)i, rng_float(&r) * scale);
}

/* r, or what is extra: a weight of the plan, or an input. */
static uint32_t weight(const recurrence *k, int which, size_t rank, const int64_t *dims)
{
    int64_t count = 1;
    for (size_t i = 0; i < rank; i++) count *= dims[i];
    assert_true(count <= MOST_R);
    fill(k->dtype, weights[which], count, 1 / sqrt((double)k->size));
    return k->trained ? pb_input(&b, which ? "e" : "r", k->dtype, rank, pb_consts(&b, rank, dims))
                      : pb_weight(&b, k->dtype, rank, dims, weights[which]);
}

static uint32_t state(const recurrence *k, const char *name)
{
    return k->states ? pb_input(&b, name, k->dtype, 2, pb_consts(&b, 2, (int64_t[]){k->batch, k->size})) : PB_NONE;
}

static void build(const recurrence *k)
{
    int64_t columns = k->gates * k->size;
    uint32_t in[6] = {pb_input(&b, "x", k->dtype, 3, pb_consts(&b, 3, (int64_t[]){k->time, k->batch, columns})),
                      weight(k, 0, 2, (int64_t[]){k->size, columns})};
    size_t at = 2;
    if (is(k, "gru")) in[at++] = k->extra ? weight(k, 1, 1, (int64_t[]){k->size}) : PB_NONE;
    in[at++] = k->lengths_dtype ? pb_input(&b, "n", k->lengths_dtype, 1, pb_consts(&b, 1, &k->batch)) : PB_NONE;
    in[at++] = state(k, "h0");
    if (is(k, "lstm")) in[at++] = state(k, "c0");
    if (is(k, "lstm")) in[at++] = k->extra ? weight(k, 1, 1, (int64_t[]){3 * k->size}) : PB_NONE;
    const int64_t y[] = {k->time, k->batch, k->size}, *last = y + 1;
    HypPlan__Call *call = pb_call(&b, is(k, "lstm") && k->cells ? "lstm-cells" : k->cell, at, in,
                                  pb_output(&b, names[0], k->dtype, 3, pb_consts(&b, 3, y)));
    for (size_t i = 1; i < outputs_of(k); i++)
        pb_call_output(call, i < 3 ? pb_output(&b, names[i], k->dtype, 2, pb_consts(&b, 2, last))
                                   : pb_output(&b, names[i], k->dtype, 3, pb_consts(&b, 3, y)));
    pb_call_int(&b, call, k->reverse);
    pb_call_float(&b, call, k->clip);
    for (size_t i = 0; i < (is(k, "lstm") ? 3u : is(k, "gru") ? 2u : 1u); i++) pb_call_symbol(&b, call, k->acts[i]);
    if (!is(k, "rnn")) pb_call_int(&b, call, k->option);
}

static hyp_status run(const recurrence *k, const char *path, hyp_device_kind device, const char *level, int threads,
                      float out[OUTPUTS][MOST], hyp_diag *why)
{
    hyp_tensor in[6] = {tensor_of("x", k->dtype, x, 3, (int64_t[]){k->time, k->batch, k->gates * k->size})}, y[OUTPUTS];
    size_t inputs = 1, outputs = outputs_of(k);
    const int64_t dims[2] = {k->batch, k->size}, extras = is(k, "lstm") ? 3 * k->size : k->size;
    if (k->trained) in[inputs++] = tensor_of("r", k->dtype, weights[0], 2, (int64_t[]){k->size, k->gates * k->size});
    if (k->trained && k->extra && !is(k, "rnn")) in[inputs++] = tensor_of("e", k->dtype, weights[1], 1, &extras);
    if (k->lengths_dtype) in[inputs++] = tensor_of("n", k->lengths_dtype, lengths, 1, dims);
    if (k->states) in[inputs++] = tensor_of("h0", k->dtype, first[0], 2, dims);
    if (k->states && is(k, "lstm")) in[inputs++] = tensor_of("c0", k->dtype, first[1], 2, dims);
    for (size_t i = 0; i < outputs; i++)
        y[i] = (hyp_tensor){.name = names[i], .data = out[i], .bytes = sizeof out[i], .dtype = k->dtype};
    return run_plan(path, device, level, threads, in, inputs, y, outputs, why);
}

static void make_data(const recurrence *k)
{
    fill(k->dtype, x, k->time * k->batch * k->gates * k->size, 2);
    for (int i = 0; i < 2; i++) fill(k->dtype, first[i], k->batch * k->size, 1);
    for (int64_t i = 0; i < k->batch && k->lengths_dtype; i++)
        hyp_store_i64(k->lengths_dtype, lengths, (size_t)i, (int64_t)rng_below(&r, (uint64_t)k->time + 1));
}

/* The plan of one recurrence, in a file, and data for it. */
static void set_up(const recurrence *k, char path[PB_PATH])
{
    pb_init(&b);
    build(k);
    pb_write(&b, path);
    make_data(k);
}

static void compare(const void *step, const char *path, const char *level, int threads)
{
    const recurrence *k = step;
    hyp_diag diag = {0};
    char what[160];
    if (run(k, path, HYP_DEVICE_CPU, level, threads, got, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (size_t o = 0; o < outputs_of(k); o++) {
        snprintf(what, sizeof what, "%s, %d threads: %s of %lld times, batch %lld, size %lld: %s", level, threads, k->cell,
                 (long long)k->time, (long long)k->batch, (long long)k->size, names[o]);
        compare_output(k->dtype, got[o], want[o], (size_t)((o == 1 || o == 2 ? 1 : k->time) * k->batch * k->size), what);
    }
}

static void recurrences_agree(void **state_)
{
    (void)state_;
    for (int round = 0; round < rounds(120); round++) {
        recurrence k = draw();
        char path[PB_PATH];
        hyp_diag diag = {0};
        set_up(&k, path);
        assert_int_equal(run(&k, path, HYP_DEVICE_REFERENCE, NULL, 1, want, &diag), HYP_OK);
        on_every_cpu(&k, path, compare);
        unlink(path);
        pb_dispose(&b);
    }
}

static void lengths_out_of_range_are_refused(void **state_)
{
    (void)state_;
    static const char *const cells[] = {"lstm", "gru", "rnn"};
    for (int i = 0; i < 6; i++) {
        recurrence k = {.cell = cells[i % 3],
                        .dtype = HYP_F32,
                        .lengths_dtype = HYP_I64,
                        .time = 4,
                        .batch = 3,
                        .size = 16,
                        .acts = {"sigmoid", "tanh", "tanh"}};
        k.gates = i % 3 == 0 ? 4 : i % 3 == 1 ? 3 : 1;
        char path[PB_PATH];
        hyp_diag diag = {0};
        set_up(&k, path);
        lengths[2] = i < 3 ? 5 : -1;
        assert_int_equal(run(&k, path, HYP_DEVICE_CPU, NULL, 1, got, &diag), HYP_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.message, i < 3 ? "length 5 is out of range" : "length -1 is out of range"));
        unlink(path);
        pb_dispose(&b);
    }
}

int main(void)
{
    r.state = 8;
    const struct CMUnitTest tests[] = {cmocka_unit_test(recurrences_agree),
                                       cmocka_unit_test(lengths_out_of_range_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

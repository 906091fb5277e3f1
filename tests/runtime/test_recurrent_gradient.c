/* Gradients of recurrences on the CPU against the reference backend: every option drawn at random, with every
 * instruction set, on one thread and on three; lengths that are out of range; and that none of it is left to plain
 * loops.
 */
#include <string.h>
#include <unistd.h>

#include "kernels/slopes.h"
#include "recurrent_runs.h"

enum { MOST = 1 << 16, MOST_TERMS = 1 << 22, OUTPUTS = 3, R = 1, LENGTHS, G, H, C };

typedef struct gradient {
    const char *kernel;
    hyp_dtype dtype, lengths_dtype;
    int64_t time, batch, size, gates;
    bool reverse, after;
    bool given[HYP_SLOPES]; /* by input */
} gradient;

static plan_builder b;
static rng r;
static const char *const names[HYP_SLOPES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}, *const outs[] = {
                                                                                                           "d", "h",
                                                                                                           "c"};
static float data[HYP_SLOPES][1 << 19], want[OUTPUTS][4 * MOST], got[OUTPUTS][4 * MOST];

static size_t outputs_of(const gradient *k) { return k->gates == 4 ? 3 : 2; }
static size_t inputs_of(const gradient *k) { return k->gates == 4 ? 11 : k->gates == 3 ? 9 : 5; }

static gradient draw(void)
{
    static const char *const kernels[] = {"lstm-gradient", "gru-gradient", "rnn-gradient"};
    static const int64_t sizes[] = {1, 7, 16, 33, 130}, batches[] = {1, 2, 3, 17, 50, 100}, gates[] = {4, 3, 1};
    static const hyp_dtype types[] = {HYP_F32, HYP_F32, HYP_BF16}, length_types[] = {HYP_I32, HYP_I64};
    size_t which = rng_below(&r, 3);
    gradient k = {.kernel = kernels[which],
                  .dtype = types[rng_below(&r, 3)],
                  .lengths_dtype = length_types[rng_below(&r, 2)],
                  .time = (int64_t)rng_below(&r, 6),
                  .batch = batches[rng_below(&r, 6)],
                  .size = sizes[rng_below(&r, 5)],
                  .gates = gates[which],
                  .reverse = rng_below(&r, 2),
                  .after = rng_below(&r, 2)};
    for (size_t i = 0; i < inputs_of(&k); i++) k.given[i] = i <= R || rng_below(&r, 4) > 0;
    while (k.time * k.batch * k.size > MOST || k.time * k.batch * k.gates * k.size * k.size > MOST_TERMS)
        k.batch > 1 ? (k.batch /= 2) : k.time--;
    return k;
}

/* Dims and rank of input i. */
static size_t shape_of(const gradient *k, size_t i, int64_t dims[3])
{
    bool state = i == H || (i == C && k->gates == 4);
    dims[0] = i == R ? k->size : i == LENGTHS || state ? k->batch : k->time;
    dims[1] = i == R ? k->gates * k->size : state ? k->size : k->batch;
    dims[2] = k->size;
    return i == LENGTHS ? 1 : i == R || state ? 2 : 3;
}

static void fill(const gradient *k)
{
    for (size_t i = 0; i < inputs_of(k); i++) {
        int64_t dims[3], count = 1;
        size_t rank = shape_of(k, i, dims);
        for (size_t a = 0; a < rank; a++) count *= dims[a];
        for (int64_t j = 0; j < count; j++)
            if (i == LENGTHS)
                hyp_store_i64(k->lengths_dtype, data[i], (size_t)j, (int64_t)rng_below(&r, (uint64_t)k->time + 1));
            else
                hyp_store_f64(k->dtype, data[i], (size_t)j, rng_float(&r) / (i == R ? sqrt((double)k->size) : 1));
    }
}

static hyp_dtype type_of(const gradient *k, size_t i) { return i == LENGTHS ? k->lengths_dtype : k->dtype; }

static void build(const gradient *k, char path[PB_PATH])
{
    uint32_t in[HYP_SLOPES];
    const int64_t d[] = {k->time, k->batch, k->gates * k->size}, state[] = {k->batch, k->size};
    pb_init(&b);
    for (size_t i = 0; i < inputs_of(k); i++) {
        int64_t dims[3];
        size_t rank = shape_of(k, i, dims);
        in[i] = k->given[i] ? pb_input(&b, names[i], type_of(k, i), rank, pb_consts(&b, rank, dims)) : PB_NONE;
    }
    HypPlan__Call *call =
        pb_call(&b, k->kernel, inputs_of(k), in, pb_output(&b, outs[0], k->dtype, 3, pb_consts(&b, 3, d)));
    for (size_t i = 1; i < outputs_of(k); i++)
        pb_call_output(call, pb_output(&b, outs[i], k->dtype, 2, pb_consts(&b, 2, state)));
    pb_call_int(&b, call, k->reverse);
    if (k->gates == 3) pb_call_int(&b, call, k->after);
    pb_write(&b, path);
}

static hyp_status run(const gradient *k, const char *path, hyp_device_kind device, const char *level, int threads,
                      float out[OUTPUTS][4 * MOST], hyp_diag *why)
{
    hyp_tensor in[HYP_SLOPES], y[OUTPUTS];
    size_t inputs = 0;
    for (size_t i = 0; i < inputs_of(k); i++) {
        int64_t dims[3];
        size_t rank = shape_of(k, i, dims);
        if (k->given[i]) in[inputs++] = tensor_of(names[i], type_of(k, i), data[i], (int)rank, dims);
    }
    for (size_t i = 0; i < outputs_of(k); i++)
        y[i] = (hyp_tensor){.name = outs[i], .data = out[i], .bytes = sizeof out[i], .dtype = k->dtype};
    return run_plan(path, device, level, threads, in, inputs, y, outputs_of(k), why);
}

static void compare(const void *step, const char *path, const char *level, int threads)
{
    const gradient *k = step;
    hyp_diag diag = {0};
    char what[160];
    if (run(k, path, HYP_DEVICE_CPU, level, threads, got, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (size_t o = 0; o < outputs_of(k); o++) {
        snprintf(what, sizeof what, "%s, %d threads: %s of %lld times, batch %lld, size %lld: %s", level, threads,
                 k->kernel, (long long)k->time, (long long)k->batch, (long long)k->size, outs[o]);
        compare_output(k->dtype, got[o], want[o], (size_t)((o ? k->size : k->time * k->gates * k->size) * k->batch), what);
    }
}

static void gradients_agree(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(120); round++) {
        gradient k = draw();
        char path[PB_PATH];
        hyp_diag diag = {0};
        build(&k, path);
        fill(&k);
        assert_int_equal(run(&k, path, HYP_DEVICE_REFERENCE, NULL, 1, want, &diag), HYP_OK);
        on_every_cpu(&k, path, compare);
        unlink(path);
        pb_dispose(&b);
    }
}

static void lengths_out_of_range_are_refused(void **state)
{
    static const char *const kernels[] = {"lstm-gradient", "gru-gradient", "rnn-gradient"};
    static const int64_t gates[] = {4, 3, 1};
    (void)state;
    for (int i = 0; i < 6; i++) {
        gradient k = {.kernel = kernels[i % 3],
                      .dtype = HYP_F32,
                      .lengths_dtype = HYP_I64,
                      .time = 4,
                      .batch = 3,
                      .size = 16,
                      .gates = gates[i % 3],
                      .given = {true, true, true}};
        char path[PB_PATH];
        hyp_diag diag = {0};
        build(&k, path);
        fill(&k);
        hyp_store_i64(HYP_I64, data[LENGTHS], 2, i < 3 ? 5 : -1);
        assert_int_equal(run(&k, path, HYP_DEVICE_CPU, NULL, 1, got, &diag), HYP_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.message, i < 3 ? "length 5 is out of range" : "length -1 is out of range"));
        unlink(path);
        pb_dispose(&b);
    }
}

int main(void)
{
    r.state = 9;
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_agree),
                                       cmocka_unit_test(lengths_out_of_range_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

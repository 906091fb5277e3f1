/* Processes that run a plan together: threads of this one, each with a rank, on the emulator's device and NCCL. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/driver/nccl.h"
#include "runtime/cuda/emulator_tells.h"
#include "runtime/plan_builder.h"

#define OP(name) HYP_PLAN__POINTWISE__OP__##name
enum { RANKS = 3, ROWS = 5, WIDTH = 4, RUNS = 12 };

static plan_builder builder; /* large */
static char path[PB_PATH];

/* r, s = mean(relu(x)), mean(z); y = sum(-r); t = sum(z): of two sums the second does not wait for anything that the first
 * gives. */
static bool (*emulator_fail)(const char *call, int result, int n);

static int make_plan(void **state)
{
    (void)state;
    if (!emulator_function("emulator_fail", &emulator_fail)) return -1;
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), width = pb_const(&builder, WIDTH), shape[] = {batch, width};
    uint32_t dense[] = {width, pb_const(&builder, 1)};
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, shape), z = pb_input(&builder, "z", HYP_F64, 1, &width);
    uint32_t h = pb_scratch(&builder, HYP_F32, 0, 2, shape), r = pb_scratch(&builder, HYP_F32, 1, 2, shape);
    uint32_t n = pb_scratch(&builder, HYP_F32, 2, 2, shape), y = pb_output(&builder, "y", HYP_F32, 2, shape);
    uint32_t s = pb_output(&builder, "s", HYP_F64, 1, &width), t = pb_output(&builder, "t", HYP_F64, 1, &width);
    HypPlan__Pointwise *relu = pb_pointwise(&builder, HYP_F32, 2, shape);
    pb_operand(&builder, relu, x, dense);
    pb_result(&builder, relu, h, pb_instr(&builder, relu, OP(RELU), 0, 0, 0, 0, HYP_F32));
    HypPlan__Call *means = pb_call(&builder, "all-reduce", 2, (uint32_t[]){h, z}, r);
    pb_call_output(means, s);
    pb_call_symbol(&builder, means, "mean");
    HypPlan__Pointwise *neg = pb_pointwise(&builder, HYP_F32, 2, shape);
    pb_operand(&builder, neg, r, dense);
    pb_result(&builder, neg, n, pb_instr(&builder, neg, OP(NEG), 0, 0, 0, 0, HYP_F32));
    pb_call_symbol(&builder, pb_call(&builder, "all-reduce", 1, &n, y), "sum");
    pb_call_symbol(&builder, pb_call(&builder, "all-reduce", 1, &z, t), "sum");
    pb_write(&builder, path);
    return 0;
}

static int remove_plan(void **state)
{
    (void)state;
    pb_remove(&builder, path);
    return 0;
}

static float x_of(int rank, int run, int i) { return (float)(i % 7 - 3 + rank + run); }
static double z_of(int rank, int run, int i) { return (double)(i - rank * run); }

/* One run of one rank, by its number, and what is wrong with what it gives for `size` ranks. */
static const char *run(hyp_context *c, int rank, int size, int number, hyp_diag *diag)
{
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    double z[WIDTH], s[WIDTH], t[WIDTH];
    int rows = number % 3 ? ROWS : 2;
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = x_of(rank, number, i);
    for (int i = 0; i < WIDTH; i++) z[i] = z_of(rank, number, i);
    const hyp_tensor in[] = {{.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 2, .dims = {rows, WIDTH}},
                             {.data = z, .bytes = sizeof z, .dtype = HYP_F64, .rank = 1, .dims = {WIDTH}}};
    hyp_tensor out[] = {{.data = y, .bytes = sizeof y, .dtype = HYP_F32},
                        {.data = s, .bytes = sizeof s, .dtype = HYP_F64},
                        {.data = t, .bytes = sizeof t, .dtype = HYP_F64}};
    if (hyp_context_run(c, in, 2, out, 3, diag) != HYP_OK) return diag->message;
    for (int i = 0; i < rows * WIDTH; i++) {
        float sum = 0;
        for (int k = 0; k < size; k++) sum += x_of(k, number, i) > 0 ? x_of(k, number, i) : 0;
        float want = (float)((double)sum / size) * -(float)size;
        if (y[i] < want - 1e-5f || y[i] > want + 1e-5f) return "y is wrong";
    }
    for (int i = 0; i < WIDTH; i++) {
        double sum = 0;
        for (int k = 0; k < size; k++) sum += z_of(k, number, i);
        if (s[i] != sum / size || t[i] != sum) return "s or t is wrong";
    }
    return NULL;
}

typedef struct member {
    const unsigned char *id;
    int rank, runs;
    char wrong[256];
} member;

static const char *take_part(member *m, hyp_diag *diag)
{
    hyp_group *group;
    hyp_engine *e;
    hyp_context *c;
    const char *wrong = NULL;
    if (hyp_group_join(m->id, m->rank, RANKS, 0, &group, diag) != HYP_OK) return diag->message;
    if (hyp_group_rank(group) != m->rank || hyp_group_size(group) != RANKS) wrong = "another rank or size";
    const hyp_engine_options o = {.size = sizeof o, .group = group};
    if (hyp_engine_load_file(path, &o, &e, diag) != HYP_OK) return diag->message;
    if (hyp_engine_device(e) != HYP_DEVICE_CUDA) wrong = "another device";
    if (hyp_context_create(e, NULL, &c, diag) != HYP_OK) return diag->message;
    for (int i = 0; i < m->runs && !wrong; i++) wrong = run(c, m->rank, RANKS, i, diag);
    if (hyp_context_tune(c, NULL, 0, NULL, NULL, diag) != HYP_ERR_UNSUPPORTED) wrong = "it could be tuned";
    hyp_context_destroy(c);
    hyp_engine_destroy(e);
    hyp_group_leave(group);
    return wrong;
}

static void *start(void *user)
{
    member *m = user;
    hyp_diag diag = {0};
    const char *wrong = take_part(m, &diag);
    if (wrong) snprintf(m->wrong, sizeof m->wrong, "%.*s", (int)sizeof m->wrong - 1, wrong);
    return NULL;
}

static void sums_are_over_all_ranks(void **state)
{
    (void)state;
    unsigned char id[HYP_GROUP_ID_BYTES];
    hyp_diag diag = {0};
    for (int turn = 0; turn < 2; turn++) {
        member members[RANKS] = {{0}};
        pthread_t threads[RANKS];
        if (hyp_group_make_id(id, &diag) != HYP_OK) fail_msg("%s", diag.message);
        for (int i = 0; i < RANKS; i++) {
            members[i] = (member){.id = id, .rank = i, .runs = RUNS};
            assert_int_equal(pthread_create(&threads[i], NULL, start, &members[i]), 0);
        }
        for (int i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < RANKS; i++)
            if (members[i].wrong[0]) fail_msg("rank %d: %s", i, members[i].wrong);
    }
}

static void a_process_alone_keeps_what_it_has(void **state)
{
    (void)state;
    unsigned char id[HYP_GROUP_ID_BYTES];
    hyp_diag diag = {0};
    for (int grouped = 0; grouped < 2; grouped++) {
        hyp_group *group = NULL;
        hyp_engine *e;
        hyp_context *c;
        if (grouped) {
            assert_int_equal(hyp_group_make_id(id, &diag), HYP_OK);
            assert_int_equal(hyp_group_join(id, 0, 1, 0, &group, &diag), HYP_OK);
        }
        const hyp_engine_options o = {.size = sizeof o, .device = HYP_DEVICE_CUDA, .group = group};
        if (hyp_engine_load_file(path, &o, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
        assert_int_equal(hyp_context_create(e, NULL, &c, &diag), HYP_OK);
        for (int i = 0; i < RUNS; i++) {
            const char *wrong = run(c, 0, 1, i, &diag);
            if (wrong) fail_msg("%s", wrong);
        }
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
        hyp_group_leave(group);
    }
    assert_int_equal(hyp_group_rank(NULL), 0);
    assert_int_equal(hyp_group_size(NULL), 1);
}

static void wrong_calls_are_errors(void **state)
{
    (void)state;
    unsigned char id[HYP_GROUP_ID_BYTES] = {0};
    static const int32_t numbers[][3] = {{0, 0, 0}, {-1, 2, 0}, {2, 2, 0}, {0, 1, -1}};
    hyp_group *group = NULL;
    hyp_engine *e = NULL;
    hyp_diag diag = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_int_equal(hyp_group_join(id, numbers[i][0], numbers[i][1], numbers[i][2], &group, &diag),
                         HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_group_join(id, 0, 1, 7, &group, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "there is no GPU 7"));
    assert_null(group);
    assert_int_equal(hyp_group_join(id, 0, 1, 0, &group, &diag), HYP_OK);
    hyp_engine_options o = {.size = sizeof o, .device = HYP_DEVICE_CPU, .group = group};
    assert_int_equal(hyp_engine_load_file(path, &o, &e, &diag), HYP_ERR_INVALID_ARGUMENT);
    o.device = HYP_DEVICE_CUDA;
    o.device_index = 1;
    assert_int_equal(hyp_engine_load_file(path, &o, &e, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "GPU 0 of cuda"));
    hyp_group_leave(group);
}

/* What a call to the emulator's device or to NCCL fails with is told, and all is given back. */
static void failures_are_told(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuCtxPushCurrent", "ncclCommInitRank"};
    unsigned char id[HYP_GROUP_ID_BYTES] = {0};
    hyp_group *group = NULL;
    hyp_diag diag = {0};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        emulator_fail(calls[i], CUDA_ERROR_NOT_SUPPORTED, 1);
        assert_int_equal(hyp_group_join(id, 0, 1, 0, &group, &diag), HYP_ERR_DEVICE);
        assert_non_null(strstr(diag.message, calls[i]));
    }
    hyp_engine *e;
    hyp_context *c;
    assert_int_equal(hyp_group_join(id, 0, 1, 0, &group, &diag), HYP_OK);
    const hyp_engine_options o = {.size = sizeof o, .group = group};
    assert_int_equal(hyp_engine_load_file(path, &o, &e, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(e, NULL, &c, &diag), HYP_OK);
    emulator_fail("ncclAllReduce", CUDA_ERROR_NOT_SUPPORTED, 1);
    assert_non_null(run(c, 0, 1, 0, &diag));
    assert_non_null(strstr(diag.message, "ncclAllReduce failed: NCCL status 3"));
    assert_null(run(c, 0, 1, 1, &diag));
    hyp_context_destroy(c);
    hyp_engine_destroy(e);
    hyp_group_leave(group);
}

static void a_machine_without_nccl_says_so(void **state)
{
    (void)state;
    unsigned char id[HYP_GROUP_ID_BYTES];
    hyp_diag diag = {0};
    char *set = strdup(getenv("HYPATIA_NCCL"));
    setenv("HYPATIA_EMULATOR", "old nccl", 1);
    assert_int_equal(hyp_group_make_id(id, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "version 2904: NCCL 2.10 or newer"));
    unsetenv("HYPATIA_EMULATOR");
    setenv("HYPATIA_NCCL", "/no/such/library.so", 1);
    assert_int_equal(hyp_group_make_id(id, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "HYPATIA_NCCL"));
    setenv("HYPATIA_NCCL", set, 1);
    free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_over_all_ranks),    cmocka_unit_test(a_process_alone_keeps_what_it_has),
        cmocka_unit_test(wrong_calls_are_errors),     cmocka_unit_test(failures_are_told),
        cmocka_unit_test(a_machine_without_nccl_says_so),
    };
    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}

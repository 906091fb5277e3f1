/* Loops that the runtime runs, from the model to their trips: cancellation and limits, memory, what happens when it
 * runs out, other threads, and plans that were changed. What they compute onnxruntime judges: judge_loops_run.py. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../onnx/model_builder.h"
#include "base/file.h"
#include "base/mem.h"
#include "hypatia/compiler.h"
#include "hypatia/runtime.h"
#include "plan/plan.h"
#include "support/count.h"

static const hyp_device_kind devices[] = {HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};
static const char *const acme[] = {"acme"};

#define ASSERT_OK(call)                                                                                                \
    do {                                                                                                               \
        hyp_diag *d_ = &why;                                                                                           \
        if ((call) != HYP_OK) fail_msg("%s", d_->message);                                                             \
    } while (0)
static hyp_diag why;

/* ---- the models ------------------------------------------------------------------------------------------------ */

typedef struct compiled {
    void *plan;
    size_t size;
} compiled;

static compiled compile(model_builder *b, int64_t limit)
{
    const hyp_compile_options o = {
        .size = sizeof o, .loop_limit = limit, .custom_domains = acme, .custom_domain_count = 1};
    compiled c = {0};
    size_t size;
    const uint8_t *bytes = mb_pack(b, &size);
    ASSERT_OK(hyp_compile_memory(bytes, size, &o, &c.plan, &c.size, NULL, &why));
    mb_dispose(b);
    return c;
}

/* h <- h / 2 + x, n times, and of each trip the sum of h; `inner`: within a trip the same again, as often as its number
 * says. */
static void make_halving(model_builder *out, bool inner, bool collects)
{
    model_builder b;
    mb_init(&b, 18);
    mb_input(&b, "x", HYP_F32, "rows 4");
    mb_input(&b, "n", HYP_I64, "");
    mb_const(&b, "half", HYP_F32, "", "0.5");
    HypOnnx__NodeProto *loop = mb_node(&b, "Loop", "n - x", collects ? "y sums" : "y", "");
    if (inner) {
        HypOnnx__NodeProto *within = mb_node(&b, "Loop", "i - h", "h1", "");
        mb_node(&b, "Mul", "g half", "g1", "");
        mb_node(&b, "Add", "g1 x", "g2", "");
        mb_node(&b, "Identity", "go1", "more1", "");
        mb_graph(&b, within, "body", "i1 go1 g", "more1 g2", 3);
    } else {
        mb_node(&b, "Mul", "h half", "h1", "");
    }
    mb_node(&b, "Add", "h1 x", "h2", "");
    mb_node(&b, "ReduceSum", "h2", "s", "keepdims=0");
    mb_node(&b, "Identity", "go", "more", "");
    mb_graph(&b, loop, "body", "i go h", collects ? "more h2 s" : "more h2", 4);
    mb_output(&b, "y");
    if (collects) mb_output(&b, "sums");
    *out = b;
}

static compiled halving(bool inner, bool collects, int64_t limit)
{
    model_builder b;
    make_halving(&b, inner, collects);
    return compile(&b, limit);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

enum { ROWS = 3, MOST = 4096 };

typedef struct running {
    hyp_engine *engine;
    hyp_context *context;
    float x[ROWS * 4], y[ROWS * 4], sums[MOST];
    int64_t n;
    hyp_tensor in[2], out[2];
    size_t outputs;
} running;

static hyp_status open_loaded(running *r, const compiled *c, hyp_device_kind device, const hyp_context_options *o,
                              hyp_diag *diag)
{
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < ROWS * 4; i++) r->x[i] = (float)i - 5;
    r->in[0] =
        (hyp_tensor){.name = "x", .data = r->x, .bytes = sizeof r->x, .dtype = HYP_F32, .rank = 2, .dims = {ROWS, 4}};
    r->in[1] = (hyp_tensor){.name = "n", .data = &r->n, .bytes = sizeof r->n, .dtype = HYP_I64};
    r->out[0] = (hyp_tensor){.name = "y", .data = r->y, .bytes = sizeof r->y, .dtype = HYP_F32};
    r->out[1] = (hyp_tensor){.name = "sums", .data = r->sums, .bytes = sizeof r->sums, .dtype = HYP_F32};
    hyp_status status = hyp_engine_load_memory(c->plan, c->size, &options, &r->engine, diag);
    if (status != HYP_OK) return status;
    r->outputs = hyp_engine_output_count(r->engine);
    return hyp_context_create(r->engine, o, &r->context, diag);
}

static void open_running(running *r, const compiled *c, hyp_device_kind device, const hyp_context_options *o)
{
    ASSERT_OK(open_loaded(r, c, device, o, &why));
}

static void close_running(running *r)
{
    hyp_context_destroy(r->context);
    hyp_engine_destroy(r->engine);
}

static hyp_status run(running *r, int64_t trips, hyp_diag *diag)
{
    r->n = trips;
    return hyp_context_run(r->context, r->in, 2, r->out, r->outputs, diag);
}

/* What `trips` trips of the plain loop make of the element 7. */
static float halved(const running *r, int64_t trips)
{
    float h = r->x[7];
    for (int64_t t = 0; t < trips; t++) h = h / 2 + r->x[7];
    return h;
}

static void check_run(running *r, int64_t trips)
{
    memset(r->y, 0x7f, sizeof r->y);
    ASSERT_OK(run(r, trips, &why));
    assert_true(r->y[7] == halved(r, trips));
    if (r->outputs > 1) assert_int_equal(r->out[1].dims[0], trips < 0 ? 0 : trips);
}

/* ---- limits ---------------------------------------------------------------------------------------------------- */

static void *cancel_soon(void *context)
{
    usleep(20000);
    hyp_context_cancel(context);
    return NULL;
}

static void a_run_is_cancelled_between_trips(void **state)
{
    (void)state;
    for (int inner = 0; inner < 2; inner++) {
        compiled c = halving(inner, false, 0);
        for (size_t d = 0; d < 2; d++) {
            running r;
            pthread_t thread;
            open_running(&r, &c, devices[d], NULL);
            assert_int_equal(pthread_create(&thread, NULL, cancel_soon, r.context), 0);
            assert_int_equal(run(&r, INT64_MAX, &why), HYP_ERR_CANCELLED);
            assert_non_null(strstr(why.message, "cancelled"));
            pthread_join(thread, NULL);
            ASSERT_OK(run(&r, 3, &why));
            if (!inner) check_run(&r, 5);
            close_running(&r);
        }
        free(c.plan);
    }
}

static void more_trips_than_there_is_room_for_fail(void **state)
{
    (void)state;
    const int64_t limits[] = {0, 7, 2000};
    for (size_t i = 0; i < 3; i++) {
        const int64_t most = limits[i] ? limits[i] : 1024;
        for (int collects = 0; collects < 2; collects++) {
            compiled c = halving(false, collects, limits[i]);
            running r;
            open_running(&r, &c, devices[i % 2], NULL);
            check_run(&r, most);
            if (collects || limits[i]) {
                assert_int_equal(run(&r, most + 1, &why), HYP_ERR_LIMIT);
                assert_non_null(strstr(why.message, "--loop-limit"));
                assert_int_equal(run(&r, INT64_MAX, &why), HYP_ERR_LIMIT);
            } else {
                check_run(&r, most + 1);
            }
            check_run(&r, 0);
            check_run(&r, -3);
            check_run(&r, 2);
            if (collects) assert_true(r.sums[0] != 0 && r.sums[1] != 0);
            close_running(&r);
            free(c.plan);
        }
    }
}

static void work_is_limited(void **state)
{
    (void)state;
    const hyp_context_options o = {.size = sizeof o, .work_limit = 1e5};
    for (int inner = 0; inner < 2; inner++) {
        compiled c = halving(inner, false, 0);
        for (size_t d = 0; d < 2; d++) {
            running r;
            open_running(&r, &c, devices[d], &o);
            assert_int_equal(run(&r, INT64_MAX, &why), HYP_ERR_LIMIT);
            assert_non_null(strstr(why.message, "work_limit"));
            ASSERT_OK(run(&r, 4, &why)); /* what the run before did is no matter */
            close_running(&r);
        }
        free(c.plan);
    }
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void memory_is_told_and_limited(void **state)
{
    (void)state;
    compiled c = halving(true, true, 0);
    char path[HYP_MEMORY_PATH];
    int file = hyp_memory_file(c.plan, c.size, path);
    assert_true(file >= 0);
    for (size_t d = 0; d < 2; d++) {
        const hyp_engine_options of = {.size = sizeof of, .device = devices[d]};
        running r;
        size_t needed, engine;
        ASSERT_OK(hyp_plan_memory_needed(path, &of, &engine, &why));
        open_running(&r, &c, devices[d], NULL);
        assert_true(hyp_engine_memory_bytes(r.engine) <= engine);
        size_t before = hyp_context_memory_bytes(r.context);
        ASSERT_OK(hyp_context_memory_needed(r.context, r.in, 2, &needed, &why));
        assert_int_equal(hyp_context_memory_bytes(r.context), before);
        ASSERT_OK(hyp_context_reserve(r.context, r.in, 2, &why));
        size_t has = hyp_context_memory_bytes(r.context);
        if (has > needed + 1024 || needed > has + 1024) fail_msg("%zu bytes were told, there are %zu", needed, has);
        uint64_t allocations = hyp_mem_count();
        ASSERT_OK(run(&r, 9, &why));
        ASSERT_OK(run(&r, 0, &why));
        assert_true(hyp_mem_count() == allocations); /* also the first run takes none */
        close_running(&r);
        const hyp_context_options little = {.size = sizeof little, .memory_limit = before + (has - before) / 2};
        open_running(&r, &c, devices[d], &little);
        assert_int_equal(run(&r, 2, &why), HYP_ERR_LIMIT);
        close_running(&r);
        const hyp_engine_options small = {.size = sizeof small, .device = devices[d], .memory_limit = 3000};
        assert_int_equal(hyp_engine_load_memory(c.plan, c.size, &small, &r.engine, &why), HYP_ERR_LIMIT);
    }
    close(file);
    free(c.plan);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    compiled c = halving(true, true, 0);
    for (size_t d = 0; d < 2; d++) {
        hyp_status status = HYP_ERR_NO_MEMORY;
        for (uint64_t n = 1; status != HYP_OK; n++) {
            running r;
            hyp_mem_fail_after(n);
            status = open_loaded(&r, &c, devices[d], NULL, &why);
            if (status == HYP_OK) status = run(&r, 3, &why);
            hyp_mem_fail_after(0);
            if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, why.message);
            if (r.context) ASSERT_OK(run(&r, 3, &why));
            close_running(&r);
            assert_true(n < 5000);
        }
    }
    free(c.plan);
}

static void the_compiler_may_run_out_of_memory(void **state)
{
    (void)state;
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status != HYP_OK; n += 1 + n / 100) {
        model_builder b;
        compiled c;
        make_halving(&b, true, true);
        size_t size;
        const uint8_t *bytes = mb_pack(&b, &size);
        const hyp_compile_options o = {.size = sizeof o, .no_rewrite = true};
        c = (compiled){0};
        hyp_mem_fail_after(n);
        status = hyp_compile_memory(bytes, size, &o, &c.plan, &c.size, NULL, &why);
        hyp_mem_fail_after(0);
        if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, why.message);
        mb_dispose(&b);
        free(c.plan);
        assert_true(n < 1000000);
    }
}

/* ---- others ---------------------------------------------------------------------------------------------------- */

static void *run_often(void *engine)
{
    running *r = calloc(1, sizeof *r);
    hyp_diag diag;
    const char *wrong = NULL;
    for (size_t i = 0; i < ROWS * 4; i++) r->x[i] = (float)i * 0.25f;
    hyp_tensor in[] = {
        {.name = "x", .data = r->x, .bytes = sizeof r->x, .dtype = HYP_F32, .rank = 2, .dims = {ROWS, 4}},
        {.name = "n", .data = &r->n, .bytes = sizeof r->n, .dtype = HYP_I64}};
    hyp_tensor out = {.name = "y", .data = r->y, .bytes = sizeof r->y, .dtype = HYP_F32};
    if (hyp_context_create(engine, NULL, &r->context, &diag) != HYP_OK) return (void *)(uintptr_t) "no context";
    for (int k = 0; k < 300 && !wrong; k++) {
        r->n = k % 23;
        in[0].dims[0] = 2 + k % 2;
        if (hyp_context_run(r->context, in, 2, &out, 1, &diag) != HYP_OK) wrong = "a run failed";
        if (r->y[7] != halved(r, r->n)) wrong = "a run is wrong";
    }
    hyp_context_destroy(r->context);
    free(r);
    return (void *)(uintptr_t)wrong;
}

static void contexts_run_at_once(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    compiled c = halving(false, false, 0);
    running r;
    pthread_t threads[THREADS];
    open_running(&r, &c, HYP_DEVICE_CPU, NULL);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&threads[t], NULL, run_often, r.engine), 0);
    for (int t = 0; t < THREADS; t++) {
        void *wrong;
        pthread_join(threads[t], &wrong);
        if (wrong) fail_msg("%s", (const char *)wrong);
    }
    close_running(&r);
    free(c.plan);
}

static hyp_status add_one(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    const float *x = call->inputs[0].data;
    float *y = call->outputs[0].data;
    (void)diag;
    for (size_t i = 0; i < call->inputs[0].bytes / sizeof *x; i++) y[i] = x[i] + 1;
    ++*(int *)user;
    return HYP_OK;
}

static void kernels_of_the_caller_are_called_in_trips(void **state)
{
    (void)state;
    model_builder b;
    int calls = 0;
    const hyp_custom_kernel kernel = {
        .size = sizeof kernel, .domain = "acme", .name = "AddOne", .run = add_one, .user = &calls};
    const hyp_custom_kernel *const kernels[] = {&kernel};
    mb_init(&b, 18);
    mb_input(&b, "x", HYP_F32, "4");
    mb_input(&b, "n", HYP_I64, "");
    HypOnnx__NodeProto *loop = mb_node(&b, "Loop", "n - x", "y", "");
    mb_node(&b, "AddOne", "h", "h2", "")->domain = (char *)(uintptr_t) "acme";
    mb_node(&b, "Identity", "go", "more", "");
    mb_graph(&b, loop, "body", "i go h", "more h2", 2);
    loop->attribute[0]->g->output[1] = mb_value_info(&b, "h2", HYP_F32, "4");
    mb_output(&b, "y");
    compiled c = compile(&b, 0);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU};
    hyp_engine *engine;
    hyp_context *context;
    assert_int_equal(hyp_engine_load_memory(c.plan, c.size, &options, &engine, &why), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.message, "acme::AddOne"));
    options.custom_kernels = kernels;
    options.custom_kernel_count = 1;
    ASSERT_OK(hyp_engine_load_memory(c.plan, c.size, &options, &engine, &why));
    ASSERT_OK(hyp_context_create(engine, NULL, &context, &why));
    float x[4] = {0, 1, 2, 3}, y[4];
    int64_t n = 40;
    hyp_tensor in[] = {{.name = "x", .data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 1, .dims = {4}},
                       {.name = "n", .data = &n, .bytes = sizeof n, .dtype = HYP_I64}};
    hyp_tensor out = {.name = "y", .data = y, .bytes = sizeof y, .dtype = HYP_F32};
    ASSERT_OK(hyp_context_run(context, in, 2, &out, 1, &why));
    assert_true(y[0] == 40 && y[3] == 43 && calls == 40);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    free(c.plan);
}

/* y = (x W) * 3, by itself or in a loop. */
static void make_scaled(model_builder *out, bool in_loop)
{
    model_builder b;
    mb_init(&b, 18);
    mb_input(&b, "x", HYP_F32, "rows 2");
    mb_input(&b, "n", HYP_I64, "");
    mb_const(&b, "w", HYP_F32, "2 2", "0.3 1.7 -0.9 0.1");
    mb_const(&b, "three", HYP_F32, "", "3.1");
    HypOnnx__NodeProto *loop = in_loop ? mb_node(&b, "Loop", "n - x", "y", "") : NULL;
    mb_node(&b, "MatMul", in_loop ? "h w" : "x w", "p", "");
    mb_node(&b, "Mul", "p three", in_loop ? "h2" : "y", "");
    if (in_loop) {
        mb_node(&b, "Identity", "go", "more", "");
        mb_graph(&b, loop, "body", "i go h", "more h2", 3);
    }
    mb_output(&b, "y");
    *out = b;
}

static compiled scaled(bool in_loop)
{
    model_builder b;
    make_scaled(&b, in_loop);
    return compile(&b, 0);
}

/* What n trips make of 1 1 with [[w 0] [0 w]] in the place of W. */
static void check_weights(hyp_context *context, int64_t n, double w)
{
    float x[2] = {1, 1}, y[2];
    double wanted = 1;
    hyp_tensor in[] = {{.name = "x", .data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 2, .dims = {1, 2}},
                       {.name = "n", .data = &n, .bytes = sizeof n, .dtype = HYP_I64}};
    hyp_tensor out = {.name = "y", .data = y, .bytes = sizeof y, .dtype = HYP_F32};
    ASSERT_OK(hyp_context_run(context, in, 2, &out, 1, &why));
    for (int64_t t = 0; t < n; t++) wanted *= w * 3.1;
    for (int i = 0; i < 2; i++)
        if (y[i] < wanted * 0.9999 || y[i] > wanted * 1.0001) fail_msg("%g, wanted %g", (double)y[i], wanted);
}

static void weights_of_bodies_are_replaced(void **state)
{
    (void)state;
    static const char *const names[] = {"w"};
    const hyp_compile_options o = {.size = sizeof o, .updatable = names, .updatable_count = 1};
    model_builder b;
    compiled c = {0};
    size_t size;
    make_scaled(&b, true);
    const uint8_t *bytes = mb_pack(&b, &size);
    ASSERT_OK(hyp_compile_memory(bytes, size, &o, &c.plan, &c.size, NULL, &why));
    mb_dispose(&b);
    for (size_t d = 0; d < 2; d++) {
        const hyp_engine_options options = {.size = sizeof options, .device = devices[d], .threads = 1};
        hyp_engine *engine;
        hyp_context *context;
        ASSERT_OK(hyp_engine_load_memory(c.plan, c.size, &options, &engine, &why));
        ASSERT_OK(hyp_context_create(engine, NULL, &context, &why));
        for (int k = 1; k < 4; k++) {
            float w[4] = {(float)k, 0, 0, (float)k};
            hyp_tensor t = {.name = "w", .data = w, .bytes = sizeof w, .dtype = HYP_F32, .rank = 2, .dims = {2, 2}};
            ASSERT_OK(hyp_engine_update(engine, &t, 1, &why));
            check_weights(context, k, k);
            check_weights(context, 4, k);
        }
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
    free(c.plan);
}

static void the_plan_tells_the_classes_of_its_bodies(void **state)
{
    (void)state;
    hyp_engine *engine;
    for (int k = 0; k < 2; k++) {
        compiled c = scaled(k);
        ASSERT_OK(hyp_engine_load_memory(c.plan, c.size, NULL, &engine, &why));
        assert_non_null(strchr(hyp_engine_classes(engine), 'R')); /* the scale is a part of the weights */
        hyp_engine_destroy(engine);
        free(c.plan);
    }
}

/* Whatever is changed in a plan that is loaded without looking at checksums: it is refused, or gives some numbers. */
static void changed_plans_do_no_harm(void **state)
{
    (void)state;
    compiled c = halving(true, true, 0);
    uint8_t *changed = aligned_alloc(64, (c.size + 63) / 64 * 64);
    const hyp_context_options limits = {.size = sizeof limits, .memory_limit = 1 << 24, .work_limit = 1e5};
    size_t ran = 0, refused = 0;
    uint64_t random = 5;
    for (uint64_t k = 0; k < test_count("HYPATIA_LOOP_PLANS", 3000); k++) {
        memcpy(changed, c.plan, c.size);
        for (uint64_t i = 0; i <= k % 3; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            changed[HYP_PLAN_HEADER + (random >> 33) % (c.size - HYP_PLAN_HEADER)] ^=
                (uint8_t)(1 << (random >> 30) % 8);
        }
        running r;
        const hyp_engine_options options = {.size = sizeof options,
                                            .device = devices[k % 2],
                                            .threads = 1,
                                            .checks = HYP_CHECKS_OFF,
                                            .memory_limit = 1 << 24};
        hyp_engine *engine = NULL;
        hyp_context *context = NULL;
        memset(&r, 0, sizeof r);
        r.n = 3;
        r.in[0] = (hyp_tensor){.data = r.x, .bytes = sizeof r.x, .dtype = HYP_F32, .rank = 2, .dims = {ROWS, 4}};
        r.in[1] = (hyp_tensor){.data = &r.n, .bytes = sizeof r.n, .dtype = HYP_I64};
        for (int o = 0; o < 2; o++) r.out[o] = (hyp_tensor){.dtype = HYP_F32, .memory = HYP_MEMORY_CONTEXT};
        hyp_status status = hyp_engine_load_memory(changed, c.size, &options, &engine, &why);
        if (status == HYP_OK) status = hyp_context_create(engine, &limits, &context, &why);
        if (status == HYP_OK) status = hyp_context_run(context, r.in, 2, r.out, 2, &why);
        ran += status == HYP_OK;
        refused += status != HYP_OK;
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
    print_message("%zu changed plans ran, %zu were refused\n", ran, refused);
    assert_true(ran > 10 && refused > 10);
    free(changed);
    free(c.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_cancelled_between_trips),
        cmocka_unit_test(more_trips_than_there_is_room_for_fail),
        cmocka_unit_test(work_is_limited),
        cmocka_unit_test(memory_is_told_and_limited),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_compiler_may_run_out_of_memory),
        cmocka_unit_test(contexts_run_at_once),
        cmocka_unit_test(kernels_of_the_caller_are_called_in_trips),
        cmocka_unit_test(weights_of_bodies_are_replaced),
        cmocka_unit_test(the_plan_tells_the_classes_of_its_bodies),
        cmocka_unit_test(changed_plans_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

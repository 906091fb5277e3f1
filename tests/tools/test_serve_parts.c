/* What hypatia serve is made of, without connections: elements as JSON, requests and plans where memory is short, which
 * requests run together, paths. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hypatia/compiler.h"
#include "hypatia/tensor_io.h"
#include "serve/clock.h"
#include "serve/json_cut.h"
#include "serve/route.h"
#include "serve/served_plan.h"

/* ---- memory that fails: what the parts and Jansson ask for (-Wl,--wrap) ---------------------------------------- */

static _Atomic long left = -1; /* allocations that go well yet; < 0: all */

static bool fails(void)
{
    long now = atomic_load(&left);
    if (now < 0) return false;
    if (now == 0) return true;
    atomic_fetch_sub(&left, 1);
    return false;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
/* The linker wraps them for the sanitizers' library, too, which has to see them. */
#define SEEN __attribute__((visibility("default")))
SEEN void *__wrap_malloc(size_t size);
SEEN void *__wrap_calloc(size_t count, size_t size);
SEEN void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

static budget plenty = {.most = (size_t)1 << 30};

/* ---- elements -------------------------------------------------------------------------------------------------- */

static void every_narrow_float_comes_back(void **state)
{
    (void)state;
    static const struct {
        hyp_dtype dtype;
        int64_t count;
    } types[] = {{HYP_F16, 65536}, {HYP_BF16, 65536}, {HYP_F8E4M3, 256}, {HYP_I16, 65536},
                 {HYP_U16, 65536}, {HYP_I8, 256},     {HYP_U8, 256},     {HYP_BOOL, 2}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        store s = {.budget = &plenty};
        size_t size = hyp_dtype_size(types[k].dtype);
        hyp_tensor t = {.dtype = types[k].dtype,
                        .rank = 1,
                        .dims = {types[k].count},
                        .bytes = (size_t)types[k].count * size},
                   back = t;
        t.data = store_alloc(&s, t.bytes);
        back.data = store_alloc(&s, t.bytes);
        for (int64_t i = 0; i < types[k].count; i++) memcpy((char *)t.data + (size_t)i * size, &i, size);
        text json = {.store = &s};
        wire_write_json(&json, &t);
        text_add(&json, "", 1);
        hyp_diag diag = {0};
        if (wire_read_json(json.data, json.len - 1, &back, &diag) != HYP_OK)
            fail_msg("%s: %s", wire_type_name(types[k].dtype), diag.message);
        for (int64_t i = 0; i < types[k].count; i++) {
            double was = hyp_tensor_at(&t, i), is = hyp_tensor_at(&back, i);
            if (isnan(was) ? !isnan(is)
                           : memcmp((char *)t.data + (size_t)i * size, (char *)back.data + (size_t)i * size, size) != 0)
                fail_msg("%s %lld: %.17g became %.17g", wire_type_name(types[k].dtype), (long long)i, was, is);
        }
        store_clear(&s);
    }
    assert_int_equal(atomic_load(&plenty.used), 0);
}

/* By the definition of rounding: no other number of the type is nearer, and of two that are as near the even one is
 * taken. */
static void numbers_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    const hyp_dtype types[] = {HYP_F16, HYP_BF16, HYP_F8E4M3};
    uint64_t seed = 1;
    for (int k = 0; k < 3; k++) {
        int64_t most = hyp_dtype_size(types[k]) == 1 ? 0x7e : types[k] == HYP_F16 ? 0x7bff : 0x7f7f;
        for (int i = 0; i < 3000; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            int64_t code = (int64_t)((seed >> 33) % (uint64_t)most);
            unsigned char low[2], high[2], got[2] = {0};
            int64_t above = code + 1;
            memcpy(low, &code, 2);
            memcpy(high, &above, 2);
            hyp_tensor one = {
                .dtype = types[k], .rank = 1, .dims = {1}, .bytes = hyp_dtype_size(types[k]), .data = low};
            double a = hyp_tensor_at(&one, 0), b, part = (double)((seed >> 20) % 5) / 4, wanted;
            one.data = high;
            b = hyp_tensor_at(&one, 0);
            double x = a + (b - a) * part; /* exact: a few bits more */
            wanted = part < 0.5 || (part == 0.5 && code % 2 == 0) ? a : b;
            char json[64];
            snprintf(json, sizeof json, "[%.17g]", x);
            one.data = got;
            assert_int_equal(wire_read_json(json, strlen(json), &one, NULL), HYP_OK);
            if (hyp_tensor_at(&one, 0) != wanted)
                fail_msg("%s: %s became %.17g, not %.17g", wire_type_name(types[k]), json, hyp_tensor_at(&one, 0),
                         wanted);
        }
    }
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void a_store_heeds_its_budget_and_gives_back(void **state)
{
    (void)state;
    budget b = {.most = 4096};
    store s = {.budget = &b};
    char *first = store_alloc(&s, 100), *second = store_alloc(&s, 1000);
    assert_non_null(first);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_null(store_alloc(&s, 4000));
    assert_null(store_alloc(&s, SIZE_MAX - 3));
    assert_null(store_zeroed(&s, SIZE_MAX / 2, 4));
    memset(second, 7, 1000);
    assert_null(store_resize(&s, second, 3000)); /* both would be there for a moment */
    assert_int_equal(second[999], 7);
    store_free(&s, first);
    second = store_resize(&s, second, 2000);
    assert_non_null(second);
    assert_int_equal(second[999], 7);
    store_free(&s, NULL);
    text t = {.store = &s};
    for (int i = 0; i < 1000; i++) text_put(&t, "0123456789");
    assert_true(t.failed);
    assert_null(text_reserve(&t, 1));
    store_clear(&s);
    assert_int_equal(atomic_load(&b.used), 0);
}

static const char request_text[] = "{\"id\":\"a\",\"inputs\":[{\"name\":\"image\",\"datatype\":\"FP32\",\"shape\":[1,4]"
                                   ",\"data\":[1,2,3,4]}],\"outputs\":[{\"name\":\"y\"}]}";

static void a_request_is_read_or_refused_where_memory_fails(void **state)
{
    (void)state;
    const hyp_io_info x = {.size = sizeof x,
                           .name = "image",
                           .dtype = HYP_F32,
                           .rank = 2,
                           .dims = {-1, 4},
                           .symbols = {"n"}},
                      y = {.size = sizeof y, .name = "y", .dtype = HYP_F32};
    const hyp_io_info *in[] = {&x}, *out[] = {&y};
    const v2_signature signature = {in, out, 1, 1};
    long n = 0;
    for (hyp_status status = HYP_ERR_NO_MEMORY; status != HYP_OK; n++) {
        store s = {.budget = &plenty};
        v2_request request;
        hyp_diag diag = {0};
        atomic_store(&left, n);
        status =
            v2_request_read(request_text, sizeof request_text - 1, V2_NO_HEADER_BYTES, &signature, &s, &request, &diag);
        atomic_store(&left, -1);
        if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %ld: %s", n, diag.message);
        store_clear(&s);
        assert_true(n < 1000);
    }
    assert_true(n > 10);
    assert_int_equal(atomic_load(&plenty.used), 0);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done_count, ended_count;

static void count(int *what)
{
    pthread_mutex_lock(&mutex);
    ++*what;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}
static void wait_for(const int *what, int wanted)
{
    pthread_mutex_lock(&mutex);
    while (*what < wanted) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}
static void on_done(job *j)
{
    (void)j;
    count(&done_count);
}
static void on_ended(served_plan *p, void *user)
{
    (void)p, (void)user;
    count(&ended_count);
}

static char plan_path[] = "/tmp/hyp-serve-XXXXXX";
static model_metrics metrics;

static served_plan_options plan_options(void)
{
    return (served_plan_options){.engine = {.size = sizeof(hyp_engine_options), .device = HYP_DEVICE_CPU, .threads = 1},
                                 .instances = 2,
                                 .queue = 100,
                                 .batching = {.most_rows = 8},
                                 .metrics = &metrics,
                                 .ended = on_ended};
}

static void a_plan_loads_or_is_refused_where_memory_fails(void **state)
{
    (void)state;
    served_plan_options o = plan_options();
    long n = 0;
    for (hyp_status status = HYP_ERR_NO_MEMORY; status != HYP_OK; n++) {
        served_plan *p = NULL;
        hyp_diag diag = {0};
        ended_count = 0;
        atomic_store(&left, n);
        status = served_plan_open(plan_path, &o, &p, &diag);
        atomic_store(&left, -1);
        if (status == HYP_OK) {
            served_plan_release(p);
            wait_for(&ended_count, 1);
            served_plan_destroy(p);
        } else if (status != HYP_ERR_NO_MEMORY) {
            fail_msg("allocation %ld: %s", n, diag.message);
        }
        assert_true(n < 1000);
    }
    assert_true(n > 8);
}

/* Jobs of a few rows each, all submitted before any can run, in one plan; also where memory for what they have to stage
 * or give fails. */
static void jobs_are_answered_each_by_its_rows(void **state)
{
    (void)state;
    enum { JOBS = 20, WIDTH = 64, OUT = 10 };
    served_plan_options o = plan_options();
    served_plan *p;
    hyp_diag diag = {0};
    assert_int_equal(served_plan_open(plan_path, &o, &p, &diag), HYP_OK);
    assert_null(served_plan_not_joined(p));
    float alone[3][3 * OUT];
    for (long failing = -1; failing < 12; failing++) {
        static float images[JOBS][3 * WIDTH];
        store stores[JOBS];
        hyp_tensor inputs[JOBS], outputs[JOBS];
        hyp_diag diags[JOBS] = {{0}};
        job jobs[JOBS];
        done_count = 0;
        atomic_store(&left, failing);
        for (int i = 0; i < JOBS; i++) {
            int rows = 1 + i % 3;
            for (int k = 0; k < rows * WIDTH; k++) images[i][k] = (float)((k * 7 + rows * 13) % 17) / 17;
            stores[i] = (store){.budget = &plenty};
            inputs[i] = (hyp_tensor){.name = "image",
                                     .dtype = HYP_F32,
                                     .rank = 2,
                                     .dims = {rows, WIDTH},
                                     .data = images[i],
                                     .bytes = (size_t)rows * WIDTH * sizeof(float)};
            outputs[i] = (hyp_tensor){0};
            jobs[i] = (job){
                .inputs = &inputs[i], .outputs = &outputs[i], .store = &stores[i], .diag = &diags[i], .done = on_done};
            assert_true(served_plan_submit(p, &jobs[i]));
        }
        wait_for(&done_count, JOBS);
        atomic_store(&left, -1);
        for (int i = 0; i < JOBS; i++) {
            int rows = 1 + i % 3;
            if (jobs[i].status == HYP_OK) {
                assert_int_equal(outputs[i].dims[0], rows);
                assert_int_equal(outputs[i].bytes, (size_t)rows * OUT * sizeof(float));
                assert_true(jobs[i].batch_rows >= rows && jobs[i].batch_rows <= 8 &&
                            jobs[i].ended_ns >= jobs[i].begun_ns && jobs[i].begun_ns >= jobs[i].queued_ns);
                if (failing < 0 && i < 3) memcpy(alone[i], outputs[i].data, outputs[i].bytes);
                for (int k = 0; k < rows * OUT; k++)
                    assert_true(fabsf(((float *)outputs[i].data)[k] - alone[i % 3][k]) < 1e-5f);
            } else {
                assert_int_equal(jobs[i].status, HYP_ERR_NO_MEMORY);
                assert_true(failing >= 0);
            }
            store_clear(&stores[i]);
        }
    }
    ended_count = 0;
    served_plan_release(p);
    wait_for(&ended_count, 1);
    served_plan_destroy(p);
    assert_int_equal(atomic_load(&plenty.used), 0);
}

/* ---- which jobs run together
 * ----------------------------------------------------------------------------------------- */

static void batches_are_made_up_in_order(void **state)
{
    (void)state;
    job_queue q;
    assert_int_equal(job_queue_init(&q, 8, NULL), HYP_OK);
    const int rows[] = {2, 3, 0, 2, 4, 9, 1}; /* 0: not to be joined; job 3 is of another width */
    hyp_tensor inputs[7];
    job jobs[7];
    for (int i = 0; i < 7; i++) {
        inputs[i] = (hyp_tensor){.dtype = HYP_F32, .rank = 2, .dims = {rows[i], i == 3 ? 5 : 4}};
        jobs[i] = (job){.inputs = &inputs[i], .input_count = 1, .rows = rows[i]};
        assert_true(job_queue_push(&q, &jobs[i]));
    }
    assert_int_equal(job_queue_length(&q), 7);
    const batching eight = {.most_rows = 8};
    job *got = job_queue_take(&q, &eight); /* 2 + 3 + 1: with 4 or 9 they would be too many */
    assert_ptr_equal(got, &jobs[0]);
    assert_ptr_equal(got->next, &jobs[1]);
    assert_ptr_equal(got->next->next, &jobs[6]);
    assert_null(got->next->next->next);
    for (int i = 2; i < 6; i++) {
        got = job_queue_take(&q, &eight);
        assert_ptr_equal(got, &jobs[i]);
        assert_null(got->next);
    }
    /* One that waits for others, until there are enough, or nothing more is to be expected. */
    const batching patient = {.most_rows = 8, .delay_ns = 60000000000u};
    assert_true(job_queue_push(&q, &jobs[4]) && job_queue_push(&q, &jobs[4 - 4]));
    assert_true(job_queue_push(&q, &jobs[6]) && job_queue_push(&q, &jobs[2]));
    got = job_queue_take(&q, &patient);
    assert_ptr_equal(got, &jobs[4]);
    assert_ptr_equal(got->next->next, &jobs[6]); /* 4 + 2 + 1; it does not hold job 2 up */
    assert_ptr_equal(job_queue_take(&q, &patient), &jobs[2]);
    job_queue_hurry(&q);
    assert_true(job_queue_push(&q, &jobs[0]));
    assert_ptr_equal(job_queue_take(&q, &patient), &jobs[0]);
    for (int i = 0; i < 7; i++) assert_true(job_queue_push(&q, &jobs[i]));
    job more = jobs[0], most = jobs[0];
    assert_true(job_queue_push(&q, &more));
    assert_false(job_queue_push(&q, &most));
    job_queue_close(&q);
    assert_ptr_equal(job_queue_take_all(&q), &jobs[0]);
    assert_false(job_queue_push(&q, &most));
    assert_null(job_queue_take(&q, &eight));
    job_queue_dispose(&q);
}

static void paths_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        route_kind kind;
        const char *model;
        int64_t version;
    } cases[] = {{"/v2", ROUTE_SERVER, "", 0},
                 {"/v2/models/a.b-c_1", ROUTE_MODEL, "a.b-c_1", 0},
                 {"/v2/models/m/versions/12/infer", ROUTE_INFER, "m", 12},
                 {"/v2/models/versions/versions/1", ROUTE_MODEL, "versions", 1},
                 {"/v2/models/m/ready", ROUTE_MODEL_READY, "m", 0},
                 {"/v2/repository/models/m/unload", ROUTE_UNLOAD, "m", 0},
                 {"/v2/repository/models/m/versions/1/load", ROUTE_NONE, "", 0},
                 {"/v2/models/m/versions/1x", ROUTE_NONE, "", 0},
                 {"", ROUTE_NONE, "", 0},
                 {"/metrics", ROUTE_METRICS, "", 0},
                 {"/metrics/", ROUTE_NONE, "", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        route r = route_find(cases[i].path);
        assert_int_equal(r.kind, cases[i].kind);
        assert_string_equal(r.model, cases[i].model);
        assert_int_equal(r.version, cases[i].version);
    }
    assert_true(route_is_name("a.b-c_1") && !route_is_name("") && !route_is_name(".a") && !route_is_name("a/b") &&
                !route_is_name("a b"));
}

static int compile_plan(void **state)
{
    (void)state;
    int fd = mkstemp(plan_path);
    hyp_compile_options options = {.size = sizeof options};
    hyp_diag diag = {0};
    if (fd < 0 ||
        hyp_compile_file(HYP_SOURCE_DIR "/examples/digits/digits.onnx", plan_path, &options, NULL, &diag) != HYP_OK)
        return -1;
    v2_start();
    return 0;
}

static int remove_plan(void **state)
{
    (void)state;
    return remove(plan_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_narrow_float_comes_back),
        cmocka_unit_test(numbers_are_rounded_to_the_nearest),
        cmocka_unit_test(a_store_heeds_its_budget_and_gives_back),
        cmocka_unit_test(a_request_is_read_or_refused_where_memory_fails),
        cmocka_unit_test(a_plan_loads_or_is_refused_where_memory_fails),
        cmocka_unit_test(jobs_are_answered_each_by_its_rows),
        cmocka_unit_test(batches_are_made_up_in_order),
        cmocka_unit_test(paths_are_found),
    };
    return cmocka_run_group_tests_name("serve_parts", tests, compile_plan, remove_plan);
}

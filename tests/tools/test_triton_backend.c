/* libtriton_hypatia.so, opened and driven as the server does it. test_triton.py makes the plans, in TRITON_TEST_FOLDER.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hypatia/runtime.h"
#include "triton_mock.h"

#define SKIP(why) (puts("skipped: " why), skip())

static struct library real, failing; /* `failing` asks the test for memory */
static TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;

static TRITONSERVER_Error *open_model(server *s, const struct library *library, const char *name, const char *config,
                                      const char *settings, int instances)
{
    *s = (server){.library = library, .backend = {.settings = settings}, .model = {.name = name, .config = config}};
    return mock_open_server(s, getenv("TRITON_TEST_FOLDER"), kind, instances);
}

static void close_server(server *s)
{
    mock_fail_call(0);
    TRITONSERVER_Error *error = mock_close_server(s);
    if (error) fail_msg("%s", error->message);
}

static void serve(server *s, const char *name, const char *config, int instances)
{
    TRITONSERVER_Error *error = open_model(s, &real, name, config, NULL, instances);
    if (error) fail_msg("%s", error->message);
}

/* ---- models ------------------------------------------------------------------------------------------------ */

/* What test_triton.py makes: y[batch, length] = table[k[batch]] + x[batch, length], z[batch] = sums of its rows. */
enum { TABLE = 5, LENGTH = 3, MOST_ROWS = 8, MOST_REQUESTS = 8 };
static const char looked_up[] =
    "{\"max_batch_size\": 8, \"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1]},"
    "{\"name\": \"k\", \"data_type\": \"TYPE_INT64\", \"dims\": [1], \"reshape\": {\"shape\": []}}],"
    "\"output\": [{\"name\": \"y\", \"data_type\": \"TYPE_FP32\", \"dims\": [\"-1\"]},"
    "{\"name\": \"z\", \"data_type\": \"TYPE_FP32\", \"dims\": [1], \"reshape\": {\"shape\": []}}],"
    "\"parameters\": {\"threads\": {\"string_value\": \"2\"}}}";
/* NonZero: where[rank, as many as the data say] */
static const char places[] =
    "{\"max_batch_size\": 0, \"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, 3]}],"
    "\"output\": [{\"name\": \"where\", \"data_type\": \"TYPE_INT64\", \"dims\": [2, -1]}],"
    "\"default_model_filename\": \"model.plan\"}";

/* A request to the first of them, with memory for what is in it. */
typedef struct ask {
    TRITONBACKEND_Request request;
    _Alignas(64) char bytes[MOST_ROWS * LENGTH * sizeof(float) + 64]; /* of x, behind `skew` bytes */
    int64_t k[MOST_ROWS];
    float x[MOST_ROWS * LENGTH];
    int64_t rows, length;
} ask;

static void make_ask(ask *a, int64_t rows, int64_t length, unsigned seed)
{
    *a = (ask){.rows = rows, .length = length};
    for (int64_t i = 0; i < rows * length; i++) a->x[i] = (float)((seed * 31 + (unsigned)i * 17) % 23) / 4 - 2;
    for (int64_t i = 0; i < rows; i++) a->k[i] = (int64_t)(seed + (unsigned)i) % TABLE;
    memcpy(a->bytes, a->x, sizeof a->x);
    TRITONBACKEND_Request *r = &a->request;
    r->input_count = r->wanted_count = 2;
    r->wanted[0] = "y", r->wanted[1] = "z";
    /* In another order than the plan's. */
    r->inputs[0] = (TRITONBACKEND_Input){.name = "k",
                                         .type = TRITONSERVER_TYPE_INT64,
                                         .rank = 1,
                                         .dims = {rows},
                                         .pieces = 1,
                                         .data = {a->k},
                                         .bytes = {(uint64_t)rows * 8}};
    r->inputs[1] = (TRITONBACKEND_Input){.name = "x",
                                         .type = TRITONSERVER_TYPE_FP32,
                                         .rank = 2,
                                         .dims = {rows, length},
                                         .pieces = 1,
                                         .data = {a->bytes},
                                         .bytes = {(uint64_t)(rows * length) * 4}};
}

/* x in pieces, none of which begins where a float may. */
static void break_up(ask *a)
{
    TRITONBACKEND_Input *x = &a->request.inputs[1];
    uint64_t bytes = x->bytes[0], first = bytes / 2 + 1;
    memmove(a->bytes + 1, a->bytes, bytes);
    x->pieces = 3;
    x->data[0] = a->bytes + 1, x->bytes[0] = first;
    x->data[1] = NULL, x->bytes[1] = 0;
    x->data[2] = a->bytes + 1 + first, x->bytes[2] = bytes - first;
}

static float table(int64_t k, int64_t i) { return (float)(k * 10 + i); }

static const TRITONBACKEND_Output *output_of(const ask *a, const char *name)
{
    for (uint32_t i = 0; i < a->request.response->count; i++)
        if (strcmp(a->request.response->outputs[i].name, name) == 0) return &a->request.response->outputs[i];
    return NULL;
}

/* By plain arithmetic: all numbers of these tests are exact in f32. */
static void check_answer(const ask *a, bool want_y, bool want_z)
{
    const TRITONBACKEND_Request *r = &a->request;
    if (r->message[0]) fail_msg("%s", r->message);
    assert_int_equal(r->sent, 1);
    assert_int_equal(r->released, 1);
    assert_int_equal(r->reported, 1);
    assert_true(r->success && r->times[0] && r->times[0] <= r->times[1] && r->times[1] <= r->times[2] &&
                r->times[2] <= r->times[3]);
    const TRITONBACKEND_Output *y = output_of(a, "y"), *z = output_of(a, "z");
    assert_int_equal(y != NULL, want_y);
    assert_int_equal(z != NULL, want_z);
    if (y)
        assert_true(y->type == TRITONSERVER_TYPE_FP32 && y->rank == 2 && y->dims[0] == a->rows &&
                    y->dims[1] == a->length && y->bytes == (uint64_t)(a->rows * a->length) * 4);
    if (z)
        assert_true(z->type == TRITONSERVER_TYPE_FP32 && z->rank == 1 && z->dims[0] == a->rows &&
                    z->bytes == (uint64_t)a->rows * 4);
    for (int64_t row = 0; row < a->rows; row++) {
        float sum = 0, found;
        for (int64_t i = 0; i < a->length; i++) {
            float wanted = table(a->k[row], i) + a->x[row * a->length + i];
            sum += wanted;
            if (!y) continue;
            memcpy(&found, (const char *)y->data + (row * a->length + i) * 4, 4);
            assert_float_equal(found, wanted, 0);
        }
        if (!z) continue;
        memcpy(&found, (const char *)z->data + row * 4, 4);
        assert_float_equal(found, sum, 0);
    }
}

static void check_refusal(const ask *a, TRITONSERVER_Error_Code code, const char *words)
{
    const TRITONBACKEND_Request *r = &a->request;
    assert_true(r->sent == 1 && r->released == 1 && r->reported == 1 && !r->success);
    if (!strstr(r->message, words)) fail_msg("'%s' is not in: %s", words, r->message);
    assert_int_equal(r->code, code);
}

static TRITONSERVER_Error *execute(server *s, int instance, ask *asks, uint32_t count)
{
    TRITONBACKEND_Request *requests[MOST_REQUESTS];
    for (uint32_t i = 0; i < count; i++) requests[i] = &asks[i].request;
    return s->library->execute(&s->instances[instance], requests, count);
}

static void free_asks(ask *asks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) mock_request_free(&asks[i].request);
}

/* ---- tests ------------------------------------------------------------------------------------------------- */

static void requests_are_joined(void **state)
{
    (void)state;
    server s;
    serve(&s, "looked_up", looked_up, 1);
    ask asks[4];
    for (unsigned i = 0; i < 4; i++) make_ask(&asks[i], i + 1 < 4 ? i + 1 : 2, LENGTH, i);
    break_up(&asks[1]);
    asks[2].request.skew = 3; /* the server's memory need not be aligned */
    assert_null(execute(&s, 0, asks, 4));
    for (int i = 0; i < 4; i++) check_answer(&asks[i], true, true);
    assert_true(s.instances[0].runs == 1 && s.instances[0].rows == 8);
    free_asks(asks, 4);
    for (int unaligned = 0; unaligned < 2; unaligned++) { /* one alone, from and to where its data are */
        make_ask(&asks[0], 3, LENGTH, 9);
        if (unaligned) break_up(&asks[0]), asks[0].request.skew = 1;
        assert_null(execute(&s, 0, asks, 1));
        check_answer(&asks[0], true, true);
        free_asks(asks, 1);
    }
    assert_true(s.instances[0].runs == 3 && s.instances[0].rows == 14);
    for (uint32_t count = 1; count < 3; count++) { /* without any rows */
        make_ask(&asks[0], 0, LENGTH, 1);
        make_ask(&asks[1], 2, LENGTH, 2);
        assert_null(execute(&s, 0, asks, count));
        for (uint32_t i = 0; i < count; i++) check_answer(&asks[i], true, true);
        free_asks(asks, 2);
    }
    close_server(&s);
}

static void what_does_not_fit_is_run_apart(void **state)
{
    (void)state;
    server s;
    serve(&s, "looked_up", looked_up, 1);
    ask asks[6];
    for (unsigned i = 0; i < 6; i++) make_ask(&asks[i], 3, i % 2 ? 1 : LENGTH, i);
    assert_null(execute(&s, 0, asks, 6)); /* 3 of each length, of 9 rows, where 8 is the most */
    for (int i = 0; i < 6; i++) check_answer(&asks[i], true, true);
    assert_true(s.instances[0].runs == 4 && s.instances[0].rows == 18);
    free_asks(asks, 6);
    close_server(&s);
}

static void only_what_is_wanted_is_answered(void **state)
{
    (void)state;
    server s;
    serve(&s, "looked_up", looked_up, 1);
    for (uint32_t count = 1; count < 4; count++) {
        ask asks[3];
        for (unsigned i = 0; i < 3; i++) make_ask(&asks[i], 2, LENGTH, i);
        asks[0].request.wanted_count = 1;
        asks[1].request.wanted[0] = "z", asks[1].request.wanted_count = 1;
        asks[2].request.wanted_count = 0;
        assert_null(execute(&s, 0, asks + 3 - count, count));
        if (count > 2) check_answer(&asks[0], true, false);
        if (count > 1) check_answer(&asks[1], false, true);
        check_answer(&asks[2], false, false);
        free_asks(asks, 3);
    }
    close_server(&s);
}

static void short_data(ask *a) { a->request.inputs[1].bytes[0] -= 4; }
static void other_type(ask *a) { a->request.inputs[0].type = TRITONSERVER_TYPE_INT32; }
static void other_rank(ask *a) { a->request.inputs[1].rank = 3, a->request.inputs[1].dims[2] = 1; }
static void negative_dim(ask *a) { a->request.inputs[1].dims[1] = -3; }
static void huge_dims(ask *a) { a->request.inputs[1].dims[0] = a->request.inputs[1].dims[1] = INT64_MAX; }
static void many_rows(ask *a)
{
    a->request.inputs[1].dims[0] = a->request.inputs[0].dims[0] = INT64_MAX, a->request.inputs[1].dims[1] = 0,
    a->request.inputs[1].bytes[0] = 0;
}
static void nine_rows(ask *a)
{
    a->request.inputs[1].dims[0] = a->request.inputs[0].dims[0] = 9, a->request.inputs[1].dims[1] = 0,
    a->request.inputs[1].bytes[0] = 0, a->request.inputs[0].bytes[0] = 72;
}
static void other_rows(ask *a) { a->request.inputs[0].dims[0] = 1, a->request.inputs[0].bytes[0] = 8; }
static void no_input(ask *a) { a->request.inputs[0].name = "other"; }
static void no_such_index(ask *a) { a->k[1] = TABLE; }
static void too_long(ask *a) { a->request.inputs[1].dims[1] = 4, a->request.inputs[1].bytes[0] = 32; }
static void on_a_gpu(ask *a)
{
    a->request.inputs[1].memory[0] = TRITONSERVER_MEMORY_GPU, a->request.inputs[1].device = 7;
}
static void to_a_gpu(ask *a)
{
    a->request.output_data = a->bytes, a->request.output_memory = TRITONSERVER_MEMORY_GPU, a->request.output_device = 7;
}

/* One request that is wrong is answered so, and those beside it are not concerned. */
static void wrong_requests_are_answered(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(ask *);
        TRITONSERVER_Error_Code code;
        const char *words;
    } cases[] = {
        {short_data, TRITONSERVER_ERROR_INVALID_ARG, "input 'x' has 20 bytes of data, and its dims want 24"},
        {other_type, TRITONSERVER_ERROR_INVALID_ARG, "input 'k' is of another type than the plan's, which is i64"},
        {other_rank, TRITONSERVER_ERROR_INVALID_ARG, "input 'x' has 3 axes, and the plan's 2"},
        {negative_dim, TRITONSERVER_ERROR_INVALID_ARG, "dims that are none"},
        {huge_dims, TRITONSERVER_ERROR_INVALID_ARG, "dims that are none"},
        {many_rows, TRITONSERVER_ERROR_INVALID_ARG, "dims that are none"},
        {nine_rows, TRITONSERVER_ERROR_INVALID_ARG, "there are 9 rows, and max_batch_size is 8"},
        {other_rows, TRITONSERVER_ERROR_INVALID_ARG, "rows, and the first input"},
        {no_input, TRITONSERVER_ERROR_INTERNAL, "no such input"},
        {no_such_index, TRITONSERVER_ERROR_INVALID_ARG, "out of range"},
        {too_long, TRITONSERVER_ERROR_INVALID_ARG, "the model cannot take inputs of these shapes"},
        {on_a_gpu, TRITONSERVER_ERROR_UNSUPPORTED, "lies on GPU 7"},
        {to_a_gpu, TRITONSERVER_ERROR_UNSUPPORTED, "is wanted on GPU 7"},
    };
    server s;
    serve(&s, "looked_up", looked_up, 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint32_t count = 1; count < 4; count += 2) {
            ask asks[3];
            for (unsigned i = 0; i < 3; i++) make_ask(&asks[i], 2, LENGTH, i);
            cases[c].spoil(&asks[count / 2]);
            assert_null(execute(&s, 0, asks, count));
            check_refusal(&asks[count / 2], cases[c].code, cases[c].words);
            for (uint32_t i = 0; i < count; i++)
                if (i != count / 2) check_answer(&asks[i], true, true);
            free_asks(asks, 3);
        }
    close_server(&s);
}

/* Whatever a request claims of itself, it is answered and released once, and nothing is read beyond its buffers. */
static void any_request_is_answered(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 3, 8, -1, INT64_MAX / 4};
    server s;
    serve(&s, "looked_up", looked_up, 1);
    uint32_t random = 1, right = 0;
    for (int run = 0; run < 3000; run++) {
        ask asks[3];
        for (unsigned i = 0; i < 3; i++) {
            make_ask(&asks[i], 2, LENGTH, (unsigned)run + i);
            TRITONBACKEND_Input *input = &asks[i].request.inputs[run % 2];
            for (int change = run % 4; change > 0; change--) {
                random = random * 1664525 + 1013904223;
                uint32_t value = random >> 8;
                if (value % 4 == 0) input->dims[value / 4 % 2] = sizes[value / 8 % 8];
                if (value % 4 == 1) input->rank = value / 4 % MOCK_RANK;
                if (value % 4 == 2) input->bytes[0] = value / 4 % 64;
                if (value % 4 == 3) break_up(&asks[i]);
            }
        }
        assert_null(execute(&s, 0, asks, 3));
        for (int i = 0; i < 3; i++) {
            const TRITONBACKEND_Request *r = &asks[i].request;
            assert_true(r->sent == 1 && r->released == 1 && r->success == (r->message[0] == '\0'));
            right += r->success;
        }
        free_asks(asks, 3);
    }
    assert_true(right > 2000 && right < 8000);
    close_server(&s);
}

static void requests_without_rows_are_runs(void **state)
{
    (void)state;
    server s;
    serve(&s, "places", places, 1);
    float x[2][6] = {{0, 1, 0, 0, 0, 2}, {0, 0, 0, 0, 0, 0}};
    ask asks[2] = {0};
    for (int i = 0; i < 2; i++) {
        TRITONBACKEND_Request *r = &asks[i].request;
        r->input_count = r->wanted_count = 1;
        r->wanted[0] = "where";
        r->inputs[0] = (TRITONBACKEND_Input){.name = "x",
                                             .type = TRITONSERVER_TYPE_FP32,
                                             .rank = 2,
                                             .dims = {2, 3},
                                             .pieces = 1,
                                             .data = {x[i]},
                                             .bytes = {24}};
    }
    assert_null(execute(&s, 0, asks, 2));
    const TRITONBACKEND_Output *two = output_of(&asks[0], "where"), *none = output_of(&asks[1], "where");
    assert_true(two && two->rank == 2 && two->dims[0] == 2 && two->dims[1] == 2 && two->bytes == 32);
    assert_memory_equal(two->data, ((const int64_t[]){0, 1, 1, 2}), 32);
    assert_true(none && none->dims[0] == 2 && none->dims[1] == 0 && none->bytes == 0);
    assert_true(s.instances[0].runs == 2 && s.instances[0].rows == 2);
    free_asks(asks, 2);
    close_server(&s);
}

static void refused(const char *name, const char *config, const char *settings, const char *words)
{
    server s;
    TRITONSERVER_Error *error = open_model(&s, &real, name, config, settings, 1);
    if (!error) fail_msg("'%s' was taken", words);
    if (!strstr(error->message, words)) fail_msg("'%s' is not in: %s", words, error->message);
    TRITONSERVER_ErrorDelete(error);
    close_server(&s);
}

#define X "{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, 3]}"
#define WHERE "{\"name\": \"where\", \"data_type\": \"TYPE_INT64\", \"dims\": [2, -1]}"
static void configurations_are_compared(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"no JSON", "is no JSON"},
        {"{\"max_batch_size\": -1}", "max_batch_size is no number"},
        {"{\"max_batch_size\": 0, \"output\": [" WHERE "]}", "lacks the input 'x'"},
        {"{\"max_batch_size\": 0, \"input\": [" X ", {\"name\": \"y\"}]}", "has an input 'y'"},
        {"{\"max_batch_size\": 0, \"input\": [" X "], \"output\": [{\"dims\": [1]}]}", "has an output ''"},
        {"{\"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP16\", \"dims\": [-1, 3]}]}",
         "is TYPE_FP16 in config.pbtxt, and TYPE_FP32"},
        {"{\"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, 4]}]}", "the dims of input 'x'"},
        {"{\"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [3]}]}", "the dims of input 'x'"},
        {"{\"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [\"1x\", 3]}]}",
         "the dims of input 'x'"},
        {"{\"max_batch_size\": 4, \"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [3]}], "
         "\"output\": [" WHERE "]}",
         "the first axis of output 'where'"},
        {"{\"input\": [" X "], \"parameters\": {\"threads\": {\"string_value\": \"many\"}}}",
         "threads: wanted a number"},
        {"{\"input\": [" X "], \"default_model_filename\": \"none.plan\"}", "none.plan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused("places", cases[i][0], NULL, cases[i][1]);
    refused("step", "{\"input\": []}", NULL, "a step of a training");
    refused("places", places, "{\"cmdline\": {\"thread\": \"2\"}}", "thread: there are threads and require-signature");
    refused("places", places, "{\"cmdline\": {\"threads\": \"0\"}}", "threads: wanted a number");
    refused("places", places, "{\"cmdline\": {\"require-signature\": \"/nowhere.pub\"}}", "nowhere.pub");
    mock_version[0] = 2;
    refused("places", places, NULL, "version 2.19 of the interface");
    mock_version[0] = 1;
}

static void plans_have_to_be_signed(void **state)
{
    (void)state;
    const char *key = getenv("TRITON_TEST_KEY");
    if (!key) SKIP("no plan is signed, as there is no libsodium");
    char settings[700];
    snprintf(settings, sizeof settings, "{\"cmdline\": {\"require-signature\": \"%s\", \"threads\": \"1\"}}", key);
    refused("places", places, settings, "is not signed");
    server s;
    TRITONSERVER_Error *error = open_model(&s, &real, "signed", places, settings, 1);
    if (error) fail_msg("%s", error->message);
    close_server(&s);
}

/* ---- instances side by side -------------------------------------------------------------------------------- */

typedef struct worker {
    server *s;
    int instance, wrong;
    pthread_t thread;
} worker;

static void *work(void *user)
{
    worker *w = user;
    for (unsigned run = 0; run < 200; run++) {
        ask asks[2];
        for (unsigned i = 0; i < 2; i++)
            make_ask(&asks[i], 1 + (run + i) % 4, LENGTH, run * 7 + i + (unsigned)w->instance);
        TRITONSERVER_Error *error = execute(w->s, w->instance, asks, 2);
        w->wrong += error != NULL;
        for (int i = 0; !error && i < 2; i++) {
            const TRITONBACKEND_Output *y = output_of(&asks[i], "y");
            w->wrong += !y || ((const float *)y->data)[0] != table(asks[i].k[0], 0) + asks[i].x[0];
        }
        free_asks(asks, 2);
    }
    return NULL;
}

static void instances_run_side_by_side(void **state)
{
    (void)state;
    server s;
    serve(&s, "looked_up", looked_up, MOCK_INSTANCES);
    worker workers[MOCK_INSTANCES];
    for (int i = 0; i < MOCK_INSTANCES; i++) {
        workers[i] = (worker){.s = &s, .instance = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < MOCK_INSTANCES; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].wrong, 0);
        assert_int_equal(s.instances[i].runs, 200);
    }
    close_server(&s);
}

/* ---- failures ---------------------------------------------------------------------------------------------- */

/* Whatever fails while two requests are served, each is answered and released once at most, and by success when nothing
 * failed. */
static bool serve_with_failure(const struct library *library, uint64_t (*fail_at)(uint64_t), uint64_t n)
{
    server s;
    ask asks[2];
    for (unsigned i = 0; i < 2; i++) make_ask(&asks[i], 2, LENGTH, i);
    break_up(&asks[0]);
    asks[1].request.skew = 1;
    fail_at(n);
    TRITONSERVER_Error *error = open_model(&s, library, "looked_up", looked_up, NULL, 1);
    if (!error) error = execute(&s, 0, asks, 2);
    bool over = fail_at(0) < n;
    for (int i = 0; i < 2; i++) {
        assert_true(asks[i].request.released <= 1 && asks[i].request.sent <= 1);
        if (error) assert_true(asks[i].request.released == 0 && asks[i].request.sent == 0);
        if (over) check_answer(&asks[i], true, true);
    }
    if (over) assert_null(error);
    if (error) TRITONSERVER_ErrorDelete(error);
    free_asks(asks, 2);
    close_server(&s);
    return over;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    uint64_t n = 1;
    while (!serve_with_failure(&real, mock_fail_call, n)) n++;
    assert_true(n > 60);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t n = 1;
    while (!serve_with_failure(&failing, mock_fail_allocation, n)) n++;
    assert_true(n > 15);
}

/* ---- tensors on a GPU -------------------------------------------------------------------------------------- */

static void data_may_lie_on_the_gpu(void **state)
{
    (void)state;
    if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU) SKIP("this run is on the CPU");
    server s;
    serve(&s, "scaled",
          "{\"max_batch_size\": 8, \"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [3]}],"
          "\"output\": [{\"name\": \"y\", \"data_type\": \"TYPE_FP32\", \"dims\": [3]}]}",
          1);
    char path[600];
    snprintf(path, sizeof path, "%s/scaled/1/model.plan", getenv("TRITON_TEST_FOLDER"));
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_engine *engine; /* for its memory */
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, NULL), HYP_OK);
    float x[2][3] = {{1, -2, 3}, {4, 5, -6}}, y[2][3];
    hyp_tensor in[2], out[2];
    for (uint32_t on_gpu = 0; on_gpu < 4; on_gpu++) /* which of two requests */
        for (uint32_t count = 1; count < 3; count++) {
            TRITONBACKEND_Request requests[2] = {0}, *all[2] = {&requests[0], &requests[1]};
            for (uint32_t i = 0; i < 2; i++) {
                bool there = on_gpu >> i & 1;
                in[i] = out[i] = (hyp_tensor){.bytes = sizeof x[i]};
                assert_int_equal(hyp_engine_tensor_alloc(engine, &in[i], NULL), HYP_OK);
                assert_int_equal(hyp_engine_tensor_alloc(engine, &out[i], NULL), HYP_OK);
                hyp_tensor host = {.data = x[i], .bytes = sizeof x[i]};
                assert_int_equal(hyp_engine_tensor_copy(engine, &host, &in[i], NULL), HYP_OK);
                TRITONSERVER_MemoryType memory = there ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
                requests[i] = (TRITONBACKEND_Request){.input_count = 1,
                                                      .wanted = {"y"},
                                                      .wanted_count = 1,
                                                      .output_data = there ? out[i].data : NULL,
                                                      .output_memory = memory};
                requests[i].inputs[0] = (TRITONBACKEND_Input){.name = "x",
                                                              .type = TRITONSERVER_TYPE_FP32,
                                                              .rank = 2,
                                                              .dims = {1, 3},
                                                              .pieces = 1,
                                                              .data = {there ? in[i].data : x[i]},
                                                              .bytes = {12},
                                                              .memory = {memory}};
            }
            assert_null(s.library->execute(&s.instances[0], all, count));
            for (uint32_t i = 0; i < count; i++) {
                if (requests[i].message[0]) fail_msg("%s", requests[i].message);
                hyp_tensor host = {.data = y[i], .bytes = sizeof y[i]};
                hyp_tensor from = {.data = requests[i].response->outputs[0].data,
                                   .bytes = sizeof y[i],
                                   .memory = on_gpu >> i & 1 ? HYP_MEMORY_CUDA : HYP_MEMORY_HOST};
                assert_int_equal(hyp_engine_tensor_copy(engine, &from, &host, NULL), HYP_OK);
                for (int k = 0; k < 3; k++) assert_float_equal(y[i][k], x[i][k] > 0 ? 2 * x[i][k] : 0, 0);
            }
            for (uint32_t i = 0; i < 2; i++) {
                mock_request_free(&requests[i]);
                hyp_engine_tensor_free(engine, &in[i]);
                hyp_engine_tensor_free(engine, &out[i]);
            }
        }
    hyp_engine_destroy(engine);
    close_server(&s);
}

static int open_libraries(void **state)
{
    (void)state;
    const char *why = mock_open_library(TRITON_BACKEND, &real);
    if (!why) why = mock_open_library(TRITON_BACKEND_FAILING, &failing);
    return why ? puts(why), -1 : 0;
}

int main(int argc, char **argv)
{
    if (!getenv("TRITON_TEST_FOLDER")) return puts("skipped: test_triton.py runs this"), 77;
    const struct CMUnitTest cpu[] = {
        cmocka_unit_test(requests_are_joined),
        cmocka_unit_test(what_does_not_fit_is_run_apart),
        cmocka_unit_test(only_what_is_wanted_is_answered),
        cmocka_unit_test(wrong_requests_are_answered),
        cmocka_unit_test(any_request_is_answered),
        cmocka_unit_test(requests_without_rows_are_runs),
        cmocka_unit_test(configurations_are_compared),
        cmocka_unit_test(plans_have_to_be_signed),
        cmocka_unit_test(instances_run_side_by_side),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(every_allocation_may_fail),
    };
    const struct CMUnitTest gpu[] = {cmocka_unit_test(data_may_lie_on_the_gpu)};
    if (argc < 2 || strcmp(argv[1], "cuda") != 0) return cmocka_run_group_tests(cpu, open_libraries, NULL);
    kind = TRITONSERVER_INSTANCEGROUPKIND_GPU;
    return cmocka_run_group_tests(gpu, open_libraries, NULL);
}

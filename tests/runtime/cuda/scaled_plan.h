/* scaled_plan.h - a plan of two steps with a value in scratch memory between them, and device memory for its runs, for
 * tests of streams and graphs. To be included by one file of a program, behind cmocka.h. */
#ifndef HYP_TESTS_SCALED_PLAN_H
#define HYP_TESTS_SCALED_PLAN_H

#include <string.h>

#include "runtime/cuda/device_check.h"

enum { WIDTH = 8, MOST_ROWS = 4096 };
#define MUST(call) assert_int_equal((call), CUDA_SUCCESS)
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != HYP_OK) fail_msg("%s", diag.message);                                                            \
    } while (0)

static device dev;
static plan_builder builder; /* large */
static hyp_diag diag;
static hyp_engine *engine;

/* y = 4 x for x [rows, 8], by way of a product and of a sum, with a value in scratch memory between them. */
static inline int load_plan(void **state)
{
    (void)state;
    float w[WIDTH * WIDTH] = {0};
    for (int i = 0; i < WIDTH; i++) w[i * WIDTH + i] = 2;
    pb_init(&builder);
    uint32_t rows = pb_symbol(&builder, "rows"), shape[] = {rows, pb_const(&builder, WIDTH)};
    uint32_t strides[] = {shape[1], pb_const(&builder, 1)};
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, shape), y = pb_output(&builder, "y", HYP_F32, 2, shape);
    uint32_t twice = pb_scratch(&builder, HYP_F32, 0, 2, shape);
    pb_layer(&builder, pb_linear(&builder, x, twice, rows), WIDTH, WIDTH,
             pb_weight(&builder, HYP_F32, 2, (int64_t[]){WIDTH, WIDTH}, w), PB_NONE, ACT(NONE), PB_NONE);
    HypPlan__Pointwise *sum = pb_pointwise(&builder, HYP_F32, 2, shape);
    pb_operand(&builder, sum, twice, strides);
    pb_result(&builder, sum, y, pb_instr(&builder, sum, OP(ADD), 0, 0, 0, 0, HYP_F32));
    static char nothing[] = "", *padding[] = {nothing};
    builder.program.padding = padding;
    builder.program.n_padding = 1;
    engine = pb_load(&builder, HYP_DEVICE_CUDA);
    return 0;
}

static inline int unload_plan(void **state)
{
    (void)state;
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
    return 0;
}

static inline hyp_context *create(const hyp_context_options *options)
{
    hyp_context *context;
    OK(hyp_context_create(engine, options, &context, &diag));
    return context;
}

/* Whose runs of so many rows are done as those of the next multiple. */
static inline hyp_context *create_rounding(int64_t multiple, CUstream stream)
{
    const hyp_tensor bucket = {.name = "rows", .rank = 1, .dims = {multiple}};
    hyp_context_options options = {.size = sizeof options, .stream = stream, .buckets = &bucket, .bucket_count = 1};
    return create(&options);
}

/* Room for x and y of so many rows on the device. */
typedef struct buffers {
    CUdeviceptr x, y;
    int64_t rows;
} buffers;

static inline buffers make_buffers(int64_t rows)
{
    buffers b = {.rows = rows};
    MUST(dev.lib.cuMemAlloc(&b.x, (size_t)rows * WIDTH * sizeof(float)));
    MUST(dev.lib.cuMemAlloc(&b.y, (size_t)rows * WIDTH * sizeof(float)));
    return b;
}

static inline void free_buffers(const buffers *b)
{
    MUST(dev.lib.cuMemFree(b->x));
    MUST(dev.lib.cuMemFree(b->y));
}

static inline hyp_tensor tensor_at(CUdeviceptr at, int64_t rows)
{
    return (hyp_tensor){.data = (void *)(uintptr_t)at,
                        .bytes = (size_t)rows * WIDTH * sizeof(float),
                        .dtype = HYP_F32,
                        .memory = HYP_MEMORY_CUDA,
                        .rank = 2,
                        .dims = {rows, WIDTH}};
}

static inline hyp_status run(hyp_context *context, const buffers *b, const hyp_run_options *options)
{
    hyp_tensor x = tensor_at(b->x, b->rows), y = tensor_at(b->y, b->rows);
    return hyp_context_run_with(context, &x, 1, &y, 1, options, &diag);
}

/* Queues numbers for x, from `first` on, and others than the right ones for y. */
static inline void queue_numbers(const buffers *b, float first, CUstream stream)
{
    static float numbers[MOST_ROWS * WIDTH];
    size_t count = (size_t)b->rows * WIDTH;
    for (size_t i = 0; i < count; i++) numbers[i] = first + (float)i;
    MUST(dev.lib.cuMemcpyHtoDAsync(b->x, numbers, count * sizeof(float), stream)); /* not page-locked: read by now */
    MUST(dev.lib.cuMemsetD8Async(b->y, 0xff, count * sizeof(float), stream));
}

/* Whether y is 4 x, when what is in the stream has ended. */
static inline bool is_right(const buffers *b, float first, CUstream stream)
{
    static float got[MOST_ROWS * WIDTH];
    size_t count = (size_t)b->rows * WIDTH;
    memset(got, 0, count * sizeof(float));
    MUST(dev.lib.cuStreamSynchronize(stream));
    MUST(dev.lib.cuMemcpyDtoHAsync(got, b->y, count * sizeof(float), stream));
    MUST(dev.lib.cuStreamSynchronize(stream));
    for (size_t i = 0; i < count; i++)
        if (got[i] != 4 * (first + (float)i)) return false;
    return true;
}

static inline CUstream make_stream(void)
{
    CUstream stream;
    MUST(dev.lib.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static inline CUevent make_event(void)
{
    CUevent event;
    MUST(dev.lib.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

#endif

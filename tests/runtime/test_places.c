/* Concatenations whose parts lie where they belong from the beginning, on the CPU against the reference backend and with
 * every instruction set: parts made by convolutions, pools, elementwise steps and copies, read by others besides, and
 * concatenations that are parts of others.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

enum { RANK = 4, KERNELS = 2 };

static plan_builder b;
static rng r;

typedef struct network {
    int64_t images, in, lines, places, channels[KERNELS]; /* channels: of what convolutions make */
    int64_t kernel;                                       /* of the first, 1 or 3 */
    bool transposed;                                      /* the second is the transpose of one */
    float *weights[KERNELS];
    uint32_t slots, y[2];
    int64_t y_channels[2];
} network;

static uint32_t image(network *n, int64_t channels)
{
    const int64_t dims[] = {n->images, channels, n->lines, n->places};
    return pb_scratch(&b, HYP_F32, n->slots++, RANK, pb_consts(&b, RANK, dims));
}

static void add_conv(network *n, int which, uint32_t x, uint32_t y, int64_t kernel, bool transposed)
{
    const int64_t ones[] = {1, 1}, pad = kernel / 2, pads[] = {pad, pad, pad, pad};
    int64_t first = transposed ? n->in : n->channels[which], second = transposed ? n->channels[which] : n->in;
    const int64_t dims[] = {first, second, kernel, kernel};
    size_t count = (size_t)(n->in * n->channels[which] * kernel * kernel);
    n->weights[which] = calloc(count, sizeof(float));
    assert_non_null(n->weights[which]);
    rng_fill(&r, HYP_F32, n->weights[which], count);
    const uint32_t inputs[] = {x, pb_weight(&b, HYP_F32, RANK, dims, n->weights[which])};
    HypPlan__Call *call = pb_call(&b, transposed ? "conv-transpose" : "conv", 2, inputs, y);
    pb_call_ints(&b, call, 2, ones);
    pb_call_ints(&b, call, 4, pads);
    pb_call_ints(&b, call, 2, ones);
    pb_call_int(&b, call, 1);
    if (transposed)
        pb_call_ints(&b, call, 2, (const int64_t[]){0, 0});
    else
        pb_call_symbol(&b, call, "relu");
}

static void add_pool(const char *kernel, int64_t size, uint32_t x, uint32_t y)
{
    const int64_t sizes[] = {size, size}, ones[] = {1, 1}, pad = size / 2, pads[] = {pad, pad, pad, pad};
    HypPlan__Call *call = pb_call(&b, kernel, 1, &x, y);
    pb_call_ints(&b, call, 2, sizes);
    pb_call_ints(&b, call, 2, ones);
    pb_call_ints(&b, call, 4, pads);
    pb_call_ints(&b, call, 2, ones);
    pb_call_int(&b, call, 0);
    pb_call_int(&b, call, 0);
}

/* y = |x + x|, which no step before can end in. */
static void add_pointwise(const network *n, int64_t channels, uint32_t x, uint32_t y)
{
    const int64_t all = n->images * channels * n->lines * n->places, one = 1;
    HypPlan__Pointwise *step = pb_pointwise(&b, HYP_F32, 1, pb_consts(&b, 1, &all));
    pb_operand(&b, step, x, pb_consts(&b, 1, &one));
    uint32_t sum = pb_instr(&b, step, HYP_PLAN__POINTWISE__OP__ADD, 0, 0, 0, 0, HYP_F32);
    pb_result(&b, step, y, pb_instr(&b, step, HYP_PLAN__POINTWISE__OP__ABS, sum, 0, 0, 0, HYP_F32));
}

static void add_part(const network *n, uint32_t x, int64_t channels, uint32_t y, int64_t first, int64_t all)
{
    const int64_t plane = n->lines * n->places;
    const int64_t extents[] = {n->images, channels * plane}, from[] = {channels * plane, 1}, to[] = {all * plane, 1};
    HypPlan__Copy *copy = pb_copy(&b);
    copy->x = x;
    copy->y = y;
    copy->n_extents = copy->n_x_strides = copy->n_y_strides = 2;
    copy->extents = pb_consts(&b, 2, extents);
    copy->x_strides = pb_consts(&b, 2, from);
    copy->y_strides = pb_consts(&b, 2, to);
    copy->x_offset = pb_const(&b, 0);
    copy->y_offset = pb_const(&b, first * plane);
}

/* y0 = a pool of (conv, pool of that); y1 = a pool of (those two, an elementwise step on the first, another conv, and x). */
static void build(network *n)
{
    const int64_t *c = n->channels, two = 2 * c[0], all = two + c[0] + c[1] + n->in;
    const int64_t x_dims[] = {n->images, n->in, n->lines, n->places};
    pb_init(&b);
    uint32_t x = pb_input(&b, "x", HYP_F32, RANK, pb_consts(&b, RANK, x_dims)), from = image(n, n->in);
    for (int i = 0; i < 2; i++) {
        n->y_channels[i] = i ? all : two;
        const int64_t y_dims[] = {n->images, n->y_channels[i], n->lines, n->places};
        n->y[i] = pb_output(&b, i ? "y1" : "y0", HYP_F32, RANK, pb_consts(&b, RANK, y_dims));
    }
    uint32_t conv = image(n, c[0]), pool = image(n, c[0]), first = image(n, two), sum = image(n, c[0]);
    uint32_t other = image(n, c[1]), second = image(n, all);
    add_pool("max-pool", 1, x, from);
    add_conv(n, 0, from, conv, n->kernel, false);
    add_pool("average-pool", 3, conv, pool);
    add_part(n, conv, c[0], first, 0, two);
    add_part(n, pool, c[0], first, c[0], two);
    add_pool("max-pool", 1, first, n->y[0]);
    add_pointwise(n, c[0], conv, sum);
    add_conv(n, 1, from, other, n->transposed ? 3 : 1, n->transposed);
    add_part(n, first, two, second, 0, all);
    add_part(n, sum, c[0], second, two, all);
    add_part(n, other, c[1], second, two + c[0], all);
    add_part(n, from, n->in, second, two + c[0] + c[1], all);
    add_pool("max-pool", 1, second, n->y[1]);
}

/* Copies that nothing was left of in the last run. */
static int count_places(const hyp_context *context, size_t steps)
{
    int count = 0;
    for (size_t i = 0; i < steps; i++) {
        hyp_choice_info choice = hyp_context_choice(context, i, 0);
        hyp_alternative_info taken = hyp_context_alternative(context, i, 0, choice.taken);
        count += strcmp(taken.name, "it lies there already") == 0;
    }
    return count;
}

static int run(network *n, hyp_device_kind device, const float *data, float *const out[2])
{
    const int64_t x_dims[] = {n->images, n->in, n->lines, n->places};
    hyp_tensor results[2];
    for (int i = 0; i < 2; i++) {
        const int64_t y_dims[] = {n->images, n->y_channels[i], n->lines, n->places};
        results[i] = tensor_of(i ? "y1" : "y0", HYP_F32, out[i], RANK, y_dims);
    }
    const hyp_tensor x = tensor_of("x", HYP_F32, (void *)(uintptr_t)data, RANK, x_dims);
    hyp_engine *engine = pb_load(&b, device);
    hyp_context *context = NULL;
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    for (int i = 0; i < 2; i++) assert_ok(hyp_context_run(context, &x, 1, results, 2, diag));
    int count = count_places(context, b.program.n_steps);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return count;
}

/* How many copies nothing was left of, in all runs. */
static int check(network *n)
{
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    int places = 0;
    hyp_cpu_kernels_list(isa);
    build(n);
    size_t plane = (size_t)(n->images * n->lines * n->places), x_count = plane * (size_t)n->in;
    float *data = calloc(x_count, sizeof *data), *want[2], *got[2];
    assert_non_null(data);
    rng_fill(&r, HYP_F32, data, x_count);
    for (int i = 0; i < 2; i++) {
        want[i] = calloc(plane * (size_t)n->y_channels[i], sizeof(float));
        got[i] = calloc(plane * (size_t)n->y_channels[i], sizeof(float));
        assert_true(want[i] && got[i]);
    }
    run(n, HYP_DEVICE_REFERENCE, data, want);
    for (int k = 0; isa[k]; k++) {
        assert_int_equal(setenv(HYP_CPU_VARIABLE, isa[k]->isa, 1), 0);
        for (int i = 0; i < 2; i++) memset(got[i], 0x55, plane * (size_t)n->y_channels[i] * sizeof(float));
        places += run(n, HYP_DEVICE_CPU, data, got);
        for (int i = 0; i < 2; i++) assert_close(got[i], want[i], plane * (size_t)n->y_channels[i], 1e-4);
    }
    assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
    for (int i = 0; i < 2; i++) free(want[i]), free(got[i]), free(n->weights[i]);
    free(data);
    pb_dispose(&b);
    return places;
}

static void parts_lie_where_they_belong(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 4, 8, 12, 16, 20, 33, 64};
    int places = 0;
    for (int round = 0; round < rounds(60); round++) {
        network n = {.images = 1 + (int64_t)rng_below(&r, 2),
                     .in = channels[rng_below(&r, 9)],
                     .lines = 1 + (int64_t)rng_below(&r, 12),
                     .places = 1 + (int64_t)rng_below(&r, 12),
                     .channels = {channels[rng_below(&r, 9)], channels[rng_below(&r, 9)]},
                     .kernel = round % 2 ? 3 : 1,
                     .transposed = round % 3 == 0};
        places += check(&n);
    }
#ifdef HYP_HAVE_ONEDNN
    assert_true(places > 0);
#else
    print_message("without oneDNN no tensor has its channels last, and nothing lies so\n");
    assert_int_equal(places, 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_lie_where_they_belong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

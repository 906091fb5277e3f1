/* The largest and the mean of windows on the CPU against the reference backend, with every instruction set: channels
 * that fill no vector, windows beyond the edges, gaps, numbers that are none, both orders of the tensors around; and
 * copies between tensors in these orders, and means of them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/vector_kernels.h"
#include "runtime/support.h"

enum { AXES = 3, RANK = 2 + AXES };

static plan_builder b;
static rng r;

typedef struct pool {
    bool average, pads, around; /* around: between two pools of single places, so that its tensors have channels last */
    uint64_t finite;            /* one number of so many is strange; 0: of six */
    int64_t images, channels, size[AXES], kernel[AXES], stride[AXES], dilation[AXES], before[AXES], after[AXES];
    int64_t more[AXES]; /* results beyond the padding, as ceil mode has them */
    size_t axes;
} pool;

static int64_t result_size(const pool *k, size_t i)
{
    int64_t reach = (k->kernel[i] - 1) * k->dilation[i] + 1;
    return (k->size[i] + k->before[i] + k->after[i] - reach) / k->stride[i] + 1 + k->more[i];
}

static void add_pool(const pool *k, uint32_t x, uint32_t y)
{
    int64_t pads[2 * AXES];
    memcpy(pads, k->before, k->axes * sizeof *pads);
    memcpy(pads + k->axes, k->after, k->axes * sizeof *pads);
    HypPlan__Call *call = pb_call(&b, k->average ? "average-pool" : "max-pool", 1, &x, y);
    pb_call_ints(&b, call, k->axes, k->kernel);
    pb_call_ints(&b, call, k->axes, k->stride);
    pb_call_ints(&b, call, 2 * k->axes, pads);
    pb_call_ints(&b, call, k->axes, k->dilation);
    pb_call_int(&b, call, 0); /* ceil mode is in the sizes */
    pb_call_int(&b, call, k->pads);
}

static void add_identity(const pool *k, uint32_t x, uint32_t y)
{
    const pool same = {.kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .axes = k->axes};
    add_pool(&same, x, y);
}

/* Small numbers; for the largest of them also what is none, in some places and all over one image. */
static float *make_input(const pool *k, size_t count)
{
    static const float strange[] = {NAN, INFINITY, -INFINITY, -INFINITY, -0.0f, 0.0f, 3.4028235e38f, -3.4028235e38f};
    float *x = calloc(count, sizeof *x);
    assert_non_null(x);
    rng_fill(&r, HYP_F32, x, count);
    bool low = !k->finite && rng_below(&r, 4) == 0;
    for (size_t i = 0; i < count && !k->average; i++) {
        if (rng_below(&r, k->finite ? k->finite : 6) == 0) x[i] = strange[rng_below(&r, 8)];
        if (low && i < count / (size_t)k->images) x[i] = -INFINITY;
    }
    return x;
}

/* Of the plan, from x to y, with every instruction set. */
static void compare(float *data, size_t x_rank, const int64_t *x_dims, size_t y_rank, const int64_t *y_dims,
                    double tolerance, const hyp_cpu_kernels *const *isa)
{
    size_t count = 1;
    for (size_t i = 0; i < y_rank; i++) count *= (size_t)y_dims[i];
    float *wanted = calloc(count, sizeof *wanted), *got = calloc(count, sizeof *got);
    const hyp_tensor in = tensor_of("x", HYP_F32, data, x_rank, x_dims);
    hyp_tensor out = tensor_of("y", HYP_F32, wanted, y_rank, y_dims);
    run_once(&b, HYP_DEVICE_REFERENCE, &in, 1, &out, 1);
    out = tensor_of("y", HYP_F32, got, y_rank, y_dims);
    for (; *isa; isa++) {
        assert_int_equal(setenv(HYP_CPU_VARIABLE, (*isa)->isa, 1), 0);
        memset(got, 0x55, count * sizeof *got);
        run_once(&b, HYP_DEVICE_CPU, &in, 1, &out, 1);
        assert_close(got, wanted, count, tolerance);
    }
    assert_int_equal(unsetenv(HYP_CPU_VARIABLE), 0);
    free(wanted), free(got);
}

static void check(const pool *k, const hyp_cpu_kernels *const *isa)
{
    int64_t x_dims[RANK] = {k->images, k->channels}, y_dims[RANK] = {k->images, k->channels};
    size_t x_count = (size_t)(k->images * k->channels), rank = 2 + k->axes;
    for (size_t i = 0; i < k->axes; i++) {
        x_count *= (size_t)(x_dims[2 + i] = k->size[i]);
        y_dims[2 + i] = result_size(k, i);
    }
    pb_init(&b);
    uint32_t x = pb_input(&b, "x", HYP_F32, rank, pb_consts(&b, rank, x_dims));
    uint32_t y = pb_output(&b, "y", HYP_F32, rank, pb_consts(&b, rank, y_dims));
    if (k->around) {
        uint32_t from = pb_scratch(&b, HYP_F32, 0, rank, pb_consts(&b, rank, x_dims));
        uint32_t to = pb_scratch(&b, HYP_F32, 1, rank, pb_consts(&b, rank, y_dims));
        add_identity(k, x, from);
        add_pool(k, from, to);
        add_identity(k, to, y);
    } else {
        add_pool(k, x, y);
    }
    float *data = make_input(k, x_count);
    compare(data, rank, x_dims, rank, y_dims, k->average ? 1e-6 : 0, isa);
    free(data);
    pb_dispose(&b);
}

/* The largest over axes that lie beside each other, kept or not. */
static void largest_over_axes_agree(void **state)
{
    (void)state;
    enum { MOST = 4 };
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    for (int round = 0; round < 120; round++) {
        int64_t dims[MOST], kept[MOST], axes[MOST], rank = 1 + (int64_t)rng_below(&r, MOST), results = 0, count = 1;
        int64_t first = (int64_t)rng_below(&r, (uint64_t)rank),
                n = 1 + (int64_t)rng_below(&r, (uint64_t)(rank - first));
        bool keep = rng_below(&r, 2) == 0;
        for (int64_t i = 0; i < rank; i++) {
            bool reduced = i >= first && i < first + n;
            count *= dims[i] = 1 + (int64_t)rng_below(&r, 24);
            if (reduced) axes[i - first] = round % 2 ? i : i - rank;
            if (keep || !reduced) kept[results++] = reduced ? 1 : dims[i];
        }
        pb_init(&b);
        uint32_t x = pb_input(&b, "x", HYP_F32, (size_t)rank, pb_consts(&b, (size_t)rank, dims));
        uint32_t y = pb_output(&b, "y", HYP_F32, (size_t)results, pb_consts(&b, (size_t)results, kept));
        HypPlan__Call *call = pb_call(&b, "reduce-max", 1, &x, y);
        pb_call_ints(&b, call, (size_t)n, axes);
        pb_call_int(&b, call, keep);
        float *data = make_input(&(pool){.images = 1}, (size_t)count);
        compare(data, (size_t)rank, dims, (size_t)results, kept, 0, isa);
        free(data);
        pb_dispose(&b);
    }
}

static void pools_agree(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 2, 3, 7, 8, 12, 16, 20, 33, 70};
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    for (int round = 0; round < 200; round++) {
        pool k = {.average = round % 2 == 1,
                  .pads = rng_below(&r, 2) == 0,
                  .around = round % 3 == 0,
                  .images = 1 + (int64_t)rng_below(&r, 2),
                  .channels = channels[rng_below(&r, 10)],
                  .axes = 1 + rng_below(&r, AXES)};
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 4);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 4);
            k.dilation[i] = 1 + (int64_t)rng_below(&r, 2);
            k.size[i] = 7 + (int64_t)rng_below(&r, k.axes > 2 ? 3 : 12);
            k.before[i] = (int64_t)rng_below(&r, (uint64_t)k.kernel[i]);
            k.after[i] = (int64_t)rng_below(&r, (uint64_t)k.kernel[i]);
            k.more[i] = (int64_t)(k.stride[i] > 1 && rng_below(&r, 4) == 0);
        }
        check(&k, isa);
    }
}

/* Windows that overlap along lines long enough for several results at once, mostly of numbers. */
static void long_lines_agree(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 5, 8, 16, 17, 24, 40, 64};
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    for (int round = 0; round < 96; round++) {
        pool k = {.average = round % 2 == 1,
                  .pads = rng_below(&r, 2) == 0,
                  .around = round % 4 < 2,
                  .finite = round % 3 ? 2000 : UINT64_MAX,
                  .images = 1 + (int64_t)rng_below(&r, 2),
                  .channels = channels[rng_below(&r, 8)],
                  .axes = 1 + rng_below(&r, 2)};
        int64_t kernel = round % 5 ? 3 : 5;
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = rng_below(&r, 5) ? kernel : 2;
            k.stride[i] = 1 + (int64_t)rng_below(&r, 2);
            k.dilation[i] = 1;
            k.size[i] = 9 + (int64_t)rng_below(&r, 26);
            k.before[i] = (int64_t)rng_below(&r, (uint64_t)k.kernel[i]);
            k.after[i] = (int64_t)rng_below(&r, (uint64_t)k.kernel[i]);
        }
        check(&k, isa);
    }
}

/* The mean or the sum over all places of images that lie with the channels last, or in the plan's order. */
static void means_of_images_agree(void **state)
{
    (void)state;
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    for (int round = 0; round < 60; round++) {
        pool k = {.average = true, .axes = 1 + rng_below(&r, AXES)};
        size_t rank = 2 + k.axes;
        int64_t dims[RANK], strides[RANK], kept[2], count = 1;
        for (size_t i = 0; i < rank; i++) dims[i] = 1 + (int64_t)rng_below(&r, i == 1 ? 300 : 9);
        for (size_t i = rank; i-- > 0; count *= dims[i]) strides[i] = count;
        memcpy(kept, dims, sizeof kept);
        pb_init(&b);
        uint32_t x = pb_input(&b, "x", HYP_F32, rank, pb_consts(&b, rank, dims));
        uint32_t y = pb_output(&b, "y", HYP_F32, 2, pb_consts(&b, 2, kept));
        uint32_t from = pb_scratch(&b, HYP_F32, 0, rank, pb_consts(&b, rank, dims));
        add_identity(&k, x, from);
        HypPlan__Reduce *s = pb_reduce(&b);
        s->kind = round % 2 ? HYP_PLAN__REDUCE__KIND__MEAN : HYP_PLAN__REDUCE__KIND__SUM;
        s->x = round % 5 ? from : x;
        s->y = y;
        s->n_kept = s->n_kept_strides = 2;
        s->n_reduced = s->n_reduced_strides = k.axes;
        s->kept = pb_consts(&b, 2, dims);
        s->kept_strides = pb_consts(&b, 2, strides);
        s->reduced = pb_consts(&b, k.axes, dims + 2);
        s->reduced_strides = pb_consts(&b, k.axes, strides + 2);
        float *data = make_input(&k, (size_t)count);
        compare(data, rank, dims, 2, kept, 1e-5, isa);
        free(data);
        pb_dispose(&b);
    }
}

/* A window in the padding alone: nothing is the largest of it. */
static void windows_of_padding_agree(void **state)
{
    (void)state;
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    for (int64_t c = 1; c <= 17; c += 8) {
        pool k = {.images = 1,
                  .channels = c,
                  .size = {3, 4},
                  .kernel = {2, 2},
                  .stride = {2, 1},
                  .dilation = {1, 1},
                  .before = {3, 0},
                  .after = {2, 4},
                  .axes = 2};
        check(&k, isa);
        k.average = k.pads = true;
        check(&k, isa);
    }
}

/* All images of x but the first, axes permuted, into part `part` of the two that y has along an axis; backwards along
 * another. x is what it says, or a window that begins with its second image. */
static void add_part(const pool *k, const int64_t *x_dims, const size_t *order, const int64_t *y_dims, size_t along,
                     int64_t part, size_t back, uint32_t x, uint32_t y)
{
    size_t rank = 2 + k->axes;
    int64_t x_strides[RANK], y_strides[RANK], strides[RANK] = {0}, extents[RANK], dense = 1, first;
    for (size_t i = rank; i-- > 0; dense *= x_dims[i]) strides[i] = dense;
    first = b.tensors[x].place == HYP_PLAN__PLACE__PLACE_VIEW ? 0 : strides[0];
    dense = 1;
    for (size_t i = rank; i-- > 0; dense *= y_dims[i]) {
        extents[i] = x_dims[order[i]] - (order[i] == 0);
        x_strides[i] = i == back ? -strides[order[i]] : strides[order[i]];
        y_strides[i] = dense;
        if (i == back) first += (extents[i] - 1) * strides[order[i]];
    }
    HypPlan__Copy *c = pb_copy(&b);
    c->x = x;
    c->y = y;
    c->n_extents = c->n_x_strides = c->n_y_strides = rank;
    c->extents = pb_consts(&b, rank, extents);
    c->x_strides = pb_consts(&b, rank, x_strides);
    c->y_strides = pb_consts(&b, rank, y_strides);
    c->x_offset = pb_const(&b, first);
    c->y_offset = pb_const(&b, part * extents[along] * y_strides[along]);
}

/* Between two pools two copies join what lies with the channels last, or in the plan's order, into what lies so. */
static void copies_agree(void **state)
{
    (void)state;
    const hyp_cpu_kernels *isa[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(isa);
    for (int round = 0; round < 240; round++) {
        pool k = {.axes = 1 + rng_below(&r, AXES)};
        size_t rank = 2 + k.axes, order[RANK], count = 1, along = rng_below(&r, rank), back = rng_below(&r, 4 * rank);
        int64_t x_dims[RANK], y_dims[RANK], image = 1;
        for (size_t i = 0; i < rank; i++) {
            count *= (size_t)(x_dims[i] = 2 + (int64_t)rng_below(&r, i == 1 ? 40 : 6));
            if (i > 0) image *= x_dims[i];
            order[i] = i;
        }
        for (size_t i = rank - 1; i > 0 && round % 3 == 0; i--) {
            size_t with = rng_below(&r, i + 1), was = order[i];
            order[i] = order[with];
            order[with] = was;
        }
        for (size_t i = 0; i < rank; i++) y_dims[i] = (x_dims[order[i]] - (order[i] == 0)) * (i == along ? 2 : 1);
        k.images = x_dims[0];
        pb_init(&b);
        uint32_t x = pb_input(&b, "x", HYP_F32, rank, pb_consts(&b, rank, x_dims));
        uint32_t y = pb_output(&b, "y", HYP_F32, rank, pb_consts(&b, rank, y_dims));
        uint32_t from = pb_scratch(&b, HYP_F32, 0, rank, pb_consts(&b, rank, x_dims)), window = from;
        uint32_t to = pb_scratch(&b, HYP_F32, 1, rank, pb_consts(&b, rank, y_dims));
        if (round % 4 == 0 && image % HYP_PLAN_WINDOW_ALIGN == 0) {
            int64_t dims[RANK];
            memcpy(dims, x_dims, sizeof dims);
            dims[0]--;
            window = pb_view(&b, from, rank, pb_consts(&b, rank, dims));
            b.tensors[window].window = true;
            b.tensors[window].first = (uint64_t)image;
        }
        add_identity(&k, x, from);
        add_part(&k, x_dims, order, y_dims, along, 0, back, window, to);
        add_part(&k, x_dims, order, y_dims, along, 1, rank, round % 5 == 0 ? x : from, to);
        if (round % 7 == 0) {
            int64_t all = 1;
            for (size_t i = 0; i < rank; i++) all *= y_dims[i];
            pb_copy_all(&b, to, y, pb_const(&b, all));
        } else {
            add_identity(&k, to, y);
        }
        float *data = make_input(&k, count);
        compare(data, rank, x_dims, rank, y_dims, 0, isa);
        free(data);
        pb_dispose(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_agree),
        cmocka_unit_test(long_lines_agree),
        cmocka_unit_test(windows_of_padding_agree),
        cmocka_unit_test(means_of_images_agree),
        cmocka_unit_test(largest_over_axes_agree),
        cmocka_unit_test(copies_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

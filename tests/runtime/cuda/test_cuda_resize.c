/* Resizing on the CUDA backend against the reference backend: every mode, type and number of axes. Needs a GPU, or the
 * emulator: see device_start. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */

typedef struct form {
    const char *mode, *coordinates, *nearest;
    bool exclude, antialias;
    const float *scales, *region; /* NULL: none */
} form;

/* The plan in which x[x_dims] becomes y[y_dims]. */
static void build_resize(hyp_dtype dtype, size_t rank, const int64_t *x_dims, const int64_t *y_dims, const form *f)
{
    const int64_t count = (int64_t)rank, twice = 2 * count;
    pb_init(&builder);
    uint32_t in[3] = {pb_input(&builder, "x", dtype, rank, pb_consts(&builder, rank, x_dims))};
    if (f->scales) in[1] = pb_weight(&builder, HYP_F32, 1, &count, f->scales);
    if (f->region) in[2] = pb_weight(&builder, HYP_F32, 1, &twice, f->region);
    HypPlan__Call *call = pb_call(&builder, "resize",
                                  f->region   ? 3
                                  : f->scales ? 2
                                              : 1,
                                  in, pb_output(&builder, "y", dtype, rank, pb_consts(&builder, rank, y_dims)));
    pb_call_ints(&builder, call, rank, y_dims);
    pb_call_symbol(&builder, call, f->mode);
    pb_call_symbol(&builder, call, f->coordinates);
    pb_call_symbol(&builder, call, f->nearest);
    pb_call_float(&builder, call, -0.75);
    pb_call_int(&builder, call, f->exclude);
    pb_call_int(&builder, call, f->antialias);
    pb_call_float(&builder, call, 0.5);
}

static void check_resize(hyp_dtype dtype, size_t rank, const int64_t *x_dims, const int64_t *y_dims, const form *f)
{
    const bool nearest = strcmp(f->mode, "nearest") == 0, is_float = hyp_dtype_is_float(dtype);
    int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
    build_resize(dtype, rank, x_dims, y_dims, f);
    memcpy(dims[0], x_dims, rank * sizeof *x_dims);
    check_plan(&dev, &builder, (const int64_t(*)[HYP_MAX_RANK])dims,
               nearest || !is_float ? (tolerance){0, 0} : tolerance_of(dtype, 16));
}

static const char *const coordinates[] = {"half_pixel",         "asymmetric",           "align_corners",
                                          "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize"};
static const char *const nearests[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
static const char *const modes[] = {"nearest", "linear", "cubic"};
static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_U8, HYP_I8, HYP_I32, HYP_I64};
enum { TYPES = sizeof types / sizeof *types };

/* Images that grow and that shrink, by whole and by broken factors, with all ways of places and of rounding. */
static void images_in_all_modes_equal_reference(void **state)
{
    (void)state;
    static const int64_t x_dims[] = {2, 3, 5, 8};
    static const int64_t sizes[][2] = {{10, 16}, {7, 8}, {3, 5}, {1, 20}, {13, 1}};
    static const float region[] = {0, 0, 0.1f, -0.2f, 1, 1, 0.8f, 1.3f};
    unsigned number = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t c = 0; c < sizeof coordinates / sizeof *coordinates; c++)
            for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
                const int64_t y_dims[] = {2, 3, sizes[s][0], sizes[s][1]};
                form f = {.mode = modes[m],
                          .coordinates = coordinates[c],
                          .exclude = number % 3 == 1,
                          .antialias = number % 4 == 1};
                const float scales[] = {1, 1, (float)y_dims[2] / 5, (float)y_dims[3] / 8};
                if (c == 5) f.region = region, f.scales = scales;
                for (size_t n = 0; n < (m == 0 ? 4 : 1); n++) {
                    f.nearest = nearests[n];
                    check_resize(types[number++ % TYPES], 4, x_dims, y_dims, &f);
                }
            }
}

/* One axis, the first ones, three, all of them, none; scales that differ from those of the sizes. */
static void any_axes_equal_reference(void **state)
{
    (void)state;
    static const struct {
        size_t rank;
        int64_t x[6], y[6];
    } shapes[] = {{1, {7}, {12}},
                  {2, {4, 6}, {9, 6}},
                  {3, {2, 5, 6}, {2, 11, 6}},
                  {3, {3, 5, 4}, {6, 3, 7}},
                  {5, {1, 2, 3, 4, 5}, {1, 2, 6, 8, 7}},
                  {6, {2, 3, 2, 3, 2, 3}, {3, 4, 3, 2, 4, 5}},
                  {4, {2, 3, 4, 5}, {2, 3, 4, 5}},
                  {4, {1, 1, 40, 60}, {1, 1, 5, 7}},
                  {2, {0, 3}, {0, 6}},
                  {2, {3, 4}, {3, 0}}};
    static const float scales[] = {1.9f, 2.1f, 1.4f, 0.9f, 1.7f, 1.3f};
    unsigned number = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
            for (int way = 0; way < 3; way++) {
                const form f = {.mode = modes[m],
                                .coordinates = coordinates[number % 4],
                                .nearest = nearests[number % 4],
                                .antialias = way == 1,
                                .scales = way == 2 ? scales : NULL};
                check_resize(types[number++ % TYPES], shapes[s].rank, shapes[s].x, shapes[s].y, &f);
            }
}

/* Rows of several tiles, and more rows than all blocks have at a time; channels that follow each place. */
static void large_images_equal_reference(void **state)
{
    (void)state;
    static const struct {
        size_t rank;
        int64_t x[4], y[4];
    } shapes[] = {{4, {1, 2, 30, 750}, {1, 2, 60, 1500}},
                  {4, {40, 60, 20, 7}, {40, 60, 40, 14}},
                  {3, {5, 700, 3}, {7, 1400, 3}},
                  {2, {3, 5000}, {6, 5000}}};
    unsigned number = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            const form f = {.mode = modes[m], .coordinates = "half_pixel", .nearest = "round_prefer_floor"};
            const hyp_dtype dtype = types[number++ % 3];
            int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
            pair p;
            build_resize(dtype, shapes[s].rank, shapes[s].x, shapes[s].y, &f);
            memcpy(dims[0], shapes[s].x, shapes[s].rank * sizeof *dims[0]);
            pair_open(&dev, &builder, &p);
            pair_check_once(&p, (const int64_t(*)[HYP_MAX_RANK])dims,
                            m == 0 ? (tolerance){0, 0} : tolerance_of(dtype, 16));
            pair_close(&p);
            pb_dispose(&builder);
        }
}

typedef struct sampled {
    size_t rank;
    int64_t x[5], y[5];
} sampled;

/* Places within the images and outside of them, and what is no number. */
static uint32_t places_weight(const sampled *shape, uint64_t random)
{
    const size_t axes = shape->rank - 2;
    float grid[512];
    int64_t dims[5] = {shape->x[0]}, count = shape->x[0] * (int64_t)axes;
    for (size_t a = 0; a < axes; a++) count *= dims[a + 1] = shape->y[a + 2];
    dims[shape->rank - 1] = (int64_t)axes;
    assert_true(count <= 512);
    for (int64_t i = 0; i < count; i++) grid[i] = (float)random_between(&random, -1600, 1600) / 1000;
    grid[count / 2] = NAN;
    grid[0] = 1;
    return pb_weight(&builder, HYP_F32, shape->rank, dims, grid);
}

/* `by` not NULL: the gradient by x or the grid. */
static void check_samples(const sampled *shape, const char *mode, const char *padding, const char *by, unsigned number)
{
    const size_t rank = shape->rank;
    const hyp_dtype dtype = types[number % 4], narrow = dtype == HYP_F64 ? dtype : HYP_F32;
    int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}}, grid[5] = {shape->x[0]};
    bool by_grid = by && strcmp(by, "grid") == 0;
    pb_init(&builder);
    const uint32_t in[] = {pb_input(&builder, "x", dtype, rank, pb_consts(&builder, rank, shape->x)),
                           places_weight(shape, number),
                           by ? pb_input(&builder, "g", dtype, rank, pb_consts(&builder, rank, shape->y)) : 0};
    memcpy(grid + 1, shape->y + 2, (rank - 2) * sizeof *grid);
    grid[rank - 1] = (int64_t)rank - 2;
    uint32_t *result = pb_consts(&builder, rank, by_grid ? grid : by ? shape->x : shape->y);
    HypPlan__Call *call = pb_call(&builder, by ? "grid-sample-gradient" : "grid-sample", by ? 3 : 2, in,
                                  pb_output(&builder, "y", by_grid ? HYP_F32 : by ? narrow : dtype, rank, result));
    pb_call_symbol(&builder, call, mode);
    pb_call_symbol(&builder, call, padding);
    pb_call_int(&builder, call, number % 2);
    if (by) pb_call_symbol(&builder, call, by);
    memcpy(dims[0], shape->x, rank * sizeof *shape->x);
    memcpy(dims[1], shape->y, rank * sizeof *shape->y);
    check_plan(&dev, &builder, (const int64_t(*)[HYP_MAX_RANK])dims, tolerance_of(by ? HYP_F32 : dtype, 64));
}

/* Channels for more than one thread, rows for more than one. */
static void samples_at_places_equal_reference(void **state)
{
    (void)state;
    static const char *const paddings[] = {"zeros", "border", "reflection"}, *const by[] = {NULL, "x", "grid"};
    static const sampled shapes[] = {{4, {2, 3, 5, 6}, {2, 3, 4, 7}},
                                     {5, {2, 2, 3, 4, 5}, {2, 2, 2, 3, 4}},
                                     {3, {1, 19, 9}, {1, 19, 5}},
                                     {4, {2, 0, 3, 3}, {2, 0, 2, 2}}};
    unsigned number = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
            for (size_t p = 0; p < sizeof paddings / sizeof *paddings; p++, number++)
                for (size_t i = 0; i < sizeof by / sizeof *by; i++)
                    check_samples(&shapes[s], modes[m], paddings[p], by[i], number);
}

/* Scales that the data give are refused when the plan is loaded, by name. */
static void scales_of_the_data_are_refused(void **state)
{
    (void)state;
    static const int64_t x_dims[] = {2, 4}, y_dims[] = {2, 8}, two = 2;
    hyp_engine *engine = NULL;
    char path[PB_PATH];
    hyp_diag diag = {0};
    pb_init(&builder);
    const uint32_t in[] = {pb_input(&builder, "x", HYP_F32, 2, pb_consts(&builder, 2, x_dims)),
                           pb_input(&builder, "scales", HYP_F32, 1, pb_consts(&builder, 1, &two))};
    HypPlan__Call *call =
        pb_call(&builder, "resize", 2, in, pb_output(&builder, "y", HYP_F32, 2, pb_consts(&builder, 2, y_dims)));
    pb_call_ints(&builder, call, 2, y_dims);
    pb_call_symbol(&builder, call, "linear");
    pb_call_symbol(&builder, call, "half_pixel");
    pb_call_symbol(&builder, call, "floor");
    pb_call_float(&builder, call, -0.75);
    pb_call_int(&builder, call, 0);
    pb_call_int(&builder, call, 0);
    pb_call_float(&builder, call, 0);
    pb_write(&builder, path);
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "scales and regions that are constants"));
    pb_remove(&builder, path);
}

/* What lies between two launches may have more elements than there are numbers for, though x and y have not. */
static void too_much_between_two_axes_is_refused(void **state)
{
    (void)state;
    enum { LARGE = 1 << 16 };
    static const int64_t x_dims[] = {1, 1, LARGE, LARGE}, y_dims[] = {LARGE, LARGE, 1, 1};
    const form f = {.mode = "linear", .coordinates = "half_pixel", .nearest = "floor"};
    hyp_context *context = NULL;
    hyp_diag diag = {0};
    build_resize(HYP_U8, 4, x_dims, y_dims, &f);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    const hyp_tensor x = {.dtype = HYP_U8, .rank = 4, .dims = {1, 1, LARGE, LARGE}};
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    assert_int_not_equal(hyp_context_reserve(context, &x, 1, &diag), HYP_OK);
    assert_non_null(strstr(diag.message, "the sizes are too large"));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_in_all_modes_equal_reference), cmocka_unit_test(any_axes_equal_reference),
        cmocka_unit_test(large_images_equal_reference),        cmocka_unit_test(samples_at_places_equal_reference),
        cmocka_unit_test(scales_of_the_data_are_refused),      cmocka_unit_test(too_much_between_two_axes_is_refused),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

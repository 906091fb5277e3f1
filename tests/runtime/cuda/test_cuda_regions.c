/* Places and regions of images, and results as large as the data say, on the CUDA backend against the reference
 * backend: boxes of many classes, bins, what pools left, statistics of rows. Needs a GPU, or the emulator: see
 * device_start. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */
static const tolerance exactly = {0, 0};
static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};
enum { TYPES = sizeof types / sizeof *types };

static void check_once(tolerance want)
{
    pair p;
    pair_open(&dev, &builder, &p);
    pair_check_once(&p, (dims_list){{0}}, want);
    pair_close(&p);
    pb_dispose(&builder);
}

/* A weight whose numbers are of `least` to `most` thousandths, every `nan`th NaN; 0: none. */
static uint32_t number_weight_with_nan(hyp_dtype dtype, size_t rank, const int64_t *dims, int64_t least, int64_t most,
                                       uint64_t seed, size_t nan)
{
    size_t count = 1;
    for (size_t a = 0; a < rank; a++) count *= (size_t)dims[a];
    char *room = malloc(count * sizeof(double) + 1);
    assert_non_null(room);
    for (size_t i = 0; i < count; i++) {
        const double number = (double)random_between(&seed, least, most) / 1000;
        hyp_store_f64(dtype, room, i, nan && i % nan == 0 ? (double)NAN : number);
    }
    const uint32_t weight = pb_weight(&builder, dtype, rank, dims, room);
    free(room);
    return weight;
}

static uint32_t number_weight(hyp_dtype dtype, size_t rank, const int64_t *dims, int64_t least, int64_t most,
                              uint64_t seed)
{
    return number_weight_with_nan(dtype, rank, dims, least, most, seed, 0);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

typedef struct boxes {
    int64_t images, classes, n, most, room;
    float threshold, least; /* least below -9: there is none; threshold below 0: there is none */
    bool center;
    size_t nan; /* every so many scores is one; 0: none */
} boxes;

/* The plan that lists boxes among few scores, so that many are alike. */
static void build_suppression(hyp_dtype dtype, const boxes *s)
{
    const int64_t box_dims[] = {s->images, s->n, 4}, score_dims[] = {s->images, s->classes, s->n}, one = 1,
                  y_dims[] = {s->room, 3};
    pb_init(&builder);
    uint32_t in[5] = {number_weight(dtype, 3, box_dims, 0, 4000, 3),
                      number_weight_with_nan(dtype, 3, score_dims, -20, 20, 5, s->nan),
                      pb_weight(&builder, HYP_I64, 1, &one, &s->most)};
    const bool given = s->threshold >= 0, limited = s->least > -9;
    if (given) in[3] = pb_weight(&builder, HYP_F32, 1, &one, &s->threshold);
    if (limited) in[4] = pb_weight(&builder, HYP_F32, 1, &one, &s->least);
    HypPlan__Call *call = pb_call(&builder, "non-max-suppression",
                                  limited ? 5
                                  : given ? 4
                                          : 3,
                                  in, pb_output(&builder, "at", HYP_I64, 2, pb_consts(&builder, 2, y_dims)));
    pb_call_output(call, pb_output(&builder, "count", HYP_I64, 0, NULL));
    pb_call_ints(&builder, call, 1, &s->room);
    pb_call_int(&builder, call, s->center);
}

/* Few and more boxes than a block has threads, more classes than are done at a time, none; scores that are NaN, which come
 * last where there is no least one. */
static void boxes_that_do_not_overlap_equal_reference(void **state)
{
    (void)state;
    static const boxes cases[] = {{1, 1, 7, 7, 7, 0.5f, 0, false, 0},
                                  {2, 3, 40, 5, 40, 0.3f, 0.004f, true, 0},
                                  {1, 2, 1300, 1300, 2600, 0.1f, -10, false, 0},
                                  {1, 500, 9, 3, 1500, 0.2f, 0.001f, false, 0},
                                  {1, 2, 600, 100, 200, 0, -10, true, 0},
                                  {2, 2, 20, 20, 80, -1, -10, false, 0},
                                  {1, 1, 5, 0, 5, 0.5f, 0, false, 0},
                                  {1, 2, 0, 3, 4, 0.5f, 0, false, 0},
                                  {2, 0, 5, 3, 4, 0.5f, 0, false, 0},
                                  {1, 1, 5, -3, 5, 0.5f, 0, false, 0},
                                  {1, 2, 9, 4, 8, 0.5f, 0.05f, false, 0},
                                  {2, 2, 30, 30, 120, 0.3f, -10, false, 3},
                                  {1, 2, 30, 30, 60, 0.3f, 0.001f, true, 3},
                                  {1, 1, 600, 600, 600, 1, -10, false, 2},
                                  {1, 1, 7, 7, 7, 0.5f, -10, false, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        build_suppression(types[i % TYPES], &cases[i]);
        check_once(exactly);
    }
}

/* ---- bins, grids ------------------------------------------------------------------------------------------------- */

/* `back`: the gradient by the images. */
static void build_roi_align(hyp_dtype dtype, const char *mode, const char *places, int64_t samples,
                            const int64_t *images, bool back)
{
    static const int64_t x_dims[] = {2, 3, 9, 11}, roi_dims[] = {4, 4}, y_dims[] = {4, 3, 2, 5}, bins[] = {2, 5},
                         four = 4;
    static const float rois[] = {0, 0, 9, 9, -3, 2, 4, 30, 5.5f, 1.25f, 5.75f, 1.5f, 7, 7, 2, 2};
    pb_init(&builder);
    const uint32_t in[] = {number_weight(dtype, 4, x_dims, -3000, 3000, 7),
                           pb_weight(&builder, HYP_F32, 2, roi_dims, rois),
                           pb_weight(&builder, HYP_I64, 1, &four, images),
                           back ? number_weight(dtype, 4, y_dims, -3000, 3000, 9) : 0};
    HypPlan__Call *call = pb_call(&builder, back ? "roi-align-gradient" : "roi-align", back ? 4 : 3, in,
                                  pb_output(&builder, "y", dtype, 4, pb_consts(&builder, 4, back ? x_dims : y_dims)));
    pb_call_symbol(&builder, call, mode);
    pb_call_symbol(&builder, call, places);
    pb_call_ints(&builder, call, 2, bins);
    pb_call_int(&builder, call, samples);
    pb_call_float(&builder, call, 0.8);
}

/* Regions within the images, across their ends, turned, and of nearly nothing; samples as many as are wanted and as
 * fit. */
static void bins_of_regions_equal_reference(void **state)
{
    (void)state;
    static const int64_t images[] = {1, 0, -1, -2};
    for (size_t t = 0; t < TYPES; t++)
        for (int form = 0; form < 16; form++) {
            build_roi_align(types[t], form & 1 ? "max" : "avg", form & 2 ? "half_pixel" : "output_half_pixel",
                            form & 4 ? 3 : 0, images, form & 8);
            check_once(tolerance_of(types[t], 16));
        }
}

static void moved_grids_equal_reference(void **state)
{
    (void)state;
    static const int64_t sizes[][5] = {{2, 1, 5, 7}, {2, 3, 1, 6}, {2, 1, 3, 4, 5}, {2, 1, 1, 1, 8}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int form = 0; form < 4; form++) {
            const int64_t axes = s < 2 ? 2 : 3, theta_dims[] = {2, axes, axes + 1};
            int64_t y_dims[5] = {2};
            const hyp_dtype dtype = types[(s + (size_t)form) % TYPES];
            memcpy(y_dims + 1, sizes[s] + 2, (size_t)axes * sizeof *y_dims);
            y_dims[axes + 1] = axes;
            pb_init(&builder);
            const uint32_t theta = number_weight(dtype, 3, theta_dims, -1500, 1500, s + 1);
            HypPlan__Call *call = pb_call(
                &builder, "affine-grid", 1, &theta,
                pb_output(&builder, "y", dtype, (size_t)axes + 2, pb_consts(&builder, (size_t)axes + 2, y_dims)));
            pb_call_ints(&builder, call, (size_t)axes + 2, sizes[s]);
            pb_call_int(&builder, call, form % 2);
            check_once(exactly);
        }
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */

static void build_unpool(hyp_dtype dtype, const int64_t *places, bool larger)
{
    static const int64_t x_dims[] = {2, 2, 2, 3}, same[] = {2, 2, 4, 5}, wider[] = {2, 2, 6, 7}, sizes[] = {4, 5};
    pb_init(&builder);
    const uint32_t in[] = {number_weight(hyp_dtype_is_float(dtype) ? dtype : HYP_F32, 4, x_dims, 1000, 9000, 3),
                           pb_weight(&builder, HYP_I64, 4, x_dims, places)};
    HypPlan__Call *call = pb_call(&builder, "max-unpool", 2, in,
                                  pb_output(&builder, "y", dtype, 4, pb_consts(&builder, 4, larger ? wider : same)));
    pb_call_ints(&builder, call, 2, sizes);
    pb_call_ints(&builder, call, 0, NULL);
}

/* Places that several elements have, of which the last counts; places of other channels. */
static void what_pools_left_is_put_back(void **state)
{
    (void)state;
    static const int64_t places[24] = {0,  7,  19, 7,  7,  3,  20, 39, 21, 20, 22, 23,
                                       79, 78, 0,  41, 42, 43, 60, 61, 61, 61, 62, 59};
    for (size_t t = 0; t < TYPES; t++)
        for (int larger = 0; larger < 2; larger++) {
            build_unpool(types[t], places, larger);
            check_once(exactly);
        }
}

static void norms_of_windows_equal_reference(void **state)
{
    (void)state;
    static const int64_t x_dims[] = {2, 8, 7, 6}, y_dims[] = {2, 8, 4, 3}, kernel[] = {3, 2}, strides[] = {2, 2},
                         pads[] = {1, 0, 1, 0}, dilations[] = {1, 1};
    for (size_t t = 0; t < TYPES; t++)
        for (int64_t order = 1; order < 5; order++) {
            pb_init(&builder);
            const uint32_t x = number_weight(types[t], 4, x_dims, -3000, 3000, (uint64_t)order);
            HypPlan__Call *call = pb_call(&builder, "lp-pool", 1, &x,
                                          pb_output(&builder, "y", types[t], 4, pb_consts(&builder, 4, y_dims)));
            pb_call_ints(&builder, call, 2, kernel);
            pb_call_ints(&builder, call, 2, strides);
            pb_call_ints(&builder, call, 4, pads);
            pb_call_ints(&builder, call, 2, dilations);
            pb_call_int(&builder, call, 0);
            pb_call_int(&builder, call, order);
            check_once(tolerance_of(types[t], 16));
        }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Rows of few and of very many elements, and of none, which have a mean that is no number. */
static void statistics_of_rows_equal_reference(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{5, 7}, {300, 1}, {3, 20000}, {2, 0}, {0, 4}};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (uint32_t wide = 0; wide < 2; wide++) {
                const int64_t *dims = shapes[s], rows[] = {dims[0], 1};
                const hyp_dtype of_stats = wide ? hyp_dtype_wide(types[t]) : types[t];
                pb_init(&builder);
                const uint32_t in[] = {number_weight(types[t], 2, dims, -3000, 3000, s),
                                       number_weight(types[t], 1, dims + 1, 500, 1500, 2),
                                       number_weight(types[t], 1, dims + 1, -500, 500, 4)};
                uint32_t *all = pb_consts(&builder, 2, dims), *each = pb_consts(&builder, 2, rows);
                HypPlan__Call *call =
                    pb_call(&builder, "layer-norm-stats", 3, in, pb_output(&builder, "y", types[t], 2, all));
                pb_call_output(call, pb_output(&builder, "mean", of_stats, 2, each));
                pb_call_output(call, pb_output(&builder, "inverse", of_stats, 2, each));
                pb_call_int(&builder, call, 1);
                pb_call_float(&builder, call, 1e-3);
                check_once(tolerance_of(types[t], 64));
            }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Runs the plan that is in `builder`, which has no inputs, and wants it to tell of this number. */
static void check_fails(size_t count, const char *number)
{
    enum { ROOM = 4096 };
    static double room[2][ROOM];
    hyp_diag diag = {0};
    hyp_context *context = NULL;
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_tensor out[2] = {{.data = room[0], .bytes = sizeof room[0]}, {.data = room[1], .bytes = sizeof room[1]}};
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (size_t i = 0; i < count; i++) {
        const hyp_io_info *info = hyp_engine_output(engine, i);
        out[i].dtype = info->dtype;
        out[i].rank = info->rank;
        memcpy(out[i].dims, info->dims, sizeof out[i].dims);
    }
    assert_int_equal(hyp_context_run(context, NULL, 0, out, count, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, number));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void what_is_out_of_range_is_an_error(void **state)
{
    (void)state;
    static const boxes many = {1, 2, 6, 6, 3, 1, -10, false, 0}, in_one = {1, 1, 9, 9, 2, 1, -10, false, 0};
    static const int64_t images[] = {1, 0, 2, 0};
    int64_t places[24] = {0};
    build_suppression(HYP_F32, &many);
    check_fails(2, "index 8 is out of range");
    build_suppression(HYP_F32, &in_one);
    check_fails(2, "index 3 is out of range");
    for (int back = 0; back < 2; back++) {
        build_roi_align(HYP_F32, "avg", "half_pixel", 2, images, back);
        check_fails(1, "index 2 is out of range");
        build_roi_align(HYP_F32, "avg", "half_pixel", 5000, (const int64_t[]){0, 0, 0, 0}, back);
        check_fails(1, "is out of range");
    }
    places[5] = 80;
    build_unpool(HYP_F32, places, false);
    check_fails(1, "index 80 is out of range");
    places[5] = -1;
    build_unpool(HYP_F32, places, false);
    check_fails(1, "index -1 is out of range");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_that_do_not_overlap_equal_reference),
        cmocka_unit_test(bins_of_regions_equal_reference),
        cmocka_unit_test(moved_grids_equal_reference),
        cmocka_unit_test(what_pools_left_is_put_back),
        cmocka_unit_test(norms_of_windows_equal_reference),
        cmocka_unit_test(statistics_of_rows_equal_reference),
        cmocka_unit_test(what_is_out_of_range_is_an_error),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

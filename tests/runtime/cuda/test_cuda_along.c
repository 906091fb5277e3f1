/* Steps of the CUDA backend that work along one axis, or by position, against the reference backend: every type, short
 * and long axes, such that are made in parts, neighbours of one lane and of many. Needs a GPU, or the emulator: see
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

static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I32, HYP_I64,
                                  HYP_U64, HYP_U8,  HYP_I8,   HYP_I16, HYP_U32};
enum { TYPES = sizeof types / sizeof *types };

/* Random numbers; of floats some are NaN, infinite, a zero of either sign or among few, of integers some are the least
 * and the largest that there are. */
static uint32_t difficult_weight(hyp_dtype dtype, size_t rank, const int64_t *dims)
{
    static const double rare[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 0.5, 0.5, 0.5};
    uint64_t state = 11;
    size_t count = 1, size = hyp_dtype_size(dtype);
    for (size_t a = 0; a < rank; a++) count *= (size_t)dims[a];
    char *room = malloc(count * size + 1);
    assert_non_null(room);
    random_fill(&state, dtype, room, count);
    for (size_t i = 0; i < count; i++) {
        const int64_t which = random_between(&state, 0, 31);
        if (which >= 8) continue;
        if (hyp_dtype_is_float(dtype))
            hyp_store_f64(dtype, room, i, rare[which]);
        else if (which < 4)
            memset(room + i * size, which % 2 ? 0xff : 0, size),
                room[i * size + size - 1] = (char)(which < 2 ? 0x80 : 0x7f);
    }
    const uint32_t weight = pb_weight(&builder, dtype, rank, dims, room);
    free(room);
    return weight;
}

/* [outer, size, inner]: whole blocks, warps, what is less than either; the last ones in parts, on an H200, too. */
static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 1},     {7, 40, 1},   {2, 3, 70},   {1, 37, 300}, {300, 6, 1},
                                    {2, 2051, 1}, {1, 13001, 1}, {1, 4100, 3}, {5, 257, 33}, {1, 20001, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Some in all ways of check_plan, the others by one run, for an emulated device takes long. */
static void check(dims_list dims, tolerance want)
{
    static unsigned calls;
    if (calls++ % 16 == 0) {
        check_plan(&dev, &builder, dims, want);
        return;
    }
    pair p;
    pair_open(&dev, &builder, &p);
    pair_check_once(&p, dims, want);
    pair_close(&p);
    pb_dispose(&builder);
}

/* ---- where the largest is ------------------------------------------------------------------------------------ */

static void places_of_extremes_equal_reference(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < SHAPES; s++) {
            for (int form = 0; form < 4; form++) {
                if (t > 0 && (s + t + (size_t)form) % 5) continue;
                const int64_t *x_dims = shapes[s], kept[] = {x_dims[0], 1, x_dims[2]}, left[] = {x_dims[0], x_dims[2]};
                const bool keep = (form + s) % 2;
                pb_init(&builder);
                const uint32_t x = difficult_weight(types[t], 3, x_dims);
                const uint32_t y = pb_output(&builder, "y", HYP_I64, keep ? 3 : 2,
                                             pb_consts(&builder, keep ? 3 : 2, keep ? kept : left));
                HypPlan__Call *call = pb_call(&builder, form % 2 ? "argmax" : "argmin", 1, &x, y);
                pb_call_int(&builder, call, t % 2 ? 1 : -2);
                pb_call_int(&builder, call, keep);
                pb_call_int(&builder, call, form / 2);
                check((dims_list){{0}}, exactly);
            }
        }
}

/* Where there are as many lanes as threads that are wanted, each has one. */
static void places_in_very_many_lanes_equal_reference(void **state)
{
    (void)state;
    static const int64_t x_dims[] = {1, 11, 150000}, y_dims[] = {1, 150000};
    for (int form = 0; form < 4; form++) {
        pb_init(&builder);
        const uint32_t x = difficult_weight(types[form], 3, x_dims);
        HypPlan__Call *call = pb_call(&builder, form % 2 ? "argmin" : "argmax", 1, &x,
                                      pb_output(&builder, "y", HYP_I64, 2, pb_consts(&builder, 2, y_dims)));
        pb_call_int(&builder, call, 1);
        pb_call_int(&builder, call, 0);
        pb_call_int(&builder, call, form / 2);
        check((dims_list){{0}}, exactly);
    }
}

/* ---- the k largest ------------------------------------------------------------------------------------------- */

static void check_topk(hyp_dtype dtype, const int64_t *x_dims, int64_t k, bool largest)
{
    const int64_t y_dims[] = {x_dims[0], k, x_dims[2]};
    pb_init(&builder);
    const uint32_t x = difficult_weight(dtype, 3, x_dims), *dims = pb_consts(&builder, 3, y_dims);
    HypPlan__Call *call = pb_call(&builder, "topk", 1, &x, pb_output(&builder, "values", dtype, 3, dims));
    pb_call_output(call, pb_output(&builder, "places", HYP_I64, 3, dims));
    pb_call_int(&builder, call, 1);
    pb_call_ints(&builder, call, 1, &k);
    pb_call_int(&builder, call, largest);
    check((dims_list){{0}}, exactly);
}

/* None, one, some, all but one, all. Integers are few, so that most of them are alike, and so are bytes of any kind. */
static void first_elements_equal_reference(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < SHAPES; s++) {
            const int64_t size = shapes[s][1], counts[] = {0, 1, size / 7 + 1, size - 1, size, 50};
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                if (counts[i] <= size && counts[i] <= 2000 &&
                    (s + t + i) % (shapes[s][0] * shapes[s][2] > 100 ? 11 : 3) == 0)
                    check_topk(types[t], shapes[s], counts[i], (t + s + i) % 2);
        }
    /* As much as a block sorts in its shared memory, and more, once and several times. */
    check_topk(HYP_BF16, (int64_t[]){2, 4100, 2}, 4096, false);
    check_topk(HYP_F64, (int64_t[]){2, 2051, 1}, 2048, true);
    check_topk(HYP_F32, (int64_t[]){1, 5001, 1}, 4097, true);
    check_topk(HYP_I64, (int64_t[]){1, 5001, 1}, 4099, false);
    check_topk(HYP_F16, (int64_t[]){3, 9001, 1}, 9001, false);
}

/* ---- running sums -------------------------------------------------------------------------------------------- */

static void check_scan(const char *kernel, hyp_dtype dtype, const int64_t *x_dims, bool exclusive, bool reverse)
{
    const bool is_sum = strcmp(kernel, "cumsum") == 0;
    pb_init(&builder);
    uint32_t *dims = pb_consts(&builder, 3, x_dims);
    const uint32_t x = pb_input(&builder, "x", dtype, 3, dims);
    HypPlan__Call *call = pb_call(&builder, kernel, 1, &x, pb_output(&builder, "y", dtype, 3, dims));
    pb_call_int(&builder, call, 1);
    pb_call_int(&builder, call, exclusive);
    pb_call_int(&builder, call, reverse);
    /* The sums of both are in double, and rounded once. */
    check((dims_list){{x_dims[0], x_dims[1], x_dims[2]}}, is_sum ? tolerance_of(dtype, 1) : tolerance_of(dtype, 4));
}

static void running_sums_and_products_equal_reference(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < SHAPES; s++)
            for (int form = 0; form < 4; form++)
                if (t == 0 || (t + s + (size_t)form) % 5 == 0)
                    check_scan((s + (size_t)form) % 4 ? "cumsum" : "cumprod", types[t], shapes[s], form % 2, form / 2);
    check_scan("cumsum", HYP_F32, (int64_t[]){0, 5, 3}, false, false);
    check_scan("cumsum", HYP_F32, (int64_t[]){5, 0, 3}, true, false);
}

/* What is infinite, or NaN, is not in the sums before it. */
static void running_sums_of_what_is_not_finite(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++)
        for (size_t s = 0; s < SHAPES; s++) {
            pb_init(&builder);
            float *values = calloc((size_t)(shapes[s][0] * shapes[s][1] * shapes[s][2]) + 1, sizeof *values);
            assert_non_null(values);
            const int64_t middle = shapes[s][1] / 2 * shapes[s][2];
            values[middle] = form < 2 ? INFINITY : NAN;
            const uint32_t x = pb_weight(&builder, HYP_F32, 3, shapes[s], values);
            free(values);
            HypPlan__Call *call = pb_call(&builder, "cumsum", 1, &x,
                                          pb_output(&builder, "y", HYP_F32, 3, pb_consts(&builder, 3, shapes[s])));
            pb_call_int(&builder, call, 1);
            pb_call_int(&builder, call, form % 2);
            pb_call_int(&builder, call, s % 2);
            check((dims_list){{0}}, exactly);
        }
}

/* ---- what is not zero ---------------------------------------------------------------------------------------- */

/* A NaN is, and a zero of either sign is not. Room for all that there could be, and for one more. */
static void places_that_are_not_zero_equal_reference(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < SHAPES; s++) {
            if (t > 0 && (s + t) % 4) continue;
            const int64_t count = shapes[s][0] * shapes[s][1] * shapes[s][2], room = count + (int64_t)(s % 2),
                          dims[] = {3, room};
            pb_init(&builder);
            const uint32_t x = difficult_weight(types[t], 3, shapes[s]);
            HypPlan__Call *call = pb_call(&builder, "nonzero", 1, &x,
                                          pb_output(&builder, "at", HYP_I64, 2, pb_consts(&builder, 2, dims)));
            pb_call_output(call, pb_output(&builder, "count", HYP_I64, 0, NULL));
            pb_call_ints(&builder, call, 1, &room);
            check((dims_list){{0}}, exactly);
        }
    const int64_t none[] = {2, 0, 3}, room = 4, dims[] = {3, 4};
    pb_init(&builder);
    const uint32_t x = pb_input(&builder, "x", HYP_F32, 3, pb_consts(&builder, 3, none));
    HypPlan__Call *call =
        pb_call(&builder, "nonzero", 1, &x, pb_output(&builder, "at", HYP_I64, 2, pb_consts(&builder, 2, dims)));
    pb_call_output(call, pb_output(&builder, "count", HYP_I64, 0, NULL));
    pb_call_ints(&builder, call, 1, &room);
    check((dims_list){{2, 0, 3}}, exactly);
}

/* ---- products ------------------------------------------------------------------------------------------------ */

static void products_over_axes_equal_reference(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++)
        for (int set = 0; set < 8; set++) {
            const int64_t dims[] = {3, t % 2 ? 40 : 5, t % 3 == 2 ? 0 : 2};
            pb_init(&builder);
            pb_over_axes(&builder, "reduce-prod", types[t], dims, set, t % 2);
            check((dims_list){{3, dims[1], dims[2]}}, (tolerance){0, 0});
        }
}

/* ---- by position --------------------------------------------------------------------------------------------- */

/* Indices of -2 .. 2, or floats between -1 and 1, which are cut to 0, in depths that have all of them and that do not.
 */
static void one_hot_rows_equal_reference(void **state)
{
    (void)state;
    static const int64_t depths[] = {0, 1, 2, 7, 300};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (int64_t axis = -1; axis < 2; axis++) {
                const int64_t depth = depths[d], two = 2;
                const int64_t dims[] = {axis ? 5 : depth, axis == 1 ? depth : axis ? 6 : 5, axis == -1 ? depth : 6};
                pb_init(&builder);
                const uint32_t in[] = {
                    pb_input(&builder, "at", types[(t + d) % TYPES], 2, pb_consts(&builder, 2, (int64_t[]){5, 6})),
                    pb_input(&builder, "values", types[t], 1, pb_consts(&builder, 1, &two))};
                HypPlan__Call *call = pb_call(&builder, "one-hot", 2, in,
                                              pb_output(&builder, "y", types[t], 3, pb_consts(&builder, 3, dims)));
                pb_call_int(&builder, call, axis);
                pb_call_ints(&builder, call, 1, &depth);
                check((dims_list){{5, 6}, {2}}, exactly);
            }
}

/* Diagonals within the matrices, and so far outside that a sum would overflow. */
static void triangles_equal_reference(void **state)
{
    (void)state;
    static const int64_t diagonals[] = {0, 1, -2, 4, -9, 40, INT64_MAX, INT64_MIN};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t d = 0; d <= sizeof diagonals / sizeof *diagonals; d++) {
            const bool given = d > 0;
            const int64_t dims[] = {3, t % 2 ? 5 : 40, t % 3 ? 7 : 33};
            pb_init(&builder);
            uint32_t *all = pb_consts(&builder, 3, dims), in[] = {pb_input(&builder, "x", types[t], 3, all), 0};
            if (given) in[1] = pb_weight(&builder, HYP_I64, 0, NULL, &diagonals[d - 1]);
            HypPlan__Call *call =
                pb_call(&builder, "trilu", given ? 2 : 1, in, pb_output(&builder, "y", types[t], 3, all));
            pb_call_int(&builder, call, (t + d) % 2);
            check((dims_list){{dims[0], dims[1], dims[2]}}, exactly);
        }
}

/* Caches of several rows written from places of their own on, around the end, as a whole, and not at all. */
static void caches_that_are_written_into_equal_reference(void **state)
{
    (void)state;
    static const int64_t first[] = {0, 4, 2}, around[] = {6, 0, 3};
    for (size_t t = 0; t < TYPES; t++)
        for (int form = 0; form < 8; form++) {
            const bool circular = form & 1, given = form & 2;
            const int64_t length = form & 4 ? (given && !circular ? 3 : 7)
                                   : t % 2  ? 3
                                            : 0,
                          inner = t % 3 ? 5 : 1, three = 3;
            const int64_t x_dims[] = {3, 2, 7, inner}, u_dims[] = {3, 2, length, inner};
            pb_init(&builder);
            uint32_t *all = pb_consts(&builder, 4, x_dims);
            uint32_t in[] = {pb_input(&builder, "x", types[t], 4, all),
                             pb_input(&builder, "u", types[t], 4, pb_consts(&builder, 4, u_dims)), 0};
            if (given) in[2] = pb_weight(&builder, HYP_I64, 1, &three, circular ? around : first);
            HypPlan__Call *call =
                pb_call(&builder, "tensor-scatter", given ? 3 : 2, in, pb_output(&builder, "y", types[t], 4, all));
            pb_call_int(&builder, call, form % 3 ? 2 : -2);
            pb_call_symbol(&builder, call, circular ? "circular" : "linear");
            check((dims_list){{3, 2, 7, inner}, {3, 2, length, inner}}, exactly);
        }
}

/* As many channels around as there are, more, and an even number, of which one more is behind. */
static void neighbouring_channels_equal_reference(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 5, 4, 50};
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int64_t dims[] = {2, 7, t % 2 ? 3 : 41};
            pb_init(&builder);
            uint32_t *all = pb_consts(&builder, 3, dims);
            const uint32_t x = pb_input(&builder, "x", types[t], 3, all);
            HypPlan__Call *call = pb_call(&builder, "lrn", 1, &x, pb_output(&builder, "y", types[t], 3, all));
            pb_call_int(&builder, call, sizes[i]);
            pb_call_float(&builder, call, 0.3);
            pb_call_float(&builder, call, 0.75);
            pb_call_float(&builder, call, 1.5);
            check((dims_list){{2, 7, dims[2]}}, tolerance_of(types[t], 2));
        }
}

static void sequences_in_reverse_equal_reference(void **state)
{
    (void)state;
    static const int64_t lengths[] = {0, 6, 3, 1, 5, 2};
    for (size_t t = 0; t < TYPES; t++)
        for (int turned = 0; turned < 2; turned++) {
            const int64_t dims[] = {6, 6, t % 2 ? 5 : 1};
            const int64_t six = 6;
            pb_init(&builder);
            uint32_t *all = pb_consts(&builder, 3, dims);
            const uint32_t in[] = {pb_input(&builder, "x", types[t], 3, all),
                                   pb_weight(&builder, HYP_I64, 1, &six, lengths)};
            HypPlan__Call *call =
                pb_call(&builder, "reverse-sequence", 2, in, pb_output(&builder, "y", types[t], 3, all));
            pb_call_int(&builder, call, turned);
            pb_call_int(&builder, call, !turned);
            check((dims_list){{6, 6, dims[2]}}, exactly);
        }
}

/* Runs the plan that is in `builder`, whose input is x[2, 4] of ones, and wants it to tell of this index. */
static void check_fails(size_t outputs, hyp_tensor *output, const char *index)
{
    float values[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    hyp_diag diag = {0};
    hyp_context *context = NULL;
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    const hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {2, 4}, .data = values, .bytes = sizeof values};
    assert_int_equal(hyp_context_run(context, &x, 1, output, outputs, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, index));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

/* A length that is out of range is told of, as an index is, and so are more places than there is room for, and a write
 * beyond the end of a cache. */
static void what_is_out_of_range_is_an_error(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 4}, two = 2, wrong[] = {1, 5}, room = 7, places[] = {2, 7}, update[] = {2, 1},
                         at[] = {3, 4};
    float values[8];
    int64_t found[14], count;
    hyp_tensor y = {.dtype = HYP_F32, .rank = 2, .dims = {2, 4}, .data = values, .bytes = sizeof values};
    hyp_tensor listed[] = {{.dtype = HYP_I64, .rank = 2, .dims = {2, 7}, .data = found, .bytes = sizeof found},
                           {.dtype = HYP_I64, .data = &count, .bytes = sizeof count}};
    pb_init(&builder);
    const uint32_t in[] = {pb_input(&builder, "x", HYP_F32, 2, pb_consts(&builder, 2, dims)),
                           pb_weight(&builder, HYP_I64, 1, &two, wrong)};
    HypPlan__Call *call = pb_call(&builder, "reverse-sequence", 2, in,
                                  pb_output(&builder, "y", HYP_F32, 2, pb_consts(&builder, 2, dims)));
    pb_call_int(&builder, call, 0);
    pb_call_int(&builder, call, 1);
    check_fails(1, &y, "index 5 is out of range");

    pb_init(&builder);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, pb_consts(&builder, 2, dims));
    call = pb_call(&builder, "nonzero", 1, &x, pb_output(&builder, "at", HYP_I64, 2, pb_consts(&builder, 2, places)));
    pb_call_output(call, pb_output(&builder, "count", HYP_I64, 0, NULL));
    pb_call_ints(&builder, call, 1, &room);
    check_fails(2, listed, "index 8 is out of range");

    pb_init(&builder);
    const uint32_t all[] = {pb_input(&builder, "x", HYP_F32, 2, pb_consts(&builder, 2, dims)),
                            pb_weight(&builder, HYP_F32, 2, update, (const float[]){1, 2}),
                            pb_weight(&builder, HYP_I64, 1, &two, at)};
    call =
        pb_call(&builder, "tensor-scatter", 3, all, pb_output(&builder, "y", HYP_F32, 2, pb_consts(&builder, 2, dims)));
    pb_call_int(&builder, call, 1);
    pb_call_symbol(&builder, call, "linear");
    check_fails(1, &y, "index 4 is out of range");
}

/* Threads for so many lanes are more than there are numbers for. The tensors, which no memory has, are the caller's. */
static void lanes_of_any_number_are_prepared(void **state)
{
    (void)state;
    static const int64_t lanes = INT64_C(1) << 59, x_dims[] = {INT64_C(1) << 59, 1};
    hyp_context *context = NULL;
    hyp_diag diag = {0};
    pb_init(&builder);
    const uint32_t in = pb_input(&builder, "x", HYP_U8, 2, pb_consts(&builder, 2, x_dims));
    HypPlan__Call *call =
        pb_call(&builder, "argmax", 1, &in, pb_output(&builder, "y", HYP_I64, 1, pb_consts(&builder, 1, &lanes)));
    pb_call_int(&builder, call, 1);
    pb_call_int(&builder, call, 0);
    pb_call_int(&builder, call, 0);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    const hyp_tensor x = {.dtype = HYP_U8, .rank = 2, .dims = {x_dims[0], x_dims[1]}};
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    assert_int_equal(hyp_context_reserve(context, &x, 1, &diag), HYP_OK);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_of_any_number_are_prepared),
        cmocka_unit_test(places_of_extremes_equal_reference),
        cmocka_unit_test(places_in_very_many_lanes_equal_reference),
        cmocka_unit_test(first_elements_equal_reference),
        cmocka_unit_test(running_sums_and_products_equal_reference),
        cmocka_unit_test(running_sums_of_what_is_not_finite),
        cmocka_unit_test(one_hot_rows_equal_reference),
        cmocka_unit_test(triangles_equal_reference),
        cmocka_unit_test(sequences_in_reverse_equal_reference),
        cmocka_unit_test(places_that_are_not_zero_equal_reference),
        cmocka_unit_test(products_over_axes_equal_reference),
        cmocka_unit_test(caches_that_are_written_into_equal_reference),
        cmocka_unit_test(neighbouring_channels_equal_reference),
        cmocka_unit_test(what_is_out_of_range_is_an_error),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

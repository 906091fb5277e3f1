/* Reductions and scatters of the CUDA backend against the reference backend: every type, and all forms that their kernels tell
 * apart. Needs a GPU, or the emulator: see device_start. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */

/* Runs the plan that is in `builder`. */
static void check(dims_list dims, tolerance want) { check_plan(&dev, &builder, dims, want); }

/* ---- reductions ---------------------------------------------------------------------------------------------- */

/* x[dims] summed over the axes in the mask. */
static void check_reduce(hyp_dtype dtype, HypPlan__Reduce__Kind kind, size_t rank, const int64_t *dims, unsigned mask)
{
    enum { MOST = 5 };
    int64_t strides[MOST], sizes[MOST] = {0}, terms = 1, stride = 1;
    pb_init(&builder);
    for (size_t a = rank; a-- > 0; stride *= dims[a]) strides[a] = stride, sizes[a] = dims[a];
    uint32_t *all = pb_consts(&builder, rank, dims), *steps = pb_consts(&builder, rank, strides);
    uint32_t *kept = pb_consts(&builder, rank, dims), *kept_steps = pb_consts(&builder, rank, dims);
    uint32_t *gone = pb_consts(&builder, rank, dims), *gone_steps = pb_consts(&builder, rank, dims);
    size_t keep = 0, drop = 0;
    for (size_t a = 0; a < rank; a++) {
        if (mask >> a & 1)
            gone[drop] = all[a], gone_steps[drop++] = steps[a], terms *= dims[a];
        else
            kept[keep] = all[a], kept_steps[keep++] = steps[a];
    }
    uint32_t x = pb_input(&builder, "x", dtype, rank, all), y = pb_output(&builder, "y", dtype, keep, kept);
    HypPlan__Reduce *s = pb_reduce(&builder);
    s->kind = kind;
    s->x = x;
    s->y = y;
    s->n_kept = s->n_kept_strides = keep;
    s->kept = kept;
    s->kept_strides = kept_steps;
    s->n_reduced = s->n_reduced_strides = drop;
    s->reduced = gone;
    s->reduced_strides = gone_steps;
    check((dims_list){{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]}}, tolerance_of(dtype, terms + 1));
}

static void reductions_over_any_axes(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{4, 5, 6}, {3, 17, 41}, {1, 2, 1100}, {2, 0, 3}, {70, 3, 2}, {2, 70, 9}};
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I64, HYP_I32};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (unsigned mask = 0; mask < 8; mask++)
                check_reduce(types[t], mask % 2 ? HYP_PLAN__REDUCE__KIND__SUM : HYP_PLAN__REDUCE__KIND__MEAN, 3,
                             sizes[i], mask);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) /* few results of many terms, which are made in parts */
        check_reduce(types[t], t % 2 ? HYP_PLAN__REDUCE__KIND__SUM : HYP_PLAN__REDUCE__KIND__MEAN, 3, (int64_t[]){3, 8209, 2},
                     t % 3 ? 7 : 2);
}

/* Rows and columns that begin at multiples of 16 bytes and such that do not, whole ones and in parts; axes that do not merge. */
static void reductions_of_all_forms(void **state)
{
    (void)state;
    static const struct {
        int64_t dims[5];
        size_t rank;
        unsigned mask;
    } forms[] = {
        {{2050, 24}, 2, 1},          {{2050, 12}, 2, 1},      {{700, 257}, 2, 1},        {{9, 4096}, 2, 1},
        {{3001, 1}, 2, 1},           {{3001, 3}, 2, 1},       {{5, 300, 8}, 3, 2},       {{300, 5, 4}, 3, 2},
        {{40, 33, 7}, 3, 2},         {{2, 3, 520}, 3, 4},     {{5, 1027}, 2, 2},         {{1, 9001}, 2, 2},
        {{3, 70001}, 2, 2},          {{90, 1, 24}, 3, 4},     {{600, 5}, 2, 2},          {{4, 6, 8, 16}, 4, 10},
        {{6, 9, 8, 16}, 4, 9},       {{7, 3, 49}, 3, 5},      {{7, 3, 64}, 3, 5},        {{3, 4, 2, 5, 3}, 5, 21},
        {{30, 4, 20, 2, 16}, 5, 21}, {{3, 4, 5, 2, 8}, 5, 10}, {{1, 1}, 2, 3},           {{4, 0, 8}, 3, 2},
    };
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I64, HYP_I32};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            if (t >= 3 && (i + t) % 3) continue; /* that have one form each */
            check_reduce(types[t], (i + t) % 2 ? HYP_PLAN__REDUCE__KIND__SUM : HYP_PLAN__REDUCE__KIND__MEAN, forms[i].rank,
                         forms[i].dims, forms[i].mask);
        }
}

/* The largest and the smallest over all sets of axes of x[3, 40, 2], or of [3, 8209, 2], which are made in parts. */
static void extremes_equal_reference(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F16, HYP_BF16, HYP_F32, HYP_F64, HYP_I32, HYP_I64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int set = 0; set < 8; set++) {
            const int64_t dims[] = {3, set == 7 || (set == 2 && t % 2) ? 8209 : 40, 2};
            pb_init(&builder);
            pb_over_axes(&builder, set % 2 ? "reduce-max" : "reduce-min", types[t], dims, set, t % 2);
            check((dims_list){{3, dims[1], 2}}, (tolerance){0, 0});
        }
}

/* ---- scatters, and gathers along an axis ---------------------------------------------------------------------- */

/* x[outer, 5, inner] with updates at `tuples` places of its first `width` axes. */
static void build_scatter(hyp_dtype dtype, hyp_dtype index, const char *reduction, int64_t outer, int64_t inner,
                          int64_t tuples, int64_t width)
{
    pb_init(&builder);
    const int64_t x_dims[] = {outer, 5, inner}, rows[] = {tuples, width};
    const int64_t updates[] = {tuples, width > 1 ? inner : 5, inner};
    uint32_t *dims = pb_consts(&builder, 3, x_dims);
    uint32_t x = pb_input(&builder, "x", dtype, 3, dims), at = pb_input(&builder, "at", index, 2, pb_consts(&builder, 2, rows));
    uint32_t u = pb_input(&builder, "u", dtype, width > 1 ? 2 : 3, pb_consts(&builder, 3, updates));
    HypPlan__Call *call =
        pb_call(&builder, "scatter-nd", 3, (uint32_t[]){x, at, u}, pb_output(&builder, "y", dtype, 3, dims));
    pb_call_symbol(&builder, call, reduction);
}

/* Random indexes are -2 .. 2, so that many updates meet at one place: the last one, or their sum in the order of the list. */
static void scatter_equals_reference_for_every_type_and_reduction(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_U8, HYP_I32, HYP_U64, HYP_F16, HYP_BF16, HYP_F32, HYP_F64};
    static const char *const reductions[] = {"none", "add", "mul", "min", "max"};
    static const int64_t inners[] = {1, 3, 8, 300};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t r = 0; r < sizeof reductions / sizeof *reductions; r++)
            for (size_t i = 0; i < sizeof inners / sizeof *inners; i++) {
                int64_t inner = inners[i], width = 1 + (int64_t)(t + r + i) % 2;
                build_scatter(types[t], i % 2 ? HYP_I64 : HYP_I32, reductions[r], 4, inner, 17, width);
                if (width > 1)
                    check((dims_list){{4, 5, inner}, {17, 2}, {17, inner}}, (tolerance){0, 0});
                else
                    check((dims_list){{4, 5, inner}, {17, 1}, {17, 5, inner}}, (tolerance){0, 0});
            }
    build_scatter(HYP_F32, HYP_I64, "none", 4, 2, 0, 1); /* nothing to write */
    check((dims_list){{4, 5, 2}, {0, 1}, {0, 5, 2}}, (tolerance){0, 0});
}

/* So many updates that they are sorted, in one pass by places and in two; blocks have several tiles each where they are most. */
static void many_updates_meet_in_their_order(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_BF16, HYP_F16, HYP_U64, HYP_I32, HYP_F64, HYP_U8};
    static const char *const reductions[] = {"none", "add", "mul", "min", "max"};
    static const int64_t inners[] = {8, 1, 3}, tuples[] = {65, 300, 2000}, outers[] = {4, 300};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t r = 0; r < sizeof reductions / sizeof *reductions; r++) {
            int64_t inner = inners[(t + 2 * r) % 3], count = tuples[(t + r) % 3], outer = outers[(t / 2 + r) % 2];
            int64_t width = 1 + (int64_t)(t + r) % 2;
            build_scatter(types[t], r % 2 ? HYP_I64 : HYP_I32, reductions[r], outer, inner, count, width);
            if (width > 1)
                check((dims_list){{outer, 5, inner}, {count, 2}, {count, inner}}, (tolerance){0, 0});
            else
                check((dims_list){{outer, 5, inner}, {count, 1}, {count, 5, inner}}, (tolerance){0, 0});
        }
}

/* Along each axis of x[4, 5, inner], at places that the indices have fewer of on the other axes: -2 .. 2. */
static void gather_and_scatter_along_an_axis_equal_reference(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_U8, HYP_I32, HYP_U64, HYP_F16, HYP_BF16, HYP_F32, HYP_F64};
    static const char *const reductions[] = {NULL, "none", "add", "mul", "min", "max"}; /* NULL: a gather */
    static const int64_t inners[] = {1, 3, 300};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t r = 0; r < sizeof reductions / sizeof *reductions; r++) {
            int64_t inner = inners[(t + r) % 3], axis = (int64_t)(t + 2 * r) % 3;
            int64_t x_dims[] = {4, 5, inner + 2}, at_dims[] = {3, 5, inner};
            at_dims[axis] = t % 3 == 0 && inner < 300 ? 130 : 17; /* 130: sorted, too */
            pb_init(&builder);
            uint32_t *shape = pb_consts(&builder, 3, x_dims), *other = pb_consts(&builder, 3, at_dims), in[3];
            in[0] = pb_input(&builder, "x", types[t], 3, shape);
            in[1] = pb_input(&builder, "at", r % 2 ? HYP_I64 : HYP_I32, 3, other);
            if (reductions[r]) in[2] = pb_input(&builder, "u", types[t], 3, other);
            HypPlan__Call *call =
                pb_call(&builder, reductions[r] ? "scatter-elements" : "gather-elements", reductions[r] ? 3 : 2, in,
                        pb_output(&builder, "y", types[t], 3, reductions[r] ? shape : other));
            pb_call_int(&builder, call, axis - (t % 2 ? 3 : 0));
            if (reductions[r]) pb_call_symbol(&builder, call, reductions[r]);
            check((dims_list){{x_dims[0], x_dims[1], x_dims[2]},
                              {at_dims[0], at_dims[1], at_dims[2]},
                              {at_dims[0], at_dims[1], at_dims[2]}},
                  (tolerance){0, 0});
        }
}

/* Rows of x[3, 4, 5, inner] by tuples of 1 to 3 indices, -2 .. 2, of all of x or, with one or two batch axes, of parts of it. */
static void gather_by_tuples_equals_reference(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_U8, HYP_I32, HYP_U64, HYP_F16, HYP_BF16, HYP_F32, HYP_F64};
    static const int64_t inners[] = {1, 3, 8, 300};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int64_t batch = 0; batch < 3; batch++)
            for (int64_t width = 0; width <= 3 - batch; width++) {
                const int64_t inner = inners[(t + (size_t)(batch + width)) % 4], x_dims[] = {3, 4, 5, inner};
                int64_t at_dims[4], y_dims[8];
                int at_rank = 0, y_rank = 0;
                for (; at_rank < batch; at_rank++) at_dims[at_rank] = x_dims[at_rank];
                at_dims[at_rank++] = t % 2 ? 7 : 1;
                at_dims[at_rank++] = width;
                for (; y_rank < at_rank - 1; y_rank++) y_dims[y_rank] = at_dims[y_rank];
                for (int64_t a = batch + width; a < 4; a++) y_dims[y_rank++] = x_dims[a];
                pb_init(&builder);
                const uint32_t in[] = {
                    pb_input(&builder, "x", types[t], 4, pb_consts(&builder, 4, x_dims)),
                    pb_input(&builder, "at", t % 2 ? HYP_I64 : HYP_I32, (size_t)at_rank, pb_consts(&builder, (size_t)at_rank, at_dims))};
                HypPlan__Call *call =
                    pb_call(&builder, "gather-nd", 2, in,
                            pb_output(&builder, "y", types[t], (size_t)y_rank, pb_consts(&builder, (size_t)y_rank, y_dims)));
                pb_call_int(&builder, call, batch);
                const int64_t two = at_rank > 2 ? at_dims[2] : 0, three = at_rank > 3 ? at_dims[3] : 0;
                check((dims_list){{3, 4, 5, inner}, {at_dims[0], at_dims[1], two, three}}, (tolerance){0, 0});
            }
}

/* ---- statistics ---------------------------------------------------------------------------------------------- */

/* Rows and columns, short and long, whole pieces of eight and not. */
static void softmax_statistics_equal_reference(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 8, 27, 64, 1024, 1032, 1043, 4104};
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
            const bool last = i % 2;
            const int64_t rows = 3, size = sizes[i / 2], dims[] = {last ? rows : size, last ? size : rows};
            const int64_t left[] = {last ? rows : 1, last ? 1 : rows};
            const hyp_dtype wide = types[t] == HYP_F64 ? HYP_F64 : HYP_F32;
            pb_init(&builder);
            const uint32_t x = pb_input(&builder, "x", types[t], 2, pb_consts(&builder, 2, dims));
            HypPlan__Call *call = pb_call(&builder, "softmax-stats", 1, &x,
                                          pb_output(&builder, "top", wide, 2, pb_consts(&builder, 2, left)));
            pb_call_output(call, pb_output(&builder, "log", wide, 2, pb_consts(&builder, 2, left)));
            pb_call_int(&builder, call, last);
            check((dims_list){{dims[0], dims[1]}}, tolerance_of(wide, size + 1));
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_over_any_axes),
        cmocka_unit_test(reductions_of_all_forms),
        cmocka_unit_test(extremes_equal_reference),
        cmocka_unit_test(scatter_equals_reference_for_every_type_and_reduction),
        cmocka_unit_test(many_updates_meet_in_their_order),
        cmocka_unit_test(gather_and_scatter_along_an_axis_equal_reference),
        cmocka_unit_test(gather_by_tuples_equals_reference),
        cmocka_unit_test(softmax_statistics_equal_reference),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

/* Copies, gathers and fills of the CUDA backend against the reference backend. Needs a GPU, or the emulator: see
 * device_start. */
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

/* y = x permuted: axis a of y is axis order[a] of x. */
static void check_permute(hyp_dtype dtype, size_t rank, const int64_t *x_dims, const int *order)
{
    pb_init(&builder);
    int64_t strides[4], y_dims[4], x_steps[4], y_steps[4], in[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
    int64_t step = 1;
    for (size_t a = rank; a-- > 0;) strides[a] = step, step *= x_dims[a];
    for (size_t a = 0; a < rank; a++)
        y_dims[a] = x_dims[order[a]], x_steps[a] = strides[order[a]], in[0][a] = x_dims[a];
    step = 1;
    for (size_t a = rank; a-- > 0;) y_steps[a] = step, step *= y_dims[a];
    uint32_t x = pb_input(&builder, "x", dtype, rank, pb_consts(&builder, rank, x_dims));
    uint32_t *extents = pb_consts(&builder, rank, y_dims), y = pb_output(&builder, "y", dtype, rank, extents);
    HypPlan__Copy *s = pb_copy(&builder);
    s->x = x;
    s->y = y;
    s->n_extents = s->n_x_strides = s->n_y_strides = rank;
    s->extents = extents;
    s->x_strides = pb_consts(&builder, rank, x_steps);
    s->y_strides = pb_consts(&builder, rank, y_steps);
    s->x_offset = s->y_offset = pb_const(&builder, 0);
    check((const int64_t(*)[HYP_MAX_RANK])in, (tolerance){0, 0});
}

static void copies_permute_axes_of_every_type(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_U8, HYP_F16, HYP_F32, HYP_F64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        check_permute(types[t], 2, (int64_t[]){33, 70}, (int[]){1, 0});
        check_permute(types[t], 2, (int64_t[]){64, 128}, (int[]){1, 0});
        check_permute(types[t], 2, (int64_t[]){5, 3}, (int[]){1, 0});
        check_permute(types[t], 3, (int64_t[]){3, 9, 35}, (int[]){0, 2, 1});
        check_permute(types[t], 3, (int64_t[]){9, 3, 35}, (int[]){1, 0, 2});
        check_permute(types[t], 3, (int64_t[]){12, 3, 9}, (int[]){2, 1, 0});
        check_permute(types[t], 4, (int64_t[]){2, 5, 3, 16}, (int[]){0, 2, 1, 3});
        check_permute(types[t], 4, (int64_t[]){10, 2, 3, 11}, (int[]){3, 1, 0, 2});
        check_permute(types[t], 2, (int64_t[]){4, 8}, (int[]){0, 1});
        check_permute(types[t], 3, (int64_t[]){3, 300, 9}, (int[]){0, 2, 1}); /* filters: narrow, in tiles of their width */
        check_permute(types[t], 3, (int64_t[]){2, 9, 513}, (int[]){0, 2, 1});
        check_permute(types[t], 3, (int64_t[]){2, 31, 70}, (int[]){0, 2, 1});
        check_permute(types[t], 3, (int64_t[]){2, 33, 30}, (int[]){0, 2, 1});
        check_permute(types[t], 2, (int64_t[]){2049, 8}, (int[]){1, 0});
    }
}

/* y = concat(x reversed, every second column of x, x), by three copies into parts of y. */
static void copies_slice_reverse_and_concatenate(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_BOOL, HYP_BF16, HYP_I32, HYP_I64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int64_t n = 4; n <= 32; n += 14) {
            pb_init(&builder);
            const int64_t rows = 3, width = n + n / 2 + n;
            const int64_t x_dims[] = {rows, n}, y_dims[] = {rows, width};
            const int64_t parts[][6] = {/* columns, x strides, x offset, y offset */
                                        {n, n, -1, n - 1, 0},
                                        {n / 2, n, 2, 0, n},
                                        {n, n, 1, 0, n + n / 2}};
            uint32_t x = pb_input(&builder, "x", types[t], 2, pb_consts(&builder, 2, x_dims));
            uint32_t y = pb_output(&builder, "y", types[t], 2, pb_consts(&builder, 2, y_dims));
            for (int i = 0; i < 3; i++) {
                const int64_t extents[] = {rows, parts[i][0]}, y_steps[] = {width, 1};
                HypPlan__Copy *s = pb_copy(&builder);
                s->x = x;
                s->y = y;
                s->n_extents = s->n_x_strides = s->n_y_strides = 2;
                s->extents = pb_consts(&builder, 2, extents);
                s->x_strides = pb_consts(&builder, 2, &parts[i][1]);
                s->y_strides = pb_consts(&builder, 2, y_steps);
                s->x_offset = pb_const(&builder, parts[i][3]);
                s->y_offset = pb_const(&builder, parts[i][4]);
            }
            check((dims_list){{rows, n}}, (tolerance){0, 0});
        }
}

/* y holds x in 19 pieces of 1, 2, 3, ... elements, the last one first; a piece in the middle is read backwards. */
static void copies_of_many_parts_build_one_tensor(void **state)
{
    (void)state;
    enum { PARTS = 19, TOTAL = PARTS * (PARTS + 1) / 2, BACKWARDS = 11 };
    const int64_t all = TOTAL, one = 1, minus = -1;
    pb_init(&builder);
    uint32_t x = pb_input(&builder, "x", HYP_F16, 1, pb_consts(&builder, 1, &all));
    uint32_t y = pb_output(&builder, "y", HYP_F16, 1, pb_consts(&builder, 1, &all));
    int64_t at = 0;
    for (int64_t n = 1; n <= PARTS; at += n++) {
        HypPlan__Copy *s = pb_copy(&builder);
        s->x = x;
        s->y = y;
        s->n_extents = s->n_x_strides = s->n_y_strides = 1;
        s->extents = pb_consts(&builder, 1, &n);
        s->x_strides = pb_consts(&builder, 1, n == BACKWARDS ? &minus : &one);
        s->y_strides = pb_consts(&builder, 1, &one);
        s->x_offset = pb_const(&builder, n == BACKWARDS ? at + n - 1 : at);
        s->y_offset = pb_const(&builder, TOTAL - at - n);
    }
    check((dims_list){{TOTAL}}, (tolerance){0, 0});
}

static void add_rows(uint32_t x, uint32_t y, int64_t rows, int64_t columns, int64_t x_first, int64_t y_first,
                     int64_t y_step)
{
    HypPlan__Copy *s = pb_copy(&builder);
    s->x = x;
    s->y = y;
    s->n_extents = s->n_x_strides = s->n_y_strides = 2;
    s->extents = pb_consts(&builder, 2, (int64_t[]){rows, columns});
    s->x_strides = pb_consts(&builder, 2, (int64_t[]){columns, 1});
    s->y_strides = pb_consts(&builder, 2, (int64_t[]){y_step, 1});
    s->x_offset = pb_const(&builder, x_first);
    s->y_offset = pb_const(&builder, y_first);
}

/* As a decoder does with its past: layer after layer joins rows of an input and rows that the run made, in two outputs;
 * of a third, which is the same input again, a softmax is taken. Copies of the input alone may run beside all else. */
static void copies_from_inputs_run_beside_the_other_steps(void **state)
{
    (void)state;
    enum { LAYERS = 14, HEADS = 3, PAST = 40, WIDTH = 16, NOW = HEADS * WIDTH, OLD = HEADS * PAST * WIDTH };
    const int64_t past = LAYERS * OLD, now = NOW, whole = past + LAYERS * NOW, wide = (PAST + 1) * WIDTH, old = OLD;
    pb_init(&builder);
    uint32_t all = pb_input(&builder, "past", HYP_BF16, 1, pb_consts(&builder, 1, &past));
    uint32_t x = pb_input(&builder, "x", HYP_BF16, 1, pb_consts(&builder, 1, &now));
    uint32_t keys = pb_output(&builder, "keys", HYP_BF16, 1, pb_consts(&builder, 1, &whole));
    uint32_t values = pb_output(&builder, "values", HYP_BF16, 1, pb_consts(&builder, 1, &whole));
    uint32_t same = pb_output(&builder, "same", HYP_BF16, 1, pb_consts(&builder, 1, &old));
    uint32_t soft = pb_output(&builder, "soft", HYP_BF16, 1, pb_consts(&builder, 1, &old));
    for (int l = 0; l < LAYERS; l++) {
        uint32_t made = pb_scratch(&builder, HYP_BF16, (uint32_t)l % 2, 1, pb_consts(&builder, 1, &now));
        HypPlan__Softmax *s = pb_softmax(&builder);
        s->x = x;
        s->y = made;
        s->outer = pb_const(&builder, HEADS);
        s->axis = pb_const(&builder, WIDTH);
        s->inner = pb_const(&builder, 1);
        for (int i = 0; i < 2; i++) {
            uint32_t y = i ? values : keys;
            add_rows(all, y, HEADS, PAST * WIDTH, l * OLD, l * HEADS * wide, wide);
            add_rows(made, y, HEADS, WIDTH, 0, l * HEADS * wide + PAST * WIDTH, wide);
        }
        x = made;
    }
    add_rows(all, same, HEADS, PAST * WIDTH, OLD, 0, PAST * WIDTH);
    HypPlan__Softmax *s = pb_softmax(&builder);
    s->x = same;
    s->y = soft;
    s->outer = pb_const(&builder, HEADS * PAST);
    s->axis = pb_const(&builder, WIDTH);
    s->inner = pb_const(&builder, 1);
    check((dims_list){{past}, {NOW}}, tolerance_of(HYP_BF16, 4));
}

static void build_gather(hyp_dtype dtype, hyp_dtype index, int64_t outer, int64_t axis, int64_t inner, int64_t count)
{
    pb_init(&builder);
    const int64_t x_dims[] = {outer, axis, inner}, y_dims[] = {outer, count, inner};
    uint32_t *in = pb_consts(&builder, 3, x_dims), *out = pb_consts(&builder, 3, y_dims);
    uint32_t x = pb_input(&builder, "x", dtype, 3, in), at = pb_input(&builder, "at", index, 1, &out[1]);
    HypPlan__Gather *s = pb_gather(&builder);
    s->x = x;
    s->indices = at;
    s->y = pb_output(&builder, "y", dtype, 3, out);
    s->outer = in[0];
    s->axis = in[1];
    s->inner = in[2];
    s->count = out[1];
}

static void gather_takes_indexes_from_both_ends(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_U8, HYP_F16, HYP_F32, HYP_F64};
    static const int64_t inners[] = {1, 3, 8};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof inners / sizeof *inners; i++)
            for (int wide = 0; wide < 2; wide++) {
                build_gather(types[t], wide ? HYP_I64 : HYP_I32, 4, 5, inners[i], 17); /* random indexes are -2 .. 2 */
                check((dims_list){{4, 5, inners[i]}, {17}}, (tolerance){0, 0});
            }
}

static void gather_reports_an_index_out_of_range(void **state)
{
    (void)state;
    build_gather(HYP_F32, HYP_I64, 1, 4, 2, 3);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[6];
    int64_t at[3] = {0, 9, -4};
    hyp_tensor in[] = {{.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 3, .dims = {1, 4, 2}},
                       {.data = at, .bytes = sizeof at, .dtype = HYP_I64, .rank = 1, .dims = {3}}};
    hyp_tensor out = {.data = y, .bytes = sizeof y, .dtype = HYP_F32};
    assert_int_equal(hyp_context_run(context, in, 2, &out, 1, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "index 9"));
    at[1] = 1; /* the context works on */
    assert_int_equal(hyp_context_run(context, in, 2, &out, 1, &diag), HYP_OK);
    assert_true(y[0] == 0 && y[2] == 2 && y[4] == 0);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void fill_writes_shapes(void **state)
{
    (void)state;
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), values[40];
    const int64_t count = 40;
    uint32_t x = pb_input(&builder, "x", HYP_F32, 1, &batch);
    uint32_t y = pb_output(&builder, "y", HYP_I64, 1, pb_consts(&builder, 1, &count));
    (void)x;
    for (uint32_t i = 0; i < 40; i++) values[i] = i % 2 ? batch : pb_const(&builder, (int64_t)i * 1000000007);
    HypPlan__Fill *s = pb_fill(&builder);
    s->y = y;
    s->n_values = 40;
    s->values = values;
    check((dims_list){{77}}, (tolerance){0, 0});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_permute_axes_of_every_type),
        cmocka_unit_test(copies_slice_reverse_and_concatenate),
        cmocka_unit_test(copies_of_many_parts_build_one_tensor),
        cmocka_unit_test(copies_from_inputs_run_beside_the_other_steps),
        cmocka_unit_test(gather_takes_indexes_from_both_ends),
        cmocka_unit_test(gather_reports_an_index_out_of_range),
        cmocka_unit_test(fill_writes_shapes),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

/* A layer of one row and the elementwise step that reads it by parts, as one kernel (ops/linear_cell.c): what the reference
 * backend gives, whoever else reads the layer's result, and where that cannot be. Runs on a GPU or the emulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"
#include "runtime/cuda/emulator_tells.h"

static device dev;
static plan_builder builder; /* large */
static uint64_t seed = 1;

typedef struct net {
    hyp_dtype dtype;
    int64_t width, k;
    uint32_t parts;
    HypPlan__Act act;
    bool read_later; /* the layer's result, by a further step */
    bool in_place;   /* the cell is written over the row that the layer multiplies, and that it reads, too */
    bool behind;     /* the cell's result has the slot of that row, which it does not read */
    bool apart;      /* a step is between the two */
    bool twice;      /* another step reads what the cell has made, and the last part */
    bool shifted;    /* and not its own elements of that */
    bool over;       /* that step is written over a row of which the cell reads the first number for all of its elements */
} net;

static uint32_t window_of(uint32_t y, int64_t width, uint64_t first)
{
    uint32_t t = pb_view(&builder, y, 2, pb_consts(&builder, 2, (int64_t[]){1, width}));
    builder.tensors[t].window = true;
    builder.tensors[t].first = first;
    return t;
}

/* Part number i of y[1, parts * width] as a tensor. */
static uint32_t part_of(uint32_t y, int64_t width, uint32_t i)
{
    return i == 0 ? y : window_of(y, width, i * (uint64_t)width);
}

static HypPlan__Pointwise *add_step(int64_t size)
{
    return pb_pointwise(&builder, HYP_F32, 1, pb_consts(&builder, 1, &size));
}

static void add_operand(HypPlan__Pointwise *s, uint32_t tensor, int64_t stride)
{
    pb_operand(&builder, s, tensor, pb_consts(&builder, 1, &stride));
}

/* y = tanh(x) + x. */
static void add_curve(uint32_t x, uint32_t y, int64_t size, hyp_dtype to)
{
    HypPlan__Pointwise *s = add_step(size);
    add_operand(s, x, 1);
    uint32_t curve = pb_instr(&builder, s, OP(TANH), 0, 0, 0, 0, HYP_F32);
    pb_result(&builder, s, y, pb_instr(&builder, s, OP(ADD), curve, 0, 0, 0, to));
}

static void add_layer(const net *n, uint32_t x, uint32_t bias, HypPlan__Act act, uint32_t y)
{
    int64_t rows = n->parts * n->width;
    uint32_t w = random_weight(&builder, &seed, n->dtype, 2, (int64_t[]){rows, n->k});
    pb_layer(&builder, pb_linear(&builder, x, y, pb_const(&builder, 1)), rows, n->k, w, bias, act, PB_NONE);
}

/* c' = sigmoid(part 0) c + tanh(part 1) + ... + scale, and h' = tanh(c') + (what the layer multiplied). */
static void add_cell(const net *n, uint32_t y, uint32_t c, uint32_t x, uint32_t scale, uint32_t out_c, uint32_t out_h)
{
    HypPlan__Pointwise *s = add_step(n->width);
    for (uint32_t i = 0; i < n->parts; i++) add_operand(s, part_of(y, n->width, i), 1);
    add_operand(s, c, 1);
    add_operand(s, scale, 0);
    if (n->in_place) add_operand(s, x, 1);
    uint32_t r = pb_instr(&builder, s, OP(SIGMOID), 0, 0, 0, 0, HYP_F32);
    r = pb_instr(&builder, s, OP(MUL), r, n->parts, 0, 0, HYP_F32);
    for (uint32_t i = 1; i < n->parts; i++)
        r = pb_instr(&builder, s, OP(ADD), r, pb_instr(&builder, s, OP(TANH), i, 0, 0, 0, HYP_F32), 0, 0, HYP_F32);
    r = pb_instr(&builder, s, OP(ADD), r, n->parts + 1, 0, 0, HYP_F32);
    pb_result(&builder, s, out_c, r);
    r = pb_instr(&builder, s, OP(TANH), r, 0, 0, 0, HYP_F32);
    pb_result(&builder, s, out_h, n->in_place ? pb_instr(&builder, s, OP(ADD), r, n->parts + 2, 0, 0, HYP_F32) : r);
}

/* z = h tanh(c') + the last part. */
static void add_second(const net *n, uint32_t y, uint32_t c, uint32_t h, uint32_t z)
{
    const int64_t width = n->shifted ? n->width / 2 : n->width;
    HypPlan__Pointwise *s = add_step(width);
    add_operand(s, part_of(y, n->width, n->parts - 1), 1);
    add_operand(s, n->shifted ? part_of(c, width, 1) : c, 1);
    add_operand(s, h, 1);
    uint32_t r = pb_instr(&builder, s, OP(TANH), 1, 0, 0, 0, HYP_F32);
    r = pb_instr(&builder, s, OP(MUL), r, 2, 0, 0, HYP_F32);
    pb_result(&builder, s, z, pb_instr(&builder, s, OP(ADD), r, 0, 0, 0, HYP_F32));
}

/* Two products, the second of a row that a step makes, with the first as its bias, then the cell. */
static void build(const net *n)
{
    enum { ROW, FIRST, GATES, OVER }; /* slots */
    int64_t rows = n->parts * n->width;
    uint32_t *in = pb_consts(&builder, 2, (int64_t[]){1, n->k}), *out = pb_consts(&builder, 2, (int64_t[]){1, n->width});
    uint32_t *gates = pb_consts(&builder, 2, (int64_t[]){1, rows}), *flat = pb_consts(&builder, 1, &rows);
    uint32_t x = pb_input(&builder, "x", n->dtype, 2, in), c = pb_input(&builder, "c", n->dtype, 2, out);
    uint32_t c_out = pb_output(&builder, "c_out", n->dtype, 2, out), h_out = pb_output(&builder, "h_out", n->dtype, 2, out);
    uint32_t row = pb_scratch(&builder, n->dtype, ROW, 2, in), first = pb_scratch(&builder, n->dtype, FIRST, 2, gates);
    uint32_t y = pb_scratch(&builder, n->dtype, GATES, 2, gates);
    bool in_slot = n->in_place || n->behind;
    uint32_t h = in_slot ? pb_scratch(&builder, n->dtype, ROW, 2, out) : h_out;
    uint32_t before = n->over ? pb_scratch(&builder, n->dtype, OVER, 2, out) : c;
    if (n->over) add_curve(c, before, n->width, n->dtype);
    add_layer(n, x, random_weight(&builder, &seed, n->dtype, 1, &rows), ACT(NONE), first);
    add_curve(x, row, n->k, n->dtype);
    add_layer(n, row, pb_view(&builder, first, 1, flat), n->act, y);
    if (n->apart) add_curve(x, pb_output(&builder, "apart", n->dtype, 2, in), n->k, n->dtype);
    uint32_t quarter = pb_weight(&builder, HYP_F32, 1, (int64_t[]){1}, &(float){0.25f});
    add_cell(n, y, c, row, n->over ? window_of(before, 1, 0) : quarter, c_out, h);
    if (n->twice) {
        int64_t width = n->shifted ? n->width / 2 : n->width;
        uint32_t z = pb_output(&builder, "z", n->dtype, 2, pb_consts(&builder, 2, (int64_t[]){1, width}));
        uint32_t after = n->over ? pb_scratch(&builder, n->dtype, OVER, 2, out) : z;
        add_second(n, y, n->over ? before : c_out, h, after);
        if (n->over) add_curve(after, z, width, n->dtype);
    }
    if (in_slot) add_curve(h, h_out, n->width, n->dtype);
    if (n->read_later) add_curve(y, pb_output(&builder, "gates", n->dtype, 2, gates), rows, n->dtype);
}

static int generated; /* kernels of the last run that was checked, those of cells included */

/* How many cells a run had, on the emulator and where there is a compiler; -1: that is not known. */
static int check(const net *n)
{
    int (*count)(void) = NULL, (*all)(void) = NULL;
    const char *compiler = getenv("HYPATIA_NVRTC");
    bool known = emulator_function("emulator_cell_runs", &count) && !(compiler && strcmp(compiler, "none") == 0);
    known = known && emulator_function("emulator_sized_runs", &all);
    int before = known ? count() : 0, all_before = known ? all() : 0;
    pair p;
    dims_list dims = {{1, n->k}, {1, n->width}};
    tolerance want = tolerance_of(n->dtype == HYP_F64 ? HYP_F32 : n->dtype, n->k); /* steps compute in f32 */
    pb_init(&builder);
    build(n);
    pair_open(&dev, &builder, &p);
    pair_check_once(&p, dims, want);
    int cells = known ? count() - before : -1;
    generated = known ? all() - all_before : -1;
    if (n->k <= 64) pair_check(&dev, &p, dims, want);
    pair_close(&p);
    pb_dispose(&builder);
    return cells;
}

static void is_one_kernel(const net *n)
{
    int cells = check(n);
    if (cells >= 0) assert_int_equal(cells, 1);
}

static void is_two_kernels(const net *n)
{
    int cells = check(n);
    if (cells >= 0) assert_int_equal(cells, 0);
}

static void cells_are_done_with_their_layers_in_all_types(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    for (int i = 0; i < 3; i++) is_one_kernel(&(net){.dtype = types[i], .width = 40, .k = 64, .parts = 3, .act = ACT(RELU)});
}

static void parts_may_be_few_or_many_and_longer_than_what_fits_at_once(void **state)
{
    (void)state;
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 4, .k = 32, .parts = 2});
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 5, .k = 32, .parts = 1, .act = ACT(TANH)});
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 200, .k = 512, .parts = 4});
    is_one_kernel(&(net){.dtype = HYP_BF16, .width = 304, .k = 1024, .parts = 2});
}

static void what_others_read_of_the_layer_is_there(void **state)
{
    (void)state;
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 40, .k = 64, .parts = 3, .read_later = true});
    is_one_kernel(&(net){.dtype = HYP_BF16, .width = 24, .k = 64, .parts = 4, .read_later = true});
}

static void a_second_step_may_go_on_with_what_the_first_has_made(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    for (int i = 0; i < 3; i++) {
        is_one_kernel(&(net){.dtype = types[i], .width = 40, .k = 64, .parts = 3, .twice = true, .read_later = i == 0});
        if (generated >= 0) assert_int_equal(generated, 1); /* the other steps have kernels in every binary */
    }
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 64, .k = 64, .parts = 2, .twice = true, .behind = true});
    if (generated >= 0) assert_int_equal(generated, 1);
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 64, .k = 64, .parts = 2, .twice = true, .shifted = true});
    if (generated >= 0) assert_int_equal(generated, 2); /* what another thread has made is not there yet */
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 64, .k = 64, .parts = 2, .twice = true, .over = true});
    if (generated >= 0) assert_int_equal(generated, 2); /* nor may what another one still reads be written over */
}

static void a_row_that_blocks_still_read_is_not_written_over(void **state)
{
    (void)state;
    is_two_kernels(&(net){.dtype = HYP_F32, .width = 64, .k = 64, .parts = 2, .in_place = true});
    is_one_kernel(&(net){.dtype = HYP_F32, .width = 64, .k = 64, .parts = 2, .behind = true});
}

static void other_layers_and_steps_are_apart(void **state)
{
    (void)state;
    is_two_kernels(&(net){.dtype = HYP_F32, .width = 40, .k = 64, .parts = 3, .apart = true});
    is_two_kernels(&(net){.dtype = HYP_F64, .width = 40, .k = 64, .parts = 3});
    is_two_kernels(&(net){.dtype = HYP_F32, .width = 40, .k = 63, .parts = 3}); /* rows begin anywhere */
}

int main(int argc, char **argv)
{
    if (!device_start(&dev, argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_done_with_their_layers_in_all_types),
        cmocka_unit_test(parts_may_be_few_or_many_and_longer_than_what_fits_at_once),
        cmocka_unit_test(what_others_read_of_the_layer_is_there),
        cmocka_unit_test(a_second_step_may_go_on_with_what_the_first_has_made),
        cmocka_unit_test(a_row_that_blocks_still_read_is_not_written_over),
        cmocka_unit_test(other_layers_and_steps_are_apart),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

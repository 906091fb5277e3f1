/* Every kernel of the CUDA backend against the reference backend. Without a GPU the program says why and exits 77,
 * which ctest counts as skipped; with the emulator in the library path it runs everywhere. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

typedef const int64_t dims_list[DC_MAX_TENSORS][HYP_MAX_RANK];

static device dev;
static plan_builder builder; /* large */

static const hyp_dtype floats[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};
enum { FLOATS = 4 };

#define OP(name) HYP_PLAN__POINTWISE__OP__##name
#define ACT(name) HYP_PLAN__ACT__ACT_##name

/* Runs the plan that is in `builder`. */
static void check(dims_list dims, tolerance want)
{
    check_plan(&dev, &builder, dims, want);
    pb_dispose(&builder);
}

static uint32_t random_weight(uint64_t *seed, hyp_dtype dtype, size_t rank, const int64_t *dims)
{
    static double room[1 << 16];
    size_t count = 1;
    for (size_t a = 0; a < rank; a++) count *= (size_t)dims[a];
    assert_true(count * hyp_dtype_size(dtype) <= sizeof room);
    random_fill(seed, dtype, room, count);
    return pb_weight(&builder, dtype, rank, dims, room);
}

/* ---- products ------------------------------------------------------------------------------------------------ */

/* y = act(x w^T + b) for x [batch, k]. */
static void build_linear(uint64_t *seed, hyp_dtype dtype, int64_t n, int64_t k, bool bias, bool kn, HypPlan__Act act)
{
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch");
    uint32_t x = pb_input(&builder, "x", dtype, 2, (uint32_t[]){batch, pb_const(&builder, k)});
    uint32_t y = pb_output(&builder, "y", dtype, 2, (uint32_t[]){batch, pb_const(&builder, n)});
    const int64_t nk_dims[] = {n, k}, kn_dims[] = {k, n};
    uint32_t w = random_weight(seed, dtype, 2, kn ? kn_dims : nk_dims);
    uint32_t b = bias ? random_weight(seed, dtype, 1, &n) : PB_NONE;
    HypPlan__Linear *linear = pb_linear(&builder, x, y, batch);
    pb_layer(&builder, linear, n, k, w, b, act, PB_NONE)->weight_kn = kn;
}

static void linear_equals_reference_for_every_type_activation_and_layout(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int t = 0; t < FLOATS; t++)
        for (int act = ACT(NONE); act <= (int)ACT(MISH); act++)
            for (int form = 0; form < 4; form++) {
                int64_t n = random_between(&seed, 1, 70), k = random_between(&seed, 1, 70);
                build_linear(&seed, floats[t], n, k, form & 1, form & 2, (HypPlan__Act)act);
                tolerance want = tolerance_of(floats[t], k);
                check((dims_list){{random_between(&seed, 1, 40), k}}, want);
            }
}

static void linear_takes_edge_sizes(void **state)
{
    (void)state;
    uint64_t seed = 2;
    static const int64_t sizes[][3] = {/* m, n, k */
                                       {1, 1, 1},   {1, 64, 1}, {64, 1, 64},    {1, 128, 128},
                                       {0, 16, 16}, {3, 5, 0},  {128, 128, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < FLOATS; t++)
            for (int bias = 0; bias < 2; bias++) {
                build_linear(&seed, floats[t], sizes[i][1], sizes[i][2], bias, false, ACT(RELU));
                check((dims_list){{sizes[i][0], sizes[i][2]}}, tolerance_of(floats[t], sizes[i][2] + 1));
            }
}

/* z = act(x w^T + b + r), or act(x w^T + b) + r. In place: r is a copy of the input, which z replaces. */
typedef enum place { BEFORE, IN_PLACE, AFTER, PLACES } place;
static void check_added(uint64_t *seed, hyp_dtype dtype, place at, int64_t m, int64_t n, int64_t k, HypPlan__Act act)
{
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), shape[2] = {batch, pb_const(&builder, n)};
    uint32_t x = pb_input(&builder, "x", dtype, 2, (uint32_t[]){batch, pb_const(&builder, k)});
    uint32_t r = pb_input(&builder, "r", dtype, 2, shape), z = pb_output(&builder, "z", dtype, 2, shape), y = z;
    uint32_t w = random_weight(seed, dtype, 2, (int64_t[]){n, k});
    uint32_t b = random_between(seed, 0, 1) ? random_weight(seed, dtype, 1, &n) : PB_NONE;
    if (at == IN_PLACE) {
        uint32_t copied = pb_scratch(&builder, dtype, 0, 2, shape);
        pb_copy_all(&builder, r, copied, pb_dim(&builder, HYP_PLAN__DIM__KIND__MUL, shape[0], shape[1]));
        r = copied;
        y = pb_scratch(&builder, dtype, 0, 2, shape);
    }
    HypPlan__Linear *linear = pb_linear(&builder, x, y, batch);
    pb_layer(&builder, linear, n, k, w, b, act, PB_NONE);
    linear->added_plus1 = r + 1;
    linear->add_after = at == AFTER;
    if (at == IN_PLACE) pb_copy_all(&builder, y, z, pb_dim(&builder, HYP_PLAN__DIM__KIND__MUL, shape[0], shape[1]));
    check((dims_list){{m, k}, {m, n}}, tolerance_of(dtype, k + 1));
}

static void linear_adds_a_tensor_before_or_after_its_activation(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (int t = 0; t < FLOATS; t++)
        for (int at = 0; at < PLACES; at++) {
            for (int act = ACT(NONE); act <= (int)ACT(TANH); act++)
                check_added(&seed, floats[t], (place)at, random_between(&seed, 1, 40), random_between(&seed, 1, 70),
                            random_between(&seed, 1, 70), (HypPlan__Act)act);
            check_added(&seed, floats[t], (place)at, 16, 16, 16, ACT(RELU)); /* square: an axis taken for another */
            check_added(&seed, floats[t], (place)at, 3, 5, 0, ACT(TANH));
            check_added(&seed, floats[t], (place)at, 0, 5, 4, ACT(NONE));
        }
}

static void tf32_stays_within_its_precision(void **state)
{
    (void)state;
    uint64_t seed = 3;
    build_linear(&seed, HYP_F32, 64, 128, true, false, ACT(RELU));
    builder.steps[0].linear->tf32 = true;
    check((dims_list){{32, 128}}, (tolerance){2e-3, 2e-3 * 11});
}

/* x [batch, 24] -> 40 -> 24 -> 16 -> 10, hidden layers in two slots in turn. */
static void build_mlp(uint64_t *seed, hyp_dtype dtype)
{
    static const int64_t sizes[] = {24, 40, 24, 16, 10};
    enum { LAYERS = 4 };
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch");
    uint32_t x = pb_input(&builder, "x", dtype, 2, (uint32_t[]){batch, pb_const(&builder, sizes[0])});
    uint32_t y = pb_output(&builder, "y", dtype, 2, (uint32_t[]){batch, pb_const(&builder, sizes[LAYERS])});
    HypPlan__Linear *linear = pb_linear(&builder, x, y, batch);
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t w = random_weight(seed, dtype, 2, (int64_t[]){sizes[i + 1], sizes[i]});
        uint32_t b = random_weight(seed, dtype, 1, &sizes[i + 1]);
        uint32_t hidden = PB_NONE;
        if (i + 1 < LAYERS)
            hidden = pb_scratch(&builder, dtype, i % 2, 2, (uint32_t[]){batch, pb_const(&builder, sizes[i + 1])});
        static const HypPlan__Act acts[LAYERS] = {ACT(RELU), ACT(SIGMOID), ACT(GELU), ACT(NONE)};
        pb_layer(&builder, linear, sizes[i + 1], sizes[i], w, b, acts[i], hidden);
    }
}

static void one_context_runs_many_batch_sizes_in_any_order(void **state)
{
    (void)state;
    uint64_t seed = 4;
    static const int64_t batches[] = {3, 1, 64, 3, 0, 200, 1, 64};
    for (int t = 0; t < FLOATS; t++) {
        build_mlp(&seed, floats[t]);
        pair p;
        pair_open(&dev, &builder, &p);
        tolerance want = tolerance_of(floats[t], 40);
        want.atol *= 4; /* hidden layers round too, the reference keeps them in the same type but sums in double */
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
            pair_check(&dev, &p, (dims_list){{batches[i], 24}}, want);
        pair_close(&p);
        pb_dispose(&builder);
    }
}

/* x [rows, sizes[0]] through `layers` layers; hidden layers in two slots in turn. */
static void build_chain(uint64_t *seed, hyp_dtype dtype, int64_t rows, const int64_t *sizes, uint32_t layers)
{
    pb_init(&builder);
    uint32_t m = pb_const(&builder, rows);
    uint32_t x = pb_input(&builder, "x", dtype, 2, (uint32_t[]){m, pb_const(&builder, sizes[0])});
    uint32_t y = pb_output(&builder, "y", dtype, 2, (uint32_t[]){m, pb_const(&builder, sizes[layers])});
    HypPlan__Linear *linear = pb_linear(&builder, x, y, m);
    for (uint32_t i = 0; i < layers; i++) {
        const int64_t n = sizes[i + 1], k = sizes[i];
        uint32_t w = random_weight(seed, dtype, 2, (int64_t[]){n, k}), b = PB_NONE, hidden = PB_NONE;
        if (random_next(seed) % 4 > 0) b = random_weight(seed, dtype, 1, &n);
        if (i + 1 < layers) hidden = pb_scratch(&builder, dtype, i % 2, 2, (uint32_t[]){m, pb_const(&builder, n)});
        HypPlan__Act act = i + 1 < layers ? ACT(TANH) : (HypPlan__Act)(random_next(seed) % (ACT(MISH) + 1));
        pb_layer(&builder, linear, n, k, w, b, act, hidden);
    }
    if (random_next(seed) % 4 == 0) {
        linear->added_plus1 = random_weight(seed, dtype, 2, (int64_t[]){rows, sizes[layers]}) + 1;
        linear->add_after = random_next(seed) % 2;
    }
}

/* Hidden layers end with tanh, so that rounding does not grow from layer to layer. */
static void few_rows_go_through_any_number_of_layers(void **state)
{
    (void)state;
    uint64_t seed = 11;
    static const int64_t rows[] = {1, 2, 9, 16};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int t = 0; t < FLOATS; t++)
            for (uint32_t layers = 1; layers <= 6; layers += 1 + (uint32_t)(r % 3)) {
                int64_t sizes[7];
                bool odd = random_next(&seed) % 2; /* rows that end inside of 16 bytes */
                for (uint32_t i = 0; i <= layers; i++)
                    sizes[i] = odd ? random_between(&seed, 1, 45) : 8 * random_between(&seed, 1, 5);
                build_chain(&seed, floats[t], rows[r], sizes, layers);
                tolerance want = tolerance_of(floats[t], 45);
                want.atol *= 3;
                check((dims_list){{rows[r], sizes[0]}}, want);
            }
}

/* Long rows that several warps share, many rows for every block, and many layers. */
static void large_and_deep_chains_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 12;
    static const int64_t long_rows[] = {4000, 8, 3}, wide[] = {16, 700, 30}, column[] = {300, 1};
    int64_t deep[21];
    for (size_t i = 0; i < 21; i++) deep[i] = 8;
    for (int t = 0; t < FLOATS; t++)
        for (int64_t rows = 1; rows <= 5; rows += 4) {
            tolerance want = tolerance_of(floats[t], 4000);
            build_chain(&seed, floats[t], rows, long_rows, 2);
            check((dims_list){{rows, 4000}}, want);
            build_chain(&seed, floats[t], rows, wide, 2);
            check((dims_list){{rows, 16}}, want);
            if (floats[t] != HYP_F64) { /* more weights than shared memory holds at once */
                const int64_t k = floats[t] == HYP_F32 ? 248 : 496;
                build_chain(&seed, floats[t], rows, (int64_t[]){k, 500, 7}, 2);
                check((dims_list){{rows, k}}, want);
            }
            build_chain(&seed, floats[t], rows, column, 1);
            check((dims_list){{rows, 300}}, want);
            build_chain(&seed, floats[t], rows, deep, 20);
            check((dims_list){{rows, 8}}, want);
        }
}

static void few_columns_of_many_rows_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 13;
    static const int64_t ns[] = {1, 2, 7, 10, 16, 17};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        for (int t = 0; t < FLOATS; t++) {
            int64_t rows = random_between(&seed, 17, 200), k = random_between(&seed, 1, 300);
            build_chain(&seed, floats[t], rows, (int64_t[]){k, ns[i]}, 1);
            check((dims_list){{rows, k}}, tolerance_of(floats[t], k));
        }
}

/* y = alpha op(a) op(b) with batch axes; a stride of 0 shares a matrix along that axis. */
static void check_matmul(hyp_dtype dtype, size_t rank, const int64_t *batch, const int64_t *a_strides,
                         const int64_t *b_strides, int64_t a_matrices, int64_t b_matrices, const int64_t *mnk,
                         int trans)
{
    pb_init(&builder);
    int64_t m = mnk[0], n = mnk[1], k = mnk[2], results = m * n;
    for (size_t i = 0; i < rank; i++) results *= batch[i];
    const int64_t a_count = a_matrices * m * k, b_count = b_matrices * k * n;
    uint32_t a = pb_input(&builder, "a", dtype, 1, pb_consts(&builder, 1, &a_count));
    uint32_t b = pb_input(&builder, "b", dtype, 1, pb_consts(&builder, 1, &b_count));
    uint32_t y = pb_output(&builder, "y", dtype, 1, pb_consts(&builder, 1, &results));
    HypPlan__Matmul *s = pb_matmul(&builder);
    int64_t a_steps[4], b_steps[4];
    for (size_t i = 0; i < rank; i++) a_steps[i] = a_strides[i] * m * k, b_steps[i] = b_strides[i] * k * n;
    s->a = a;
    s->b = b;
    s->y = y;
    s->n_batch = s->n_a_strides = s->n_b_strides = rank;
    s->batch = pb_consts(&builder, rank, batch);
    s->a_strides = pb_consts(&builder, rank, a_steps);
    s->b_strides = pb_consts(&builder, rank, b_steps);
    s->m = pb_const(&builder, m);
    s->n = pb_const(&builder, n);
    s->k = pb_const(&builder, k);
    s->trans_a = trans & 1;
    s->trans_b = trans & 2;
    s->alpha = 0.5F;
    check((dims_list){{a_count}, {b_count}}, tolerance_of(dtype, k));
}

static void matmul_broadcasts_batches_and_transposes(void **state)
{
    (void)state;
    static const int64_t mnk[] = {5, 7, 11}, empty[] = {3, 4, 0};
    for (int t = 0; t < FLOATS; t++)
        for (int trans = 0; trans < 4; trans++) {
            hyp_dtype f = floats[t];
            check_matmul(f, 0, NULL, NULL, NULL, 1, 1, mnk, trans);
            /* a plain batch; b shared; a shared */
            check_matmul(f, 1, (int64_t[]){6}, (int64_t[]){1}, (int64_t[]){1}, 6, 6, mnk, trans);
            check_matmul(f, 1, (int64_t[]){6}, (int64_t[]){1}, (int64_t[]){0}, 6, 1, mnk, trans);
            check_matmul(f, 1, (int64_t[]){6}, (int64_t[]){0}, (int64_t[]){1}, 1, 6, mnk, trans);
            /* [2, 3] against [1, 3], and against [2, 1]: no one stride walks both */
            check_matmul(f, 2, (int64_t[]){2, 3}, (int64_t[]){3, 1}, (int64_t[]){0, 1}, 6, 3, mnk, trans);
            check_matmul(f, 2, (int64_t[]){2, 3}, (int64_t[]){3, 1}, (int64_t[]){1, 0}, 6, 2, mnk, trans);
            check_matmul(f, 3, (int64_t[]){2, 3, 2}, (int64_t[]){0, 2, 1}, (int64_t[]){2, 0, 1}, 6, 4, mnk, trans);
        }
    check_matmul(HYP_F32, 1, (int64_t[]){6}, (int64_t[]){1}, (int64_t[]){1}, 6, 6, empty, 0);
}

/* ---- pointwise ----------------------------------------------------------------------------------------------- */

static const HypPlan__Pointwise__Op float_ops[] = {
    OP(ADD),   OP(SUB),        OP(MUL),     OP(DIV),   OP(POW),        OP(MIN),        OP(MAX),
    OP(RELU),  OP(LEAKY_RELU), OP(SIGMOID), OP(TANH),  OP(GELU),       OP(GELU_TANH),  OP(ERF),
    OP(EXP),   OP(SQRT),       OP(CLIP),    OP(CAST),  OP(LOG),        OP(ABS),        OP(NEG),
    OP(SIGN),  OP(CEIL),       OP(FLOOR),   OP(ROUND), OP(SIN),        OP(COS),        OP(TAN),
    OP(ASIN),  OP(ACOS),       OP(ATAN),    OP(SINH),  OP(COSH),       OP(ASINH),      OP(ACOSH),
    OP(ATANH), OP(SOFTPLUS),   OP(ELU),     OP(NOT),   OP(MOD),        OP(FMOD),       OP(EQUAL),
    OP(LESS),  OP(LESS_EQUAL), OP(WHERE),   OP(SILU),  OP(QUICK_GELU), OP(HARD_SWISH), OP(MISH)};

/* z = op(x, y) over [rows, columns] with y along the columns only. */
static void build_operation(HypPlan__Pointwise__Op op, hyp_dtype dtype, hyp_dtype compute, int64_t rows,
                            int64_t columns)
{
    pb_init(&builder);
    const int64_t dims[] = {rows, columns}, ones[] = {columns, 1}, along[] = {0, 1};
    uint32_t *extents = pb_consts(&builder, 2, dims);
    uint32_t x = pb_input(&builder, "x", dtype, 2, extents), y = pb_input(&builder, "y", dtype, 1, &extents[1]);
    uint32_t z = pb_output(&builder, "z", dtype, 2, extents);
    HypPlan__Pointwise *s = pb_pointwise(&builder, compute, 2, extents);
    pb_operand(&builder, s, x, pb_consts(&builder, 2, ones));
    pb_operand(&builder, s, y, pb_consts(&builder, 2, along));
    pb_result(&builder, s, z, pb_instr(&builder, s, op, 0, 1, op == OP(CLIP) ? -0.25 : 0.1, 0.5, dtype));
}

static void every_pointwise_operation_equals_reference(void **state)
{
    (void)state;
    for (size_t o = 0; o < sizeof float_ops / sizeof *float_ops; o++)
        for (int t = 0; t < FLOATS; t++)
            for (int wide = 0; wide < 2; wide++) {
                int64_t columns = wide ? 24 : 5; /* 16-byte accesses or none */
                build_operation(float_ops[o], floats[t], floats[t] == HYP_F64 ? HYP_F64 : HYP_F32, 33, columns);
                tolerance want = tolerance_of(floats[t], 4);
                check((dims_list){{33, columns}, {columns}}, want);
            }
}

static void integer_operations_equal_reference(void **state)
{
    (void)state;
    static const HypPlan__Pointwise__Op ops[] = {
        OP(ADD),  OP(SUB),        OP(MUL), OP(DIV), OP(MIN),  OP(MAX),        OP(RELU),        OP(CAST),   OP(POW),
        OP(MOD),  OP(FMOD),       OP(ABS), OP(NEG), OP(SIGN), OP(CLIP),       OP(NOT),         OP(INVERT), OP(EQUAL),
        OP(LESS), OP(LESS_EQUAL), OP(AND), OP(OR),  OP(XOR),  OP(SHIFT_LEFT), OP(SHIFT_RIGHT), OP(WHERE)};
    static const hyp_dtype types[] = {HYP_I64, HYP_I32, HYP_U8, HYP_I8, HYP_U16, HYP_U32, HYP_U64, HYP_BOOL};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            build_operation(ops[o], types[t], types[t] == HYP_U64 ? HYP_U64 : HYP_I64, 9, 13);
            check((dims_list){{9, 13}, {13}}, (tolerance){0, 0});
        }
}

/* Tails of all lengths, one row and several. */
static void pointwise_covers_every_element(void **state)
{
    (void)state;
    for (int64_t columns = 1; columns <= 40; columns += 3)
        for (int64_t rows = 1; rows <= 3; rows += 2) {
            build_operation(OP(ADD), HYP_BF16, HYP_F32, rows, columns);
            check((dims_list){{rows, columns}, {columns}}, tolerance_of(HYP_BF16, 1));
        }
    build_operation(OP(ADD), HYP_F32, HYP_F32, 513, 1024);
    check((dims_list){{513, 1024}, {1024}}, tolerance_of(HYP_F32, 1));
    build_operation(OP(MUL), HYP_F32, HYP_F32, 0, 8);
    check((dims_list){{0, 8}, {8}}, tolerance_of(HYP_F32, 1));
}

/* In pieces of 16 bytes where there are whole ones, else by the interpreter. */
static void activations_of_whole_tensors(void **state)
{
    (void)state;
    static const HypPlan__Pointwise__Op ops[] = {OP(RELU), OP(GELU),       OP(GELU_TANH),  OP(SIGMOID), OP(TANH),
                                                 OP(SILU), OP(QUICK_GELU), OP(HARD_SWISH), OP(MISH),    OP(EXP)};
    static const int64_t counts[] = {8, 4101, 5000};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < 3; i++) {
                pb_init(&builder);
                uint32_t *extents = pb_consts(&builder, 1, &counts[i]), one = pb_const(&builder, 1);
                uint32_t x = pb_input(&builder, "x", floats[t], 1, extents);
                uint32_t y = pb_output(&builder, "y", floats[t], 1, extents);
                HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, extents);
                pb_operand(&builder, s, x, &one);
                pb_result(&builder, s, y, pb_instr(&builder, s, ops[o], 0, 0, 0, 0, floats[t]));
                check((dims_list){{counts[i]}}, tolerance_of(floats[t], 1));
            }
}

/* Two outputs, values that are needed again later, a constant, a transposed operand, and an input as an output. */
static void a_program_keeps_values_that_it_needs_later(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        pb_init(&builder);
        const int64_t n = wide ? 16 : 7, m = wide ? 8 : 3;
        const int64_t dims[] = {m, n}, ones[] = {n, 1}, turned[] = {1, m};
        uint32_t *extents = pb_consts(&builder, 2, dims), back[] = {extents[1], extents[0]};
        uint32_t x = pb_input(&builder, "x", HYP_F32, 2, extents), y = pb_input(&builder, "y", HYP_F32, 2, back);
        uint32_t p = pb_output(&builder, "p", HYP_F32, 2, extents), q = pb_output(&builder, "q", HYP_F16, 2, extents);
        uint32_t r = pb_output(&builder, "r", HYP_F32, 2, extents);
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 2, extents);
        pb_operand(&builder, s, x, pb_consts(&builder, 2, ones));
        pb_operand(&builder, s, y, pb_consts(&builder, 2, wide ? ones : turned));
        uint32_t two = pb_instr(&builder, s, OP(CONST), 0, 0, 2, 0, HYP_F32);
        uint32_t sum = pb_instr(&builder, s, OP(ADD), 0, 1, 0, 0, HYP_F32);
        uint32_t wave = pb_instr(&builder, s, OP(TANH), 1, 0, 0, 0, HYP_F16);
        uint32_t both = pb_instr(&builder, s, OP(MUL), sum, wave, 0, 0, HYP_F32);
        uint32_t more = pb_instr(&builder, s, OP(ADD), both, sum, 0, 0, HYP_F32);
        uint32_t last = pb_instr(&builder, s, OP(MUL), more, two, 0, 0, HYP_F32);
        pb_result(&builder, s, p, last);
        pb_result(&builder, s, q, sum);
        pb_result(&builder, s, r, 0);
        check((dims_list){{m, n}, {n, m}}, tolerance_of(HYP_F16, 1));
    }
}

/* The second step writes over the scratch tensor that it reads. */
static void pointwise_works_in_place(void **state)
{
    (void)state;
    pb_init(&builder);
    const int64_t count = 100, one = 1;
    uint32_t *extents = pb_consts(&builder, 1, &count), *ones = pb_consts(&builder, 1, &one);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 1, extents), y = pb_output(&builder, "y", HYP_F32, 1, extents);
    uint32_t first = pb_scratch(&builder, HYP_F32, 0, 1, extents),
             second = pb_scratch(&builder, HYP_F32, 0, 1, extents);
    const uint32_t chain[] = {x, first, second, y};
    for (int i = 0; i < 3; i++) {
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, extents);
        pb_operand(&builder, s, chain[i], ones);
        pb_result(&builder, s, chain[i + 1], pb_instr(&builder, s, i == 1 ? OP(EXP) : OP(TANH), 0, 0, 0, 0, HYP_F32));
    }
    check((dims_list){{count}}, tolerance_of(HYP_F32, 4));
}

static void casts_between_all_types(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I64, HYP_I32, HYP_U8, HYP_I8, HYP_BOOL};
    enum { TYPES = sizeof types / sizeof *types };
    for (int from = 0; from < TYPES; from++)
        for (int to = 0; to < TYPES; to++) {
            pb_init(&builder);
            const int64_t count = 37, one = 1;
            uint32_t *extents = pb_consts(&builder, 1, &count);
            uint32_t x = pb_input(&builder, "x", types[from], 1, extents);
            uint32_t y = pb_output(&builder, "y", types[to], 1, extents);
            bool integers = !hyp_dtype_is_float(types[from]) && !hyp_dtype_is_float(types[to]);
            HypPlan__Pointwise *s = pb_pointwise(&builder, integers ? HYP_I64 : HYP_F64, 1, extents);
            pb_operand(&builder, s, x, pb_consts(&builder, 1, &one));
            pb_result(&builder, s, y, pb_instr(&builder, s, OP(CAST), 0, 0, 0, 0, types[to]));
            check((dims_list){{count}}, (tolerance){0, 0});
        }
}

/* ---- softmax, reductions ------------------------------------------------------------------------------------- */

static void softmax_along_any_axis(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},   {3, 10, 1},  {5, 100, 1},  {2, 3000, 1},  {3, 24, 1},
                                       {3, 513, 1}, {2, 768, 1}, {3, 1028, 1}, {1, 20000, 1}, {3000, 16, 1},
                                       {3, 7, 5},   {1, 33, 64}, {2, 0, 3}};
    for (int t = 0; t < FLOATS; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            pb_init(&builder);
            uint32_t *dims = pb_consts(&builder, 3, sizes[i]);
            uint32_t x = pb_input(&builder, "x", floats[t], 3, dims), y = pb_output(&builder, "y", floats[t], 3, dims);
            HypPlan__Softmax *s = pb_softmax(&builder);
            s->x = x;
            s->y = y;
            s->outer = dims[0];
            s->axis = dims[1];
            s->inner = dims[2];
            check((dims_list){{sizes[i][0], sizes[i][1], sizes[i][2]}}, tolerance_of(floats[t], 1));
        }
}

/* ---- attention ----------------------------------------------------------------------------------------------- */

enum { BY_HEAD, BY_ROW, LAYOUTS }; /* [batch, heads, rows, width] or [batch, rows, heads, width] */
enum { NO_MASK, NUMBERS, HIDES, SHOWS, MASKS };

typedef struct attended {
    int64_t batch, heads, rows, keys, width, columns;
    int layout, mask;
    bool keys_last; /* k is [batch, heads, width, keys] */
    bool shared;    /* all heads have one k and v, all rows of a batch one mask */
    float scale;
} attended;

static HypPlan__Attention__Operand *attended_in(uint32_t tensor, const attended *a, int64_t rows, int64_t columns,
                                                bool shared, int64_t offset)
{
    int64_t heads = shared ? 1 : a->heads, head = shared ? 0 : a->layout == BY_HEAD ? rows * columns : columns;
    const int64_t strides[] = {rows * heads * columns, head, a->layout == BY_HEAD ? columns : heads * columns, 1};
    return pb_attended(&builder, tensor, 4, strides, offset);
}

static void check_every_way(pair *p, dims_list dims, tolerance want) { pair_check(&dev, p, dims, want); }

/* v has a row of heads before its first one. `every_way` is that of check_plan. */
static void check_attention(hyp_dtype dtype, const attended *a, bool every_way)
{
    pb_init(&builder);
    const int64_t kv = a->shared ? 1 : a->heads, all = a->batch * a->heads;
    const int64_t sizes[] = {all * a->rows * a->width, a->batch * kv * a->keys * a->width,
                             (a->batch * a->keys + 1) * kv * a->columns,
                             a->shared ? a->batch * a->keys : all * a->rows * a->keys, all * a->rows * a->columns};
    static const char *const names[] = {"q", "k", "v", "mask"};
    uint32_t in[4];
    size_t inputs = a->mask == NO_MASK ? 3 : 4;
    for (size_t i = 0; i < inputs; i++)
        in[i] = pb_input(&builder, names[i], i < 3 || a->mask == NUMBERS ? dtype : HYP_BOOL, 1,
                         pb_consts(&builder, 1, &sizes[i]));
    uint32_t y = pb_output(&builder, "y", dtype, 1, pb_consts(&builder, 1, &sizes[4]));
    HypPlan__Attention *s = pb_attention(&builder);
    s->n_batch = 2;
    s->batch = pb_consts(&builder, 2, (int64_t[]){a->batch, a->heads});
    s->rows = pb_const(&builder, a->rows);
    s->keys = pb_const(&builder, a->keys);
    s->width = pb_const(&builder, a->width);
    s->columns = pb_const(&builder, a->columns);
    s->scale = a->scale;
    s->fill = a->shared ? -3.4028235e38F : -INFINITY;
    s->shown = a->mask == SHOWS;
    s->q = attended_in(in[0], a, a->rows, a->width, false, 0);
    s->k = attended_in(in[1], a, a->keys, a->width, a->shared, 0);
    if (a->keys_last)
        s->k = pb_attended(&builder, in[1], 4,
                           (int64_t[]){kv * a->width * a->keys, a->shared ? 0 : a->width * a->keys, 1, a->keys}, 0);
    s->v = attended_in(in[2], a, a->keys, a->columns, a->shared, kv * a->columns);
    if (a->mask != NO_MASK && a->shared)
        s->mask = pb_attended(&builder, in[3], 4, (int64_t[]){a->keys, 0, 0, 1}, 0);
    else if (a->mask != NO_MASK)
        s->mask = pb_attended(&builder, in[3], 4,
                              (int64_t[]){a->heads * a->rows * a->keys, a->rows * a->keys, a->keys, 1}, 0);
    s->y = attended_in(y, a, a->rows, a->columns, false, 0);
    pair p;
    pair_open(&dev, &builder, &p);
    (every_way ? check_every_way : pair_check_once)(&p, (dims_list){{sizes[0]}, {sizes[1]}, {sizes[2]}, {sizes[3]}},
                                                    tolerance_of(dtype, 4));
    pair_close(&p);
    pb_dispose(&builder);
}

static void attention_takes_every_mask_and_layout(void **state)
{
    (void)state;
    for (int t = 0; t < FLOATS; t++)
        for (int form = 0; form < LAYOUTS * MASKS * 2; form++) {
            int layout = form % LAYOUTS, mask = form / LAYOUTS % MASKS;
            bool shared = form / LAYOUTS / MASKS != 0;
            check_attention(floats[t], &(attended){2, 2, 9, 70, 16, 24, layout, mask, form % 3 == 0, shared, 0.3F},
                            form == 6);
        }
}

/* One row and several, a tile and more of rows and keys, heads of 64 and 128 and wider than any tile; odd widths, whose
 * rows cannot be read 16 bytes at a time. */
static void attention_takes_every_shape(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {
        /* rows, keys, width, columns */
        {1, 1, 1, 1},      {1, 300, 64, 64},   {2, 65, 128, 128}, {4, 77, 40, 8},   {5, 1, 64, 64},    {64, 64, 64, 64},
        {65, 129, 64, 64}, {70, 64, 128, 128}, {16, 100, 80, 96}, {130, 3, 32, 32}, {1, 700, 24, 24},  {7, 600, 24, 72},
        {5, 520, 16, 8},   {9, 40, 31, 33},    {6, 20, 127, 1},   {3, 9, 256, 200}, {7, 10, 130, 300}, {0, 4, 8, 8},
        {4, 0, 8, 8},      {4, 5, 0, 8},       {9, 5, 0, 8},      {4, 5, 8, 0}};
    for (int t = 0; t < FLOATS; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int64_t *s = shapes[i];
            const attended plain = {1, 2, s[0], s[1], s[2], s[3], BY_ROW, NO_MASK, false, false, 0.25F};
            const attended turned = {1, 2, s[0], s[1], s[2], s[3], BY_HEAD, NUMBERS, i % 4 == 1, true, 1};
            check_attention(floats[t], i % 2 ? &turned : &plain, false);
        }
    for (int t = 1; t < 3; t++) /* enough rows for tall tiles, on the emulator that is */
        for (int form = 0; form < 4; form++) {
            int64_t width = form % 2 ? 64 : 72;
            check_attention(floats[t],
                            &(attended){1, 6, 130, 70, width, 48, BY_ROW, form / 2 * NUMBERS, false, false, 0.3F},
                            false);
        }
    check_attention(HYP_F32, &(attended){0, 2, 8, 8, 8, 8, BY_ROW, NO_MASK, false, false, 1}, true);
}

/* Tiles of which a mask leaves nothing are passed over, unless it leaves nothing of a whole row: hides is -inf there,
 * or the lowest number. The mask hides what comes after a row, and all of the second matrix. */
static void attention_passes_over_what_is_hidden(void **state)
{
    (void)state;
    enum { ROWS = 150, WIDTH = 8 };
    static const float fills[] = {-INFINITY, -3.4028235e38F, -50, 0.25F};
    static uint8_t hidden[2 * ROWS * ROWS];
    for (int i = 0; i < 2 * ROWS * ROWS; i++) hidden[i] = i >= ROWS * ROWS || i % ROWS > i / ROWS;
    for (int t = 0; t < FLOATS; t++)
        for (int i = 0; i < 4; i++) {
            pb_init(&builder);
            const int64_t size = 2 * ROWS * WIDTH, strides[] = {ROWS * WIDTH, WIDTH, 1}, all = 2 * ROWS * ROWS;
            uint32_t in[3];
            static const char *const names[] = {"q", "k", "v"};
            for (int j = 0; j < 3; j++)
                in[j] = pb_input(&builder, names[j], floats[t], 1, pb_consts(&builder, 1, &size));
            uint32_t y = pb_output(&builder, "y", floats[t], 1, pb_consts(&builder, 1, &size));
            HypPlan__Attention *s = pb_attention(&builder);
            s->n_batch = 1;
            s->batch = pb_consts(&builder, 1, (int64_t[]){2});
            s->rows = s->keys = pb_const(&builder, ROWS);
            s->width = s->columns = pb_const(&builder, WIDTH);
            s->scale = 1;
            s->fill = fills[i];
            s->q = pb_attended(&builder, in[0], 3, strides, 0);
            s->k = pb_attended(&builder, in[1], 3, strides, 0);
            s->v = pb_attended(&builder, in[2], 3, strides, 0);
            s->mask = pb_attended(&builder, pb_weight(&builder, HYP_BOOL, 1, &all, hidden), 3,
                                  (int64_t[]){ROWS * ROWS, ROWS, 1}, 0);
            s->y = pb_attended(&builder, y, 3, strides, 0);
            pair p;
            pair_open(&dev, &builder, &p);
            pair_check_once(&p, (dims_list){{size}, {size}, {size}}, tolerance_of(floats[t], 4));
            pair_close(&p);
            pb_dispose(&builder);
        }
}

/* A scale that turns the order of the scores round, none at all, and one that makes all but one weight 0. */
static void attention_takes_any_scale(void **state)
{
    (void)state;
    static const float scales[] = {-0.5F, 0, 1e-38F, 60};
    for (int t = 0; t < FLOATS; t++)
        for (int i = 0; i < 4; i++)
            for (int64_t rows = 1; rows <= 9; rows += 8) {
                /* what 16 bits round away of an exponent is a part of its weight */
                if (scales[i] > 1 && floats[t] != HYP_F64) continue;
                check_attention(floats[t], &(attended){1, 2, rows, 80, 8, 8, BY_HEAD, NO_MASK, false, false, scales[i]},
                                false);
            }
}

/* x[d0, d1, d2] summed over the axes in the mask. */
static void check_reduce(hyp_dtype dtype, HypPlan__Reduce__Kind kind, const int64_t *dims, unsigned mask)
{
    pb_init(&builder);
    const int64_t strides[] = {dims[1] * dims[2], dims[2], 1};
    uint32_t *all = pb_consts(&builder, 3, dims), *steps = pb_consts(&builder, 3, strides);
    uint32_t *kept = pb_consts(&builder, 3, dims), *kept_steps = pb_consts(&builder, 3, dims);
    uint32_t *gone = pb_consts(&builder, 3, dims), *gone_steps = pb_consts(&builder, 3, dims);
    size_t keep = 0, drop = 0;
    int64_t terms = 1;
    for (unsigned a = 0; a < 3; a++) {
        if (mask & 1u << a)
            gone[drop] = all[a], gone_steps[drop++] = steps[a], terms *= dims[a];
        else
            kept[keep] = all[a], kept_steps[keep++] = steps[a];
    }
    uint32_t x = pb_input(&builder, "x", dtype, 3, all), y = pb_output(&builder, "y", dtype, keep, kept);
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
    check((dims_list){{dims[0], dims[1], dims[2]}}, tolerance_of(dtype, terms + 1));
}

static void reductions_over_any_axes(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{4, 5, 6}, {3, 17, 41}, {1, 2, 1100}, {2, 0, 3}, {70, 3, 2}};
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I64, HYP_I32};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (unsigned mask = 0; mask < 8; mask++)
                check_reduce(types[t], mask % 2 ? HYP_PLAN__REDUCE__KIND__SUM : HYP_PLAN__REDUCE__KIND__MEAN, sizes[i],
                             mask);
}

/* ---- data movement ------------------------------------------------------------------------------------------- */

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

/* ---- kernels by name ----------------------------------------------------------------------------------------- */

typedef struct norm_case {
    hyp_dtype dtype, scale_dtype; /* NONE: no scale; the bias has the type of x */
    int64_t rows, size;
    bool centred, bias;
} norm_case;

static void check_norm(const norm_case *n)
{
    pb_init(&builder);
    const int64_t shape[] = {n->rows, n->size}, row[] = {n->size};
    bool scale = n->scale_dtype != HYP_DTYPE_NONE;
    uint32_t y = pb_output(&builder, "y", n->dtype, 2, pb_consts(&builder, 2, shape));
    uint32_t in[3] = {pb_input(&builder, "x", n->dtype, 2, pb_consts(&builder, 2, shape)), PB_NONE, PB_NONE};
    if (scale) in[1] = pb_input(&builder, "s", n->scale_dtype, 1, pb_consts(&builder, 1, row));
    if (n->bias) in[2] = pb_input(&builder, "b", n->dtype, 1, pb_consts(&builder, 1, row));
    HypPlan__Call *call = pb_call(&builder, n->centred ? "layer-norm" : "rms-norm", n->bias ? 3 : scale ? 2 : 1, in, y);
    pb_call_int(&builder, call, -1);
    pb_call_float(&builder, call, 1e-3);
    tolerance want = tolerance_of(n->dtype, 4);
    want.atol *= 4;
    check((dims_list){{n->rows, n->size}, {n->size}, {n->size}}, want);
}

static void normalization_equals_reference_for_every_type_and_size(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};
    static const int64_t sizes[] = {1, 7, 64, 96, 768, 1000, 2056, 20000};
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int k = 0; k < 2; k++) {
                hyp_dtype scale = (i + t) % 3 == 0 ? HYP_DTYPE_NONE : (i + t) % 3 == 1 ? types[t] : HYP_F32;
                check_norm(&(norm_case){types[t], scale, sizes[i] > 1000 ? 3 : 21, sizes[i], k == 0,
                                        k == 0 && (i + t) % 2 == 0});
            }
    check_norm(&(norm_case){HYP_BF16, HYP_BF16, 3000, 24, true, true}); /* several rows in a block */
    check_norm(&(norm_case){HYP_F32, HYP_F32, 3001, 40, true, true});
    check_norm(&(norm_case){HYP_F32, HYP_F32, 0, 40, true, true});
}

static void ranges_of_every_type(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_I64, HYP_I32, HYP_F32, HYP_F64, HYP_F16};
    static const int64_t counts[] = {0, 1, 700};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < 3; i++) {
            pb_init(&builder);
            uint32_t in[] = {pb_input(&builder, "start", types[t], 0, NULL),
                             pb_input(&builder, "delta", types[t], 0, NULL)};
            uint32_t y = pb_output(&builder, "y", types[t], 1, pb_consts(&builder, 1, &counts[i]));
            pb_call_ints(&builder, pb_call(&builder, "range", 2, in, y), 1, &counts[i]);
            check((dims_list){{0}}, tolerance_of(types[t], 1));
        }
}

static void a_kernel_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    pb_init(&builder);
    const int64_t shape[] = {4, 4};
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, pb_consts(&builder, 2, shape));
    pb_call_int(&builder,
                pb_call(&builder, "trilu", 1, &x, pb_output(&builder, "y", HYP_F32, 2, pb_consts(&builder, 2, shape))),
                1);
    char path[PB_PATH];
    pb_write(&builder, path);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "no CUDA kernel for trilu"));
    remove(path);
    pb_dispose(&builder);
}

/* ---- contexts and errors ------------------------------------------------------------------------------------- */

typedef struct worker {
    hyp_engine *engine;
    float x[64 * 24], y[64 * 10];
    int failures;
} worker;

static void *work(void *data)
{
    worker *w = data;
    hyp_context *context;
    hyp_diag diag = {0};
    if (hyp_context_create(w->engine, NULL, &context, &diag) != HYP_OK) return w->failures = 1, NULL;
    for (int i = 0; i < 50; i++) {
        int64_t batch = 1 + i % 3 * 31;
        hyp_tensor x = {.data = w->x, .bytes = sizeof w->x, .dtype = HYP_F32, .rank = 2, .dims = {batch, 24}};
        hyp_tensor y = {.data = w->y, .bytes = sizeof w->y, .dtype = HYP_F32};
        w->failures += hyp_context_run(context, &x, 1, &y, 1, &diag) != HYP_OK;
    }
    hyp_context_destroy(context);
    return NULL;
}

static void two_threads_run_two_contexts_of_one_engine(void **state)
{
    (void)state;
    static worker workers[2];
    uint64_t seed = 5;
    build_mlp(&seed, HYP_F32);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        uint64_t same = 6;
        workers[i].engine = engine;
        random_fill(&same, HYP_F32, workers[i].x, 64 * 24);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(workers[0].failures + workers[1].failures, 0);
    assert_memory_equal(workers[0].y, workers[1].y, sizeof workers[0].y);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

/* Buffers of one run; y holds twice x plus a bias. */
typedef struct buffers {
    CUdeviceptr x, y;
    float first; /* of x */
} buffers;

static void build_scale(void)
{
    static const float w[4] = {2, 0, 0, 2}, bias[2] = {1, -1};
    pb_init(&builder);
    uint32_t m = pb_const(&builder, 3), n = pb_const(&builder, 2);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, (uint32_t[]){m, n});
    uint32_t y = pb_output(&builder, "y", HYP_F32, 2, (uint32_t[]){m, n});
    uint32_t weight = pb_weight(&builder, HYP_F32, 2, (int64_t[]){2, 2}, w);
    pb_layer(&builder, pb_linear(&builder, x, y, m), 2, 2, weight,
             pb_weight(&builder, HYP_F32, 1, (int64_t[]){2}, bias), ACT(NONE), PB_NONE);
}

static void fill_buffers(buffers *b, float first)
{
    float x[6];
    for (int i = 0; i < 6; i++) x[i] = first + (float)i;
    b->first = first;
    assert_int_equal(dev.lib.cuMemcpyHtoD(b->x, x, sizeof x), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemsetD8Async(b->y, 0xff, sizeof x, dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
}

static void make_buffers(buffers *b, float first)
{
    assert_int_equal(dev.lib.cuMemAlloc(&b->x, 6 * sizeof(float)), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemAlloc(&b->y, 6 * sizeof(float)), CUDA_SUCCESS);
    fill_buffers(b, first);
}

static void free_buffers(const buffers *b)
{
    assert_int_equal(dev.lib.cuMemFree(b->x), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemFree(b->y), CUDA_SUCCESS);
}

static void run_buffers(hyp_context *context, const buffers *b)
{
    hyp_diag diag = {0};
    hyp_tensor x = {.data = (void *)(uintptr_t)b->x, .bytes = 24, .dtype = HYP_F32, .rank = 2, .dims = {3, 2}};
    hyp_tensor y = {.data = (void *)(uintptr_t)b->y, .bytes = 24, .dtype = HYP_F32};
    x.memory = y.memory = HYP_MEMORY_CUDA;
    if (hyp_context_run(context, &x, 1, &y, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
}

static void check_buffers(const buffers *b)
{
    float y[6];
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuMemcpyDtoHAsync(y, b->y, sizeof y, dev.stream), CUDA_SUCCESS);
    assert_int_equal(dev.lib.cuStreamSynchronize(dev.stream), CUDA_SUCCESS);
    for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * (b->first + (float)i) + (i % 2 ? -1 : 1));
}

static void buffers_may_take_turns_and_hold_other_numbers_each_time(void **state)
{
    (void)state;
    enum { SETS = 6 };
    buffers sets[SETS];
    build_scale();
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_create(engine, &options, &context, &diag), HYP_OK);
    for (int i = 0; i < SETS; i++) make_buffers(&sets[i], 0);
    for (int used = 1; used <= SETS; used++) /* more of them than graphs are kept in the end */
        for (int run = 0; run < 4 * used; run++) {
            buffers *b = &sets[run % used];
            fill_buffers(b, (float)(100 * used + run));
            run_buffers(context, b);
            check_buffers(b);
        }
    for (int i = 0; i < SETS; i++) free_buffers(&sets[i]);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void a_caller_may_capture_runs_into_a_graph_of_his_own(void **state)
{
    (void)state;
    buffers b;
    build_scale();
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_create(engine, &options, &context, &diag), HYP_OK);
    make_buffers(&b, 1);
    for (int before = 1; before < 4; before++) { /* op by op until now, then captured by us, then replayed */
        CUgraph graph;
        CUgraphExec exec;
        run_buffers(context, &b);
        check_buffers(&b);
        assert_int_equal(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
        run_buffers(context, &b);
        run_buffers(context, &b);
        assert_int_equal(dev.lib.cuStreamEndCapture(dev.stream, &graph), CUDA_SUCCESS);
        assert_int_equal(dev.lib.cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
        fill_buffers(&b, (float)before * 10);
        assert_int_equal(dev.lib.cuGraphLaunch(exec, dev.stream), CUDA_SUCCESS);
        check_buffers(&b);
        assert_int_equal(dev.lib.cuGraphExecDestroy(exec), CUDA_SUCCESS);
        assert_int_equal(dev.lib.cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    free_buffers(&b);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void a_gpu_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    uint64_t seed = 8;
    build_linear(&seed, HYP_F32, 4, 4, true, false, ACT(NONE));
    char path[PB_PATH];
    pb_write(&builder, path);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA, .device_index = 1000};
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "no GPU 1000"));
    assert_null(engine);
    remove(path);
    pb_dispose(&builder);
}

static void memory_that_the_device_lacks_is_an_error_and_the_context_works_on(void **state)
{
    (void)state;
    uint64_t seed = 9;
    build_mlp(&seed, HYP_F32);
    pair p;
    pair_open(&dev, &builder, &p);
    hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {(int64_t)1 << 40, 24}};
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_reserve(p.cuda_context, &x, 1, &diag), HYP_ERR_NO_MEMORY);
    assert_non_null(strstr(diag.message, "device memory"));
    tolerance want = tolerance_of(HYP_F32, 40);
    want.atol *= 4;
    pair_check(&dev, &p, (dims_list){{5, 24}}, want);
    pair_close(&p);
    pb_dispose(&builder);
}

static void scratch_is_shared_by_shapes_and_only_grows(void **state)
{
    (void)state;
    uint64_t seed = 10;
    build_mlp(&seed, HYP_F32);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    hyp_context *context;
    hyp_diag diag = {0};
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    size_t before = hyp_context_scratch_bytes(context); /* cuBLASLt's workspace */
    hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {100, 24}};
    assert_int_equal(hyp_context_reserve(context, &x, 1, &diag), HYP_OK);
    size_t large = hyp_context_scratch_bytes(context) - before;
    assert_true(large >= 100 * (40 + 24) * sizeof(float)); /* two slots, one of 40 and one of 24 columns */
    assert_true(large <= 100 * (40 + 24) * sizeof(float) + 2 * 256);
    x.dims[0] = 7;
    assert_int_equal(hyp_context_reserve(context, &x, 1, &diag), HYP_OK);
    assert_int_equal(hyp_context_scratch_bytes(context) - before, large);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

/* test_cuda_device [PATTERN]: only tests whose name matches. */
int main(int argc, char **argv)
{
    hyp_diag diag = {0};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (!device_open(&dev, &diag)) {
        printf("skipped: %s\n", diag.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_equals_reference_for_every_type_activation_and_layout),
        cmocka_unit_test(linear_takes_edge_sizes),
        cmocka_unit_test(linear_adds_a_tensor_before_or_after_its_activation),
        cmocka_unit_test(tf32_stays_within_its_precision),
        cmocka_unit_test(one_context_runs_many_batch_sizes_in_any_order),
        cmocka_unit_test(few_rows_go_through_any_number_of_layers),
        cmocka_unit_test(large_and_deep_chains_equal_reference),
        cmocka_unit_test(few_columns_of_many_rows_equal_reference),
        cmocka_unit_test(matmul_broadcasts_batches_and_transposes),
        cmocka_unit_test(every_pointwise_operation_equals_reference),
        cmocka_unit_test(integer_operations_equal_reference),
        cmocka_unit_test(pointwise_covers_every_element),
        cmocka_unit_test(activations_of_whole_tensors),
        cmocka_unit_test(a_program_keeps_values_that_it_needs_later),
        cmocka_unit_test(pointwise_works_in_place),
        cmocka_unit_test(casts_between_all_types),
        cmocka_unit_test(softmax_along_any_axis),
        cmocka_unit_test(attention_takes_every_mask_and_layout),
        cmocka_unit_test(attention_takes_every_shape),
        cmocka_unit_test(attention_passes_over_what_is_hidden),
        cmocka_unit_test(attention_takes_any_scale),
        cmocka_unit_test(reductions_over_any_axes),
        cmocka_unit_test(copies_permute_axes_of_every_type),
        cmocka_unit_test(copies_slice_reverse_and_concatenate),
        cmocka_unit_test(copies_of_many_parts_build_one_tensor),
        cmocka_unit_test(gather_takes_indexes_from_both_ends),
        cmocka_unit_test(gather_reports_an_index_out_of_range),
        cmocka_unit_test(fill_writes_shapes),
        cmocka_unit_test(normalization_equals_reference_for_every_type_and_size),
        cmocka_unit_test(ranges_of_every_type),
        cmocka_unit_test(a_kernel_that_is_not_there_is_an_error),
        cmocka_unit_test(two_threads_run_two_contexts_of_one_engine),
        cmocka_unit_test(buffers_may_take_turns_and_hold_other_numbers_each_time),
        cmocka_unit_test(a_caller_may_capture_runs_into_a_graph_of_his_own),
        cmocka_unit_test(a_gpu_that_is_not_there_is_an_error),
        cmocka_unit_test(memory_that_the_device_lacks_is_an_error_and_the_context_works_on),
        cmocka_unit_test(scratch_is_shared_by_shapes_and_only_grows),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

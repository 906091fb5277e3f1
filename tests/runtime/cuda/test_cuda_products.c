/* Products and attention on a GPU against the reference backend. Needs a GPU, or the emulator: see device_start. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"
#include "runtime/cuda/emulator_tells.h"

static device dev;
static plan_builder builder; /* large */

/* Runs the plan that is in `builder`. */
static bool once; /* not again in other ways */
static void check(dims_list dims, tolerance want)
{
    pair p;
    if (!once) {
        check_plan(&dev, &builder, dims, want);
        return;
    }
    pair_open(&dev, &builder, &p);
    pair_check_once(&p, dims, want);
    pair_close(&p);
    pb_dispose(&builder);
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
    uint32_t w = random_weight(&builder, seed, dtype, 2, kn ? kn_dims : nk_dims);
    uint32_t b = bias ? random_weight(&builder, seed, dtype, 1, &n) : PB_NONE;
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
    uint32_t w = random_weight(&builder, seed, dtype, 2, (int64_t[]){n, k});
    uint32_t b = random_between(seed, 0, 1) ? random_weight(&builder, seed, dtype, 1, &n) : PB_NONE;
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

/* A normalization and the layer behind it, which alone reads its result and adds what was normalized, too. */
static void check_own_norm(uint64_t *seed, hyp_dtype dtype, int64_t m, int64_t n, int64_t k, bool centred, bool bias)
{
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), shape[2] = {batch, pb_const(&builder, k)};
    uint32_t x = pb_input(&builder, "x", dtype, 2, shape), normed = pb_scratch(&builder, dtype, 0, 2, shape);
    uint32_t y = pb_output(&builder, "y", dtype, 2, (uint32_t[]){batch, pb_const(&builder, n)});
    uint32_t in[3] = {x, random_weight(&builder, seed, dtype, 1, &k), PB_NONE};
    if (bias) in[2] = random_weight(&builder, seed, dtype, 1, &k);
    HypPlan__Call *call = pb_call(&builder, centred ? "layer-norm" : "rms-norm", bias ? 3 : 2, in, normed);
    pb_call_int(&builder, call, -1);
    pb_call_float(&builder, call, 1e-3);
    HypPlan__Linear *linear = pb_linear(&builder, normed, y, batch);
    pb_layer(&builder, linear, n, k, random_weight(&builder, seed, dtype, 2, (int64_t[]){n, k}), PB_NONE, ACT(RELU),
             PB_NONE);
    linear->normalizes = true;
    if (n == k) linear->added_plus1 = x + 1;
    tolerance want = tolerance_of(dtype, k);
    want.atol *= 4;
    want.rtol *= 4;
    check((dims_list){{m, k}}, want);
}

/* One row by one kernel where its pieces are aligned, the warps of a block sharing a row or not; others by two. */
static void layers_normalize_the_row_that_they_read(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 70, 64}, {1, 300, 768}, {1, 2, 4096}, {1, 40, 8},
                                       {1, 64, 64}, {1, 9, 31},    {3, 20, 64},  {40, 20, 64}};
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};
    uint64_t seed = 21;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < 4; t++)
            for (int form = 0; form < 3; form++)
                check_own_norm(&seed, types[t], sizes[i][0], sizes[i][1], sizes[i][2], form > 0, form > 1);
}

/* s = x w^T + b + r and y = norm(s), where sums are split because there are few results. In place: s lies where r was.
 */
static void check_norm_behind(uint64_t *seed, hyp_dtype dtype, bool in_place, bool kn, int64_t m, int64_t n, int64_t k)
{
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), shape[2] = {batch, pb_const(&builder, n)};
    uint32_t x = pb_input(&builder, "x", dtype, 2, (uint32_t[]){batch, pb_const(&builder, k)});
    uint32_t r = pb_input(&builder, "r", dtype, 2, shape), y = pb_output(&builder, "y", dtype, 2, shape);
    uint32_t w = random_weight(&builder, seed, dtype, 2, kn ? (int64_t[]){k, n} : (int64_t[]){n, k});
    uint32_t row[3], sum;
    for (int i = 0; i < 3; i++) row[i] = random_weight(&builder, seed, dtype, 1, &n);
    if (in_place) {
        uint32_t copied = pb_scratch(&builder, dtype, 0, 2, shape);
        pb_copy_all(&builder, r, copied, pb_dim(&builder, HYP_PLAN__DIM__KIND__MUL, shape[0], shape[1]));
        r = copied;
        sum = pb_scratch(&builder, dtype, 0, 2, shape);
    } else {
        sum = pb_output(&builder, "sum", dtype, 2, shape);
    }
    HypPlan__Linear *linear = pb_linear(&builder, x, sum, batch);
    pb_layer(&builder, linear, n, k, w, k % 3 ? row[0] : PB_NONE, ACT(NONE), PB_NONE)->weight_kn = kn;
    linear->added_plus1 = in_place || k % 5 ? r + 1 : 0;
    HypPlan__Call *norm =
        pb_call(&builder, kn ? "rms-norm" : "layer-norm", kn ? 2 : 3, (uint32_t[]){sum, row[1], row[2]}, y);
    pb_call_int(&builder, norm, -1);
    pb_call_float(&builder, norm, 1e-3);
    double step = dtype == HYP_BF16 ? 0x1p-8 : dtype == HYP_F16 ? 0x1p-11 : 0x1p-20; /* sums may be rounded otherwise */
    check((dims_list){{m, k}, {m, n}}, (tolerance){2 * step, 8 * step});
}

static void norms_add_up_what_a_product_left_in_parts(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {/* m, n, k: parts of the sums */
                                       {17, 24, 512},  {33, 40, 768},   {20, 128, 1280}, {17, 32, 1536},
                                       {17, 24, 2048}, {20, 264, 1024}, {17, 24, 320},   {16, 24, 512}};
    uint64_t seed = 15;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < FLOATS; t++)
            for (int form = 0; form < 4 && (i == 0 || hyp_dtype_size(floats[t]) == 2); form++)
                check_norm_behind(&seed, floats[t], form & 1, form >> 1, sizes[i][0], sizes[i][1], sizes[i][2]);
}

static void tf32_stays_within_its_precision(void **state)
{
    (void)state;
    uint64_t seed = 3;
    build_linear(&seed, HYP_F32, 64, 128, true, false, ACT(RELU));
    builder.steps[0].linear->tf32 = true;
    check((dims_list){{32, 128}}, (tolerance){2e-3, 2e-3 * 11});
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
        uint32_t w = random_weight(&builder, seed, dtype, 2, (int64_t[]){n, k}), b = PB_NONE, hidden = PB_NONE;
        if (random_next(seed) % 4 > 0) b = random_weight(&builder, seed, dtype, 1, &n);
        if (i + 1 < layers) hidden = pb_scratch(&builder, dtype, i % 2, 2, (uint32_t[]){m, pb_const(&builder, n)});
        HypPlan__Act act = i + 1 < layers ? ACT(TANH) : (HypPlan__Act)(random_next(seed) % (ACT(MISH) + 1));
        pb_layer(&builder, linear, n, k, w, b, act, hidden);
    }
    if (random_next(seed) % 4 == 0) {
        linear->added_plus1 = random_weight(&builder, seed, dtype, 2, (int64_t[]){rows, sizes[layers]}) + 1;
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

/* y = x w^T + t, where t, one for each column, is what another layer has just given: of such a bias a kernel may read nothing
 * before that one has ended. */
static void check_computed_bias(uint64_t *seed, hyp_dtype dtype, int64_t rows, int64_t n, int64_t k)
{
    pb_init(&builder);
    uint32_t m = pb_const(&builder, rows), one = pb_const(&builder, 1), wide = pb_const(&builder, n), deep = pb_const(&builder, k);
    uint32_t x = pb_input(&builder, "x", dtype, 2, (uint32_t[]){m, deep});
    uint32_t z = pb_input(&builder, "z", dtype, 2, (uint32_t[]){one, deep});
    uint32_t y = pb_output(&builder, "y", dtype, 2, (uint32_t[]){m, wide});
    uint32_t t = pb_scratch(&builder, dtype, 0, 2, (uint32_t[]){one, wide});
    uint32_t w = random_weight(&builder, seed, dtype, 2, (int64_t[]){n, k}), v = random_weight(&builder, seed, dtype, 2, (int64_t[]){n, k});
    pb_layer(&builder, pb_linear(&builder, z, t, one), n, k, v, PB_NONE, ACT(NONE), PB_NONE);
    uint32_t row = pb_view(&builder, t, 1, &wide);
    pb_layer(&builder, pb_linear(&builder, x, y, m), n, k, w, row, ACT(SIGMOID), PB_NONE);
    check((dims_list){{rows, k}, {1, k}}, tolerance_of(dtype, 2 * k));
}

static void a_layer_may_give_the_bias_of_the_next(void **state)
{
    (void)state;
    uint64_t seed = 21;
    static const int64_t rows[] = {1, 2, 9, 16, 33};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int t = 0; t < FLOATS; t++) {
            check_computed_bias(&seed, floats[t], rows[r], 8 * random_between(&seed, 1, 40), 8 * random_between(&seed, 1, 40));
            check_computed_bias(&seed, floats[t], rows[r], random_between(&seed, 1, 300), random_between(&seed, 1, 300));
            check_computed_bias(&seed, floats[t], rows[r], random_between(&seed, 1, 16), 64); /* few columns of many rows */
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

/* Large ones go by copies of their operands; see rows_of_any_length_become_multiples_of_16_bytes. */
static void products_of_any_rows_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 17;
    void (*on_emulator)(void);
    if (emulator_function("emulator_graphs", &on_emulator)) {
        print_message("in part: the emulator multiplies slowly\n");
        once = true;
        check_matmul(HYP_BF16, 0, NULL, NULL, NULL, 1, 1, (const int64_t[]){901, 901, 903}, 2);
        once = false;
        return;
    }
    once = true;
    static const int64_t mnk[4][3] = {{901, 1000, 904}, {901, 1000, 904}, {904, 901, 904}, {901, 903, 901}};
    for (int trans = 0; trans < 4; trans++)
        check_matmul(trans % 2 ? HYP_F16 : HYP_BF16, 0, NULL, NULL, NULL, 1, 1, mnk[trans], trans);
    build_linear(&seed, HYP_BF16, 903, 901, true, false, ACT(GELU));
    check((dims_list){{901, 901}}, tolerance_of(HYP_BF16, 901));
    once = false;
}

/* ---- attention ----------------------------------------------------------------------------------------------- */

enum { BY_HEAD, BY_ROW, LAYOUTS }; /* [batch, heads, rows, width] or [batch, rows, heads, width] */
enum { NO_MASK, NUMBERS, HIDES, SHOWS, MASKS, PLAIN }; /* PLAIN: no softmax, and so no mask */

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

/* As it is after every kernel that can was timed. */
static void check_tuned(pair *p, dims_list dims, tolerance want)
{
    hyp_tensor in[4] = {{0}};
    hyp_tune_options options = {.size = sizeof options, .seconds = 10};
    hyp_diag diag = {0};
    size_t inputs = builder.program.n_inputs, open = 0;
    for (size_t i = 0; i < inputs; i++)
        in[i] = (hyp_tensor){.dtype = (hyp_dtype)builder.program.tensors[builder.program.inputs[i]]->dtype,
                             .rank = 1,
                             .dims = {dims[i][0]}};
    if (hyp_context_tune(p->cuda_context, in, inputs, &options, NULL, &diag) != HYP_OK) fail_msg("%s", diag.message);
    pair_check_once(p, dims, want);
    hyp_choice_info c = hyp_context_choice(p->cuda_context, 0, 0);
    for (size_t i = 0; i < c.alternatives; i++) open += !hyp_context_alternative(p->cuda_context, 0, 0, i).cannot;
    assert_int_equal(c.by, open > 1 ? HYP_CHOICE_TUNED : HYP_CHOICE_ONLY);
    assert_int_equal(hyp_context_tuned_count(p->cuda_context), open > 1);
}

/* v has a row of heads before its first one. */
static void check_attention(hyp_dtype dtype, const attended *a, void (*compare)(pair *, dims_list, tolerance))
{
    pb_init(&builder);
    const int64_t kv = a->shared ? 1 : a->heads, all = a->batch * a->heads;
    const int64_t sizes[] = {all * a->rows * a->width, a->batch * kv * a->keys * a->width,
                             (a->batch * a->keys + 1) * kv * a->columns,
                             a->shared ? a->batch * a->keys : all * a->rows * a->keys, all * a->rows * a->columns};
    static const char *const names[] = {"q", "k", "v", "mask"};
    uint32_t in[4];
    bool masked = a->mask != NO_MASK && a->mask != PLAIN;
    size_t inputs = masked ? 4 : 3;
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
    s->plain = a->mask == PLAIN;
    s->q = attended_in(in[0], a, a->rows, a->width, false, 0);
    s->k = attended_in(in[1], a, a->keys, a->width, a->shared, 0);
    if (a->keys_last)
        s->k = pb_attended(&builder, in[1], 4,
                           (int64_t[]){kv * a->width * a->keys, a->shared ? 0 : a->width * a->keys, 1, a->keys}, 0);
    s->v = attended_in(in[2], a, a->keys, a->columns, a->shared, kv * a->columns);
    if (masked && a->shared)
        s->mask = pb_attended(&builder, in[3], 4, (int64_t[]){a->keys, 0, 0, 1}, 0);
    else if (masked)
        s->mask = pb_attended(&builder, in[3], 4,
                              (int64_t[]){a->heads * a->rows * a->keys, a->rows * a->keys, a->keys, 1}, 0);
    s->y = attended_in(y, a, a->rows, a->columns, false, 0);
    pair p;
    pair_open(&dev, &builder, &p);
    compare(&p, (dims_list){{sizes[0]}, {sizes[1]}, {sizes[2]}, {sizes[3]}}, tolerance_of(dtype, 4));
    pair_close(&p);
    pb_dispose(&builder);
}

/* Under the address sanitizer, which watches the host's code and not the kernels, every form is run and every type, but not each in
 * each: the next form in the next type. */
static bool is_run(int type, int form)
{
#ifdef HYP_SMALL_SIZES
    return (form + form / FLOATS) % FLOATS == type;
#else
    return (void)type, (void)form, true;
#endif
}

static void attention_takes_every_mask_and_layout(void **state)
{
    (void)state;
    for (int t = 0; t < FLOATS; t++)
        for (int form = 0; form < LAYOUTS * MASKS * 2; form++) {
            if (!is_run(t, form)) continue;
            int layout = form % LAYOUTS, mask = form / LAYOUTS % MASKS;
            bool shared = form / LAYOUTS / MASKS != 0;
            check_attention(floats[t], &(attended){2, 2, 9, 70, 16, 24, layout, mask, form % 3 == 0, shared, 0.3F},
                            form == 6 ? check_every_way : pair_check_once);
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
            if (!is_run(t, (int)i)) continue;
            const int64_t *s = shapes[i];
            const attended plain = {1, 2, s[0], s[1], s[2], s[3], BY_ROW, NO_MASK, false, false, 0.25F};
            const attended turned = {1, 2, s[0], s[1], s[2], s[3], BY_HEAD, NUMBERS, i % 4 == 1, true, 1};
            check_attention(floats[t], i % 2 ? &turned : &plain, pair_check_once);
        }
    for (int t = 1; t < 3; t++) /* enough rows for tall tiles, on the emulator that is */
        for (int form = 0; form < 4; form++) {
            int64_t width = form % 2 ? 64 : 72;
            check_attention(floats[t],
                            &(attended){1, 6, 130, 70, width, 48, BY_ROW, form / 2 * NUMBERS, false, false, 0.3F},
                            pair_check_once);
        }
    check_attention(HYP_F32, &(attended){0, 2, 8, 8, 8, 8, BY_ROW, NO_MASK, false, false, 1}, check_every_way);
}

static void attention_runs_by_the_kernel_that_was_measured_to_be_fastest(void **state)
{
    (void)state;
    const hyp_dtype types[] = {HYP_BF16, HYP_F32, HYP_F64};
    for (int t = 0; t < 3; t++)
        check_attention(types[t], &(attended){1, 1, 3, 20, 8, 8, BY_HEAD, HIDES, false, false, 0.3F}, check_tuned);
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

/* Two heads of one row behind a past, q, k and v of what is new side by side in one tensor; `shared`: one head of k and
 * v for both. */
static void check_two_parts(hyp_dtype dtype, int64_t past, int64_t more, int64_t width, bool masked, bool shared)
{
    enum { HEADS = 2 };
    const int64_t row = 3 * HEADS * width, keys = past + more, head = shared ? 0 : past * width;
    const int64_t sizes[] = {more * row, HEADS * past * width, HEADS * past * width, keys, HEADS * width};
    static const char *const names[] = {"qkv", "past_k", "past_v", "mask"};
    uint32_t in[4];
    pb_init(&builder);
    for (int i = 0; i < 3 + masked; i++)
        in[i] = pb_input(&builder, names[i], dtype, 1, pb_consts(&builder, 1, &sizes[i]));
    uint32_t y = pb_output(&builder, "y", dtype, 1, pb_consts(&builder, 1, &sizes[4]));
    HypPlan__Attention *s = pb_attention(&builder);
    const int64_t of_past[] = {head, width, 1}, of_new[] = {shared ? 0 : width, row, 1};
    s->n_batch = 1;
    s->batch = pb_consts(&builder, 1, (int64_t[]){HEADS});
    s->rows = pb_const(&builder, 1);
    s->keys = pb_const(&builder, keys);
    s->first_keys = pb_const(&builder, past);
    s->more_keys = pb_const(&builder, more);
    s->width = s->columns = pb_const(&builder, width);
    s->scale = 0.5F;
    s->q = pb_attended(&builder, in[0], 3, (int64_t[]){width, row, 1}, 0);
    s->k = pb_attended(&builder, in[1], 3, of_past, 0);
    s->v = pb_attended(&builder, in[2], 3, of_past, 0);
    s->more_k = pb_attended(&builder, in[0], 3, of_new, HEADS * width);
    s->more_v = pb_attended(&builder, in[0], 3, of_new, 2 * HEADS * width);
    if (masked) s->mask = pb_attended(&builder, in[3], 3, (int64_t[]){0, 0, 1}, 0);
    s->y = pb_attended(&builder, y, 3, (int64_t[]){width, width, 1}, 0);
    pair p;
    pair_open(&dev, &builder, &p);
    pair_check_once(&p, (dims_list){{sizes[0]}, {sizes[1]}, {sizes[2]}, {sizes[3]}}, tolerance_of(dtype, 4));
    pair_close(&p);
    pb_dispose(&builder);
}

static void attention_reads_keys_in_two_parts(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{512, 1, 64}, {0, 1, 64},   {7, 130, 24},
                                        {100, 1, 33}, {1, 70, 128}, {9, 3, 200}};
    for (int t = 0; t < FLOATS; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int form = 0; form < 4; form++)
                check_two_parts(floats[t], shapes[i][0], shapes[i][1], shapes[i][2], form & 1, form & 2);
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
                                pair_check_once);
            }
}

/* Where keys are many they are split among blocks, whose parts are sums of products as they are. Scales are small, so that the
 * results are. */
static void attention_without_a_softmax_is_two_products(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {/* rows, keys, width, columns */
                                        {64, 64, 64, 64}, {1, 300, 64, 64}, {5, 520, 16, 8}, {9, 40, 31, 33}, {70, 65, 128, 100},
                                        {1, 1, 1, 1},     {3, 9, 256, 200}, {0, 4, 8, 8},    {4, 0, 8, 8},    {4, 5, 0, 8}};
    for (int t = 0; t < FLOATS; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int64_t *s = shapes[i];
            check_attention(floats[t], &(attended){1, 2, s[0], s[1], s[2], s[3], i % 2 ? BY_HEAD : BY_ROW, PLAIN, i % 3 == 0,
                                                   i % 4 == 3, i % 2 ? -0.01F : 0.02F},
                            i == 0 ? check_every_way : pair_check_once);
        }
    check_attention(HYP_BF16, &(attended){1, 6, 130, 70, 64, 48, BY_ROW, PLAIN, false, false, 0.02F}, pair_check_once);
    check_attention(HYP_BF16, &(attended){1, 1, 3, 20, 8, 8, BY_HEAD, PLAIN, false, false, 0.3F}, check_tuned);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_equals_reference_for_every_type_activation_and_layout),
        cmocka_unit_test(linear_takes_edge_sizes),
        cmocka_unit_test(linear_adds_a_tensor_before_or_after_its_activation),
        cmocka_unit_test(layers_normalize_the_row_that_they_read),
        cmocka_unit_test(norms_add_up_what_a_product_left_in_parts),
        cmocka_unit_test(tf32_stays_within_its_precision),
        cmocka_unit_test(few_rows_go_through_any_number_of_layers),
        cmocka_unit_test(large_and_deep_chains_equal_reference),
        cmocka_unit_test(a_layer_may_give_the_bias_of_the_next),
        cmocka_unit_test(few_columns_of_many_rows_equal_reference),
        cmocka_unit_test(matmul_broadcasts_batches_and_transposes),
        cmocka_unit_test(products_of_any_rows_equal_reference),
        cmocka_unit_test(attention_takes_every_mask_and_layout),
        cmocka_unit_test(attention_takes_every_shape),
        cmocka_unit_test(attention_passes_over_what_is_hidden),
        cmocka_unit_test(attention_runs_by_the_kernel_that_was_measured_to_be_fastest),
        cmocka_unit_test(attention_reads_keys_in_two_parts),
        cmocka_unit_test(attention_takes_any_scale),
        cmocka_unit_test(attention_without_a_softmax_is_two_products),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

/* Pointwise steps, softmax, normalization and random numbers of the CUDA backend against the reference backend. Needs a GPU, or the emulator: see device_start. */
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

/* What is a sum, an activation, or both, and a sum behind it, in every order of operands, with inputs that are rows or as
 * large as the result; some of it is not what the kernel for such steps does, since a sum is rounded, or both operands are
 * rows. */
static void sums_and_activations(void **state)
{
    (void)state;
    static const struct {
        const char *inputs; /* 'd' dense, 'r' a row */
        int a, b, after;    /* inputs; -1: there is no such sum */
        bool act, swapped, rounded;
    } cases[] = {{"dd", 0, 1, -1, false, false, false}, {"dd", 1, 0, -1, true, false, false},
                 {"dr", 0, 1, -1, true, false, false},  {"rd", 0, 1, -1, true, false, true},
                 {"drd", 0, 1, 2, true, true, false},   {"drd", 1, 0, 2, false, false, false},
                 {"dd", 0, -1, 1, true, true, false},   {"dd", 0, 1, 0, true, false, false},
                 {"drr", 0, 1, 2, true, false, false},  {"rr", 0, 1, -1, true, false, false},
                 {"dd", 0, 0, 1, false, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < 3; t++) {
            const int64_t n = i % 3 == 2 ? 20 : 24, m = i % 2 ? 1 : 5, dims[] = {m, n}, row[] = {n, 1}, same[] = {0, 1};
            static const char *const names[] = {"a", "b", "c"};
            pb_init(&builder);
            uint32_t *extents = pb_consts(&builder, 2, dims);
            HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 2, extents);
            int64_t given[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
            for (int x = 0; cases[i].inputs[x]; x++) {
                bool dense = cases[i].inputs[x] == 'd';
                uint32_t in = dense ? pb_input(&builder, names[x], floats[t], 2, extents)
                                    : pb_input(&builder, names[x], floats[t], 1, pb_consts(&builder, 1, &n));
                given[x][0] = dense ? m : n;
                given[x][1] = dense ? n : 0;
                pb_operand(&builder, s, in, pb_consts(&builder, 2, dense ? row : same));
            }
            hyp_dtype within = cases[i].rounded ? floats[t] : HYP_F32;
            uint32_t reg = (uint32_t)cases[i].a, after = (uint32_t)cases[i].after;
            if (cases[i].b >= 0) reg = pb_instr(&builder, s, OP(ADD), reg, (uint32_t)cases[i].b, 0, 0, within);
            if (cases[i].act) reg = pb_instr(&builder, s, OP(TANH), reg, 0, 0, 0, HYP_F32);
            if (cases[i].after >= 0)
                reg = pb_instr(&builder, s, OP(ADD), cases[i].swapped ? after : reg, cases[i].swapped ? reg : after, 0,
                               0, floats[t]);
            pb_result(&builder, s, pb_output(&builder, "y", floats[t], 2, extents), reg);
            check((const int64_t(*)[HYP_MAX_RANK])given, tolerance_of(floats[t], 2));
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

/* ---- softmax ------------------------------------------------------------------------------------------------- */

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

/* By x with a scale of this type, NONE: without one, or by the scale. */
static void check_norm_gradient(const norm_case *n, bool by_scale)
{
    pb_init(&builder);
    const int64_t shape[] = {n->rows, n->size}, row[] = {n->size};
    bool scale = n->scale_dtype != HYP_DTYPE_NONE && !by_scale;
    uint32_t y = pb_output(&builder, "y", n->dtype, 2, pb_consts(&builder, 2, shape)), in[3];
    in[0] = pb_input(&builder, "x", n->dtype, 2, pb_consts(&builder, 2, shape));
    in[1] = pb_input(&builder, "g", n->dtype, 2, pb_consts(&builder, 2, shape));
    if (scale) in[2] = pb_input(&builder, "s", n->scale_dtype, 1, pb_consts(&builder, 1, row));
    HypPlan__Call *call = pb_call(&builder, "norm-gradient", scale ? 3 : 2, in, y);
    pb_call_int(&builder, call, -1);
    pb_call_float(&builder, call, 1e-3);
    pb_call_int(&builder, call, n->centred);
    pb_call_symbol(&builder, call, by_scale ? "scale" : "x");
    tolerance want = tolerance_of(n->dtype, 4);
    want.atol *= 4;
    check((dims_list){{n->rows, n->size}, {n->rows, n->size}, {n->size}}, want);
}

static void gradients_of_norms_equal_reference_for_every_type_and_size(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};
    static const int64_t sizes[] = {7, 64, 768, 1000, 20000};
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int k = 0; k < 4; k++) {
                hyp_dtype scale = (i + t) % 3 == 0 ? HYP_DTYPE_NONE : (i + t) % 3 == 1 ? types[t] : HYP_F32;
                check_norm_gradient(&(norm_case){types[t], scale, sizes[i] > 1000 ? 2 : 9, sizes[i], k & 1, false}, k & 2);
            }
    check_norm_gradient(&(norm_case){HYP_BF16, HYP_BF16, 3000, 24, true, false}, false); /* several rows in a block */
    check_norm_gradient(&(norm_case){HYP_F32, HYP_F64, 5, 40, true, false}, false);
    check_norm_gradient(&(norm_case){HYP_F32, HYP_F32, 0, 40, true, false}, false);
}

static void gradients_of_softmax_run_along_any_axis(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64};
    static const int64_t sizes[][3] = {{3, 5, 64}, {3, 70, 1}, {2, 9, 33}, {3, 0, 4}, {1, 3, 1500}, {1, 2, 20000}};
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int axis = sizes[i][2] > 1000 ? 2 : 0; axis < 3; axis++) {
                const int64_t *s = sizes[i];
                pb_init(&builder);
                uint32_t in[2], *dims = pb_consts(&builder, 3, s);
                in[0] = pb_input(&builder, "y", types[t], 3, dims), in[1] = pb_input(&builder, "g", types[t], 3, dims);
                HypPlan__Call *call =
                    pb_call(&builder, "softmax-gradient", 2, in, pb_output(&builder, "z", types[t], 3, dims));
                pb_call_int(&builder, call, axis - (int)(t % 2) * 3);
                check((dims_list){{s[0], s[1], s[2]}, {s[0], s[1], s[2]}}, tolerance_of(types[t], s[axis]));
            }
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

/* The same bits, of numbers that fill no block and of a million. */
static void random_numbers_equal_reference(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {3, 1}, {0, 5}, {7, 9}, {1000, 1025}}, streams[] = {0, 1, 4294967295};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int s = 0; s < 3; s++) {
            pb_init(&builder);
            uint32_t in[] = {pb_input(&builder, "seed", HYP_I64, 0, NULL), pb_input(&builder, "number", HYP_I64, 0, NULL)};
            uint32_t y = pb_output(&builder, "y", HYP_F32, 2, pb_consts(&builder, 2, shapes[i]));
            HypPlan__Call *call = pb_call(&builder, "random-uniform", 2, in, y);
            pb_call_ints(&builder, call, 2, shapes[i]);
            pb_call_int(&builder, call, streams[s]);
            check((dims_list){{0}}, (tolerance){0});
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pointwise_operation_equals_reference),
        cmocka_unit_test(integer_operations_equal_reference),
        cmocka_unit_test(pointwise_covers_every_element),
        cmocka_unit_test(activations_of_whole_tensors),
        cmocka_unit_test(sums_and_activations),
        cmocka_unit_test(a_program_keeps_values_that_it_needs_later),
        cmocka_unit_test(pointwise_works_in_place),
        cmocka_unit_test(casts_between_all_types),
        cmocka_unit_test(softmax_along_any_axis),
        cmocka_unit_test(normalization_equals_reference_for_every_type_and_size),
        cmocka_unit_test(gradients_of_norms_equal_reference_for_every_type_and_size),
        cmocka_unit_test(gradients_of_softmax_run_along_any_axis),
        cmocka_unit_test(ranges_of_every_type),
        cmocka_unit_test(random_numbers_equal_reference),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}

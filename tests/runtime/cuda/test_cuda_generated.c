/* Kernels that are generated for pointwise steps compute what the reference backend computes. Where NVRTC is, every
 * source compiles for two architectures; where a GPU is too, or with the emulator, the kernels run. Exits 77 where
 * neither can be done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"
#include "runtime/cuda/driver/nvrtc.h"
#include "runtime/cuda/ops/pointwise_source.h"

static device dev;
static hyp_nvrtc compiler;
static bool has_device;
static plan_builder builder; /* large */

/* ---- from a step to its kernel ------------------------------------------------------------------------------- */

/* The builder's plan has one step and fixed dims. */
static hyp_cuda_pw_program program_of(const plan_builder *b)
{
    static int64_t values[PB_MAX];
    hyp_cuda_pw_step step;
    hyp_cuda_pw_program program;
    hyp_diag diag = {0};
    if (hyp_plan_eval_dims(&b->program, NULL, values, &diag) != HYP_OK) fail_msg("%s", diag.message);
    hyp_cuda_pw_step_init(&step, &b->program, values, NULL, b->program.steps[0]->pointwise);
    hyp_cuda_pw_encode(&step, &program);
    return program;
}

/* Compute capability of the device; what an H200 has where there is none. */
static int device_sm(void)
{
    int major = 9, minor = 0;
    if (has_device) {
        dev.lib.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
        dev.lib.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    }
    return major * 10 + minor;
}

/* The kernel for the step alone, whose threads do `pieces`, or the two that are told the sizes where these are 0. */
static uint8_t *compile(const hyp_cuda_pw_program *program, uint32_t pieces, int sm, size_t *bytes)
{
    enum { FEW = 1, MANY = 1 << 20 }; /* multiprocessors: pieces are wide, or narrow */
    char names[2][HYP_CUDA_TOLD_NAME];
    hyp_strbuf source = {0};
    uint8_t *image = NULL;
    hyp_diag diag = {0};
    if (pieces == 0) {
        uint32_t widths[] = {hyp_cuda_pw_told_width(program, FEW), hyp_cuda_pw_told_width(program, MANY)};
        hyp_cuda_pw_begin_source(false, &source);
        hyp_cuda_pw_told_source(program, widths[0], names[0], &source);
        assert_int_equal(widths[1], 1);
        if (widths[0] != 1) hyp_cuda_pw_told_source(program, 1, names[1], &source);
    } else {
        hyp_cuda_pw_source(program, pieces, &source);
    }
    assert_false(source.failed);
    if (hyp_nvrtc_compile(&compiler, source.data, sm, &image, bytes, &diag) != HYP_OK)
        fail_msg("%s\n%s", diag.message, strstr(source.data, "typedef uint32_t position"));
    assert_true(*bytes > 0 && *bytes < HYP_PLAN_MAX_ALGORITHM);
    hyp_strbuf_dispose(&source);
    return image;
}

/* The plan in `builder`, whose threads do `pieces`: compiled, and run if there is a device, by kernels that are told the
 * sizes first, which a plan that is not tuned has. Contexts are then told what tuning would have found. */
static void check(uint32_t pieces, dims_list dims, tolerance want)
{
    hyp_cuda_pw_program program = program_of(&builder);
    hyp_strbuf key = {0};
    hyp_cuda_pw_key(&program, &key);
    size_t bytes;
    uint8_t *image = compile(&program, pieces, device_sm(), &bytes);
    if (has_device) {
        pair p;
        hyp_diag diag = {0};
        hyp_tuned tuned = {.size = sizeof tuned,
                           .product = key.data,
                           .algorithm = image,
                           .algorithm_bytes = bytes,
                           .epilogue = pieces};
        pair_open(&dev, &builder, &p);
        pair_check(&dev, &p, dims, want);
        if (hyp_context_add_tuned(p.cuda_context, &tuned, &diag) != HYP_OK ||
            hyp_context_add_tuned(p.stream_context, &tuned, &diag) != HYP_OK)
            fail_msg("%s", diag.message);
        pair_check(&dev, &p, dims, want);
        pair_close(&p);
    } else {
        hyp_free(image);
        int oldest = strstr(key.data, "f8e4m3") ? 89 : 80; /* that is taken */
        image = compile(&program, pieces, oldest, &bytes);
        hyp_free(image);
        image = compile(&program, 0, oldest, &bytes);
    }
    hyp_free(image);
    hyp_strbuf_dispose(&key);
    pb_dispose(&builder);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

static uint32_t *extents;

/* An input over all extents, dense but for axes where it is broadcast. */
static uint32_t add_input(HypPlan__Pointwise *s, hyp_dtype dtype, size_t rank, const int64_t *dims, const char *name,
                          const char *broadcast)
{
    int64_t strides[HYP_MAX_RANK], own[HYP_MAX_RANK], dense = 1;
    for (size_t a = rank; a-- > 0;) {
        bool same = broadcast[a] == '1';
        own[a] = same ? 1 : dims[a];
        strides[a] = same ? 0 : dense;
        dense *= own[a];
    }
    uint32_t t = pb_input(&builder, name, dtype, rank, pb_consts(&builder, rank, own));
    pb_operand(&builder, s, t, pb_consts(&builder, rank, strides));
    return t;
}

static HypPlan__Pointwise *begin(hyp_dtype compute, size_t rank, const int64_t *dims)
{
    pb_init(&builder);
    extents = pb_consts(&builder, rank, dims);
    return pb_pointwise(&builder, compute, rank, extents);
}

static void add_output(HypPlan__Pointwise *s, hyp_dtype dtype, size_t rank, const char *name, uint32_t reg)
{
    pb_result(&builder, s, pb_output(&builder, name, dtype, rank, extents), reg);
}

/* Up to four instructions on x and y, a result each. */
static void check_operations(const HypPlan__Pointwise__Op *ops, size_t count, hyp_dtype dtype, hyp_dtype compute,
                             int64_t rows, int64_t columns, uint32_t pieces)
{
    static const char *const names[] = {"p", "q", "r", "s"};
    const int64_t dims[] = {rows, columns};
    HypPlan__Pointwise *s = begin(compute, 2, dims);
    add_input(s, dtype, 2, dims, "x", "nn");
    add_input(s, dtype, 2, dims, "y", "1n");
    uint32_t reg[4];
    for (size_t i = 0; i < count; i++)
        reg[i] = pb_instr(&builder, s, ops[i], 0, 1, ops[i] == OP(CLIP) ? -0.25 : 0.1, 0.5, dtype);
    for (size_t i = 0; i < count; i++) add_output(s, dtype, 2, names[i], reg[i]);
    tolerance want = hyp_dtype_is_float(dtype) ? tolerance_of(dtype, 4) : (tolerance){0, 0};
    check(pieces, (dims_list){{rows, columns}, {1, columns}}, want);
}

static void every_operation_on_floats(void **state)
{
    (void)state;
    static const HypPlan__Pointwise__Op ops[] = {
        OP(ADD),  OP(SUB),  OP(MUL),     OP(DIV),  OP(MIN),        OP(MAX),        OP(RELU),  OP(LEAKY_RELU),
        OP(POW),  OP(SIGN), OP(SIGMOID), OP(TANH), OP(GELU),       OP(GELU_TANH),  OP(ERF),   OP(EXP),
        OP(SQRT), OP(CLIP), OP(CAST),    OP(LOG),  OP(ABS),        OP(NEG),        OP(CEIL),  OP(FLOOR),
        OP(ELU),  OP(NOT),  OP(ROUND),   OP(SILU), OP(QUICK_GELU), OP(HARD_SWISH), OP(MISH),  OP(SOFTPLUS),
        OP(SIN),  OP(COS),  OP(TAN),     OP(ASIN), OP(ACOS),       OP(ATAN),       OP(SINH),  OP(COSH),
        OP(MOD),  OP(FMOD), OP(ASINH),   OP(LESS), OP(ACOSH),      OP(ATANH),      OP(EQUAL), OP(LESS_EQUAL)};
    static const hyp_dtype types[] = {HYP_F32, HYP_BF16, HYP_F16, HYP_F64};
    enum { COUNT = sizeof ops / sizeof *ops };
    for (size_t i = 0; i < COUNT; i += 4) {
        hyp_dtype t = types[i / 4 % 4];
        check_operations(&ops[i], 4, t, t == HYP_F64 ? HYP_F64 : HYP_F32, 33, i % 8 ? 24 : 15, 1u << i / 4 % 3);
    }
}

/* Short forms, of results that are rounded at once and of results that are stored, on numbers of every size. */
static void functions_of_small_floats(void **state)
{
    (void)state;
    static const HypPlan__Pointwise__Op ops[] = {OP(EXP),  OP(SIGMOID),   OP(SILU), OP(QUICK_GELU),
                                                 OP(TANH), OP(GELU_TANH), OP(GELU), OP(MUL)};
    static const char *const names[] = {"p", "q", "r", "s"};
    static const double scales[] = {1.0 / 4096, 1, 8, 20000};
    const int64_t dims[] = {16, 40};
    for (int i = 0; i < 8; i++) {
        hyp_dtype t = i % 2 ? HYP_BF16 : HYP_F16;
        HypPlan__Pointwise *s = begin(HYP_F32, 2, dims);
        add_input(s, t, 2, dims, "x", "nn");
        uint32_t scale = pb_instr(&builder, s, OP(CONST), 0, 0, scales[i / 2], 0, HYP_F32);
        uint32_t x = pb_instr(&builder, s, OP(MUL), 0, scale, 0, 0, HYP_F32), reg[4];
        for (int o = 0; o < 4; o++)
            reg[o] = pb_instr(&builder, s, ops[o + 4 * (i % 2)], x, x, 0, 0, o % 2 ? t : HYP_F32);
        for (int o = 0; o < 4; o++) add_output(s, t, 2, names[o], reg[o]);
        check(2, (dims_list){{16, 40}}, tolerance_of(t, 1));
    }
}

static void every_operation_on_integers(void **state)
{
    (void)state;
    static const HypPlan__Pointwise__Op ops[] = {
        OP(ADD),  OP(SUB),   OP(MUL),        OP(DIV),         OP(MIN),         OP(MAX),  OP(RELU), OP(CAST),
        OP(POW),  OP(MOD),   OP(FMOD),       OP(ABS),         OP(NEG),         OP(SIGN), OP(CLIP), OP(NOT),
        OP(LESS), OP(EQUAL), OP(LESS_EQUAL), OP(INVERT),      OP(AND),         OP(OR),   OP(XOR),  OP(SHIFT_LEFT),
        OP(ADD),  OP(MUL),   OP(SHIFT_LEFT), OP(SHIFT_RIGHT), OP(SHIFT_RIGHT), OP(SIGN), OP(DIV),  OP(CLIP)};
    static const hyp_dtype types[] = {HYP_I64, HYP_I32, HYP_U8, HYP_I8, HYP_U16, HYP_U32, HYP_U64, HYP_BOOL};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i += 4) {
        hyp_dtype t = types[i / 4];
        check_operations(&ops[i], 4, t, t == HYP_U64 ? HYP_U64 : HYP_I64, 9, i % 8 ? 16 : 13, 1u << i / 4 % 4);
    }
}

/* A condition, a transposed operand, a scalar, values that are needed again later, an input that is an output, and
 * results of several types. */
static void operands_of_every_kind(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        const int64_t m = wide ? 40 : 7, n = wide ? 32 : 11, dims[] = {m, n}, back[] = {n, m}, turned[] = {1, m};
        HypPlan__Pointwise *s = begin(HYP_F32, 2, dims);
        add_input(s, HYP_F32, 2, dims, "x", "nn");
        uint32_t y = pb_input(&builder, "y", HYP_BF16, 2, pb_consts(&builder, 2, back));
        pb_operand(&builder, s, y, pb_consts(&builder, 2, turned));
        add_input(s, HYP_BOOL, 2, dims, "condition", "nn");
        add_input(s, HYP_F16, 2, dims, "scalar", "11");
        add_input(s, HYP_F32, 2, dims, "column", "n1");
        uint32_t two = pb_instr(&builder, s, OP(CONST), 0, 0, -1.0 / 3, 0, HYP_F32);
        uint32_t sum = pb_instr(&builder, s, OP(ADD), 0, 1, 0, 0, HYP_F32);
        uint32_t wave = pb_instr(&builder, s, OP(TANH), 4, 0, 0, 0, HYP_F16);
        uint32_t both = pb_instr(&builder, s, OP(MUL), sum, wave, 0, 0, HYP_F32);
        uint32_t more = pb_instr(&builder, s, OP(ADD), both, 3, 0, 0, HYP_BF16);
        uint32_t chosen = pb_instr(&builder, s, OP(WHERE), 2, more, 0, 0, HYP_F32);
        s->instrs[s->n_instrs - 1]->c = two;
        add_output(s, HYP_F32, 2, "p", chosen);
        add_output(s, HYP_F16, 2, "q", sum);
        add_output(s, HYP_F32, 2, "r", 0);
        add_output(s, HYP_BOOL, 2, "t", pb_instr(&builder, s, OP(LESS), wave, 1, 0, 0, HYP_BOOL));
        check(wide ? 4 : 2, (dims_list){{m, n}, {n, m}, {m, n}, {1, 1}, {m, 1}}, tolerance_of(HYP_BF16, 1));
    }
}

static void axes_of_every_kind(void **state)
{
    (void)state;
    static const struct {
        int64_t dims[4];
        const char *x, *y;
        hyp_dtype dtype;
    } cases[] = {{{3, 4, 5, 16}, "nnnn", "1n1n", HYP_BF16},  {{3, 4, 5, 6}, "n1nn", "nn11", HYP_F32},
                 {{2, 3, 1, 8}, "1111", "1111", HYP_F16},    {{1, 1, 1, 1}, "nnnn", "1111", HYP_F32},
                 {{1, 2, 2, 1024}, "nnnn", "nnnn", HYP_F32}, {{1, 1, 1, 4099}, "nnnn", "nnnn", HYP_BF16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *dims = cases[i].dims;
        HypPlan__Pointwise *s = begin(HYP_F32, 4, dims);
        add_input(s, cases[i].dtype, 4, dims, "x", cases[i].x);
        add_input(s, cases[i].dtype, 4, dims, "y", cases[i].y);
        add_output(s, cases[i].dtype, 4, "z", pb_instr(&builder, s, OP(SUB), 0, 1, 0, 0, cases[i].dtype));
        int64_t own[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}};
        for (int a = 0; a < 4; a++) {
            own[0][a] = cases[i].x[a] == '1' ? 1 : dims[a];
            own[1][a] = cases[i].y[a] == '1' ? 1 : dims[a];
        }
        check(1u << i % 4, (const int64_t(*)[HYP_MAX_RANK])own, tolerance_of(cases[i].dtype, 1));
    }
}

/* To four types at once. */
static void casts_between_all_types(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64,  HYP_I64,
                                      HYP_I32, HYP_U8,  HYP_I8,   HYP_BOOL, HYP_F8E4M3};
    static const char *const names[] = {"p", "q", "r", "s"};
    enum { TYPES = sizeof types / sizeof *types };
    for (size_t from = 0; from < TYPES; from++) {
        const int64_t count = from % 2 ? 40 : 37;
        HypPlan__Pointwise *s = begin(HYP_F64, 1, &count);
        add_input(s, types[from], 1, &count, "x", "n");
        uint32_t reg[4];
        for (size_t i = 0; i < 4; i++)
            reg[i] = pb_instr(&builder, s, OP(CAST), 0, 0, 0, 0, types[(from + 3 * i + 1) % TYPES]);
        for (size_t i = 0; i < 4; i++) add_output(s, types[(from + 3 * i + 1) % TYPES], 1, names[i], reg[i]);
        check(2, (dims_list){{count}}, (tolerance){0, 0});
    }
}

/* Equal steps; the second writes over the scratch tensor that it reads. */
static void steps_work_in_place(void **state)
{
    (void)state;
    const int64_t count = 5000, one = 1;
    pb_init(&builder);
    uint32_t *dims = pb_consts(&builder, 1, &count), *ones = pb_consts(&builder, 1, &one);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 1, dims), y = pb_output(&builder, "y", HYP_F32, 1, dims);
    const uint32_t chain[] = {x, pb_scratch(&builder, HYP_F32, 0, 1, dims), pb_scratch(&builder, HYP_F32, 0, 1, dims),
                              y};
    for (int i = 0; i < 3; i++) {
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, dims);
        pb_operand(&builder, s, chain[i], ones);
        uint32_t wave = pb_instr(&builder, s, OP(SIN), 0, 0, 0, 0, HYP_F32);
        pb_result(&builder, s, chain[i + 1], pb_instr(&builder, s, OP(ADD), 0, wave, 0, 0, HYP_F32));
    }
    check(4, (dims_list){{count}}, tolerance_of(HYP_F32, 4));
}

/* A kernel behind a gate is another one, by its key, too, and looks at the gate when it has sent for what it reads. */
static void gates(void **state)
{
    (void)state;
    const int64_t dims[] = {1 << 12};
    char *keys[2], names[2][HYP_CUDA_TOLD_NAME];
    pb_init(&builder);
    extents = pb_consts(&builder, 1, dims);
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, extents);
    add_input(s, HYP_F32, 1, dims, "a", "0");
    add_output(s, HYP_F32, 1, "y", pb_instr(&builder, s, HYP_PLAN__POINTWISE__OP__NEG, 0, 0, 0, 0, HYP_F32));
    hyp_cuda_pw_program program = program_of(&builder);
    for (int gated = 0; gated < 2; gated++) {
        hyp_strbuf key = {0}, source = {0};
        size_t bytes;
        program.gated = gated;
        hyp_cuda_pw_key(&program, &key);
        keys[gated] = strdup(hyp_strbuf_text(&key));
        hyp_cuda_pw_source(&program, 1, &source);
        const char *sent = strstr(source.data, "    reads_are_sent();\n"), *gate = strstr(source.data, "(from.gate)");
        assert_non_null(sent);
        assert_true(gated ? gate > sent : !gate);
        source.len = 0;
        hyp_cuda_pw_told_source(&program, 4, names[gated], &source);
        hyp_free(compile(&program, 1, device_sm(), &bytes));
        hyp_free(compile(&program, 0, device_sm(), &bytes));
        hyp_strbuf_dispose(&key);
        hyp_strbuf_dispose(&source);
    }
    assert_string_not_equal(keys[0], keys[1]);
    assert_string_not_equal(names[0], names[1]);
    for (int gated = 0; gated < 2; gated++) free(keys[gated]);
    pb_dispose(&builder);
}

int main(int argc, char **argv)
{
    hyp_diag diag = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_on_floats),   cmocka_unit_test(functions_of_small_floats),
        cmocka_unit_test(every_operation_on_integers), cmocka_unit_test(operands_of_every_kind),
        cmocka_unit_test(axes_of_every_kind),          cmocka_unit_test(casts_between_all_types),
        cmocka_unit_test(steps_work_in_place),
        cmocka_unit_test(gates),
    };
    void *near = NULL;
    has_device = device_start(&dev, argc, argv);
    if (has_device) memcpy(&near, &dev.lib.cublasLtCreate, sizeof near);
    if (hyp_nvrtc_open(&compiler, near, &diag) != HYP_OK) {
        printf("skipped: %s\n", diag.message);
        if (has_device) device_close(&dev);
        return 77;
    }
    if (!has_device) printf("kernels are compiled all the same\n");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (has_device) device_close(&dev);
    hyp_nvrtc_close(&compiler);
    return failed;
}

/* What the CUDA backend decides without a device: index arithmetic, programs of pointwise steps, copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/ops/pointwise_program.h"
#include "runtime/cuda/ops/pointwise_source.h"
#include "runtime/cuda/ops/strided_copy.h"

/* ---- index arithmetic ---------------------------------------------------------------------------------------- */

/* As the kernels do it. */
static int64_t divide(int64_t i, hyp_cuda_extent by)
{
    if (!by.magic) return i;
    uint64_t a = (uint64_t)i, m = by.magic, low = (a & UINT32_MAX) * (m & UINT32_MAX);
    uint64_t middle1 = (a >> 32) * (m & UINT32_MAX) + (low >> 32);
    uint64_t middle2 = (a & UINT32_MAX) * (m >> 32) + (middle1 & UINT32_MAX);
    return (int64_t)(((a >> 32) * (m >> 32) + (middle1 >> 32) + (middle2 >> 32)) >> by.shift);
}

static void quotients_are_exact(void **state)
{
    (void)state;
    static const int64_t edges[] = {1,
                                    2,
                                    3,
                                    5,
                                    7,
                                    10,
                                    64,
                                    641,
                                    4096,
                                    65537,
                                    INT32_MAX,
                                    (int64_t)1 << 32,
                                    ((int64_t)1 << 32) + 1,
                                    ((int64_t)1 << 62) - 1,
                                    (int64_t)1 << 62,
                                    INT64_MAX - 1,
                                    INT64_MAX};
    enum { EDGES = sizeof edges / sizeof *edges };
    for (int d = 0; d < EDGES; d++) {
        hyp_cuda_extent e = hyp_cuda_extent_of(edges[d]);
        for (int i = 0; i < EDGES; i++)
            for (int64_t near = -2; near <= 2; near++) {
                int64_t value = edges[i] + (near > 0 && edges[i] > INT64_MAX - near ? 0 : near);
                if (value >= 0) assert_int_equal(divide(value, e), value / edges[d]);
            }
    }
    uint64_t x = 1;
    for (int i = 0; i < 200000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        int64_t a = (int64_t)(x >> 1), d = (int64_t)(x >> (1 + i % 60)) | 1;
        assert_int_equal(divide(a, hyp_cuda_extent_of(d)), a / d);
    }
}

static void boxes_merge_axes_that_every_lane_walks_as_one(void **state)
{
    (void)state;
    /* [4, 1, 3, 5]: dense in lane 0, broadcast along the outer axes in lane 1 */
    hyp_cuda_box box = {.rank = 4, .lanes = 2, .extent = {5, 3, 1, 4}, .stride = {{1, 5, 77, 15}, {1, 5, 99, 0}}};
    hyp_cuda_box_merge(&box);
    assert_int_equal(box.rank, 2);
    assert_int_equal(box.extent[0], 15);
    assert_int_equal(box.extent[1], 4);
    assert_int_equal(box.stride[0][1], 15);
    assert_int_equal(box.stride[1][1], 0);
    assert_int_equal(hyp_cuda_box_count(&box), 60);
}

/* ---- pointwise programs -------------------------------------------------------------------------------------- */

static HypPlan__Pointwise__Instr instr(HypPlan__Pointwise__Op op, uint32_t a, uint32_t b, double p)
{
    HypPlan__Pointwise__Instr in = HYP_PLAN__POINTWISE__INSTR__INIT;
    in.op = op;
    in.a = a;
    in.b = b;
    in.p = p;
    in.to = HYP_F32;
    return in;
}

static void a_chain_needs_no_temps(void **state)
{
    (void)state;
    HypPlan__Pointwise__Instr list[] = {instr(HYP_PLAN__POINTWISE__OP__CONST, 0, 0, 0.5),
                                        instr(HYP_PLAN__POINTWISE__OP__MUL, 0, 1, 0),
                                        instr(HYP_PLAN__POINTWISE__OP__TANH, 2, 0, 0)};
    HypPlan__Pointwise__Instr *instrs[] = {&list[0], &list[1], &list[2]};
    uint32_t result = 3;
    hyp_cuda_pw_step step = {.box = {.rank = 1, .lanes = 1, .extent = {64}, .stride = {{1}}},
                             .compute = HYP_F32,
                             .inputs = 1,
                             .instrs = 3,
                             .outputs = 1,
                             .input_dtype = {HYP_F32},
                             .output_dtype = {HYP_F32},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    assert_int_equal(p.shared_bytes, 0);
    assert_int_equal(p.args.instrs, 3); /* the constant is none; the store is one */
    assert_true(p.args.instr[0].a.kind == HYP_PW_INPUT && p.args.instr[0].b.kind == HYP_PW_CONST);
    assert_true(p.args.constant[0] == 0.5);
    assert_int_equal(p.args.instr[1].a.kind, HYP_PW_LAST);
    assert_int_equal(p.args.instr[2].op, HYP_PW_STORE);
    assert_int_equal(p.args.instr[2].a.kind, HYP_PW_LAST);
    assert_int_equal(p.kernel, HYP_CUDA_KERNEL_pointwise_f32);
    assert_int_equal(p.args.chunks, 64 / HYP_CUDA_PW_VECTOR);
}

/* A result that only goes to an output of the type that it is rounded to is rounded by the store. */
static void results_are_rounded_once(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        HypPlan__Pointwise__Instr list[] = {instr(HYP_PLAN__POINTWISE__OP__EXP, 0, 0, 0),
                                            instr(HYP_PLAN__POINTWISE__OP__RELU, 1, 0, 0)};
        HypPlan__Pointwise__Instr *instrs[] = {&list[0], &list[1]};
        list[0].to = list[1].to = HYP_BF16;
        uint32_t result = 2;
        hyp_cuda_pw_step step = {.box = {.rank = 1, .lanes = 1, .extent = {64}, .stride = {{1}}},
                                 .compute = HYP_F32,
                                 .inputs = 1,
                                 .instrs = 2,
                                 .outputs = 1,
                                 .input_dtype = {HYP_BF16},
                                 .output_dtype = {narrow ? HYP_BF16 : HYP_F32},
                                 .instr = instrs,
                                 .output_reg = &result};
        hyp_cuda_pw_program p;
        hyp_cuda_pw_encode(&step, &p);
        assert_int_equal(p.args.instr[0].to, HYP_BF16);
        assert_int_equal(p.args.instr[1].to, narrow ? HYP_F32 : HYP_BF16);
    }
}

static void values_needed_later_take_temps_and_give_them_back(void **state)
{
    (void)state;
    /* r1 = exp x; r2 = tanh r1; r3 = r1 + r2 (r1 from a temp); r4 = exp r3; r5 = r3 * r4 (r3 in the same temp) */
    HypPlan__Pointwise__Instr list[] = {
        instr(HYP_PLAN__POINTWISE__OP__EXP, 0, 0, 0), instr(HYP_PLAN__POINTWISE__OP__TANH, 1, 0, 0),
        instr(HYP_PLAN__POINTWISE__OP__ADD, 1, 2, 0), instr(HYP_PLAN__POINTWISE__OP__EXP, 3, 0, 0),
        instr(HYP_PLAN__POINTWISE__OP__MUL, 3, 4, 0)};
    HypPlan__Pointwise__Instr *instrs[5];
    for (int i = 0; i < 5; i++) instrs[i] = &list[i];
    uint32_t result = 5;
    hyp_cuda_pw_step step = {.box = {.rank = 1, .lanes = 1, .extent = {64}, .stride = {{1}}},
                             .compute = HYP_F32,
                             .inputs = 1,
                             .instrs = 5,
                             .outputs = 1,
                             .input_dtype = {HYP_BF16},
                             .output_dtype = {HYP_BF16},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    assert_int_equal(p.shared_bytes, p.threads * HYP_CUDA_PW_VECTOR * sizeof(float)); /* one temp */
    assert_int_equal(p.args.instr[0].temp_plus1, 1);
    assert_true(p.args.instr[2].a.kind == HYP_PW_TEMP && p.args.instr[2].b.kind == HYP_PW_LAST);
    assert_int_equal(p.args.instr[2].temp_plus1, 1);
    assert_int_equal(p.args.instr[4].a.kind, HYP_PW_TEMP);
}

/* Of a pointwise step over [rows, columns]: 1 when x may be read, 2 when y may be written, in wide accesses. */
static int wide_for(int64_t columns, int64_t rows, int64_t stride0, int64_t stride1, hyp_dtype dtype)
{
    HypPlan__Pointwise__Instr relu = instr(HYP_PLAN__POINTWISE__OP__RELU, 0, 0, 0), *instrs[] = {&relu};
    uint32_t result = 1;
    hyp_cuda_pw_step step = {.box = {.rank = 2, .lanes = 1, .extent = {columns, rows}, .stride = {{stride0, stride1}}},
                             .compute = dtype == HYP_F64 ? HYP_F64 : HYP_F32,
                             .inputs = 1,
                             .instrs = 1,
                             .outputs = 1,
                             .input_dtype = {dtype},
                             .output_dtype = {dtype},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    return (p.args.input[0].vector ? 1 : 0) + (p.args.output[0].vector ? 2 : 0);
}

static void wide_accesses_are_used_only_where_every_row_allows_them(void **state)
{
    (void)state;
    assert_int_equal(wide_for(7, 9, 1, 7, HYP_F32), 3); /* dense: one long row */
    assert_int_equal(wide_for(8, 9, 1, 0, HYP_F16), 3);
    assert_int_equal(wide_for(8, 9, 0, 1, HYP_F32), 2);  /* one value for a row */
    assert_int_equal(wide_for(7, 9, 1, 0, HYP_F16), 1);  /* rows of y begin anywhere */
    assert_int_equal(wide_for(8, 9, 1, 13, HYP_F32), 2); /* rows of x do */
    assert_int_equal(wide_for(8, 9, 9, 1, HYP_F32), 2);  /* x is transposed */
    assert_int_equal(wide_for(64, 1, 1, 64, HYP_F64), 0);
}

/* ---- generated kernels --------------------------------------------------------------------------------------- */

/* y = x * 0.5 + z over [40, 96], x in f32 and along the columns alone, z and y in bf16, with one thing changed. */
static hyp_cuda_pw_program changed_step(int change)
{
    static HypPlan__Pointwise__Instr list[3], *const instrs[] = {&list[0], &list[1], &list[2]};
    static uint32_t result;
    list[0] = instr(HYP_PLAN__POINTWISE__OP__CONST, 0, 0, change == 1 ? -0.5 : 0.5);
    list[1] = instr(change == 2 ? HYP_PLAN__POINTWISE__OP__DIV : HYP_PLAN__POINTWISE__OP__MUL, 0, 2, 0);
    list[2] = instr(change == 3 ? HYP_PLAN__POINTWISE__OP__ELU : HYP_PLAN__POINTWISE__OP__ADD, 3, change == 4 ? 0 : 1,
                    change == 5 ? 1 : 0);
    if (change == 6) list[1].to = HYP_BF16;
    result = change == 7 ? 3 : 4;
    hyp_cuda_pw_step step = {.box = {.rank = 2,
                                     .lanes = 2,
                                     .extent = {change == 8 ? 97 : 96, change == 9 ? 41 : 40},
                                     .stride = {{1, change == 10 ? 96 : 0}, {1, change == 11 ? 192 : 96}}},
                             .compute = change == 12 ? HYP_F64 : HYP_F32,
                             .inputs = 2,
                             .instrs = 3,
                             .outputs = 1,
                             .input_dtype = {change == 13 ? HYP_F16 : HYP_F32, HYP_BF16},
                             .output_dtype = {change == 14 ? HYP_F32 : HYP_BF16},
                             .instr = instrs,
                             .output_reg = &result};
    hyp_cuda_pw_program p;
    hyp_cuda_pw_encode(&step, &p);
    return p;
}

static void the_key_of_a_step_tells_all_that_its_kernel_depends_on(void **state)
{
    (void)state;
    enum { CHANGES = 15 };
    hyp_strbuf key[CHANGES] = {{0}};
    for (int i = 0; i < CHANGES; i++) {
        hyp_cuda_pw_program p = changed_step(i);
        hyp_cuda_pw_key(&p, &key[i]);
        assert_true(hyp_cuda_pw_is_key(key[i].data));
        for (int k = 0; k < i; k++) assert_string_not_equal(key[i].data, key[k].data);
    }
    assert_string_equal(key[0].data, "pointwise 2 float [96 40] f32(1 0) bf16(1 96) > bf16; "
                                     "MUL x0 0.5 f32; ADD r0 x1 f32; y0 r1");
    for (int i = 0; i < CHANGES; i++) hyp_strbuf_dispose(&key[i]);
    assert_false(hyp_cuda_pw_is_key("f32 tn 4x2x4"));
}

/* Pieces of 4: 16 bytes of the f32 input. */
static void threads_of_generated_kernels_cover_every_piece(void **state)
{
    (void)state;
    hyp_cuda_pw_program p = changed_step(0);
    uint32_t pieces[3];
    assert_int_equal(hyp_cuda_pw_blocks(&p, 1), 4); /* of 256 threads for 960 pieces */
    assert_int_equal(hyp_cuda_pw_blocks(&p, 2), 2);
    assert_int_equal(hyp_cuda_pw_blocks(&p, 8), 1);
    assert_int_equal(hyp_cuda_pw_piece_counts(&p, 132, pieces), 1); /* few blocks already */
    assert_int_equal(pieces[0], 1);
    assert_int_equal(hyp_cuda_pw_piece_counts(&p, 2, pieces), 2);
    assert_true(pieces[0] == 1 && pieces[1] == 2);
    p = changed_step(8); /* rows of 97 are no whole number of pieces: one element each */
    assert_int_equal(hyp_cuda_pw_blocks(&p, 1), 16);
    assert_int_equal(hyp_cuda_pw_piece_counts(&p, 1, pieces), 3);
    assert_true(pieces[0] == 2 && pieces[1] == 4 && pieces[2] == 8);
}

/* ---- copies -------------------------------------------------------------------------------------------------- */

static hyp_cuda_move plan_copy(size_t size, hyp_cuda_box box, int64_t x_offset)
{
    hyp_cuda_move m;
    box.lanes = 2;
    hyp_cuda_move_plan(&box, size, x_offset, 0, &m);
    return m;
}

static void copies_take_the_cheapest_form(void **state)
{
    (void)state;
    /* dense on both sides, axes listed in any order */
    hyp_cuda_move m = plan_copy(4, (hyp_cuda_box){.rank = 2, .extent = {3, 5}, .stride = {{5, 1}, {5, 1}}}, 0);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_BLOCK);
    assert_int_equal(m.bytes, 60);
    /* rows of 8 floats out of 16: 16-byte pieces */
    m = plan_copy(4, (hyp_cuda_box){.rank = 2, .extent = {8, 5}, .stride = {{1, 16}, {1, 8}}}, 4);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_STRIDED);
    assert_int_equal(m.args.copy.size, 16);
    assert_int_equal(m.args.copy.total, 10);
    assert_int_equal(m.x_offset, 16);
    /* the same from an odd element on: one at a time */
    m = plan_copy(4, (hyp_cuda_box){.rank = 2, .extent = {8, 5}, .stride = {{1, 16}, {1, 8}}}, 3);
    assert_int_equal(m.args.copy.size, 4);
    /* a transposition, with one matrix behind the other */
    m = plan_copy(2, (hyp_cuda_box){.rank = 3, .extent = {40, 33, 2}, .stride = {{33, 1, 1320}, {1, 40, 1320}}}, 0);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_TRANSPOSE);
    assert_int_equal(m.args.copy.size, 2);
    assert_int_equal(m.args.total_tiles, 2 * 2 * 2);
    /* a small one is not worth tiles; a reversed row has no pieces */
    m = plan_copy(2, (hyp_cuda_box){.rank = 2, .extent = {4, 3}, .stride = {{3, 1}, {1, 4}}}, 0);
    assert_int_equal(m.kind, HYP_CUDA_MOVE_STRIDED);
    m = plan_copy(1, (hyp_cuda_box){.rank = 1, .extent = {16}, .stride = {{-1}, {1}}}, 15);
    assert_int_equal(m.args.copy.size, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_are_exact),
        cmocka_unit_test(boxes_merge_axes_that_every_lane_walks_as_one),
        cmocka_unit_test(a_chain_needs_no_temps),
        cmocka_unit_test(results_are_rounded_once),
        cmocka_unit_test(values_needed_later_take_temps_and_give_them_back),
        cmocka_unit_test(wide_accesses_are_used_only_where_every_row_allows_them),
        cmocka_unit_test(the_key_of_a_step_tells_all_that_its_kernel_depends_on),
        cmocka_unit_test(threads_of_generated_kernels_cover_every_piece),
        cmocka_unit_test(copies_take_the_cheapest_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* variable_plan.h - a plan whose runs change state, by hand, and what it gives. All numbers are small integers.
 *
 *   before  w f32[3] = 1 2 3    n i64 = 0    same f32[2] = 5 6    none f32[0]
 *   y = w + x for x f32[3];  z = s for s f32[rows];  picked = w[i] for i i64[1], which fails where i is out of range
 *   after   w = y    n = n + 1    none a copy of itself; no step has to do with same
 *
 * In place w and n are updated where they lie, by the last two steps.
 */
#ifndef HYP_TESTS_RUNTIME_VARIABLE_PLAN_H
#define HYP_TESTS_RUNTIME_VARIABLE_PLAN_H

#include <string.h>

#include "runtime/support.h"

enum { VP_W = 3, VP_SAME = 2, VP_VARIABLES = 4, VP_INPUTS = 3, VP_OUTPUTS = 3 };

static HypPlan__Variable vp_variables[VP_VARIABLES];
static HypPlan__Variable *vp_list[VP_VARIABLES] = {&vp_variables[0], &vp_variables[1], &vp_variables[2],
                                                   &vp_variables[3]};

static inline void vp_sum(plan_builder *b, hyp_dtype type, size_t rank, uint32_t extent, uint32_t x, uint32_t w,
                          double constant, size_t outputs, const uint32_t *to)
{
    uint32_t one = pb_const(b, 1);
    HypPlan__Pointwise *sum = pb_pointwise(b, type, rank, &extent);
    pb_operand(b, sum, x, &one);
    if (w != PB_NONE) pb_operand(b, sum, w, &one);
    uint32_t other = w != PB_NONE ? 1 : pb_instr(b, sum, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, constant, 0, type);
    uint32_t result = pb_instr(b, sum, HYP_PLAN__POINTWISE__OP__ADD, 0, other, 0, 0, type);
    for (size_t i = 0; i < outputs; i++) pb_result(b, sum, to[i], result);
}

typedef struct vp_kind {
    bool sure;     /* picked is w[0], and no run fails */
    bool in_place;
    bool mixed; /* w is, and n is not */
} vp_kind;

static inline void vp_build_with(plan_builder *b, vp_kind kind)
{
    pb_init(b);
    uint32_t one = pb_const(b, 1), three = pb_const(b, VP_W), two = pb_const(b, VP_SAME), zero = pb_const(b, 0);
    uint32_t rows = pb_symbol(b, "rows");
    uint32_t x = pb_input(b, "x", HYP_F32, 1, &three), s = pb_input(b, "s", HYP_F32, 1, &rows);
    uint32_t i = pb_input(b, "i", HYP_I64, 1, &one), w = pb_input(b, "w", HYP_F32, 1, &three);
    uint32_t n = pb_input(b, "n", HYP_I64, 0, NULL), same = pb_input(b, "same", HYP_F32, 1, &two);
    uint32_t none = pb_input(b, "none", HYP_F32, 1, &zero);
    uint32_t y = pb_output(b, "y", HYP_F32, 1, &three), z = pb_output(b, "z", HYP_F32, 1, &rows);
    uint32_t picked = pb_output(b, "picked", HYP_F32, 1, &one);
    uint32_t new_n = pb_output(b, "new:n", HYP_I64, 0, NULL), new_w = pb_output(b, "new:w", HYP_F32, 1, &three);
    uint32_t new_none = pb_output(b, "new:none", HYP_F32, 1, &zero);
    vp_sum(b, HYP_F32, 1, three, x, w, 0, kind.in_place ? 1 : 2, (uint32_t[]){y, new_w});
    if (!kind.in_place) vp_sum(b, HYP_I64, 0, one, n, PB_NONE, 1, 1, &new_n);
    (void)same;
    pb_copy_all(b, none, new_none, zero);
    pb_copy_all(b, s, z, rows);
    if (!kind.sure) {
        HypPlan__Gather *gather = pb_gather(b); /* last but for the commit, so that all else is written when it fails */
        gather->x = w;
        gather->indices = i;
        gather->y = picked;
        gather->outer = gather->inner = gather->count = one;
        gather->axis = three;
    } else {
        pb_copy_all(b, w, picked, one);
    }
    if (kind.in_place) {
        vp_sum(b, HYP_I64, 0, one, n, PB_NONE, 1, 1, &new_n);
        vp_sum(b, HYP_F32, 1, three, x, w, 0, 1, &new_w);
    }
    const uint32_t initial[] = {pb_weight(b, HYP_F32, 1, (int64_t[]){VP_W}, (float[]){1, 2, 3}), PB_NONE,
                                pb_weight(b, HYP_F32, 1, (int64_t[]){VP_SAME}, (float[]){5, 6}), PB_NONE};
    static const uint32_t outputs_plus1[] = {5, 4, 0, 6};
    for (uint32_t k = 0; k < VP_VARIABLES; k++) {
        hyp_plan__variable__init(&vp_variables[k]);
        vp_variables[k].input = VP_INPUTS + k;
        vp_variables[k].output_plus1 = outputs_plus1[k];
        vp_variables[k].initial_plus1 = initial[k] + 1; /* PB_NONE + 1 is 0 */
        vp_variables[k].in_place = kind.in_place && k < (kind.mixed ? 1 : 2);
    }
    b->program.variables = vp_list;
    b->program.n_variables = VP_VARIABLES;
}


/* All that a run takes and gives, on the host. */
typedef struct vp_call {
    float x[VP_W], s[4], y[VP_W], z[4], picked;
    int64_t i;
    hyp_tensor in[VP_INPUTS], out[VP_OUTPUTS];
} vp_call;

static inline void vp_set_up(vp_call *c, float x, int64_t rows, int64_t i)
{
    *c = (vp_call){.i = i};
    for (int k = 0; k < VP_W; k++) c->x[k] = x * (float)(k + 1);
    for (int k = 0; k < 4; k++) c->s[k] = x + (float)k;
    c->in[0] = tensor_of("x", HYP_F32, c->x, 1, (int64_t[]){VP_W});
    c->in[1] = tensor_of("s", HYP_F32, c->s, 1, &rows);
    c->in[2] = tensor_of("i", HYP_I64, &c->i, 1, (int64_t[]){1});
    c->out[0] = tensor_of("y", HYP_F32, c->y, 1, (int64_t[]){VP_W});
    c->out[1] = tensor_of("z", HYP_F32, c->z, 1, &rows);
    c->out[2] = tensor_of("picked", HYP_F32, &c->picked, 1, (int64_t[]){1});
}

static inline hyp_status vp_run(hyp_context *context, vp_call *c, bool keep, hyp_diag *diag)
{
    const hyp_run_options how = {.size = sizeof how, .keep_variables = keep};
    return hyp_context_run_with(context, c->in, VP_INPUTS, c->out, VP_OUTPUTS, keep ? &how : NULL, diag);
}

/* The state is w0 (1 2 3) after `n` runs that have added `sum` times (1 2 3) to it. */
static inline void vp_check(hyp_context *context, float sum, int64_t n)
{
    float w[VP_W], same[VP_SAME];
    int64_t count = -1;
    hyp_tensor state[] = {{.name = "n", .data = &count, .bytes = sizeof count, .dtype = HYP_I64},
                          {.name = "w", .data = w, .bytes = sizeof w, .dtype = HYP_F32},
                          {.name = "same", .data = same, .bytes = sizeof same, .dtype = HYP_F32},
                          {.name = "none", .dtype = HYP_F32}};
    assert_ok(hyp_context_variable_get(context, state, VP_VARIABLES, diag));
    assert_int_equal(state[1].rank, 1);
    assert_int_equal(state[1].dims[0], VP_W);
    assert_int_equal(state[0].rank, 0);
    for (int k = 0; k < VP_W; k++)
        if (w[k] != (1 + sum) * (float)(k + 1)) fail_msg("w[%d] is %g, not %g", k, w[k], (1 + sum) * (float)(k + 1));
    assert_int_equal(count, n);
    assert_true(same[0] == 5 && same[1] == 6);
}

#endif

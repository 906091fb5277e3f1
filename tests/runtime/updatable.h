/* updatable.h - a plan whose weights can be replaced, and what it gives with any of them, exactly.
 *
 * y[rows, OUT] = relu(x[rows, IN] w1 + b + c) w2^T, where w1[IN, HIDDEN], b, c and w2[OUT, HIDDEN] are initializers:
 * the plan has w1 the other way round, one vector in place of b and c, and w2 as it is. All numbers are small integers,
 * so that sums are exact in whatever order, and known here from integers.
 */
#ifndef HYP_TESTS_RUNTIME_UPDATABLE_H
#define HYP_TESTS_RUNTIME_UPDATABLE_H

#include <stdio.h>
#include <string.h>

#include "runtime/support.h"

enum { UP_IN = 20, UP_HIDDEN = 50, UP_OUT = 10, UP_MOST_ROWS = 40 };

/* The initializers of one version of the model. */
typedef struct up_version {
    float w1[UP_IN * UP_HIDDEN], b[UP_HIDDEN], c[UP_HIDDEN], w2[UP_OUT * UP_HIDDEN];
} up_version;

static inline float up_number(uint64_t version, uint64_t place)
{
    return (float)((int64_t)((version * 7919 + place * 104729 + place * place % 31) % 7) - 3);
}

static inline void up_draw(uint64_t version, up_version *out)
{
    float *all = (float *)(void *)out;
    for (size_t i = 0; i < sizeof *out / sizeof *all; i++) all[i] = up_number(version, i);
}

static inline float up_x(int64_t row, int64_t column) { return (float)((row * 5 + column * 3) % 9 - 4); }

/* What a run gives, in y[rows * UP_OUT]. */
static inline void up_expect(const up_version *v, int64_t rows, float *y)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t h[UP_HIDDEN];
        for (int n = 0; n < UP_HIDDEN; n++) {
            h[n] = (int64_t)v->b[n] + (int64_t)v->c[n];
            for (int k = 0; k < UP_IN; k++) h[n] += (int64_t)up_x(r, k) * (int64_t)v->w1[k * UP_HIDDEN + n];
            if (h[n] < 0) h[n] = 0;
        }
        for (int o = 0; o < UP_OUT; o++) {
            int64_t sum = 0;
            for (int n = 0; n < UP_HIDDEN; n++) sum += h[n] * (int64_t)v->w2[o * UP_HIDDEN + n];
            y[r * UP_OUT + o] = (float)sum;
        }
    }
}

/* All initializers, for hyp_engine_update. */
enum { UP_WEIGHTS = 4 };
static inline void up_tensors(up_version *v, hyp_tensor out[UP_WEIGHTS])
{
    out[0] = tensor_of("w1", HYP_F32, v->w1, 2, (int64_t[]){UP_IN, UP_HIDDEN});
    out[1] = tensor_of("b", HYP_F32, v->b, 1, (int64_t[]){UP_HIDDEN});
    out[2] = tensor_of("c", HYP_F32, v->c, 1, (int64_t[]){UP_HIDDEN});
    out[3] = tensor_of("w2", HYP_F32, v->w2, 2, (int64_t[]){UP_OUT, UP_HIDDEN});
}

/* ---- the plan ------------------------------------------------------------------------------------------ */

typedef struct up_plan {
    plan_builder outer, inner;
    HypPlan__Update updates[3], *list[3];
    HypPlan__Update__Piece pieces[3], *piece_list[3];
} up_plan;

/* Takes the inner plan as update i, which gives all of a weight. */
static inline void up_add(up_plan *p, size_t i, uint32_t weight)
{
    char path[PB_PATH];
    pb_write(&p->inner, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    HypPlan__Update *u = p->list[i] = &p->updates[i];
    hyp_plan__update__init(u);
    u->plan.data = hyp_arena_alloc(&p->outer.arena, 1 << 16);
    u->plan.len = fread(u->plan.data, 1, 1 << 16, file);
    fclose(file);
    pb_remove(&p->inner, path);
    p->piece_list[i] = &p->pieces[i];
    hyp_plan__update__piece__init(p->piece_list[i]);
    p->pieces[i].tensor = weight;
    u->pieces = &p->piece_list[i];
    u->n_pieces = 1;
    p->outer.program.updates = p->list;
    p->outer.program.n_updates = i + 1;
}

/* Makes p->outer the plan with these weights, `rows` fixed or 0. */
static inline void up_build(up_plan *p, const up_version *v, int64_t rows)
{
    static float turned[UP_HIDDEN * UP_IN], sum[UP_HIDDEN];
    plan_builder *b = &p->outer, *u = &p->inner;
    for (int n = 0; n < UP_HIDDEN; n++) {
        for (int k = 0; k < UP_IN; k++) turned[n * UP_IN + k] = v->w1[k * UP_HIDDEN + n];
        sum[n] = v->b[n] + v->c[n];
    }
    pb_init(b);
    uint32_t m = rows ? pb_const(b, rows) : pb_symbol(b, "rows"), in = pb_const(b, UP_IN);
    uint32_t hidden = pb_const(b, UP_HIDDEN), out = pb_const(b, UP_OUT);
    uint32_t x = pb_input(b, "x", HYP_F32, 2, (uint32_t[]){m, in});
    uint32_t y = pb_output(b, "y", HYP_F32, 2, (uint32_t[]){m, out});
    uint32_t h = pb_scratch(b, HYP_F32, 0, 2, (uint32_t[]){m, hidden});
    uint32_t w1 = pb_weight(b, HYP_F32, 2, (int64_t[]){UP_HIDDEN, UP_IN}, turned);
    uint32_t bias = pb_weight(b, HYP_F32, 1, (int64_t[]){UP_HIDDEN}, sum);
    uint32_t w2 = pb_weight(b, HYP_F32, 2, (int64_t[]){UP_OUT, UP_HIDDEN}, v->w2);
    HypPlan__Linear *s = pb_linear(b, x, y, m);
    pb_layer(b, s, UP_HIDDEN, UP_IN, w1, bias, HYP_PLAN__ACT__ACT_RELU, h);
    pb_layer(b, s, UP_OUT, UP_HIDDEN, w2, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);

    pb_init(u);
    in = pb_const(u, UP_IN), hidden = pb_const(u, UP_HIDDEN), out = pb_const(u, UP_OUT);
    uint32_t zero = pb_const(u, 0), one = pb_const(u, 1);
    HypPlan__Copy *copy = pb_copy(u);
    copy->x = pb_input(u, "w1", HYP_F32, 2, (uint32_t[]){in, hidden});
    copy->y = pb_output(u, "=> 0", HYP_F32, 2, (uint32_t[]){hidden, in});
    copy->n_extents = copy->n_x_strides = copy->n_y_strides = 2;
    copy->extents = (uint32_t[]){hidden, in};
    copy->x_strides = (uint32_t[]){one, hidden};
    copy->y_strides = (uint32_t[]){in, one};
    copy->x_offset = copy->y_offset = zero;
    up_add(p, 0, w1);

    pb_init(u);
    hidden = pb_const(u, UP_HIDDEN), one = pb_const(u, 1);
    uint32_t left = pb_input(u, "b", HYP_F32, 1, &hidden), right = pb_input(u, "c", HYP_F32, 1, &hidden);
    HypPlan__Pointwise *add = pb_pointwise(u, HYP_F32, 1, &hidden);
    pb_operand(u, add, left, &one);
    pb_operand(u, add, right, &one);
    uint32_t result = pb_instr(u, add, HYP_PLAN__POINTWISE__OP__ADD, 0, 1, 0, 0, HYP_F32);
    pb_result(u, add, pb_output(u, "=> 0", HYP_F32, 1, &hidden), result);
    up_add(p, 1, bias);

    pb_init(u);
    out = pb_const(u, UP_OUT), hidden = pb_const(u, UP_HIDDEN);
    uint32_t from = pb_input(u, "w2", HYP_F32, 2, (uint32_t[]){out, hidden});
    pb_copy_all(u, from, pb_output(u, "=> 0", HYP_F32, 2, (uint32_t[]){out, hidden}), pb_const(u, UP_OUT * UP_HIDDEN));
    up_add(p, 2, w2);
}

static inline hyp_status up_run(hyp_context *context, int64_t rows, float *y, hyp_diag *diag)
{
    float x[UP_MOST_ROWS * UP_IN];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < UP_IN; k++) x[r * UP_IN + k] = up_x(r, k);
    hyp_tensor in = tensor_of("x", HYP_F32, x, 2, (int64_t[]){rows, UP_IN});
    hyp_tensor out = {.name = "y", .data = y, .bytes = UP_MOST_ROWS * UP_OUT * sizeof *y, .dtype = HYP_F32};
    return hyp_context_run(context, &in, 1, &out, 1, diag);
}

#endif

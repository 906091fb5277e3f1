/* sample_plan.h - a hand-made program with a step of every kernel, for tests of the plan layer. */
#ifndef HYP_TESTS_SAMPLE_PLAN_H
#define HYP_TESTS_SAMPLE_PLAN_H

#include "plan/plan.h"

/* Tensors of the sample by name; dims are in brackets. */
enum sample_tensor {
    S_X,       /* input f32 [batch 4] */
    S_IDS,     /* input i64 [3] */
    S_W1,      /* weight f32 [8 4] */
    S_B1,      /* weight f32 [8] */
    S_W2,      /* weight f32 [4 8] */
    S_HIDDEN,  /* scratch 0 [batch 8] */
    S_Y,       /* scratch 1 [batch 4]: the linear's result */
    S_Z,       /* scratch 1 [batch 4]: pointwise, in place of S_Y */
    S_CAT,     /* scratch 0 [batch 8]: S_Z and S_X side by side */
    S_FLAT,    /* view of S_CAT [(* 8 batch)] */
    S_PRODUCT, /* scratch 2 [batch batch]: S_Z S_X^T */
    S_SOFT,    /* output [batch 8]: softmax of S_CAT */
    S_SUM,     /* output [batch]: of S_PRODUCT */
    S_PICKED,  /* output [batch 3]: columns of S_CAT */
    S_SHAPE,   /* output i64 [2] */
    S_COPY,    /* output [(* 8 batch)]: of S_FLAT */
    S_MIXED,   /* output [batch 4]: attention of S_X to itself with S_PRODUCT as mask */
    S_TENSORS
};
enum sample_dim { D_0, D_1, D_2, D_3, D_4, D_8, D_BATCH, D_8BATCH, D_DIMS };
enum sample_step {
    T_LINEAR,
    T_POINTWISE,
    T_LEFT,
    T_RIGHT,
    T_MATMUL,
    T_SOFTMAX,
    T_REDUCE,
    T_GATHER,
    T_FILL,
    T_COPY,
    T_ATTENTION,
    T_STEPS
};

/* Builds the program in the arena, weights placed. Never fails (the test process has memory). */
HypPlan__Program *sample_program(hyp_arena *arena);
/* The bytes of its weights: element i of tensor t is t + i / 16. */
hyp_plan_weights sample_weights(void);

#endif

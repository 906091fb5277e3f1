/* instructions.h - what pointwise kernels have in common, those that interpret a program (kernels.h) and those that are
 * generated for one (generate.h), whose source this file is a part of. */
#ifndef HYP_RUNTIME_CUDA_INSTRUCTIONS_H
#define HYP_RUNTIME_CUDA_INSTRUCTIONS_H

#ifndef HYP_CUDA_GENERATED
#include <stdint.h>
#endif

enum {
    HYP_CUDA_PW_INPUTS = 8, /* at least what plan.h allows */
    HYP_CUDA_PW_OUTPUTS = 4,
};

/* The one argument of a generated kernel. */
typedef struct hyp_cuda_pw_addresses {
    uint64_t input[HYP_CUDA_PW_INPUTS], output[HYP_CUDA_PW_OUTPUTS];
} hyp_cuda_pw_addresses;

/* The instructions of a pointwise program: the numbers of plan.proto's Pointwise.Op. */
/* clang-format off */
#define HYP_PW_OPS(X) \
    X(ADD, 0) X(SUB, 1) X(MUL, 2) X(DIV, 3) X(POW, 4) X(MIN, 5) X(MAX, 6) X(RELU, 10) X(LEAKY_RELU, 11) \
    X(SIGMOID, 12) X(TANH, 13) X(GELU, 14) X(GELU_TANH, 15) X(ERF, 16) X(EXP, 17) X(SQRT, 18) X(CLIP, 19) \
    X(CAST, 20) X(LOG, 22) X(ABS, 23) X(NEG, 24) X(SIGN, 25) X(CEIL, 26) X(FLOOR, 27) X(ROUND, 28) X(SIN, 29) \
    X(COS, 30) X(TAN, 31) X(ASIN, 32) X(ACOS, 33) X(ATAN, 34) X(SINH, 35) X(COSH, 36) X(ASINH, 37) X(ACOSH, 38) \
    X(ATANH, 39) X(SOFTPLUS, 40) X(ELU, 41) X(NOT, 42) X(INVERT, 43) X(SILU, 44) X(QUICK_GELU, 45) \
    X(HARD_SWISH, 46) X(MISH, 47) X(MOD, 50) X(FMOD, 51) X(EQUAL, 52) X(LESS, 53) X(LESS_EQUAL, 54) X(AND, 55) \
    X(OR, 56) X(XOR, 57) X(SHIFT_LEFT, 58) X(SHIFT_RIGHT, 59) X(WHERE, 60)
/* clang-format on */
enum {
#define X(name, number) HYP_PW_##name = number,
    HYP_PW_OPS(X)
#undef X
        HYP_PW_STORE = 64, /* ours: writes operand a to output b.index; after every other instruction */
};

#endif

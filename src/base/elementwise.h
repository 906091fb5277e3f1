/* elementwise.h - the elementwise operators that plans have, one row each: what the compiler, the plan and every backend
 * make their lists of. docs/adding.md walks through a new one. The source of generated CUDA kernels has it, too.
 *
 * A function of one floating-point value a, with numbers p and q of its own, is a row
 *
 *     X(op, "name", OP, number, act, weight, kind, "Onnx", since, expression)
 *       |   |       |   |       |    |       |     |       |      its value, in the arithmetic of whoever includes this
 *       |   |       |   |       |    |       |     |       the opset from which on that is so, 0 where an importer of its own is wanted
 *       |   |       |   |       |    |       |     what ONNX calls it
 *       |   |       |   |       |    |       V: there is a form for vectors; I: an instruction of processors;
 *       |   |       |   |       |    |         L: a function of a library, rare and long
 *       |   |       |   |       |    how much it takes where simple arithmetic is 1
 *       |   |       |   |       Act of plan.proto, if products and convolutions can end in it, else 0
 *       |   |       |   Pointwise.Op of plan.proto
 *       |   |       its name there
 *       |   in text
 *       HYP_OP_<op> of ops.def
 *
 * An expression is made of operators, numbers NUM(1.5), functions LIB(tanh) that C's library has and functions OWN(relu) that it
 * lacks (relu, sigmoid, gelu...). Whoever computes defines NUM, LIB and OWN. A row that is missing or too much does not build.
 */
#ifndef HYP_BASE_ELEMENTWISE_H
#define HYP_BASE_ELEMENTWISE_H

/* clang-format off */
/* By `act`, of which none is left out. A row is C where convolutions can end in it, too, and P where products alone can. */
#define HYP_ACTIVATION_ROWS(P, C) \
    C(relu, "relu", RELU, 10, 1, 1, V, "Relu", 7, OWN(relu)(a)) \
    P(gelu, "gelu", GELU, 14, 2, 10, V, "", 0, OWN(gelu)(a)) \
    P(gelu_tanh, "gelu-tanh", GELU_TANH, 15, 3, 10, V, "", 0, \
      NUM(0.5) * a * (NUM(1.0) + LIB(tanh)(NUM(0.79788456080286535588) * (a + NUM(0.044715) * a * a * a)))) \
    C(sigmoid, "sigmoid", SIGMOID, 12, 4, 6, V, "Sigmoid", 7, OWN(sigmoid)(a)) \
    C(tanh, "tanh", TANH, 13, 5, 6, V, "Tanh", 7, LIB(tanh)(a)) \
    C(silu, "silu", SILU, 44, 6, 6, V, "", 0, a * OWN(sigmoid)(a)) \
    P(quick_gelu, "quick-gelu", QUICK_GELU, 45, 7, 6, V, "", 0, a * OWN(sigmoid)(NUM(1.702) * a)) \
    C(hard_swish, "hard-swish", HARD_SWISH, 46, 8, 3, V, "", 0, a * OWN(at_most)(OWN(relu)(a * NUM(1.0 / 6) + NUM(0.5)), NUM(1.0))) \
    C(mish, "mish", MISH, 47, 9, 10, V, "", 0, a * LIB(tanh)(OWN(softplus)(a))) \
    C(softplus, "softplus", SOFTPLUS, 40, 10, 10, V, "Softplus", 7, OWN(softplus)(a))
#define HYP_ACTIVATIONS(X) HYP_ACTIVATION_ROWS(X, X)
#define HYP_CONV_ACTIVATIONS(X) HYP_ACTIVATION_ROWS(HYP_NO_ROW, X)
#define HYP_NO_ROW(...)
#define HYP_FUNCTIONS(X) \
    X(erf, "erf", ERF, 16, 0, 10, V, "Erf", 9, LIB(erf)(a)) \
    X(exp, "exp", EXP, 17, 0, 6, V, "Exp", 7, LIB(exp)(a)) \
    X(log, "log", LOG, 22, 0, 6, V, "Log", 7, LIB(log)(a)) \
    X(softsign, "softsign", SOFTSIGN, 48, 0, 3, V, "Softsign", 7, a / (NUM(1.0) + LIB(fabs)(a))) \
    X(leaky_relu, "leaky-relu", LEAKY_RELU, 11, 0, 1, V, "", 0, OWN(leaky_relu)(a, p)) \
    X(elu, "elu", ELU, 41, 0, 6, V, "", 0, OWN(elu)(a, p, q)) \
    X(sqrt, "sqrt", SQRT, 18, 0, 3, I, "Sqrt", 7, LIB(sqrt)(a)) \
    X(ceil, "ceil", CEIL, 26, 0, 1, I, "Ceil", 7, LIB(ceil)(a)) \
    X(floor, "floor", FLOOR, 27, 0, 1, I, "Floor", 7, LIB(floor)(a)) \
    X(round, "round", ROUND, 28, 0, 1, I, "Round", 11, LIB(rint)(a)) \
    X(sin, "sin", SIN, 29, 0, 20, L, "Sin", 7, LIB(sin)(a)) \
    X(cos, "cos", COS, 30, 0, 20, L, "Cos", 7, LIB(cos)(a)) \
    X(tan, "tan", TAN, 31, 0, 20, L, "Tan", 7, LIB(tan)(a)) \
    X(asin, "asin", ASIN, 32, 0, 20, L, "Asin", 7, LIB(asin)(a)) \
    X(acos, "acos", ACOS, 33, 0, 20, L, "Acos", 7, LIB(acos)(a)) \
    X(atan, "atan", ATAN, 34, 0, 20, L, "Atan", 7, LIB(atan)(a)) \
    X(sinh, "sinh", SINH, 35, 0, 20, L, "Sinh", 9, LIB(sinh)(a)) \
    X(cosh, "cosh", COSH, 36, 0, 20, L, "Cosh", 9, LIB(cosh)(a)) \
    X(asinh, "asinh", ASINH, 37, 0, 20, L, "Asinh", 9, LIB(asinh)(a)) \
    X(acosh, "acosh", ACOSH, 38, 0, 20, L, "Acosh", 9, LIB(acosh)(a)) \
    X(atanh, "atanh", ATANH, 39, 0, 20, L, "Atanh", 9, LIB(atanh)(a))
/* What integers have as well, or several operands: X(op, OP, number, operands, weight). Backends compute them by
 * themselves, each in its way. */
#define HYP_PLAIN_OPS(X) \
    X(add, ADD, 0, 2, 1) X(sub, SUB, 1, 2, 1) X(mul, MUL, 2, 2, 1) X(div, DIV, 3, 2, 3) X(pow, POW, 4, 2, 20) \
    X(min, MIN, 5, 2, 1) X(max, MAX, 6, 2, 1) X(clip, CLIP, 19, 1, 1) \
    X(cast, CAST, 20, 1, 1) X(abs, ABS, 23, 1, 1) X(neg, NEG, 24, 1, 1) X(sign, SIGN, 25, 1, 1) \
    X(not, INVERT, 43, 1, 1) X(mod, MOD, 50, 2, 20) X(equal, EQUAL, 52, 2, 1) X(less, LESS, 53, 2, 1) \
    X(less_equal, LESS_EQUAL, 54, 2, 1) X(and, AND, 55, 2, 1) X(or, OR, 56, 2, 1) X(xor, XOR, 57, 2, 1) \
    X(shift_left, SHIFT_LEFT, 58, 2, 1) X(shift_right, SHIFT_RIGHT, 59, 2, 1) X(where, WHERE, 60, 3, 1)
/* Forms of them that plans have and text has not: X(OP, number, operands). */
#define HYP_PLAIN_FORMS(X) X(NOT, 42, 1) X(FMOD, 51, 2)
/* clang-format on */

/* " relu gelu ...", for messages. */
#define HYP_ACTIVATION_NAME(op, name, ...) " " name
#define HYP_ACTIVATION_NAMES HYP_ACTIVATIONS(HYP_ACTIVATION_NAME)

enum {
#define X(op, name, OP, number, ...) HYP_PW_##OP = number,
    HYP_ACTIVATIONS(X) HYP_FUNCTIONS(X)
#undef X
#define X(op, OP, number, ...) HYP_PW_##OP = number,
        HYP_PLAIN_OPS(X)
#undef X
#define X(OP, number, ...) HYP_PW_##OP = number,
            HYP_PLAIN_FORMS(X)
#undef X
};
#define X(...) +1
enum { HYP_ACTS = 1 HYP_ACTIVATIONS(X) }; /* with none */
#undef X

#endif

// pointwise.cuh - the instructions of pointwise steps on single elements, for the kernels that interpret them
// (kernels.cu) and those that are generated (pieces.cuh): both compute the same.
#ifndef HYP_RUNTIME_CUDA_KERNELS_POINTWISE_CUH
#define HYP_RUNTIME_CUDA_KERNELS_POINTWISE_CUH

#ifndef HYP_CUDA_GENERATED
#include "runtime/cuda/kernels/instructions.h"
#include "runtime/cuda/kernels/scalar.cuh"
#endif

// What is long has one copy in a kernel that has every instruction. A generated one has few, whose types and numbers
// the compiler knows.
#ifdef HYP_CUDA_GENERATED
#define HYP_CUDA_LONG __forceinline__
#else
#define HYP_CUDA_LONG __noinline__
#endif

inline namespace hyp_device
{

// ---- element types ----------------------------------------------------------------------------------------

__device__ __forceinline__ constexpr uint32_t element_size(uint32_t dtype)
{
    switch (dtype) {
    case HYP_F64:
    case HYP_I64:
    case HYP_U64: return 8;
    case HYP_F32:
    case HYP_I32:
    case HYP_U32: return 4;
    case HYP_F16:
    case HYP_BF16:
    case HYP_I16:
    case HYP_U16: return 2;
    default: return 1; // HYP_F8E4M3, HYP_I8, HYP_U8, HYP_BOOL
    }
}

// The integer that is left of v when it is stored in this type.
__device__ __forceinline__ int64_t wrap(uint32_t dtype, int64_t v)
{
    int shift = 64 - 8 * (int)element_size(dtype);
    bool is_signed = dtype == HYP_I64 || dtype == HYP_I32 || dtype == HYP_I16 || dtype == HYP_I8;
    if (dtype == HYP_BOOL) return v != 0;
    uint64_t high = (uint64_t)v << shift;
    return is_signed ? (int64_t)high >> shift : (int64_t)(high >> shift);
}

// Is C a type of integers?
template <typename C> constexpr bool whole = (C)0.5 == (C)0;

template <typename C> __device__ __forceinline__ C from_integer(uint32_t dtype, int64_t v)
{
    return dtype == HYP_U64 ? (C)(uint64_t)v : (C)v;
}
// The conversion saturates; NaN gives 0 as in the other backends.
template <typename C> __device__ __forceinline__ int64_t to_integer(C v) { return v == v ? (int64_t)v : 0; }
template <> __device__ __forceinline__ int64_t to_integer(int64_t v) { return v; }
template <> __device__ __forceinline__ int64_t to_integer(uint64_t v) { return (int64_t)v; }

// Integers are computed from integers alone, so that code for floats is left out where C is one.
__device__ __forceinline__ float real(float v) { return v; }
__device__ __forceinline__ double real(double v) { return v; }
__device__ __forceinline__ float real(int64_t v) { return (float)v; }
__device__ __forceinline__ float real(uint64_t v) { return (float)v; }

template <typename C> __device__ __forceinline__ bool is_negative(C v) { return v < 0; }
template <> __device__ __forceinline__ bool is_negative(uint64_t) { return false; }

// An element of this type from the bits that memory has, and back; integers keep the bits that their type has.
template <typename C> __device__ __forceinline__ C from_bits(uint32_t dtype, uint64_t bits)
{
    switch (whole<C> ? HYP_I64 : dtype) {
    case HYP_F32: return (C)__uint_as_float((uint32_t)bits);
    case HYP_F16: return (C)from_half((uint16_t)bits);
    case HYP_BF16: return (C)from_bfloat((uint16_t)bits);
    case HYP_F8E4M3: return (C)from_byte((uint8_t)bits);
    case HYP_F64: return (C)__longlong_as_double((long long)bits);
    default: return from_integer<C>(dtype, wrap(dtype, (int64_t)bits));
    }
}
template <typename C> __device__ __forceinline__ uint64_t to_bits(uint32_t dtype, C v)
{
    switch (whole<C> ? HYP_I64 : dtype) {
    case HYP_F32: return __float_as_uint((float)v);
    case HYP_F16: return half_bits(real(v));
    case HYP_BF16: return bfloat_bits(real(v));
    case HYP_F8E4M3: return to_byte(real(v));
    case HYP_F64: return (uint64_t)__double_as_longlong((double)v);
    default: return dtype == HYP_BOOL ? v != (C)0 : (uint64_t)to_integer(v);
    }
}

template <typename C> __device__ HYP_CUDA_LONG C load(uint32_t dtype, uint64_t data, int64_t i)
{
    return from_bits<C>(dtype, load_bits(element_size(dtype), data, i));
}
template <typename C> __device__ HYP_CUDA_LONG void store(uint32_t dtype, uint64_t data, int64_t i, C v)
{
    store_bits(element_size(dtype), data, i, to_bits(dtype, v));
}
// The value that storing to `dtype` and loading again would give.
template <typename C> __device__ HYP_CUDA_LONG C round_to(uint32_t dtype, C v)
{
    return from_bits<C>(dtype, to_bits(dtype, v));
}

// ---- instructions -----------------------------------------------------------------------------------------

__device__ __noinline__ float power(float a, float b) { return b == 2 ? __fmul_rn(a, a) : powf(a, b); }
// CUDA's pow of doubles is off by up to two units: 9 to the 1/2 would be just below 3, and 2 once it is made an integer.
__device__ __noinline__ double power(double a, double b)
{
    if (b == 0.5 && a >= 0) return sqrt(a) + 0.0; // of -0 it is 0
    return b == 2 ? __dmul_rn(a, a) : pow(a, b);
}
template <typename C> __device__ __forceinline__ C power(C a, C b)
{
    if (is_negative(b)) return a == 1 ? 1 : a == (C)-1 ? (b & 1 ? (C)-1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)a;
    for (; b; b >>= 1, base *= base)
        if (b & 1) result *= base;
    return (C)result;
}

template <typename C> __device__ __forceinline__ C quotient(C a, C b) { return a / b; }
template <> __device__ __noinline__ int64_t quotient(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
template <> __device__ __noinline__ uint64_t quotient(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

template <typename C> __device__ __forceinline__ C rounded_sum(C a, C b) { return a + b; }
template <typename C> __device__ __forceinline__ C rounded_product(C a, C b) { return a * b; }

// The remainder with the sign of b, or of a.
template <typename C> __device__ __forceinline__ C floored(C r, C b)
{
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <typename C> __device__ __noinline__ C remainder_of(C a, C b, bool keep_sign_of_a)
{
    C r = fmod(a, b);
    if (keep_sign_of_a || r != r) return r;
    return r == 0 ? copysign(r, b) : floored(r, b);
}
template <> __device__ __noinline__ int64_t remainder_of(int64_t a, int64_t b, bool keep_sign_of_a)
{
    int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return keep_sign_of_a ? r : floored(r, b);
}
template <> __device__ __noinline__ uint64_t remainder_of(uint64_t a, uint64_t b, bool) { return b == 0 ? 0 : a % b; }

// Operators on bits; to the right copies of the sign of a signed C come in.
template <typename C> __device__ __forceinline__ C bits(uint32_t op, C a, C b)
{
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    switch (op) {
    case HYP_PW_INVERT: return (C)~u;
    case HYP_PW_AND: return (C)(u & v);
    case HYP_PW_OR: return (C)(u | v);
    case HYP_PW_XOR: return (C)(u ^ v);
    case HYP_PW_SHIFT_LEFT: return (C)(v > 63 ? 0 : u << v);
    default: return v > 63 ? (C)(is_negative(a) ? -1 : 0) : (C)(a >> (int)v); // HYP_PW_SHIFT_RIGHT
    }
}
template <> __device__ __forceinline__ float bits(uint32_t, float a, float) { return a; }
template <> __device__ __forceinline__ double bits(uint32_t, double a, double) { return a; }

// A bound of CLIP: for integers the host wrote its bits.
template <typename C> __device__ __forceinline__ C bound(double p)
{
    if (whole<C>) return (C)__double_as_longlong(p);
    return (C)p;
}

// Rare and long, so they exist in double alone: a step that has them runs there, whatever its type. Each family is made
// of one function of the library.
__device__ __noinline__ double trigonometric(uint32_t op, double v)
{
    double a = fabs(v), s, c;
    switch (op) {
    case HYP_PW_SIN:
    case HYP_PW_COS:
    case HYP_PW_TAN: sincos(v, &s, &c); return op == HYP_PW_SIN ? s : op == HYP_PW_COS ? c : s / c;
    case HYP_PW_ASIN:
    case HYP_PW_ACOS:
    case HYP_PW_ATAN:
        c = op == HYP_PW_ATAN ? 1.0 : sqrt((1.0 - v) * (1.0 + v));
        return op == HYP_PW_ACOS ? atan2(c, v) : atan2(v, c);
    case HYP_PW_SINH:
    case HYP_PW_COSH: // of e^(a/2) = 1 + s, whose square overflows where it should
        s = expm1(0.5 * (a > 1418.0 ? 1418.0 : a));
        c = 1.0 + s;
        if (op == HYP_PW_COSH) return 0.5 * c * c + 0.5 / (c * c);
        return copysign(s * ((s + 2.0) / c) * (0.5 * c + 0.5 / c), v);
    default: break;
    }
    // log(1 + s) + c, or half of it
    bool large = a > 1e8;
    c = large && op != HYP_PW_ATANH ? 0.69314718055994531 : 0.0;
    s = large ? a : a + a * a / (1.0 + sqrt(a * a + 1.0)); // asinh
    if (op == HYP_PW_ACOSH) s = large ? v : v - 1.0 + sqrt((v - 1.0) * (v + 1.0));
    if (op == HYP_PW_ATANH) s = 2.0 * a / (1.0 - a);
    s = log1p(s) + c;
    return op == HYP_PW_ACOSH ? s : copysign(op == HYP_PW_ATANH ? 0.5 * s : s, v);
}

#define CASE_V(OP, expression)
#define CASE_I(OP, expression)
#define CASE_L(OP, expression) +1
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...) CASE_##kind(OP, )
static_assert(HYP_FUNCTIONS(X) == 11, "trigonometric() has every rare function");
#undef X
#undef CASE_V
#undef CASE_I
#undef CASE_L

// Transcendental instructions; integers never reach them (the host refuses such a program).
template <typename C> __device__ HYP_CUDA_LONG C transcendental(uint32_t op, C a, double p, double q)
{
    switch (op) {
#define CASE_V(OP, expression)                                                                                         \
    case HYP_PW_##OP: return expression;
#define CASE_I(OP, expression) CASE_V(OP, expression)
#define CASE_L(OP, expression)
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...) CASE_##kind(OP, (__VA_ARGS__))
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
    default: return sizeof(C) == 8 ? (C)trigonometric(op, (double)a) : a;
    }
}
template <> __device__ __forceinline__ int64_t transcendental(uint32_t, int64_t v, double, double) { return v; }
template <> __device__ __forceinline__ uint64_t transcendental(uint32_t, uint64_t v, double, double) { return v; }

template <typename C> __device__ __forceinline__ C long_instr(uint32_t op, C x, C y, double p, double q)
{
    switch (op) {
    case HYP_PW_DIV: return quotient(x, y);
    case HYP_PW_POW: return power(x, y);
    case HYP_PW_MOD: return sizeof(C) == 8 ? remainder_of(x, y, false) : x; // as the trigonometric functions
    case HYP_PW_FMOD: return sizeof(C) == 8 ? remainder_of(x, y, true) : x;
    case HYP_PW_SIGN: return x > 0 ? (C)1 : is_negative(x) ? (C)-1 : x == 0 ? (C)0 : x;
    default: return whole<C> ? bits(op, x, y) : transcendental(op, x, p, q);
    }
}

// Any instruction; those of less than a few operations are here. A NaN operand gives NaN, also in MIN, MAX, RELU and
// CLIP.
template <typename C> __device__ __forceinline__ C instruction(uint32_t op, C a, C b, C c, double p, double q)
{
    switch (op) {
    case HYP_PW_ADD: return rounded_sum(a, b);
    case HYP_PW_SUB: return rounded_sum(a, -b);
    case HYP_PW_MUL: return rounded_product(a, b);
    case HYP_PW_MIN: return a != a || a < b ? a : b;
    case HYP_PW_MAX: return a != a || a > b ? a : b;
    case HYP_PW_RELU: return is_negative(a) ? (C)0 : a;
    case HYP_PW_LEAKY_RELU: return is_negative(a) ? rounded_product(a, (C)p) : a;
    case HYP_PW_CLIP: return at_most(a < bound<C>(p) ? bound<C>(p) : a, bound<C>(q));
    case HYP_PW_CAST: return a;
    case HYP_PW_ABS: return is_negative(a) ? -a : a + (C)0;
    case HYP_PW_NEG: return -a;
    case HYP_PW_NOT: return (C)(a == (C)0);
    case HYP_PW_EQUAL: return (C)(a == b);
    case HYP_PW_LESS: return (C)(a < b);
    case HYP_PW_LESS_EQUAL: return (C)(a <= b);
    case HYP_PW_WHERE: return a != (C)0 ? b : c;
    default: return long_instr(op, a, b, p, q);
    }
}

} // namespace hyp_device

#endif

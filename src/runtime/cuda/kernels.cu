// kernels.cu - the kernels that cuBLASLt lacks: pointwise programs, reductions and data movement. They are
// bound by memory, so element types are decided by uniform branches at run time and the code stays small.
//
// Every tensor starts at a multiple of 16 bytes (the host sees to it), offsets of copies excepted.
#include "runtime/cuda/common.cuh"

namespace
{

// Sums coordinate * stride for the dims from `first` on of the flat index `rest`; `a` and `b` are two sets of strides.
__device__ __forceinline__ void offsets(int64_t rest, uint32_t first, uint32_t rank, const hyp_cuda_extent *extent,
                                        const int64_t *a, const int64_t *b, int64_t &out_a, int64_t &out_b)
{
    out_a = out_b = 0;
#pragma unroll 1
    for (uint32_t d = first; d < rank; d++) {
        int64_t next = d + 1 < rank ? divide(rest, extent[d]) : 0;
        int64_t at = rest - next * extent[d].size;
        out_a += at * a[d];
        out_b += at * b[d];
        rest = next;
    }
}

__device__ __forceinline__ int64_t first_thread() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64_t thread_count() { return (int64_t)gridDim.x * blockDim.x; }

// ---- element types ----------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t integer_size(uint32_t dtype)
{
    switch (dtype) {
    case HYP_I64:
    case HYP_U64: return 8;
    case HYP_I32:
    case HYP_U32: return 4;
    case HYP_I16:
    case HYP_U16: return 2;
    default: return 1; // HYP_I8, HYP_U8, HYP_BOOL
    }
}

// The integer that is left of v when it is stored in this type.
__device__ __forceinline__ int64_t wrap(uint32_t dtype, int64_t v)
{
    int shift = 64 - 8 * (int)integer_size(dtype);
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

template <typename C> __device__ __noinline__ C load(uint32_t dtype, uint64_t data, int64_t i)
{
    switch (whole<C> ? HYP_I64 : dtype) {
    case HYP_F32: return (C)((const float *)data)[i];
    case HYP_F16: return (C)from_half(((const uint16_t *)data)[i]);
    case HYP_BF16: return (C)from_bfloat(((const uint16_t *)data)[i]);
    case HYP_F8E4M3: return (C)from_byte(((const uint8_t *)data)[i]);
    case HYP_F64: return (C)((const double *)data)[i];
    default: return from_integer<C>(dtype, wrap(dtype, (int64_t)load_bits(integer_size(dtype), data, i)));
    }
}

template <typename C> __device__ __forceinline__ void store_integer(uint32_t dtype, uint64_t data, int64_t i, C v)
{
    int64_t value = dtype == HYP_BOOL ? v != (C)0 : to_integer(v);
    store_bits(integer_size(dtype), data, i, (uint64_t)value);
}
template <typename C> __device__ __noinline__ void store(uint32_t dtype, uint64_t data, int64_t i, C v)
{
    switch (whole<C> ? HYP_I64 : dtype) {
    case HYP_F32: ((float *)data)[i] = (float)v; break;
    case HYP_F16: ((__half *)data)[i] = to_half(real(v)); break;
    case HYP_BF16: ((__nv_bfloat16 *)data)[i] = to_bfloat(real(v)); break;
    case HYP_F8E4M3: ((uint8_t *)data)[i] = to_byte(real(v)); break;
    case HYP_F64: ((double *)data)[i] = (double)v; break;
    default: store_integer(dtype, data, i, v);
    }
}

// The value that storing to `dtype` and loading again would give.
template <typename C> __device__ __noinline__ C round_to(uint32_t dtype, C v)
{
    switch (whole<C> ? HYP_I64 : dtype) {
    case HYP_F32: return (C)(float)v;
    case HYP_F16: return (C)__half2float(to_half(real(v)));
    case HYP_BF16: return (C)__bfloat162float(to_bfloat(real(v)));
    case HYP_F8E4M3: return (C)from_byte(to_byte(real(v)));
    case HYP_F64: return v;
    case HYP_BOOL: return (C)(v != (C)0);
    default: return from_integer<C>(dtype, wrap(dtype, to_integer(v)));
    }
}

// ---- pointwise --------------------------------------------------------------------------------------------

__device__ __noinline__ float power(float a, float b) { return powf(a, b); }
__device__ __noinline__ double power(double a, double b) { return pow(a, b); }
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
template <typename C> __device__ __forceinline__ C bound(const double &p)
{
    if (whole<C>) return (C) * (const int64_t *)&p;
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

// Transcendental instructions; integers never reach them (the host refuses such a program).
template <typename C> __device__ __noinline__ C transcendental(uint32_t op, C v, double p, double q)
{
    switch (op) {
    case HYP_PW_LOG: return log(v);
    case HYP_PW_CEIL: return ceil(v);
    case HYP_PW_FLOOR: return floor(v);
    case HYP_PW_ROUND: return rint(v);
    case HYP_PW_SOFTPLUS: return softplus(v);
    case HYP_PW_ELU: return (C)q * (v > 0 ? v : (C)p * expm1(v));
    case HYP_PW_SIGMOID: return sigmoid(v);
    case HYP_PW_SILU: return v * sigmoid(v);
    case HYP_PW_QUICK_GELU: return v * sigmoid((C)1.702 * v);
    case HYP_PW_HARD_SWISH: return v * at_most(relu(v * (C)(1.0 / 6) + (C)0.5), (C)1);
    case HYP_PW_MISH: return v * tanh(softplus(v));
    case HYP_PW_TANH: return tanh(v);
    case HYP_PW_GELU: return gelu(v);
    case HYP_PW_GELU_TANH: return gelu_tanh(v);
    case HYP_PW_ERF: return erf(v);
    case HYP_PW_EXP: return exponential(v);
    case HYP_PW_SQRT: return sqrt(v);
    default: return sizeof(C) == 8 ? (C)trigonometric(op, (double)v) : v;
    }
}
template <> __device__ __forceinline__ int64_t transcendental(uint32_t, int64_t v, double, double) { return v; }
template <> __device__ __forceinline__ uint64_t transcendental(uint32_t, uint64_t v, double, double) { return v; }

// The instructions that are long: one element at a time, by way of an array in local memory, which keeps their code
// small. They cost more than that way does.
template <typename C> __device__ __forceinline__ C long_instr(const hyp_cuda_pw_instr &in, C x, C y)
{
    switch (in.op) {
    case HYP_PW_DIV: return quotient(x, y);
    case HYP_PW_POW: return power(x, y);
    case HYP_PW_MOD: return sizeof(C) == 8 ? remainder_of(x, y, false) : x; // as the trigonometric functions
    case HYP_PW_FMOD: return sizeof(C) == 8 ? remainder_of(x, y, true) : x;
    case HYP_PW_SIGN: return x > 0 ? (C)1 : is_negative(x) ? (C)-1 : x == 0 ? (C)0 : x;
    default: return whole<C> ? bits(in.op, x, y) : transcendental(in.op, x, in.p, in.q);
    }
}
template <typename C, int V>
__device__ __forceinline__ void execute_long(const hyp_cuda_pw_instr &in, const C (&a)[V], const C (&b)[V], C (&r)[V])
{
    C x[V], y[V];
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = a[v], y[v] = b[v];
#pragma unroll 1
    for (int v = 0; v < V; v++) x[v] = long_instr(in, x[v], y[v]);
#pragma unroll
    for (int v = 0; v < V; v++) r[v] = x[v];
}

template <typename C, int V> __device__ __forceinline__ void round_long(uint32_t dtype, C (&r)[V])
{
    C x[V];
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = r[v];
#pragma unroll 1
    for (int v = 0; v < V; v++) x[v] = round_to(dtype, x[v]);
#pragma unroll
    for (int v = 0; v < V; v++) r[v] = x[v];
}

// One instruction on V elements; a NaN operand gives NaN, also in MIN, MAX, RELU and CLIP.
template <typename C, int V>
__device__ __forceinline__ void execute(const hyp_cuda_pw_instr &in, const C (&a)[V], const C (&b)[V], const C (&c)[V],
                                        C (&r)[V])
{
#define EACH(expr)                                                                                                     \
    {                                                                                                                  \
        _Pragma("unroll") for (int v = 0; v < V; v++) r[v] = (expr);                                                   \
        break;                                                                                                         \
    }
    switch (in.op) {
    case HYP_PW_ADD: EACH(a[v] + b[v])
    case HYP_PW_SUB: EACH(a[v] - b[v])
    case HYP_PW_MUL: EACH(a[v] * b[v])
    case HYP_PW_MIN: EACH(a[v] != a[v] || a[v] < b[v] ? a[v] : b[v])
    case HYP_PW_MAX: EACH(a[v] != a[v] || a[v] > b[v] ? a[v] : b[v])
    case HYP_PW_RELU: EACH(is_negative(a[v]) ? (C)0 : a[v])
    case HYP_PW_LEAKY_RELU: EACH(is_negative(a[v]) ? a[v] * (C)in.p : a[v])
    case HYP_PW_CLIP: EACH(at_most(a[v] < bound<C>(in.p) ? bound<C>(in.p) : a[v], bound<C>(in.q)))
    case HYP_PW_CAST: EACH(a[v])
    case HYP_PW_ABS: EACH(is_negative(a[v]) ? -a[v] : a[v] + (C)0)
    case HYP_PW_NEG: EACH(-a[v])
    case HYP_PW_NOT: EACH((C)(a[v] == (C)0))
    case HYP_PW_EQUAL: EACH((C)(a[v] == b[v]))
    case HYP_PW_LESS: EACH((C)(a[v] < b[v]))
    case HYP_PW_LESS_EQUAL: EACH((C)(a[v] <= b[v]))
    case HYP_PW_WHERE: EACH(a[v] != (C)0 ? b[v] : c[v])
    default: execute_long(in, a, b, r);
    }
    if (in.to == (sizeof(C) == 4 ? HYP_F32 : HYP_F64)) return;
    if (V > 1 && in.to == HYP_F16) {
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = (C)__half2float(to_half((float)r[v]));
    } else if (V > 1 && in.to == HYP_BF16) {
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = (C)__bfloat162float(to_bfloat((float)r[v]));
    } else {
        round_long(in.to, r);
    }
#undef EACH
}

// V = 8 neighbours of a float type in accesses of 16 bytes, or of the 8 that they have.
__device__ __forceinline__ void load_vector(uint32_t dtype, uint64_t data, int64_t i, float (&r)[8])
{
    if (dtype == HYP_F32) {
        const float4 *p = (const float4 *)((const float *)data + i);
        float4 low = p[0], high = p[1];
        r[0] = low.x, r[1] = low.y, r[2] = low.z, r[3] = low.w;
        r[4] = high.x, r[5] = high.y, r[6] = high.z, r[7] = high.w;
        return;
    }
    if (dtype == HYP_F8E4M3) {
        uint2 bytes = *(const uint2 *)((const uint8_t *)data + i);
#pragma unroll
        for (int k = 0; k < 8; k++) r[k] = from_byte((uint8_t)((k < 4 ? bytes.x : bytes.y) >> 8 * (k % 4)));
        return;
    }
    uint4 bits = *(const uint4 *)((const uint16_t *)data + i);
    const uint32_t word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint16_t half = (uint16_t)(word[k / 2] >> 16 * (k % 2));
        r[k] = dtype == HYP_BF16 ? from_bfloat(half) : from_half(half);
    }
}

__device__ __forceinline__ void store_vector(uint32_t dtype, uint64_t data, int64_t i, const float (&r)[8])
{
    if (dtype == HYP_F32) {
        float4 *p = (float4 *)((float *)data + i);
        p[0] = make_float4(r[0], r[1], r[2], r[3]);
        p[1] = make_float4(r[4], r[5], r[6], r[7]);
        return;
    }
    uint32_t word[4] = {0, 0, 0, 0};
    if (dtype == HYP_F8E4M3) {
#pragma unroll
        for (int k = 0; k < 8; k += 2) word[k / 4] |= (uint32_t)to_bytes(r[k], r[k + 1]) << 8 * (k % 4);
        *(uint2 *)((uint8_t *)data + i) = make_uint2(word[0], word[1]);
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint16_t half = dtype == HYP_BF16 ? __bfloat16_as_ushort(to_bfloat(r[k])) : __half_as_ushort(to_half(r[k]));
        word[k / 2] |= (uint32_t)half << 16 * (k % 2);
    }
    *(uint4 *)((uint16_t *)data + i) = make_uint4(word[0], word[1], word[2], word[3]);
}

// Other widths never vectorise; these let the one body below compile for them.
template <typename C, int V> __device__ __forceinline__ void load_vector(uint32_t, uint64_t, int64_t, C (&)[V]) {}
template <typename C, int V> __device__ __forceinline__ void store_vector(uint32_t, uint64_t, int64_t, const C (&)[V])
{
}

// Where a thread stands: V elements from column `inner` of the row `row`, of which `count` exist.
struct place {
    int64_t row, inner;
    int count;
};

template <typename C, int V>
__device__ __forceinline__ void fetch(const hyp_cuda_pointwise &p, hyp_cuda_pw_operand from, const place &at,
                                      const C *temps, const C (&last)[V], C (&r)[V])
{
    switch (from.kind) {
    case HYP_PW_LAST:
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = last[v];
        break;
    case HYP_PW_TEMP:
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = temps[((int)from.index * V + v) * (int)blockDim.x];
        break;
    case HYP_PW_CONST:
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = (C)p.constant[from.index];
        break;
    default: {
        const hyp_cuda_pw_input &in = p.input[from.index];
        int64_t offset, unused;
        offsets(at.row, 1, p.rank, p.extent, in.stride, in.stride, offset, unused);
        offset += at.inner * in.stride[0];
        if (V > 1 && in.vector && at.count == V) {
            load_vector(in.dtype, in.data, offset, r);
        } else {
            C x[V] = {}; // a loop over an array in local memory, as in execute_long
#pragma unroll 1
            for (int v = 0; v < at.count; v++) x[v] = load<C>(in.dtype, in.data, offset + v * in.stride[0]);
#pragma unroll
            for (int v = 0; v < V; v++) r[v] = x[v];
        }
    }
    }
}

// One thread does V neighbours of the innermost extent at a time. `vector` of a tensor is the host's promise that V
// neighbours of it can be read or written in one access wherever a thread stands.
template <typename C, int V> __device__ __forceinline__ void pointwise(const hyp_cuda_pointwise &p)
{
    extern __shared__ double shared[];
    C *temps = (C *)shared + threadIdx.x;
#pragma unroll 1
    for (int64_t chunk = first_thread(); chunk < p.chunks; chunk += thread_count()) {
        place at;
        at.row = p.rank > 1 ? divide(chunk, p.row_chunks) : 0;
        at.inner = (chunk - at.row * p.row_chunks.size) * V;
        int64_t left = p.extent[0].size - at.inner;
        at.count = left < V ? (int)left : V;
        C last[V] = {}, a[V], b[V] = {}, c[V] = {};
#pragma unroll 1
        for (uint32_t i = 0; i < p.instrs; i++) {
            const hyp_cuda_pw_instr &in = p.instr[i];
            fetch<C, V>(p, in.a, at, temps, last, a);
            if (in.op == HYP_PW_STORE) {
                const hyp_cuda_pw_output &out = p.output[in.b.index];
                int64_t first = at.row * p.extent[0].size + at.inner;
                if (V > 1 && out.vector && at.count == V) {
                    store_vector(out.dtype, out.data, first, a);
                } else {
                    C x[V];
#pragma unroll
                    for (int v = 0; v < V; v++) x[v] = a[v];
#pragma unroll 1
                    for (int v = 0; v < at.count; v++) store<C>(out.dtype, out.data, first + v, x[v]);
                }
                continue;
            }
            if (in.op < HYP_PW_RELU || in.op >= HYP_PW_MOD) fetch<C, V>(p, in.b, at, temps, last, b);
            if (in.op == HYP_PW_WHERE) fetch<C, V>(p, in.c, at, temps, last, c);
            execute<C, V>(in, a, b, c, last);
            if (in.temp_plus1) {
#pragma unroll
                for (int v = 0; v < V; v++) temps[((int)(in.temp_plus1 - 1) * V + v) * (int)blockDim.x] = last[v];
            }
        }
    }
}

// ---- softmax and reductions -------------------------------------------------------------------------------

struct take_max {
    template <typename C> __device__ C operator()(C a, C b) const { return a != a || a > b ? a : b; }
};
struct take_sum {
    template <typename C> __device__ C operator()(C a, C b) const { return a + b; }
};

// Combines over the threads of a block that share threadIdx.y (along x) or threadIdx.x (along y); all get the result.
// The order is fixed, so results are the same on every run. `room` holds one value for each thread of the block.
template <typename C, typename F> __device__ __noinline__ C combine(C v, C *room, bool along_x, F f)
{
    unsigned at = along_x ? threadIdx.x : threadIdx.y, size = along_x ? blockDim.x : blockDim.y;
    unsigned step = along_x ? 1 : blockDim.x, self = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();
    room[self] = v;
#pragma unroll 1
    for (unsigned half = size / 2; half; half /= 2) {
        __syncthreads();
        if (at < half) room[self] = f(room[self], room[self + half * step]);
    }
    __syncthreads();
    return room[self - at * step];
}

// The columns of [outer, axis, inner], each shared by the threads along x (inner is 1) or y of a block. Every thread
// takes part in every round, for the barriers.
template <typename C> __device__ __forceinline__ void softmax(const hyp_cuda_softmax &p)
{
    extern __shared__ double shared[];
    bool along_x = p.along_x != 0;
    unsigned team = along_x ? blockDim.x : blockDim.y, member = along_x ? threadIdx.x : threadIdx.y;
    unsigned teams = along_x ? blockDim.y : blockDim.x, mine = along_x ? threadIdx.y : threadIdx.x;
    int64_t inner = p.inner.size;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * teams; first < p.columns; first += (int64_t)gridDim.x * teams) {
        int64_t column = first + mine, o = divide(column, p.inner);
        int64_t start = o * p.axis * inner + (column - o * inner), end = column < p.columns ? p.axis : 0;
        C top = (C)-INFINITY, sum = 0;
        for (int64_t i = member; i < end; i += team)
            top = take_max()(load_native<C>(p.dtype, p.x, start + i * inner), top);
        top = combine(top, (C *)shared, along_x, take_max());
        for (int64_t i = member; i < end; i += team)
            sum += exponential(load_native<C>(p.dtype, p.x, start + i * inner) - top);
        sum = combine(sum, (C *)shared, along_x, take_sum());
        for (int64_t i = member; i < end; i += team) {
            int64_t at = start + i * inner;
            store_native(p.dtype, p.y, at, exponential(load_native<C>(p.dtype, p.x, at) - top) / sum);
        }
    }
}

template <typename C> __device__ __forceinline__ void reduce(const hyp_cuda_reduce &p)
{
    extern __shared__ double shared[];
    bool along_x = p.along_x != 0;
    unsigned team = along_x ? blockDim.x : blockDim.y, member = along_x ? threadIdx.x : threadIdx.y;
    unsigned teams = along_x ? blockDim.y : blockDim.x, mine = along_x ? threadIdx.y : threadIdx.x;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * teams; first < p.results; first += (int64_t)gridDim.x * teams) {
        int64_t result = first + mine, base, unused, at;
        int64_t end = result < p.results ? p.terms : 0;
        offsets(result, 0, p.kept_rank, p.kept, p.kept_stride, p.kept_stride, base, unused);
        C sum = 0;
        for (int64_t i = member; i < end; i += team) {
            offsets(i, 0, p.reduced_rank, p.reduced, p.reduced_stride, p.reduced_stride, at, unused);
            sum += load_native<C>(p.dtype, p.x, base + at);
        }
        sum = combine(sum, (C *)shared, along_x, take_sum());
        if (member == 0 && result < p.results)
            store_native(p.dtype, p.y, result, p.mean ? quotient(sum, (C)p.terms) : sum);
    }
}

// ---- data movement ----------------------------------------------------------------------------------------

template <typename C> __device__ __forceinline__ void range(const hyp_cuda_range &p)
{
    for (int64_t i = first_thread(); i < p.count; i += thread_count())
        store<C>(p.dtype, p.y, i, load<C>(p.dtype, p.start, 0) + (C)i * load<C>(p.dtype, p.delta, 0));
}

// Elements of up to 16 bytes.
__device__ __forceinline__ void move(uint32_t size, uint64_t y, int64_t to, uint64_t x, int64_t from)
{
    if (size == 16)
        ((uint4 *)y)[to] = ((const uint4 *)x)[from];
    else
        store_bits(size, y, to, load_bits(size, x, from));
}

// P is hyp_cuda_copy or hyp_cuda_part. What is large moves four pieces of 16 bytes at a time.
template <typename P> __device__ __forceinline__ void copy_elements(const P &p, int64_t first, int64_t step)
{
    constexpr int AT_ONCE = 4;
    int64_t i = first, from[AT_ONCE], to[AT_ONCE];
#pragma unroll 1
    for (; p.size == 16 && i + (AT_ONCE - 1) * step < p.total; i += AT_ONCE * step) {
        uint4 piece[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            offsets(i + j * step, 0, p.rank, p.extent, p.x_stride, p.y_stride, from[j], to[j]);
            piece[j] = ((const uint4 *)p.x)[from[j]];
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) ((uint4 *)p.y)[to[j]] = piece[j];
    }
#pragma unroll 1
    for (; i < p.total; i += step) {
        offsets(i, 0, p.rank, p.extent, p.x_stride, p.y_stride, from[0], to[0]);
        move(p.size, p.y, to[0], p.x, from[0]);
    }
}

__device__ __forceinline__ void copy_parts(const hyp_cuda_copies &p)
{
    uint32_t part = 0;
    while (part + 1 < p.count && blockIdx.x >= p.first_block[part + 1]) part++;
    int64_t threads = (int64_t)(p.first_block[part + 1] - p.first_block[part]) * blockDim.x;
    copy_elements(p.part[part], (int64_t)(blockIdx.x - p.first_block[part]) * blockDim.x + threadIdx.x, threads);
}

// Reads a tile along x's contiguous dim and writes it along y's, through shared memory whose rows are padded by one
// element against bank conflicts.
__device__ __forceinline__ void transpose_tiles(const hyp_cuda_transpose &t)
{
    extern __shared__ double shared[];
    uint64_t(*tile)[HYP_CUDA_TILE + 1] = (uint64_t(*)[HYP_CUDA_TILE + 1]) shared;
    const hyp_cuda_copy &p = t.copy;
#pragma unroll 1
    for (int64_t i = blockIdx.x; i < t.total_tiles; i += gridDim.x) {
        int64_t matrix = divide(i, t.tiles), rest = i - matrix * t.tiles.size;
        int64_t tile1 = divide(rest, t.tiles0), tile0 = rest - tile1 * t.tiles0.size;
        int64_t from, to, start0 = tile0 * HYP_CUDA_TILE, start1 = tile1 * HYP_CUDA_TILE;
        offsets(matrix, 2, p.rank, p.extent, p.x_stride, p.y_stride, from, to);
        int64_t left0 = p.extent[0].size - start0, left1 = p.extent[1].size - start1;
        from += start0 * p.x_stride[0] + (start1 + threadIdx.x) * p.x_stride[1];
        to += (start0 + threadIdx.x) * p.y_stride[0] + start1 * p.y_stride[1];
        __syncthreads();
#pragma unroll
        for (int r = threadIdx.y; r < HYP_CUDA_TILE; r += HYP_CUDA_TILE_ROWS)
            if (r < left0 && threadIdx.x < left1)
                tile[r][threadIdx.x] = load_bits(p.size, p.x, from + r * p.x_stride[0]);
        __syncthreads();
#pragma unroll
        for (int r = threadIdx.y; r < HYP_CUDA_TILE; r += HYP_CUDA_TILE_ROWS)
            if (threadIdx.x < left0 && r < left1) store_bits(p.size, p.y, to + r * p.y_stride[1], tile[threadIdx.x][r]);
    }
}

__device__ __forceinline__ void gather_elements(const hyp_cuda_gather &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.inner), o = divide(row, p.count), j = row - o * p.count.size;
        int64_t index = p.wide_indices ? ((const int64_t *)p.indices)[j] : ((const int32_t *)p.indices)[j];
        int64_t at = index < 0 ? index + p.axis : index;
        if (at < 0 || at >= p.axis) {
            // Any one of several bad indexes may be the one reported.
            ((volatile int64_t *)p.error)[1] = index;
            ((volatile int64_t *)p.error)[0] = 1;
            continue;
        }
        move(p.size, p.y, i, p.x, (o * p.axis + at) * p.inner.size + (i - row * p.inner.size));
    }
}

} // namespace

// ---- entry points -----------------------------------------------------------------------------------------

#define KERNEL(name, args, call)                                                                                       \
    extern "C" __global__ void name(const __grid_constant__ args p)                                                    \
    {                                                                                                                  \
        wait_for_kernels_before();                                                                                     \
        call;                                                                                                          \
    }

KERNEL(pointwise_f32, hyp_cuda_pointwise, (pointwise<float, HYP_CUDA_PW_VECTOR>(p)))
KERNEL(pointwise_f64, hyp_cuda_pointwise, (pointwise<double, 1>(p)))
KERNEL(pointwise_i64, hyp_cuda_pointwise, (pointwise<int64_t, 1>(p)))
KERNEL(pointwise_u64, hyp_cuda_pointwise, (pointwise<uint64_t, 1>(p)))
KERNEL(softmax_f32, hyp_cuda_softmax, softmax<float>(p))
KERNEL(softmax_f64, hyp_cuda_softmax, softmax<double>(p))
KERNEL(reduce_f32, hyp_cuda_reduce, reduce<float>(p))
KERNEL(reduce_f64, hyp_cuda_reduce, reduce<double>(p))
KERNEL(reduce_i64, hyp_cuda_reduce, reduce<int64_t>(p))
KERNEL(range_f64, hyp_cuda_range, range<double>(p))
KERNEL(range_u64, hyp_cuda_range, range<uint64_t>(p))
KERNEL(copy, hyp_cuda_copy, copy_elements(p, first_thread(), thread_count()))
KERNEL(copies, hyp_cuda_copies, copy_parts(p))
KERNEL(transpose, hyp_cuda_transpose, transpose_tiles(p))
KERNEL(gather, hyp_cuda_gather, gather_elements(p))

extern "C" __global__ void fill_i64(const __grid_constant__ hyp_cuda_fill p)
{
    wait_for_kernels_before();
    if (threadIdx.x < p.count) ((int64_t *)p.y)[threadIdx.x] = p.value[threadIdx.x];
}

// pieces.cuh - what generated kernels are made of beside pointwise.cuh: V neighbours of a tensor in accesses of up to
// 16 bytes, and instructions with what they round to. Element types are known when such a kernel is compiled.
inline namespace hyp_device
{

// Kernels' pointers are numbers, of which the compiler does not know that they are none of shared memory.
template <typename T> __device__ __forceinline__ T *global(uint64_t at) { return (T *)__cvta_global_to_generic(at); }

// BYTES, a power of two, at a multiple of them or of 16, as 32-bit words: in accesses of 16 bytes, or one smaller one.
template <int BYTES> constexpr int word_count = BYTES > 4 ? BYTES / 4 : 1;
template <int BYTES> __device__ __forceinline__ void read_words(uint64_t from, uint32_t (&w)[word_count<BYTES>])
{
    if constexpr (BYTES >= 16) {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            const uint4 part = global<uint4>(from)[i];
            w[4 * i] = part.x, w[4 * i + 1] = part.y, w[4 * i + 2] = part.z, w[4 * i + 3] = part.w;
        }
    } else if constexpr (BYTES == 8) {
        const uint2 part = *global<uint2>(from);
        w[0] = part.x, w[1] = part.y;
    } else {
        w[0] = (uint32_t)load_bits(BYTES, from, 0);
    }
}
// A plain assignment may become one for every word.
template <int BYTES> __device__ __forceinline__ void write_words(uint64_t to, const uint32_t (&w)[word_count<BYTES>])
{
    if constexpr (BYTES >= 16) {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++)
            __stwb((uint4 *)to + i, make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]));
    } else if constexpr (BYTES == 8) {
        __stwb((uint2 *)to, make_uint2(w[0], w[1]));
    } else {
        store_bits(BYTES, to, 0, w[0]);
    }
}

// Where elements of `size` bytes are in words.
template <int size> constexpr int per_word = size < 4 ? 4 / size : 1;
template <int size> constexpr uint32_t element_mask = size < 4 ? (1u << 8 * size % 32) - 1 : 0xffffffffu;

// V neighbours from element i on.
template <uint32_t dtype, typename C, int V>
__device__ __forceinline__ void load_piece(uint64_t data, int64_t i, C (&r)[V])
{
    constexpr int size = element_size(dtype), each = per_word<size>;
    uint32_t w[word_count<V * size>];
    read_words<V * size>(data + (uint64_t)i * size, w);
#pragma unroll
    for (int v = 0; v < V; v++) {
        uint64_t bits = w[v / each * (size == 8 ? 2 : 1)] >> 8 * size * (v % each) & element_mask<size>;
        if (size == 8) bits |= (uint64_t)w[2 * v + 1] << 32;
        r[v] = from_bits<C>(dtype, bits);
    }
}
template <uint32_t dtype, typename C, int V>
__device__ __forceinline__ void store_piece(uint64_t data, int64_t i, const C (&r)[V])
{
    constexpr int size = element_size(dtype), each = per_word<size>;
    uint32_t w[word_count<V * size>] = {};
#pragma unroll
    for (int v = 0; v < V; v++) {
        uint64_t bits = to_bits(dtype, r[v]);
        w[v / each * (size == 8 ? 2 : 1)] |= ((uint32_t)bits & element_mask<size>) << 8 * size * (v % each);
        if (size == 8) w[2 * v + 1] = (uint32_t)(bits >> 32);
    }
    write_words<V * size>(data + (uint64_t)i * size, w);
}
// The same element by element, `stride` apart.
template <uint32_t dtype, typename C, int V>
__device__ __forceinline__ void load_apart(uint64_t data, int64_t i, int64_t stride, C (&r)[V])
{
#pragma unroll
    for (int v = 0; v < V; v++) r[v] = load<C>(dtype, data, i + v * stride);
}

__device__ __forceinline__ double number(uint64_t bits) { return __longlong_as_double((long long)bits); }

// The value that is left of v in a type.
template <typename C> __device__ __forceinline__ C kept(uint32_t to, C v)
{
    return to == (sizeof(C) == 4 ? HYP_F32 : HYP_F64) ? v : round_to(to, v);
}
template <> __device__ __forceinline__ float kept(uint32_t to, float v)
{
    return to == HYP_F32 ? v : to == HYP_BF16 ? round_bfloat(v) : round_to(to, v);
}

// An instruction whose result is rounded to a type.
template <typename C> __device__ __forceinline__ C rounded(uint32_t op, uint32_t to, C a, C b, C c, double p, double q)
{
    return kept(to, instruction(op, a, b, c, p, q));
}

// The same for results that are stored in 16 bits or less: by short forms, off by less than 2^-16, which is lost there.
__device__ __forceinline__ float short_sigmoid(float v) { return __fdividef(1.0f, 1.0f + __expf(-v)); }
__device__ __forceinline__ float short_tanh(float v)
{
    float s = v * v, series = v + v * s * (-0.33333333f + s * (0.13333333f - s * 0.053968254f));
    return s < 0.0625f ? series : 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * v));
}
// erf by Abramowitz and Stegun's 7.1.26, off by less than 1.5e-7.
__device__ __forceinline__ float short_gelu(float v)
{
    float x = fabsf(v) * 0.70710678118654752f, t = __fdividef(1.0f, 1.0f + 0.3275911f * x);
    float poly = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float tail = poly * __expf(-x * x); // 1 - erf(|x|)
    return 0.5f * v * (v < 0 ? tail : 2 - tail);
}
template <typename C>
__device__ __forceinline__ C rounded_short(uint32_t op, uint32_t to, C a, C b, C c, double p, double q)
{
    C r;
    switch (op) {
    case HYP_PW_EXP: r = __expf(a); break;
    case HYP_PW_SIGMOID: r = short_sigmoid(a); break;
    case HYP_PW_SILU: r = a * short_sigmoid(a); break;
    case HYP_PW_QUICK_GELU: r = a * short_sigmoid(1.702f * a); break;
    case HYP_PW_TANH: r = short_tanh(a); break;
    case HYP_PW_GELU: r = short_gelu(a); break;
    case HYP_PW_GELU_TANH: r = a * short_sigmoid(1.59576912f * (a + 0.044715f * a * a * a)); break;
    default: return rounded(op, to, a, b, c, p, q);
    }
    return kept(to, r);
}

} // namespace hyp_device

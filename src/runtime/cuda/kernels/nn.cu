// nn.cu - what the functions of hypatia/nn.h leave to do beside products: activations and their gradients where cuBLASLt has
// none.
#include "runtime/cuda/kernels/common.cuh"

inline namespace hyp_device
{

// What is long is once in the code, called for each element.
__device__ __noinline__ float value(uint32_t act, float v)
{
    if (act == HYP_PW_SILU) return v * sigmoid(v);
    if (act == HYP_PW_GELU) return 0.5f * v * (1 + erff(v * 0.70710678f));
    return 0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

__device__ __noinline__ float slope(uint32_t act, float v)
{
    const float most = 40; // beyond which it is what it is there
    v = v > most ? most : v < -most ? -most : v;
    if (act == HYP_PW_SILU) {
        float s = sigmoid(v);
        return s + v * s * (1 - s);
    }
    if (act == HYP_PW_GELU) return 0.5f + 0.5f * erff(v * 0.70710678f) + v * 0.39894228f * expf(-0.5f * v * v);
    float t = tanhf(0.79788456f * (v + 0.044715f * v * v * v));
    return 0.5f + 0.5f * t + 0.5f * v * (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * v * v);
}

// Up to 8 neighbours.
__device__ __forceinline__ void load_some(const hyp_cuda_nn_act &p, uint64_t data, int64_t i, int count, float (&r)[8])
{
    if (p.vector && count == 8) return load_vector(p.dtype, data, i, r);
    float x[8] = {}; // a loop over an array in local memory, which is short
#pragma unroll 1
    for (int v = 0; v < count; v++) x[v] = load_native<float>(p.dtype, data, i + v);
#pragma unroll
    for (int v = 0; v < 8; v++) r[v] = x[v];
}
__device__ __forceinline__ void store_some(const hyp_cuda_nn_act &p, uint64_t data, int64_t i, int count,
                                           const float (&r)[8])
{
    if (p.vector && count == 8) return store_vector(p.dtype, data, i, r);
    float x[8];
#pragma unroll
    for (int v = 0; v < 8; v++) x[v] = r[v];
#pragma unroll 1
    for (int v = 0; v < count; v++) store_native(p.dtype, data, i + v, x[v]);
}

// Results of a row from column `first` on, in place of the sums in r.
__device__ __forceinline__ void activate(const hyp_cuda_nn_act &p, int64_t row, int64_t first, int count, float (&r)[8])
{
    if (p.bias) {
        float b[8];
        load_some(p, p.bias, first, count, b);
#pragma unroll
        for (int v = 0; v < 8; v++) r[v] += b[v];
    }
    if (p.z) store_some(p, p.z, row * p.z_ld + first, count, r);
#pragma unroll
    for (int v = 0; v < 8; v++)
        r[v] = p.act == HYP_PW_CAST ? r[v] : p.act == HYP_PW_RELU ? relu(r[v]) : value(p.act, r[v]);
    if (!p.mask) return;
    uint32_t bits = 0;
#pragma unroll
    for (int v = 0; v < 8; v++) bits |= (uint32_t)(v < count && r[v] > 0) << v;
    ((uint8_t *)p.mask)[row * p.mask_ld + first / 8] = (uint8_t)bits;
}

// The gradients in r by the activation.
__device__ __forceinline__ void derive(const hyp_cuda_nn_act &p, int64_t row, int64_t first, int count, float (&r)[8])
{
    if (p.mask) {
        uint32_t bits = ((const uint8_t *)p.mask)[row * p.mask_ld + first / 8];
#pragma unroll
        for (int v = 0; v < 8; v++) r[v] = bits >> v & 1 ? r[v] : 0;
        return;
    }
    float z[8];
    load_some(p, p.z, row * p.z_ld + first, count, z);
#pragma unroll
    for (int v = 0; v < 8; v++) r[v] = p.act == HYP_PW_RELU ? (z[v] > 0 ? r[v] : 0) : r[v] * slope(p.act, z[v]);
}

extern "C" __global__ void __launch_bounds__(256) nn_act(const __grid_constant__ hyp_cuda_nn_act p)
{
    wait_for_kernels_before();
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.pieces; i += thread_count()) {
        int64_t row = divide(i, p.row_pieces), first = (i - row * p.row_pieces.size) * 8, left = p.columns - first;
        int count = left < 8 ? (int)left : 8;
        float r[8];
        load_some(p, p.x, row * p.x_ld + first, count, r);
        if (p.gradient)
            derive(p, row, first, count, r);
        else
            activate(p, row, first, count, r);
        if (p.y) store_some(p, p.y, row * p.y_ld + first, count, r);
    }
}

} // namespace hyp_device

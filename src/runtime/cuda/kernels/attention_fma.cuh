// attention_fma.cuh - attention of f32, in full precision.
#ifndef HYP_RUNTIME_CUDA_KERNELS_ATTENTION_FMA_CUH
#define HYP_RUNTIME_CUDA_KERNELS_ATTENTION_FMA_CUH

#include "runtime/cuda/kernels/attention_tiles.cuh"

inline namespace hyp_device
{

// Sixteen neighbouring threads share eight rows, eight apart: of the scores a thread has every sixteenth key, of the
// result four neighbouring columns in every 64.
template <int D> __device__ __forceinline__ void attention_fma(const hyp_cuda_attention &p)
{
    constexpr int ROWS = HYP_CUDA_ATTENTION_ROWS, KEYS = HYP_CUDA_ATTENTION_KEYS, MINE = 8, EACH = KEYS / 16;
    constexpr int STEP = D + 4, WEIGHT_STEP = KEYS + 16; // floats from row to row
    extern __shared__ double shared[];
    uint32_t *room = (uint32_t *)shared;
    float *query = (float *)(shared + 2), *keys = query + ROWS * STEP, *values = keys + HYP_CUDA_KEY_FLOATS(D);
    float *weights = keys; // once the scores are computed
    float *shifts = values + HYP_CUDA_TILE_FLOATS(D);
    int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
    float unit = (float)p.unit;
#pragma unroll 1
    for (int64_t block = blockIdx.x; block < p.total; block += gridDim.x) {
        int64_t all = divide(block, p.splits), index = divide(all, p.blocks),
                row0 = (all - index * p.blocks.size) * ROWS;
        int64_t split = block - all * p.splits.size, key = split * p.split_keys;
        int64_t end = key + p.split_keys < p.keys ? key + p.split_keys : p.keys;
        operands<float> at = operands_at<float>(p, index);
        float top[MINE], sum[MINE], result[MINE][D / 16];
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            top[i] = start_of<float>(p), sum[i] = plain_sum<float>(p, key == 0 && x == 0);
            for (int j = 0; j < D / 16; j++) result[i][j] = 0;
        }
        __syncthreads();
        load_tile<float, D, ROWS>(query, p.q, at.q, row0, p.rows, p.width);
#pragma unroll 1
        for (; key < end; key += KEYS) {
            bool shift = has_shifts(p, key);
            if (shift) {
                bool needed = load_tile_shifts<float, ROWS>(p, at.mask, row0, key, shifts);
#pragma unroll
                for (int i = 0; i < MINE; i++) needed |= row0 + y + 8 * i < p.rows && heeds_fill(p, top[i]);
                if (!__syncthreads_or(needed)) continue; // all is hidden here
            }
            load_tile<float, D, KEYS>(keys, p.k, at.k, key, p.keys, p.width);
            copies_end();
            __syncthreads();
            load_tile<float, D, KEYS>(values, p.v, at.v, key, p.keys, p.columns);
            float s[MINE][EACH] = {};
#pragma unroll 2
            for (int c = 0; c < (int)p.width; c += 4) {
                float4 b[EACH];
#pragma unroll
                for (int j = 0; j < EACH; j++) b[j] = *(const float4 *)&keys[(x + 16 * j) * STEP + c];
#pragma unroll
                for (int i = 0; i < MINE; i++) {
                    float4 a = *(const float4 *)&query[(y + 8 * i) * STEP + c];
#pragma unroll
                    for (int j = 0; j < EACH; j++) {
                        s[i][j] += a.x * b[j].x;
                        s[i][j] += a.y * b[j].y;
                        s[i][j] += a.z * b[j].z;
                        s[i][j] += a.w * b[j].w;
                    }
                }
            }
            __syncthreads(); // the weights take the place of the keys
            if (shift)
#pragma unroll
                for (int i = 0; i < MINE; i++)
#pragma unroll
                    for (int j = 0; j < EACH; j++)
                        s[i][j] = shifted(p, s[i][j], shifts[(y + 8 * i) * (int)p.shift_step + x + 16 * j]);
#pragma unroll
            for (int i = 0; i < MINE; i++) {
                if (p.plain) {
#pragma unroll
                    for (int j = 0; j < EACH; j++)
                        weights[(y + 8 * i) * WEIGHT_STEP + x + 16 * j] = s[i][j] * (float)p.scale;
                    continue;
                }
                float most = top[i];
#pragma unroll
                for (int j = 0; j < EACH; j++) most = larger(s[i][j], most);
                for (int step = 1; step < 16; step *= 2) most = larger(__shfl_xor_sync(EVERY_LANE, most, step), most);
                // Rounded: where the largest score stays, what is subtracted has to stay to the last bit, or every tile
                // would scale all before it by a little.
                float base = rounded_product(finite(most), unit), whole = 0;
                float shrink = exp2f(rounded_product(top[i], unit) - base);
                top[i] = most;
#pragma unroll
                for (int j = 0; j < D / 16; j++) result[i][j] *= shrink;
#pragma unroll
                for (int j = 0; j < EACH; j++) {
                    float weight = exp2f(s[i][j] * unit - base);
                    whole += weight;
                    weights[(y + 8 * i) * WEIGHT_STEP + x + 16 * j] = weight;
                }
                sum[i] = sum[i] * shrink + whole;
            }
            copies_end();
            __syncthreads();
#pragma unroll 2
            for (int c = 0; c < KEYS; c += 4) {
                float4 a[MINE];
#pragma unroll
                for (int i = 0; i < MINE; i++) a[i] = *(const float4 *)&weights[(y + 8 * i) * WEIGHT_STEP + c];
#pragma unroll
                for (int part = 0; part < D / 64; part++)
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        float4 b = *(const float4 *)&values[(c + k) * STEP + part * 64 + x * 4];
#pragma unroll
                        for (int i = 0; i < MINE; i++) {
                            float w = k == 0 ? a[i].x : k == 1 ? a[i].y : k == 2 ? a[i].z : a[i].w;
                            result[i][4 * part] += w * b.x;
                            result[i][4 * part + 1] += w * b.y;
                            result[i][4 * part + 2] += w * b.z;
                            result[i][4 * part + 3] += w * b.w;
                        }
                    }
            }
            __syncthreads();
        }
        copies_end(); // of q, where every tile was hidden
        __syncthreads();
        bool split_up = p.splits.size > 1;
        float *part_of = split_up ? tile_part<D>(p, block) : NULL;
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            for (int step = 1; step < 16; step *= 2) sum[i] += __shfl_xor_sync(EVERY_LANE, sum[i], step);
            int row = y + 8 * i;
            float share = split_up ? 1.0f : 1.0f / sum[i],
                  *to = split_up ? part_of + row * tile_row<D> : query + row * STEP;
            if (split_up && row0 + row >= p.rows) continue;
#pragma unroll
            for (int part = 0; part < D / 64; part++)
                *(float4 *)&to[part * 64 + x * 4] = {result[i][4 * part] * share, result[i][4 * part + 1] * share,
                                                     result[i][4 * part + 2] * share, result[i][4 * part + 3] * share};
            if (split_up && x == 0) *(float2 *)&to[D] = {top[i], sum[i]};
        }
        if (split_up) {
            if (!is_last((uint32_t *)p.counters + all, (uint32_t)p.splits.size, room)) continue;
            merge_tiles<float, D>(p, all, p.rows - row0, query, keys);
        }
        store_tile<float, D, ROWS>(p.y, query, at.y, row0, p.rows, p.columns);
    }
}

} // namespace hyp_device

#endif

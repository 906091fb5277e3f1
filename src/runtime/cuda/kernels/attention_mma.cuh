// attention_mma.cuh - attention on tensor cores.
#ifndef HYP_RUNTIME_CUDA_KERNELS_ATTENTION_MMA_CUH
#define HYP_RUNTIME_CUDA_KERNELS_ATTENTION_MMA_CUH

#include "runtime/cuda/kernels/attention_tiles.cuh"

inline namespace hyp_device
{

template <typename T> __device__ __forceinline__ uint32_t pack(float a, float b)
{
    struct alignas(4) {
        T x[2];
    } pair;
    narrow(a, pair.x[0]);
    narrow(b, pair.x[1]);
    return *(const uint32_t *)&pair;
}

// A warp has M times 16 rows. Of a 16x8 piece of scores or results a thread has rows `lane / 4` and that + 8, in halves
// 0 and 1, and two neighbouring columns. With two times 16 rows what is loaded of k and v is used twice.
template <typename T, int D, int M> struct warp_rows {
    static constexpr int PIECES = HYP_CUDA_ATTENTION_KEYS / 8;
    static constexpr bool KEPT = D * M <= 128; // q stays in registers
    using scores = float[M][PIECES][4];
    uint32_t query[M][KEPT ? D / 16 : 1][4];
    float result[M][D / 8][4];
    float top[M][2], sum[M][2]; // sum: of this thread's columns

    // The row of a tile that is this thread's first of the 16.
    static __device__ __forceinline__ int row_of(int m)
    {
        return ((int)threadIdx.x / 32 * M + m) * 16 + (int)threadIdx.x % 32 / 4;
    }
    static __device__ __forceinline__ void load_query(T *tile, int m, int i, uint32_t (&to)[4])
    {
        int lane = (int)threadIdx.x % 32;
        load_matrices(to, in_tile<T, D>(tile, ((int)threadIdx.x / 32 * M + m) * 16 + lane % 16, 2 * i + lane / 16));
    }

    __device__ __forceinline__ void start(const hyp_cuda_attention &p, T *tile, bool first)
    {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int i = 0; KEPT && i < D / 16; i++) load_query(tile, m, i, query[m][i]);
#pragma unroll
            for (int i = 0; i < D / 8; i++)
                for (int j = 0; j < 4; j++) result[m][i][j] = 0;
            for (int half = 0; half < 2; half++) {
                top[m][half] = start_of<float>(p);
                sum[m][half] = plain_sum<float>(p, first && threadIdx.x % 4 == 0);
            }
        }
    }

    __device__ __forceinline__ void score(T *tile, T *keys, scores &s)
    {
        int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int m = 0; m < M; m++)
            for (int n = 0; n < PIECES; n++)
                for (int j = 0; j < 4; j++) s[m][n][j] = 0;
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            if (!KEPT)
                for (int m = 0; m < M; m++) load_query(tile, m, i, query[m][0]);
#pragma unroll
            for (int n = 0; n < PIECES; n += 2) {
                uint32_t b[4];
                load_matrices(b, in_tile<T, D>(keys, n * 8 + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
#pragma unroll
                for (int m = 0; m < M; m++) {
                    multiply(s[m][n], query[m][KEPT ? i : 0], b[0], b[1], T());
                    multiply(s[m][n + 1], query[m][KEPT ? i : 0], b[2], b[3], T());
                }
            }
        }
    }

    __device__ __forceinline__ bool heed_fill(const hyp_cuda_attention &p, int64_t row0) const
    {
        bool any = false;
#pragma unroll
        for (int m = 0; m < M; m++)
            for (int half = 0; half < 2; half++)
                any |= row0 + row_of(m) + 8 * half < p.rows && heeds_fill(p, top[m][half]);
        return any;
    }

    __device__ __forceinline__ void shift(const hyp_cuda_attention &p, const float *shifts, scores &s) const
    {
        int column = (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int n = 0; n < PIECES; n++) {
                    float2 by = *(const float2 *)&shifts[(row_of(m) + 8 * half) * p.shift_step + n * 8 + column];
                    s[m][n][2 * half] = shifted(p, s[m][n][2 * half], by.x);
                    s[m][n][2 * half + 1] = shifted(p, s[m][n][2 * half + 1], by.y);
                }
    }

    // Scores become weights where there is no softmax.
    __device__ __forceinline__ static void scale(scores &s, float by)
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < PIECES; n++)
                for (int j = 0; j < 4; j++) s[m][n][j] *= by;
    }

    // Scores become exponentials, and what there is of the result is scaled to them.
    __device__ __forceinline__ void weigh(scores &s, float unit)
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float most = top[m][half];
#pragma unroll
                for (int n = 0; n < PIECES; n++) most = larger(s[m][n][2 * half], larger(s[m][n][2 * half + 1], most));
                for (int step = 1; step < 4; step *= 2) most = larger(__shfl_xor_sync(EVERY_LANE, most, step), most);
                float base = rounded_product(finite(most), unit), // as in attention_fma.cuh
                      shrink = exp2_short(rounded_product(top[m][half], unit) - base), whole = 0;
                top[m][half] = most;
#pragma unroll
                for (int n = 0; n < PIECES; n++)
                    for (int j = 0; j < 2; j++) {
                        float weight = exp2_short(s[m][n][2 * half + j] * unit - base);
                        s[m][n][2 * half + j] = weight;
                        whole += weight;
                    }
                sum[m][half] = sum[m][half] * shrink + whole;
#pragma unroll
                for (int i = 0; i < D / 8; i++)
                    for (int j = 0; j < 2; j++) result[m][i][2 * half + j] *= shrink;
            }
    }

    __device__ __forceinline__ void mix(T *values, const scores &s)
    {
        int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int n = 0; n < PIECES; n += 2) {
            uint32_t a[M][4];
#pragma unroll
            for (int m = 0; m < M; m++)
                for (int j = 0; j < 4; j++)
                    a[m][j] = pack<T>(s[m][n + j / 2][j % 2 * 2], s[m][n + j / 2][j % 2 * 2 + 1]);
#pragma unroll
            for (int i = 0; i < D / 8; i += 2) {
                uint32_t b[4];
                load_transposed(b, in_tile<T, D>(values, n * 8 + lane % 16, i + lane / 16));
#pragma unroll
                for (int m = 0; m < M; m++) {
                    multiply(result[m][i], a[m], b[0], b[1], T());
                    multiply(result[m][i + 1], a[m], b[2], b[3], T());
                }
            }
        }
    }

    // Leaves what these keys gave to whoever puts the splits together.
    __device__ __forceinline__ void leave(float *part, int64_t left) const
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = row_of(m) + 8 * half;
                float whole = sum[m][half];
                for (int step = 1; step < 4; step *= 2) whole += __shfl_xor_sync(EVERY_LANE, whole, step);
                if (row >= left) continue;
                float *to = part + row * tile_row<D>;
#pragma unroll
                for (int i = 0; i < D / 8; i++)
                    *(float2 *)&to[i * 8 + threadIdx.x % 4 * 2] = {result[m][i][2 * half], result[m][i][2 * half + 1]};
                if (threadIdx.x % 4 == 0) *(float2 *)&to[D] = {top[m][half], whole};
            }
    }

    // Writes the results to the tile of q, each warp to its rows.
    __device__ __forceinline__ void finish(T *tile) const
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float whole = sum[m][half];
                for (int step = 1; step < 4; step *= 2) whole += __shfl_xor_sync(EVERY_LANE, whole, step);
                float share = 1.0f / whole;
#pragma unroll
                for (int i = 0; i < D / 8; i++)
                    *(uint32_t *)&in_tile<T, D>(tile, row_of(m) + 8 * half, i)[threadIdx.x % 4 * 2] =
                        pack<T>(result[m][i][2 * half] * share, result[m][i][2 * half + 1] * share);
            }
    }
};

template <typename T, int D, int M> __device__ __forceinline__ void attention_mma(const hyp_cuda_attention &p)
{
    constexpr int ROWS = HYP_CUDA_ATTENTION_ROWS * M, KEYS = HYP_CUDA_ATTENTION_KEYS;
    extern __shared__ double shared[];
    uint32_t *room = (uint32_t *)shared;
    T *query = (T *)(shared + 2), *keys = query + ROWS * D, *values = keys + KEYS * D;
    float *all_shifts = (float *)(values + KEYS * D);
    float unit = (float)p.unit;
    bool alike = p.shift_step == 0; // for all rows: a row of shifts is loaded ahead, and two take turns
#pragma unroll 1
    for (int64_t block = blockIdx.x; block < p.total; block += gridDim.x) {
        int64_t all = divide(block, p.splits), index = divide(all, p.blocks),
                row0 = (all - index * p.blocks.size) * ROWS;
        int64_t split = block - all * p.splits.size, key = split * p.split_keys;
        int64_t end = key + p.split_keys < p.keys ? key + p.split_keys : p.keys;
        operands<T> at = operands_at<T>(p, index);
        warp_rows<T, D, M> rows;
        __syncthreads();
        load_tile<T, D, ROWS>(query, p.q, at.q, row0, p.rows, p.width);
        load_tile<T, D, KEYS>(keys, p.k, at.k, key, p.keys, p.width);
        load_tile<T, D, KEYS>(values, p.v, at.v, key, p.keys, p.columns);
        float *shifts = all_shifts, coming = 0;
        bool values_here = true, seen = false; // whether this thread knows of a score that counts
        if (alike && has_shifts(p, key)) seen = keep_shift(shifts, load_shift<T>(p, at.mask, key));
        copies_end();
        __syncthreads();
        rows.start(p, query, key == 0);
        // values travel while the scores are computed; the next keys, and a shift for each, while they are mixed
#pragma unroll 1
        for (; key < end; key += KEYS) {
            typename warp_rows<T, D, M>::scores s;
            bool shift = has_shifts(p, key), more = key + KEYS < end, next = alike && more && has_shifts(p, key + KEYS);
            if (shift && !alike) seen = load_tile_shifts<T, ROWS>(p, at.mask, row0, key, shifts);
            bool hidden = shift && !__syncthreads_or(seen || rows.heed_fill(p, row0));
            if (next) coming = load_shift<T>(p, at.mask, key + KEYS);
            if (!hidden) {
                if (!values_here) load_tile<T, D, KEYS>(values, p.v, at.v, key, p.keys, p.columns);
                rows.score(query, keys, s);
                copies_end();
                __syncthreads();
            }
            if (more) load_tile<T, D, KEYS>(keys, p.k, at.k, key + KEYS, p.keys, p.width);
            if (!hidden) {
                if (shift) rows.shift(p, shifts, s);
                if (p.plain)
                    rows.scale(s, (float)p.scale);
                else
                    rows.weigh(s, unit);
                rows.mix(values, s);
            }
            values_here = false;
            if (alike) shifts = shifts == all_shifts ? all_shifts + HYP_CUDA_SHIFT_STEP : all_shifts;
            if (next) seen = keep_shift(shifts, coming);
            copies_end();
            __syncthreads();
        }
        if (M > 1 || p.splits.size == 1) { // there are splits only where there are few blocks
            rows.finish(query);
        } else {
            rows.leave(tile_part<D>(p, block), p.rows - row0);
            if (!is_last((uint32_t *)p.counters + all, (uint32_t)p.splits.size, room)) continue;
            merge_tiles<T, D>(p, all, p.rows - row0, query, (float *)keys);
        }
        store_tile<T, D, ROWS>(p.y, query, at.y, row0, p.rows, p.columns);
    }
}

} // namespace hyp_device

#endif

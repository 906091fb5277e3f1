// attention_rows.cuh - attention of one row of q for a block.
#ifndef HYP_RUNTIME_CUDA_ATTENTION_ROWS_CUH
#define HYP_RUNTIME_CUDA_ATTENTION_ROWS_CUH

#include "runtime/cuda/attention.cuh"

namespace
{

// What several have found of one row, each of its own keys. A record is the largest score, the sum of exponentials and
// an unfinished result of `step` - 2 elements. SHARED: by blocks, in memory that other blocks wrote.
template <typename C> struct merged {
    C top, sum, part;
};
template <typename T, bool SHARED, typename C>
__device__ __forceinline__ merged<C> merge(const C *records, int step, int count, int column, C unit)
{
    merged<C> out = {(C)-INFINITY, 0, 0};
    auto at = [&](int i) { return SHARED ? __ldcg(&records[i]) : records[i]; };
#pragma unroll 4
    for (int i = 0; i < count; i++) out.top = larger(at(i * step), out.top);
    C base = finite(out.top) * unit;
#pragma unroll 4
    for (int i = 0; i < count; i++) {
        C share = exp2_for(at(i * step) * unit - base, T());
        out.sum += at(i * step + 1) * share;
        out.part += at(i * step + 2 + column) * share;
    }
    return out;
}

// What a group of lanes knows of a row.
template <typename T, typename C> struct row_state {
    C top, sum, result[VECTOR<T>];

    // More keys: their scores, and this lane's part of v.
    template <int KEYS> __device__ __forceinline__ void add(const C (&score)[KEYS], const vector<T> (&v)[KEYS], C unit)
    {
        C before = top;
#pragma unroll
        for (int j = 0; j < KEYS; j++) top = larger(score[j], top);
        C base = rounded_product(finite(top), unit);
        scale(exp2_for(rounded_product(before, unit) - base, T()));
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            C weight = exp2_for(score[j] * unit - base, T());
            sum += weight;
#pragma unroll
            for (int i = 0; i < VECTOR<T>; i++) result[i] += weight * (C)widen(v[j].x[i]);
        }
    }
    __device__ __forceinline__ void scale(C by)
    {
        sum *= by;
#pragma unroll
        for (int i = 0; i < VECTOR<T>; i++) result[i] *= by;
    }
    // What the group `distance` lanes away knows comes in addition.
    __device__ __forceinline__ void join(int distance, C unit)
    {
        C before = top;
        top = larger(__shfl_xor_sync(EVERY_LANE, top, distance), top);
        scale(exp2_for(rounded_product(before, unit) - rounded_product(finite(top), unit), T()));
        sum += __shfl_xor_sync(EVERY_LANE, sum, distance);
#pragma unroll
        for (int i = 0; i < VECTOR<T>; i++) result[i] += __shfl_xor_sync(EVERY_LANE, result[i], distance);
    }
};

// Of k and v: the elements of one key.
template <typename T, bool VECTORS>
__device__ __forceinline__ vector<T> load_k(const hyp_cuda_attention &p, const operands<T> &at, int64_t key, int64_t c,
                                            bool there)
{
    bool more = key >= p.first_keys;
    return load_vector<VECTORS>(more ? p.more_k : p.k, more ? at.more_k : at.k, key, c, there ? p.width : 0);
}
template <typename T, bool VECTORS>
__device__ __forceinline__ vector<T> load_v(const hyp_cuda_attention &p, const operands<T> &at, int64_t key, int64_t c,
                                            bool there)
{
    bool more = key >= p.first_keys;
    return load_vector<VECTORS>(more ? p.more_v : p.v, more ? at.more_v : at.v, key, c, there ? p.columns : 0);
}

// The keys of one group: `first`, and each `groups` behind. KEYS of them are under way together; with VECTORS rows of k
// and v are read 16 bytes at a time. `mine` is this lane's first element of every `span`.
template <typename T, bool VECTORS, typename C>
__device__ __forceinline__ void attend_keys(const hyp_cuda_attention &p, const operands<T> &at, const C *query,
                                            int64_t row, int64_t first, int64_t end, int64_t column0, int mine,
                                            row_state<T, C> &state)
{
    constexpr int KEYS = VECTORS ? 4 : 1, PIECES = VECTOR<T> / VECTOR<C>;
    int lanes = 1 << p.lane_bits, span = lanes * VECTOR<T>, group_bits = HYP_CUDA_ROW_THREAD_BITS - (int)p.lane_bits;
    int groups = 1 << group_bits, group = (int)threadIdx.x >> p.lane_bits;
    C unit = (C)p.unit;
#pragma unroll 1
    for (int64_t key0 = first + group; key0 - group < end; key0 += groups * KEYS) {
        C score[KEYS] = {}, shift[KEYS];
        vector<T> k[KEYS], v[KEYS];
        int there = key0 < end
                        ? (int)(((end - key0 < groups * KEYS ? end - key0 : groups * KEYS) + groups - 1) >> group_bits)
                        : 0; // of the keys
#pragma unroll
        for (int j = 0; j < KEYS; j++) k[j] = load_k<T, VECTORS>(p, at, key0 + j * groups, mine, j < there);
#pragma unroll
        for (int j = 0; j < KEYS; j++) v[j] = load_v<T, VECTORS>(p, at, key0 + j * groups, column0 + mine, j < there);
        load_shifts<T>(p, at.mask, row * p.mask.row + key0 * p.mask.column, groups * p.mask.column, there, shift);
#pragma unroll 1
        for (int64_t c = mine;;) {
            vector<C> q[PIECES];
#pragma unroll
            for (int i = 0; i < PIECES; i++) q[i] = ((const vector<C> *)&query[c])[i];
#pragma unroll
            for (int j = 0; j < KEYS; j++)
#pragma unroll
                for (int i = 0; i < VECTOR<T>; i++) score[j] += q[i / VECTOR<C>].x[i % VECTOR<C>] * (C)widen(k[j].x[i]);
            c += span;
            if (c - mine >= p.width) break;
#pragma unroll
            for (int j = 0; j < KEYS; j++) k[j] = load_k<T, VECTORS>(p, at, key0 + j * groups, c, j < there);
        }
#pragma unroll 1
        for (int other = lanes / 2; other > 0; other /= 2)
#pragma unroll
            for (int j = 0; j < KEYS; j++) score[j] += __shfl_xor_sync(EVERY_LANE, score[j], other);
#pragma unroll
        for (int j = 0; j < KEYS; j++) score[j] = shifted(p, score[j], shift[j]);
        state.add(score, v, unit);
    }
}

// A group of 2^lane_bits neighbouring threads takes a key at a time, each lane a vector of its elements. Groups have
// their own softmax, and are put together in the end: those of a warp, the warps, then the blocks among which the keys
// of a row are split.
template <typename T> __device__ __forceinline__ void attention_rows(const hyp_cuda_attention &p)
{
    using C = typename computing<T>::type;
    constexpr int THREADS = HYP_CUDA_ROW_THREADS, WARPS = THREADS / 32;
    extern __shared__ double shared[];
    int lanes = 1 << p.lane_bits, span = lanes * VECTOR<T>, step = span + 2;
    int mine = ((int)threadIdx.x & (lanes - 1)) * VECTOR<T>;
    uint32_t *room = (uint32_t *)shared;
    C *query = (C *)(shared + 2), *records = query + p.padded_width; // a record for each warp
    C unit = (C)p.unit;
    wait_for_kernels_before();
#pragma unroll 1
    for (int64_t block = blockIdx.x; block < p.total; block += gridDim.x) {
        int64_t all = divide(block, p.splits), index = divide(all, p.blocks), rest = all - index * p.blocks.size;
        int64_t row = divide(rest, p.column_blocks), column0 = (rest - row * p.column_blocks.size) * span;
        int64_t first = (block - all * p.splits.size) * p.split_keys;
        int64_t end = first + p.split_keys < p.keys ? first + p.split_keys : p.keys;
        operands<T> at = operands_at<T>(p, index);
        __syncthreads();
#pragma unroll 1
        for (int64_t c = threadIdx.x; c < p.padded_width; c += THREADS)
            query[c] = c < p.width ? widen(at.q[row * p.q.row + c * p.q.column]) : (C)0;
        __syncthreads();
        row_state<T, C> state = {(C)-INFINITY, 0, {}};
        if (p.k.vector && p.v.vector && p.more_k.vector && p.more_v.vector)
            attend_keys<T, true>(p, at, query, row, first, end, column0, mine, state);
        else
            attend_keys<T, false>(p, at, query, row, first, end, column0, mine, state);

#pragma unroll 1
        for (int other = lanes; other < 32; other *= 2) state.join(other, unit);
        C *record = records + threadIdx.x / 32 * step;
        if ((int)threadIdx.x % 32 < lanes) {
            if (mine == 0) record[0] = state.top, record[1] = state.sum;
#pragma unroll
            for (int i = 0; i < VECTOR<T>; i++) record[2 + mine + i] = state.result[i];
        }
        __syncthreads();
        int64_t left = p.columns - column0;
        int splits = (int)p.splits.size, columns = left < span ? (int)left : span, c = (int)threadIdx.x;
        merged<C> found = {};
        if (c < columns) found = merge<T, false>(records, step, WARPS, c, unit);
        if (splits > 1) {
            C *rows = (C *)p.parts + all * splits * step, *row_part = rows + (block - all * splits) * step;
            if (c < columns) row_part[2 + c] = found.part;
            if (c == 0) row_part[0] = found.top, row_part[1] = found.sum;
            if (!is_last((uint32_t *)p.counters + all, (uint32_t)splits, room)) continue;
            if (c < columns) found = merge<T, true>(rows, step, splits, c, unit);
        }
        if (c < columns) narrow(found.part / found.sum, at.y[row * p.y.row + (column0 + c) * p.y.column]);
    }
}

} // namespace

#endif

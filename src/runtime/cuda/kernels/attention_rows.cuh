// attention_rows.cuh - attention of one row of q for a block.
#ifndef HYP_RUNTIME_CUDA_KERNELS_ATTENTION_ROWS_CUH
#define HYP_RUNTIME_CUDA_KERNELS_ATTENTION_ROWS_CUH

#include "runtime/cuda/kernels/attention.cuh"

inline namespace hyp_device
{

// What several have found of one row, each of its own keys. A record is the largest score, the sum of exponentials and
// an unfinished result of `step` - 2 elements. SHARED: by blocks, in memory that other blocks wrote.
template <typename C> struct merged {
    C top, sum, part;
};
template <typename T, bool SHARED, typename C>
__device__ __forceinline__ merged<C> merge(const C *records, int step, int count, int column, C unit)
{
    constexpr int AT_ONCE = 8; // all of them are loaded before any is looked at
    merged<C> out = {(C)-INFINITY, 0, 0};
    auto at = [&](int i) { return SHARED ? __ldcg(&records[i]) : records[i]; };
#pragma unroll 1
    for (int first = 0; first < count; first += AT_ONCE, records += AT_ONCE * step) {
        merged<C> found[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            found[i] = {(C)-INFINITY, 0, 0};
            if (first + i < count) found[i] = {at(i * step), at(i * step + 1), at(i * step + 2 + column)};
        }
        C before = out.top;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) out.top = larger(found[i].top, out.top);
        C base = finite(out.top) * unit, shrink = exp2_for(before * unit - base, T());
        out.sum *= shrink;
        out.part *= shrink;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            C share = exp2_for(found[i].top * unit - base, T());
            out.sum += found[i].sum * share;
            out.part += found[i].part * share;
        }
    }
    return out;
}

// Elements as they are loaded, 16 bytes of them: of 16-bit types half as many registers as the elements would take.
template <typename T> struct key_piece {
    uint32_t word[4];
    __device__ __forceinline__ typename computing<T>::type operator[](int i) const { return get(i, T()); }
    __device__ __forceinline__ float get(int i, float) const { return __uint_as_float(word[i]); }
    __device__ __forceinline__ float get(int i, __half) const
    {
        return from_half((uint16_t)(word[i / 2] >> i % 2 * 16));
    }
    __device__ __forceinline__ float get(int i, __nv_bfloat16) const
    {
        return __uint_as_float(i % 2 ? word[i / 2] & 0xffff0000u : word[i / 2] << 16);
    }
    __device__ __forceinline__ double get(int i, double) const
    {
        uint64_t bits = (uint64_t)word[2 * i + 1] << 32 | word[2 * i];
        double out;
        memcpy(&out, &bits, sizeof out);
        return out;
    }
};
template <bool VECTORS, typename T>
__device__ __forceinline__ key_piece<T> load_key_piece(const hyp_cuda_matrix &m, const T *base, int64_t row,
                                                       int64_t column, int64_t end)
{
    key_piece<T> out = {};
    if constexpr (VECTORS) {
        if (column >= end) return out;
        uint4 words = *(const uint4 *)(base + row * m.row + column);
        out.word[0] = words.x, out.word[1] = words.y, out.word[2] = words.z, out.word[3] = words.w;
    } else {
        vector<T> elements = load_vector<false>(m, base, row, column, end);
        memcpy(&out, &elements, sizeof out);
    }
    return out;
}

// What a group of lanes knows of a row.
template <typename T, typename C> struct row_state {
    C top, sum, result[VECTOR<T>];

    // More keys: their scores, and this lane's part of v.
    template <int KEYS>
    __device__ __forceinline__ void add(const C (&score)[KEYS], const key_piece<T> (&v)[KEYS], C unit)
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
            for (int i = 0; i < VECTOR<T>; i++) result[i] += weight * v[j][i];
        }
    }
    // The same where scores times a factor are weights.
    template <int KEYS>
    __device__ __forceinline__ void add_plain(const C (&score)[KEYS], const key_piece<T> (&v)[KEYS], C factor)
    {
#pragma unroll
        for (int j = 0; j < KEYS; j++)
#pragma unroll
            for (int i = 0; i < VECTOR<T>; i++) result[i] += score[j] * factor * v[j][i];
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

// A row of q for one block, a number for each of its elements.
template <typename T, typename C>
__device__ __forceinline__ void take_query(const hyp_cuda_attention &p, const operands<T> &at, int64_t row, C *query)
{
    __syncthreads();
#pragma unroll 1
    for (int64_t c = threadIdx.x; c < p.padded_width; c += HYP_CUDA_ROW_THREADS)
        query[c] = c < p.width ? widen(at.q[row * p.q.row + c * p.q.column]) : (C)0;
    __syncthreads();
}

// How many of `most` steps of 2^bits from 0 on are below `end`.
__device__ __forceinline__ int count_steps(int64_t end, int bits, int most)
{
    int64_t all = (int64_t)most << bits, left = end < 0 ? 0 : end < all ? end : all;
    return ((int)left + (1 << bits) - 1) >> bits;
}

// This lane's piece of every step-th key from key0 on; zeros for keys that are not `there`, and for those of the other
// part.
template <typename T, bool VECTORS, int KEYS>
__device__ __forceinline__ void load_past(const hyp_cuda_matrix &m, const T *at, int64_t key0, int step, int there,
                                          int64_t column, int64_t end, key_piece<T> (&out)[KEYS])
{
#pragma unroll
    for (int j = 0; j < KEYS; j++)
        out[j] = load_key_piece<VECTORS>(m, at, key0 + j * step, column, j < there ? end : 0);
}
// Those of the other part.
template <typename T, bool VECTORS, int KEYS>
__device__ __forceinline__ void load_more(const hyp_cuda_matrix &m, const T *at, int64_t key0, int step, int past,
                                          int there, int64_t column, int64_t end, key_piece<T> (&out)[KEYS])
{
#pragma unroll
    for (int j = 0; j < KEYS; j++)
        if (j >= past && j < there) out[j] = load_key_piece<VECTORS>(m, at, key0 + j * step, column, end);
}

// The keys of one group: `first`, and each `groups` behind. KEYS of them are under way together; with VECTORS rows of k
// and v are read 16 bytes at a time. `mine` is this lane's first element of every `span`. Keys that nothing in the run
// writes are under way before the kernel waits for those before it, from which q comes.
template <typename T, bool VECTORS, typename C>
__device__ __forceinline__ void attend_keys(const hyp_cuda_attention &p, const operands<T> &at, C *query, int64_t row,
                                            int64_t first, int64_t end, int64_t column0, int mine,
                                            row_state<T, C> &state)
{
    constexpr int KEYS = VECTORS ? 4 : 1, PIECES = VECTOR<T> / VECTOR<C>;
    int lanes = 1 << p.lane_bits, span = lanes * VECTOR<T>, group_bits = HYP_CUDA_ROW_THREAD_BITS - (int)p.lane_bits;
    int groups = 1 << group_bits, group = (int)threadIdx.x >> p.lane_bits;
    C unit = (C)p.unit;
#pragma unroll 1
    for (int64_t key0 = first + group; key0 - group < end; key0 += groups * KEYS) {
        C score[KEYS] = {}, shift[KEYS];
        key_piece<T> k[KEYS], v[KEYS];
        // how many of them there are, and how many are of the first part
        int there = count_steps(end - key0, group_bits, KEYS),
            past = count_steps(p.first_keys - key0, group_bits, there);
        bool start = key0 - group == first;
        if (start && !p.past_stands) kernels_before_end();
        load_past<T, VECTORS>(p.k, at.k, key0, groups, past, mine, p.width, k);
        load_past<T, VECTORS>(p.v, at.v, key0, groups, past, column0 + mine, p.columns, v);
        if (start) kernels_before_end();
        if (past < there) {
            load_more<T, VECTORS>(p.more_k, at.more_k, key0, groups, past, there, mine, p.width, k);
            load_more<T, VECTORS>(p.more_v, at.more_v, key0, groups, past, there, column0 + mine, p.columns, v);
        }
        load_shifts<T>(p, at.mask, row * p.mask.row + key0 * p.mask.column, groups * p.mask.column, there, shift);
        if (start) take_query(p, at, row, query);
#pragma unroll 1
        for (int64_t c = mine;;) {
            vector<C> q[PIECES];
#pragma unroll
            for (int i = 0; i < PIECES; i++) q[i] = ((const vector<C> *)&query[c])[i];
#pragma unroll
            for (int j = 0; j < KEYS; j++)
#pragma unroll
                for (int i = 0; i < VECTOR<T>; i++) score[j] += q[i / VECTOR<C>].x[i % VECTOR<C>] * k[j][i];
            c += span;
            if (c - mine >= p.width) break;
            load_past<T, VECTORS>(p.k, at.k, key0, groups, past, c, p.width, k);
            load_more<T, VECTORS>(p.more_k, at.more_k, key0, groups, past, there, c, p.width, k);
        }
#pragma unroll 1
        for (int other = lanes / 2; other > 0; other /= 2)
#pragma unroll
            for (int j = 0; j < KEYS; j++) score[j] += __shfl_xor_sync(EVERY_LANE, score[j], other);
        if (p.plain) {
            state.add_plain(score, v, (C)p.scale);
            continue;
        }
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
    constexpr int WARPS = HYP_CUDA_ROW_THREADS / 32;
    extern __shared__ double shared[];
    int lanes = 1 << p.lane_bits, span = lanes * VECTOR<T>, step = span + 2;
    int mine = ((int)threadIdx.x & (lanes - 1)) * VECTOR<T>;
    uint32_t *room = (uint32_t *)shared;
    C *query = (C *)(shared + 2), *records = query + p.padded_width; // a record for each warp
    C unit = (C)p.unit;
    next_kernel_may_start();
#pragma unroll 1
    for (int64_t block = blockIdx.x; block < p.total; block += gridDim.x) {
        int64_t all = divide(block, p.splits), index = divide(all, p.blocks), rest = all - index * p.blocks.size;
        int64_t row = divide(rest, p.column_blocks), column0 = (rest - row * p.column_blocks.size) * span;
        int64_t first = (block - all * p.splits.size) * p.split_keys;
        int64_t end = first + p.split_keys < p.keys ? first + p.split_keys : p.keys;
        operands<T> at = operands_at<T>(p, index);
        row_state<T, C> state = {start_of<C>(p), plain_sum<C>(p, first == 0 && (int)threadIdx.x < lanes), {}};
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

} // namespace hyp_device

#endif

// attention.cu - softmax(scale q k^T + mask) v whose scores never reach memory. Whoever goes through the keys keeps for
// a row the largest score so far, the sum of the exponentials and the unfinished result, and scales both when a larger
// score comes (Milakov and Gimelshein 2018; tiles and their order as in FlashAttention-2, Dao 2023).
//
//   attention_rows_*   one row of q for a block, keys shared out to groups of lanes: few rows, any type and width
//   attention_f16_*    64 rows for a block on tensor cores, 16 for each warp, or 128 and 32; bf16 likewise
//   attention_f32_*    64 rows for a block in full precision
//
// The number behind the type is the widest head. Sums are taken in a fixed order, so results are the same on every run.
#include "runtime/cuda/common.cuh"
#ifndef HYP_CUDA_EMULATOR // it has its own
#include "runtime/cuda/warp.cuh"
#endif

namespace
{

constexpr double LOG2_E = 1.4426950408889634;
constexpr unsigned EVERY_LANE = 0xffffffff;

template <typename T> constexpr int VECTOR = 16 / (int)sizeof(T); // elements of 16 bytes

template <typename T> struct computing {
    using type = float;
};
template <> struct computing<double> {
    using type = double;
};

template <typename T> struct alignas(16) vector {
    T x[VECTOR<T>];
};

__device__ __forceinline__ float widen(__half v) { return __half2float(v); }
__device__ __forceinline__ float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ double widen(double v) { return v; }
__device__ __forceinline__ void narrow(float v, __half &to) { to = to_half(v); }
__device__ __forceinline__ void narrow(float v, __nv_bfloat16 &to) { to = to_bfloat(v); }
__device__ __forceinline__ void narrow(float v, float &to) { to = v; }
__device__ __forceinline__ void narrow(double v, double &to) { to = v; }

// The larger one, or the one that is a number.
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }
// What a row with this largest score subtracts: 0 where there is nothing but -inf, so that its exponentials are 0.
template <typename C> __device__ __forceinline__ C finite(C top) { return top == (C)-INFINITY ? (C)0 : top; }

// 2^x, as precise as results of type T need.
__device__ __forceinline__ float exp2_for(float x, __half) { return exp2_short(x); }
__device__ __forceinline__ float exp2_for(float x, __nv_bfloat16) { return exp2_short(x); }
__device__ __forceinline__ float exp2_for(float x, float) { return exp2f(x); }
__device__ __forceinline__ double exp2_for(double x, double) { return exp2(x); }

// ---- operands ---------------------------------------------------------------------------------------------

// The operands at one index of the batch.
template <typename T> struct operands {
    const T *q, *k, *v;
    uint64_t mask;
    T *y;
};

template <typename T> __device__ __forceinline__ operands<T> operands_at(const hyp_cuda_attention &p, int64_t index)
{
    int64_t at[HYP_CUDA_ATTENTION_LANES] = {0};
#pragma unroll 1
    for (uint32_t d = 0; d < p.rank; d++) {
        int64_t next = d + 1 < p.rank ? divide(index, p.batch[d]) : 0, i = index - next * p.batch[d].size;
#pragma unroll
        for (int lane = 0; lane < HYP_CUDA_ATTENTION_LANES; lane++) at[lane] += i * p.stride[lane][d];
        index = next;
    }
    return {(const T *)p.q.data + at[0], (const T *)p.k.data + at[1], (const T *)p.v.data + at[2],
            p.mask.data + (uint64_t)at[3] * (p.masked == HYP_CUDA_MASK_ADDED ? sizeof(T) : 1), (T *)p.y.data + at[4]};
}

// What the mask adds to COUNT scores, NaN where p.fill takes their place: that of score j is element at + j step. From
// `end` on it is -inf. All are loaded before any is looked at.
template <typename T, int COUNT, typename C>
__device__ __forceinline__ void load_shifts(const hyp_cuda_attention &p, uint64_t mask, int64_t at, int64_t step,
                                            int end, C (&out)[COUNT])
{
    if (p.masked > HYP_CUDA_MASK_ADDED) {
        const uint8_t *from = (const uint8_t *)mask + at;
        uint8_t bools[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; j++, from += step) bools[j] = j < end ? *from : 0;
#pragma unroll
        for (int j = 0; j < COUNT; j++) out[j] = (bools[j] != 0) == (p.masked == HYP_CUDA_MASK_HIDES) ? (C)NAN : (C)0;
    } else if (p.masked == HYP_CUDA_MASK_ADDED) {
        const T *from = (const T *)mask + at;
        T numbers[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; j++, from += step) numbers[j] = j < end ? *from : T(0.0f);
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            C shift = (C)widen(numbers[j]); // the lowest number must stay one
            out[j] = larger(shift * (C)LOG2_E, shift == (C)-INFINITY ? shift : (C)HYP_CUDA_LOWEST);
        }
    } else {
#pragma unroll
        for (int j = 0; j < COUNT; j++) out[j] = 0;
    }
#pragma unroll
    for (int j = 0; j < COUNT; j++)
        if (j >= end) out[j] = -INFINITY;
}

// The score as an exponent of 2, once it is multiplied by p.unit.
template <typename C> __device__ __forceinline__ C shifted(const hyp_cuda_attention &p, C score, C shift)
{
    return shift == shift ? score * (C)p.scale + shift : (C)p.fill;
}

// VECTOR elements of a row from a column on, zeros from column `end` on.
template <bool VECTORS, typename T>
__device__ __forceinline__ vector<T> load_vector(const hyp_cuda_matrix &m, const T *base, int64_t row, int64_t column,
                                                 int64_t end)
{
    vector<T> out = {};
    const T *at = base + row * m.row + column * m.column;
    if constexpr (VECTORS) {
        return column < end ? *(const vector<T> *)at : out;
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR<T>; i++)
            if (column + i < end) out.x[i] = at[i * m.column];
        return out;
    }
}

// ---- one row for a block ----------------------------------------------------------------------------------

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

// Is this block the last of those that share a row? What they wrote before can be read then.
__device__ __forceinline__ bool is_last(uint32_t *counter, uint32_t count, uint32_t *room)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence(); // for the whole block, which has come to the barrier
        *room = atomicAdd(counter, 1u) == count - 1;
        if (*room) *counter = 0; // for the next launch
        __threadfence();
    }
    __syncthreads();
    return *room != 0;
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
        C base = finite(top) * unit;
        scale(exp2_for(before * unit - base, T()));
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
        scale(exp2_for(before * unit - finite(top) * unit, T()));
        sum += __shfl_xor_sync(EVERY_LANE, sum, distance);
#pragma unroll
        for (int i = 0; i < VECTOR<T>; i++) result[i] += __shfl_xor_sync(EVERY_LANE, result[i], distance);
    }
};

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
        for (int j = 0; j < KEYS; j++)
            k[j] = load_vector<VECTORS>(p.k, at.k, key0 + j * groups, mine, j < there ? p.width : 0);
#pragma unroll
        for (int j = 0; j < KEYS; j++)
            v[j] = load_vector<VECTORS>(p.v, at.v, key0 + j * groups, column0 + mine, j < there ? p.columns : 0);
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
            for (int j = 0; j < KEYS; j++)
                k[j] = load_vector<VECTORS>(p.k, at.k, key0 + j * groups, c, j < there ? p.width : 0);
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
        if (p.k.vector && p.v.vector)
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

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800 // on older devices everything goes by rows

// ---- tiles in shared memory -------------------------------------------------------------------------------

// Where the vector `chunk` of a row lies in a tile D wide: against bank conflicts chunks of 16-bit elements are swapped
// about, and rows of f32 are padded.
template <typename T, int D> __device__ __forceinline__ T *in_tile(T *tile, int row, int chunk)
{
    if (sizeof(T) == 2) return tile + row * D + (chunk ^ (row & 7)) * VECTOR<T>;
    return tile + row * (D + VECTOR<T>)+chunk * VECTOR<T>;
}

// Rarely needed and called from several places, so it is not repeated there.
template <typename T, int D, int ROWS>
__device__ __noinline__ void load_tile_elements(T *tile, const T *from, int64_t row_step, int64_t column_step, int rows,
                                                int width)
{
    bool down = row_step == 1; // neighbours in memory go to neighbouring threads
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < ROWS * D; i += HYP_CUDA_ATTENTION_THREADS) {
        int row = down ? i % ROWS : i / D, c = down ? i / ROWS : i % D;
        bool there = row < rows && c < width;
        in_tile<T, D>(tile, row, c / VECTOR<T>)[c % VECTOR<T>] =
            there ? from[row * row_step + c * column_step] : T(0.0f);
    }
}

// Begins to load ROWS rows from `first` on: zeros from row `end` and from column `width` on.
template <typename T, int D, int ROWS>
__device__ __forceinline__ void load_tile(T *tile, const hyp_cuda_matrix &m, const T *base, int64_t first, int64_t end,
                                          int64_t width)
{
    constexpr int CHUNKS = D / VECTOR<T>;
    int left = (int)(end - first < ROWS ? end - first : ROWS);
    if (!m.vector) {
        load_tile_elements<T, D, ROWS>(tile, base + first * m.row, m.row, m.column, left, (int)width);
        return;
    }
    constexpr int AT_ONCE = HYP_CUDA_ATTENTION_THREADS / CHUNKS;
    int row = (int)threadIdx.x / CHUNKS, chunk = (int)threadIdx.x % CHUNKS;
    const T *from = base + (first + row) * m.row + chunk * VECTOR<T>;
    if (chunk * VECTOR<T> >= width) left = 0;
#pragma unroll
    for (int i = 0; i < ROWS; i += AT_ONCE) {
        bool there = row + i < left;
        copy_begin(in_tile<T, D>(tile, row + i, chunk), there ? from : base, there);
        from += AT_ONCE * m.row;
    }
}

// Rows of y from `first` on from a tile.
template <typename T, int D, int ROWS>
__device__ __forceinline__ void store_tile(const hyp_cuda_attention &p, T *tile, T *y, int64_t first)
{
    constexpr int CHUNKS = D / VECTOR<T>;
    __syncthreads();
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < ROWS * CHUNKS; i += HYP_CUDA_ATTENTION_THREADS) {
        int64_t row = first + i / CHUNKS, column = i % CHUNKS * VECTOR<T>;
        if (row >= p.rows || column >= p.columns) continue;
        const T *from = in_tile<T, D>(tile, i / CHUNKS, i % CHUNKS);
        T *to = y + row * p.y.row + column * p.y.column;
        if (p.y.vector)
            *(vector<T> *)to = *(const vector<T> *)from;
        else
#pragma unroll 1
            for (int j = 0; j < VECTOR<T> && column + j < p.columns; j++) to[j * p.y.column] = from[j];
    }
}

// ---- keys that are split among blocks ----------------------------------------------------------------------

// What a block leaves of a row: the unfinished result, its largest score, its sum; 16 bytes more are its alignment.
template <int D> constexpr int tile_row = D + 4;
template <int D> __device__ __forceinline__ float *tile_part(const hyp_cuda_attention &p, int64_t block)
{
    return (float *)p.parts + block * (HYP_CUDA_ATTENTION_ROWS * tile_row<D>);
}

// Puts together what the blocks that share rows have left, in the tile of q. `room`: a float for every row and split.
template <typename T, int D>
__device__ __forceinline__ void merge_tiles(const hyp_cuda_attention &p, int64_t all, int64_t left, T *tile,
                                            float *room)
{
    constexpr int ROW = tile_row<D>, PART = HYP_CUDA_ATTENTION_ROWS * ROW;
    int splits = (int)p.splits.size, rows = left < HYP_CUDA_ATTENTION_ROWS ? (int)left : HYP_CUDA_ATTENTION_ROWS;
    const float *parts = tile_part<D>(p, all * splits);
    float unit = (float)p.unit;
    if ((int)threadIdx.x < rows) {
        const float *at = parts + threadIdx.x * ROW + D;
        float *share = room + threadIdx.x * splits, most = -INFINITY, whole = 0;
#pragma unroll 4
        for (int i = 0; i < splits; i++) most = larger(__ldcg(&at[i * PART]), most);
        float base = finite(most) * unit;
#pragma unroll 4
        for (int i = 0; i < splits; i++) {
            share[i] = exp2_for(__ldcg(&at[i * PART]) * unit - base, T());
            whole += share[i] * __ldcg(&at[i * PART + 1]);
        }
        for (int i = 0; i < splits; i++) share[i] /= whole;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < rows * (D / 4); i += HYP_CUDA_ATTENTION_THREADS) {
        int row = i / (D / 4), column = i % (D / 4) * 4;
        const float *share = room + row * splits;
        float4 out = {0, 0, 0, 0};
#pragma unroll 4
        for (int j = 0; j < splits; j++) {
            float4 part = __ldcg((const float4 *)&parts[j * PART + row * ROW + column]);
            out.x += share[j] * part.x;
            out.y += share[j] * part.y;
            out.z += share[j] * part.z;
            out.w += share[j] * part.w;
        }
        T *to = in_tile<T, D>(tile, row, column / VECTOR<T>) + column % VECTOR<T>;
        narrow(out.x, to[0]);
        narrow(out.y, to[1]);
        narrow(out.z, to[2]);
        narrow(out.w, to[3]);
    }
}

// ---- what a mask adds to the scores of a tile ---------------------------------------------------------------

// Must scores of the tile from this key on be shifted?
__device__ __forceinline__ bool has_shifts(const hyp_cuda_attention &p, int64_t first)
{
    return p.masked != HYP_CUDA_MASK_NONE || first + HYP_CUDA_ATTENTION_KEYS > p.keys;
}

// Loads what is added to the scores of a tile, -inf for rows and keys that there are not. One row serves all where they
// are alike. Says whether any score is neither -inf then nor p.fill, as far as this thread sees.
template <typename T, int ROWS>
__device__ __forceinline__ bool load_tile_shifts(const hyp_cuda_attention &p, uint64_t mask, int64_t row0, int64_t key0,
                                                 float *shifts)
{
    constexpr int KEYS = HYP_CUDA_ATTENTION_KEYS, STEP = HYP_CUDA_ATTENTION_THREADS / KEYS, BATCH = 16;
    int rows = p.shift_step ? ROWS : 1, column = (int)threadIdx.x % KEYS;
    int end = p.rows - row0 < rows ? (int)(p.rows - row0) : rows;
    if (key0 + column >= p.keys) end = 0;
    bool seen = false;
#pragma unroll 1
    for (int row = (int)threadIdx.x / KEYS; row < rows; row += BATCH * STEP) {
        float shift[BATCH];
        load_shifts<T>(p, mask, (row0 + row) * p.mask.row + (key0 + column) * p.mask.column, STEP * p.mask.row,
                       (end - row + STEP - 1) / STEP, shift);
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            seen |= shift[j] > -INFINITY;
            if (row + j * STEP < rows) shifts[(row + j * STEP) * HYP_CUDA_SHIFT_STEP + column] = shift[j];
        }
    }
    return seen;
}

// Does a row with this largest score so far change when scores come that are -inf or p.fill?
__device__ __forceinline__ bool heeds_fill(const hyp_cuda_attention &p, float top)
{
    return p.masked > HYP_CUDA_MASK_ADDED && !(top > (float)p.fill + 200.0f); // 2^-200 is 0
}

// ---- tensor cores -----------------------------------------------------------------------------------------

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

    __device__ __forceinline__ void start(T *tile)
    {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int i = 0; KEPT && i < D / 16; i++) load_query(tile, m, i, query[m][i]);
#pragma unroll
            for (int i = 0; i < D / 8; i++)
                for (int j = 0; j < 4; j++) result[m][i][j] = 0;
            for (int half = 0; half < 2; half++) top[m][half] = -INFINITY, sum[m][half] = 0;
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
                float base = finite(most) * unit, shrink = exp2_short(top[m][half] * unit - base), whole = 0;
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
    constexpr int TILES = 2 * KEYS * D; // keys and values; there are two such pairs in turns
    T *query = (T *)(shared + 2), *tiles = query + ROWS * D;
    float *shifts = (float *)(tiles + 2 * TILES);
    float unit = (float)p.unit;
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
        load_tile<T, D, KEYS>(tiles, p.k, at.k, key, p.keys, p.width);
        load_tile<T, D, KEYS>(tiles + KEYS * D, p.v, at.v, key, p.keys, p.columns);
        copies_end();
        __syncthreads();
        rows.start(query);
        // the next keys and values travel while these are worked on
#pragma unroll 1
        for (int turn = 0; key < end; key += KEYS, turn ^= 1) {
            typename warp_rows<T, D, M>::scores s;
            T *keys = tiles + turn * TILES, *values = keys + KEYS * D, *next = tiles + (turn ^ 1) * TILES;
            if (key + KEYS < end) {
                load_tile<T, D, KEYS>(next, p.k, at.k, key + KEYS, p.keys, p.width);
                load_tile<T, D, KEYS>(next + KEYS * D, p.v, at.v, key + KEYS, p.keys, p.columns);
            }
            bool shift = has_shifts(p, key), needed = true; // or all is hidden here
            if (shift)
                needed = __syncthreads_or(load_tile_shifts<T, ROWS>(p, at.mask, row0, key, shifts) ||
                                          rows.heed_fill(p, row0));
            if (needed) {
                rows.score(query, keys, s);
                if (shift) rows.shift(p, shifts, s);
                rows.weigh(s, unit);
                rows.mix(values, s);
            }
            copies_end();
            __syncthreads();
        }
        if (M > 1 || p.splits.size == 1) { // there are splits only where there are few blocks
            rows.finish(query);
        } else {
            rows.leave(tile_part<D>(p, block), p.rows - row0);
            if (!is_last((uint32_t *)p.counters + all, (uint32_t)p.splits.size, room)) continue;
            merge_tiles<T, D>(p, all, p.rows - row0, query, (float *)tiles);
        }
        store_tile<T, D, ROWS>(p, query, at.y, row0);
    }
}

// ---- f32 --------------------------------------------------------------------------------------------------

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
            top[i] = -INFINITY, sum[i] = 0;
            for (int j = 0; j < D / 16; j++) result[i][j] = 0;
        }
        __syncthreads();
        load_tile<float, D, ROWS>(query, p.q, at.q, row0, p.rows, p.width);
#pragma unroll 1
        for (; key < end; key += KEYS) {
            bool shift = has_shifts(p, key);
            load_tile<float, D, KEYS>(keys, p.k, at.k, key, p.keys, p.width);
            if (shift) {
                bool needed = load_tile_shifts<float, ROWS>(p, at.mask, row0, key, shifts);
#pragma unroll
                for (int i = 0; i < MINE; i++) needed |= row0 + y + 8 * i < p.rows && heeds_fill(p, top[i]);
                if (!__syncthreads_or(needed)) {
                    copies_end();
                    continue; // all is hidden here
                }
            }
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
            float shrink[MINE];
#pragma unroll
            for (int i = 0; i < MINE; i++) {
                float most = top[i];
#pragma unroll
                for (int j = 0; j < EACH; j++) most = larger(s[i][j], most);
                for (int step = 1; step < 16; step *= 2) most = larger(__shfl_xor_sync(EVERY_LANE, most, step), most);
                float base = finite(most) * unit, whole = 0;
                shrink[i] = exp2f(top[i] * unit - base);
                top[i] = most;
#pragma unroll
                for (int j = 0; j < EACH; j++) {
                    float weight = exp2f(s[i][j] * unit - base);
                    whole += weight;
                    weights[(y + 8 * i) * WEIGHT_STEP + x + 16 * j] = weight;
                }
                sum[i] = sum[i] * shrink[i] + whole;
            }
            copies_end();
            __syncthreads();
            // A tile is summed by itself and then added: long sums stay as precise as short ones.
#pragma unroll
            for (int part = 0; part < D / 64; part++) {
                float mixed[MINE][4] = {};
#pragma unroll 2
                for (int c = 0; c < KEYS; c += 4) {
                    float4 a[MINE];
#pragma unroll
                    for (int i = 0; i < MINE; i++) a[i] = *(const float4 *)&weights[(y + 8 * i) * WEIGHT_STEP + c];
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        float4 b = *(const float4 *)&values[(c + k) * STEP + part * 64 + x * 4];
#pragma unroll
                        for (int i = 0; i < MINE; i++) {
                            float w = k == 0 ? a[i].x : k == 1 ? a[i].y : k == 2 ? a[i].z : a[i].w;
                            mixed[i][0] += w * b.x;
                            mixed[i][1] += w * b.y;
                            mixed[i][2] += w * b.z;
                            mixed[i][3] += w * b.w;
                        }
                    }
                }
#pragma unroll
                for (int i = 0; i < MINE; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        result[i][4 * part + j] = result[i][4 * part + j] * shrink[i] + mixed[i][j];
            }
            __syncthreads();
        }
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
        store_tile<float, D, ROWS>(p, query, at.y, row0);
    }
}

#endif

} // namespace

// ---- entry points -----------------------------------------------------------------------------------------

// `blocks` are to fit on a multiprocessor, by their registers.
#define ATTENTION(name, threads, blocks, call)                                                                         \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ hyp_cuda_attention p)   \
    {                                                                                                                  \
        call;                                                                                                          \
    }

ATTENTION(attention_rows_f32, HYP_CUDA_ROW_THREADS, 3, attention_rows<float>(p))
ATTENTION(attention_rows_f16, HYP_CUDA_ROW_THREADS, 2, attention_rows<__half>(p))
ATTENTION(attention_rows_bf16, HYP_CUDA_ROW_THREADS, 2, attention_rows<__nv_bfloat16>(p))
ATTENTION(attention_rows_f64, HYP_CUDA_ROW_THREADS, 2, attention_rows<double>(p))

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TILES(name, blocks, call)                                                                                      \
    extern "C" __global__ void name(const __grid_constant__ hyp_cuda_attention p) {} // not used
#else
#define TILES(name, blocks, call) ATTENTION(name, HYP_CUDA_ATTENTION_THREADS, blocks, call)
#endif
TILES(attention_f16_64, 3, (attention_mma<__half, 64, 1>(p)))
TILES(attention_f16_64_tall, 2, (attention_mma<__half, 64, 2>(p)))
TILES(attention_f16_128, 2, (attention_mma<__half, 128, 1>(p)))
TILES(attention_f16_128_tall, 2, (attention_mma<__half, 128, 2>(p)))
TILES(attention_bf16_64, 3, (attention_mma<__nv_bfloat16, 64, 1>(p)))
TILES(attention_bf16_64_tall, 2, (attention_mma<__nv_bfloat16, 64, 2>(p)))
TILES(attention_bf16_128, 2, (attention_mma<__nv_bfloat16, 128, 1>(p)))
TILES(attention_bf16_128_tall, 2, (attention_mma<__nv_bfloat16, 128, 2>(p)))
TILES(attention_f32_64, 3, attention_fma<64>(p))
TILES(attention_f32_128, 2, attention_fma<128>(p))

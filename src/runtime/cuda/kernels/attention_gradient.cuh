// attention_gradient.cuh - the gradients of attention on tensor cores: FlashAttention-2 (Dao 2023), algorithm 2, in two
// kernels, so that no two blocks add to one sum. The first goes through the keys of 64 rows and leaves of each row what
// makes probabilities of its scores; the second goes through the rows of 64 keys.
#ifndef HYP_RUNTIME_CUDA_KERNELS_ATTENTION_GRADIENT_CUH
#define HYP_RUNTIME_CUDA_KERNELS_ATTENTION_GRADIENT_CUH

#include "runtime/cuda/kernels/attention_mma.cuh"

inline namespace hyp_device
{

constexpr int GRADIENT_SPAN = HYP_CUDA_ATTENTION_ROWS, GRADIENT_PIECES = GRADIENT_SPAN / 8; // of a tile, whichever way
static_assert(HYP_CUDA_ATTENTION_ROWS == HYP_CUDA_ATTENTION_KEYS, "tiles are square");
static_assert(GRADIENT_SPAN == HYP_CUDA_ATTENTION_THREADS / 32 * 16, "a warp has 16 rows of a tile");

// 16 x 64 numbers of a warp: a thread has of piece n rows lane / 4 and that + 8, columns 8 n + 2 (lane % 4) and the next.
using gradient_piece = float[GRADIENT_PIECES][4];

__device__ __forceinline__ int gradient_row() { return (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4; }
__device__ __forceinline__ int gradient_column() { return (int)threadIdx.x % 4 * 2; }

// A warp's 16 rows of a tile, in registers where there is room for them.
template <typename T, int D, bool KEPT> struct warp_operand {
    uint32_t kept[KEPT ? D / 16 : 1][4];

    static __device__ __forceinline__ void load(T *tile, int i, uint32_t (&to)[4])
    {
        int lane = (int)threadIdx.x % 32;
        load_matrices(to, in_tile<T, D>(tile, (int)threadIdx.x / 32 * 16 + lane % 16, 2 * i + lane / 16));
    }
    __device__ __forceinline__ void start(T *tile)
    {
#pragma unroll
        for (int i = 0; KEPT && i < D / 16; i++) load(tile, i, kept[i]);
    }
    // out = these rows, which are of `tile`, times the rows of another.
    __device__ __forceinline__ void times(T *tile, T *other, gradient_piece &out)
    {
        int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int n = 0; n < GRADIENT_PIECES; n++)
            for (int j = 0; j < 4; j++) out[n][j] = 0;
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            if (!KEPT) load(tile, i, kept[0]);
#pragma unroll
            for (int n = 0; n < GRADIENT_PIECES; n += 2) {
                uint32_t b[4];
                load_matrices(b, in_tile<T, D>(other, n * 8 + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
                multiply(out[n], kept[KEPT ? i : 0], b[0], b[1], T());
                multiply(out[n + 1], kept[KEPT ? i : 0], b[2], b[3], T());
            }
        }
    }
};

// sums += weights times a tile.
template <typename T, int D>
__device__ __forceinline__ void add_product(const gradient_piece &weights, T *tile, float (&sums)[D / 8][4])
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < GRADIENT_PIECES; n += 2) {
        uint32_t a[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            a[j] = pack<T>(weights[n + j / 2][j % 2 * 2], weights[n + j / 2][j % 2 * 2 + 1]);
#pragma unroll
        for (int i = 0; i < D / 8; i += 2) {
            uint32_t b[4];
            load_transposed(b, in_tile<T, D>(tile, n * 8 + lane % 16, i + lane / 16));
            multiply(sums[i], a, b[0], b[1], T());
            multiply(sums[i + 1], a, b[2], b[3], T());
        }
    }
}

// A warp's rows of a tile become its sums times a factor.
template <typename T, int D>
__device__ __forceinline__ void keep_sums(T *tile, const float (&sums)[D / 8][4], float factor)
{
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < D / 8; i++)
            *(uint32_t *)&in_tile<T, D>(tile, gradient_row() + 8 * half, i)[gradient_column()] =
                pack<T>(sums[i][2 * half] * factor, sums[i][2 * half + 1] * factor);
}

template <int COUNT> __device__ __forceinline__ void clear(float (&sums)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < 4; j++) sums[i][j] = 0;
}

// f(x[n][j], n, j, half of the rows, column) for all.
template <typename F> __device__ __forceinline__ void for_piece(gradient_piece &x, F f)
{
    int column = gradient_column();
#pragma unroll
    for (int n = 0; n < GRADIENT_PIECES; n++)
#pragma unroll
        for (int j = 0; j < 4; j++) f(x[n][j], n, j, j / 2, 8 * n + column + j % 2);
}

// What a mask does to scores: of row r and key c shifts[r step + c].
struct gradient_shifts {
    float *of;
    int step;

    template <typename T>
    __device__ __forceinline__ void load(const hyp_cuda_attention &a, const operands<T> &at, int64_t row0, int64_t key0)
    {
        // few at once: other blocks hide what one waits for
        load_tile_shifts<T, GRADIENT_SPAN, 4>(a, at.mask, row0, key0, of);
        __syncthreads();
    }
    template <bool BY_KEY> __device__ __forceinline__ float at(int half, int c) const
    {
        int r = gradient_row() + 8 * half;
        return BY_KEY ? of[c * step + r] : of[r * step + c];
    }
    template <bool BY_KEY> __device__ __forceinline__ void shift(const hyp_cuda_attention &a, gradient_piece &s) const
    {
        for_piece(s, [&](float &x, int, int, int half, int c) { x = shifted(a, x, at<BY_KEY>(half, c)); });
    }
    // Scores in whose place is p.fill have no gradient.
    template <bool BY_KEY> __device__ __forceinline__ void hide(const hyp_cuda_attention &a, gradient_piece &s) const
    {
        if (a.masked <= HYP_CUDA_MASK_ADDED) return;
        for_piece(s, [&](float &x, int, int, int half, int c) {
            float by = at<BY_KEY>(half, c);
            x = by == by ? x : 0;
        });
    }
};

// The sum of y g of a row of tiles, which four threads share.
template <typename T, int D> __device__ __forceinline__ float sum_along(T *y, T *g, int row)
{
    float sum = 0;
#pragma unroll
    for (int c = (int)threadIdx.x % 4; c < D / VECTOR<T>; c += 4) {
        vector<T> a = *(const vector<T> *)in_tile<T, D>(y, row, c), b = *(const vector<T> *)in_tile<T, D>(g, row, c);
#pragma unroll
        for (int i = 0; i < VECTOR<T>; i++) sum += widen(a.x[i]) * widen(b.x[i]);
    }
    for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(EVERY_LANE, sum, step);
    return sum;
}

// The largest score of each row so far, and the sum of the exponentials of what scores are below it.
__device__ __forceinline__ void note_scores(const gradient_piece &s, float unit, float (&top)[2], float (&sum)[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = top[half], whole = 0;
#pragma unroll
        for (int n = 0; n < GRADIENT_PIECES; n++) most = larger(s[n][2 * half], larger(s[n][2 * half + 1], most));
        for (int step = 1; step < 4; step *= 2) most = larger(__shfl_xor_sync(EVERY_LANE, most, step), most);
        float base = rounded_product(finite(most), unit); // as in attention_fma.cuh
        float shrink = exp2_short(rounded_product(top[half], unit) - base);
        top[half] = most;
#pragma unroll
        for (int n = 0; n < GRADIENT_PIECES; n++)
            for (int j = 0; j < 2; j++) whole += exp2_short(s[n][2 * half + j] * unit - base);
        sum[half] = sum[half] * shrink + whole;
    }
}

// ---- by queries ----------------------------------------------------------------------------------------------

// While a tile of keys is used the next one travels, and so do those of values.
template <typename T, int D> struct by_queries {
    static constexpr int SPAN = GRADIENT_SPAN, TILE = SPAN * D;
    const hyp_cuda_attention_gradient &p;
    const hyp_cuda_attention &a;
    operands<T> at;
    int64_t index, row0;
    T *query, *slope, *keys, *values; // of the last two one that is used, and one that comes
    gradient_shifts shifts;
    warp_operand<T, D, D <= 64> q, g;
    float sums[D / 8][4], along[2], top[2], sum[2], base[2];

    __device__ __forceinline__ void begin()
    {
        __syncthreads();
        load_tile<T, D, SPAN>(query, a.q, at.q, row0, a.rows, a.width);
        load_tile<T, D, SPAN>(slope, p.g, (const T *)p.g.data + (at.y - (T *)a.y.data), row0, a.rows, a.columns);
        load_tile<T, D, SPAN>(values, a.y, (const T *)at.y, row0, a.rows, a.columns);
        clear(sums);
        copies_end();
        __syncthreads();
        q.start(query);
        g.start(slope);
        for (int half = 0; half < 2; half++) {
            along[half] = sum_along<T, D>(values, slope, gradient_row() + 8 * half);
            top[half] = -INFINITY, sum[half] = base[half] = 0;
        }
    }

    // Keys from `key` on, which are in tile `turn`.
    __device__ __forceinline__ void use(int64_t key, int turn, bool first)
    {
        bool shift = has_shifts(a, key), counts = false;
        float unit = (float)a.unit;
        gradient_piece s, by_s;
        if (shift) shifts.load<T>(a, at, row0, key);
        q.times(query, keys + turn * TILE, s);
        if (shift) shifts.shift<false>(a, s);
        if (first)
            note_scores(s, unit, top, sum);
        else
            for_piece(s, [&](float &x, int, int, int half, int) {
                x = exp2_short(x * unit - base[half]);
                counts |= x != 0;
            });
        if (!__any_sync(EVERY_LANE, counts)) return;
        g.times(slope, values + turn * TILE, by_s);
        for_piece(s, [&](float &x, int n, int j, int half, int) { x *= by_s[n][j] - along[half]; });
        if (shift) shifts.hide<false>(a, s);
        add_product<T, D>(s, keys + turn * TILE, sums);
    }

    __device__ __forceinline__ void go_through_keys(bool first)
    {
        int turn = 1;
#pragma unroll 1
        for (int64_t key = -SPAN; key < a.keys; key += SPAN, turn ^= 1) {
            int64_t next = key + SPAN;
            T *to = keys + (turn ^ 1) * TILE, *other = values + (turn ^ 1) * TILE;
            if (next < a.keys) load_tile<T, D, SPAN>(to, a.k, at.k, next, a.keys, a.width);
            if (next < a.keys && !first) load_tile<T, D, SPAN>(other, a.v, at.v, next, a.keys, a.columns);
            if (key >= 0) use(key, turn, first);
            copies_end();
            __syncthreads();
        }
    }

    // base: -inf where all is hidden, which makes NaN of every score.
    __device__ __forceinline__ void leave_stats()
    {
        for (int half = 0; half < 2; half++) {
            for (int step = 1; step < 4; step *= 2) sum[half] += __shfl_xor_sync(EVERY_LANE, sum[half], step);
            base[half] = rounded_product(finite(top[half]), (float)a.unit) + log2f(sum[half]);
            int64_t row = row0 + gradient_row() + 8 * half;
            if (threadIdx.x % 4 == 0 && row < a.rows) ((float2 *)p.stats)[index * a.rows + row] = {base[half], along[half]};
        }
    }

    __device__ __forceinline__ void store()
    {
        keep_sums<T, D>(query, sums, (float)p.slope);
        store_tile<T, D, SPAN>(p.by_q, query, (T *)p.by_q.data + (at.q - (const T *)a.q.data), row0, a.rows, a.width);
    }
};

template <typename T, int D> __device__ __forceinline__ void attention_by_queries(const hyp_cuda_attention_gradient &p)
{
    constexpr int TILE = by_queries<T, D>::TILE;
    extern __shared__ double shared[];
    const hyp_cuda_attention &a = p.attention;
    T *tiles = (T *)shared;
#pragma unroll 1
    for (int64_t block = blockIdx.x; block < a.total; block += gridDim.x) {
        int64_t index = divide(block, a.blocks), row0 = (block - index * a.blocks.size) * GRADIENT_SPAN;
        by_queries<T, D> rows = {p, a, operands_at<T>(a, index), index, row0,
                                 tiles, tiles + TILE, tiles + 2 * TILE, tiles + 4 * TILE,
                                 {(float *)(tiles + 6 * TILE), (int)a.shift_step}};
        rows.begin();
#pragma unroll 1
        for (int pass = 0; pass < 2; pass++) { // the second: with what makes probabilities of scores
            rows.go_through_keys(pass == 0);
            if (pass == 0) rows.leave_stats();
        }
        rows.store();
    }
}

// ---- by keys and values --------------------------------------------------------------------------------------

// The same with keys for rows: the scores are those of the transposed matrix.
template <typename T, int D> struct by_keys {
    static constexpr int SPAN = GRADIENT_SPAN, TILE = SPAN * D;
    const hyp_cuda_attention_gradient &p;
    const hyp_cuda_attention &a;
    operands<T> at;
    int64_t index, key0;
    T *keys, *values, *queries, *slopes; // of the last two one that is used, and one that comes
    float2 *stats;                       // likewise
    gradient_shifts shifts;
    warp_operand<T, D, false> k, v;
    float by_k[D / 8][4], by_v[D / 8][4];

    __device__ __forceinline__ void begin()
    {
        __syncthreads();
        load_tile<T, D, SPAN>(keys, a.k, at.k, key0, a.keys, a.width);
        load_tile<T, D, SPAN>(values, a.v, at.v, key0, a.keys, a.columns);
        clear(by_k);
        clear(by_v);
    }

    // Those of rows that there are not make every probability 0.
    __device__ __forceinline__ void load_stats(int64_t first, float2 *to)
    {
        int64_t row = first + threadIdx.x;
        if (threadIdx.x < SPAN)
            to[threadIdx.x] = row < a.rows ? ((const float2 *)p.stats)[index * a.rows + row] : float2{INFINITY, 0};
    }

    __device__ __forceinline__ void use(int64_t row, int turn)
    {
        T *query = queries + turn * TILE, *slope = slopes + turn * TILE;
        const float2 *stat = stats + turn * SPAN;
        bool shift = a.masked != HYP_CUDA_MASK_NONE, counts = false;
        float unit = (float)a.unit;
        gradient_piece s, by_s;
        if (shift) shifts.load<T>(a, at, row, key0);
        k.times(keys, query, s);
        if (shift) shifts.shift<true>(a, s);
        for_piece(s, [&](float &x, int, int, int, int c) {
            x = exp2_short(x * unit - stat[c].x);
            counts |= x != 0;
        });
        if (!__any_sync(EVERY_LANE, counts)) return;
        v.times(values, slope, by_s);
        add_product<T, D>(s, slope, by_v);
        for_piece(s, [&](float &x, int n, int j, int, int c) { x *= by_s[n][j] - stat[c].y; });
        if (shift) shifts.hide<true>(a, s);
        add_product<T, D>(s, query, by_k);
    }

    __device__ __forceinline__ void go_through_rows()
    {
        const T *from = (const T *)p.g.data + (at.y - (T *)a.y.data);
        int turn = 1;
#pragma unroll 1
        for (int64_t row = -SPAN; row < a.rows; row += SPAN, turn ^= 1) {
            int64_t next = row + SPAN;
            if (next < a.rows) {
                load_tile<T, D, SPAN>(queries + (turn ^ 1) * TILE, a.q, at.q, next, a.rows, a.width);
                load_tile<T, D, SPAN>(slopes + (turn ^ 1) * TILE, p.g, from, next, a.rows, a.columns);
                load_stats(next, stats + (turn ^ 1) * SPAN);
            }
            if (row >= 0) use(row, turn);
            copies_end();
            __syncthreads();
        }
    }

    __device__ __forceinline__ void store()
    {
        keep_sums<T, D>(keys, by_k, (float)p.slope);
        keep_sums<T, D>(values, by_v, 1.0f);
#pragma unroll 1
        for (int i = 0; i < 2; i++) {
            const hyp_cuda_matrix &to = i ? p.by_v : p.by_k;
            int64_t offset = i ? at.v - (const T *)a.v.data : at.k - (const T *)a.k.data;
            store_tile<T, D, SPAN>(to, i ? values : keys, (T *)to.data + offset, key0, a.keys, i ? a.columns : a.width);
        }
    }
};

template <typename T, int D> __device__ __forceinline__ void attention_by_keys(const hyp_cuda_attention_gradient &p)
{
    constexpr int TILE = by_keys<T, D>::TILE;
    extern __shared__ double shared[];
    const hyp_cuda_attention &a = p.attention;
    T *tiles = (T *)shared;
    float2 *stats = (float2 *)(tiles + 6 * TILE);
#pragma unroll 1
    for (int64_t block = blockIdx.x; block < p.key_total; block += gridDim.x) {
        int64_t index = divide(block, p.key_blocks), key0 = (block - index * p.key_blocks.size) * GRADIENT_SPAN;
        by_keys<T, D> keys = {p, a, operands_at<T>(a, index), index, key0,
                              tiles, tiles + TILE, tiles + 2 * TILE, tiles + 4 * TILE,
                              stats, {(float *)(stats + 2 * GRADIENT_SPAN), (int)a.shift_step}};
        keys.begin();
        keys.go_through_rows();
        keys.store();
    }
}

} // namespace hyp_device

#endif

// attention_tiles.cuh - tiles in shared memory, what a mask adds to one of scores, keys that are split among blocks.
#ifndef HYP_RUNTIME_CUDA_KERNELS_ATTENTION_TILES_CUH
#define HYP_RUNTIME_CUDA_KERNELS_ATTENTION_TILES_CUH

#include "runtime/cuda/kernels/attention.cuh"

inline namespace hyp_device
{

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
    constexpr int AT_ONCE = 16, STEP = HYP_CUDA_ATTENTION_THREADS; // loads that are under way together
    static_assert(ROWS * D % (AT_ONCE * STEP) == 0, "every thread has whole batches");
    bool down = row_step == 1; // neighbours in memory go to neighbouring threads
#pragma unroll 1
    for (int first = (int)threadIdx.x; first < ROWS * D; first += AT_ONCE * STEP) {
        T numbers[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int i = first + j * STEP, row = down ? i % ROWS : i / D, c = down ? i / ROWS : i % D;
            numbers[j] = row < rows && c < width ? from[row * row_step + c * column_step] : T(0.0f);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int i = first + j * STEP, row = down ? i % ROWS : i / D, c = down ? i / ROWS : i % D;
            in_tile<T, D>(tile, row, c / VECTOR<T>)[c % VECTOR<T>] = numbers[j];
        }
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

// Rows from `first` on, of those up to `end`, from a tile.
template <typename T, int D, int ROWS>
__device__ __forceinline__ void store_tile(const hyp_cuda_matrix &m, T *tile, T *y, int64_t first, int64_t end,
                                           int64_t width)
{
    constexpr int CHUNKS = D / VECTOR<T>;
    __syncthreads();
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < ROWS * CHUNKS; i += HYP_CUDA_ATTENTION_THREADS) {
        int64_t row = first + i / CHUNKS, column = i % CHUNKS * VECTOR<T>;
        if (row >= end || column >= width) continue;
        const T *from = in_tile<T, D>(tile, i / CHUNKS, i % CHUNKS);
        T *to = y + row * m.row + column * m.column;
        if (m.vector)
            *(vector<T> *)to = *(const vector<T> *)from;
        else
#pragma unroll 1
            for (int j = 0; j < VECTOR<T> && column + j < width; j++) to[j * m.column] = from[j];
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
    return !p.plain && (p.masked != HYP_CUDA_MASK_NONE || first + HYP_CUDA_ATTENTION_KEYS > p.keys);
}

// Loads what is added to the scores of a tile, -inf for rows and keys that there are not. One row serves all where they
// are alike. Says whether any score is neither -inf then nor p.fill, as far as this thread sees. BATCH loads are under way
// together.
template <typename T, int ROWS, int BATCH = 16>
__device__ __forceinline__ bool load_tile_shifts(const hyp_cuda_attention &p, uint64_t mask, int64_t row0, int64_t key0,
                                                 float *shifts)
{
    constexpr int KEYS = HYP_CUDA_ATTENTION_KEYS, STEP = HYP_CUDA_ATTENTION_THREADS / KEYS;
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

// The same where one row serves all, in two parts: a thread loads the shift of a key, and puts it where it is read.
template <typename T> __device__ __forceinline__ float load_shift(const hyp_cuda_attention &p, uint64_t mask, int64_t key0)
{
    float shift[1] = {-INFINITY};
    int64_t key = key0 + threadIdx.x;
    if (threadIdx.x < HYP_CUDA_ATTENTION_KEYS) load_shifts<T>(p, mask, key * p.mask.column, 0, key < p.keys, shift);
    return shift[0];
}
__device__ __forceinline__ bool keep_shift(float *shifts, float shift)
{
    if (threadIdx.x < HYP_CUDA_ATTENTION_KEYS) shifts[threadIdx.x] = shift;
    return shift > -INFINITY;
}

// Does a row with this largest score so far change when scores come that are -inf or p.fill?
__device__ __forceinline__ bool heeds_fill(const hyp_cuda_attention &p, float top)
{
    return p.masked > HYP_CUDA_MASK_ADDED && !(top > (float)p.fill + 200.0f); // 2^-200 is 0
}

} // namespace hyp_device

#endif

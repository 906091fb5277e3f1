// moves.cuh - elements that go elsewhere: where they do, rows of another length, and transposed matrices.
#ifndef HYP_RUNTIME_CUDA_KERNELS_MOVES_CUH
#define HYP_RUNTIME_CUDA_KERNELS_MOVES_CUH

#include "runtime/cuda/kernels/common.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

inline namespace hyp_device
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

// Words of four bytes from an element of two or four bytes on. Up to two bytes beyond them are read, and before.
template <typename T> __device__ __forceinline__ void load_words(const T *x, uint32_t (&words)[4])
{
    if (sizeof(T) == 2 && ((uintptr_t)x & 2)) {
        const uint32_t *from = (const uint32_t *)(x - 1);
        uint32_t last = from[0];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t next = from[i + 1];
            words[i] = last >> 16 | next << 16;
            last = next;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) words[i] = ((const uint32_t *)x)[i];
    }
}

// A thread makes 16 bytes of y, which may reach into the next row.
template <typename T> __device__ __forceinline__ void change_pitch(const hyp_cuda_pitch &p)
{
    constexpr int EACH = 16 / sizeof(T), IN_WORD = 4 / sizeof(T);
    for (int64_t i = first_thread(); i * EACH < p.total; i += thread_count()) {
        int64_t row = divide(i * EACH, p.y_row), column = i * EACH - row * p.y_row.size;
        const T *x = (const T *)p.x + row * p.x_row + column;
        uint32_t words[4] = {0, 0, 0, 0};
        if (row < p.rows && column + EACH < p.columns) {
            load_words(x, words);
        } else {
#pragma unroll
            for (int j = 0; j < EACH; j++, column++, x++) {
                for (; column == p.y_row.size; row++, column = 0) x += p.x_row - p.y_row.size;
                uint32_t element = row < p.rows && column < p.columns ? *x : 0;
                words[j / IN_WORD] |= element << j % IN_WORD * 8 * (int)sizeof(T);
            }
        }
        if ((i + 1) * EACH <= p.total) {
            ((uint4 *)p.y)[i] = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
#pragma unroll
            for (int j = 0; j < EACH; j++)
                if (i * EACH + j < p.total) ((T *)p.y)[i * EACH + j] = (T)(words[j / IN_WORD] >> j % IN_WORD * 8 * (int)sizeof(T));
        }
    }
}

// A tile of a matrix that has few rows, or few columns: threads go through its elements as they lie in x, then as in y. Rows of
// an odd length meet no bank conflicts.
__device__ __forceinline__ void transpose_narrow(const hyp_cuda_transpose &t, int64_t from, int64_t to, int64_t left0,
                                                 int64_t left1)
{
    extern __shared__ double shared[];
    uint64_t *tile = (uint64_t *)shared;
    const hyp_cuda_copy &p = t.copy;
    const int side0 = (int)t.side0.size, side1 = (int)t.side1.size, pitch = side1 | 1, cells = side0 * side1;
    const int self = (int)(threadIdx.y * blockDim.x + threadIdx.x), step = (int)(blockDim.x * blockDim.y);
    __syncthreads();
#pragma unroll 4
    for (int c = self; c < cells; c += step) {
        const int i = (int)divide(c, t.side1), j = c - i * side1;
        if (i < left0 && j < left1) tile[i * pitch + j] = load_bits(p.size, p.x, from + i * p.x_stride[0] + j);
    }
    __syncthreads();
#pragma unroll 4
    for (int c = self; c < cells; c += step) {
        const int j = (int)divide(c, t.side0), i = c - j * side0;
        if (i < left0 && j < left1) store_bits(p.size, p.y, to + i + j * p.y_stride[1], tile[i * pitch + j]);
    }
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
        int64_t from, to, start0 = tile0 * t.side0.size, start1 = tile1 * t.side1.size;
        offsets(matrix, 2, p.rank, p.extent, p.x_stride, p.y_stride, from, to);
        int64_t left0 = p.extent[0].size - start0, left1 = p.extent[1].size - start1;
        if (t.narrow) {
            transpose_narrow(t, from + start0 * p.x_stride[0] + start1, to + start0 + start1 * p.y_stride[1], left0, left1);
            continue;
        }
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

} // namespace hyp_device

#endif

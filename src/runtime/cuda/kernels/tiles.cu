// tiles.cu - convolutions by 3x3 with stride 1 on tiles: what is in front of the products and behind them.
//
// Results of a tile of 4x4 are sums over products of polynomials (Winograd, "Arithmetic Complexity of Computations",
// 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016): 36 multiplications for each pair of
// channels in place of 144. Polynomials are evaluated at 0, +-5/8, +-3/2 and infinity, as on the CPU; for tiles of 2x2,
// of 16 in place of 36, at 0, +-1 and infinity.
//
// Part of image.cu, after windows.cu.

#include "runtime/cuda/kernels/tiles_args.h"

inline namespace hyp_device
{

enum { TILE_TAPS = 3 }; // of a window, a side

// The polynomials of tiles of so many results a side.
template <int SIDE> struct polynomials;

template <> struct polynomials<4> {
    static constexpr float A = 0.625f, B = 1.5f, AA = A * A, BB = B * B;

    // Numbers of a line at the points.
    static __device__ __forceinline__ void in(const float (&x)[6], float (&y)[6])
    {
        float even_a = x[4] - BB * x[2], odd_a = A * (x[3] - BB * x[1]);
        float even_b = x[4] - AA * x[2], odd_b = B * (x[3] - AA * x[1]);
        y[0] = (AA * BB) * x[0] + (x[4] - (AA + BB) * x[2]);
        y[1] = even_a + odd_a;
        y[2] = even_a - odd_a;
        y[3] = even_b + odd_b;
        y[4] = even_b - odd_b;
        y[5] = (AA * BB) * x[1] + (x[5] - (AA + BB) * x[3]);
    }
    // Back to the results of the line.
    static __device__ __forceinline__ void out(const float (&x)[6], float (&y)[4])
    {
        float even_a = x[1] + x[2], odd_a = A * (x[1] - x[2]), even_b = x[3] + x[4], odd_b = B * (x[3] - x[4]);
        y[0] = x[0] + even_a + even_b;
        y[1] = odd_a + odd_b;
        y[2] = AA * even_a + BB * even_b;
        y[3] = AA * odd_a + BB * odd_b + x[5];
    }
    // Weights of a line at the points.
    static __device__ __forceinline__ void weights(const double (&w)[TILE_TAPS], double (&y)[6])
    {
        constexpr double a = A, b = B, aa = a * a, bb = b * b, points[] = {0, a, -a, b, -b};
        constexpr double sizes[] = {aa * bb, 2 * aa * (aa - bb), 2 * bb * (bb - aa)};
#pragma unroll
        for (int i = 0; i < 5; i++)
            y[i] = (w[0] + points[i] * w[1] + points[i] * points[i] * w[2]) / sizes[(i + 1) / 2];
        y[5] = w[2];
    }
};

template <> struct polynomials<2> {
    static __device__ __forceinline__ void in(const float (&x)[4], float (&y)[4])
    {
        y[0] = x[0] - x[2];
        y[1] = x[1] + x[2];
        y[2] = x[2] - x[1];
        y[3] = x[3] - x[1];
    }
    static __device__ __forceinline__ void out(const float (&x)[4], float (&y)[2])
    {
        y[0] = x[0] + x[1] + x[2];
        y[1] = x[1] - x[2] + x[3];
    }
    static __device__ __forceinline__ void weights(const double (&w)[TILE_TAPS], double (&y)[4])
    {
        y[0] = w[0];
        y[1] = (w[0] + w[1] + w[2]) / 2;
        y[2] = (w[0] - w[1] + w[2]) / 2;
        y[3] = w[2];
    }
};

// What a thread has: a tile, the first number of it in `made` or `products`, and the place where its results begin.
struct tile_place {
    int64_t tile, image;
    int channel, row, column;
};

__device__ __forceinline__ tile_place place_of(const hyp_cuda_tiles &p, int64_t tile, int channel, int side)
{
    tile_place at;
    int64_t all = p.first + tile, row = divide(all, p.across);
    at.tile = tile;
    at.image = divide(row, p.down);
    at.channel = channel;
    at.row = (int)(row - at.image * p.down.size) * side;
    at.column = (int)(all - row * p.across.size) * side;
    return at;
}

// Gives every number that is made of a tile to f(place, number). Tiles behind the last one are made of zeros. The host
// sees to it that an image has less than 2^31 elements.
template <int SIDE, typename F>
__device__ __forceinline__ void make_of_tile(const hyp_cuda_tiles &p, const tile_place &at, F f)
{
    constexpr int IN = SIDE + TILE_TAPS - 1;
    const int row_step = (int)p.x_step.row, column_step = (int)p.x_step.column;
    const float *x = (const float *)p.x + at.image * p.x_step.image + at.channel * p.x_step.channel;
    const bool there = p.first + at.tile < p.tiles;
    const int top = at.row - p.before[0], left = at.column - p.before[1];
    float read[IN][IN], lines[IN][IN]; // by column, then row
#pragma unroll
    for (int k = 0; k < IN; k++)
#pragma unroll
        for (int r = 0; r < IN; r++) {
            bool inside = there && (unsigned)(top + r) < (unsigned)p.in[0] && (unsigned)(left + k) < (unsigned)p.in[1];
            read[k][r] = 0;
            if (inside) read[k][r] = x[(top + r) * row_step + (left + k) * column_step];
        }
#pragma unroll
    for (int k = 0; k < IN; k++) polynomials<SIDE>::in(read[k], lines[k]);
#pragma unroll
    for (int r = 0; r < IN; r++) {
        float line[IN], y[IN];
#pragma unroll
        for (int k = 0; k < IN; k++) line[k] = lines[k][r];
        polynomials<SIDE>::in(line, y);
#pragma unroll
        for (int k = 0; k < IN; k++) f(r * IN + k, y[k]);
    }
}

template <int SIDE> __device__ __forceinline__ void tiles_in(const hyp_cuda_tiles &p)
{
    const int64_t step = p.room * p.channels;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.room * p.parts.size; i += thread_count()) {
        const int64_t tile = divide(i, p.parts);
        const tile_place at = place_of(p, tile, (int)(i - tile * p.parts.size), SIDE);
        float *made = (float *)p.made + at.tile * p.channels + at.channel;
        make_of_tile<SIDE>(p, at, [&](int place, float v) { made[place * step] = v; });
    }
}

// What is made lies with the tiles last: a block has some of them, and of the channels, that it turns in shared memory,
// so that both images whose channels are last and what is made are read and written side by side.
enum {
    TURNED_TILES = HYP_CUDA_TURNED_TILES,
    TURNED_CHANNELS = HYP_CUDA_TURNED_CHANNELS,
    TURNED_PITCH = HYP_CUDA_TURNED_PITCH
};

// Calls f(first tile, first channel) for all that the block does.
template <typename F> __device__ __forceinline__ void for_turned(const hyp_cuda_tiles &p, F f)
{
    const int64_t blocks = (p.room + TURNED_TILES - 1) / TURNED_TILES * p.parts.size;
#pragma unroll 1
    for (int64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
        const int64_t row = divide(b, p.parts);
        f(row * TURNED_TILES, (b - row * p.parts.size) * TURNED_CHANNELS);
        __syncthreads();
    }
}

template <int SIDE> __device__ __forceinline__ void tiles_in_turned(const hyp_cuda_tiles &p)
{
    constexpr int IN = SIDE + TILE_TAPS - 1;
    extern __shared__ double shared[];
    float *room = (float *)shared;
    const int channel = (int)threadIdx.x % TURNED_CHANNELS, row = (int)threadIdx.x / TURNED_CHANNELS;
    const int tile = (int)threadIdx.x % TURNED_TILES, line = (int)threadIdx.x / TURNED_TILES;
    for_turned(p, [&](int64_t tiles, int64_t channels) {
        if (channels + channel < p.channels) {
            const tile_place at = place_of(p, tiles + row, (int)channels + channel, SIDE);
            make_of_tile<SIDE>(
                p, at, [&](int place, float v) { room[(place * TURNED_TILES + row) * TURNED_PITCH + channel] = v; });
        }
        __syncthreads();
        if (tiles + tile >= p.room || channels + line >= p.channels) return;
        float *made = (float *)p.made + (channels + line) * p.room + tiles + tile;
        const int64_t step = p.room * p.channels;
#pragma unroll
        for (int place = 0; place < IN * IN; place++)
            made[place * step] = room[(place * TURNED_TILES + tile) * TURNED_PITCH + line];
    });
}

__device__ __forceinline__ float tile_act(uint32_t act, float v)
{
    if (act == HYP_PW_CAST) return v;
    return act == HYP_PW_RELU ? relu(v) : activated(act, v);
}

// What a pool takes of two results.
__device__ __forceinline__ float pooled_of(float a, float b) { return b > a || b != b ? b : a; }

// A result, as a plain sum.
static __device__ __noinline__ float tile_sum(const hyp_cuda_tiles &p, const tile_place &at, int row, int column)
{
    const int filter = at.channel;
    float sum = p.bias ? ((const float *)p.bias)[filter] : 0;
#pragma unroll 1
    for (int tap = 0; tap < TILE_TAPS * TILE_TAPS; tap++) {
        const int r = row + tap / TILE_TAPS - p.before[0], k = column + tap % TILE_TAPS - p.before[1];
        if ((unsigned)r >= (unsigned)p.in[0] || (unsigned)k >= (unsigned)p.in[1]) continue;
        const float *x = (const float *)p.x + at.image * p.x_step.image + r * p.x_step.row + k * p.x_step.column;
        const float *w = (const float *)p.weight + filter * p.filter_step + tap * p.tap_step;
#pragma unroll 1
        for (int64_t c = 0; c < p.channels; c++) sum += x[c * p.x_step.channel] * w[c * p.channel_step];
    }
    if (p.added)
        sum += ((const float *)p.added)[at.image * p.added_step.image + row * p.added_step.row +
                                        column * p.added_step.column + filter * p.added_step.channel];
    return tile_act(p.act, sum);
}

// The results of a tile so.
static __device__ __noinline__ void tile_directly(const hyp_cuda_tiles &p, const tile_place &at, int side)
{
    const int step = p.pooled[0] ? 2 : 1; // results a side of what y has an element of
#pragma unroll 1
    for (int i = 0; i < side * side; i += step) {
        const int row = at.row + i / side, column = at.column + i % side;
        const int y_row = row / step, y_column = column / step;
        if (row % step != 0 || row >= p.out[0] || column >= p.out[1]) continue;
        if (step == 2 && (y_row >= p.pooled[0] || y_column >= p.pooled[1])) continue;
        float v = tile_sum(p, at, row, column);
#pragma unroll 1
        for (int k = 1; k < step * step; k++)
            if (row + k / 2 < p.out[0] && column + k % 2 < p.out[1])
                v = pooled_of(v, tile_sum(p, at, row + k / 2, column + k % 2));
        ((float *)p.y)[at.image * p.y_step.image + y_row * p.y_step.row + y_column * p.y_step.column +
                       at.channel * p.y_step.channel] = v;
    }
}

// Two lines of results: what pooling leaves of them.
template <int SIDE>
__device__ __forceinline__ void pool_lines(const hyp_cuda_tiles &p, int row, int column, const float (&y)[2][SIDE],
                                           float *to)
{
    const bool below = row + 1 < p.out[0];
    if (row / 2 >= p.pooled[0]) return;
#pragma unroll
    for (int k = 0; k < SIDE; k += 2) {
        const int at = column + k;
        const bool beside = at + 1 < p.out[1];
        if (at / 2 >= p.pooled[1]) continue;
        float v = y[0][k];
        if (beside) v = pooled_of(v, y[0][k + 1]);
        if (below) v = pooled_of(v, y[1][k]);
        if (below && beside) v = pooled_of(v, y[1][k + 1]);
        to[row / 2 * p.y_step.row + at / 2 * p.y_step.column] = v;
    }
}

// The results of a tile without bias. Products of numbers beyond what weights and images have, of infinities and NaN
// would be in all of them, and in fewer digits in those of the others: false.
template <int SIDE>
__device__ __forceinline__ bool results_of_tile(const float *products, int64_t step, float (&y)[SIDE][SIDE])
{
    constexpr int IN = SIDE + TILE_TAPS - 1;
    constexpr float TAME = 1e15f;
    float read[IN][IN], lines[SIDE][IN]; // by row, then column
    float size = 0;
#pragma unroll
    for (int r = 0; r < IN; r++)
#pragma unroll
        for (int k = 0; k < IN; k++) read[k][r] = products[(r * IN + k) * step];
#pragma unroll
    for (int r = 0; r < IN; r++)
#pragma unroll
        for (int k = 0; k < IN; k++) size += fabsf(read[k][r]);
#pragma unroll
    for (int k = 0; k < IN; k++) {
        float column[SIDE];
        polynomials<SIDE>::out(read[k], column);
#pragma unroll
        for (int r = 0; r < SIDE; r++) lines[r][k] = column[r];
    }
#pragma unroll
    for (int r = 0; r < SIDE; r++) polynomials<SIDE>::out(lines[r], y[r]);
    return size < TAME;
}

// Bias, what is added, the activation, and the pool behind them.
template <int SIDE>
__device__ __forceinline__ void finish_tile(const hyp_cuda_tiles &p, const tile_place &at,
                                            const float (&sums)[SIDE][SIDE])
{
    const float bias = p.bias ? ((const float *)p.bias)[at.channel] : 0;
    float *to = (float *)p.y + at.image * p.y_step.image + at.channel * p.y_step.channel;
    const float *added = (const float *)p.added + at.image * p.added_step.image + at.channel * p.added_step.channel;
#pragma unroll
    for (int r = 0; r < SIDE; r += 2) {
        float y[2][SIDE];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int row = at.row + r + q;
#pragma unroll
            for (int k = 0; k < SIDE; k++) {
                const int column = at.column + k;
                if (row >= p.out[0] || column >= p.out[1]) continue;
                float v = sums[r + q][k] + bias;
                if (p.added) v = v + added[row * p.added_step.row + column * p.added_step.column];
                y[q][k] = tile_act(p.act, v);
                if (!p.pooled[0]) to[row * p.y_step.row + column * p.y_step.column] = y[q][k];
            }
        }
        if (p.pooled[0]) pool_lines<SIDE>(p, at.row + r, at.column, y, to);
    }
}

template <int SIDE> __device__ __forceinline__ void tiles_out(const hyp_cuda_tiles &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.room * p.parts.size; i += thread_count()) {
        const int64_t tile = divide(i, p.parts);
        const tile_place at = place_of(p, tile, (int)(i - tile * p.parts.size), SIDE);
        float y[SIDE][SIDE];
        if (p.first + at.tile >= p.tiles) continue;
        if (results_of_tile<SIDE>((const float *)p.products + i, p.room * p.filters, y))
            finish_tile<SIDE>(p, at, y);
        else
            tile_directly(p, at, SIDE);
    }
}

// Products lie with the tiles last. Of what is to be done directly a NaN tells, which no other result is.
template <int SIDE> __device__ __forceinline__ void tiles_out_turned(const hyp_cuda_tiles &p)
{
    extern __shared__ double shared[];
    float *room = (float *)shared;
    const int channel = (int)threadIdx.x % TURNED_CHANNELS, row = (int)threadIdx.x / TURNED_CHANNELS;
    const int tile = (int)threadIdx.x % TURNED_TILES, line = (int)threadIdx.x / TURNED_TILES;
    for_turned(p, [&](int64_t tiles, int64_t channels) {
        float y[SIDE][SIDE];
        if (tiles + tile < p.room && channels + line < p.filters) {
            const float *products = (const float *)p.products + (channels + line) * p.room + tiles + tile;
            if (!results_of_tile<SIDE>(products, p.room * p.filters, y)) y[0][0] = NAN;
#pragma unroll
            for (int i = 0; i < SIDE * SIDE; i++)
                room[(i * TURNED_TILES + tile) * TURNED_PITCH + line] = y[i / SIDE][i % SIDE];
        }
        __syncthreads();
        const tile_place at = place_of(p, tiles + row, (int)channels + channel, SIDE);
        if (at.tile >= p.room || p.first + at.tile >= p.tiles || at.channel >= p.filters) return;
#pragma unroll
        for (int i = 0; i < SIDE * SIDE; i++)
            y[i / SIDE][i % SIDE] = room[(i * TURNED_TILES + row) * TURNED_PITCH + channel];
        if (y[0][0] == y[0][0])
            finish_tile<SIDE>(p, at, y);
        else
            tile_directly(p, at, SIDE);
    });
}

// In double, rounded once.
template <int SIDE> __device__ __forceinline__ void tile_weights(const hyp_cuda_tile_weights &p)
{
    constexpr int IN = SIDE + TILE_TAPS - 1;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.pairs; i += thread_count()) {
        const int64_t channel = divide(i, p.filters), filter = i - channel * p.filters.size;
        const float *w = (const float *)p.weight + filter * p.filter_step + channel * p.channel_step;
        float *made = (float *)p.made + i;
        double lines[TILE_TAPS][IN];
#pragma unroll
        for (int k = 0; k < TILE_TAPS; k++) {
            double column[TILE_TAPS];
#pragma unroll
            for (int r = 0; r < TILE_TAPS; r++) column[r] = (double)w[(r * TILE_TAPS + k) * p.tap_step];
            polynomials<SIDE>::weights(column, lines[k]);
        }
#pragma unroll
        for (int r = 0; r < IN; r++) {
            double line[TILE_TAPS], y[IN];
#pragma unroll
            for (int k = 0; k < TILE_TAPS; k++) line[k] = lines[k][r];
            polynomials<SIDE>::weights(line, y);
#pragma unroll
            for (int k = 0; k < IN; k++, made += p.pairs) *made = (float)y[k];
        }
    }
}

} // namespace hyp_device

KERNEL(tiles_in_2, hyp_cuda_tiles, tiles_in<2>(p))
KERNEL(tiles_in_4, hyp_cuda_tiles, tiles_in<4>(p))
KERNEL(tiles_out_2, hyp_cuda_tiles, tiles_out<2>(p))
KERNEL(tiles_out_4, hyp_cuda_tiles, tiles_out<4>(p))
KERNEL(tiles_in_turned_2, hyp_cuda_tiles, tiles_in_turned<2>(p))
KERNEL(tiles_out_turned_2, hyp_cuda_tiles, tiles_out_turned<2>(p))
KERNEL(tiles_out_turned_4, hyp_cuda_tiles, tiles_out_turned<4>(p))
KERNEL(tile_weights_2, hyp_cuda_tile_weights, tile_weights<2>(p))
KERNEL(tile_weights_4, hyp_cuda_tile_weights, tile_weights<4>(p))

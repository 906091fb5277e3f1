// layers.cu - chains of linear layers for a few rows, each chain in one launch. Part of image.cu, after kernels.cu.
//
// Such a chain does almost nothing but read its weights, and between the layers every block waits for all others. So
//   - the rows of a weight are dealt out to the blocks, and to the warps of a block; long rows are split among warps;
//   - every thread has several 16-byte loads under way, also over the end of a layer: the first weights of the next
//     layer arrive while its input is still being made;
//   - a block hands its results on through memory that is all ones where nothing has been written yet, so that data and
//     "data is there" arrive in one piece, without any fence. The pattern is a NaN that results are never stored as.
// All blocks must run at once; the host sees to it by a cooperative launch.

namespace
{

#ifndef HYP_CUDA_EMULATOR
// Accesses that every block sees: they go to the L2 cache, the waiting is done by the caller.
__device__ __forceinline__ uint4 load_relaxed(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
__device__ __forceinline__ uint32_t load_relaxed(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void store_relaxed(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void store_relaxed(uint16_t *p, uint16_t v)
{
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}
__device__ __forceinline__ void let_others_run() {}
#endif

constexpr int WARPS = HYP_CUDA_LAYER_THREADS / 32;

// ---- pieces of a type D: 16 bytes ---------------------------------------------------------------------------

template <uint32_t D> constexpr int piece_elements = D == HYP_F32 ? 4 : 8;

template <uint32_t D> __device__ __forceinline__ void unpack(uint4 piece, float (&out)[piece_elements<D>])
{
    const uint32_t word[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (D == HYP_F32) {
            out[i] = __uint_as_float(word[i]);
        } else if (D == HYP_BF16) {
            out[2 * i] = __uint_as_float(word[i] << 16);
            out[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
        } else {
            out[2 * i] = from_half((uint16_t)word[i]);
            out[2 * i + 1] = from_half((uint16_t)(word[i] >> 16));
        }
    }
}

// Elements `first` on of a row of `size` that may start anywhere; zeros behind its end.
template <uint32_t D> __device__ __noinline__ uint4 gather_piece(uint64_t row, uint32_t first, uint32_t size)
{
    constexpr int E = piece_elements<D>;
    uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < E; i++) {
        uint32_t bits = first + i < size ? (uint32_t)load_bits(16 / E, row, first + i) : 0;
        word[i * 4 / E] |= D == HYP_F32 ? bits : bits << 16 * (i % 2);
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// Has every element been written?
template <uint32_t D> __device__ __forceinline__ bool is_complete(uint4 piece)
{
    const uint32_t word[4] = {piece.x, piece.y, piece.z, piece.w};
    bool complete = true;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (D == HYP_F32)
            complete = complete && word[i] != 0xffffffffu;
        else
            complete = complete && (word[i] & 0xffffu) != 0xffffu && word[i] < 0xffff0000u;
    }
    return complete;
}

template <uint32_t D> __device__ __forceinline__ void hand_on(uint4 *buffer, uint32_t i, float v)
{
    if (D == HYP_F32) {
        uint32_t bits = __float_as_uint(v);
        store_relaxed((uint32_t *)buffer + i, bits == 0xffffffffu ? 0x7fffffffu : bits);
    } else {
        uint16_t bits = D == HYP_BF16 ? __bfloat16_as_ushort(to_bfloat(v)) : __half_as_ushort(to_half(v));
        store_relaxed((uint16_t *)buffer + i, bits == 0xffffu ? (uint16_t)0x7fffu : bits);
    }
}

// ---- one layer ------------------------------------------------------------------------------------------------

// A block's share of a layer. The 32 pieces that the lanes of a warp load at a time are a group; the groups of a row
// are dealt out in turns to the warps that share it.
struct share {
    uint32_t first, count; // rows
    uint32_t groups, splits, split;
    uint32_t rows_ahead; // from one row of a warp to the next
    __device__ __forceinline__ share(const hyp_cuda_layer &l)
    {
        first = blockIdx.x * l.rows_each + (blockIdx.x < l.rows_more ? blockIdx.x : l.rows_more);
        count = l.rows_each + (blockIdx.x < l.rows_more);
        groups = (l.pieces + 31) / 32;
        splits = 1u << l.log_splits;
        split = threadIdx.x / 32 % splits;
        rows_ahead = (uint32_t)WARPS >> l.log_splits;
    }
};

// Where a warp is in its share.
struct walk {
    uint32_t row, group;
    __device__ __forceinline__ void start(const hyp_cuda_layer &l, const share &s)
    {
        row = threadIdx.x / 32 >> l.log_splits;
        group = s.split;
    }
    __device__ __forceinline__ bool ends_row(const share &s) const { return group + s.splits >= s.groups; }
    __device__ __forceinline__ void advance(const share &s)
    {
        group += s.splits;
        if (group < s.groups) return;
        group = s.split;
        row += s.rows_ahead;
    }
    __device__ __forceinline__ uint32_t piece() const { return group * 32 + threadIdx.x % 32; }
};

// Rows that do not start at multiples of 16 bytes are not fetched ahead.
template <uint32_t D>
__device__ __forceinline__ uint4 fetch_weights(const hyp_cuda_layer &l, const share &s, const walk &at)
{
    if (!l.aligned || at.row >= s.count || at.piece() >= l.pieces) return make_uint4(0, 0, 0, 0);
    return __ldg((const uint4 *)l.weight + ((uint64_t)(s.first + at.row) * l.pieces + at.piece()));
}

// Sums over the lanes of a warp; lane i gets the sum of acc[i / (32 / M)]. At each step half of the values that are
// left go to the other half of the lanes.
template <int M> __device__ __forceinline__ float sum_lanes(float (&acc)[M])
{
    int half = M / 2;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2, half /= 2) {
        bool upper = (threadIdx.x & distance) != 0;
        if (half == 0) {
            acc[0] += __shfl_xor_sync(0xffffffffu, acc[0], distance);
            continue;
        }
#pragma unroll
        for (int i = 0; i < M / 2; i++) {
            if (i >= half) break;
            float keep = upper ? acc[i + half] : acc[i], give = upper ? acc[i] : acc[i + half];
            acc[i] = keep + __shfl_xor_sync(0xffffffffu, give, distance);
        }
    }
    return acc[0];
}

// A chain at work.
template <uint32_t D, int M> struct chain {
    static constexpr int E = piece_elements<D>, AHEAD = M == 1 ? 8 : 4;
    const hyp_cuda_layers &p;
    uint4 *x;    // in shared memory: the input of the layer, p.rows rows
    float *sums; // and its results before they are finished: by task and row of x
    uint4 *mine; // the exchange buffer of this launch
    uint4 ahead[AHEAD];
    walk next; // the step whose weights come behind those in `ahead`

    __device__ __forceinline__ chain(const hyp_cuda_layers &args, uint4 *shared)
        : p(args), x(shared), sums((float *)(shared + args.x_pieces)), mine(nullptr)
    {
    }

    __device__ __forceinline__ void fetch_ahead(uint32_t layer)
    {
        const hyp_cuda_layer &l = p.layer[layer];
        share s(l);
        next.start(l, s);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            ahead[i] = fetch_weights<D>(l, s, next);
            next.advance(s);
        }
    }

    // The plan's x, rows of k elements one behind the other.
    __device__ __forceinline__ void read_input()
    {
        const hyp_cuda_layer &l = p.layer[0];
        uint32_t total = p.rows * l.pieces;
        bool dense = l.k % E == 0;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < total; i += HYP_CUDA_LAYER_THREADS) {
            uint32_t row = i / l.pieces;
            x[i] = dense ? ((const uint4 *)p.x)[i]
                         : gather_piece<D>(p.x + (uint64_t)row * l.k * (16 / E), (i - row * l.pieces) * E, l.k);
        }
    }

    // What the blocks hand on, as it comes.
    __device__ __forceinline__ void receive_input(const hyp_cuda_layer &l)
    {
        constexpr int AT_ONCE = 4;
        uint32_t total = p.rows * l.pieces;
        const uint4 *from = mine + l.x_at;
#pragma unroll 1
        for (uint32_t first = threadIdx.x; first < total; first += AT_ONCE * HYP_CUDA_LAYER_THREADS) {
            uint4 piece[AT_ONCE];
            bool complete;
            for (;;) {
                complete = true;
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                    if (first + i * HYP_CUDA_LAYER_THREADS < total)
                        piece[i] = load_relaxed(from + first + i * HYP_CUDA_LAYER_THREADS);
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                    if (first + i * HYP_CUDA_LAYER_THREADS < total) complete = complete && is_complete<D>(piece[i]);
                if (complete) break;
                let_others_run();
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (first + i * HYP_CUDA_LAYER_THREADS < total) x[first + i * HYP_CUDA_LAYER_THREADS] = piece[i];
        }
    }

    // The result of one row of w and row m of x.
    __device__ __forceinline__ void finish(uint32_t layer, uint32_t row, uint32_t m, float v)
    {
        const hyp_cuda_layer &l = p.layer[layer];
        bool last = layer + 1 == p.layers, adds = last && p.added;
        int64_t at = p.turned ? (int64_t)row * p.rows + m : (int64_t)m * l.n + row; // in y
        float added = adds ? load_native<float>(D, p.added, at) : 0.0f;
        if (l.bias) v += load_native<float>(D, l.bias, p.turned ? m : row);
        if (adds && !p.add_after) v += added;
        if (l.act == HYP_PW_RELU)
            v = relu(v);
        else if (l.act != HYP_PW_CAST)
            v = transcendental<float>(l.act, v, 0.0, 0.0);
        if (adds && p.add_after) v += added;
        if (last) {
            store_native(D, p.y, at, v);
        } else {
            const hyp_cuda_layer &to = p.layer[layer + 1];
            hand_on<D>(mine + to.x_at, m * to.pieces * E + row, v);
        }
    }

    __device__ __forceinline__ void multiply(const hyp_cuda_layer &l, uint32_t piece, uint4 weights, float (&acc)[M])
    {
        if (piece >= l.pieces) return;
        float w[E], v[E];
        unpack<D>(weights, w);
#pragma unroll
        for (int m = 0; m < M; m++) {
            if (M > 1 && m >= p.rows) break;
            unpack<D>(x[m * l.pieces + piece], v);
#pragma unroll
            for (int i = 0; i < E; i++) acc[m] += w[i] * v[i];
        }
    }

    // One group of a row.
    __device__ __forceinline__ void step(const hyp_cuda_layer &l, const share &s, walk &at, uint4 weights,
                                         float (&acc)[M])
    {
        multiply(l, at.piece(), weights, acc);
        if (at.ends_row(s)) {
            float sum = sum_lanes<M>(acc);
            uint32_t m = threadIdx.x % 32 / (32 / M);
            if (threadIdx.x % (32 / M) == 0) sums[(at.row * s.splits + s.split) * M + m] = sum;
#pragma unroll
            for (int i = 0; i < M; i++) acc[i] = 0;
        }
        at.advance(s);
    }

    __device__ __forceinline__ void compute(const hyp_cuda_layer &l)
    {
        share s(l);
        walk at;
        float acc[M] = {};
        at.start(l, s);
        if (!l.aligned) {
            constexpr int E = piece_elements<D>;
#pragma unroll 1
            while (at.row < s.count)
                step(l, s, at,
                     gather_piece<D>(l.weight + (uint64_t)(s.first + at.row) * l.k * (16 / E), at.piece() * E, l.k),
                     acc);
            return;
        }
#pragma unroll 1
        while (at.row < s.count) {
            // The code for one row is short, so it is repeated; for many rows the weights move up instead.
            if (M == 1) {
#pragma unroll
                for (int i = 0; i < AHEAD; i++) {
                    uint4 weights = ahead[i];
                    ahead[i] = fetch_weights<D>(l, s, next);
                    next.advance(s);
                    if (at.row < s.count) step(l, s, at, weights, acc);
                }
            } else {
                uint4 weights = ahead[0];
#pragma unroll
                for (int i = 1; i < AHEAD; i++) ahead[i - 1] = ahead[i];
                ahead[AHEAD - 1] = fetch_weights<D>(l, s, next);
                next.advance(s);
                step(l, s, at, weights, acc);
            }
        }
    }

    // Adds up the parts of rows, in order; adds biases, applies the activation, and stores.
    __device__ __forceinline__ void finish_rows(uint32_t layer)
    {
        const hyp_cuda_layer &l = p.layer[layer];
        share s(l);
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < s.count * M; i += HYP_CUDA_LAYER_THREADS) {
            uint32_t m = i % M;
            if (m >= p.rows) continue;
            float sum = 0;
#pragma unroll 1
            for (uint32_t part = 0; part < s.splits; part++) sum += sums[(i / M * s.splits + part) * M + m];
            finish(layer, s.first + i / M, m, sum);
        }
    }

    // The rows that blocks hand on end with zeros up to whole pieces.
    __device__ __forceinline__ void pad_rows()
    {
#pragma unroll 1
        for (uint32_t layer = 1; layer < p.layers; layer++) {
            const hyp_cuda_layer &l = p.layer[layer];
            uint32_t pads = l.pieces * E - l.k;
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < pads * p.rows; i += HYP_CUDA_LAYER_THREADS)
                hand_on<D>(mine + l.x_at, i / pads * l.pieces * E + l.k + i % pads, 0.0f);
        }
    }

    // Chooses this launch's buffer, and readies the other one for the next.
    __device__ __forceinline__ void take_buffer()
    {
        uint4 *buffers = (uint4 *)p.exchange;
        uint32_t *counter = (uint32_t *)(buffers + 2 * p.exchange_pieces);
        uint32_t turn = load_relaxed(counter) / HYP_CUDA_LAUNCH_COUNT % 2;
        mine = buffers + turn * p.exchange_pieces;
        uint4 *other = buffers + (1 - turn) * p.exchange_pieces;
#pragma unroll 1
        for (uint32_t i = blockIdx.x * HYP_CUDA_LAYER_THREADS + threadIdx.x; i < p.exchange_pieces;
             i += gridDim.x * HYP_CUDA_LAYER_THREADS)
            other[i] = make_uint4(0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu);
        if (blockIdx.x == 0) pad_rows();
    }

    // Together the blocks of a launch add HYP_CUDA_LAUNCH_COUNT; before the last one has, they are short of it.
    __device__ __forceinline__ void count_launch()
    {
        uint32_t *counter = (uint32_t *)((uint4 *)p.exchange + 2 * p.exchange_pieces);
        __syncthreads(); // every thread has read the counter
        if (threadIdx.x == 0) atomicAdd(counter, blockIdx.x == 0 ? HYP_CUDA_LAUNCH_COUNT - (gridDim.x - 1) : 1);
    }

    __device__ __forceinline__ void run()
    {
        fetch_ahead(0);
        if (p.layers > 1) take_buffer();
        read_input();
#pragma unroll 1
        for (uint32_t layer = 0; layer < p.layers; layer++) {
            const hyp_cuda_layer &l = p.layer[layer];
            bool busy = share(l).count > 0;
            if (busy) {
                if (layer > 0) receive_input(l);
                __syncthreads();
                compute(l);
                __syncthreads();
            }
            if (layer + 1 < p.layers) fetch_ahead(layer + 1);
            if (busy) finish_rows(layer);
        }
        if (p.layers > 1) count_launch();
    }
};

template <uint32_t D, int M> __device__ __forceinline__ void run_chain(const hyp_cuda_layers &p)
{
    extern __shared__ double shared[];
    chain<D, M>(p, (uint4 *)shared).run();
}

} // namespace

#define LAYERS(name, dtype, rows)                                                                                      \
    extern "C" __global__ void __launch_bounds__(HYP_CUDA_LAYER_THREADS, 1)                                            \
        name(const __grid_constant__ hyp_cuda_layers p)                                                                \
    {                                                                                                                  \
        run_chain<dtype, rows>(p);                                                                                     \
    }

LAYERS(layers_f32_1, HYP_F32, 1)
LAYERS(layers_f32_16, HYP_F32, 16)
LAYERS(layers_f16_1, HYP_F16, 1)
LAYERS(layers_f16_16, HYP_F16, 16)
LAYERS(layers_bf16_1, HYP_BF16, 1)
LAYERS(layers_bf16_16, HYP_BF16, 16)

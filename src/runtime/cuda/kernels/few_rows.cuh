// few_rows.cuh - linear layers for a few rows: pieces, the ring of weights, a single row, and what all layers do.
// few_rows.cu says how they are done, and has what more rows need; kernels that are generated for a layer and the
// elementwise step behind it (pointwise_source.h) have this file, and no header of the toolkit.
#ifndef HYP_RUNTIME_CUDA_KERNELS_FEW_ROWS_CUH
#define HYP_RUNTIME_CUDA_KERNELS_FEW_ROWS_CUH

#ifndef HYP_CUDA_GENERATED
#include "runtime/cuda/kernels/barriers.cuh"
#include "runtime/cuda/kernels/common.cuh"
#endif

inline namespace hyp_device
{

__device__ __forceinline__ uint32_t warps() { return blockDim.x / 32; }

__device__ __noinline__ float activate(uint32_t act, float v)
{
    return activation(act, v);
}

// ---- pieces of a type D: 16 bytes ---------------------------------------------------------------------------

template <uint32_t D> constexpr int piece_elements = D == HYP_F32 ? 4 : D == HYP_F8E4M3 ? 16 : 8;
// The type of everything but x and w.
template <uint32_t D> constexpr uint32_t result_type = D == HYP_F8E4M3 ? HYP_BF16 : D;

template <uint32_t D> __device__ __forceinline__ void unpack(uint4 piece, float (&out)[piece_elements<D>])
{
    const uint32_t word[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (D == HYP_F32) {
            out[i] = __uint_as_float(word[i]);
#ifndef HYP_CUDA_GENERATED // whose compiler has no headers of the toolkit
        } else if (D == HYP_F8E4M3) {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint16_t codes = (uint16_t)(word[i] >> 16 * k);
                float2 two = __half22float2((__half2)__nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3));
                out[4 * i + 2 * k] = two.x;
                out[4 * i + 2 * k + 1] = two.y;
            }
#endif
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

// An element of a tensor of the result's type, and the value that is left of one.
template <uint32_t D> __device__ __forceinline__ float element(uint64_t data, int64_t i)
{
    if (D == HYP_F32) return ((const float *)data)[i];
    uint16_t bits = ((const uint16_t *)data)[i];
    return D == HYP_BF16 ? from_bfloat(bits) : from_half(bits);
}
template <uint32_t D> __device__ __forceinline__ void set_element(uint64_t data, int64_t i, float v)
{
    if (D == HYP_F32)
        ((float *)data)[i] = v;
    else
        ((uint16_t *)data)[i] = D == HYP_BF16 ? bfloat_bits(v) : half_bits(v);
}
template <uint32_t D> __device__ __forceinline__ float value_left(float v)
{
    return D == HYP_F32 ? v : D == HYP_BF16 ? from_bfloat(bfloat_bits(v)) : from_half(half_bits(v));
}

// ---- one layer ------------------------------------------------------------------------------------------------

// A block's rows of the weight, in PARTS equal parts of it. Of several they are listed part by part.
template <uint32_t PARTS> struct share {
    uint32_t unit, units; // the first, and how many
    uint32_t count;       // of rows
    uint32_t part_rows; // of the weight
    __device__ __forceinline__ explicit share(const hyp_cuda_layer &l)
    {
        part_rows = PARTS == 1 ? l.n : l.n / PARTS;
        unit = blockIdx.x * l.rows_each + (blockIdx.x < l.tiles_more ? blockIdx.x : l.tiles_more) * l.tile;
        units = l.rows_each + (blockIdx.x < l.tiles_more ? l.tile : 0);
        if (unit + units > part_rows) units = unit < part_rows ? part_rows - unit : 0;
        count = units * PARTS;
    }
    // Where row i of the block's is in the weight; as far as `rows_from` tells, those behind it come next there, too.
    __device__ __forceinline__ uint32_t row(uint32_t i) const
    {
        return PARTS == 1 ? unit + i : i / units * part_rows + unit + i % units;
    }
    __device__ __forceinline__ uint32_t rows_from(uint32_t i, uint32_t end) const
    {
        uint32_t left = PARTS == 1 ? end - i : units - i % units;
        return left < end - i ? left : end - i;
    }
};

// Pieces of x for each lane; zeros where at[i] is not below l.pieces.
template <int N>
__device__ __forceinline__ void take_pieces(const hyp_cuda_layer &l, const uint4 *from, const uint32_t (&row)[N],
                                            const uint32_t (&at)[N], uint4 (&out)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = at[i] < l.pieces ? from[row[i] * l.pieces + at[i]] : make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ float sum_of_lanes(float v)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(0xffffffffu, v, distance);
    return v;
}

// Every warp has its split of a row: every 2^log_splits-th group of 32 pieces, one for each lane. These kinds of
// products differ in what they keep of x. `sums` gets the result of row r of w and row m of x, of split s, at
// [(s * count + r) * l.rows + m].

// One row of x, in registers. NORM: it may be normalized, for which there are registers where threads are few.
template <uint32_t D, bool NORM> struct single_row {
    static constexpr int E = piece_elements<D>, PIECES = HYP_CUDA_LAYER_HELD / E;
    float x[PIECES][E];
    __device__ __forceinline__ void take(const hyp_cuda_layer &l, const uint4 *from, uint4 *shared)
    {
        uint32_t row[PIECES], at[PIECES], split = threadIdx.x / 32 & ((1u << l.log_splits) - 1);
        uint4 piece[PIECES];
#pragma unroll
        for (int i = 0; i < PIECES; i++) row[i] = 0, at[i] = ((i << l.log_splits) + split) * 32 + threadIdx.x % 32;
        take_pieces(l, from, row, at, piece);
#pragma unroll
        for (int i = 0; i < PIECES; i++) unpack<D>(piece[i], x[i]);
        if (NORM && l.norm) normalize(l, at, shared);
    }
    // In shared memory are scale and bias, then room for a number of every warp.
    __device__ __forceinline__ void normalize(const hyp_cuda_layer &l, const uint32_t (&at)[PIECES],
                                              const uint4 *shared)
    {
        float *room = (float *)(shared + 2 * l.pieces), sum = 0, squares = 0, mean = 0;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
#pragma unroll
            for (int e = 0; e < E; e++) sum += x[i][e];
        if (l.norm == HYP_CUDA_NORM_LAYER) mean = sum_of_row(l, sum, room) / (float)l.k;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
#pragma unroll
            for (int e = 0; e < E; e++) squares += at[i] < l.pieces ? (x[i][e] - mean) * (x[i][e] - mean) : 0;
        float inverse = 1 / sqrtf(sum_of_row(l, squares, room) / (float)l.k + l.epsilon);
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            if (at[i] >= l.pieces) break;
            float scale[E], bias[E];
            unpack<D>(shared[at[i]], scale);
            unpack<D>(shared[l.pieces + at[i]], bias);
#pragma unroll
            for (int e = 0; e < E; e++) x[i][e] = (x[i][e] - mean) * inverse * scale[e] + bias[e];
        }
    }
    // Over the lanes and the warps that share the row.
    static __device__ __forceinline__ float sum_of_row(const hyp_cuda_layer &l, float v, float *room)
    {
        v = sum_of_lanes(v);
        if (l.log_splits == 0) return v;
        uint32_t warp = threadIdx.x / 32, first = warp >> l.log_splits << l.log_splits;
        __syncthreads(); // the room is free
        if (threadIdx.x % 32 == 0) room[warp] = v;
        __syncthreads();
        v = 0;
        for (uint32_t i = 0; i < 1u << l.log_splits; i++) v += room[first + i];
        return v;
    }
    // `rows` rows of w, of which the first is row `first` of the block's `count`.
    __device__ __forceinline__ void multiply_chunk(const hyp_cuda_layer &l, const uint4 *w, uint32_t rows,
                                                   uint32_t first, uint32_t count, const uint4 *, float *sums)
    {
        uint32_t split = threadIdx.x / 32 & ((1u << l.log_splits) - 1), lane = threadIdx.x % 32;
        for (uint32_t r = threadIdx.x / 32 >> l.log_splits; r < rows; r += warps() >> l.log_splits) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                uint32_t at = ((i << l.log_splits) + split) * 32 + lane;
                if (at >= l.pieces) break;
                float v[E];
                unpack<D>(w[r * l.pieces + at], v);
#pragma unroll
                for (int e = 0; e < E; e++) sum += v[e] * x[i][e];
            }
            sum = sum_of_lanes(sum);
            if (lane == 0) sums[split * count + first + r] = sum;
        }
    }
};

// ---- the ring of weights ----------------------------------------------------------------------------------------

// Chunks of weights on their way through shared memory; a block with fewer rows than others may have an empty one. A
// stage is filled by one thread, and given back by every warp.
template <uint32_t PARTS> struct ring {
    const hyp_cuda_layer &l;
    share<PARTS> s;
    uint4 *data;
    uint64_t *full, *free;        // a barrier for each stage
    uint32_t chunk, stage, phase; // to be read next

    __device__ __forceinline__ ring(const hyp_cuda_layer &args, share<PARTS> rows, uint4 *shared)
        : l(args), s(rows), data(shared), full((uint64_t *)(shared + args.stages * args.stage_pieces)),
          free(full + args.stages), chunk(0), stage(0), phase(0)
    {
    }

    __device__ __forceinline__ void fetch(uint32_t number, uint32_t to)
    {
        uint32_t row = number * l.chunk_rows, left = row < s.count ? s.count - row : 0;
        uint32_t rows = left < l.chunk_rows ? left : l.chunk_rows, next;
        uint4 *into = data + to * l.stage_pieces;
        barrier_expect(full + to, rows * l.pieces * 16);
#pragma unroll 1
        for (uint32_t end = row + rows; row < end; row += next, into += next * l.pieces) {
            next = s.rows_from(row, end);
            copy_bulk(into, (const uint4 *)l.weight + (uint64_t)s.row(row) * l.pieces, next * l.pieces * 16, full + to);
        }
    }

    // Each of the first threads fills a stage.
    __device__ __forceinline__ void start()
    {
        if (threadIdx.x >= l.stages) return;
        barrier_init(full + threadIdx.x, 1);
        barrier_init(free + threadIdx.x, warps());
        barriers_ready();
        fetch(threadIdx.x, threadIdx.x);
    }

    __device__ __forceinline__ const uint4 *wait()
    {
        barrier_wait(full + stage, phase);
        return data + stage * l.stage_pieces;
    }

    __device__ __forceinline__ void give_back()
    {
        if (l.stages < l.chunks) { // stages are used again
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(free + stage);
            if (threadIdx.x == 0 && chunk + l.stages < l.chunks) {
                barrier_wait(free + stage, phase);
                fetch(chunk + l.stages, stage);
            }
        }
        chunk++;
        if (++stage == l.stages) stage = 0, phase ^= 1;
    }

    // Rows that do not start at multiples of 16 bytes are read when they are needed, all threads together.
    template <uint32_t D> __device__ __forceinline__ const uint4 *gather(uint32_t first, uint32_t rows)
    {
        constexpr int E = piece_elements<D>;
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < rows * l.pieces; i += blockDim.x) {
            uint32_t row = i / l.pieces;
            data[i] =
                gather_piece<D>(l.weight + (uint64_t)(first + row) * l.k * (16 / E), (i - row * l.pieces) * E, l.k);
        }
        __syncthreads();
        return data;
    }
};

// ---- a layer ----------------------------------------------------------------------------------------------------

template <uint32_t D, typename P, uint32_t PARTS = 1> struct layer {
    static constexpr uint32_t R = result_type<D>;
    static constexpr int E = piece_elements<D>;
    const hyp_cuda_layer &l;
    share<PARTS> s;
    uint4 *x;    // in shared memory, for products that keep it there; for others what normalizes it
    float *bias; // of the block's rows
    float *sums; // results before they are finished
    ring<PARTS> weights;

    __device__ __forceinline__ layer(const hyp_cuda_layer &args, uint4 *shared)
        : l(args), s(args), x(shared), bias((float *)(shared + args.x_pieces)), sums(bias + args.biases),
          weights(args, s, shared + args.x_pieces + (args.biases + args.sums) / 4)
    {
    }

    __device__ __forceinline__ void compute(P &product)
    {
        uint32_t chunks = l.aligned ? l.chunks : (s.count + l.chunk_rows - 1) / l.chunk_rows;
#pragma unroll 1
        for (uint32_t c = 0, row = 0; c < chunks; c++, row += l.chunk_rows) {
            uint32_t left = row < s.count ? s.count - row : 0, rows = left < l.chunk_rows ? left : l.chunk_rows;
            const uint4 *w = l.aligned ? weights.wait() : weights.template gather<D>(s.unit + row, rows);
            product.multiply_chunk(l, w, rows, row, s.count, x, sums);
            if (l.aligned) weights.give_back();
        }
    }

    // Of row i and, where there are several, row m of x: adds up the parts of rows, in order, and what is to be added;
    // applies the activation. `at` is its place in y.
    __device__ __forceinline__ float result(uint32_t i, uint32_t m, float b, int64_t at)
    {
        float v = 0;
#pragma unroll 4
        for (uint32_t part = 0; part < 1u << l.log_splits; part++) v += sums[(part * s.count + i) * l.rows + m];
        v = v * l.scale + b;
        float added = l.added ? element<R>(l.added, at) : 0.0f;
        if (l.added && !l.add_after) v += added;
        if (l.act == HYP_PW_RELU)
            v = relu(v);
        else if (l.act != HYP_PW_CAST)
            v = activate(l.act, v);
        return l.added && l.add_after ? v + added : v;
    }

    // Neighbouring threads have neighbours in memory.
    __device__ __forceinline__ void finish()
    {
        uint32_t width = l.turned ? l.rows : s.count;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < s.count * l.rows; i += blockDim.x) {
            uint32_t other = l.rows == 1 ? 0 : i / width, along = i - other * width;
            uint32_t row = l.turned ? other : along, m = l.turned ? along : other;
            if (l.rows == 1) row = i, m = 0;
            int64_t at = l.turned ? (int64_t)(s.unit + row) * l.rows + m : (int64_t)m * l.n + s.row(row);
            set_element<R>(l.y, at, result(row, m, bias[l.turned ? m : row], at));
        }
    }

    // Of a single row of x: results stay in `sums`, as y has them, which may be wanted, too.
    __device__ __forceinline__ void keep()
    {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < s.count; i += blockDim.x) {
            int64_t at = s.row(i);
            float v = value_left<R>(result(i, 0, bias[i], at));
            sums[i] = v;
            if (l.y) set_element<R>(l.y, at, v);
        }
    }

    // The plan's x; in shared memory, ending with zeros, when its rows do not start at multiples of 16 bytes.
    __device__ __forceinline__ const uint4 *input()
    {
        if (l.aligned) return (const uint4 *)l.x;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < l.rows * l.pieces; i += blockDim.x) {
            uint32_t row = i / l.pieces;
            x[i] = gather_piece<D>(l.x + (uint64_t)row * l.k * (16 / E), (i - row * l.pieces) * E, l.k);
        }
        __syncthreads();
        return x;
    }

    // Of the block's rows, into shared memory, where they are read when the products are there.
    __device__ __forceinline__ void take_biases()
    {
        uint32_t biases = l.turned ? l.rows : s.count;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < biases; i += blockDim.x)
            bias[i] = l.bias ? element<R>(l.bias, l.turned ? i : s.row(i)) : 0.0f;
    }

    // What does not come from kernels before this one is asked for before it waits for them.
    __device__ __forceinline__ void begin(P &product)
    {
        if (!l.constant) kernels_before_end();
        next_kernel_may_start();
        weights.start();
        if (l.bias_constant || !l.constant) take_biases();
        for (uint32_t i = threadIdx.x; l.norm && i < l.pieces; i += blockDim.x) {
            x[i] = ((const uint4 *)l.norm_scale)[i];
            x[l.pieces + i] = l.norm_bias ? ((const uint4 *)l.norm_bias)[i] : make_uint4(0, 0, 0, 0);
        }
        __syncthreads(); // the barriers are there
        if (l.constant) kernels_before_end();
        product.take(l, input(), x);
        if (l.constant && !l.bias_constant) take_biases(); // while x is on its way
    }

    __device__ __forceinline__ void run()
    {
        P product;
        begin(product);
        compute(product);
        __syncthreads();
        finish();
    }
};

} // namespace hyp_device

#endif

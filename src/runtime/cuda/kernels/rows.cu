// rows.cu - kernels that move pieces of 16 bytes and are written out for what they compute: softmax and normalization,
// which know something of all of a row, and activations. A row is read once, in pieces that stay in the registers of the threads that share it: those of a block's x dimension, a warp or
// whole warps. Every thread takes part in every round, for the barriers. Part of image.cu, behind kernels.cu.

inline namespace hyp_device
{

// Combines over the threads of a row, in a fixed order; all get the result. `room` holds a value for each warp.
template <typename C, typename F> __device__ __forceinline__ C over_row(C v, C *room, F f)
{
#pragma unroll
    for (int distance = 16; distance; distance /= 2) v = f(v, __shfl_xor_sync(0xffffffff, v, distance));
    unsigned warps = blockDim.x / 32, first = threadIdx.y * warps;
    if (warps == 1) return v;
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[first + threadIdx.x / 32] = v;
    __syncthreads();
    v = room[first];
    for (unsigned i = 1; i < warps; i++) v = f(v, room[first + i]);
    return v;
}

// Neighbours of a row as numbers: 16 bytes of it, or 8 elements where rows do not start at multiples of 16 bytes.
struct piece {
    float v[8];
};
// V: rows are read in pieces of 16 bytes.
template <bool V> __device__ __forceinline__ int piece_width(const hyp_cuda_rows &r)
{
    return V && r.dtype == HYP_F32 ? 4 : 8;
}

__device__ __forceinline__ uint4 load_bits16(uint64_t data, int64_t at) { return ((const uint4 *)data)[at]; }

__device__ __forceinline__ piece to_piece(uint32_t dtype, uint4 bits)
{
    piece p;
    uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == HYP_F32) {
            p.v[i] = __uint_as_float(words[i]);
        } else {
            uint16_t low = (uint16_t)words[i], high = (uint16_t)(words[i] >> 16);
            p.v[2 * i] = dtype == HYP_BF16 ? from_bfloat(low) : from_half(low);
            p.v[2 * i + 1] = dtype == HYP_BF16 ? from_bfloat(high) : from_half(high);
        }
    }
    return p;
}

__device__ __forceinline__ piece load_vector(uint32_t dtype, uint64_t data, int64_t at)
{
    return to_piece(dtype, load_bits16(data, at));
}

__device__ __forceinline__ uint4 to_bits(uint32_t dtype, const piece &p)
{
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == HYP_F32) {
            words[i] = __float_as_uint(p.v[i]);
        } else if (dtype == HYP_BF16) {
            uint32_t high = bfloat_bits(p.v[2 * i + 1]);
            words[i] = high << 16 | bfloat_bits(p.v[2 * i]);
        } else {
            uint32_t high = half_bits(p.v[2 * i + 1]);
            words[i] = high << 16 | half_bits(p.v[2 * i]);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ void store_vector(uint32_t dtype, uint64_t data, int64_t at, const piece &p)
{
    ((uint4 *)data)[at] = to_bits(dtype, p);
}

// Is element e of piece `at` one of the row's?
template <bool V> __device__ __forceinline__ bool is_there(const hyp_cuda_rows &r, int64_t at, int e)
{
    return V ? e < piece_width<V>(r) : at * 8 + e < r.size;
}

// Element by element, where rows are not read in pieces of 16 bytes.
template <bool V> __device__ __forceinline__ piece load_loose(const hyp_cuda_rows &r, uint32_t dtype, uint64_t data, int64_t row, int64_t at)
{
    piece p;
#pragma unroll
    for (int e = 0; e < 8; e++)
        p.v[e] = is_there<V>(r, at, e) ? load_native<float>(dtype, data, row * r.size + at * 8 + e) : 0;
    return p;
}

template <bool V> __device__ __forceinline__ void store_piece(const hyp_cuda_rows &r, int64_t row, int64_t at, const piece &p)
{
    if constexpr (V) {
        store_vector(r.dtype, r.y, row * r.pieces + at, p);
    } else {
        piece q = p; // a loop over an array in local memory, which is short
#pragma unroll 1
        for (int e = 0; e < 8; e++)
            if (is_there<V>(r, at, e)) store_native(r.dtype, r.y, row * r.size + at * 8 + e, q.v[e]);
    }
}

// A row in the registers of its threads; piece i of thread t is the row's piece t + i * threads.
struct row_pieces {
    piece kept[HYP_CUDA_ROW_PIECES];
    int64_t row;
    bool there; // false: a row behind the last one
};

// Does f(piece, which of the row's, which of this thread's) for the pieces of this thread.
template <typename F> __device__ __forceinline__ void for_pieces(const hyp_cuda_rows &r, row_pieces &row, F f)
{
#pragma unroll
    for (int i = 0; i < HYP_CUDA_ROW_PIECES; i++) {
        int64_t at = threadIdx.x + i * (int64_t)blockDim.x;
        if (row.there && at < r.pieces) f(row.kept[i], at, i);
    }
}

// All pieces are asked for before the first is needed.
template <bool V> __device__ __forceinline__ void load_row(const hyp_cuda_rows &r, row_pieces &row)
{
    uint4 bits[HYP_CUDA_ROW_PIECES];
#pragma unroll
    for (int i = 0; i < HYP_CUDA_ROW_PIECES; i++) {
        int64_t at = threadIdx.x + i * (int64_t)blockDim.x;
        if (V && row.there && at < r.pieces) bits[i] = load_bits16(r.x, row.row * r.pieces + at);
    }
    for_pieces(r, row, [&](piece &p, int64_t at, int i) {
        p = V ? to_piece(r.dtype, bits[i]) : load_loose<V>(r, r.dtype, r.x, row.row, at);
    });
}

template <bool V> __device__ __forceinline__ void softmax_row(const hyp_cuda_rows &r, row_pieces &row, float *room)
{
    float top = -INFINITY, sum = 0;
    load_row<V>(r, row);
    for_pieces(r, row, [&](piece &p, int64_t at, int) {
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (is_there<V>(r, at, e)) top = take_max()(p.v[e], top);
    });
    top = over_row(top, room, take_max());
    for_pieces(r, row, [&](piece &p, int64_t at, int) {
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (is_there<V>(r, at, e)) sum += p.v[e] = exponential(p.v[e] - top);
    });
    sum = over_row(sum, room, take_sum());
    for_pieces(r, row, [&](piece &p, int64_t at, int) {
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (is_there<V>(r, at, e)) p.v[e] /= sum;
        store_piece<V>(r, row.row, at, p);
    });
}

template <bool V> __device__ __forceinline__ void norm_row(const hyp_cuda_norm &n, row_pieces &row, float *room)
{
    const hyp_cuda_rows &r = n.rows;
    float sum = 0, mean = 0, squares = 0, size = (float)r.size;
    load_row<V>(r, row);
    for_pieces(r, row, [&](piece &p, int64_t at, int) {
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (is_there<V>(r, at, e)) sum += p.v[e];
    });
    if (n.centred) mean = over_row(sum, room, take_sum()) / size;
    for_pieces(r, row, [&](piece &p, int64_t at, int) {
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (is_there<V>(r, at, e)) squares += (p.v[e] - mean) * (p.v[e] - mean);
    });
    float inverse = 1 / sqrtf(over_row(squares, room, take_sum()) / size + (float)n.epsilon);
    for_pieces(r, row, [&](piece &p, int64_t at, int) {
#pragma unroll
        for (int e = 0; e < 8; e++) p.v[e] = (p.v[e] - mean) * inverse;
        if (n.scale) {
            piece scale = V ? load_vector(r.dtype, n.scale, at) : load_loose<V>(r, n.scale_dtype, n.scale, 0, at);
#pragma unroll
            for (int e = 0; e < 8; e++) p.v[e] *= scale.v[e];
        }
        if (n.bias) {
            piece bias = V ? load_vector(r.dtype, n.bias, at) : load_loose<V>(r, n.bias_dtype, n.bias, 0, at);
#pragma unroll
            for (int e = 0; e < 8; e++) p.v[e] += bias.v[e];
        }
        store_piece<V>(r, row.row, at, p);
    });
}

// The same for rows that are too long for registers, and in double: x is read three times.
template <typename C> __device__ __forceinline__ void norm_long_row(const hyp_cuda_norm &n, const row_pieces &row, C *room)
{
    const hyp_cuda_rows &r = n.rows;
    int64_t start = row.row * r.size, end = row.there ? r.size : 0;
    C sum = 0, mean = 0, squares = 0;
    for (int64_t i = threadIdx.x; n.centred && i < end; i += blockDim.x) sum += load_native<C>(r.dtype, r.x, start + i);
    if (n.centred) mean = over_row(sum, room, take_sum()) / (C)r.size;
    for (int64_t i = threadIdx.x; i < end; i += blockDim.x) {
        C v = load_native<C>(r.dtype, r.x, start + i) - mean;
        squares += v * v;
    }
    C inverse = 1 / (C)sqrt(over_row(squares, room, take_sum()) / (C)r.size + (C)n.epsilon);
    if (threadIdx.x == 0 && row.there && n.mean) store<C>(n.mean_dtype, n.mean, row.row, mean);
    if (threadIdx.x == 0 && row.there && n.inverse) store<C>(n.inverse_dtype, n.inverse, row.row, inverse);
    for (int64_t i = threadIdx.x; i < end; i += blockDim.x) {
        C v = (load_native<C>(r.dtype, r.x, start + i) - mean) * inverse;
        if (n.scale) v *= load<C>(n.scale_dtype, n.scale, i);
        if (n.bias) v += load<C>(n.bias_dtype, n.bias, i);
        store_native(r.dtype, r.y, start + i, v);
    }
}

// ---- gradients of both ------------------------------------------------------------------------------------------

// With h = (x - mean) / deviation and s = g scale: by the scale s h, by x (s - mean of s - h mean of (s h)) / deviation.
// That of softmax is y (g - sum of (y g)), with y for h.
__device__ __forceinline__ void row_gradient_row(const hyp_cuda_row_gradient &p, row_pieces &row, float *room)
{
    const hyp_cuda_rows &r = p.rows;
    hyp_cuda_rows of_g = p.rows;
    row_pieces g;
    of_g.x = p.g;
    g.row = row.row, g.there = row.there;
    load_row<true>(r, row);
    load_row<true>(of_g, g);
    float sum = 0, mean = 0, squares = 0, inverse = 1, along = 0, size = (float)r.size;
    int width = piece_width<true>(r);
    auto over_elements = [&](auto f) {
        for_pieces(r, row, [&](piece &x, int64_t, int i) {
#pragma unroll
            for (int e = 0; e < 8; e++)
                if (e < width) f(x.v[e], g.kept[i].v[e]);
        });
    };
    if (!p.softmax) {
        if (p.centred) {
            over_elements([&](float &x, float &) { sum += x; });
            mean = over_row(sum, room, take_sum()) / size;
        }
        over_elements([&](float &x, float &) { squares += (x - mean) * (x - mean); });
        inverse = 1 / sqrtf(over_row(squares, room, take_sum()) / size + (float)p.epsilon);
        over_elements([&](float &x, float &) { x = (x - mean) * inverse; });
    }
    if (p.scale)
        for_pieces(r, g, [&](piece &v, int64_t at, int) {
            piece scale = load_vector(r.dtype, p.scale, at);
#pragma unroll
            for (int e = 0; e < 8; e++) v.v[e] *= scale.v[e];
        });
    if (p.by_scale) {
        over_elements([&](float &h, float &s) { h *= s; });
    } else {
        over_elements([&](float &h, float &s) { along += s * h; });
        along = over_row(along, room, take_sum());
        sum = 0;
        if (p.centred) {
            over_elements([&](float &, float &s) { sum += s; });
            sum = over_row(sum, room, take_sum()) / size;
        }
        if (p.softmax)
            over_elements([&](float &y, float &s) { y *= s - along; });
        else
            over_elements([&](float &h, float &s) { h = (s - sum - h * (along / size)) * inverse; });
    }
    for_pieces(r, row, [&](piece &v, int64_t at, int) { store_piece<true>(r, row.row, at, v); });
}

// The same for rows of any length, type and place, read again for each sum.
template <typename C>
__device__ __forceinline__ void row_gradient_long_row(const hyp_cuda_row_gradient &p, const row_pieces &row, C *room)
{
    const hyp_cuda_rows &r = p.rows;
    int64_t outer = divide(row.row, p.inner), step = p.inner.size;
    int64_t start = outer * r.size * step + (row.row - outer * step), end = row.there ? r.size : 0;
    C sum = 0, mean = 0, squares = 0, inverse = 1, along = 0, size = (C)r.size;
    auto x_at = [&](int64_t i) { return load_native<C>(r.dtype, r.x, start + i * step); };
    auto s_at = [&](int64_t i) {
        C g = load_native<C>(r.dtype, p.g, start + i * step);
        return p.scale ? g * load<C>(p.scale_dtype, p.scale, i) : g;
    };
    if (!p.softmax) {
        for (int64_t i = threadIdx.x; p.centred && i < end; i += blockDim.x) sum += x_at(i);
        if (p.centred) mean = over_row(sum, room, take_sum()) / size;
        for (int64_t i = threadIdx.x; i < end; i += blockDim.x) {
            C d = x_at(i) - mean;
            squares += d * d;
        }
        inverse = 1 / (C)sqrt(over_row(squares, room, take_sum()) / size + (C)p.epsilon);
    }
    sum = 0;
    for (int64_t i = threadIdx.x; !p.by_scale && i < end; i += blockDim.x) {
        C s = s_at(i);
        along += s * ((x_at(i) - mean) * inverse);
        sum += s;
    }
    if (!p.by_scale) along = over_row(along, room, take_sum());
    sum = !p.by_scale && p.centred ? over_row(sum, room, take_sum()) / size : 0;
    for (int64_t i = threadIdx.x; i < end; i += blockDim.x) {
        C s = s_at(i), h = (x_at(i) - mean) * inverse;
        C by_x = p.softmax ? h * (s - along) : (s - sum - h * (along / size)) * inverse;
        store_native(r.dtype, r.y, start + i * step, p.by_scale ? s * h : by_x);
    }
}

// ---- a norm behind a product in parts ------------------------------------------------------------------------

// Four neighbours of a row of f16 or bf16.
__device__ __forceinline__ uint2 load_four(uint64_t data, int64_t at) { return ((const uint2 *)data)[at]; }
__device__ __forceinline__ void add_four(uint32_t dtype, uint2 bits, float (&v)[4])
{
    bool b = dtype == HYP_BF16;
    uint16_t x[4] = {(uint16_t)bits.x, (uint16_t)(bits.x >> 16), (uint16_t)bits.y, (uint16_t)(bits.y >> 16)};
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] += b ? from_bfloat(x[e]) : from_half(x[e]);
}
__device__ __forceinline__ uint2 to_four(uint32_t dtype, const float (&v)[4])
{
    uint32_t x[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        x[e] = dtype == HYP_BF16 ? bfloat_bits(v[e]) : half_bits(v[e]);
    return make_uint2(x[0] | x[1] << 16, x[2] | x[3] << 16);
}

// A block has a row, a thread up to HYP_CUDA_PART_FOURS times four neighbours of it. Few rows wait for one another, so
// what counts is how often memory is waited for: everything is asked for at once, what is constant before the product
// has ended, and the block meets once, to put together the means and squares of its warps (Chan, Golub and LeVeque 1983).
template <int FOURS> __device__ __forceinline__ void norm_parts_row(const hyp_cuda_norm_parts &s)
{
    extern __shared__ double shared[];
    float4 *of_warp = (float4 *)shared; // mean, squares, size
    const hyp_cuda_rows &r = s.norm.rows;
    int64_t fours = r.size / 4, row = blockIdx.x;
    uint2 bias[FOURS] = {}, scale[FOURS] = {}, shift[FOURS] = {}, added[FOURS] = {};
    float v[FOURS][4] = {};
    auto load_constants = [&] {
#pragma unroll
        for (int i = 0; i < FOURS; i++) {
            int64_t at = threadIdx.x + i * (int64_t)blockDim.x;
            if (at >= fours) continue;
            if (s.bias) bias[i] = load_four(s.bias, at);
            if (s.norm.scale) scale[i] = load_four(s.norm.scale, at);
            if (s.norm.bias) shift[i] = load_four(s.norm.bias, at);
        }
    };
    if (s.constant) load_constants();
    wait_for_kernels_before();
    if (!s.constant) load_constants();
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        int64_t at = threadIdx.x + i * (int64_t)blockDim.x;
        float4 part[HYP_CUDA_PARTS];
        if (at >= fours) continue;
        if (s.added) added[i] = load_four(s.added, row * fours + at);
#pragma unroll
        for (int j = 0; j < HYP_CUDA_PARTS; j++)
            if (j < s.count) part[j] = ((const float4 *)s.parts)[(j * r.count + row) * fours + at];
#pragma unroll
        for (int j = 0; j < HYP_CUDA_PARTS; j++)
            if (j < s.count) v[i][0] += part[j].x, v[i][1] += part[j].y, v[i][2] += part[j].z, v[i][3] += part[j].w;
        add_four(r.dtype, bias[i], v[i]);
        add_four(r.dtype, added[i], v[i]);
        uint2 rounded = to_four(r.dtype, v[i]);
        ((uint2 *)r.x)[row * fours + at] = rounded;
        for (int e = 0; e < 4; e++) v[i][e] = 0;
        add_four(r.dtype, rounded, v[i]);
    }
    // of a warp, then of the row
    float sum = 0, squares = 0, mean = 0, size = 0;
#pragma unroll
    for (int i = 0; i < FOURS; i++) { // what is behind the end of the row is 0
        int64_t left = r.size - 4 * (threadIdx.x / 32 * 32 + i * (int64_t)blockDim.x);
        size += left < 0 ? 0.0f : left < 128 ? (float)left : 128.0f;
        sum += (v[i][0] + v[i][1]) + (v[i][2] + v[i][3]);
    }
    auto over_warp = [](float x) {
        for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(0xffffffff, x, distance);
        return x;
    };
    if (s.norm.centred && size > 0) mean = over_warp(sum) / size;
#pragma unroll
    for (int i = 0; i < FOURS; i++)
        for (int e = 0; e < 4 && threadIdx.x + i * (int64_t)blockDim.x < fours; e++)
            squares += (v[i][e] - mean) * (v[i][e] - mean);
    squares = over_warp(squares);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = {mean, squares, size, 0};
    __syncthreads();
    sum = squares = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) sum += of_warp[w].x * of_warp[w].z;
    mean = sum / (float)r.size;
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        float away = of_warp[w].x - mean;
        squares += of_warp[w].y + away * away * of_warp[w].z;
    }
    float inverse = 1 / sqrtf(squares / (float)r.size + (float)s.norm.epsilon);
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        int64_t at = threadIdx.x + i * (int64_t)blockDim.x;
        float factor[4] = {};
        if (at >= fours) continue;
        add_four(r.dtype, scale[i], factor);
        for (int e = 0; e < 4; e++) v[i][e] = (v[i][e] - mean) * inverse * (s.norm.scale ? factor[e] : 1);
        if (s.norm.bias) add_four(r.dtype, shift[i], v[i]);
        ((uint2 *)r.y)[row * fours + at] = to_four(r.dtype, v[i]);
    }
}

// gelu for results of 16 bits: erf by Abramowitz and Stegun's 7.1.26, off by less than 1.5e-7, at a third of the work.
__device__ __forceinline__ float narrow_gelu(float v)
{
    float x = fabsf(v) * 0.70710678118654752f, t = 1 / (1 + 0.3275911f * x);
    float poly = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float tail = poly * expf(-x * x); // 1 - erf(|x|)
    return 0.5f * v * (v < 0 ? tail : 2 - tail);
}

template <typename F> __device__ __forceinline__ void finish(const hyp_cuda_finish &p, F act)
{
    int width = p.dtype == HYP_F32 ? 4 : 8;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.pieces; i += thread_count()) {
        const uint4 none = {0, 0, 0, 0};
        uint4 x = load_bits16(p.x, i), before = p.before ? load_bits16(p.before, i) : none;
        uint4 after = p.after ? load_bits16(p.after, i) : none;
        uint4 bias = p.bias ? load_bits16(p.bias, i - divide(i, p.row_pieces) * p.row_pieces.size) : none;
        reads_are_sent();
        piece y = to_piece(p.dtype, x), more;
        if (p.bias) {
            more = to_piece(p.dtype, bias);
#pragma unroll
            for (int e = 0; e < 8; e++) y.v[e] += more.v[e];
        }
        if (p.before) {
            more = to_piece(p.dtype, before);
#pragma unroll
            for (int e = 0; e < 8; e++) y.v[e] += more.v[e];
        }
        if (p.after) more = to_piece(p.dtype, after);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            if (e >= width) continue;
            y.v[e] = act(y.v[e]);
            if (p.after) y.v[e] += more.v[e]; // not 0, which would make 0 of -0
        }
        store_vector(p.dtype, p.y, i, y);
    }
}

// Does f(row, room) for the rows of this thread's team.
template <typename F> __device__ __forceinline__ void for_rows(const hyp_cuda_rows &r, F f)
{
    extern __shared__ double shared[];
    row_pieces row;
    wait_for_kernels_before();
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < r.count; first += (int64_t)gridDim.x * blockDim.y) {
        row.row = first + threadIdx.y;
        row.there = row.row < r.count;
        f(row, shared);
    }
}

} // namespace hyp_device

#define ROWS(name, args, rows, call)                                                                                   \
    extern "C" __global__ void __launch_bounds__(512, 2) name(const __grid_constant__ args p)                          \
    {                                                                                                                  \
        for_rows(rows, [&](row_pieces &row, double *room) { call(p, row, (float *)room); });                           \
    }
ROWS(softmax_rows, hyp_cuda_rows, p, softmax_row<true>)
ROWS(softmax_loose_rows, hyp_cuda_rows, p, softmax_row<false>)
ROWS(norm_rows, hyp_cuda_norm, p.rows, norm_row<true>)
ROWS(norm_loose_rows, hyp_cuda_norm, p.rows, norm_row<false>)
ROWS(row_gradient, hyp_cuda_row_gradient, p.rows, row_gradient_row)
#undef ROWS

extern "C" __global__ void __launch_bounds__(HYP_CUDA_PART_THREADS) norm_parts(const __grid_constant__ hyp_cuda_norm_parts p)
{
    norm_parts_row<HYP_CUDA_PART_FOURS>(p);
}

extern "C" __global__ void norm_long_f32(const __grid_constant__ hyp_cuda_norm p)
{
    for_rows(p.rows, [&](row_pieces &row, double *room) { norm_long_row<float>(p, row, (float *)room); });
}
extern "C" __global__ void norm_long_f64(const __grid_constant__ hyp_cuda_norm p)
{
    for_rows(p.rows, [&](row_pieces &row, double *room) { norm_long_row<double>(p, row, room); });
}

extern "C" __global__ void row_gradient_long_f32(const __grid_constant__ hyp_cuda_row_gradient p)
{
    for_rows(p.rows, [&](row_pieces &row, double *room) { row_gradient_long_row<float>(p, row, (float *)room); });
}
extern "C" __global__ void row_gradient_long_f64(const __grid_constant__ hyp_cuda_row_gradient p)
{
    for_rows(p.rows, [&](row_pieces &row, double *room) { row_gradient_long_row<double>(p, row, room); });
}

extern "C" __global__ void finish_product(const __grid_constant__ hyp_cuda_finish p)
{
    wait_for_kernels_before();
    if (p.act == HYP_PW_GELU && p.dtype != HYP_F32) {
        finish(p, narrow_gelu);
        return;
    }
    using C = float;
    switch (p.act) {
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...)                                                   \
    case HYP_PW_##OP: finish(p, [](float a) { return __VA_ARGS__; }); break;
        HYP_ACTIVATIONS(X)
#undef X
    default: finish(p, [](float v) { return v; });
    }
}

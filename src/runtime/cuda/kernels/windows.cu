// windows.cu - convolutions and pooling: what neither cuDNN nor a product does well. Convolutions a thread a result are many
// times slower than cuDNN's; those of single channels are bound by memory.
//
// Part of image.cu, after kernels.cu and rows.cu.

#include "runtime/cuda/kernels/pool_args.h"

inline namespace hyp_device
{

// Where a result lies: its image, its channel, which row of all results and where in it, and where its window begins,
// which may be in the padding.
struct window_place {
    int64_t image, channel, row, column, begin[HYP_CUDA_SPATIAL];
};

__device__ __forceinline__ window_place place_of(const hyp_cuda_windows &w, int64_t i)
{
    window_place at;
    int64_t rest = i, next;
    if (w.y_last) {
        rest = divide(i, w.channels);
        at.channel = i - rest * w.channels.size;
    }
#pragma unroll
    for (int a = 0; a < HYP_CUDA_SPATIAL; a++) {
        next = divide(rest, w.out[a]);
        int64_t here = rest - next * w.out[a].size;
        at.begin[a] = here * w.stride[a] - w.before[a];
        if (a == 0) at.row = next, at.column = here;
        rest = next;
    }
    at.image = rest;
    if (!w.y_last) {
        at.image = divide(rest, w.channels);
        at.channel = rest - at.image * w.channels.size;
    }
    return at;
}

// Calls f(tap, position in the image) for every element of the window that is inside of x.
template <typename F> __device__ __forceinline__ void for_window(const hyp_cuda_windows &w, const window_place &at, F f)
{
    int64_t tap = 0;
#pragma unroll 1
    for (int64_t k2 = 0; k2 < w.kernel[2]; k2++) {
        int64_t p2 = at.begin[2] + k2 * w.dilation[2];
#pragma unroll 1
        for (int64_t k1 = 0; k1 < w.kernel[1]; k1++) {
            int64_t p1 = at.begin[1] + k1 * w.dilation[1];
            bool inside = p2 >= 0 && p2 < w.in[2] && p1 >= 0 && p1 < w.in[1];
#pragma unroll 1
            for (int64_t k0 = 0; k0 < w.kernel[0]; k0++, tap++) {
                int64_t p0 = at.begin[0] + k0 * w.dilation[0];
                if (inside && p0 >= 0 && p0 < w.in[0]) f(tap, (p2 * w.in[1] + p1) * w.in[0] + p0);
            }
        }
    }
}
// The same for all elements in groups of neighbours along the innermost axis, so that what is read of a group is under way
// at once: f(first tap, positions, how many). A position is -1 outside of x, and beyond the last one.
template <int GROUP, typename F>
__device__ __forceinline__ void for_groups(const hyp_cuda_windows &w, const window_place &at, F f)
{
    int64_t tap = 0;
#pragma unroll 1
    for (int64_t k2 = 0; k2 < w.kernel[2]; k2++) {
        int64_t p2 = at.begin[2] + k2 * w.dilation[2];
#pragma unroll 1
        for (int64_t k1 = 0; k1 < w.kernel[1]; k1++) {
            int64_t p1 = at.begin[1] + k1 * w.dilation[1], row = (p2 * w.in[1] + p1) * w.in[0];
            bool inside = p2 >= 0 && p2 < w.in[2] && p1 >= 0 && p1 < w.in[1];
#pragma unroll 1
            for (int64_t k0 = 0; k0 < w.kernel[0]; k0 += GROUP) {
                int left = w.kernel[0] - k0 < GROUP ? (int)(w.kernel[0] - k0) : GROUP;
                int64_t position[GROUP], p0 = at.begin[0] + k0 * w.dilation[0];
#pragma unroll
                for (int k = 0; k < GROUP; k++, p0 += w.dilation[0])
                    position[k] = k < left && inside && p0 >= 0 && p0 < w.in[0] ? row + p0 : (int64_t)-1;
                f(tap, position, left);
                tap += left;
            }
        }
    }
}

// Floats that compute in C, or any integers, of which C has 64 bits.
template <typename C> __device__ __forceinline__ C element(uint32_t dtype, uint64_t data, int64_t i)
{
    if constexpr (whole<C>)
        return load<C>(dtype, data, i);
    else
        return load_native<C>(dtype, data, i);
}
template <typename C> __device__ __forceinline__ void set_element(uint32_t dtype, uint64_t data, int64_t i, C v)
{
    if constexpr (whole<C>)
        store<C>(dtype, data, i, v);
    else
        store_native(dtype, data, i, v);
}

// The activations that a convolution may have; of integers there are none.
template <typename C> __device__ __noinline__ C activated(uint32_t act, C v)
{
    return act == HYP_PW_CLIP ? at_most(relu(v), (C)6) : activation(act, v);
}
template <> __device__ __forceinline__ uint64_t activated(uint32_t, uint64_t v) { return v; }

template <typename C> __device__ __forceinline__ void convolution(const hyp_cuda_conv &p)
{
    constexpr int AT_A_TIME = sizeof(C) == 4 ? 4 : 1;
    const hyp_cuda_windows &w = p.windows;
    int64_t group_in = p.group_in, x_step = w.x_last ? w.in_channels : 1;
    int64_t x_channel = w.x_last ? 1 : w.in_count;
#pragma unroll 1
    for (int64_t i = first_thread(); i < w.total; i += thread_count()) {
        window_place at = place_of(w, i);
        int64_t x = at.image * w.in_channels * w.in_count + divide(at.channel, p.group_out) * group_in * x_channel;
        int64_t weight = at.channel * p.filter_step;
        C sum = p.bias ? element<C>(p.dtype, p.bias, at.channel) : (C)0;
        for_window(w, at, [&](int64_t tap, int64_t position) {
#pragma unroll AT_A_TIME
            for (int64_t c = 0; c < group_in; c++)
                sum += element<C>(p.dtype, p.x, x + position * x_step + c * x_channel) *
                       element<C>(p.dtype, p.weight, weight + tap * p.tap_step + c * p.channel_step);
        });
        if (p.added) sum += element<C>(p.dtype, p.added, i);
        set_element(p.dtype, p.y, i, activated(p.act, sum));
    }
}

// The place of x, along one axis, whose window has a result under tap `tap`; -1 where there is none.
__device__ __forceinline__ int64_t reaching(const hyp_cuda_conv_transpose &p, const window_place &at, int a, int64_t tap)
{
    const hyp_cuda_windows &w = p.conv.windows;
    int64_t from = at.begin[a] - tap * w.dilation[a], place = from / p.step[a];
    return from >= 0 && place * p.step[a] == from && place < w.in[a] ? place : -1;
}

template <typename C> __device__ __forceinline__ void transposed_convolution(const hyp_cuda_conv_transpose &p)
{
    const hyp_cuda_conv &v = p.conv;
    const hyp_cuda_windows &w = v.windows;
    int64_t x_step = w.x_last ? w.in_channels : 1, x_channel = w.x_last ? 1 : w.in_count;
    int64_t channel_step = v.group_out.size * w.kernel_count; // of the weight
#pragma unroll 1
    for (int64_t i = first_thread(); i < w.total; i += thread_count()) {
        window_place at = place_of(w, i);
        int64_t group = divide(at.channel, v.group_out), first = group * v.group_in, tap = 0;
        int64_t x = at.image * w.in_channels * w.in_count + first * x_channel;
        int64_t weight = first * channel_step + (at.channel - group * v.group_out.size) * w.kernel_count;
        C sum = v.bias ? element<C>(v.dtype, v.bias, at.channel) : (C)0;
#pragma unroll 1
        for (int64_t k2 = 0; k2 < w.kernel[2]; k2++) {
            int64_t p2 = reaching(p, at, 2, k2);
#pragma unroll 1
            for (int64_t k1 = 0; k1 < w.kernel[1]; k1++) {
                int64_t p1 = reaching(p, at, 1, k1);
#pragma unroll 1
                for (int64_t k0 = 0; k0 < w.kernel[0]; k0++, tap++) {
                    int64_t p0 = reaching(p, at, 0, k0);
                    if (p2 < 0 || p1 < 0 || p0 < 0) continue;
                    int64_t position = (p2 * w.in[1] + p1) * w.in[0] + p0;
#pragma unroll 1
                    for (int64_t c = 0; c < v.group_in; c++)
                        sum += element<C>(v.dtype, v.x, x + position * x_step + c * x_channel) *
                               element<C>(v.dtype, v.weight, weight + tap + c * channel_step);
                }
            }
        }
        set_element(v.dtype, v.y, i, sum);
    }
}

// A block a weight: its threads share the places of all images.
template <typename C> __device__ __forceinline__ void weights_gradient(const hyp_cuda_conv_weights &p)
{
    extern __shared__ double shared[];
    const hyp_cuda_windows &w = p.windows;
    int64_t x_step = w.x_last ? w.in_channels : 1, x_channel = w.x_last ? 1 : w.in_count;
    int64_t g_step = w.y_last ? w.channels.size : 1, g_channel = w.y_last ? 1 : p.places;
    int64_t all = w.total / w.channels.size; // places of all images
#pragma unroll 1
    for (int64_t i = blockIdx.x; i < p.weights; i += gridDim.x) {
        int64_t pair = i / w.kernel_count, tap = i - pair * w.kernel_count, filter = pair / p.group_in;
        int64_t channel = filter / p.group_out * p.group_in + pair - filter * p.group_in, shift[HYP_CUDA_SPATIAL];
#pragma unroll
        for (int a = 0; a < HYP_CUDA_SPATIAL; a++) {
            int64_t next = tap / w.kernel[a];
            shift[a] = (tap - next * w.kernel[a]) * w.dilation[a] - w.before[a];
            tap = next;
        }
        C sum = 0;
#pragma unroll 1
        for (int64_t j = threadIdx.x; j < all; j += blockDim.x) {
            int64_t image = j, position = 0, step = 1;
            bool inside = true;
#pragma unroll
            for (int a = 0; a < HYP_CUDA_SPATIAL; a++) {
                int64_t next = divide(image, w.out[a]);
                int64_t at = (image - next * w.out[a].size) * w.stride[a] + shift[a];
                inside = inside && at >= 0 && at < w.in[a];
                position += at * step;
                step *= w.in[a];
                image = next;
            }
            if (!inside) continue;
            int64_t place = j - image * p.places;
            int64_t x = image * w.in_channels * w.in_count + position * x_step + channel * x_channel;
            int64_t g = image * w.channels.size * p.places + place * g_step + filter * g_channel;
            sum += element<C>(p.dtype, p.x, x) * element<C>(p.dtype, p.g, g);
        }
        sum = combine(sum, (C *)shared, true, take_sum());
        if (threadIdx.x == 0) set_element(p.dtype, p.y, i, sum);
    }
}

enum { RESULTS = HYP_CUDA_DEPTHWISE, CHANNELS = 8, GROUP = 3, LONG_GROUP = 5 };

// A group of neighbouring taps, `left` of them at most, and all that their products with RESULTS results need.
template <int GROUP> struct taps {
    uint4 factor[GROUP], element[GROUP][RESULTS];
    int place, left; // of the first; it may be beyond the edges

    __device__ __forceinline__ bool counts(const hyp_cuda_depthwise &p, int k, int n) const
    {
        int here = place + k * (int)p.windows.dilation[0] + n * (int)p.step;
        return k < left && here >= 0 && here < (int)p.windows.in[0];
    }

    __device__ __forceinline__ void add(const hyp_cuda_depthwise &p, uint32_t dtype, piece (&sum)[RESULTS]) const
    {
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            piece by = to_piece(dtype, factor[k]);
#pragma unroll
            for (int n = 0; n < RESULTS; n++) {
                piece of = to_piece(dtype, element[k][n]);
                if (p.clips)
#pragma unroll
                    for (int e = 0; e < CHANNELS; e++) of.v[e] = at_most(relu(of.v[e]), 6.0f);
                if (counts(p, k, n))
#pragma unroll
                    for (int e = 0; e < CHANNELS; e++) sum[n].v[e] += of.v[e] * by.v[e];
            }
        }
    }
};

// Reads all that a group needs before it uses any: one by one, a thread would wait for the memory as many times.
template <int GROUP>
__device__ __forceinline__ void add_taps(const hyp_cuda_depthwise &p, int64_t x, int64_t weight, int place, int left,
                                         piece (&sum)[RESULTS])
{
    int channels = (int)p.windows.channels.size;
    taps<GROUP> t;
    t.place = place;
    t.left = left;
#pragma unroll
    for (int k = 0; k < GROUP; k++) {
        t.factor[k] = make_uint4(0, 0, 0, 0);
        if (k < left) t.factor[k] = load_bits16(p.weight, weight + (int64_t)k * channels);
#pragma unroll
        for (int n = 0; n < RESULTS; n++) {
            int here = place + k * (int)p.windows.dilation[0] + n * (int)p.step;
            t.element[k][n] = make_uint4(0, 0, 0, 0);
            if (t.counts(p, k, n)) t.element[k][n] = load_bits16(p.x, x + (int64_t)here * channels);
        }
    }
    switch (p.dtype) { // once for all, and not for every number
    case HYP_F32: t.add(p, HYP_F32, sum); break;
    case HYP_BF16: t.add(p, HYP_BF16, sum); break;
    default: t.add(p, HYP_F16, sum);
    }
}

// The host sees to it that places and counts are below 2^31.
__device__ __forceinline__ void convolve_depthwise(const hyp_cuda_depthwise &p)
{
    const hyp_cuda_windows &w = p.windows;
    int channels = (int)w.channels.size;
    int size0 = (int)w.in[0], size1 = (int)w.in[1], size2 = (int)w.in[2];
    int dilation0 = (int)w.dilation[0], dilation1 = (int)w.dilation[1], dilation2 = (int)w.dilation[2];
    int kernel0 = (int)w.kernel[0], kernel1 = (int)w.kernel[1], kernel2 = (int)w.kernel[2];
    int group = kernel0 > GROUP ? LONG_GROUP : GROUP;
#pragma unroll 1
    for (int64_t i = first_thread(); i < w.total; i += thread_count()) {
        window_place at = place_of(w, i);
        int64_t x = at.image * w.in_count * channels + at.channel;
        int64_t first = at.column * RESULTS;
        piece start = {}, sum[RESULTS];
        if (p.bias) start = load_vector(p.dtype, p.bias, at.channel);
#pragma unroll
        for (int n = 0; n < RESULTS; n++) sum[n] = start;
        int p2 = (int)at.begin[2], tap = 0;
#pragma unroll 1
        for (int k2 = 0; k2 < kernel2; k2++, p2 += dilation2) {
            int p1 = (int)at.begin[1];
#pragma unroll 1
            for (int k1 = 0; k1 < kernel1; k1++, p1 += dilation1, tap += kernel0) {
                if (p2 < 0 || p2 >= size2 || p1 < 0 || p1 >= size1) continue;
                int64_t row = x + (int64_t)((p2 * size1 + p1) * size0) * channels;
#pragma unroll 1
                for (int k0 = 0; k0 < kernel0; k0 += group) {
                    int64_t weight = (int64_t)(tap + k0) * channels + at.channel;
                    int place = (int)at.begin[0] + k0 * dilation0;
                    if (group == GROUP)
                        add_taps<GROUP>(p, row, weight, place, kernel0 - k0, sum);
                    else
                        add_taps<LONG_GROUP>(p, row, weight, place, kernel0 - k0, sum);
                }
            }
        }
        auto each = [&](auto f) {
#pragma unroll
            for (int n = 0; n < RESULTS; n++)
#pragma unroll
                for (int e = 0; e < CHANNELS; e++) sum[n].v[e] = f(sum[n].v[e]);
        };
        float most = p.act == HYP_PW_CLIP ? 6.0f : __uint_as_float(0x7f800000u);
        if (p.act == HYP_PW_RELU || p.act == HYP_PW_CLIP)
            each([&](float v) { return at_most(relu(v), most); });
        else if (p.act == HYP_PW_HARD_SWISH)
            each([](float v) { return v * at_most(relu(v * (1.0f / 6) + 0.5f), 1.0f); });
        else if (p.act != HYP_PW_CAST)
            each([&](float v) { return activated(p.act, v); });
        int64_t y = at.row * p.row + first;
#pragma unroll
        for (int n = 0; n < RESULTS; n++) {
            if (first + n >= p.row) continue;
            store_vector(p.dtype, p.y, (y + n) * channels + at.channel, sum[n]);
        }
    }
}

// Elements of the window along all axes together that count in a mean: those in x, or with pads in x and its padding.
__device__ __forceinline__ int64_t counted(const hyp_cuda_pool &p, const window_place &at)
{
    const hyp_cuda_windows &w = p.windows;
    int64_t count = 1;
#pragma unroll
    for (int a = 0; a < HYP_CUDA_SPATIAL; a++) {
        int64_t low = p.count_pads ? -w.before[a] : 0, high = w.in[a] + (p.count_pads ? w.after[a] : 0), inside = 0;
#pragma unroll 1
        for (int64_t k = 0; k < w.kernel[a]; k++) {
            int64_t position = at.begin[a] + k * w.dilation[a];
            inside += position >= low && position < high;
        }
        count *= inside;
    }
    return count;
}

__device__ __forceinline__ int64_t turned(uint32_t dtype, int64_t v) { return dtype == HYP_U64 ? v ^ INT64_MIN : v; }
__device__ __forceinline__ float turned(uint32_t, float v) { return v; }
__device__ __forceinline__ double turned(uint32_t, double v) { return v; }

// The power of a magnitude, and the root of a sum of such.
template <typename C> __device__ __forceinline__ C to_power(C v, int64_t n)
{
    if constexpr (whole<C>)
        return v; // integers have none
    else
        return n == 2 ? v * v : (C)pow((double)fabs(v), (double)n);
}
template <typename C> __device__ __forceinline__ C root_of(C sum, int64_t n)
{
    return n == 2 ? (C)sqrt(sum) : (C)pow((double)sum, 1 / (double)n);
}

// A position in an image as an index that counts the outermost axis fastest.
__device__ __forceinline__ int64_t by_column(const hyp_cuda_windows &w, int64_t position)
{
    int64_t row = position / w.in[0], plane = row / w.in[1];
    return ((position - row * w.in[0]) * w.in[1] + (row - plane * w.in[1])) * w.in[2] + plane;
}

// A window without elements has the largest -inf (integers: 0) at place -1 of its channel, and the mean NaN; NaN is larger
// than all numbers, and of equal ones the first is taken. Integers without a sign compare as such with their highest bit
// the other way round.
template <typename C> __device__ __forceinline__ void pooling(const hyp_cuda_pool &p)
{
    const hyp_cuda_windows &w = p.windows;
    int64_t step = w.x_last ? w.in_channels : 1, channel = w.x_last ? 1 : w.in_count;
#pragma unroll 1
    for (int64_t i = first_thread(); i < w.total; i += thread_count()) {
        window_place at = place_of(w, i);
        int64_t x = at.image * w.in_channels * w.in_count + at.channel * channel;
        C sum = 0, most = 0;
        int64_t best = -1;
        for_window(w, at, [&](int64_t, int64_t position) {
            C v = turned(p.dtype, element<C>(p.dtype, p.x, x + position * step));
            sum += p.norm ? to_power(v, p.norm) : v;
            if (best < 0 || v > most || (v != v && most == most)) most = v, best = position;
        });
        bool found = best >= 0;
        if (p.places) {
            if (p.columns && found) best = by_column(w, best);
            ((int64_t *)p.places)[i] = (at.image * w.in_channels + at.channel) * w.in_count + best;
        }
        if constexpr (whole<C>) {
            set_element(p.dtype, p.y, i, found ? turned(p.dtype, most) : 0);
        } else {
            if (!found) most = (C)-__uint_as_float(0x7f800000u);
            set_element(p.dtype, p.y, i, p.norm ? root_of(sum, p.norm) : p.mean ? sum / (C)counted(p, at) : most);
        }
    }
}

// Of a window whose channels come last up to three taps along each of the inner two axes, all sent for before any is used:
// small images are bound by how often a thread waits for memory. `there` says which of them are inside of x. Places within
// an image are numbers of 32 bits: there is little else that a pool computes.
struct pool_taps {
    enum { SIDE = 3, COUNT = SIDE * SIDE };
    uint4 bits[COUNT];
    bool there[COUNT];

    // Those from (k1, k0) on of the window that begins at (begin1, begin0); x: the first piece of the image's plane.
    __device__ __forceinline__ void take(const hyp_cuda_windows &w, int begin1, int begin0, const uint4 *x, bool inside,
                                         int k1, int k0)
    {
        const int columns = (int)w.in[0], channels = (int)w.channels.size;
#pragma unroll
        for (int r = 0; r < SIDE; r++) {
            int p1 = begin1 + (k1 + r) * (int)w.dilation[1], row = p1 * columns;
            bool row_there = inside && k1 + r < (int)w.kernel[1] && p1 >= 0 && p1 < (int)w.in[1];
#pragma unroll
            for (int c = 0; c < SIDE; c++) {
                int p0 = begin0 + (k0 + c) * (int)w.dilation[0], i = SIDE * r + c;
                there[i] = row_there && k0 + c < (int)w.kernel[0] && p0 >= 0 && p0 < columns;
                bits[i] = make_uint4(0, 0, 0, 0);
                if (there[i]) bits[i] = x[(row + p0) * channels];
            }
        }
        reads_are_sent();
    }
};

// The elements of a piece; of 16 bits there are twice as many.
template <bool WIDE> constexpr int pool_elements = WIDE ? 4 : 8;
template <bool WIDE>
__device__ __forceinline__ void pool_values(uint32_t dtype, uint4 bits, float (&v)[pool_elements<WIDE>])
{
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (WIDE) {
            v[i] = __uint_as_float(words[i]);
        } else {
            uint16_t low = (uint16_t)words[i], high = (uint16_t)(words[i] >> 16);
            v[2 * i] = dtype == HYP_BF16 ? from_bfloat(low) : from_half(low);
            v[2 * i + 1] = dtype == HYP_BF16 ? from_bfloat(high) : from_half(high);
        }
    }
}
template <bool WIDE>
__device__ __forceinline__ uint4 pool_bits(uint32_t dtype, const float (&v)[pool_elements<WIDE>])
{
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (WIDE)
            words[i] = __float_as_uint(v[i]);
        else if (dtype == HYP_BF16)
            words[i] = bfloat_bits(v[2 * i]) | (uint32_t)bfloat_bits(v[2 * i + 1]) << 16;
        else
            words[i] = half_bits(v[2 * i]) | (uint32_t)half_bits(v[2 * i + 1]) << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Pooling of 16 bytes of channels at a time.
template <bool WIDE> __device__ __forceinline__ void pool_channels(const hyp_cuda_pool &p)
{
    constexpr int E = pool_elements<WIDE>;
    const hyp_cuda_windows &w = p.windows;
#pragma unroll 1
    for (int64_t i = first_thread(); i < w.total; i += thread_count()) {
        window_place at = place_of(w, i);
        const uint4 *x = (const uint4 *)p.x + at.image * w.in_count * w.channels.size + at.channel;
        int begin1 = (int)at.begin[1], begin0 = (int)at.begin[0], found = 0;
        float y[E];
        pool_taps taps;
#pragma unroll
        for (int e = 0; e < E; e++) y[e] = p.mean ? 0 : -__uint_as_float(0x7f800000u);
#pragma unroll 1
        for (int64_t k2 = 0; k2 < w.kernel[2]; k2++) {
            int64_t p2 = at.begin[2] + k2 * w.dilation[2];
            const uint4 *plane = x + p2 * w.in[1] * w.in[0] * w.channels.size;
#pragma unroll 1
            for (int k1 = 0; k1 < (int)w.kernel[1]; k1 += pool_taps::SIDE)
#pragma unroll 1
                for (int k0 = 0; k0 < (int)w.kernel[0]; k0 += pool_taps::SIDE) {
                    taps.take(w, begin1, begin0, plane, p2 >= 0 && p2 < w.in[2], k1, k0);
#pragma unroll
                    for (int k = 0; k < pool_taps::COUNT; k++) {
                        if (!taps.there[k]) continue;
                        float v[E];
                        pool_values<WIDE>(p.dtype, taps.bits[k], v);
                        found++;
#pragma unroll
                        for (int e = 0; e < E; e++) {
                            bool larger = v[e] > y[e] || v[e] != v[e];
                            y[e] = p.mean ? y[e] + v[e] : larger ? v[e] : y[e];
                        }
                    }
                }
        }
        if (p.mean) {
            float share = 1 / (float)(p.count_pads ? counted(p, at) : (int64_t)found);
#pragma unroll
            for (int e = 0; e < E; e++) y[e] *= share;
        }
        ((uint4 *)p.y)[i] = pool_bits<WIDE>(p.dtype, y);
    }
}

__device__ __forceinline__ void pool_pieces_of(const hyp_cuda_pool &p)
{
    if (p.dtype == HYP_F32)
        pool_channels<true>(p);
    else
        pool_channels<false>(p);
}

__device__ __forceinline__ void unfold_windows(const hyp_cuda_unfold &p)
{
    const hyp_cuda_windows &w = p.windows;
    int64_t channels = w.channels.size;
#pragma unroll 1
    for (int64_t i = first_thread(); i < w.total; i += thread_count()) {
        window_place at = place_of(w, i);
        int64_t x = at.image * w.in_count * channels + at.channel;
        int64_t y = (at.row * w.out[0].size + at.column) * w.kernel_count * channels + at.channel;
        for_groups<GROUP>(w, at, [&](int64_t tap, const int64_t(&position)[GROUP], int left) {
            uint4 bits[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                bits[k] = make_uint4(0, 0, 0, 0);
                if (position[k] >= 0) bits[k] = load_bits16(p.x, x + position[k] * channels);
            }
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                if (k < left) ((uint4 *)p.y)[y + (tap + k) * channels] = bits[k];
        });
    }
}

} // namespace hyp_device

KERNEL(unfold, hyp_cuda_unfold, unfold_windows(p))
KERNEL(conv_f32, hyp_cuda_conv, convolution<float>(p))
KERNEL(conv_f64, hyp_cuda_conv, convolution<double>(p))
KERNEL(conv_u64, hyp_cuda_conv, convolution<uint64_t>(p))
KERNEL(conv_transpose_f32, hyp_cuda_conv_transpose, transposed_convolution<float>(p))
KERNEL(conv_transpose_f64, hyp_cuda_conv_transpose, transposed_convolution<double>(p))
KERNEL(conv_transpose_u64, hyp_cuda_conv_transpose, transposed_convolution<uint64_t>(p))
KERNEL(conv_weights_f32, hyp_cuda_conv_weights, weights_gradient<float>(p))
KERNEL(conv_weights_f64, hyp_cuda_conv_weights, weights_gradient<double>(p))
KERNEL(conv_weights_u64, hyp_cuda_conv_weights, weights_gradient<uint64_t>(p))
KERNEL(depthwise, hyp_cuda_depthwise, convolve_depthwise(p))
KERNEL(pool_pieces, hyp_cuda_pool, pool_pieces_of(p))
KERNEL(pool_f32, hyp_cuda_pool, pooling<float>(p))
KERNEL(pool_f64, hyp_cuda_pool, pooling<double>(p))
KERNEL(pool_i64, hyp_cuda_pool, pooling<int64_t>(p))

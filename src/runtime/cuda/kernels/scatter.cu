// scatter.cu - updates written, or combined, into places of a copy of the data, those of one place in the order in which
// they are listed, so that the last one stays, and sums have the same bits in every run. Where they are many they are
// sorted by place first, which keeps that order. Part of image.cu, behind rows.cu.

inline namespace hyp_device
{

// The place that update `at` goes to; -1, after it was reported, where an index is out of range. Long and seldom many times:
// once in the code.
__device__ __noinline__ int64_t place_of(const hyp_cuda_scatter &p, int64_t at)
{
    int64_t place = 0, unused;
    if (p.rank > 0) offsets(at, 0, p.rank, p.extent, p.offset, p.offset, place, unused);
#pragma unroll 1
    for (uint32_t a = 0; a < p.width; a++) {
        int64_t i = at * p.width + a, index = p.wide_indices ? ((const int64_t *)p.indices)[i] : ((const int32_t *)p.indices)[i];
        int64_t inside = index < 0 ? index + p.dims[a] : index;
        if (inside < 0 || inside >= p.dims[a]) {
            report_index(p.error, p.step, index);
            return -1;
        }
        place += inside * p.strides[a];
    }
    return place;
}

__device__ __forceinline__ void list_updates(const hyp_cuda_scatter &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.updates_count; i += thread_count()) {
        hyp_cuda_scattered one = {place_of(p, i), i};
        ((hyp_cuda_scattered *)p.list)[i] = one;
    }
}

// One pass of a sort by 8 bits of the place. A block has some of the list, a tile of as many as it has threads at a time.
// First blocks count, then they know where theirs go: behind all with lesser bits, and those with the same of the blocks
// before them.
__device__ __forceinline__ void sort_updates(const hyp_cuda_sort &p)
{
    extern __shared__ double shared[];
    int64_t *next = (int64_t *)shared, *totals = next + HYP_CUDA_DIGITS; // by digit
    uint32_t *digits = (uint32_t *)(totals + HYP_CUDA_DIGITS);           // of the tile
    const unsigned self = threadIdx.x;
    int64_t before = 0, total = 0, first = blockIdx.x * p.each, end = first + p.each < p.count ? first + p.each : p.count;
    if (p.moves) {
#pragma unroll 4
        for (unsigned b = 0; b < gridDim.x; b++) {
            if (b == blockIdx.x) before = total;
            total += ((const uint32_t *)p.counts)[b * HYP_CUDA_DIGITS + self];
        }
        totals[self] = total;
#pragma unroll 1
        for (unsigned step = 1; step < HYP_CUDA_DIGITS; step *= 2) { // sums up to each digit
            __syncthreads();
            int64_t lesser = self >= step ? totals[self - step] : 0;
            __syncthreads();
            totals[self] += lesser;
        }
        before += totals[self] - total;
    }
    next[self] = before;
#pragma unroll 1
    for (int64_t tile = first; tile < end; tile += HYP_CUDA_DIGITS) {
        hyp_cuda_scattered one = {};
        unsigned size = end - tile < HYP_CUDA_DIGITS ? (unsigned)(end - tile) : HYP_CUDA_DIGITS;
        if (self < size) one = ((const hyp_cuda_scattered *)p.from)[tile + self];
        const uint32_t digit = (uint32_t)(one.place >> p.shift) % HYP_CUDA_DIGITS;
        digits[self] = self < size ? digit : HYP_CUDA_DIGITS; // which none has
        __syncthreads();
        unsigned earlier = 0, later = 0; // in the tile, with the same digit
#pragma unroll 1
        for (unsigned i = 0; i < HYP_CUDA_DIGITS; i += 4) {
            uint4 four = *(const uint4 *)&digits[i];
            const uint32_t other[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                bool same = other[j] == digit;
                earlier += same && i + j < self;
                later += same && i + j > self;
            }
        }
        int64_t to = next[digit] + earlier;
        if (p.moves && self < size) ((hyp_cuda_scattered *)p.to)[to] = one;
        __syncthreads();
        if (self < size && later == 0) next[digit] = to + 1;
    }
    __syncthreads();
    if (!p.moves) ((uint32_t *)p.counts)[blockIdx.x * HYP_CUDA_DIGITS + self] = (uint32_t)next[self];
}

// The updates that may meet at one place: of a sorted list, or those of one line, unsorted, whose places are found again.
struct listed {
    int64_t first, step, end, self; // update i of them is number first + i * step

    __device__ listed(const hyp_cuda_scatter &p, int64_t at)
    {
        if (p.list) {
            first = 0, step = 1, end = p.updates_count, self = at;
            return;
        }
        int64_t row = divide(at, p.line_step);
        self = row - divide(row, p.line) * p.line.size;
        step = p.line_step.size, end = p.line.size, first = at - self * step;
    }
    __device__ hyp_cuda_scattered get(const hyp_cuda_scatter &p, int64_t i) const
    {
        if (p.list) return ((const hyp_cuda_scattered *)p.list)[i];
        int64_t at = first + i * step;
        return {place_of(p, at), at};
    }
    // The next ones, all asked for before the first is needed; behind the last one: of no place.
    template <int N> __device__ void get_some(const hyp_cuda_scatter &p, int64_t i, hyp_cuda_scattered (&out)[N]) const
    {
        if (p.list) {
#pragma unroll
            for (int j = 0; j < N; j++) {
                const int64_t *two = (const int64_t *)p.list + 2 * (i + j < end ? i + j : end - 1);
                out[j].place = two[0];
                out[j].update = two[1];
            }
#pragma unroll
            for (int j = 1; j < N; j++)
                if (i + j >= end) out[j].place = -1;
            return;
        }
#pragma unroll 1
        for (int j = 0; j < N; j++) out[j] = i + j < end ? get(p, i + j) : hyp_cuda_scattered{-1, 0};
    }
    // Does one of the updates from `i` up to `to` go to this place, too? Of a sorted list the nearest tells.
    __device__ bool has(const hyp_cuda_scatter &p, int64_t i, int64_t to, int64_t place) const
    {
        bool found = false;
#pragma unroll 1
        for (; i < to && !found; i++) found = get(p, i).place == place;
        return found;
    }
};

// Calls f(update, which of all that may meet at its place, piece of it) for every piece of every update.
template <typename F> __device__ __forceinline__ void for_updates(const hyp_cuda_scatter &p, F f)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t at = divide(i, p.pieces);
        listed all(p, at);
        hyp_cuda_scattered one = all.get(p, all.self);
        if (one.place >= 0) f(one, all, i - at * p.pieces.size);
    }
}

// The last update of a place is what stays.
__device__ __forceinline__ void scatter_moved(const hyp_cuda_scatter &p)
{
    for_updates(p, [&](const hyp_cuda_scattered &one, const listed &all, int64_t piece) {
        int64_t next = all.self + 1;
        if (all.has(p, next, p.list && next < all.end ? next + 1 : all.end, one.place)) return;
        move(p.size, p.y, one.place * p.pieces.size + piece, p.updates, one.update * p.pieces.size + piece);
    });
}

// The first update of a place begins, and takes all others. `O` is what is done with pieces: it loads, combines, stores.
template <typename O> __device__ __forceinline__ void scatter_combined(const hyp_cuda_scatter &p)
{
    constexpr int AT_ONCE = O::AT_ONCE;
    for_updates(p, [&](const hyp_cuda_scattered &one, const listed &all, int64_t piece) {
        if (all.has(p, p.list && all.self > 0 ? all.self - 1 : 0, all.self, one.place)) return;
        int64_t to = one.place * p.pieces.size + piece;
        typename O::piece y = O::load(p, p.y, to);
        bool more = true;
#pragma unroll 1
        for (int64_t i = all.self; i < all.end && more; i += AT_ONCE) {
            hyp_cuda_scattered other[AT_ONCE];
            typename O::piece update[AT_ONCE];
            all.get_some(p, i, other);
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                if (other[j].place == one.place) update[j] = O::load(p, p.updates, other[j].update * p.pieces.size + piece);
#pragma unroll 1
            for (int j = 0; j < AT_ONCE; j++)
                if (other[j].place == one.place) O::combine(p, y, update[j]);
            more = !p.list || other[AT_ONCE - 1].place == one.place;
        }
        O::store(p, to, y);
    });
}

// Integers are less than others as those of their type are.
__device__ __forceinline__ bool is_less(uint32_t, float a, float b) { return a < b; }
__device__ __forceinline__ bool is_less(uint32_t, double a, double b) { return a < b; }
__device__ __forceinline__ bool is_less(uint32_t dtype, int64_t a, int64_t b)
{
    return dtype == HYP_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

template <typename C> __device__ __forceinline__ C combined(const hyp_cuda_scatter &p, C a, C b)
{
    bool is_nan = b != b;
    switch (p.combine) {
    case HYP_PW_ADD: return a + b;
    case HYP_PW_MUL: return a * b;
    case HYP_PW_MIN: return is_less(p.dtype, b, a) || is_nan ? b : a;
    default: return is_less(p.dtype, a, b) || is_nan ? b : a;
    }
}

// Single elements of any type as the bits that memory has; rounded each time, as they come in any number.
struct element_updates {
    static constexpr int AT_ONCE = 1;
    using piece = uint64_t;
    template <typename C> __device__ static uint64_t combine_as(const hyp_cuda_scatter &p, uint64_t a, uint64_t b)
    {
        return hyp_device::to_bits(p.dtype, combined(p, from_bits<C>(p.dtype, a), from_bits<C>(p.dtype, b)));
    }
    __device__ static uint64_t load(const hyp_cuda_scatter &p, uint64_t data, int64_t at) { return load_bits(p.size, data, at); }
    __device__ static void combine(const hyp_cuda_scatter &p, uint64_t &a, uint64_t b)
    {
        switch (p.dtype) {
        case HYP_F64:
        case HYP_F32:
        case HYP_F16:
        case HYP_BF16:
        case HYP_F8E4M3: a = combine_as<double>(p, a, b); break;
        default: a = combine_as<int64_t>(p, a, b);
        }
    }
    __device__ static void store(const hyp_cuda_scatter &p, int64_t at, uint64_t a) { store_bits(p.size, p.y, at, a); }
};

// 16 bytes of f32, f16 or bf16, kept as they are in memory: sums and products in f32 round to 16 bits as exact ones do.
struct piece_updates {
    static constexpr int AT_ONCE = 4;
    using piece = uint4;
    __device__ static uint4 load(const hyp_cuda_scatter &, uint64_t data, int64_t at) { return load_bits16(data, at); }
    __device__ static void combine(const hyp_cuda_scatter &p, uint4 &a, uint4 b)
    {
        hyp_device::piece x = {}, y = {};
        const int width = p.dtype == HYP_F32 ? 4 : 8;
        x = to_piece(p.dtype, a);
        y = to_piece(p.dtype, b);
        if (p.combine == HYP_PW_ADD) { // what is decided once is not for each element
#pragma unroll
            for (int e = 0; e < 8; e++) x.v[e] += y.v[e];
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++)
                if (e < width) x.v[e] = combined(p, x.v[e], y.v[e]);
        }
        a = to_bits(p.dtype, x);
    }
    __device__ static void store(const hyp_cuda_scatter &p, int64_t at, uint4 a) { ((uint4 *)p.y)[at] = a; }
};

} // namespace hyp_device

KERNEL(scatter_list, hyp_cuda_scatter, list_updates(p))
KERNEL(scatter_sort, hyp_cuda_sort, sort_updates(p))
KERNEL(scatter, hyp_cuda_scatter, scatter_moved(p))
KERNEL(scatter_pieces, hyp_cuda_scatter, scatter_combined<piece_updates>(p))
KERNEL(scatter_elements, hyp_cuda_scatter, scatter_combined<element_updates>(p))

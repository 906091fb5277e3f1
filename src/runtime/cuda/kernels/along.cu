// along.cu - what works along one axis: where the largest is, the k largest. A lane is the elements along the axis at one
// place of the others. Results have the same bits in every run: elements have an order in which no two are equal. Part of
// image.cu, behind scatter.cu.

#include "runtime/cuda/kernels/along_args.h"

inline namespace hyp_device
{

// ---- order ----------------------------------------------------------------------------------------------------

// hyp_cuda_order for elements whose bits are in a K, which is uint32_t for those of up to four bytes.
template <typename K> struct element_order {
    K sign, number, flip, nan;

    __device__ explicit element_order(const hyp_cuda_order &o)
        : sign((K)o.sign), number((K)o.number), flip((K)o.flip), nan((K)o.nan)
    {
    }
    __device__ K key_of(K bits) const
    {
        K magnitude = bits & (sign - 1), key = bits ^ sign;
        if (number) {
            if (magnitude > number) return nan;
            key = bits & sign ? sign - magnitude : sign + magnitude;
        }
        return key ^ flip;
    }
};

// ---- where the largest is -----------------------------------------------------------------------------------------

struct take_first {
    bool last;
    __device__ hyp_cuda_ranked operator()(const hyp_cuda_ranked &a, const hyp_cuda_ranked &b) const
    {
        bool is_b = b.key > a.key || (b.key == a.key && (last ? b.at > a.at : b.at < a.at));
        return is_b ? b : a;
    }
};

// The first of what one member of a team looks at, which is every team-th of the elements begin .. end - 1 of a lane.
// They are gone through from the end where of equal ones the last is wanted, so that the first one that is met stays.
template <typename T, typename K>
__device__ __forceinline__ hyp_cuda_ranked look_through(const hyp_cuda_locate &p, int64_t start, int64_t begin,
                                                        int64_t end, unsigned member, unsigned team)
{
    constexpr int AT_ONCE = 8;
    const element_order<K> order(p.order);
    const int64_t count = end - begin, inner = p.inner.size, step = (p.last ? -inner : inner) * team;
    const T *x = (const T *)p.x + start + (p.last ? end - 1 - member : begin + member) * inner;
    int64_t at = member;
    K best = 0;
#pragma unroll 1
    for (int64_t i = member; i < count; i += AT_ONCE * (int64_t)team, x += AT_ONCE * step) {
        T some[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) some[j] = x[i + j * (int64_t)team < count ? j * step : 0];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            K key = order.key_of(some[j]);
            if (key > best) best = key, at = i + j * (int64_t)team; // not where the first was read again
        }
    }
    return {best, p.last ? end - 1 - at : begin + at};
}

__device__ __forceinline__ hyp_cuda_ranked look_through_any(const hyp_cuda_locate &p, int64_t start, int64_t begin,
                                                            int64_t end, unsigned member, unsigned team)
{
    switch (p.order.size) {
    case 1: return look_through<uint8_t, uint32_t>(p, start, begin, end, member, team);
    case 2: return look_through<uint16_t, uint32_t>(p, start, begin, end, member, team);
    case 4: return look_through<uint32_t, uint32_t>(p, start, begin, end, member, team);
    default: return look_through<uint64_t, uint64_t>(p, start, begin, end, member, team);
    }
}

__device__ __forceinline__ hyp_cuda_ranked from_lane(hyp_cuda_ranked v, unsigned distance)
{
    return {from_lane(v.key, distance), from_lane(v.at, distance)};
}

// Lanes, or parts of them, are shared by the threads along x (elements are neighbours) or y of a block. Every thread
// takes part in every round, for the barriers.
__device__ __forceinline__ void locate_first(const hyp_cuda_locate &p)
{
    extern __shared__ double shared[];
    const take_first first_of = {p.last != 0};
    hyp_cuda_ranked *room = (hyp_cuda_ranked *)shared;
    bool along_x = p.along_x != 0;
    unsigned team = along_x ? blockDim.x : blockDim.y, member = along_x ? threadIdx.x : threadIdx.y;
    unsigned teams = along_x ? blockDim.y : blockDim.x, mine = along_x ? threadIdx.y : threadIdx.x;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * teams; first < p.total; first += (int64_t)gridDim.x * teams) {
        int64_t self = first + mine, part = divide(self, p.lanes), lane = self - part * p.lanes.size,
                o = divide(lane, p.inner);
        int64_t start = o * p.axis * p.inner.size + (lane - o * p.inner.size);
        int64_t begin = part * p.terms, end = begin + p.terms < p.axis ? begin + p.terms : p.axis;
        hyp_cuda_ranked best = {0, p.last ? -1 : INT64_MAX}; // which is behind all
        if (self < p.total && p.parts == 0) {
            if (begin + member < end) best = look_through_any(p, start, begin, end, member, team);
        } else if (self < p.total) {
#pragma unroll 4
            for (int64_t i = member; i < p.parts; i += team)
                best = first_of(best, ((const hyp_cuda_ranked *)p.list)[i * p.lanes.size + lane]);
        }
        if (along_x)
            best = over_x(best, room, first_of);
        else if (team > 1)
            best = combine(best, room, false, first_of);
        if (member > 0 || self >= p.total) continue;
        if (p.to_list) {
            ((hyp_cuda_ranked *)p.list)[self] = best;
            continue;
        }
        ((int64_t *)p.places)[self] = best.at;
        if (p.values) move(p.order.size, p.values, self, p.x, start + best.at * p.inner.size);
    }
}

// ---- the first k --------------------------------------------------------------------------------------------------

// An element as a number of one word or two, the larger the earlier it comes: its key, and behind it its place, turned,
// so that no two are alike. Elements of up to four bytes are one word.
template <int WORDS> struct ranked_number;
template <> struct ranked_number<1> {
    typedef uint32_t key_type;
    uint64_t word[1];

    __device__ static ranked_number of(uint32_t key, int64_t at) { return {{(uint64_t)key << 32 | (uint32_t)~at}}; }
    __device__ static ranked_number digit(bool, uint64_t bits) { return {{bits}}; }
    __device__ static uint32_t shift_of_key() { return 32; }
    __device__ uint64_t digits(bool) const { return word[0]; }
    __device__ int64_t at() const { return (uint32_t)~word[0]; }
    __device__ bool operator>(const ranked_number &b) const { return word[0] > b.word[0]; }
};
template <> struct ranked_number<2> {
    typedef uint64_t key_type;
    uint64_t word[2];

    __device__ static ranked_number of(uint64_t key, int64_t at) { return {{key, ~(uint64_t)at}}; }
    __device__ static ranked_number digit(bool of_key, uint64_t bits)
    {
        return {{of_key ? bits : 0, of_key ? 0 : bits}};
    }
    __device__ static uint32_t shift_of_key() { return 0; }
    __device__ uint64_t digits(bool of_key) const { return of_key ? word[0] : word[1]; }
    __device__ int64_t at() const { return (int64_t)~word[1]; }
    __device__ bool operator>(const ranked_number &b) const
    {
        return word[0] > b.word[0] || (word[0] == b.word[0] && word[1] > b.word[1]);
    }
};

// What is known of the last one that is wanted: its first digits.
template <int WORDS> struct ranked_bound {
    ranked_number<WORDS> digits, mask;

    __device__ ranked_number<WORDS> known_of(ranked_number<WORDS> e) const
    {
#pragma unroll
        for (int w = 0; w < WORDS; w++) e.word[w] &= mask.word[w];
        return e;
    }
    __device__ void learn(const ranked_number<WORDS> &more, const ranked_number<WORDS> &where)
    {
#pragma unroll
        for (int w = 0; w < WORDS; w++) digits.word[w] |= more.word[w], mask.word[w] |= where.word[w];
    }
    __device__ bool begins(const ranked_number<WORDS> &e) const
    {
        ranked_number<WORDS> known = known_of(e);
        return !(known > digits) && !(digits > known);
    }
    __device__ bool holds(const ranked_number<WORDS> &e) const { return !(digits > known_of(e)); }
};

// The elements of a lane, or of a part of one; or what parts have left of it.
template <int WORDS> struct ranked_list {
    typedef ranked_number<WORDS> number;
    int64_t base, begin, count;

    __device__ number get(const hyp_cuda_topk &p, const element_order<typename number::key_type> &order,
                          int64_t i) const
    {
        if (p.from_list) return ((const number *)p.list)[base + i];
        uint64_t bits = load_bits(p.order.size, p.x, base + (begin + i) * p.inner.size);
        return number::of(order.key_of((typename number::key_type)bits), begin + i);
    }
    // Calls f for each, in any order; several are asked for before the first is needed.
    template <typename F> __device__ __forceinline__ void each(const hyp_cuda_topk &p, F f) const
    {
        constexpr int AT_ONCE = 4;
        const element_order<typename number::key_type> order(p.order);
#pragma unroll 1
        for (int64_t i = threadIdx.x; i < count; i += AT_ONCE * (int64_t)blockDim.x) {
            number some[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                int64_t at = i + j * (int64_t)blockDim.x;
                some[j] = get(p, order, at < count ? at : i);
            }
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                if (i + j * (int64_t)blockDim.x < count) f(some[j]);
        }
    }
};

// The digit that the last of so many has, the largest first, how many have larger ones, and how many have it. By one
// warp, of which each thread has some digits.
__device__ __forceinline__ void choose_digit(const uint32_t *counts, int64_t wanted, uint32_t *chosen)
{
    constexpr unsigned EACH = HYP_CUDA_DIGITS / 32;
    const uint32_t *mine = counts + (31 - threadIdx.x) * EACH;
    uint32_t sum = 0;
#pragma unroll
    for (unsigned d = 0; d < EACH; d++) sum += mine[d];
    uint32_t up_to = sum;
#pragma unroll 1
    for (unsigned step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(0xffffffff, up_to, step);
        if (threadIdx.x >= step) up_to += other;
    }
    uint32_t larger = up_to - sum;
    if (larger >= wanted || up_to < wanted) return;
    unsigned d = EACH - 1;
    for (; larger + mine[d] < wanted; d--) larger += mine[d];
    chosen[0] = (uint32_t)(mine + d - counts), chosen[1] = larger, chosen[2] = mine[d];
}

// Digit by digit: counts which there are among those that begin as the bound does, until all of these are wanted.
template <int WORDS>
__device__ __forceinline__ ranked_bound<WORDS> find_bound(const hyp_cuda_topk &p, const ranked_list<WORDS> &list,
                                                          uint32_t *counts)
{
    typedef ranked_number<WORDS> number;
    constexpr uint64_t DIGIT = HYP_CUDA_DIGITS - 1;
    uint32_t *chosen = counts + HYP_CUDA_DIGITS; // as choose_digit gives it
    ranked_bound<WORDS> bound = {};
    const unsigned self = threadIdx.x;
    int64_t wanted = p.k, open = list.count;
#pragma unroll 1
    for (uint32_t digit = 0; wanted < open && digit < p.digits; digit++) {
        bool of_key = digit < p.order.size;
        uint32_t shift = 8 * ((of_key ? p.order.size : p.digits) - 1 - digit) + (of_key ? number::shift_of_key() : 0);
        __syncthreads();
        if (self < HYP_CUDA_DIGITS) counts[self] = 0;
        __syncthreads();
        list.each(p, [&](const number &e) {
            if (bound.begins(e)) atomicAdd(&counts[e.digits(of_key) >> shift & DIGIT], 1);
        });
        __syncthreads();
        if (self < 32) choose_digit(counts, wanted, chosen);
        __syncthreads();
        bound.learn(number::digit(of_key, (uint64_t)chosen[0] << shift), number::digit(of_key, DIGIT << shift));
        wanted -= chosen[1];
        open = chosen[2];
    }
    return bound;
}

// One round of a bitonic network (Batcher 1968), whose result depends on nothing but what there is. `list` is what lies
// from `base` on of all that is sorted; `count` is a power of two. I counts its elements.
template <typename I, typename N>
__device__ __forceinline__ void exchange(N *list, I count, int64_t base, int64_t run, I apart)
{
#pragma unroll 1
    for (I i = threadIdx.x; i < count / 2; i += blockDim.x) {
        I low = 2 * i - (i & (apart - 1)), high = low + apart;
        N a = list[low], b = list[high];
        if ((b > a) == (((base + low) & run) == 0)) list[low] = b, list[high] = a;
    }
}

// The rounds of runs from `run` to `last` that stay within the list, which is in shared memory. A warp has pairs that
// follow each other, so that those up to 32 apart lie in what no other warp touches.
template <typename N>
__device__ __forceinline__ void sort_within(N *list, int count, int64_t base, int64_t run, int64_t last)
{
    bool alone = false;
#pragma unroll 1
    for (; run <= last; run *= 2)
#pragma unroll 1
        for (int apart = (run < count ? (int)run : count) / 2; apart > 0; apart /= 2) {
            if (alone && apart <= 32)
                __syncwarp();
            else
                __syncthreads();
            exchange(list, count, base, run, apart);
            alone = apart <= 32;
        }
    __syncthreads();
}

// What is more than a tile in shared memory is sorted in tiles, and only what lies further apart in memory.
template <int WORDS>
__device__ __forceinline__ void sort_tiles(ranked_number<WORDS> *list, int64_t count, ranked_number<WORDS> *tile)
{
    constexpr int TILE = HYP_CUDA_TOPK_TILE / WORDS;
#pragma unroll 1
    for (int64_t run = TILE; run <= count; run *= 2) {
#pragma unroll 1
        for (int64_t apart = run / 2; apart >= TILE; apart /= 2) {
            __syncthreads();
            exchange<int64_t>(list, count, 0, run, apart);
        }
#pragma unroll 1
        for (int64_t base = 0; base < count; base += TILE) {
            __syncthreads();
#pragma unroll 1
            for (int64_t i = threadIdx.x; i < TILE; i += blockDim.x) tile[i] = list[base + i];
            sort_within(tile, TILE, base, run == TILE ? 2 : run, run);
#pragma unroll 1
            for (int64_t i = threadIdx.x; i < TILE; i += blockDim.x) list[base + i] = tile[i];
        }
    }
    __syncthreads();
}

// The result of a lane, which begins with what is wanted.
template <int WORDS>
__device__ __forceinline__ void put_first(const hyp_cuda_topk &p, const ranked_number<WORDS> *sorted, int64_t o,
                                          int64_t column)
{
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < p.k; i += blockDim.x) {
        int64_t y = (o * p.k + i) * p.inner.size + column, at = sorted[i].at();
        ((int64_t *)p.places)[y] = at;
        move(p.order.size, p.values, y, p.x, (o * p.axis + at) * p.inner.size + column);
    }
}

// A block has a lane, or a part of one, at a time.
template <int WORDS> __device__ __forceinline__ void select_first(const hyp_cuda_topk &p)
{
    typedef ranked_number<WORDS> number;
    extern __shared__ double shared[];
    uint32_t *counts = (uint32_t *)shared, *next = counts + HYP_CUDA_DIGITS + 3;
    number *tile = (number *)(shared + HYP_CUDA_TOPK_COUNTS);
#pragma unroll 1
    for (int64_t self = blockIdx.x; self < p.total; self += gridDim.x) {
        int64_t lane = divide(self, p.parts), part = self - lane * p.parts.size, o = divide(lane, p.inner);
        int64_t column = lane - o * p.inner.size, begin = part * p.terms, left = p.axis - begin;
        ranked_list<WORDS> list = {o * p.axis * p.inner.size + column, begin, left < p.terms ? left : p.terms};
        if (p.from_list) list = {lane * p.terms, 0, p.terms};
        number *to = p.to_list ? (number *)p.list + self * p.k
                     : p.room  ? (number *)p.room + blockIdx.x * p.padded
                               : tile;
        const ranked_bound<WORDS> bound = find_bound(p, list, counts);
        __syncthreads();
        if (threadIdx.x == 0) *next = 0;
        __syncthreads();
        list.each(p, [&](const number &e) {
            if (bound.holds(e)) to[atomicAdd(next, 1)] = e;
        });
        __syncthreads();
#pragma unroll 1
        for (int64_t i = *next + threadIdx.x; i < (p.to_list ? p.k : p.padded); i += blockDim.x)
            to[i] = number::of(0, p.axis);
        if (p.to_list) continue;
        if (p.room)
            sort_tiles(to, p.padded, tile);
        else
            sort_within(tile, (int)p.padded, 0, 2, p.padded);
        put_first(p, to, o, column);
    }
}

// Short lanes are sorted whole, some by each block: the threads along x share one.
template <int WORDS> __device__ __forceinline__ void sort_lanes(const hyp_cuda_topk &p)
{
    typedef ranked_number<WORDS> number;
    extern __shared__ double shared[];
    const element_order<typename number::key_type> order(p.order);
    number *mine = (number *)shared + threadIdx.y * p.padded;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < p.total; first += (int64_t)gridDim.x * blockDim.y) {
        int64_t lane = first + threadIdx.y, o = divide(lane, p.inner), column = lane - o * p.inner.size;
        const ranked_list<WORDS> list = {o * p.axis * p.inner.size + column, 0, lane < p.total ? p.axis : 0};
#pragma unroll 1
        for (int64_t i = threadIdx.x; i < p.padded; i += blockDim.x)
            mine[i] = i < list.count ? list.get(p, order, i) : number::of(0, p.axis);
        sort_within(mine, (int)p.padded, 0, 2, p.padded);
        if (lane < p.total) put_first(p, mine, o, column);
        __syncthreads();
    }
}

} // namespace hyp_device

KERNEL(locate, hyp_cuda_locate, locate_first(p))
KERNEL(topk_short, hyp_cuda_topk, select_first<1>(p))
KERNEL(topk_long, hyp_cuda_topk, select_first<2>(p))
KERNEL(sort_short, hyp_cuda_topk, sort_lanes<1>(p))
KERNEL(sort_long, hyp_cuda_topk, sort_lanes<2>(p))

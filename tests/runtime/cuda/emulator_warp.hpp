// emulator_warp.hpp - warp.cuh without a device: what tensor cores and asynchronous copies do. Included by emulator.cpp
// alone, before the kernels.
#include <cmath>

// Every lane leaves what it has, then sees what its warp left.
template <typename T> struct warp_values {
    T of[WARP];
    explicit warp_values(const T &mine)
    {
        static std::vector<T> left;
        if (left.size() < fibers.size()) left.resize(fibers.size());
        left[current] = mine;
        __syncwarp();
        memcpy(of, &left[current / WARP * WARP], sizeof of);
        __syncwarp();
    }
};

static int __any_sync(unsigned, int vote)
{
    warp_values<int> votes(vote);
    int any = 0;
    for (int of : votes.of) any |= of;
    return any;
}

static void __threadfence() {}
template <typename T> static T __ldcg(const T *at) { return *at; }
static int __syncthreads_or(int vote)
{
    static std::vector<int> votes;
    if (votes.size() < fibers.size()) votes.resize(fibers.size());
    size_t threads = blockDim.x * blockDim.y, first = current / threads * threads;
    votes[current] = vote;
    __syncthreads();
    int any = 0;
    for (size_t i = 0; i < threads; i++) any |= votes[first + i];
    __syncthreads();
    return any;
}

static float __fmul_rn(float a, float b) { return a * b; }
static double __dmul_rn(double a, double b) { return a * b; }
static float exp2_short(float x) { return exp2f(x); }

static void copy_begin(void *to, const void *from, bool there)
{
    if (((uintptr_t)to | (uintptr_t)from) % 16 != 0) give_up("an unaligned copy to shared memory");
    if (there)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}
static void copies_end() {}

// A barrier in 64 bits. Copies are made at once, so that their bytes are there before anybody waits.
struct emulated_barrier {
    int32_t bytes; // expected and not there
    uint8_t arrivals, missing, phase, pad;
};
static void barrier_change(uint64_t *barrier, int arrivals, int bytes)
{
    emulated_barrier *b = (emulated_barrier *)barrier;
    if (b->missing < arrivals) give_up("more arrivals at a barrier than it waits for");
    b->missing = (uint8_t)(b->missing - arrivals);
    b->bytes += bytes;
    if (b->missing > 0 || b->bytes != 0) return;
    b->missing = b->arrivals;
    b->phase ^= 1;
}
static void barrier_init(uint64_t *barrier, uint32_t arrivals)
{
    static_assert(sizeof(emulated_barrier) == sizeof *barrier, "");
    *(emulated_barrier *)barrier = {0, (uint8_t)arrivals, (uint8_t)arrivals, 0, 0};
}
static void barriers_ready() {}
static void barrier_arrive(uint64_t *barrier) { barrier_change(barrier, 1, 0); }
static void barrier_expect(uint64_t *barrier, uint32_t bytes) { barrier_change(barrier, 1, (int)bytes); }
static void barrier_wait(uint64_t *barrier, uint32_t phase)
{
    while (((emulated_barrier *)barrier)->phase == (phase & 1)) let_others_run();
}
static void copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
    if (((uintptr_t)to | (uintptr_t)from | bytes) % 16 != 0) give_up("an unaligned copy to shared memory");
    memcpy(to, from, bytes);
    barrier_change(barrier, 0, -(int)bytes);
}

static void load_matrices(uint32_t out[4], const void *row)
{
    warp_values<const uint32_t *> rows((const uint32_t *)row);
    size_t lane = current % WARP;
    for (size_t i = 0; i < 4; i++) out[i] = rows.of[8 * i + lane / 4][lane % 4];
}
static void load_transposed(uint32_t out[4], const void *row)
{
    warp_values<const uint16_t *> rows((const uint16_t *)row);
    size_t lane = current % WARP, first = lane % 4 * 2;
    for (size_t i = 0; i < 4; i++)
        out[i] = rows.of[8 * i + first][lane / 4] | (uint32_t)rows.of[8 * i + first + 1][lane / 4] << 16;
}

struct operand_registers {
    uint32_t a[4], b[2];
};
template <typename T> static void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, T)
{
    warp_values<operand_registers> warp({{a[0], a[1], a[2], a[3]}, {b0, b1}});
    const T *of[WARP];
    for (size_t lane = 0; lane < WARP; lane++) of[lane] = (const T *)&warp.of[lane];
    size_t row = current % WARP / 4, column = current % 4 * 2;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 16; k++) {
            float x = of[row * 4 + k % 8 / 2][(i / 2 + k / 8 * 2) * 2 + k % 2];
            float y = of[(column + i % 2) * 4 + k % 8 / 2][8 + k / 8 * 2 + k % 2];
            c[i] += x * y;
        }
}

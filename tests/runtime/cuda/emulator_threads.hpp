// emulator_threads.hpp - the threads of a block as coroutines: barriers, shuffles, waiting. Included by emulator.cpp
// alone, before the kernels.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#include <vector_functions.h>

[[noreturn]] static void give_up(const char *what)
{
    fprintf(stderr, "CUDA emulator: %s\n", what);
    abort();
}

static uint3 blockIdx, threadIdx;
static dim3 blockDim, gridDim;

enum { WARP = 32, STACK = 32 << 10 };
enum waiting { RUNS, AT_WARP, AT_BLOCK };

// Where to jump to. The compiler's own jumps, for those of the library are watched by sanitizers, which takes long.
typedef void *place[5];
[[noreturn]] __attribute__((noinline)) static void leap(place &to) { __builtin_longjmp(to, 1); }

// A thread. It starts on a stack of its own; from then on jumps are enough, which cost no system call, and for later
// launches it starts over.
struct fiber {
    place at;
    bool started, done;
    std::vector<char> stack;
    waiting waits;
    uint64_t shown[2]; // to the other lanes of the warp, in the last two shuffles
    unsigned shuffles;
};
static std::vector<fiber> fibers;
static size_t under_way; // how many of them the block has
static size_t current;   // the one that runs
static place scheduler;
static const std::function<void()> *body; // what every thread does

static void pause_until(waiting what)
{
    fibers[current].waits = what;
    if (!__builtin_setjmp(fibers[current].at)) leap(scheduler);
}
static void __syncthreads() { pause_until(AT_BLOCK); }
static void let_others_run() { pause_until(RUNS); }

static void __syncwarp(unsigned = 0xffffffff) { pause_until(AT_WARP); }

// Every lane shows its value, and takes that of another one. All lanes of the warp must take part. Nobody overwrites
// what he showed before all others have come to the next shuffle.
template <typename T> static T shuffle(T v, size_t lane)
{
    fiber *self = &fibers[current];
    unsigned turn = self->shuffles++ % 2;
    static_assert(sizeof v <= sizeof self->shown[0], "");
    memcpy(&self->shown[turn], &v, sizeof v);
    __syncwarp();
    size_t from = current / WARP * WARP + lane % WARP;
    if (from < under_way) memcpy(&v, &fibers[from].shown[turn], sizeof v);
    return v;
}
template <typename T> static T __shfl_sync(unsigned, T v, int lane) { return shuffle(v, (size_t)lane); }
template <typename T> static T __shfl_xor_sync(unsigned, T v, int mask)
{
    return shuffle(v, current % WARP ^ (size_t)mask);
}
template <typename T> static T __shfl_up_sync(unsigned, T v, unsigned by)
{
    size_t lane = current % WARP;
    return shuffle(v, lane >= by ? lane - by : lane);
}
template <typename T> static T __shfl_down_sync(unsigned, T v, unsigned by)
{
    size_t lane = current % WARP;
    return shuffle(v, lane + by < WARP ? lane + by : lane);
}

static void fiber_main()
{
    for (;;) {
        (*body)();
        fibers[current].done = true;
        if (!__builtin_setjmp(fibers[current].at)) leap(scheduler);
    }
}

static void start_or_resume()
{
    fiber *f = &fibers[current];
    if (__builtin_setjmp(scheduler)) return;
    if (f->started) leap(f->at);
    f->started = true;
    f->stack.resize(STACK);
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = f->stack.data();
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, fiber_main, 0);
    setcontext(&context);
}

// Lets threads go on that wait for each other, when all of them do. `count` is a multiple of a warp or the whole block.
static bool release(size_t first, size_t count, waiting what)
{
    size_t done = 0;
    for (size_t i = first; i < first + count; i++) {
        if (!fibers[i].done && fibers[i].waits != what) return false;
        done += fibers[i].done;
    }
    if (done == count) return false;
    if (done > 0) give_up("some threads left before a barrier or shuffle");
    for (size_t i = first; i < first + count; i++) fibers[i].waits = RUNS;
    return true;
}

// Runs the threads of a block, each up to its next barrier in turn.
static void run_block(unsigned block)
{
    enum { PATIENCE = 1000 };
    size_t left = under_way = blockDim.x * blockDim.y, vain = 0;
    if (fibers.size() < under_way) fibers.resize(under_way);
    for (size_t i = 0; i < under_way; i++) {
        fibers[i].done = false;
        fibers[i].waits = RUNS;
        fibers[i].shuffles = 0;
    }
    blockIdx = make_uint3(block, 0, 0);
    while (left > 0) {
        bool moved = false;
        for (current = 0; current < under_way; current++) {
            fiber *f = &fibers[current];
            if (f->done || f->waits != RUNS) continue;
            threadIdx = make_uint3((unsigned)current % blockDim.x, (unsigned)current / blockDim.x, 0);
            start_or_resume();
            left -= f->done;
            moved = moved || f->done || f->waits != RUNS;
        }
        for (size_t warp = 0; warp < under_way; warp += WARP)
            moved |= release(warp, under_way - warp < WARP ? under_way - warp : (size_t)WARP, AT_WARP);
        moved |= release(0, under_way, AT_BLOCK);
        vain = moved ? 0 : vain + 1;
        if (vain == PATIENCE) give_up("threads wait for what never comes");
    }
}

// Blocks of kernels that have no barrier need no fibers.
static void run_threads(unsigned block)
{
    blockIdx = make_uint3(block, 0, 0);
    for (unsigned t = 0; t < blockDim.x * blockDim.y; t++) {
        threadIdx = make_uint3(t % blockDim.x, t / blockDim.x, 0);
        (*body)();
    }
}

// emulator_halves.hpp - what the emulator gives to generated kernels, which it compiles without the headers of a toolkit.
#include <stddef.h>
#include <stdint.h>

struct generated_halves {
    float (*from_half)(uint16_t bits);
    uint16_t (*half_of_float)(float v);
    uint16_t (*half_of_double)(double v);
    uint16_t (*bfloat_of_float)(float v);
    uint16_t (*bfloat_of_double)(double v);
    float (*from_byte)(uint8_t code);
    uint8_t (*byte_of_float)(float v);
    uint8_t (*byte_of_double)(double v);
    // Which thread runs, and what threads of a block do together.
    const unsigned *block, *thread, *threads;
    void (*sync_block)();
    void (*sync_warp)();
    float (*shuffle_xor)(float v, int mask);
    void (*barrier_init)(uint64_t *barrier, uint32_t arrivals);
    void (*barrier_arrive)(uint64_t *barrier);
    void (*barrier_expect)(uint64_t *barrier, uint32_t bytes);
    void (*barrier_wait)(uint64_t *barrier, uint32_t phase);
    void (*copy_bulk)(void *to, const void *from, uint32_t bytes, uint64_t *barrier);
};

// A thread of a generated kernel.
typedef void generated_kernel(const void *args, const generated_halves *halves);

// emulator_halves.hpp - what the emulator gives to generated kernels, which it compiles without the headers of a toolkit.
#include <cstdint>

struct generated_halves {
    float (*from_half)(uint16_t bits);
    uint16_t (*half_of_float)(float v);
    uint16_t (*half_of_double)(double v);
    uint16_t (*bfloat_of_float)(float v);
    uint16_t (*bfloat_of_double)(double v);
    float (*from_byte)(uint8_t code);
    uint8_t (*byte_of_float)(float v);
    uint8_t (*byte_of_double)(double v);
};

// A generated kernel: all threads of a launch, one after the other.
typedef void generated_kernel(const void *args, const generated_halves *halves, unsigned blocks, unsigned threads);

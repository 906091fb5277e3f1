/* A float and its bits. Choices are made of bits where a comparison of floats would keep gcc from making vectors of a loop.
 */
union hyp_bits {
    float value;
    uint32_t bits;
};
enum { HYP_NAN = 0x7fc00000, HYP_INFINITE = 0x7f800000 };
#define HYP_SIGN 0x80000000u

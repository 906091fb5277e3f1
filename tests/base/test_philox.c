/* The generator against the vectors that its authors publish (Random123, kat_vectors), and what is made of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"

static void the_published_vectors_come_out(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t word[4];
        memcpy(word, rows[i].counter, sizeof word);
        hyp_philox(word, rows[i].key[0], rows[i].key[1]);
        assert_memory_equal(word, rows[i].wanted, sizeof word);
    }
}

/* Means, and products of neighbours, of a million numbers are within five standard deviations of what they should be,
 * and no number is outside; streams, numbers and seeds that are next to each other have nothing in common. */
static void numbers_are_uniform_and_apart(void **state)
{
    enum { BLOCKS = 1 << 18 };
    static const struct {
        uint64_t seed, number;
        uint32_t stream;
    } others[] = {{8, 3, 1}, {7, 4, 1}, {7, 3, 2}, {7, 3 + (1ull << 32), 1}, {7 + (1ull << 32), 3, 1}};
    double sum = 0, pairs = 0, apart[sizeof others / sizeof *others] = {0};
    (void)state;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        float a[4], b[4];
        hyp_random_block(7, 3, 1, i, a);
        for (int k = 0; k < 4; k++) {
            if (!(a[k] >= 0 && a[k] < 1 && a[k] * 0x1p24f == truncf(a[k] * 0x1p24f))) fail_msg("%g", (double)a[k]);
            sum += (double)a[k] - 0.5;
            pairs += ((double)a[k] - 0.5) * ((double)a[(k + 1) % 4] - 0.5);
        }
        for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
            hyp_random_block(others[o].seed, others[o].number, others[o].stream, i, b);
            for (int k = 0; k < 4; k++) apart[o] += ((double)a[k] - 0.5) * ((double)b[k] - 0.5);
        }
    }
    const double n = 4.0 * BLOCKS, of_product = sqrt(n) / 12;
    assert_true(fabs(sum) < 5 * sqrt(n / 12));
    assert_true(fabs(pairs) < 5 * of_product);
    for (size_t o = 0; o < sizeof others / sizeof *others; o++) assert_true(fabs(apart[o]) < 5 * of_product);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_come_out),
        cmocka_unit_test(numbers_are_uniform_and_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

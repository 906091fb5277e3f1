/* fuzz_egraph_main.c - runs the fuzz target of e-graphs on bytes drawn from numbers, or on files.
 *
 *   fuzz_egraph [--first N] [--count N] [--seconds S] [FILE...]
 *
 * The number that stands last on standard error is the case that fell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz/fuzz_egraph.h"

static void run_number(uint64_t number)
{
    enum { LONGEST = 4096 };
    uint8_t bytes[LONGEST];
    uint64_t state = number * UINT64_C(0x9E3779B97F4A7C15) + 1;
    size_t len = 64 + number % (LONGEST - 64);
    for (size_t i = 0; i < len; i++) {
        state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
        bytes[i] = (uint8_t)((state * UINT64_C(0x2545F4914F6CDD1D)) >> 56);
    }
    fprintf(stderr, "\r%llu", (unsigned long long)number); /* the last one that stands there is the one that fell */
    LLVMFuzzerTestOneInput(bytes, len);
}

static int run_file(const char *path)
{
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file) return fprintf(stderr, "fuzz_egraph: cannot read %s\n", path), 1;
    size_t len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, len);
    return 0;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

int main(int argc, char **argv)
{
    uint64_t first = 0, count = 0, done = 0;
    double most = 0;
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--first") == 0)
            first = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            most = atof(argv[i + 1]);
        else
            return fprintf(stderr, "fuzz_egraph: what is %s?\n", argv[i]), 2;
    }
    for (int file = i; file < argc; file++)
        if (run_file(argv[file])) return 2;
    for (; done < count || seconds() < most; done++) run_number(first + done);
    fprintf(stderr, "\r");
    printf("%llu cases of numbers, %llu calls, of which %llu inside callbacks; %llu were refused, ids made anew %llu times\n",
           (unsigned long long)done, (unsigned long long)told.calls, (unsigned long long)told.inside,
           (unsigned long long)told.refused, (unsigned long long)told.renumbered);
    return count && (told.inside == 0 || told.refused == 0);
}

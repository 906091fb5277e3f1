/* Stands in for libFuzzer in ordinary tests: runs a fuzz target on files, on every beginning of each, and on
 * copies with a few bytes changed, the same on every run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MUTATIONS = 4000, LARGEST_CUT = 4096 };

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* In a block of its own size, so that a sanitizer sees the first byte read beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int replay(const char *path)
{
    static uint8_t data[1 << 20], changed[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    size_t size = fread(data, 1, sizeof data, f);
    fclose(f);
    for (size_t cut = 0; cut <= size && cut <= LARGEST_CUT; cut++) run(data, cut);
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (int i = 0; size && i < MUTATIONS; i++) {
        memcpy(changed, data, size);
        for (uint64_t k = next(&state) % 4 + 1; k > 0; k--) {
            uint64_t r = next(&state);
            uint32_t flipped = changed[r % size] ^ 1u << (r >> 40 & 7);
            changed[r % size] = (uint8_t)(r >> 62 ? r >> 32 : flipped);
        }
        run(changed, size);
    }
    run(data, size);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) failed |= replay(argv[i]);
    return failed;
}

/* Recognises handwritten digits with a small convolutional network: every image goes through it in one batch.
 *
 *   cnn PLAN.bin IMAGE.pgm...
 *
 * An image is a PGM file in text (P2) of 8 x 8 pixels, as train.py writes them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hypatia/runtime.h"

enum { SIDE = 8, PIXELS = SIDE * SIDE, DIGITS = 10 };

static void fail(const char *what, const char *message)
{
    fprintf(stderr, "cnn: %s: %s\n", what, message);
    exit(1);
}

/* Reads an image as numbers from 0 (background) to 1. */
static void read_pgm(const char *path, float *pixels)
{
    FILE *file = fopen(path, "r");
    if (!file) fail(path, "cannot be opened");
    int width, height, brightest;
    if (fscanf(file, "P2 %d %d %d", &width, &height, &brightest) != 3 || width != SIDE || height != SIDE ||
        brightest < 1)
        fail(path, "is no PGM file in text of 8 x 8 pixels");
    for (int i = 0; i < PIXELS; i++) {
        int pixel;
        if (fscanf(file, "%d", &pixel) != 1 || pixel < 0 || pixel > brightest)
            fail(path, "has a missing pixel or one out of range");
        pixels[i] = (float)pixel / (float)brightest;
    }
    fclose(file);
}

static int most_likely(const float *probabilities)
{
    int best = 0;
    for (int i = 1; i < DIGITS; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return best;
}

int main(int argc, char **argv)
{
    if (argc < 3) fail("usage", "cnn PLAN.bin IMAGE.pgm...");
    size_t count = (size_t)argc - 2;
    float *images = calloc(count * PIXELS, sizeof *images);
    float *probabilities = calloc(count * DIGITS, sizeof *probabilities);
    if (!images || !probabilities) fail("memory", "ran out");
    for (size_t i = 0; i < count; i++) read_pgm(argv[i + 2], images + i * PIXELS);

    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    if (hyp_engine_load_file(argv[1], NULL, &engine, &diag) != HYP_OK) fail("load", diag.message);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail("context", diag.message);

    hyp_tensor in = {.name = "image",
                     .data = images,
                     .bytes = count * PIXELS * sizeof *images,
                     .dtype = HYP_F32,
                     .rank = 4,
                     .dims = {(int64_t)count, 1, SIDE, SIDE}};
    hyp_tensor out = {.name = "probabilities",
                      .data = probabilities,
                      .bytes = count * DIGITS * sizeof *probabilities,
                      .dtype = HYP_F32};
    if (hyp_context_run(context, &in, 1, &out, 1, &diag) != HYP_OK) fail("run", diag.message);

    for (size_t i = 0; i < count; i++) {
        const float *p = probabilities + i * DIGITS;
        int digit = most_likely(p);
        printf("%s: %d (%.1f %%)\n", argv[i + 2], digit, 100 * (double)p[digit]);
    }

    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    free(probabilities);
    free(images);
    return 0;
}

/* Recognises the handwritten digits of images.npy with a compiled plan, and prints the accuracy and one digit.
 *
 *   digits PLAN.bin IMAGES.npy LABELS.npy
 *
 * Shows the whole C API of libhypatia-rt: load, make a context, run. The rest is a small reader of .npy files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/runtime.h"

enum { PIXELS = 64, DIGITS = 10 };

static void fail(const char *what, const char *message)
{
    fprintf(stderr, "digits: %s: %s\n", what, message);
    exit(1);
}

/* Reads the elements of a .npy file (format 1) whose header says `type`, for example "<f4". */
static void *read_npy(const char *path, const char *type, size_t *bytes)
{
    unsigned char magic[10];
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, "cannot be opened");
    if (fread(magic, 1, sizeof magic, file) != sizeof magic || memcmp(magic, "\x93NUMPY\x01", 7) != 0)
        fail(path, "is no .npy file of format 1");
    size_t length = magic[8] + 256u * magic[9];
    char *header = calloc(length + 1, 1);
    if (!header || fread(header, 1, length, file) != length) fail(path, "ends in its header");
    if (!strstr(header, type) || strstr(header, "'fortran_order': True"))
        fail(path, "has elements of another type or order");
    free(header);

    long start = ftell(file);
    if (start < 0 || fseek(file, 0, SEEK_END) != 0) fail(path, "cannot be read");
    *bytes = (size_t)(ftell(file) - start);
    void *data = malloc(*bytes + 1);
    if (!data || fseek(file, start, SEEK_SET) != 0 || fread(data, 1, *bytes, file) != *bytes)
        fail(path, "cannot be read");
    fclose(file);
    return data;
}

static int most_likely(const float *probabilities)
{
    int best = 0;
    for (int i = 1; i < DIGITS; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return best;
}

static void print_digit(const float *image, const float *probabilities, int label)
{
    static const char shades[] = " .:-=+*#%@";
    for (int y = 0; y < 8; y++) {
        fputs("    ", stdout);
        for (int x = 0; x < 8; x++) {
            char c = shades[(int)(image[8 * y + x] * 9 + 0.5f)];
            putchar(c);
            putchar(c); /* twice: characters are taller than wide */
        }
        putchar('\n');
    }
    int digit = most_likely(probabilities);
    printf("prediction: %d (%.1f %%), label: %d\n", digit, 100 * (double)probabilities[digit], label);
}

int main(int argc, char **argv)
{
    if (argc != 4) fail("usage", "digits PLAN.bin IMAGES.npy LABELS.npy");
    size_t image_bytes, label_bytes;
    float *images = read_npy(argv[2], "<f4", &image_bytes);
    long long *labels = read_npy(argv[3], "<i8", &label_bytes);
    int64_t count = (int64_t)(image_bytes / (PIXELS * sizeof *images));
    if (count == 0 || label_bytes < (size_t)count * sizeof *labels)
        fail(argv[3], "has fewer labels than there are images");
    float *probabilities = calloc((size_t)count * DIGITS, sizeof *probabilities);
    if (!probabilities) fail("memory", "ran out");

    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    if (hyp_engine_load_file(argv[1], NULL, &engine, &diag) != HYP_OK) fail("load", diag.message);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail("context", diag.message);

    /* Inputs and outputs are the caller's memory. The batch is symbolic in the plan: all images go in at once. */
    hyp_tensor in = {
        .name = "image", .data = images, .bytes = image_bytes, .dtype = HYP_F32, .rank = 2, .dims = {count, PIXELS}};
    hyp_tensor out = {.name = "probabilities",
                      .data = probabilities,
                      .bytes = (size_t)count * DIGITS * sizeof(float),
                      .dtype = HYP_F32};
    if (hyp_context_run(context, &in, 1, &out, 1, &diag) != HYP_OK) fail("run", diag.message);

    int64_t right = 0;
    for (int64_t i = 0; i < count; i++) right += most_likely(probabilities + i * DIGITS) == labels[i];
    print_digit(images, probabilities, (int)labels[0]);
    printf("device: %s\naccuracy: %lld of %lld images\n", hyp_engine_device_name(engine), (long long)right,
           (long long)count);

    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    free(probabilities);
    free(labels);
    free(images);
    return 0;
}

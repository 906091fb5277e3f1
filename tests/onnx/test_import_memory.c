/* Weights are not copied: how much memory the import of a 100 MB model takes, and reading its weights once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "model_builder.h"

enum { LAYERS = 6, WIDTH = 2048 };

static void write_model(const char *path)
{
    model_builder b;
    mb_init(&b, 17);
    mb_input(&b, "x0", HYP_F32, "batch 2048");
    for (int i = 0; i < LAYERS; i++) {
        char inputs[32], output[16], weight[16];
        snprintf(weight, sizeof weight, "w%d", i);
        snprintf(inputs, sizeof inputs, "x%d w%d", i, i);
        snprintf(output, sizeof output, "x%d", i + 1);
        HypOnnx__TensorProto *w = mb_const(&b, weight, HYP_F32, "2048 2048", NULL);
        for (size_t k = 0; k < w->raw_data.len; k += 64) w->raw_data.data[k] = (uint8_t)k;
        mb_node(&b, "MatMul", inputs, output, "");
        if (i == LAYERS - 1) mb_output(&b, output);
    }
    size_t size;
    uint8_t *bytes = mb_pack(&b, &size);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) abort();
    mb_dispose(&b);
}

static double peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* Peaks after the import, and after every byte of every constant was read. */
static void import_model(const char *path, double peaks[2])
{
    hyp_dims *dims;
    hyp_graph g;
    hyp_onnx_model *model;
    hyp_diag diag = {0};
    if (hyp_dims_create(&dims, NULL) != HYP_OK) abort();
    hyp_graph_init(&g, dims);
    if (hyp_onnx_import(path, NULL, &g, &model, &diag) != HYP_OK) abort();
    peaks[0] = peak_mib();
    uint64_t sum = 0;
    for (size_t i = 0; i < g.values.len; i++)
        for (size_t k = 0; k < g.values.data[i].bytes; k += 64) sum += ((const uint8_t *)g.values.data[i].data)[k];
    if (sum == 0) abort();
    peaks[1] = peak_mib();
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
}

/* Each step in a process of its own, for its own peak. */
static void importing_costs_no_more_than_the_mapped_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/hyp-import-memory-XXXXXX", path[64];
    int pipes[2], status;
    double peaks[2] = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    double before = peak_mib();
    pid_t writer = fork();
    if (writer == 0) {
        write_model(path);
        _exit(0);
    }
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    assert_int_equal(pipe(pipes), 0);
    pid_t reader = fork();
    if (reader == 0) {
        import_model(path, peaks);
        _exit(write(pipes[1], peaks, sizeof peaks) != sizeof peaks);
    }
    assert_int_equal(waitpid(reader, &status, 0), reader);
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipes[0], peaks, sizeof peaks), sizeof peaks);
    close(pipes[0]);
    close(pipes[1]);
    double file = LAYERS * (double)WIDTH * WIDTH * 4 / (1 << 20);
    print_message(
        "file %.1f MiB; peak memory: %.1f MiB at the start, %.1f MiB after import, %.1f MiB with all weights read\n",
        file, before, peaks[0], peaks[1]);
#ifndef __SANITIZE_ADDRESS__
    assert_true(peaks[0] < before + 16);
    assert_true(peaks[1] < before + file + 16);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(importing_costs_no_more_than_the_mapped_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Trains a small network on handwritten digits, and prints how many of those that it has not seen it knows.
 *
 *   train_digits STEP.bin IMAGES.npy LABELS.npy
 *
 * Shows what a training is to a program: runs of a plan that was compiled for it (hypatiac --train), which keeps its
 * parameters between them. hypatia train does more: an order of its own in each epoch, checkpoints, a curve.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hypatia/runtime.h"
#include "hypatia/tensor_io.h"

enum { PIXELS = 64, DIGITS = 10, BATCH = 16, EPOCHS = 40, UNSEEN = 20 };

static void check(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "train_digits: %s\n", diag->message);
    exit(1);
}

/* Rows [from, from + count) of the data, as the plan has them; with `keep` its variables stay as they are. */
static float run(hyp_context *context, const hyp_tensor *images, const hyp_tensor *labels, int64_t from, int64_t count,
                 float rate, bool keep, hyp_tensor *scores)
{
    float loss;
    hyp_diag diag = {0};
    hyp_run_options options = {.size = sizeof options, .keep_variables = keep};
    hyp_tensor inputs[] = {{.name = "image",
                            .data = (float *)images->data + from * PIXELS,
                            .bytes = (size_t)count * PIXELS * sizeof(float),
                            .dtype = HYP_F32,
                            .rank = 2,
                            .dims = {count, PIXELS}},
                           {.name = "labels",
                            .data = (int64_t *)labels->data + from,
                            .bytes = (size_t)count * sizeof(int64_t),
                            .dtype = HYP_I64,
                            .rank = 1,
                            .dims = {count}},
                           {.name = "learning-rate", .data = &rate, .bytes = sizeof rate, .dtype = HYP_F32}};
    hyp_tensor outputs[] = {{.name = "loss", .data = &loss, .bytes = sizeof loss, .dtype = HYP_F32},
                            {.name = "scores", .dtype = HYP_F32, .memory = HYP_MEMORY_CONTEXT}};
    check(hyp_context_run_with(context, inputs, 3, outputs, 2, &options, &diag), &diag);
    if (scores) *scores = outputs[1];
    return loss;
}

/* How many of these rows have their largest score where the label is. */
static int count_right(hyp_context *context, const hyp_tensor *images, const hyp_tensor *labels, int64_t from,
                       int64_t count)
{
    hyp_tensor scores;
    int right = 0;
    run(context, images, labels, from, count, 0, true, &scores);
    for (int64_t i = 0; i < count; i++) {
        const float *row = (const float *)scores.data + i * DIGITS;
        int best = 0;
        for (int d = 1; d < DIGITS; d++)
            if (row[d] > row[best]) best = d;
        right += best == ((const int64_t *)labels->data)[from + i];
    }
    return right;
}

int main(int argc, char **argv)
{
    hyp_engine *engine;
    hyp_context *context;
    hyp_tensor images, labels, want_images = {.dtype = HYP_F32, .rank = 2, .dims = {-1, PIXELS}},
                               want_labels = {.dtype = HYP_I64, .rank = 1, .dims = {-1}};
    hyp_diag diag = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: train_digits STEP.bin IMAGES.npy LABELS.npy\n");
        return 2;
    }
    check(hyp_tensor_load(argv[2], &want_images, &images, &diag), &diag);
    want_labels.dims[0] = images.dims[0];
    check(hyp_tensor_load(argv[3], &want_labels, &labels, &diag), &diag);
    check(hyp_engine_load_file(argv[1], NULL, &engine, &diag), &diag);
    check(hyp_context_create(engine, NULL, &context, &diag), &diag);

    int64_t seen = images.dims[0] - UNSEEN;
    for (int epoch = 1; epoch <= EPOCHS && seen > 0; epoch++) {
        double sum = 0;
        for (int64_t at = 0; at < seen; at += BATCH) {
            int64_t count = seen - at < BATCH ? seen - at : BATCH; /* the last batch may be shorter */
            sum += (double)count * (double)run(context, &images, &labels, at, count, 0.01f, false, NULL);
        }
        if (epoch % 10 == 0) printf("epoch %d: loss %.4f\n", epoch, sum / (double)seen);
    }
    printf("device: %s\nseen: %d of %d right\nunseen: %d of %d right\n", hyp_engine_device_name(engine),
           count_right(context, &images, &labels, 0, seen), (int)seen,
           count_right(context, &images, &labels, seen, UNSEEN), UNSEEN);

    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    hyp_tensor_dispose(&labels);
    hyp_tensor_dispose(&images);
    return 0;
}

/* train_options.h - the options of hypatiac that make a training step of a model. */
#ifndef HYPATIA_TOOLS_TRAIN_OPTIONS_H
#define HYPATIA_TOOLS_TRAIN_OPTIONS_H

#include "cli.h"
#include "hypatia/compiler.h"

enum {
    TRAIN_LOSS,
    TRAIN_OUTPUT,
    TRAIN_IGNORE_INDEX,
    TRAIN_LABEL_SMOOTHING,
    TRAIN_CLASS_WEIGHTS,
    TRAIN_OPTIMIZER,
    TRAIN_MOMENTUM,
    TRAIN_NESTEROV,
    TRAIN_WEIGHT_DECAY,
    TRAIN_BETAS,
    TRAIN_EPSILON,
    TRAIN_CLIP_NORM,
    TRAIN_FROZEN,
    TRAIN_GRADIENTS,
    TRAIN_LOSS_SCALE,
    TRAIN_DATA_PARALLEL,
    TRAIN_DROPOUT,
    TRAIN_LOSS_ONLY,
    TRAIN_OPTIONS
};

/* Their rows in a table of options, from row `first` on. */
#define TRAIN_ROWS(first)                                                                                               \
    [(first) + TRAIN_LOSS] = {"train", 0, "LOSS", "make a training step: mse, cross-entropy, bce, or the output that is the loss"}, \
    [(first) + TRAIN_OUTPUT] = {"loss-output", 0, "NAME", "for --train: the output that the loss reads (the first)"},    \
    [(first) + TRAIN_IGNORE_INDEX] = {"ignore-index", 0, "N", "for --train cross-entropy: a label that does not count (-100)"}, \
    [(first) + TRAIN_LABEL_SMOOTHING] = {"label-smoothing", 0, "X", "for --train cross-entropy: 0 to 1 (0)"},           \
    [(first) + TRAIN_CLASS_WEIGHTS] = {"class-weights", 0, "FILE", "for --train cross-entropy: an f32 .npy, a weight for each class"}, \
    [(first) + TRAIN_OPTIMIZER] = {"optimizer", 0, "sgd|adam|adamw", "for --train (adamw)"},                          \
    [(first) + TRAIN_MOMENTUM] = {"momentum", 0, "X", "for --optimizer sgd: 0 to below 1 (0)"},                         \
    [(first) + TRAIN_NESTEROV] = {"nesterov", 0, NULL, "for --optimizer sgd, with momentum"},                           \
    [(first) + TRAIN_WEIGHT_DECAY] = {"weight-decay", 0, "X", "for --train (0; adamw 0.01)"},                           \
    [(first) + TRAIN_BETAS] = {"betas", 0, "B1,B2", "for adam and adamw (0.9,0.999)"},                                  \
    [(first) + TRAIN_EPSILON] = {"epsilon", 0, "X", "for adam and adamw (1e-8)"},                                       \
    [(first) + TRAIN_CLIP_NORM] = {"clip-norm", 0, "X", "for --train: the largest norm of all gradients together"},    \
    [(first) + TRAIN_FROZEN] = {"frozen", 0, "PATTERN", "for --train: initializers that stay as they are: 'embed.*'"},  \
    [(first) + TRAIN_GRADIENTS] = {"gradients", 0, NULL, "for --train: gradients are outputs, and nothing is updated"}, \
    [(first) + TRAIN_LOSS_SCALE] = {"loss-scale", 0, "X", "for --train with --precision fp16: multiplies the loss: 1024"}, \
    [(first) + TRAIN_DATA_PARALLEL] = {"data-parallel", 0, NULL, "for --train: a step for several GPUs, each with rows of its own"}, \
    [(first) + TRAIN_DROPOUT] = {"dropout", 0, NULL, "for --train: Dropouts of the model drop elements, by a seed"},  \
    [(first) + TRAIN_LOSS_ONLY] = {"loss-only", 0, NULL, "for --train: the step has no outputs of the model"}

/* What they say. Owns what it points to; begin with train_request_init. */
typedef struct train_request {
    hyp_train_options options; /* loss NULL: there is no --train */
    const char *first;         /* the option that came first, NULL = none */
    cli_list frozen;
    hyp_tensor weights;
} train_request;

void train_request_init(train_request *t);
void train_request_free(train_request *t);
/* Option TRAIN_... of the command line; false after a message. */
bool train_read_option(train_request *t, const cli_args *args, int option, const char *value);
/* Completes the options, which are NULL where nothing is trained; false after a message. */
bool train_finish(train_request *t, const cli_args *args, const hyp_train_options **out);

#endif

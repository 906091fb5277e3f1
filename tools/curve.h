/* curve.h - the loss of a training as a picture. */
#ifndef HYPATIA_TOOLS_CURVE_H
#define HYPATIA_TOOLS_CURVE_H

#include <stdint.h>
#include <stdio.h>

enum { CURVE_MEANS = 1024 };

/* A point for an epoch. */
typedef struct curve_epoch {
    int64_t step;          /* done at its end */
    double loss, accuracy; /* of the validation; NAN: there is none */
} curve_epoch;

/* Zero-initialise. Takes the same memory for any number of steps: of many, means stand for `width` steps each. */
typedef struct curve {
    double sums[CURVE_MEANS];
    int64_t counts[CURVE_MEANS];
    int64_t width; /* a power of two */
    curve_epoch *epochs;
    size_t epoch_count;
} curve;

/* The loss of step `step`, from 0; one that is no finite number leaves a gap. */
void curve_add_step(curve *c, int64_t step, double loss);
void curve_add_epoch(curve *c, const curve_epoch *epoch);
/* Writes an SVG: the training loss, that of the validation and its accuracy against the step, with axes, in colours for
 * light and for dark pages. The scale of losses is logarithmic where they span more than a factor of 20. The same
 * points give the same bytes. */
void curve_draw(const curve *c, FILE *to);
void curve_free(curve *c);

#endif

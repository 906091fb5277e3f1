#ifndef model_H
#define model_H

/* Made by hypatia export-c of the model digits. C99, which needs its <math.h> and <stdint.h> and nothing else.
 *
 * in0: image, float [2 64]
 * out13: probabilities, float [2 10]
 * weights: the bytes of the file that was written with this one, at a multiple of 8, little-endian
 * work: holds nothing between calls. Calls with memory of their own may go side by side.
 *
 * Memory: 75944 bytes of weights, which nothing writes to, 1664 bytes of work (model_WORK), some 2 KiB of stack.
 * Returns 0; where the data are out of range, as an index is that has no element, the number of the step, from 1.
 */
#include <stdint.h>

enum { model_WORK = 1664 };
struct model_work {
    float f32[416];
};

int model(const void *weights, const float *in0, float *out13, struct model_work *work);

#endif

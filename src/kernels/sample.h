/* sample.h - what a call of grid-sample asks for, and what the kernels of sample.c promise of how much they do. */
#ifndef HYP_KERNELS_SAMPLE_H
#define HYP_KERNELS_SAMPLE_H

#include "kernels/kernels.h"

typedef enum hyp_sample_padding {
    HYP_SAMPLE_ZEROS,
    HYP_SAMPLE_BORDER,
    HYP_SAMPLE_REFLECTION
} hyp_sample_padding;

enum { HYP_SAMPLE_AXES = 3 };

/* Along each axis of space. */
typedef struct hyp_sampler {
    int32_t axes;
    int64_t dims[HYP_SAMPLE_AXES], strides[HYP_SAMPLE_AXES]; /* of the image */
    int64_t image, places;                                   /* elements of an image; samples of it */
    hyp_sample_padding padding;
    bool align_corners;
    int taps; /* neighbours along an axis: 1, 2 or 4 */
} hyp_sampler;

/* The arguments of `grid-sample`, all checked. */
HYP_NODISCARD hyp_status hyp_kernel_read_grid_sample(const hyp_kernel_call *c, hyp_sampler *out);

/* The most samples that roi-align takes along an axis of a bin: more are refused. */
enum { HYP_ROI_SAMPLES = 4096 };

#endif

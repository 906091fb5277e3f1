/* sample.h - what a call of grid-sample asks for, and what the kernels of sample.c promise of how much they do. */
#ifndef HYP_KERNELS_SAMPLE_H
#define HYP_KERNELS_SAMPLE_H

#include "kernels/kernels.h"
#include "kernels/sample_place.h"

/* The arguments of `grid-sample`, all checked. */
HYP_NODISCARD hyp_status hyp_kernel_read_grid_sample(const hyp_kernel_call *c, hyp_sampler *out);

/* The most samples that roi-align takes along an axis of a bin: more are refused. */
enum { HYP_ROI_SAMPLES = 4096 };

#endif

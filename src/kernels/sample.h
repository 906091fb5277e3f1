/* sample.h - what the kernels of sample.c promise of how much they do. */
#ifndef HYP_KERNELS_SAMPLE_H
#define HYP_KERNELS_SAMPLE_H

/* The most samples that roi-align takes along an axis of a bin: more are refused. */
enum { HYP_ROI_SAMPLES = 4096 };

#endif

/* sample.h - what a call of grid-sample asks for, and what the kernels of sample.c promise of how much they do. */
#ifndef HYP_KERNELS_SAMPLE_H
#define HYP_KERNELS_SAMPLE_H

#include "kernels/kernels.h"
#include "kernels/sample_place.h"

/* The arguments of `grid-sample`, all checked. */
HYP_NODISCARD hyp_status hyp_kernel_read_grid_sample(const hyp_kernel_call *c, hyp_sampler *out);
/* Those of `grid-sample-gradient`, and whether it is that by the grid. */
HYP_NODISCARD hyp_status hyp_kernel_read_grid_sample_gradient(const hyp_kernel_call *c, hyp_sampler *out, bool *by_grid);

/* The arguments of `affine-grid`: how many axes places have, and the sizes of the result, [images, sizes of the grid,
 * axes]. */
HYP_NODISCARD hyp_status hyp_kernel_read_affine_grid(const hyp_kernel_call *c, int32_t *axes,
                                                     int64_t dims[HYP_MAX_RANK]);

/* The most samples that roi-align takes along an axis of a bin: more are refused. */
enum { HYP_ROI_SAMPLES = 4096 };

/* A call of `roi-align`: regions of images become bins of each channel. */
typedef struct hyp_roi_align {
    int64_t regions, channels, in[2], bins[2];
    int64_t samples; /* along an axis of a bin; 0: as many as it has elements */
    double scale;    /* of the regions' corners */
    bool largest, half_pixel;
} hyp_roi_align;
HYP_NODISCARD hyp_status hyp_kernel_read_roi_align(const hyp_kernel_call *c, hyp_roi_align *out);
/* The same of `roi-align-gradient`. */
HYP_NODISCARD hyp_status hyp_kernel_read_roi_align_gradient(const hyp_kernel_call *c, hyp_roi_align *out);

/* The bins of a region: where the first one begins, how large they are and how many samples they have, along each
 * axis. */
typedef struct hyp_roi_bins {
    double start[2], size[2];
    int64_t samples[2], image;
} hyp_roi_bins;
HYP_NODISCARD hyp_status hyp_roi_bins_of(const hyp_kernel_call *c, const hyp_roi_align *p, int64_t region,
                                         hyp_roi_bins *out);
/* The offsets into an image, and weights, of the four neighbours of a sample of a bin [down, across]; false where it is
 * outside of the image, where they count as zeros. `sample`: counted row by row. */
bool hyp_roi_sample(const hyp_roi_align *p, const hyp_roi_bins *bins, const int64_t bin[2], int64_t sample,
                    int64_t offsets[4], double weights[4]);

#endif

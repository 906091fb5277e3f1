/* channels_last.h - which tensors of a plan may lie with the channels last, [N spatial... C], where a device convolves them
 * so. Shared by the backends, which decide by it, and the compiler, which predicts by it what they will decide. */
#ifndef HYP_PLAN_CHANNELS_LAST_H
#define HYP_PLAN_CHANNELS_LAST_H

#include "plan/plan.h"

/* What else may have such tensors, besides convolution, pooling, and pointwise steps to which the order is all the same. */
enum {
    HYP_LAST_REDUCED = 1, /* steps that reduce all spatial axes may read them */
    HYP_LAST_COPIED = 2,  /* copies that laid_box.h knows may read and write them */
    HYP_LAST_WALKED = 4,  /* pointwise steps that laid_box.h knows may */
    HYP_LAST_PARTS = 16,  /* windows may be parts of them */
    HYP_LAST_TRAINED = 8  /* statistics of batch normalizations, and gradients of those and of max-pools, may */
};
/* Finds them under these dims, among scratch tensors of some types (bit 1 << hyp_dtype) and 3 to most_axes axes: those
 * that only such steps write and read. A window that lies so is all that is said of it: [N spatial... c], dense, though its
 * tensor has it in rows of more channels. channels_last has an entry for each tensor. */
HYP_NODISCARD hyp_status hyp_choose_layouts(const HypPlan__Program *program, const int64_t *values, uint32_t types,
                                            size_t most_axes, uint32_t also, bool *channels_last, hyp_diag *diag);
enum { HYP_CPU_SPATIAL = 3 }; /* axes that the CPU's library convolves images along, at most */
/* The same as the CPU's backend has it: images in f32, as its library convolves them. */
HYP_NODISCARD hyp_status hyp_choose_cpu_layouts(const HypPlan__Program *program, const int64_t *values, bool *channels_last,
                                                hyp_diag *diag);

/* Elements that a step of the CPU's backend turns, since its kernel has the channels last and a tensor has them not: what a
 * convolution or a pool reads and writes. Images of 3 channels or fewer, those of first convolutions, are read as they lie.
 * Of a copy whose tensors lie differently it is all that it moves, in place of the copy. */
double hyp_turned_elements(const HypPlan__Program *program, const HypPlan__Step *step, const int64_t *values,
                           const bool *channels_last);

/* Whether a step writes or reads such a tensor. */
bool hyp_uses_layouts(const HypPlan__Step *step, const bool *channels_last);
/* Whether a window that lies so is some channels of its tensor. Else it is some images, which lie there as it has them. */
bool hyp_is_channels(const HypPlan__Program *program, uint32_t window, const int64_t *values);

#endif

/* channels_last.h - which tensors of a plan may lie with the channels last, [N spatial... C], where a device convolves them
 * so. Shared by the backends. */
#ifndef HYP_RUNTIME_CORE_CHANNELS_LAST_H
#define HYP_RUNTIME_CORE_CHANNELS_LAST_H

#include "plan/plan.h"

/* Finds them under these dims, among scratch tensors of some types (bit 1 << hyp_dtype) and 3 to most_axes axes: those
 * that only convolution, pooling, and pointwise steps to which the order is all the same write and read; with `reduces`
 * also steps that reduce all spatial axes may read them. channels_last has an entry for each tensor. */
void hyp_choose_layouts(const HypPlan__Program *program, const int64_t *values, uint32_t types, size_t most_axes,
                        bool reduces, bool *channels_last);
/* Whether a step writes or reads such a tensor. */
bool hyp_uses_layouts(const HypPlan__Step *step, const bool *channels_last);

#endif

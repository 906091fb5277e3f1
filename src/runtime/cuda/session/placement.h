/* placement.h - where the tensors of a set of shapes lie in device memory. Pure, tested on any machine. */
#ifndef HYP_RUNTIME_CUDA_SESSION_PLACEMENT_H
#define HYP_RUNTIME_CUDA_SESSION_PLACEMENT_H

#include "runtime/cuda/ops/boxes.h"

/* Where inputs and outputs that must be staged lie in one allocation, each at a multiple of HYP_CUDA_ALIGN: n_inputs +
 * n_outputs offsets and sizes in bytes. Those of up to `small` bytes come first, *out_small bytes in all; of each kind inputs
 * come before outputs, in the order of the plan. HYP_ERR_LIMIT when the sum overflows. */
HYP_NODISCARD hyp_status hyp_cuda_place_edges(const HypPlan__Program *program, const int64_t *values, size_t small,
                                              size_t *offsets, size_t *bytes, size_t *out_small, size_t *out_total,
                                              hyp_diag *diag);

#endif

#include "runtime/cuda/driver/ranges.h"

#ifdef HYP_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>

void hyp_cuda_range_begins(const char *name) { nvtxRangePushA(name); }

void hyp_cuda_range_ends(void) { nvtxRangePop(); }
#else
void hyp_cuda_range_begins(const char *name) { (void)name; }

void hyp_cuda_range_ends(void) {}
#endif

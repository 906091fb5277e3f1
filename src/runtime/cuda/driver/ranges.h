/* ranges.h - names for what a thread queues, shown by a profiler that is attached (NVIDIA's NVTX, which looks for its tool by
 * itself): two tests of a pointer where there is none, nothing where the toolkit has no nvtx3.
 */
#ifndef HYP_RUNTIME_CUDA_DRIVER_RANGES_H
#define HYP_RUNTIME_CUDA_DRIVER_RANGES_H

/* What the thread does from now on is called `name`, which is copied. Any thread; ranges nest. */
void hyp_cuda_range_begins(const char *name);
/* The newest range of the thread ends. */
void hyp_cuda_range_ends(void);

#endif

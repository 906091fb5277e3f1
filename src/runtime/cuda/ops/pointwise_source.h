/* pointwise_source.h - a pointwise step as the CUDA C++ source of a kernel for it alone. Pure, tested without a device.
 *
 * The kernel computes what the one that interprets the step does, by the same functions: the device code that both
 * share (scalar.cuh, pointwise.cuh) is in the binary as text, without comments, and comes first in every source. The
 * step's extents and strides are constants of it, addresses its one argument, a hyp_cuda_pw_addresses. It is launched
 * with HYP_CUDA_GENERATED_THREADS threads a block, each of which reads some pieces, computes, then writes them; a piece
 * is as many neighbours as 16 bytes of the step's largest elements are.
 */
#ifndef HYP_RUNTIME_CUDA_OPS_POINTWISE_SOURCE_H
#define HYP_RUNTIME_CUDA_OPS_POINTWISE_SOURCE_H

#include "base/strbuf.h"
#include "runtime/cuda/ops/pointwise_program.h"

enum { HYP_CUDA_GENERATED_THREADS = 256, HYP_CUDA_GENERATED_MOST = 8 /* pieces of a thread */ };
#define HYP_CUDA_GENERATED_NAME "pointwise"

/* Everything that the source for so many pieces depends on, as text: extents, types and strides of the inputs, types of
 * the outputs, instructions. It begins with a number that changes when the same step would get another kernel. A failed
 * allocation is left in out->failed. */
void hyp_cuda_pw_key(const hyp_cuda_pw_program *program, hyp_strbuf *out);
bool hyp_cuda_pw_is_key(const char *key);
/* What tuning keeps of a step that does best without a kernel of its own has so many bytes, else it is the kernel, and
 * the epilogue says how many pieces a thread does. */
enum { HYP_CUDA_NO_KERNEL = 1 };

/* Blocks of a launch where each thread does `pieces`, from 1 to HYP_CUDA_GENERATED_MOST; 0 where there are more than a
 * launch may have. */
uint32_t hyp_cuda_pw_blocks(const hyp_cuda_pw_program *program, uint32_t pieces);

/* How many pieces threads may do so that the device still has a block for every multiprocessor, the most promising
 * numbers; returns how many of the 3. */
size_t hyp_cuda_pw_piece_counts(const hyp_cuda_pw_program *program, int multiprocessors, uint32_t out[3]);

/* The source, compiled as C++17 for compute capability 8.0 or newer. A failed allocation is left in out->failed. */
void hyp_cuda_pw_source(const hyp_cuda_pw_program *program, uint32_t pieces, hyp_strbuf *out);

#endif

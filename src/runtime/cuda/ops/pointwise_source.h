/* pointwise_source.h - a pointwise step as the CUDA C++ source of a kernel for it alone, or for all that differ from it in
 * sizes alone. Pure, tested without a device.
 *
 * Both kernels compute what the one that interprets the step does, by the same functions: the device code that both
 * share (scalar.cuh, pointwise.cuh) is in the binary as text, without comments, and comes first in every source. Of the
 * first the step's extents and strides are constants, addresses its one argument, a hyp_cuda_pw_addresses. It is launched
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

/* The source, compiled as C++17 for compute capability HYP_CUDA_GENERATED_SM or newer. A failed allocation is left in
 * out->failed. */
enum { HYP_CUDA_GENERATED_SM = 80 };
void hyp_cuda_pw_source(const hyp_cuda_pw_program *program, uint32_t pieces, hyp_strbuf *out);

/* ---- kernels that are told the sizes -------------------------------------------------------------------------
 *
 * Steps that nobody tuned share a kernel with those that differ in sizes alone: extents and strides are part of its
 * argument, a hyp_cuda_pw_sizes, so that a plan needs few of them for all its shapes. What remains in the source is what the
 * step computes, of which types, how wide pieces are, and which strides are 0, 1, or those of the result. A thread does one
 * piece; blocks may have up to HYP_CUDA_GENERATED_THREADS threads. */

/* Elements of a piece: one where pieces of 16 bytes would leave multiprocessors without any. */
uint32_t hyp_cuda_pw_told_width(const hyp_cuda_pw_program *program, int multiprocessors);
/* Appends such a kernel, for a source that hyp_cuda_pw_begin_source began. Its name is a hash of what follows it, so steps
 * have equal texts exactly when they can share the kernel. A failed allocation is left in out->failed. */
enum { HYP_CUDA_TOLD_NAME = 32 };
void hyp_cuda_pw_begin_source(bool cells, hyp_strbuf *out); /* cells: some kernel does a layer, too */
void hyp_cuda_pw_told_source(const hyp_cuda_pw_program *program, uint32_t width, char name[HYP_CUDA_TOLD_NAME],
                             hyp_strbuf *out);
/* Where program->before is there it is a kernel of few_rows.cuh for the layer, told by a hyp_cuda_cell, whose threads then
 * go on with an element each; `width` is of no meaning then. */
/* What it is told, but for addresses. */
void hyp_cuda_pw_told_sizes(const hyp_cuda_pw_program *program, uint32_t width, hyp_cuda_pw_sizes *out);

#endif

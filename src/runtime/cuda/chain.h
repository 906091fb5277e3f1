/* chain.h - which layers of a linear step run in one launch of our own (layers.cu), and how their work is dealt out.
 * Pure: tested without a device.
 */
#ifndef HYP_RUNTIME_CUDA_CHAIN_H
#define HYP_RUNTIME_CUDA_CHAIN_H

#include "hypatia/types.h"
#include "runtime/cuda/cuda.h"

/* What the decision needs to know of the device. */
typedef struct hyp_cuda_chain_device {
    uint32_t multiprocessors;
    size_t shared_bytes; /* that a block may have */
} hyp_cuda_chain_device;

/* Layers that follow each other: x [rows, k of the first] through weights stored [n,k]. */
typedef struct hyp_cuda_chain_layer {
    int64_t n, k;
} hyp_cuda_chain_layer;

/* A chain as it runs. */
typedef struct hyp_cuda_chain {
    hyp_cuda_layers args; /* all but the addresses and what is read from the plan: acts, biases */
    hyp_cuda_kernel kernel;
    uint32_t blocks;
    size_t shared_bytes;
} hyp_cuda_chain;

/* Can this chain run so, and is it expected to be faster than a product of the library for every layer, or asked for
 * although that may not be so? Then *out is complete. A single layer of many rows but few columns runs with the roles
 * of x and w exchanged: out->args.turned. */
bool hyp_cuda_chain_plan(hyp_dtype dtype, int64_t rows, const hyp_cuda_chain_layer *layers, size_t count,
                         const hyp_cuda_chain_device *device, bool asked, hyp_cuda_chain *out);

#endif

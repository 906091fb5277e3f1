/* pointwise_program.h - from a pointwise step to what its kernel interprets. Pure, tested without a device. */
#ifndef HYP_RUNTIME_CUDA_OPS_POINTWISE_PROGRAM_H
#define HYP_RUNTIME_CUDA_OPS_POINTWISE_PROGRAM_H

#include "runtime/cuda/ops/boxes.h"

/* A pointwise step with its dims evaluated. Lane i of the box is input i. */
typedef struct hyp_cuda_pw_step {
    hyp_cuda_box box;
    hyp_dtype compute; /* F32, F64, I64 or U64 */
    size_t inputs, instrs, outputs;
    hyp_dtype input_dtype[HYP_CUDA_PW_INPUTS], output_dtype[HYP_CUDA_PW_OUTPUTS];
    HypPlan__Pointwise__Instr *const *instr;
    const uint32_t *output_reg;
    bool gated; /* it writes nothing where the session's gate is closed */
} hyp_cuda_pw_step;

/* The layer of one row before the step, where one kernel does both: row i of each of its parts makes element i. */
typedef struct hyp_cuda_pw_before {
    hyp_dtype dtype;
    uint32_t parts, threads;                /* 0 parts: there is none */
    uint8_t part_plus1[HYP_CUDA_PW_INPUTS]; /* which of them an input is; 0 = none */
    const struct hyp_cuda_pw_program *then; /* the next step, which the kernel does as well; NULL: none */
} hyp_cuda_pw_before;

/* What to launch; addresses are filled in at every run. */
typedef struct hyp_cuda_pw_program {
    hyp_cuda_pointwise args;
    hyp_cuda_kernel kernel;
    uint32_t threads;      /* of a block */
    uint32_t shared_bytes; /* of a block */
    bool gated;
    hyp_cuda_pw_before before;
} hyp_cuda_pw_program;

/* A step of a plan under these dims, with tensors that lie with the channels last; NULL: none. What it points to is the
 * plan's. It is not gated. */
void hyp_cuda_pw_step_init(hyp_cuda_pw_step *out, const HypPlan__Program *program, const int64_t *values,
                           const bool *channels_last, const HypPlan__Pointwise *k);

/* Merges axes, finds each operand a place (registers are numbered as in plan.proto) and marks the tensors that allow
 * wide accesses. The box has elements. */
void hyp_cuda_pw_encode(const hyp_cuda_pw_step *step, hyp_cuda_pw_program *out);

#endif

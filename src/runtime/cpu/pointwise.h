/* pointwise.h - a pointwise step, prepared by pointwise_prepare.c and run by pointwise.c. */
#ifndef HYP_RUNTIME_CPU_POINTWISE_H
#define HYP_RUNTIME_CPU_POINTWISE_H

#include "base/dtype.h"
#include "runtime/cpu/cpu.h"

typedef struct hyp_cpu_pointwise {
    const HypPlan__Pointwise *step;
    hyp_dtype compute;
    hyp_walk walk;                            /* over the runs; lane i is input i */
    int64_t runs;                             /* how many there are */
    int64_t length;                           /* elements of a run */
    int64_t block;                            /* elements of a block at most */
    int64_t together;                         /* runs of a block */
    bool far;                                 /* results are beyond the caches */
    bool direct;                              /* the last instruction may write its block of the only result */
    int64_t steps[HYP_PLAN_POINTWISE_INPUTS]; /* from element to element of a run, by input */
    size_t inputs, instrs, outputs;
    struct {
        uint32_t tensor;
        hyp_dtype dtype;
        bool copied; /* named as an output: must be read before any output is written */
        bool dense;  /* runs lie one behind the other */
        bool fixed;  /* it is the same in every block, in its own before the first */
        bool one;    /* of a run it is one number, and instructions want no more */
    } input[HYP_PLAN_POINTWISE_INPUTS];
    struct {
        hyp_block_instr block; /* where it computes in f32 */
        uint32_t from[3];      /* its operands */
        bool joined;           /* another does this, too */
    } instr[HYP_PLAN_POINTWISE_REGISTERS];
    struct {
        uint32_t tensor, reg;
        hyp_dtype dtype;
        int64_t apart; /* elements from run to run, which lie in rows of another tensor; 0: runs are dense */
    } output[HYP_PLAN_POINTWISE_OUTPUTS];
} hyp_cpu_pointwise;

/* Where blocks of a multiple of this many elements are, kernels may read tensors in place. */
enum { HYP_POINTWISE_LANES = 16 };

/* Blocks that one thread needs, and the bytes of one. */
static inline size_t hyp_pointwise_registers(const hyp_cpu_pointwise *s) { return s->inputs + s->instrs + 1; }
static inline size_t hyp_pointwise_block_bytes(const hyp_cpu_pointwise *s)
{
    return (size_t)s->block * (s->compute == HYP_F32 ? sizeof(float) : 8);
}

static inline bool hyp_pointwise_is_constant(const hyp_cpu_pointwise *s, size_t instr)
{
    return s->step->instrs[instr]->op == HYP_PLAN__POINTWISE__OP__CONST;
}

hyp_cpu_run_fn hyp_cpu_run_pointwise;

#endif

/* linear.h - linear steps: the ways to do their layers, and the one that is taken. linear_few_rows.c and gemm.c do them. */
#ifndef HYP_RUNTIME_CUDA_OPS_LINEAR_H
#define HYP_RUNTIME_CUDA_OPS_LINEAR_H

#include "runtime/cuda/ops/gemm_problem.h"
#include "runtime/cuda/ops/steps.h"

/* Layers that are decided on together; those of a longer step are in several groups, which tuning does not know. */
enum { HYP_CUDA_LINEAR_LAYERS = 16 };
typedef struct hyp_cuda_layers {
    const HypPlan__Linear *k;
    size_t first, count;
    const HypPlan__Call *norm; /* the next step, which can add up the parts of the sums and is added with the layer; or NULL */
} hyp_cuda_layers;

/* Fills in the key and the alternatives: all layers by cuBLASLt, by our own kernel for few rows as far as it can, the last in
 * one way and the others in the other, and each as it is predicted to take least; where a normalization comes next, the
 * sums split into parts. */
void hyp_cuda_offer_layers(const hyp_cuda_build *b, const hyp_cuda_layers *layers, hyp_choice *out);

/* Where an operand of a product lies: in a tensor, in the session's room or in its workspace, so many bytes on, or at an
 * address. */
typedef struct hyp_cuda_operand {
    enum { HYP_CUDA_IN_TENSOR, HYP_CUDA_IN_ROOM, HYP_CUDA_IN_WORKSPACE, HYP_CUDA_AT_ADDRESS } in;
    uint32_t tensor; /* in any case: of the same type */
    size_t offset;   /* or the address */
} hyp_cuda_operand;

static inline CUdeviceptr hyp_cuda_operand_at(const hyp_cuda_session *s, const hyp_cuda_operand *o)
{
    switch (o->in) {
    case HYP_CUDA_IN_ROOM: return s->room + o->offset;
    case HYP_CUDA_IN_WORKSPACE: return s->workspace + o->offset;
    case HYP_CUDA_AT_ADDRESS: return (CUdeviceptr)o->offset;
    default: return s->at[o->tensor] + o->offset;
    }
}

/* pitch.c: y[rows_y, row] = what `from` says of x (x_row, rows), with zeros where x has nothing; elements of 2 or 4 bytes. */
HYP_NODISCARD hyp_status hyp_cuda_add_pitch(hyp_cuda_build *b, const hyp_cuda_pitch *from, hyp_cuda_operand x, int64_t row,
                                            int64_t rows, hyp_cuda_operand y, size_t element);

/* gemm.c: a product with nothing behind it, which is not tuned; a is of a tensor. The library may use so many bytes of
 * the workspace. */
HYP_NODISCARD hyp_status hyp_cuda_add_plain(hyp_cuda_build *b, const hyp_cuda_product *product,
                                            const hyp_cuda_operand *a, const hyp_cuda_operand *x,
                                            const hyp_cuda_operand *y, size_t workspace);
/* gemm.c: the same, tuned as that of a layer is. */
HYP_NODISCARD hyp_status hyp_cuda_add_tuned(hyp_cuda_build *b, const hyp_cuda_product *product,
                                            const hyp_cuda_operand *a, const hyp_cuda_operand *x,
                                            const hyp_cuda_operand *y);
/* Layer l of a step by cuBLASLt. */
HYP_NODISCARD hyp_status hyp_cuda_add_layer(hyp_cuda_build *b, const HypPlan__Linear *k, size_t l);
/* Adds the product of a step's one layer, its sums split into parts, f32 [parts, m, n] at *out_offset of the session's
 * workspace until something else uses it. What is added to them is left to do. */
HYP_NODISCARD hyp_status hyp_cuda_add_parts(hyp_cuda_build *b, const HypPlan__Linear *k, uint32_t parts,
                                            size_t *out_offset);
/* Why not, or NULL. */
const char *hyp_cuda_cannot_split(const hyp_cuda_session *s, const hyp_cuda_product *p, uint32_t parts);
/* norm.c: can the step that follows a linear step add up the parts of its sums, because it normalizes them? */
bool hyp_cuda_adds_up(const hyp_cuda_build *b, const HypPlan__Linear *k, const HypPlan__Step *next);
/* Adds both, the sums in so many parts. */
HYP_NODISCARD hyp_status hyp_cuda_add_split(hyp_cuda_build *b, const HypPlan__Linear *k, const HypPlan__Call *norm,
                                            uint32_t parts);

/* The tensors that a layer reads and writes. */
static inline uint32_t hyp_cuda_layer_input(const HypPlan__Linear *k, size_t l)
{
    return l > 0 ? k->layers[l - 1]->hidden_plus1 - 1 : k->x;
}
static inline uint32_t hyp_cuda_layer_result(const HypPlan__Linear *k, size_t l)
{
    return k->layers[l]->hidden_plus1 ? k->layers[l]->hidden_plus1 - 1 : k->y;
}

#endif

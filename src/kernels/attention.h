/* attention.h - the operands of `attention-gradient` as matrices, shared by its plain kernel and faster ones. */
#ifndef HYP_KERNELS_ATTENTION_H
#define HYP_KERNELS_ATTENTION_H

#include "kernels/kernels.h"

/* Inputs of the operator. */
enum { HYP_ATTENTION_Q, HYP_ATTENTION_K, HYP_ATTENTION_V, HYP_ATTENTION_Y, HYP_ATTENTION_G, HYP_ATTENTION_MASK };

/* One matrix for each index of the batch and each head: distances in elements. Those of a row lie side by side. */
typedef struct hyp_attention_matrix {
    int64_t batch, head, row;
} hyp_attention_matrix;

typedef struct hyp_attention_gradient {
    int64_t batch, heads, rows, keys, width, columns;
    hyp_attention_matrix q, k, v, y; /* g lies as y, and each result as that by which it is the gradient */
    hyp_attention_matrix mask;       /* of the scores; 0 along what it repeats, and so is: */
    int64_t mask_column;
    bool masked, hides; /* there is a mask; it is of bools, and scores where it says `hidden` are `fill` */
    bool hidden;
    double scale, fill;
} hyp_attention_gradient;

/* Reads a call and checks types and shapes; data may be NULL. */
HYP_NODISCARD hyp_status hyp_kernel_attention_gradient_read(const hyp_kernel_call *c, hyp_attention_gradient *out);

static inline int64_t hyp_attention_at(const hyp_attention_matrix *m, int64_t batch, int64_t head)
{
    return batch * m->batch + head * m->head;
}

#endif

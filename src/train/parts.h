/* parts.h - the gradient by a value of which slices took parts: the parts' gradients side by side, not each among zeros and
 * then added up. Private to src/train. */
#ifndef HYP_TRAIN_PARTS_H
#define HYP_TRAIN_PARTS_H

#include "train/build.h"

/* A part of a value along one axis, and the gradient by it. */
typedef struct hyp_part {
    hyp_value_id gradient;
    int32_t axis;
    hyp_dim start, size;
    uint32_t next; /* for lists of the caller's */
} hyp_part;

/* Whether a slice takes a part of x, neighbours along one axis and all of the others; *out is that part, without
 * gradient. */
bool hyp_part_of_slice(const hyp_node *slice, const hyp_type *x, hyp_part *out);

/* The sum of what the first of the parts and all that can be put beside it give for a value of type x: those along its
 * axis that surely do not overlap. *count are those that are left, now in front and in their order; at least one was
 * there. */
hyp_value_id hyp_parts_join(hyp_builder *b, const hyp_type *x, hyp_part *parts, size_t *count);

#endif

/* laid_box.h - steps that walk through tensors by strides, where some of these lie with the channels last: the same
 * elements by other strides. Shared by the backends and the compiler. */
#ifndef HYP_PLAN_LAID_BOX_H
#define HYP_PLAN_LAID_BOX_H

#include "plan/plan.h"

enum { HYP_LAID_LANES = HYP_PLAN_POINTWISE_INPUTS + 1, HYP_LAID_X = 0, HYP_LAID_Y = 1 };

/* A step as a box, outermost axis first; strides and offsets in elements of the tensor of each lane. */
typedef struct hyp_laid_box {
    size_t rank;
    int64_t extents[HYP_MAX_RANK], strides[HYP_LAID_LANES][HYP_MAX_RANK], offsets[HYP_LAID_LANES];
    bool keeps_axes; /* every tensor runs along its own axis where the first does, or stays where it is */
} hyp_laid_box;

/* The lanes are x, or the tensor that it is a window of, and y. False where an axis of the step runs through no axis of
 * each tensor evenly: then only the plan's order will do. */
bool hyp_lay_copy(const HypPlan__Program *program, const HypPlan__Copy *copy, const int64_t *values, bool x_last,
                  bool y_last, hyp_laid_box *out);
/* Puts the axes in the order in which one of the lanes has them, the outermost first. */
void hyp_laid_sort(hyp_laid_box *box, size_t lanes, size_t lane);
/* Whether y is x, byte by byte, and all of it. */
bool hyp_copies_nothing(const HypPlan__Program *program, const HypPlan__Copy *copy, const int64_t *values,
                        const hyp_laid_box *laid);

/* The lanes are the outputs, which have the same dims and lie alike, and the inputs, by tensor with the channels last or
 * not; a window is a tensor of its own. The box goes through the outputs as they lie. False as above. */
bool hyp_lay_pointwise(const HypPlan__Program *program, const HypPlan__Pointwise *step, const int64_t *values,
                       const bool *channels_last, hyp_laid_box *out);

#endif

/* window.h - parts of a tensor that are one piece of it, so that no step need cut them out. */
#ifndef HYP_IR_WINDOW_H
#define HYP_IR_WINDOW_H

#include "ir/ir.h"

enum { HYP_WINDOW_ALIGN = 16 }; /* bytes: what kernels may expect of any tensor's address */

/* Whether output number `output`, of type y, of a split or slice of x is one piece of x that begins, for all sizes, at the
 * same element, *out_first, and at a multiple of HYP_WINDOW_ALIGN. False for any other operator. */
bool hyp_is_window(hyp_op op, const hyp_attr *attrs, const hyp_type *x, const hyp_type *y, uint32_t output,
                   int64_t *out_first);

#endif

/* product.h - products of large matrices of floats before a plan runs: weights that rewriting multiplies.
 *
 * By oneDNN where Hypatia is built with it, else by plain loops. One thread does the work, so that the result does not
 * depend on how many there are; its last bits may depend on the processor. Any number of threads may call.
 */
#ifndef HYP_KERNELS_PRODUCT_H
#define HYP_KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"

/* Whether products are oneDNN's: an order of magnitude faster. */
bool hyp_product_is_fast(void);

/* c[m n] = a[m k] b[k n], row by row and dense; trans_a: a is stored [k m], trans_b: b is stored [n k]. A result that
 * is no finite number is computed again with sums in double: what is finite there is not lost to an overflow on the
 * way. Fails only for want of memory. */
HYP_NODISCARD hyp_status hyp_product_f32(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                                         const float *b, float *c, hyp_diag *diag);

#endif

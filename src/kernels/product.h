/* product.h - products of large matrices of floats, fast: of weights before a plan runs, and of what a plan is verified
 * with.
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

/* The library sums so many terms in floats, their sums are added in double. An element is off by no more than
 * (min(k, HYP_PRODUCT_DEPTH) + 1) 2^-24 of the sum of the sizes of its terms. */
enum { HYP_PRODUCT_DEPTH = 256 };

/* a[m k] b[k n], row by row and dense; trans_a: a is stored [k m], trans_b: b is stored [n k]. */
typedef struct hyp_product {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const float *a, *b;
} hyp_product;

/* The product into c[m n]. The library multiplies what is finite. Its result is taken where all of it is finite and 64
 * elements, chosen by what is multiplied, are right by plain loops within the bound above; else plain loops sum in
 * double: what is finite is not lost to an overflow on the way, and a mistake of the library, which plans run by as
 * well, does not go unseen. Terms that are not finite are added after it, as IEEE arithmetic says. Fails only for want
 * of memory. */
HYP_NODISCARD hyp_status hyp_product_f32(const hyp_product *p, double *c, hyp_diag *diag);

#endif

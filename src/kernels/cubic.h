/* cubic.h - the weights of cubic interpolation, and how functions of places in images are written that host backends and CUDA
 * kernels share, so that all round alike. Who compiles for a device defines HYP_PLACE_FN as what the functions begin with, and
 * HYP_PLACE_PRODUCT as a product that does not become one operation with a sum. No state: any thread. Source: Keys, Cubic
 * convolution interpolation for digital image processing (1981), whose `a` this is.
 */
#ifndef HYP_KERNELS_CUBIC_H
#define HYP_KERNELS_CUBIC_H

#ifndef HYP_PLACE_FN
#define HYP_PLACE_FN static inline
#define HYP_PLACE_PRODUCT(a, b) ((a) * (b))
#endif

/* The weight of a neighbour at a distance up to 1. */
HYP_PLACE_FN double hyp_cubic_near(double a, double d)
{
    double inner = HYP_PLACE_PRODUCT(a + 2, d) - (a + 3);
    return HYP_PLACE_PRODUCT(HYP_PLACE_PRODUCT(inner, d), d) + 1;
}

/* Of one between 1 and 2. */
HYP_PLACE_FN double hyp_cubic_far(double a, double d)
{
    double inner = HYP_PLACE_PRODUCT(a, d) - HYP_PLACE_PRODUCT(5, a);
    double outer = HYP_PLACE_PRODUCT(inner, d) + HYP_PLACE_PRODUCT(8, a);
    return HYP_PLACE_PRODUCT(outer, d) - HYP_PLACE_PRODUCT(4, a);
}

/* What the weight gains as the distance grows, up to 1. */
HYP_PLACE_FN double hyp_cubic_near_slope(double a, double d)
{
    return HYP_PLACE_PRODUCT(HYP_PLACE_PRODUCT(3 * (a + 2), d) - 2 * (a + 3), d);
}

/* Between 1 and 2. */
HYP_PLACE_FN double hyp_cubic_far_slope(double a, double d)
{
    return HYP_PLACE_PRODUCT(HYP_PLACE_PRODUCT(3 * a, d) - 10 * a, d) + 8 * a;
}

#endif

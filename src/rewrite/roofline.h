/* roofline.h - what the prices of kernels are made of; private to the files roofline*.c. */
#ifndef HYP_REWRITE_ROOFLINE_H
#define HYP_REWRITE_ROOFLINE_H

#include "rewrite/internal.h"

/* A question for a price. */
typedef struct hyp_price {
    const hyp_cost_query *q;
    const hyp_roofline *line;
    const hyp_device_profile *device; /* of the line, or the same with more threads */
    double *share; /* the largest that was measured of what is priced; NULL: nobody asks */
} hyp_price;

/* A dim as a number under the typical sizes of its symbols; elements and bytes of a tensor, 0 of an absent one. */
double hyp_price_size(const hyp_price *a, hyp_dim d);
double hyp_price_elements(const hyp_price *a, const hyp_type *t);
double hyp_price_bytes(const hyp_price *a, const hyp_type *t);
/* The product of the sizes in an attribute, as of steps along all axes; 1 where it has none. */
double hyp_price_product(const hyp_price *a, const hyp_attr *sizes);
double hyp_price_inputs(const hyp_price *a); /* bytes of all of them */
double hyp_price_outputs(const hyp_price *a);

/* Seconds: moving `traffic` bytes of a working set; so many operations of products in a type. */
double hyp_price_moving(const hyp_price *a, double traffic, double working_set);
/* The part of that which is waiting for what is away, as a profile says (hyp_away), behind which nothing else hides. */
double hyp_price_away(const hyp_price *a, double traffic, double working_set);
double hyp_price_computing(const hyp_price *a, double flops, hyp_dtype t);
/* Reading the weights of a kernel as it was measured, beside another one like it. */
double hyp_price_reading_weights(const hyp_price *a, double size);
/* The part of that which is waiting for what is in no near cache. */
double hyp_price_waiting_weights(const hyp_price *a, double size);
/* A kernel of its own that goes once over so many elements of this weight, and moves `traffic` bytes; the arithmetic of an
 * operator on so many elements alone; the kernel of a whole question. */
double hyp_price_pass(const hyp_price *a, double count, double traffic, double weight);
double hyp_price_work(const hyp_price *a, hyp_op op, hyp_dtype t, double count);
double hyp_price_kernel(const hyp_price *a);
/* What measurements say of the roofline of a product, the shape as in hyp_measured; 1 where it runs in TF32, which they
 * do not know. */
double hyp_price_ratio(const hyp_price *a, hyp_op op, hyp_dtype t, const double *shape);
/* Notes the share of the device of a kernel of this shape, if somebody asks for it. */
void hyp_price_note_share(const hyp_price *a, hyp_op op, hyp_dtype t, const double *shape);
/* Simple arithmetic counts as one; this is how much more a function takes. */
double hyp_price_weight(hyp_op op);

/* ---- roofline_attention.c: seconds; whether the device has a kernel for these types and widths ------------------ */

bool hyp_price_has_attention(const hyp_price *a);
double hyp_price_attention(const hyp_price *a);
double hyp_price_attention_gradient(const hyp_price *a);

/* ---- roofline_products.c: seconds ------------------------------------------------------------------------------ */

double hyp_price_linear(const hyp_price *a);
/* What of it is waiting for weights, which takes as long in any kernel: measurements say nothing of that part. */
double hyp_price_linear_waiting(const hyp_price *a);
double hyp_price_mlp(const hyp_price *a);
double hyp_price_matmul(const hyp_price *a);
double hyp_price_linear_gradient(const hyp_price *a);
double hyp_price_convolution(const hyp_price *a);
double hyp_price_recurrence(const hyp_price *a);

#endif

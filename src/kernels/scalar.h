/* scalar.h - elementwise functions of one element that C's library lacks, shared by the reference interpreter and the
 * host backends. 64-bit integers come as int64_t; is_u64 says that their bits are those of a uint64_t. Pure.
 */
#ifndef HYP_KERNELS_SCALAR_H
#define HYP_KERNELS_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

double hyp_sign_f64(double x);                               /* NaN stays */
/* A function of base/elementwise.h by its number, HYP_PW_RELU..., with its numbers p and q; a itself for any other. */
double hyp_function_f64(int op, double a, double p, double q);
double hyp_pow_f64(double a, double b);                      /* as pow, and to the power 2 exactly a a, rounded */
double hyp_mod_f64(double a, double b, bool keep_sign_of_a); /* the result has the sign of a or that of b */

bool hyp_less_i64(int64_t a, int64_t b, bool is_u64);
int64_t hyp_sign_i64(int64_t x, bool is_u64);
/* Division and remainder by 0 give 0, since no integer is right and none may trap; the quotient wraps. */
int64_t hyp_div_i64(int64_t a, int64_t b, bool is_u64); /* truncated */
int64_t hyp_mod_i64(int64_t a, int64_t b, bool keep_sign_of_a, bool is_u64);
/* Modulo 2^64; a negative power is the truncated fraction, 0 to a negative power is 0. */
int64_t hyp_pow_i64(int64_t base, int64_t exponent, bool is_u64);
/* To the right copies of the sign come in; a shift by a negative number is one by all bits. */
int64_t hyp_shift_i64(int64_t a, int64_t by, bool left, bool is_u64);
/* The integer that a bound of `clip` cuts at: rounded to the inside, the outermost one where it has none. */
int64_t hyp_clip_bound_i64(double bound, bool is_low, bool is_u64);

#endif

/* wire.h - element types as the open inference protocol calls them, and elements as JSON. Nothing of HTTP or of plans.
 */
#ifndef HYPATIA_SERVE_WIRE_H
#define HYPATIA_SERVE_WIRE_H

#include "store.h"

/* "FP32"; "?" for an unknown type. bf16 is "BF16", as in Triton; f8e4m3, which the protocol lacks, "FP8E4M3". */
const char *wire_type_name(hyp_dtype dtype);

/* Reads a JSON array, json[0..len) from its '[' to its ']', into t->data, which has room for all elements of t's type
 * and dims. It is flat, in row-major order, or nested as the dims say. Floats may be NaN, Infinity and -Infinity, as
 * Python writes them, and are rounded to the nearest number of their type; bools are true, false, 1 and 0. json[len]
 * has to be readable, and no part of a number. HYP_ERR_INVALID_ARGUMENT, with the place of the element; the memory then
 * holds anything. */
hyp_status wire_read_json(const char *json, size_t len, hyp_tensor *t, hyp_diag *diag);

/* Appends all elements, flat: numbers that read back as the same ones, and NaN, Infinity, -Infinity. */
void wire_write_json(text *out, const hyp_tensor *t);

/* HYP_ERR_INVALID_ARGUMENT where a byte of a bool is neither 0 nor 1: kernels count on that. */
hyp_status wire_check_binary(const hyp_tensor *t, hyp_diag *diag);

#endif

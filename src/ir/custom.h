/* custom.h - what a custom operator is called, and its attributes, as symbols of the IR: `operator` is "domain::Name",
 * each of `values` "name=k:" and its elements with a comma behind each. k is i, f or s for one integer, float or
 * string, I, F or S for a list. What is no letter, digit or one of _ . - is written as %xx in names and strings.
 */
#ifndef HYP_IR_CUSTOM_H
#define HYP_IR_CUSTOM_H

#include "base/strbuf.h"

void hyp_custom_escape(hyp_strbuf *sb, const void *bytes, size_t len);
/* In place; returns the length, and puts a NUL behind it. */
size_t hyp_custom_unescape(char *text);

#endif

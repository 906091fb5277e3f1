/* sized.h - structs that cross the border of a library. They begin with a size_t `size`, which is the sizeof of whoever
 * made them and may be of another release than ours. Part of base: may include libc only. */
#ifndef HYP_BASE_SIZED_H
#define HYP_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

/* Fills *own, which has its defaults and its own size, with as much as *given has; NULL: with nothing.
 * HYP_ERR_INVALID_ARGUMENT where the size is none, HYP_ERR_UNSUPPORTED where a field is set that we do not know. */
HYP_NODISCARD hyp_status hyp_sized_take_(void *own, size_t own_size, const void *given, const char *type,
                                         hyp_diag *diag);
#define hyp_sized_take(own, given, type, diag)                                                                         \
    hyp_sized_take_((own), sizeof(type), (1 ? (given) : (const type *)0), #type, (diag))

/* HYP_ERR_INVALID_ARGUMENT where *out, which is to be given to, has no size. */
HYP_NODISCARD hyp_status hyp_sized_want_(const void *out, const char *type, hyp_diag *diag);
#define hyp_sized_want(out, type, diag) hyp_sized_want_((1 ? (out) : (const type *)0), #type, (diag))

/* Copies as much of *own to *out as that has room for, and zeroes what it has beyond; its size stays. False, and
 * nothing is written, where it has none. */
bool hyp_sized_give_(void *out, const void *own, size_t own_size);
#define hyp_sized_give(out, own) hyp_sized_give_((1 ? (out) : (own)), (own), sizeof *(own))

#endif

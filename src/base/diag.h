/* diag.h - writing diagnostics. Part of base: may include libc only. */
#ifndef HYP_BASE_DIAG_H
#define HYP_BASE_DIAG_H

#include <stddef.h>

#include "hypatia/status.h"

/* Writes the message and returns `status`, so that a failing function ends in `return hyp_fail(...)`.
 * `diag` may be NULL. A later failure overwrites an earlier one. */
hyp_status hyp_diag_write(hyp_diag *diag, hyp_status status, const char *fmt, ...) HYP_PRINTF(3, 4);
/* Not a plain function, so that the compiler sees which status comes back. */
static inline hyp_status hyp_diag_written(hyp_status written, hyp_status status)
{
    (void)written;
    return status;
}
#define hyp_fail(diag, status, ...) hyp_diag_written(hyp_diag_write((diag), (status), __VA_ARGS__), (status))

/* Puts "prefix: " before the message that is there, for context gathered on the way up. */
void hyp_diag_prefix(hyp_diag *diag, const char *fmt, ...) HYP_PRINTF(2, 3);

/* The usual message for a failed allocation. */
#define hyp_fail_memory(diag, bytes) \
    hyp_fail((diag), HYP_ERR_NO_MEMORY, "out of memory: an allocation of %zu bytes failed", (size_t)(bytes))

/* Returns from the calling function when `expr` fails. Only where that function owns nothing. */
#define HYP_TRY(expr)                               \
    do {                                            \
        hyp_status hyp_try_status_ = (expr);        \
        if (hyp_try_status_ != HYP_OK) return hyp_try_status_; \
    } while (0)

/* First in a public function: HYP_ERR_INVALID_ARGUMENT where what a caller has to give is NULL, or a list that is not
 * empty. The function's own diagnostic is called `diag`. */
#define HYP_NEED(given)                                                                                     \
    do {                                                                                                    \
        if (!(given)) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: %s is NULL", __func__, #given);  \
    } while (0)
#define HYP_NEED_LIST(list, count)                                                                          \
    do {                                                                                                    \
        if (!(list) && (count) > 0)                                                                         \
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: %s is NULL where %s is %zu", __func__, #list, \
                            #count, (size_t)(count));                                                       \
    } while (0)

#endif

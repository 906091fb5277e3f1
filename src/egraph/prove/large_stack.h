/* large_stack.h - a call with a stack that is large whatever that of the caller's thread is. */
#ifndef HYP_EGRAPH_PROVE_LARGE_STACK_H
#define HYP_EGRAPH_PROVE_LARGE_STACK_H

#include "base/diag.h"

/* What fn gives when it is called on a stack of 64 MB, of which only what is used takes memory. The caller waits. It is
 * charged to the caller's account; HYP_ERR_LIMIT where there is no such stack. */
HYP_NODISCARD hyp_status hyp_on_large_stack(hyp_status (*fn)(void *user), void *user, hyp_diag *diag);

#endif

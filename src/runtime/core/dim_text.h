/* dim_text.h - symbolic dims of a plan as text. */
#ifndef HYP_RUNTIME_CORE_DIM_TEXT_H
#define HYP_RUNTIME_CORE_DIM_TEXT_H

#include "base/strbuf.h"
#include "plan/plan.h"

/* "784", "batch", "2*batch + 1", "min(batch, 8)". Long expressions are cut with "...". */
void hyp_dim_text(hyp_strbuf *sb, const HypPlan__Program *program, uint32_t dim);
/* "[batch, 784]" */
void hyp_dims_text(hyp_strbuf *sb, const HypPlan__Program *program, const uint32_t *dims, size_t count);

#endif

#include <time.h>

#include "rewrite/rewrite.h"

double hyp_limit_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool hyp_limit_reached(void *limit)
{
    hyp_limit *l = limit;
    if (!l) return false;
    hyp_progress_tell(l->progress);
    if (l->why == HYP_LIMIT_NOT_REACHED && l->asked && *l->asked) l->why = HYP_LIMIT_ASKED;
    if (l->why == HYP_LIMIT_NOT_REACHED && l->deadline > 0 && hyp_limit_clock() >= l->deadline) l->why = HYP_LIMIT_TIME;
    return l->why != HYP_LIMIT_NOT_REACHED;
}

void hyp_limit_extend(hyp_limit *limit, double seconds)
{
    if (limit && limit->deadline > 0) limit->deadline += seconds;
}

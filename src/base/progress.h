/* progress.h - how far a long work is, for who wants to be told. Layers below the one that knows who asked are given a
 * hyp_progress, note in it what they do and tell of it often; whether anything is shown is decided by who listens.
 */
#ifndef HYP_BASE_PROGRESS_H
#define HYP_BASE_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

typedef struct hyp_progress {
    void (*tell)(const struct hyp_progress *now, void *user); /* NULL = nobody listens */
    void *user;
    const char *phase;         /* a word or two, of static storage; NULL before the first */
    size_t iteration, e_nodes; /* of an e-graph that is being saturated; 0 elsewhere */
    double best;               /* seconds that the best plan so far is predicted to take; 0 = none is known. Kept between phases */
    uint64_t done, total;      /* of the phase, in units of its own; total 0 = not known */
} hyp_progress;

/* All of these take NULL, too. */
static inline void hyp_progress_tell(const hyp_progress *p)
{
    if (p && p->tell) p->tell(p, p->user);
}

static inline void hyp_progress_begin(hyp_progress *p, const char *phase, uint64_t total)
{
    if (!p) return;
    p->phase = phase;
    p->iteration = p->e_nodes = 0;
    p->done = 0;
    p->total = total;
    hyp_progress_tell(p);
}

static inline void hyp_progress_add(hyp_progress *p, uint64_t done)
{
    if (!p) return;
    p->done += done;
    hyp_progress_tell(p);
}

#endif

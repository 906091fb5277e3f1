/* places.h - tensors with the channels last that lie where a concatenation wants them: in the rows of another's channels.
 *
 * A step that gives such a tensor writes it there, and nothing is left to copy. A tensor lies so if all that writes and
 * reads it are kernels that can go from one place of an image to the next in any steps. Those in which others lie have room
 * of their own in the work space, behind what operations need: the slot of one may hold something else before it is made.
 */
#ifndef HYP_RUNTIME_CPU_PLACES_H
#define HYP_RUNTIME_CPU_PLACES_H

#include <string.h>

#include "plan/plan.h"

typedef struct hyp_cpu_place {
    uint32_t in;          /* the tensor whose memory it lies in */
    int64_t first, apart; /* floats: where it begins there, and from place to place of an image; apart 0: dense, by itself */
} hyp_cpu_place;

/* By tensor and by step; released by hyp_cpu_places_free. */
typedef struct hyp_cpu_places {
    hyp_cpu_place *of;
    size_t *room; /* by tensor: bytes + 1 from the beginning of all rooms to its own; 0: it has none */
    bool *copied; /* by step: a copy that has nothing left to do */
    size_t bytes; /* of all rooms */
} hyp_cpu_places;

struct hyp_cpu_prepared;
struct hyp_cpu_session;
/* Finds them, by the layouts and the forms that p has chosen, into p->places; NULL where there are none. */
HYP_NODISCARD hyp_status hyp_cpu_choose_places(const struct hyp_cpu_session *s, struct hyp_cpu_prepared *p, hyp_diag *diag);
void hyp_cpu_places_free(hyp_cpu_places *places); /* NULL-safe */
/* Makes the addresses of a session those of p. */
void hyp_cpu_take_places(struct hyp_cpu_session *s, const struct hyp_cpu_prepared *p);

/* Elements of a tensor of C channels that lies with these last, as a stride or an offset, where its places are so far apart;
 * 0: dense. */
static inline int64_t hyp_cpu_spread(int64_t elements, int64_t channels, int64_t apart)
{
    return apart ? elements / channels * apart + elements % channels : elements;
}

/* Rows of some numbers, so far apart on either side: a call of memcpy takes longer than one that is by itself. */
static inline void hyp_cpu_copy_rows(const float *x, int64_t x_apart, float *y, int64_t y_apart, int64_t rows,
                                     int64_t length)
{
    enum { FEW = 4 };
    if (x_apart == length && y_apart == length) {
        memcpy(y, x, (size_t)(rows * length) * sizeof *y);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += x_apart, y += y_apart) {
        int64_t j = 0;
        for (; j + FEW <= length; j += FEW) memcpy(y + j, x + j, FEW * sizeof *y);
        for (; j < length; j++) y[j] = x[j];
    }
}

#endif

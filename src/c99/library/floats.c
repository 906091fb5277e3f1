#include "widen.c"

/* Elements of x from `first` on as floats: in `room`, unless that is what they are. */
static const float *hyp_floats(enum hyp_kind kind, const void *x, long first, long count, float *room)
{
    if (kind == HYP_FLOATS) return (const float *)x + first;
    hyp_widen(kind, count, (const uint16_t *)x + first, room);
    return room;
}

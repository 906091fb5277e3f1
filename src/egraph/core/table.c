/* table.c - the hash-cons grows, and is rid of stale slots. */
#include "egraph/core/table.h"

#include <string.h>

#include "egraph/core/state.h"

/* Tables of fewer slots are made anew from the rows, which are near. */
#ifdef HYP_SMALL_SIZES
enum { SMALL = 64 };
#else
enum { SMALL = 1 << 18 };
#endif

static void insert(hyp_egraph *eg, hyp_slot slot)
{
    size_t at = hyp_table_home(eg, slot.tag);
    while (eg->slots[at].not_row) at = hyp_table_next(eg, at);
    eg->slots[at] = slot;
}

/* First rows are asked for, then met. */
void hyp_eg_purge_slots(hyp_egraph *eg)
{
    enum { AHEAD = 16 };
    uint32_t hash[AHEAD];
    memset(eg->slots, 0, eg->slot_count * sizeof *eg->slots);
    for (uint32_t i = 0; i < eg->row_count + AHEAD; i++) {
        uint32_t row = i - AHEAD;
        if (i >= AHEAD && !hyp_row_dead(eg, row)) insert(eg, (hyp_slot){hash[i % AHEAD], ~row});
        if (i >= eg->row_count || hyp_row_dead(eg, i)) continue;
        hash[i % AHEAD] = hyp_table_hash_row(eg, i);
        __builtin_prefetch(&eg->slots[hyp_table_home(eg, hash[i % AHEAD])], 1);
    }
    eg->slot_used = eg->live_count;
}

/* Puts the slots of a table of `count` slots, which stands at the end of this one, at home; before it there are none. They
 * are in order of their homes, and those are never behind: a slot that is taken up goes to an empty one before, or comes
 * back. Only what had been pushed over the end of the table has to wait. Which slots are empty no processor can guess, so
 * parts are taken up without asking. */
static void spread(hyp_egraph *eg, size_t count)
{
    enum { PART = 64 };
    hyp_slot part[PART], pushed[PART];
    size_t begin = eg->slot_count - count, waiting = 0;
    for (size_t first = 0; first < count; first += PART) {
        hyp_slot *from = &eg->slots[begin + first];
        size_t n = 0, end = count - first < PART ? count - first : PART;
        for (size_t i = 0; i < end; i++) {
            part[n] = from[i];
            n += from[i].not_row != 0;
        }
        memset(from, 0, end * sizeof *from);
        for (size_t i = 0; i < n; i++) {
            if ((uint64_t)part[i].tag * count >> 32 < first + PART) {
                insert(eg, part[i]);
            } else if (waiting < PART) {
                pushed[waiting++] = part[i];
            } else {
                hyp_eg_purge_slots(eg);
                return;
            }
        }
    }
    while (waiting) insert(eg, pushed[--waiting]);
}

_Static_assert((uint64_t)HYP_ROW_LIMIT * HYP_SLOTS_EACH < UINT64_C(1) << 32,
               "a table never has more than 2^32 slots, so that hyp_table_home does not overflow");

/* So many slots, or a few more that cost nothing. */
static size_t whole(size_t count) { return hyp_large_room(count * sizeof(hyp_slot)) / sizeof(hyp_slot); }

hyp_status hyp_eg_reserve_slots(hyp_egraph *eg, size_t more, hyp_diag *diag)
{
    enum { FIRST = 16, SHARE = 8 };
    size_t live = (eg->live_count + more) * HYP_SLOTS_EACH, used = (eg->slot_used + more) * 2, had = eg->slot_count;
    if (live < had && used < had) return HYP_OK;
    if (live < had) {
        hyp_eg_purge_slots(eg);
        return HYP_OK;
    }
    size_t count = had ? had : FIRST;
    while (count <= live || count <= used) count = whole(count < SMALL ? count * 4 : count * 2);
    HYP_TRY(hyp_eg_claim(eg, (count - had) * sizeof *eg->slots, diag));
    hyp_slot *slots = hyp_large_grow_front(eg->slots, had * sizeof *slots, count * sizeof *slots);
    if (!slots) return hyp_fail_memory(diag, count * sizeof *slots);
    hyp_eg_count_bytes(eg, (count - had) * sizeof *slots);
    eg->slots = slots;
    eg->slot_count = count;
    if (had < SMALL || (eg->slot_used - eg->live_count) * SHARE > eg->live_count) /* or many are stale */
        hyp_eg_purge_slots(eg);
    else
        spread(eg, had);
    return HYP_OK;
}

#include "runtime/core/pad.h"

#include <string.h>

size_t hyp_pad_bytes(const int64_t *dims, int32_t rank, size_t element_bytes)
{
    size_t bytes = element_bytes;
    for (int32_t a = 0; a < rank; a++) bytes *= (size_t)dims[a];
    return bytes;
}

/* The runs of bytes that lie together in both tensors, one after the other. */
typedef struct runs {
    const hyp_pad *pad;
    int32_t axis;             /* the last one that differs: a run is what there is of it */
    size_t bytes, room_bytes; /* of a run, and of the axis in the run's tensor */
    size_t count;
} runs;

static runs find_runs(const hyp_pad *pad)
{
    runs r = {.pad = pad, .axis = pad->rank - 1, .count = 1};
    while (r.axis > 0 && pad->dims[r.axis] == pad->room[r.axis]) r.axis--;
    int32_t axis = r.axis < 0 ? 0 : r.axis;
    r.bytes = hyp_pad_bytes(pad->dims + axis, pad->rank - axis, pad->element_bytes);
    r.room_bytes = hyp_pad_bytes(pad->room + axis, pad->rank - axis, pad->element_bytes);
    for (int32_t a = 0; a < axis; a++) r.count *= (size_t)pad->dims[a];
    return r;
}

/* Where run i begins in the run's tensor. */
static size_t room_at(const runs *r, size_t i)
{
    size_t at = 0, stride = r->room_bytes;
    for (int32_t a = r->axis - 1; a >= 0; a--) {
        at += i % (size_t)r->pad->dims[a] * stride;
        i /= (size_t)r->pad->dims[a];
        stride *= (size_t)r->pad->room[a];
    }
    return at;
}

void hyp_pad_in(const hyp_pad *pad, void *room, const void *data)
{
    const runs r = find_runs(pad);
    size_t all = hyp_pad_bytes(pad->room, pad->rank, pad->element_bytes), head = r.axis > 0 ? 0 : r.bytes;
    if (all > head) memset((uint8_t *)room + head, 0, all - head);
    for (size_t i = 0; r.bytes && i < r.count; i++)
        memcpy((uint8_t *)room + room_at(&r, i), (const uint8_t *)data + i * r.bytes, r.bytes);
}

void hyp_pad_out(const hyp_pad *pad, void *data, const void *room)
{
    const runs r = find_runs(pad);
    for (size_t i = 0; r.bytes && i < r.count; i++)
        memmove((uint8_t *)data + i * r.bytes, (const uint8_t *)room + room_at(&r, i), r.bytes);
}

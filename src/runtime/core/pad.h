/* pad.h - tensors of the caller's that have fewer parts than a run: a box in the corner of a larger one. */
#ifndef HYP_RUNTIME_CORE_PAD_H
#define HYP_RUNTIME_CORE_PAD_H

#include <stdbool.h>

#include "hypatia/types.h"

typedef struct hyp_pad {
    bool used; /* false: the tensor has as many as the run */
    int32_t rank;
    int64_t dims[HYP_MAX_RANK]; /* of the caller's tensor */
    int64_t room[HYP_MAX_RANK]; /* of the run's: on no axis fewer */
    size_t element_bytes;
} hyp_pad;

size_t hyp_pad_bytes(const int64_t *dims, int32_t rank, size_t element_bytes);
/* Copies between the caller's tensor and the run's, both dense and in the host's memory: in, where all else becomes
 * zeros, and out, also within one place: data == room. */
void hyp_pad_in(const hyp_pad *pad, void *room, const void *data);
void hyp_pad_out(const hyp_pad *pad, void *data, const void *room);

#endif

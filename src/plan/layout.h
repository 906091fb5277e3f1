/* layout.h - the header of a plan file and its checksums; private to the plan layer. docs/plan-format.md is the
 * description for other readers.
 */
#ifndef HYP_PLAN_LAYOUT_H
#define HYP_PLAN_LAYOUT_H

#include "base/strbuf.h"
#include "plan/plan.h"

/* Byte positions in the header; numbers are little-endian. Bytes between DEVICE_HASH + 8 and HEADER_HASH are 0. */
enum {
    AT_MAGIC = 0,
    AT_MAJOR = 8,
    AT_MINOR = 12,
    AT_FILE_BYTES = 16,
    AT_PROGRAM = 24, /* three u64: offset, bytes, hash */
    AT_WEIGHTS = 48,
    AT_DEVICE = 72,
    AT_HEADER_HASH = 248 /* of the bytes before it */
};

typedef struct section {
    uint64_t offset, bytes, hash;
} section;

typedef struct header {
    uint32_t major, minor;
    uint64_t file_bytes;
    section program, weights, device;
} header;

/* A program of a large model has some ten thousand bytes; more than this is no program. */
#define HYP_PLAN_MAX_PROGRAM ((uint64_t)64 << 20)
/* And a tuned product has some hundred. */
#define HYP_PLAN_MAX_DEVICE ((uint64_t)16 << 20)

static inline uint64_t align_up(uint64_t n) { return (n + HYP_PLAN_ALIGN - 1) & ~(uint64_t)(HYP_PLAN_ALIGN - 1); }

static inline uint64_t load_le(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static inline void store_le(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static inline section load_section(const uint8_t *p)
{
    return (section){load_le(p, 8), load_le(p + 8, 8), load_le(p + 16, 8)};
}

/* The fields of a header as they are in the file. */
static inline header load_header(const uint8_t *bytes)
{
    return (header){
        .major = (uint32_t)load_le(bytes + AT_MAJOR, 4),
        .minor = (uint32_t)load_le(bytes + AT_MINOR, 4),
        .file_bytes = load_le(bytes + AT_FILE_BYTES, 8),
        .program = load_section(bytes + AT_PROGRAM),
        .weights = load_section(bytes + AT_WEIGHTS),
        .device = load_section(bytes + AT_DEVICE),
    };
}

/* Empty weights take no part in placing, hashing and writing; their offset is 0. */
static inline bool has_weight_bytes(const HypPlan__Tensor *t)
{
    return t->place == HYP_PLAN__PLACE__PLACE_WEIGHT && t->bytes > 0;
}

/* The checksum of the weights is chained over the tensors in their order, so that it can be made while they
 * stream: h = XXH3(tensor, seed h), from 0. Padding is 0 and checked as such. */
static inline uint64_t chain_weight(uint64_t h, const void *data, uint64_t bytes)
{
    return hyp_hash(data, (size_t)bytes, h);
}

#endif

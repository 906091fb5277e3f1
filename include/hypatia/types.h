/* hypatia/types.h - element types and tensor views shared by the compiler and the runtime. */
#ifndef HYPATIA_TYPES_H
#define HYPATIA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "hypatia/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The release that the headers belong to; the build takes it from here. hyp_version() says that of the library in use. */
#define HYP_VERSION_MAJOR 0
#define HYP_VERSION_MINOR 1
#define HYP_VERSION_PATCH 0
#define HYP_VERSION HYP_VERSION_TEXT_(HYP_VERSION_MAJOR, HYP_VERSION_MINOR, HYP_VERSION_PATCH) /* "0.1.0" */
/* For #if: HYP_VERSION_NUMBER >= HYP_VERSION_OF(0, 2, 0). */
#define HYP_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define HYP_VERSION_NUMBER HYP_VERSION_OF(HYP_VERSION_MAJOR, HYP_VERSION_MINOR, HYP_VERSION_PATCH)
#define HYP_VERSION_TEXT_(major, minor, patch) HYP_VERSION_JOINED_(major, minor, patch)
#define HYP_VERSION_JOINED_(major, minor, patch) #major "." #minor "." #patch

/* Highest rank of a tensor anywhere in Hypatia. */
#define HYP_MAX_RANK 8

/* Element types. The numbers are those of ONNX's TensorProto.DataType, so that dumps and files of both
 * agree; they are part of the plan format. */
typedef enum hyp_dtype {
    HYP_DTYPE_NONE = 0,
    HYP_F32 = 1,
    HYP_U8 = 2,
    HYP_I8 = 3,
    HYP_U16 = 4,
    HYP_I16 = 5,
    HYP_I32 = 6,
    HYP_I64 = 7,
    HYP_BOOL = 9, /* one byte, 0 or 1 */
    HYP_F16 = 10,
    HYP_F64 = 11,
    HYP_U32 = 12,
    HYP_U64 = 13,
    HYP_BF16 = 16,
    HYP_F8E4M3 = 17 /* ONNX's FLOAT8E4M3FN: 4 bits of exponent, 3 of mantissa, up to 448, NaN but no infinities */
} hyp_dtype;

/* Bytes of one element, 0 for an unknown type. */
HYP_API size_t hyp_dtype_size(hyp_dtype dtype);
/* "f32", "bf16", "f8e4m3", "i64", "bool", ...; "?" for an unknown type. */
HYP_API const char *hyp_dtype_name(hyp_dtype dtype);
/* The type of a name as printed by hyp_dtype_name, HYP_DTYPE_NONE if there is none. */
HYP_API hyp_dtype hyp_dtype_parse(const char *name);

/* `text` as it may be shown: control characters, which could move a terminal's cursor or begin a line, and bytes that are no
 * UTF-8 are written as \x1b. Names come from models, and models from anywhere. As snprintf: at most `size` bytes with the
 * NUL are written, and the length of the whole is returned. */
HYP_API size_t hyp_visible(const char *text, char *out, size_t size);

/* Where a tensor's bytes live. */
typedef enum hyp_memory {
    HYP_MEMORY_HOST = 0,
    HYP_MEMORY_CUDA = 1,
    HYP_MEMORY_CONTEXT = 2 /* of an output: the run is to give it, see hyp_context_run. The host's, to whoever reads it then */
} hyp_memory;

/* Structs and releases. A struct that a later release may add fields to, at its end, starts with `size`, its sizeof; whoever
 * makes one sets it. Of what a program gives, the library reads no more than the size says, and takes the defaults for the
 * rest; a field beyond those that the library knows must be 0, or the call is HYP_ERR_UNSUPPORTED. Of what a program has filled
 * in, the library writes no more, and zeros beyond what it knows. What the library hands out by pointer has the library's
 * size: a field beyond it is not there. Such structs are never handed out in arrays. Others, hyp_tensor and hyp_diag above
 * all, stay as they are for as long as the major version does. hypatia/egraph.h, which makes no plan run, is not bound by this. */

/* A view of a dense row-major tensor in the caller's memory. Owns nothing. */
typedef struct hyp_tensor {
    const char *name; /* of the input or output; NULL = by position */
    void *data;       /* may be NULL when the tensor has no elements */
    size_t bytes;     /* size of the memory at data: for an output, its capacity */
    hyp_dtype dtype;
    hyp_memory memory;
    int32_t rank;
    uint32_t reserved; /* 0: other numbers are refused, so that they may come to mean something */
    int64_t dims[HYP_MAX_RANK];
} hyp_tensor;

#ifdef __cplusplus
}
#endif
#endif

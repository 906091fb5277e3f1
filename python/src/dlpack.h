/* dlpack.h - the structs of DLPack 1 (https://dmlc.github.io/dlpack), by which array libraries of one process lend each
 * other memory: names are ours, the layout is the standard's. */
#ifndef HYP_PYTHON_DLPACK_H
#define HYP_PYTHON_DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_CUDA_MANAGED = 13 };
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_BOOL = 6, DLPACK_F8E4M3FN = 10 };
/* What `stream` of __dlpack__ is for CUDA's legacy default stream; other numbers are handles of streams. */
enum { DLPACK_LEGACY_STREAM = 1 };

typedef struct dlpack_device {
    int32_t type, index;
} dlpack_device;

typedef struct dlpack_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dlpack_dtype;

typedef struct dlpack_tensor {
    void *data;
    dlpack_device device;
    int32_t rank;
    dlpack_dtype dtype;
    int64_t *dims;
    int64_t *strides; /* in elements; NULL: dense and row-major */
    uint64_t offset;  /* bytes from data to the first element */
} dlpack_tensor;

/* Of the capsule "dltensor". */
typedef struct dlpack_managed {
    dlpack_tensor tensor;
    void *owner;
    void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

typedef struct dlpack_version {
    uint32_t major, minor;
} dlpack_version;

/* Of the capsule "dltensor_versioned". */
typedef struct dlpack_versioned {
    dlpack_version version;
    void *owner;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags; /* 1: read-only */
    dlpack_tensor tensor;
} dlpack_versioned;

/* Of the capsule "dlpack_exchange_api", an attribute of types: the same without Python in between. All return 0, or -1
 * with an exception set. */
typedef struct dlpack_exchange {
    dlpack_version version;
    struct dlpack_exchange *older;
    int (*allocate)(dlpack_tensor *like, dlpack_versioned **out, void *user,
                    void (*fail)(void *user, const char *kind, const char *message));
    int (*lend_owned)(void *object, dlpack_versioned **out);
    int (*take)(dlpack_versioned *tensor, void **out_object); /* the tensor is the object's from then on */
    int (*lend)(void *object, dlpack_tensor *out);            /* borrowed from the object; may be NULL */
    int (*stream)(int32_t device_type, int32_t device_index, void **out);
} dlpack_exchange;

#endif

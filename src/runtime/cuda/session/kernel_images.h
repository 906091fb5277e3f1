/* kernel_images.h - machine code of generated kernels, loaded onto the device once for all steps that share it. */
#ifndef HYP_RUNTIME_CUDA_SESSION_KERNEL_IMAGES_H
#define HYP_RUNTIME_CUDA_SESSION_KERNEL_IMAGES_H

#include "plan/plan.h"
#include "runtime/cuda/driver/library.h"

/* The image that an entry of tuning has, known by the address of its bytes. */
typedef struct hyp_cuda_image {
    const uint8_t *data; /* borrowed */
    CUmodule module;     /* NULL: the driver refused it */
    CUfunction function;
} hyp_cuda_image;

/* Zero-initialise. Its owner unloads what is in it, and has the bytes as long. */
typedef struct hyp_cuda_images {
    HYP_VEC(hyp_cuda_image) list;
} hyp_cuda_images;

/* Loads machine code, and finds a kernel in it; the context must be current. HYP_ERR_DEVICE with a message when it is
 * damaged, not for this device or driver, or has no such kernel. */
HYP_NODISCARD hyp_status hyp_cuda_image_open(const hyp_cuda_library *lib, const uint8_t *data, size_t bytes,
                                             CUmodule *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_image_find(const hyp_cuda_library *lib, CUmodule module, const char *name,
                                             CUfunction *out, hyp_diag *diag);

/* Loads one image of one kernel; the context must be current. HYP_ERR_DEVICE with a message when it is damaged, or not for this
 * device or driver. */
HYP_NODISCARD hyp_status hyp_cuda_image_load(const hyp_cuda_library *lib, const uint8_t *data, size_t bytes,
                                             hyp_cuda_image *out, hyp_diag *diag);

/* NULL when the list does not have it. */
const hyp_cuda_image *hyp_cuda_images_find(const hyp_cuda_images *images, const uint8_t *data);
/* Loads an image into the list; `why` says why one has no module, and may be NULL. The result is borrowed until the
 * next is added. */
HYP_NODISCARD hyp_status hyp_cuda_images_add(hyp_cuda_images *images, const hyp_cuda_library *lib,
                                             const ProtobufCBinaryData *bytes, const hyp_cuda_image **out,
                                             hyp_diag *why, hyp_diag *diag);
void hyp_cuda_images_dispose(hyp_cuda_images *images, const hyp_cuda_library *lib);

#endif

#include "runtime/cuda/session/kernel_images.h"

#include <elf.h>
#include <string.h>

#include "runtime/cuda/ops/pointwise_source.h"

/* The driver is told no size, so what it would look at first is looked at here: that it is machine code, and all of it.
 */
static bool is_whole(const uint8_t *data, size_t bytes)
{
    Elf64_Ehdr head;
    if (bytes < sizeof head) return false;
    memcpy(&head, data, sizeof head);
    size_t sections = (size_t)head.e_shnum * head.e_shentsize, parts = (size_t)head.e_phnum * head.e_phentsize;
    return memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 &&
           head.e_shoff <= bytes && sections <= bytes - head.e_shoff && head.e_phoff <= bytes &&
           parts <= bytes - head.e_phoff;
}

static const char loading[] = "loading a generated kernel";

hyp_status hyp_cuda_image_open(const hyp_cuda_library *lib, const uint8_t *data, size_t bytes, CUmodule *out,
                               hyp_diag *diag)
{
    if (!is_whole(data, bytes))
        return hyp_fail(diag, HYP_ERR_DEVICE, "a generated kernel of %zu bytes is damaged; tune the plan again", bytes);
    return hyp_cuda_check(lib, lib->cuModuleLoadData(out, data), loading, diag);
}

hyp_status hyp_cuda_image_find(const hyp_cuda_library *lib, CUmodule module, const char *name, CUfunction *out,
                               hyp_diag *diag)
{
    int registers; /* asking for anything loads a kernel that the driver has put off */
    HYP_TRY(hyp_cuda_check(lib, lib->cuModuleGetFunction(out, module, name), loading, diag));
    return hyp_cuda_check(lib, lib->cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *out), loading, diag);
}

hyp_status hyp_cuda_image_load(const hyp_cuda_library *lib, const uint8_t *data, size_t bytes, hyp_cuda_image *out,
                               hyp_diag *diag)
{
    hyp_cuda_image image = {.data = data};
    HYP_TRY(hyp_cuda_image_open(lib, data, bytes, &image.module, diag));
    hyp_status status = hyp_cuda_image_find(lib, image.module, HYP_CUDA_GENERATED_NAME, &image.function, diag);
    if (status == HYP_OK)
        *out = image;
    else
        lib->cuModuleUnload(image.module);
    return status;
}

const hyp_cuda_image *hyp_cuda_images_find(const hyp_cuda_images *images, const uint8_t *data)
{
    for (size_t i = 0; i < images->list.len; i++)
        if (images->list.data[i].data == data) return &images->list.data[i];
    return NULL;
}

hyp_status hyp_cuda_images_add(hyp_cuda_images *images, const hyp_cuda_library *lib, const ProtobufCBinaryData *bytes,
                               const hyp_cuda_image **out, hyp_diag *why, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_grow(&images->list, diag));
    hyp_cuda_image *image = &images->list.data[images->list.len - 1];
    *image = (hyp_cuda_image){.data = bytes->data};
    *out = image;
    hyp_status status = hyp_cuda_image_load(lib, bytes->data, bytes->len, image, why);
    return status == HYP_OK || status == HYP_ERR_DEVICE ? HYP_OK : hyp_fail(diag, status, "%s", why->message);
}

void hyp_cuda_images_dispose(hyp_cuda_images *images, const hyp_cuda_library *lib)
{
    for (size_t i = 0; i < images->list.len; i++)
        if (images->list.data[i].module) lib->cuModuleUnload(images->list.data[i].module);
    hyp_vec_free(&images->list);
}

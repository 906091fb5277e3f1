#include "base/sized.h"

#include <string.h>

enum { MOST = 1 << 16 }; /* bytes of a struct of any release: a larger size is a mistake of the caller */

static size_t size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

static hyp_status check_size(size_t size, const char *name, const char *type, hyp_diag *diag)
{
    if (size >= sizeof size && size <= MOST) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s->size is %zu: set it to sizeof(%s)", name, size, type);
}

hyp_status hyp_sized_take_(void *own, size_t own_size, const void *given, const char *type, hyp_diag *diag)
{
    if (!given) return HYP_OK;
    size_t size = size_of(given), common = size < own_size ? size : own_size;
    HYP_TRY(check_size(size, "options", type, diag));
    for (size_t i = own_size; i < size; i++)
        if (((const char *)given)[i])
            return hyp_fail(
                diag, HYP_ERR_UNSUPPORTED,
                "options->size is %zu, this library knows %zu bytes of a %s, and one beyond them is set: use "
                "the header of the library, or a newer library",
                size, own_size, type);
    memcpy((char *)own + sizeof size, (const char *)given + sizeof size, common - sizeof size);
    return HYP_OK;
}

hyp_status hyp_sized_want_(const void *out, const char *type, hyp_diag *diag)
{
    return check_size(size_of(out), "out", type, diag);
}

bool hyp_sized_give_(void *out, const void *own, size_t own_size)
{
    size_t size = size_of(out), common = size < own_size ? size : own_size;
    if (size < sizeof size || size > MOST) return false;
    memcpy((char *)out + sizeof size, (const char *)own + sizeof size, common - sizeof size);
    if (size > common) memset((char *)out + common, 0, size - common);
    return true;
}

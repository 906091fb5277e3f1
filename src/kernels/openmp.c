#include "kernels/openmp.h"

#include <dlfcn.h>
#include <stddef.h>

void *hyp_openmp_symbol(const char *name)
{
    static const char *const libraries[] = {"libgomp.so.1", "libomp.so.5", "libiomp5.so"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        void *symbol = library ? dlsym(library, name) : NULL;
        if (library) dlclose(library); /* oneDNN keeps it loaded */
        if (symbol) return symbol;
    }
    return NULL;
}

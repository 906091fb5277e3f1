#include "kernels/openmp.h"

#include <dlfcn.h>

void *hyp_openmp_symbol(const char *name) { return dlsym(RTLD_DEFAULT, name); }

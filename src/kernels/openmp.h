/* openmp.h - the OpenMP runtime that oneDNN uses, found while the program runs. It is not linked, since a compiler's own
 * OpenMP library may be a different one.
 */
#ifndef HYP_KERNELS_OPENMP_H
#define HYP_KERNELS_OPENMP_H

/* A function of it, looked up as the linker has done for oneDNN, which is loaded with us: of several runtimes in a process the
 * same. NULL where there is none. */
void *hyp_openmp_symbol(const char *name);

#endif

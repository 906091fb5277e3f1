/* openmp.h - the OpenMP runtime that oneDNN brought along, found while the program runs. It is not linked, since a
 * compiler's own OpenMP library may be a different one.
 */
#ifndef HYP_KERNELS_OPENMP_H
#define HYP_KERNELS_OPENMP_H

/* A function of it; NULL where none is loaded. Loads nothing. */
void *hyp_openmp_symbol(const char *name);

#endif

/* dnnl_memory.h - what the files on oneDNN share: the engine, failures, packed weights. */
#ifndef HYP_RUNTIME_CPU_DNNL_MEMORY_H
#define HYP_RUNTIME_CPU_DNNL_MEMORY_H

#include "runtime/cpu/dnnl.h"
#include "runtime/cpu/dnnl_compat.h"

dnnl_engine_t hyp_dnnl_engine(const hyp_dnnl *dnnl);
hyp_status hyp_dnnl_fail(hyp_diag *diag, dnnl_status_t status, const char *what);

/* Immutable once made. hyp_dnnl_packed_destroy frees a whole list. */
struct hyp_dnnl_packed {
    hyp_md md;
    dnnl_memory_t memory;
    void *buffer;          /* NULL when the plan's own bytes already have the layout */
    const void *data;      /* of the plan, and whether it is taken for [k,n]; for linears alone */
    bool kn;
    hyp_dnnl_packed *next; /* of the list that owns it: the same weights in another layout, or those of other linears */
};
/* Packs data, which lie as `plain` says and stay valid, as `wanted`. */
HYP_NODISCARD hyp_status hyp_dnnl_pack_memory(const hyp_dnnl *dnnl, hyp_md_ref plain, const void *data,
                                              hyp_md_ref wanted, hyp_dnnl_packed **out, hyp_diag *diag);

#endif

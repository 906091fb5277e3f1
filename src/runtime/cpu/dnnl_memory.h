/* dnnl_memory.h - what the files on oneDNN share: the engine, failures, packed weights. */
#ifndef HYP_RUNTIME_CPU_DNNL_MEMORY_H
#define HYP_RUNTIME_CPU_DNNL_MEMORY_H

#include "runtime/cpu/dnnl.h"
#include "runtime/cpu/dnnl_compat.h"

dnnl_engine_t hyp_dnnl_engine(const hyp_dnnl *dnnl);
hyp_status hyp_dnnl_fail(hyp_diag *diag, dnnl_status_t status, const char *what);
/* Runs a primitive on the calling thread alone, whose number in the run is `thread`, and waits for it. */
dnnl_status_t hyp_dnnl_execute(const hyp_cpu_run *run, int thread, dnnl_primitive_t primitive, int count,
                               const dnnl_exec_arg_t *args);
/* How many of `size` rows or images make a part: one part for each thread, or two where the smaller ones still have
 * `many`. */
int64_t hyp_dnnl_part(int64_t size, int threads, int64_t many);

/* Immutable once made. hyp_dnnl_packed_destroy frees a whole list. */
struct hyp_dnnl_packed {
    hyp_md md;
    dnnl_memory_t memory;
    void *buffer;     /* NULL when the plan's own bytes already have the layout */
    const void *data; /* of the plan, and whether it is taken for [k,n]; for linears alone */
    bool kn;
    hyp_dnnl_packed *next; /* of the list that owns it: the same weights in another layout, or those of other linears */
};
/* Packs data, which lie as `plain` says, as `wanted`. What `stays` valid is not copied where it lies so already. */
HYP_NODISCARD hyp_status hyp_dnnl_pack_memory(const hyp_dnnl *dnnl, hyp_md_ref plain, const void *data, bool stays,
                                              hyp_md_ref wanted, hyp_dnnl_packed **out, hyp_diag *diag);

/* ---- dnnl_products.c ---------------------------------------------------------------------------------------- */

/* The arguments of a product. */
enum {
    HYP_DNNL_SRC,
    HYP_DNNL_WEIGHTS,
    HYP_DNNL_BIAS,
    HYP_DNNL_DST,
    HYP_DNNL_ADDED,
    HYP_DNNL_SCRATCHPAD,
    HYP_DNNL_ARGUMENTS
};

/* One prepared primitive, of a part of the rows or matrices. Its memories get their addresses in every run. */
typedef struct hyp_dnnl_product {
    dnnl_primitive_t primitive;
    int names[HYP_DNNL_ARGUMENTS];            /* of the arguments; 0 where absent */
    dnnl_memory_t shared;                     /* packed weights, or NULL */
    uint32_t tensors[HYP_DNNL_SCRATCHPAD];    /* whose address the arguments take */
    size_t step_bytes[HYP_DNNL_SCRATCHPAD];   /* what a row or matrix adds to that address */
    size_t thread_bytes[HYP_DNNL_SCRATCHPAD]; /* what the thread's number adds: to hidden values of a tile */
    dnnl_memory_t (*own)[HYP_DNNL_ARGUMENTS]; /* by thread; NULL where absent or shared */
} hyp_dnnl_product;

/* A step: `count` products, one after the other, for every part, then, where the size is no whole number of parts, as
 * many for the last one. */
typedef struct hyp_dnnl_products {
    int64_t size, part;   /* in rows or matrices */
    int64_t grain;        /* parts that are worth a thread */
    int threads;          /* that can have one at a time */
    size_t scratch_bytes; /* of work, for each of them */
    size_t count;
    hyp_dnnl_product items[]; /* 2 * count */
} hyp_dnnl_products;

/* Makes the primitive of `pd` (which it takes over) and its memories. The tensors are indexes + 1, 0 where absent.
 * shared: the packed weights, or NULL. added_arg: the number of the argument ADDED, if there is one. */
HYP_NODISCARD hyp_status hyp_dnnl_make_product(const hyp_dnnl *d, dnnl_primitive_desc_t pd,
                                               const uint32_t tensors_plus1[HYP_DNNL_SCRATCHPAD], int added_arg,
                                               dnnl_memory_t shared, hyp_dnnl_products *s, hyp_dnnl_product *p,
                                               hyp_diag *diag);
/* `count` products for parts of `part` of `size` rows or matrices, all of which are so many flops. NULL: no memory. */
hyp_dnnl_products *hyp_dnnl_products_create(size_t count, int64_t size, int64_t part, int threads, double flops);
/* Gives the finished products to the op; `complete` false means that oneDNN lacks one of them. */
HYP_NODISCARD hyp_status hyp_dnnl_finish_products(hyp_cpu_op *op, hyp_dnnl_products *s, hyp_status status,
                                                  bool complete);

#endif

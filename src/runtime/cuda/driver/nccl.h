/* nccl.h - NCCL 2, loaded at run time for groups of processes: sums over their GPUs.
 *
 * NCCL is no part of a CUDA toolkit, so what is used of it is declared here: numbers and types of nccl.h of 2.10 and newer.
 */
#ifndef HYP_RUNTIME_CUDA_DRIVER_NCCL_H
#define HYP_RUNTIME_CUDA_DRIVER_NCCL_H

#include <cuda.h>
#include <stddef.h>

#include "hypatia/runtime.h"

enum {
    HYP_NCCL_OLDEST = 21000, /* 2.10.0, the first that has means; of 2.27.3 ncclGetVersion gives 22703 */
    HYP_NCCL_HALF = 6,
    HYP_NCCL_FLOAT = 7,
    HYP_NCCL_DOUBLE = 8,
    HYP_NCCL_BFLOAT16 = 9,
    HYP_NCCL_SUM = 0,
    HYP_NCCL_MEAN = 4,
};

/* ncclUniqueId, which is passed by value */
typedef struct hyp_nccl_id {
    unsigned char bytes[HYP_GROUP_ID_BYTES];
} hyp_nccl_id;

/* Every function that the backend calls: result, name, arguments. An ncclResult_t is an int, an ncclComm_t a pointer. */
#define HYP_NCCL_CALLS(X)                                                                                              \
    X(int, ncclGetVersion, (int *version))                                                                             \
    X(const char *, ncclGetErrorString, (int result))                                                                  \
    X(int, ncclGetUniqueId, (hyp_nccl_id *id))                                                                         \
    X(int, ncclCommInitRank, (void **comm, int size, hyp_nccl_id id, int rank))                                        \
    X(int, ncclCommDestroy, (void *comm))                                                                              \
    X(int, ncclGroupStart, (void))                                                                                     \
    X(int, ncclGroupEnd, (void))                                                                                       \
    X(int, ncclAllReduce,                                                                                              \
      (const void *from, void *to, size_t count, int type, int reduction, void *comm, CUstream stream))

/* Table of the functions. Immutable once open. */
typedef struct hyp_nccl {
    void *library; /* handle of dlopen */
#define X(result, name, arguments) result(*name) arguments;
    HYP_NCCL_CALLS(X)
#undef X
} hyp_nccl;

/* HYP_OK for success, else HYP_ERR_DEVICE with "<what> failed: NCCL status ... (...)". */
HYP_NODISCARD hyp_status hyp_nccl_check(const hyp_nccl *nccl, int result, const char *what, hyp_diag *diag);

/* What the CUDA backend has of a group: handle of hyp_group. */
typedef struct hyp_cuda_group hyp_cuda_group;
const hyp_nccl *hyp_cuda_group_nccl(const hyp_cuda_group *group);
void *hyp_cuda_group_comm(const hyp_cuda_group *group);

/* hyp_backend.group_make_id, _join and _leave */
HYP_NODISCARD hyp_status hyp_cuda_group_make_id(unsigned char out[HYP_GROUP_ID_BYTES], hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_group_join(const unsigned char id[HYP_GROUP_ID_BYTES], int32_t rank, int32_t size,
                                             int32_t device_index, void **out_handle, hyp_diag *diag);
void hyp_cuda_group_leave(void *handle);

#endif

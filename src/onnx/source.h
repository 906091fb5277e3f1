/* source.h - the bytes behind a model: its own and those of its external data files. */
#ifndef HYP_ONNX_SOURCE_H
#define HYP_ONNX_SOURCE_H

#include "base/file.h"

typedef struct hyp_onnx_external {
    const char *path; /* resolved, in the source's arena */
    hyp_mapping map;
} hyp_onnx_external;

/* Zero-initialise, then set file, folder, data and size. Everything that tensors of the model point to
 * belongs to it. */
typedef struct hyp_onnx_source {
    const char *file;    /* for messages */
    const char *folder;  /* where external data is looked up; NULL refuses it */
    const uint8_t *data; /* the model's bytes: `map`, or the caller's memory */
    size_t size;
    hyp_mapping map;
    HYP_VEC(hyp_onnx_external) externals; /* in order of first use */
    hyp_arena arena;
} hyp_onnx_source;

void hyp_onnx_source_dispose(hyp_onnx_source *source);

/* The mapping of the external data file at `location`, relative to the folder; mapped once. A location that
 * is absolute, contains ".." or leads out of the folder through a link is refused. */
HYP_NODISCARD hyp_status hyp_onnx_source_external(hyp_onnx_source *source, const char *location,
                                                  const hyp_mapping **out, hyp_diag *diag);

/* See hyp_onnx_model_forget. */
void hyp_onnx_source_forget(const hyp_onnx_source *source, const void *data, size_t size);

#endif

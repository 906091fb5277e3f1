/* onnx.h - ONNX models in and out of the tensor graph. Sees ir and base; knows nothing of rewriting. */
#ifndef HYP_ONNX_ONNX_H
#define HYP_ONNX_ONNX_H

#include "ir/ir.h"

/* Keeps what an imported graph borrows: the mapped model file and external data files. Must outlive the
 * graph. */
typedef struct hyp_onnx_model hyp_onnx_model;

typedef struct hyp_onnx_options {
    /* `--shapes x:32x784`: dims to use for an input, in place of what the model declares. -1 leaves one as
     * declared. */
    const hyp_tensor *shapes; /* name, rank and dims are read */
    size_t shape_count;
    /* `--dim batch=32`: sizes for symbolic dims by name. */
    const char *const *dim_names;
    const int64_t *dim_values;
    size_t dim_count;
} hyp_onnx_options;

/* Reads a model file into `g` (initialised and empty; it belongs to the same dims). Weights are not copied:
 * they point into the mapping. Unsupported operators are all listed in one message with counts and node
 * names (HYP_ERR_UNSUPPORTED); bad bytes, cycles, wrong ranks, duplicate or missing names, missing external
 * data are HYP_ERR_MALFORMED, both naming file and node. On failure *out_model is untouched. */
HYP_NODISCARD hyp_status hyp_onnx_import(const char *path, const hyp_onnx_options *options, hyp_graph *g,
                                         hyp_onnx_model **out_model, hyp_diag *diag);
/* The same from memory, which must outlive the model; `folder` is where external data is looked up, NULL
 * refuses it. */
HYP_NODISCARD hyp_status hyp_onnx_import_memory(const void *data, size_t size, const char *file, const char *folder,
                                                const hyp_onnx_options *options, hyp_graph *g,
                                                hyp_onnx_model **out_model, hyp_diag *diag);
void hyp_onnx_model_destroy(hyp_onnx_model *model); /* NULL-safe */

/* Tells that bytes of a constant of this model will not be read soon, so that their pages may go. */
void hyp_onnx_model_forget(const hyp_onnx_model *model, const void *data, size_t size);

typedef struct hyp_onnx_info {
    const char *producer, *graph_name;
    int64_t ir_version, opset;
    size_t file_bytes;  /* model file and external data */
    uint64_t hash;      /* of the model file */
} hyp_onnx_info;
hyp_onnx_info hyp_onnx_model_info(const hyp_onnx_model *model);

#endif

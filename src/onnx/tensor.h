/* tensor.h - the elements of a TensorProto, whatever their encoding. */
#ifndef HYP_ONNX_TENSOR_H
#define HYP_ONNX_TENSOR_H

#include "hypatia/types.h"
#include "onnx.pb-c.h"
#include "onnx/source.h"

/* Reads a tensor that hyp_wire_unpack took from source->data into source->arena. out->data is to be read
 * only, lives as long as the source and has no alignment: it is the file's own bytes (raw, external, packed
 * floats) where these are the elements as they are, else decoded in the arena. out->name is the tensor's,
 * NULL if it has none.
 * HYP_ERR_UNSUPPORTED for an element type or rank that Hypatia lacks, HYP_ERR_MALFORMED for data that does
 * not fit the type and dims, or external data that is missing or out of bounds. Messages name the tensor
 * but not the file. */
HYP_NODISCARD hyp_status hyp_onnx_tensor_read(hyp_onnx_source *source, const HypOnnx__TensorProto *proto,
                                              hyp_tensor *out, hyp_diag *diag);

/* "float8e4m3fn"-like name of an element type number for messages; "?" if ONNX has none. */
const char *hyp_onnx_dtype_name(int32_t data_type);

#endif

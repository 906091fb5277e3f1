/* skeleton.h - a model without the elements of initializers that have other ones later, as a training changes them, and
 * with elements again.
 */
#ifndef HYP_ONNX_SKELETON_H
#define HYP_ONNX_SKELETON_H

#include "base/strbuf.h"
#include "hypatia/types.h"
#include "onnx/source.h"

/* Appends a ModelProto that is the source's, field by field as it stands there, but that initializers of its graph with
 * these names have no elements, that what is in other files is in the message, and that it says nothing of how it was
 * trained. The source was imported. HYP_ERR_LIMIT where it takes more than `most` bytes. Thread-compatible. */
HYP_NODISCARD hyp_status hyp_onnx_skeleton_make(hyp_onnx_source *source, const char *const *names, size_t count,
                                                size_t most, hyp_strbuf *out, hyp_diag *diag);

/* Writes the skeleton to `file`, its initializers without elements with those of `tensors`, which are found by name;
 * tensors of other names are left out. `what` calls the skeleton, which may be any bytes, in messages.
 * HYP_ERR_MALFORMED where it is none, HYP_ERR_INVALID_ARGUMENT where a tensor is missing or of another type or other
 * dims, HYP_ERR_LIMIT where the model would take more than the 2 GiB that a protobuf message may have. */
HYP_NODISCARD hyp_status hyp_onnx_skeleton_fill(const void *skeleton, size_t size, const char *what,
                                                const hyp_tensor *tensors, size_t count, hyp_outfile *file,
                                                hyp_diag *diag);

#endif

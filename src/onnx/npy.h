/* npy.h - the header of NumPy's .npy files. */
#ifndef HYP_ONNX_NPY_H
#define HYP_ONNX_NPY_H

#include "base/strbuf.h"
#include "hypatia/types.h"

/* Reads the header of format 1, 2 or 3: type, rank and dims of `out`, and where the elements start.
 * HYP_ERR_MALFORMED for anything else, HYP_ERR_UNSUPPORTED for types, byte orders and Fortran order that
 * Hypatia lacks; the message names `path`. */
HYP_NODISCARD hyp_status hyp_npy_read_header(const char *path, const uint8_t *data, size_t size, hyp_tensor *out,
                                             size_t *out_offset, hyp_diag *diag);

/* Appends a format 1 header, padded to a multiple of 64 bytes as NumPy does. */
void hyp_npy_write_header(hyp_strbuf *sb, const hyp_tensor *t);

#endif

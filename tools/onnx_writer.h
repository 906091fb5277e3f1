/* onnx_writer.h - writes small ONNX models, for measurements. Constants are made by ConstantOfShape, so that a model
 * stays small whatever its weights are.
 */
#ifndef HYPATIA_TOOLS_ONNX_WRITER_H
#define HYPATIA_TOOLS_ONNX_WRITER_H

#include <stddef.h>

#include "hypatia/types.h"

/* A protobuf message as it grows. */
typedef struct onnx_bytes {
    unsigned char *data;
    size_t len, room;
} onnx_bytes;

/* A graph; zero-initialise, dispose of. */
typedef struct onnx_model {
    onnx_bytes graph;
} onnx_model;

void onnx_model_dispose(onnx_model *m);
void onnx_add_input(onnx_model *m, const char *name, hyp_dtype type, int rank, const int64_t *dims);
void onnx_add_output(onnx_model *m, const char *name, hyp_dtype type, int rank, const int64_t *dims);
/* A constant of this shape (f32, f64 or i64), every element `value`. */
void onnx_add_constant(onnx_model *m, const char *name, hyp_dtype type, int rank, const int64_t *dims, double value);
/* An initializer of few elements of f32, every one `value`: a parameter to a training. */
void onnx_add_initializer(onnx_model *m, const char *name, int rank, const int64_t *dims, float value);
/* A list of integers, or one when count is 0. */
typedef struct onnx_attr {
    const char *name; /* NULL = none */
    const int64_t *ints;
    size_t count;
    int64_t i;
} onnx_attr;
/* A node with up to three inputs (NULL = none) and attributes. */
typedef struct onnx_node {
    const char *op, *inputs[3], *output;
    onnx_attr attrs[3];
} onnx_node;
void onnx_add_node(onnx_model *m, const onnx_node *node);
/* Writes the model into an open file. An exit code after a message. */
int onnx_write(const onnx_model *m, int fd, const char *tool);

#endif

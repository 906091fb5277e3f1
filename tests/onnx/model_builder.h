/* model_builder.h - ONNX models for tests, written as short text. */
#ifndef HYP_TESTS_MODEL_BUILDER_H
#define HYP_TESTS_MODEL_BUILDER_H

#include "onnx.pb-c.h"
#include "onnx/onnx.h"

enum { MB_MAX = 32 };

/* Strings and arrays live in the arena; a failed allocation ends the test. Fields of the messages may be
 * changed before packing. May be moved until it is packed. */
typedef struct model_builder {
    hyp_arena arena;
    HypOnnx__ModelProto model;
    HypOnnx__GraphProto graph;
    HypOnnx__OperatorSetIdProto opset;
    HypOnnx__OperatorSetIdProto *opsets[1];
    HypOnnx__NodeProto *nodes[MB_MAX];
    HypOnnx__TensorProto *initializers[MB_MAX];
    HypOnnx__ValueInfoProto *inputs[MB_MAX], *outputs[MB_MAX];
} model_builder;

void mb_init(model_builder *b, int64_t opset);
void mb_dispose(model_builder *b);

/* dims: "3 batch ?", "" for a scalar, NULL for no shape; "?" is a dim of unknown size. */
HypOnnx__ValueInfoProto *mb_value_info(model_builder *b, const char *name, hyp_dtype dtype, const char *dims);
void mb_input(model_builder *b, const char *name, hyp_dtype dtype, const char *dims);
void mb_output(model_builder *b, const char *name); /* without type */

/* values: "1 -2 0.5" in raw_data, NULL for zeros. */
HypOnnx__TensorProto *mb_tensor(model_builder *b, const char *name, hyp_dtype dtype, const char *dims,
                                const char *values);
HypOnnx__TensorProto *mb_const(model_builder *b, const char *name, hyp_dtype dtype, const char *dims,
                               const char *values);

/* inputs and outputs: names, "-" for an absent one. attributes: "axis=1 alpha=0.5 axes=[0,-1] mode=tanh":
 * an INT, a FLOAT (it has a '.'), INTS, a STRING. */
HypOnnx__NodeProto *mb_node(model_builder *b, const char *op, const char *inputs, const char *outputs,
                            const char *attributes);

/* Takes the last `count` nodes out of the model's graph. */
HypOnnx__NodeProto **mb_take_nodes(model_builder *b, size_t count);
/* A graph of the last `count` nodes as an attribute of another node, with these inputs and outputs, as of mb_node, without
 * types. */
void mb_graph(model_builder *b, HypOnnx__NodeProto *node, const char *attribute, const char *inputs, const char *outputs,
              size_t count);

/* The bytes of the model, from the arena. */
uint8_t *mb_pack(model_builder *b, size_t *out_size);

/* A model that has been imported, or not: status and diag say. The graph is initialised in both cases. */
typedef struct imported {
    hyp_status status;
    hyp_diag diag;
    hyp_dims *dims;
    hyp_graph graph;
    hyp_onnx_model *model;
    hyp_strbuf text; /* of the graph */
} imported;
void mb_import_bytes(const void *data, size_t size, const hyp_onnx_options *options, imported *out);
void mb_import(model_builder *b, const hyp_onnx_options *options, imported *out); /* disposes the builder */
void imported_dispose(imported *im);

#endif

/* The fields are those of onnx.proto; only what the measurements need is written. */
#include "onnx_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { IR_VERSION = 8, OPSET = 20 };

/* ---- protobuf ---------------------------------------------------------------------------------------- */

static void add_bytes(onnx_bytes *b, const void *data, size_t len)
{
    if (len > b->room - b->len) { /* b->len + len, which could wrap, is what gcc 14 warns of */
        b->room = 2 * (b->len + len);
        b->data = cli_alloc(b->data, b->room, 1);
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void add_varint(onnx_bytes *b, uint64_t value)
{
    unsigned char text[10];
    size_t len = 0;
    for (; value > 127; value >>= 7) text[len++] = (unsigned char)(value | 128);
    text[len++] = (unsigned char)value;
    add_bytes(b, text, len);
}

static void add_int(onnx_bytes *b, int field, int64_t value)
{
    add_varint(b, (uint64_t)field << 3);
    add_varint(b, (uint64_t)value);
}

static void add_block(onnx_bytes *b, int field, const void *data, size_t len)
{
    add_varint(b, (uint64_t)field << 3 | 2);
    add_varint(b, len);
    add_bytes(b, data, len);
}

static void add_text(onnx_bytes *b, int field, const char *text) { add_block(b, field, text, strlen(text)); }

/* A message as a field of another; it is disposed of. */
static void add_message(onnx_bytes *b, int field, onnx_bytes *message)
{
    add_block(b, field, message->data ? message->data : (const void *)"", message->len);
    free(message->data);
    *message = (onnx_bytes){0};
}

/* ---- the model --------------------------------------------------------------------------------------- */

enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum {
    ATTR_NAME = 1,
    ATTR_I = 3,
    ATTR_T = 5,
    ATTR_INTS = 8,
    ATTR_TYPE = 20,
    TYPE_INT = 2,
    TYPE_TENSOR = 4,
    TYPE_INTS = 7
};
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

void onnx_model_dispose(onnx_model *m)
{
    free(m->graph.data);
    *m = (onnx_model){0};
}

/* ValueInfoProto { name, type { tensor_type { elem_type, shape { dim { dim_value } } } } } */
static void add_value(onnx_model *m, int field, const char *name, hyp_dtype type, int rank, const int64_t *dims)
{
    onnx_bytes shape = {0}, tensor = {0}, of_tensor = {0}, value = {0};
    for (int i = 0; i < rank; i++) {
        onnx_bytes dim = {0};
        add_int(&dim, 1, dims[i]);
        add_message(&shape, 1, &dim);
    }
    add_int(&tensor, 1, type);
    add_message(&tensor, 2, &shape);
    add_message(&of_tensor, 1, &tensor);
    add_text(&value, 1, name);
    add_message(&value, 2, &of_tensor);
    add_message(&m->graph, field, &value);
}

void onnx_add_input(onnx_model *m, const char *name, hyp_dtype type, int rank, const int64_t *dims)
{
    add_value(m, GRAPH_INPUT, name, type, rank, dims);
}

void onnx_add_output(onnx_model *m, const char *name, hyp_dtype type, int rank, const int64_t *dims)
{
    add_value(m, GRAPH_OUTPUT, name, type, rank, dims);
}

void onnx_add_initializer(onnx_model *m, const char *name, int rank, const int64_t *dims, float value)
{
    onnx_bytes tensor = {0};
    size_t count = 1;
    for (int i = 0; i < rank; i++) {
        add_int(&tensor, TENSOR_DIMS, dims[i]);
        count *= (size_t)dims[i];
    }
    add_int(&tensor, TENSOR_TYPE, HYP_F32);
    add_text(&tensor, TENSOR_NAME, name);
    float *elements = cli_alloc(NULL, count, sizeof *elements);
    for (size_t i = 0; i < count; i++) elements[i] = value;
    add_block(&tensor, TENSOR_RAW, elements, count * sizeof *elements);
    free(elements);
    add_message(&m->graph, GRAPH_INITIALIZER, &tensor);
}

void onnx_add_constant(onnx_model *m, const char *name, hyp_dtype type, int rank, const int64_t *dims, double value)
{
    char shape_name[64];
    snprintf(shape_name, sizeof shape_name, "%.48s.shape", name);
    onnx_bytes shape = {0}, element = {0}, attr = {0}, node = {0};
    add_int(&shape, TENSOR_DIMS, rank);
    add_int(&shape, TENSOR_TYPE, HYP_I64);
    add_text(&shape, TENSOR_NAME, shape_name);
    add_block(&shape, TENSOR_RAW, dims, (size_t)rank * sizeof *dims);
    add_message(&m->graph, GRAPH_INITIALIZER, &shape);

    float single = (float)value;
    int64_t whole = (int64_t)value;
    const void *raw = type == HYP_F64 ? (const void *)&value : type == HYP_I64 ? (const void *)&whole : &single;
    add_int(&element, TENSOR_DIMS, 1);
    add_int(&element, TENSOR_TYPE, type);
    add_block(&element, TENSOR_RAW, raw, hyp_dtype_size(type));
    add_text(&attr, ATTR_NAME, "value");
    add_message(&attr, ATTR_T, &element);
    add_int(&attr, ATTR_TYPE, TYPE_TENSOR);
    add_text(&node, NODE_INPUT, shape_name);
    add_text(&node, NODE_OUTPUT, name);
    add_text(&node, NODE_OP, "ConstantOfShape");
    add_message(&node, NODE_ATTRIBUTE, &attr);
    add_message(&m->graph, GRAPH_NODE, &node);
}

void onnx_add_node(onnx_model *m, const onnx_node *n)
{
    onnx_bytes node = {0};
    for (int i = 0; i < 3 && n->inputs[i]; i++) add_text(&node, NODE_INPUT, n->inputs[i]);
    add_text(&node, NODE_OUTPUT, n->output);
    add_text(&node, NODE_OP, n->op);
    for (int k = 0; k < 3 && n->attrs[k].name; k++) {
        const onnx_attr *a = &n->attrs[k];
        onnx_bytes attr = {0};
        add_text(&attr, ATTR_NAME, a->name);
        for (size_t i = 0; i < a->count; i++) add_int(&attr, ATTR_INTS, a->ints[i]);
        if (!a->count) add_int(&attr, ATTR_I, a->i);
        add_int(&attr, ATTR_TYPE, a->count ? TYPE_INTS : TYPE_INT);
        add_message(&node, NODE_ATTRIBUTE, &attr);
    }
    add_message(&m->graph, GRAPH_NODE, &node);
}

int onnx_write(const onnx_model *m, int fd, const char *tool)
{
    onnx_bytes model = {0}, opset = {0}, graph = {0};
    add_bytes(&graph, m->graph.data, m->graph.len);
    add_text(&graph, GRAPH_NAME, "measurement");
    add_int(&opset, OPSET_VERSION, OPSET);
    add_int(&model, MODEL_IR_VERSION, IR_VERSION);
    add_message(&model, MODEL_GRAPH, &graph);
    add_message(&model, MODEL_OPSET, &opset);
    size_t done = 0;
    while (done < model.len) {
        ssize_t n = write(fd, model.data + done, model.len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    bool whole = done == model.len;
    free(model.data);
    if (!whole) cli_error(tool, "cannot write a temporary file: %s", strerror(errno));
    return whole ? CLI_OK : CLI_FAILED;
}

/* Bytes are copied as they stand in the file; only messages that something changes in get another length. */
#include "onnx/skeleton.h"

#include <string.h>

#include "base/dtype.h"
#include "hypatia/tensor_io.h"
#include "onnx/tensor.h"
#include "onnx/wire.h"

enum { MODEL_GRAPH = 7, MODEL_TRAINING = 20, GRAPH_INITIALIZER = 5 };
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_STRINGS = 6,
    TENSOR_NAME = 8,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};
static const uint64_t max_message = INT32_MAX; /* bytes: readers of protobuf refuse more */

/* Of a TensorProto, what is to be known of it before it is copied. */
typedef struct tensor_head {
    hyp_tensor type; /* dtype, rank and dims */
    hyp_wire_bytes name;
    bool has_elements, external;
} tensor_head;

static bool is_data(uint32_t number)
{
    return hyp_wire_carries_elements(number) || number == TENSOR_STRINGS || number == TENSOR_EXTERNAL ||
           number == TENSOR_LOCATION;
}

/* One dim, or a packed list of them; false where there are too many. */
static bool add_dims(const hyp_wire_field *f, hyp_tensor *t)
{
    const uint8_t *p = f->payload.data, *end = p + f->payload.size;
    for (uint64_t dim; p < end;) {
        if (t->rank == HYP_MAX_RANK || !hyp_wire_varint(&p, end, &dim) || dim > INT64_MAX) return false;
        t->dims[t->rank++] = (int64_t)dim;
    }
    return true;
}

static bool read_head(hyp_wire_bytes tensor, tensor_head *out)
{
    const uint8_t *p = tensor.data, *end = p + tensor.size;
    uint64_t number;
    *out = (tensor_head){0};
    for (hyp_wire_field f; hyp_wire_next(&p, end, &f);) {
        const uint8_t *at = f.payload.data;
        bool is_number = f.wire == HYP_WIRE_VARINT && hyp_wire_varint(&at, at + f.payload.size, &number);
        if (f.number == TENSOR_DIMS && !add_dims(&f, &out->type)) return false;
        if (f.number == TENSOR_TYPE && is_number) out->type.dtype = number <= INT32_MAX ? (hyp_dtype)number : 0;
        if (f.number == TENSOR_NAME && f.wire == HYP_WIRE_LENGTH) out->name = f.payload;
        if (f.number == TENSOR_LOCATION && is_number) out->external = number == 1;
        if (hyp_wire_carries_elements(f.number)) out->has_elements = true;
    }
    return p == end;
}

static void put_without_data(hyp_strbuf *sb, hyp_wire_bytes tensor)
{
    const uint8_t *p = tensor.data, *end = p + tensor.size;
    for (hyp_wire_field f; hyp_wire_next(&p, end, &f);)
        if (!is_data(f.number)) hyp_wire_put(sb, f.whole);
}

/* ---- taking elements out ----------------------------------------------------------------------------------- */

typedef struct maker {
    hyp_onnx_source *source;
    hyp_intern names;
    size_t most;
    hyp_diag *diag;
} maker;

static hyp_status check_room(const maker *m, const hyp_strbuf *sb, size_t more)
{
    if (sb->len <= m->most && more <= m->most - sb->len) return HYP_OK;
    return hyp_fail(m->diag, HYP_ERR_LIMIT, "%s: takes more than %zu MiB without the initializers that are trained",
                    m->source->file, m->most >> 20);
}

/* The elements that are in another file, in the message. */
static hyp_status put_external(maker *m, hyp_wire_bytes tensor, hyp_strbuf *out)
{
    ProtobufCMessage *message;
    hyp_tensor t;
    HYP_TRY(hyp_wire_unpack(m->source->file, tensor.data, tensor.size, &hyp_onnx__tensor_proto__descriptor,
                            &m->source->arena, &message, m->diag));
    HYP_TRY(hyp_onnx_tensor_read(m->source, (const HypOnnx__TensorProto *)message, &t, m->diag));
    HYP_TRY(check_room(m, out, t.bytes));
    put_without_data(out, tensor);
    hyp_wire_put_field(out, HYP_TENSOR_RAW_DATA, (hyp_wire_bytes){t.data, t.bytes});
    return HYP_OK;
}

static hyp_status copy_tensor(maker *m, hyp_wire_bytes tensor, bool of_graph, hyp_strbuf *out)
{
    tensor_head head;
    uint32_t id;
    if (read_head(tensor, &head)) {
        if (of_graph && head.name.size &&
            hyp_intern_find(&m->names, (const char *)head.name.data, head.name.size, &id)) {
            put_without_data(out, tensor);
            return HYP_OK;
        }
        if (head.external) return put_external(m, tensor, out);
    }
    HYP_TRY(check_room(m, out, tensor.size));
    hyp_wire_put(out, tensor);
    return HYP_OK;
}

/* `depth`: how many messages this is in; the source was read before, so it is bounded. */
static hyp_status copy_message(maker *m, const ProtobufCMessageDescriptor *type, hyp_wire_bytes message, int depth,
                               hyp_strbuf *out)
{
    const uint8_t *p = message.data, *end = p + message.size;
    for (hyp_wire_field f; hyp_wire_next(&p, end, &f);) {
        if (depth == 0 && f.number == MODEL_TRAINING) continue;
        const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field(type, f.number);
        if (!known || known->type != PROTOBUF_C_TYPE_MESSAGE || f.wire != HYP_WIRE_LENGTH) {
            HYP_TRY(check_room(m, out, f.whole.size));
            hyp_wire_put(out, f.whole);
            continue;
        }
        hyp_strbuf inner = {0};
        const ProtobufCMessageDescriptor *of = known->descriptor;
        hyp_status status =
            of == &hyp_onnx__tensor_proto__descriptor
                ? copy_tensor(m, f.payload,
                              depth == 1 && f.number == GRAPH_INITIALIZER && type == &hyp_onnx__graph_proto__descriptor,
                              &inner)
                : copy_message(m, of, f.payload, depth + 1, &inner);
        if (status == HYP_OK) status = check_room(m, out, inner.len);
        if (status == HYP_OK)
            hyp_wire_put_field(out, f.number, (hyp_wire_bytes){(const uint8_t *)hyp_strbuf_text(&inner), inner.len});
        out->failed = out->failed || inner.failed;
        hyp_strbuf_dispose(&inner);
        HYP_TRY(status);
    }
    return HYP_OK;
}

hyp_status hyp_onnx_skeleton_make(hyp_onnx_source *source, const char *const *names, size_t count, size_t most,
                                  hyp_strbuf *out, hyp_diag *diag)
{
    maker m = {.source = source, .most = most, .diag = diag};
    uint32_t id;
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < count && status == HYP_OK; i++)
        status = hyp_intern_add(&m.names, names[i], strlen(names[i]), &id, diag);
    if (status == HYP_OK)
        status =
            copy_message(&m, &hyp_onnx__model_proto__descriptor, (hyp_wire_bytes){source->data, source->size}, 0, out);
    hyp_intern_dispose(&m.names);
    return status == HYP_OK && out->failed ? hyp_fail_memory(diag, out->len) : status;
}

/* ---- putting elements in ----------------------------------------------------------------------------------- */

typedef struct filler {
    const char *what;
    const hyp_tensor *tensors;
    size_t count;
    hyp_outfile *file; /* NULL: bytes are counted alone */
    uint64_t size;     /* written, or counted */
    hyp_diag *diag;
} filler;

static hyp_status emit(filler *f, const void *data, size_t size)
{
    f->size += size;
    return f->file ? hyp_outfile_write(f->file, data, size, f->diag) : HYP_OK;
}

static hyp_status malformed(const filler *f)
{
    return hyp_fail(f->diag, HYP_ERR_MALFORMED, "%s: the model in it is damaged", f->what);
}

/* What is given for an initializer without elements. */
static hyp_status find_tensor(const filler *f, const tensor_head *head, const hyp_tensor **out)
{
    const hyp_tensor *t = NULL;
    for (size_t i = 0; i < f->count && !t; i++)
        if (f->tensors[i].name && strlen(f->tensors[i].name) == head->name.size &&
            memcmp(f->tensors[i].name, head->name.data, head->name.size) == 0)
            t = &f->tensors[i];
    int shown = head->name.size < 200 ? (int)head->name.size : 200;
    if (!t)
        return hyp_fail(f->diag, HYP_ERR_INVALID_ARGUMENT,
                        "no values are given for the initializer '%.*s' of the model", shown,
                        (const char *)head->name.data);
    bool same = t->dtype == head->type.dtype && t->rank == head->type.rank;
    for (int32_t a = 0; a < t->rank && same; a++) same = t->dims[a] == head->type.dims[a];
    if (!same)
        return hyp_fail(f->diag, HYP_ERR_INVALID_ARGUMENT,
                        "what is given for the initializer '%s' is not of its type and dims, %s of rank %d", t->name,
                        hyp_dtype_name(head->type.dtype), head->type.rank);
    *out = t;
    return HYP_OK;
}

/* The bytes of a tensor's elements, which it has. */
static hyp_status elements_of(const filler *f, const hyp_tensor *t, size_t *out)
{
    int64_t count = hyp_tensor_elements(t);
    size_t bytes;
    if (count < 0 || !hyp_mul_size((size_t)count, hyp_dtype_size(t->dtype), &bytes)) return malformed(f);
    if (t->bytes < bytes || t->memory != HYP_MEMORY_HOST)
        return hyp_fail(f->diag, HYP_ERR_INVALID_ARGUMENT,
                        "'%s' has %zu bytes in the host's memory, but its dims want %zu", t->name,
                        t->memory == HYP_MEMORY_HOST ? t->bytes : 0, bytes);
    *out = bytes;
    return HYP_OK;
}

static hyp_status fill_tensor(filler *f, const hyp_wire_field *field)
{
    tensor_head head;
    const hyp_tensor *t;
    size_t bytes = 0;
    uint8_t raw[20], tag[20];
    if (field->wire != HYP_WIRE_LENGTH || !read_head(field->payload, &head)) return malformed(f);
    if (head.has_elements || hyp_tensor_elements(&head.type) == 0 || !hyp_dtype_size(head.type.dtype))
        return emit(f, field->whole.data, field->whole.size);
    HYP_TRY(find_tensor(f, &head, &t));
    HYP_TRY(elements_of(f, t, &bytes));
    hyp_strbuf rest = {0};
    put_without_data(&rest, field->payload);
    size_t raw_len = hyp_wire_put_head(raw, HYP_TENSOR_RAW_DATA, bytes);
    size_t tag_len = hyp_wire_put_head(tag, GRAPH_INITIALIZER, rest.len + raw_len + bytes);
    hyp_status status = rest.failed ? hyp_fail_memory(f->diag, rest.len) : emit(f, tag, tag_len);
    if (status == HYP_OK) status = emit(f, hyp_strbuf_text(&rest), rest.len);
    if (status == HYP_OK) status = emit(f, raw, raw_len);
    if (status == HYP_OK) status = emit(f, t->data, bytes);
    hyp_strbuf_dispose(&rest);
    return status;
}

static hyp_status fill_graph(filler *f, hyp_wire_bytes graph)
{
    const uint8_t *p = graph.data, *end = p + graph.size;
    for (hyp_wire_field field; hyp_wire_next(&p, end, &field);)
        HYP_TRY(field.number == GRAPH_INITIALIZER ? fill_tensor(f, &field)
                                                  : emit(f, field.whole.data, field.whole.size));
    return p == end ? HYP_OK : malformed(f);
}

hyp_status hyp_onnx_skeleton_fill(const void *skeleton, size_t size, const char *what, const hyp_tensor *tensors,
                                  size_t count, hyp_outfile *file, hyp_diag *diag)
{
    filler f = {.what = what, .tensors = tensors, .count = count, .file = file, .diag = diag};
    const uint8_t *p = skeleton, *end = p + size;
    size_t graphs = 0;
    for (hyp_wire_field field; hyp_wire_next(&p, end, &field);) {
        if (field.number != MODEL_GRAPH) {
            HYP_TRY(emit(&f, field.whole.data, field.whole.size));
            continue;
        }
        if (field.wire != HYP_WIRE_LENGTH || graphs++) return malformed(&f);
        filler counted = f;
        counted.file = NULL;
        counted.size = 0;
        HYP_TRY(fill_graph(&counted, field.payload));
        if (counted.size + size > max_message)
            return hyp_fail(diag, HYP_ERR_LIMIT, "%s: the model takes more than the 2 GiB that an ONNX file may have",
                            what);
        uint8_t head[20];
        HYP_TRY(emit(&f, head, hyp_wire_put_head(head, MODEL_GRAPH, counted.size)));
        HYP_TRY(fill_graph(&f, field.payload));
    }
    return p == end && graphs == 1 ? HYP_OK : malformed(&f);
}

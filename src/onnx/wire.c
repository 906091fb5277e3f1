#include "onnx/wire.h"

#include <stdio.h>
#include <string.h>

enum {
    FIRST_PRIVATE_FIELD = 1001,
    LENGTH_BYTES = 5, /* a length prefix is padded to this size, so that it can be filled in afterwards */
    MAX_GRAPHS = 100, /* in attributes of each other */
    MAX_DEPTH = 7 + 3 * MAX_GRAPHS, /* of nested messages: a graph needs 7, one in an attribute of another 3 more */
    BYTES_PER_BYTE = 32             /* of memory for one in the file: a node of a few short names needs 20 */
};
static const size_t memory_at_least = (size_t)16 << 20;
static const size_t max_reduced = (size_t)64 << 20;

typedef struct walker {
    const char *file;
    const uint8_t *data; /* the whole input: offsets count from here */
    HYP_VEC(uint8_t) out;
    hyp_diag *diag;
} walker;

bool hyp_wire_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && *p < end; shift += 7) {
        uint8_t byte = *(*p)++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

size_t hyp_wire_put_varint(uint8_t *to, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

/* NULL, or what is wrong; *p moves only where nothing is. Every length is checked against `end` here and only here. */
static const char *read_field(const uint8_t **p, const uint8_t *end, hyp_wire_field *out)
{
    const uint8_t *start = *p, *at = *p;
    uint64_t key, length;
    if (!hyp_wire_varint(&at, end, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff) return "no valid field number";
    const uint8_t *payload = at;
    switch (key & 7) {
    case HYP_WIRE_VARINT:
        if (!hyp_wire_varint(&at, end, &length)) return "a number is cut off";
        length = (uint64_t)(at - payload);
        break;
    case HYP_WIRE_64: length = 8; break;
    case HYP_WIRE_32: length = 4; break;
    case HYP_WIRE_LENGTH:
        if (!hyp_wire_varint(&at, end, &length)) return "a length is cut off";
        payload = at;
        break;
    default: return "a field has an unknown wire type";
    }
    if (length > (uint64_t)(end - payload)) return "a field is longer than what is left";
    *p = payload + length;
    *out = (hyp_wire_field){(uint32_t)(key >> 3), (uint32_t)(key & 7), {start, (size_t)(*p - start)},
                            {payload, (size_t)length}};
    return NULL;
}

bool hyp_wire_next(const uint8_t **p, const uint8_t *end, hyp_wire_field *out)
{
    return *p < end && !read_field(p, end, out);
}

void hyp_wire_put(hyp_strbuf *sb, hyp_wire_bytes bytes) { hyp_strbuf_add(sb, (const char *)bytes.data, bytes.size); }

size_t hyp_wire_put_pair(uint8_t *to, uint32_t number, uint32_t wire, uint64_t value)
{
    size_t n = hyp_wire_put_varint(to, (uint64_t)number << 3 | wire);
    return n + hyp_wire_put_varint(to + n, value);
}

size_t hyp_wire_put_head(uint8_t *to, uint32_t number, uint64_t length)
{
    return hyp_wire_put_pair(to, number, HYP_WIRE_LENGTH, length);
}

void hyp_wire_put_field(hyp_strbuf *sb, uint32_t number, hyp_wire_bytes payload)
{
    uint8_t head[HYP_WIRE_PAIR];
    hyp_wire_put(sb, (hyp_wire_bytes){head, hyp_wire_put_head(head, number, payload.size)});
    hyp_wire_put(sb, payload);
}

static hyp_status malformed(const walker *w, const uint8_t *at, const ProtobufCMessageDescriptor *type,
                            const char *what)
{
    return hyp_fail(w->diag, HYP_ERR_MALFORMED, "%s: byte %zu, in a %s: %s; the file is damaged or not ONNX", w->file,
                    (size_t)(at - w->data), type->short_name, what);
}

static hyp_status put(walker *w, const void *bytes, size_t size)
{
    if (size > max_reduced || w->out.len > max_reduced - size)
        return hyp_fail(w->diag, HYP_ERR_LIMIT, "%s: its graph, without the weights, takes more than %zu MiB", w->file,
                        max_reduced >> 20);
    HYP_TRY(hyp_vec_reserve(&w->out, w->out.len + size, w->diag));
    if (size) memcpy(w->out.data + w->out.len, bytes, size);
    w->out.len += size;
    return HYP_OK;
}

static hyp_status put_varint_field(walker *w, uint32_t number, uint64_t value)
{
    uint8_t text[HYP_WIRE_PAIR];
    return put(w, text, hyp_wire_put_pair(text, number, HYP_WIRE_VARINT, value));
}

static hyp_status next_field(const walker *w, const ProtobufCMessageDescriptor *type, const uint8_t **p,
                             const uint8_t *end, hyp_wire_field *out)
{
    const char *what = read_field(p, end, out);
    return what ? malformed(w, *p, type, what) : HYP_OK;
}

static uint32_t wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return HYP_WIRE_LENGTH;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return HYP_WIRE_64;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return HYP_WIRE_32;
    default: return HYP_WIRE_VARINT;
    }
}

bool hyp_wire_carries_elements(uint32_t number)
{
    switch (number) {
    case HYP_TENSOR_FLOAT_DATA:
    case HYP_TENSOR_INT32_DATA:
    case HYP_TENSOR_INT64_DATA:
    case HYP_TENSOR_RAW_DATA:
    case HYP_TENSOR_DOUBLE_DATA:
    case HYP_TENSOR_UINT64_DATA: return true;
    default: return false;
    }
}

/* The number of the data field of a TensorProto if there is just one and it is in one piece, else 0. */
static hyp_status sole_payload(const walker *w, const ProtobufCMessageDescriptor *type, const uint8_t *p,
                               const uint8_t *end, uint32_t *out)
{
    uint32_t found = 0, count = 0;
    while (p < end) {
        hyp_wire_field f;
        HYP_TRY(next_field(w, type, &p, end, &f));
        if (!hyp_wire_carries_elements(f.number)) continue;
        count++;
        found = f.wire == HYP_WIRE_LENGTH ? f.number : 0;
    }
    *out = count == 1 ? found : 0;
    return HYP_OK;
}

static hyp_status reduce(walker *w, const ProtobufCMessageDescriptor *type, const uint8_t *p, const uint8_t *end,
                         int depth)
{
    if (depth > MAX_DEPTH)
        return hyp_fail(w->diag, HYP_ERR_LIMIT,
                        "%s: byte %zu, in a %s: graphs are nested more than %d deep in attributes (branches in branches), "
                        "which is not supported",
                        w->file, (size_t)(p - w->data), type->short_name, MAX_GRAPHS);
    uint32_t payload = 0;
    if (type == &hyp_onnx__tensor_proto__descriptor) HYP_TRY(sole_payload(w, type, p, end, &payload));
    while (p < end) {
        hyp_wire_field f;
        HYP_TRY(next_field(w, type, &p, end, &f));
        const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field(type, f.number);
        if (!known || f.number >= FIRST_PRIVATE_FIELD) continue;
        uint32_t wire = wire_of(known->type);
        bool packed = known->label == PROTOBUF_C_LABEL_REPEATED && f.wire == HYP_WIRE_LENGTH;
        if (f.wire != wire && !packed) {
            char text[128];
            snprintf(text, sizeof text, "field %s has wire type %u, not %u", known->name, f.wire, wire);
            return malformed(w, f.whole.data, type, text);
        }
        if (f.number == payload && payload != 0) {
            HYP_TRY(put_varint_field(w, FIRST_PRIVATE_FIELD, payload));
            HYP_TRY(put_varint_field(w, FIRST_PRIVATE_FIELD + 1, (uint64_t)(f.payload.data - w->data)));
            HYP_TRY(put_varint_field(w, FIRST_PRIVATE_FIELD + 2, f.payload.size));
        } else if (known->type == PROTOBUF_C_TYPE_MESSAGE) {
            uint8_t head[10 + LENGTH_BYTES] = {0};
            size_t tag = hyp_wire_put_varint(head, (uint64_t)f.number << 3 | HYP_WIRE_LENGTH);
            HYP_TRY(put(w, head, tag + LENGTH_BYTES));
            size_t start = w->out.len;
            HYP_TRY(reduce(w, known->descriptor, f.payload.data, f.payload.data + f.payload.size, depth + 1));
            size_t length = w->out.len - start;
            for (size_t i = 0; i < LENGTH_BYTES; i++, length >>= 7)
                w->out.data[start - LENGTH_BYTES + i] = (uint8_t)((length & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
        } else {
            if (known->type == PROTOBUF_C_TYPE_STRING &&
                hyp_text_prefix((const char *)f.payload.data, f.payload.size) < f.payload.size)
                return malformed(w, f.payload.data, type, "a string is not UTF-8");
            HYP_TRY(put(w, f.whole.data, f.whole.size));
        }
    }
    return HYP_OK;
}

typedef struct arena_allocator {
    ProtobufCAllocator base;
    hyp_arena *arena;
    size_t left; /* bytes: messages with nothing in them take memory out of proportion */
    bool failed, exceeded;
} arena_allocator;

static void *arena_take(void *data, size_t size)
{
    arena_allocator *a = data;
    a->exceeded = a->exceeded || size > a->left;
    if (a->exceeded) return NULL;
    a->left -= size;
    void *p = hyp_arena_alloc(a->arena, size);
    if (!p) a->failed = true;
    return p;
}

static void arena_keep(void *data, void *p) { (void)data, (void)p; }

hyp_status hyp_wire_unpack(const char *file, const void *data, size_t size, const ProtobufCMessageDescriptor *type,
                           hyp_arena *arena, ProtobufCMessage **out, hyp_diag *diag)
{
    walker w = {.file = file, .data = data, .diag = diag};
    hyp_status status = size ? reduce(&w, type, w.data, w.data + size, 0) : HYP_OK;
    if (status == HYP_OK) {
        size_t most = size < SIZE_MAX / 2 / BYTES_PER_BYTE ? size * BYTES_PER_BYTE : SIZE_MAX / 2;
        if (most < memory_at_least) most = memory_at_least;
        arena_allocator a = {{arena_take, arena_keep, NULL}, arena, most, false, false};
        a.base.allocator_data = &a;
        ProtobufCMessage *message = protobuf_c_message_unpack(type, &a.base, w.out.len, w.out.data);
        if (message)
            *out = message;
        else if (a.failed)
            status = hyp_fail_memory(diag, w.out.len);
        else if (a.exceeded)
            status = hyp_fail(diag, HYP_ERR_LIMIT,
                              "%s: its graph takes more than %zu MiB of memory, %d times its bytes: it has many parts with "
                              "next to nothing in them, as no exporter writes them",
                              file, most >> 20, BYTES_PER_BYTE);
        else
            status =
                hyp_fail(diag, HYP_ERR_MALFORMED, "%s: a list of numbers in a %s is damaged", file, type->short_name);
    }
    hyp_vec_free(&w.out);
    return status;
}

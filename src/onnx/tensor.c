#include "onnx/tensor.h"

#include <string.h>

#include "base/dtype.h"
#include "onnx/wire.h"

const char *hyp_onnx_dtype_name(int32_t data_type)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&hyp_onnx__tensor_proto__data_type__descriptor, data_type);
    return value ? value->name : "?";
}

/* The elements as found: `bytes` of plain data, or `count` integers to be narrowed to the type. */
typedef struct payload {
    uint32_t field;
    const void *data;
    size_t bytes; /* of plain data or of packed varints */
    size_t count; /* of integers that protobuf-c unpacked into an array at `data`; 0 = packed varints */
} payload;

static hyp_status find_external(hyp_onnx_source *source, const HypOnnx__TensorProto *proto, size_t want, payload *out,
                                hyp_diag *diag)
{
    const char *location = NULL;
    uint64_t offset = 0, length = want;
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
        if (!key || !value) continue;
        if (strcmp(key, "location") == 0) location = value;
        uint64_t *number = strcmp(key, "offset") == 0 ? &offset : strcmp(key, "length") == 0 ? &length : NULL;
        if (!number) continue;
        uint64_t n = 0;
        bool valid = *value != 0;
        for (const char *p = value; *p; p++)
            valid = valid && *p >= '0' && *p <= '9' && !__builtin_mul_overflow(n, 10u, &n) &&
                    !__builtin_add_overflow(n, (uint64_t)(*p - '0'), &n);
        if (!valid)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "its external data has the %s \"%s\", not a number", key, value);
        *number = n;
    }
    if (!location) return hyp_fail(diag, HYP_ERR_MALFORMED, "its data is external, but no location is given");
    const hyp_mapping *map;
    HYP_TRY(hyp_onnx_source_external(source, location, &map, diag));
    if (offset > map->size || length > map->size - offset)
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "its data should be %llu bytes from byte %llu of \"%s\", but that file has only %zu bytes",
                        (unsigned long long)length, (unsigned long long)offset, location, map->size);
    *out =
        (payload){.field = HYP_TENSOR_RAW_DATA, .data = map->size ? map->data + offset : NULL, .bytes = (size_t)length};
    return HYP_OK;
}

static hyp_status find_payload(hyp_onnx_source *source, const HypOnnx__TensorProto *proto, size_t want, payload *out,
                               hyp_diag *diag)
{
    if (proto->data_location == HYP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return find_external(source, proto, want, out, diag);
    payload found[7];
    size_t n = 0;
    if (proto->has_payload_field) {
        uint64_t offset = proto->payload_offset, length = proto->payload_length;
        if (offset > source->size || length > source->size - offset)
            return hyp_fail(diag, HYP_ERR_INTERNAL, "its data lies outside the file");
        found[n++] = (payload){proto->payload_field, source->data + offset, (size_t)length, 0};
    }
    if (proto->has_raw_data) found[n++] = (payload){HYP_TENSOR_RAW_DATA, proto->raw_data.data, proto->raw_data.len, 0};
    if (proto->n_float_data)
        found[n++] = (payload){HYP_TENSOR_FLOAT_DATA, proto->float_data, 4 * proto->n_float_data, 0};
    if (proto->n_double_data)
        found[n++] = (payload){HYP_TENSOR_DOUBLE_DATA, proto->double_data, 8 * proto->n_double_data, 0};
    if (proto->n_int32_data) found[n++] = (payload){HYP_TENSOR_INT32_DATA, proto->int32_data, 0, proto->n_int32_data};
    if (proto->n_int64_data) found[n++] = (payload){HYP_TENSOR_INT64_DATA, proto->int64_data, 0, proto->n_int64_data};
    if (proto->n_uint64_data)
        found[n++] = (payload){HYP_TENSOR_UINT64_DATA, proto->uint64_data, 0, proto->n_uint64_data};
    if (n > 1) return hyp_fail(diag, HYP_ERR_MALFORMED, "its data is there in several encodings at once");
    *out = n ? found[0] : (payload){.field = HYP_TENSOR_RAW_DATA};
    return HYP_OK;
}

/* Whether ONNX stores elements of the type in this field. */
static bool field_holds(uint32_t field, hyp_dtype dtype)
{
    switch (field) {
    case HYP_TENSOR_RAW_DATA: return true;
    case HYP_TENSOR_FLOAT_DATA: return dtype == HYP_F32;
    case HYP_TENSOR_DOUBLE_DATA: return dtype == HYP_F64;
    case HYP_TENSOR_INT64_DATA: return dtype == HYP_I64;
    case HYP_TENSOR_UINT64_DATA: return dtype == HYP_U64 || dtype == HYP_U32;
    default: return dtype != HYP_F32 && dtype != HYP_F64 && dtype != HYP_I64 && dtype != HYP_U64 && dtype != HYP_U32;
    }
}

static hyp_status decode_integers(hyp_onnx_source *source, const payload *from, hyp_dtype dtype, size_t count,
                                  size_t bytes, const void **out, hyp_diag *diag)
{
    const uint8_t *p = from->data, *end = p + from->bytes;
    size_t at_least = from->count ? from->count : from->bytes; /* a varint has a byte or more */
    if (count > at_least || (from->count && count != from->count)) goto wrong_count;
    void *values = hyp_arena_alloc(&source->arena, bytes);
    if (!values) return hyp_fail_memory(diag, bytes);
    /* Narrow floats are stored as the bits that they are. */
    hyp_dtype store = dtype == HYP_F16 || dtype == HYP_BF16 ? HYP_U16 : dtype == HYP_F8E4M3 ? HYP_U8 : dtype;
    bool narrow = from->field == HYP_TENSOR_INT32_DATA;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        if (from->count)
            bits = narrow ? (uint64_t)((const int32_t *)from->data)[i] : ((const uint64_t *)from->data)[i];
        else if (!hyp_wire_varint(&p, end, &bits))
            goto wrong_count;
        hyp_store_i64(store, values, i, narrow ? (int64_t)(int32_t)bits : (int64_t)bits);
    }
    if (!from->count && p != end) goto wrong_count;
    *out = values;
    return HYP_OK;
wrong_count:
    return hyp_fail(diag, HYP_ERR_MALFORMED, "its list of numbers does not have the %zu elements that its dims want",
                    count);
}

static hyp_status read_elements(hyp_onnx_source *source, const HypOnnx__TensorProto *proto, hyp_tensor *t,
                                hyp_diag *diag)
{
    if (!hyp_dtype_size((hyp_dtype)proto->data_type))
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "element type %d (%s) is not supported", proto->data_type,
                        hyp_onnx_dtype_name(proto->data_type));
    t->dtype = (hyp_dtype)proto->data_type;
    if (proto->n_dims > HYP_MAX_RANK)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "rank %zu is above %d, the highest supported", proto->n_dims,
                        HYP_MAX_RANK);
    t->rank = (int32_t)proto->n_dims;
    size_t count = 1, bytes;
    bool empty = false, fits = true;
    for (size_t i = 0; i < proto->n_dims; i++) {
        t->dims[i] = proto->dims[i];
        if (t->dims[i] < 0) return hyp_fail(diag, HYP_ERR_MALFORMED, "dim %zu is %lld", i, (long long)t->dims[i]);
        empty = empty || t->dims[i] == 0;
        fits = fits && hyp_mul_size(count, (size_t)t->dims[i], &count);
    }
    if (empty) count = 0, fits = true;
    if (!fits || !hyp_mul_size(count, hyp_dtype_size(t->dtype), &bytes))
        return hyp_fail(diag, HYP_ERR_MALFORMED, "its dims ask for more elements than any memory holds");

    payload from = {0};
    HYP_TRY(find_payload(source, proto, bytes, &from, diag));
    if (!field_holds(from.field, t->dtype))
        return hyp_fail(diag, HYP_ERR_MALFORMED, "elements of type %s are stored in field %u, meant for other types",
                        hyp_dtype_name(t->dtype), from.field);
    const void *data = from.data;
    switch (from.field) {
    case HYP_TENSOR_INT32_DATA:
    case HYP_TENSOR_INT64_DATA:
    case HYP_TENSOR_UINT64_DATA: HYP_TRY(decode_integers(source, &from, t->dtype, count, bytes, &data, diag)); break;
    default:
        if (from.bytes != bytes)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "its data has %zu bytes, but its type and dims want %zu",
                            from.bytes, bytes);
    }
    t->data = bytes ? (void *)(uintptr_t)data : NULL;
    t->bytes = bytes;
    return HYP_OK;
}

hyp_status hyp_onnx_tensor_read(hyp_onnx_source *source, const HypOnnx__TensorProto *proto, hyp_tensor *out,
                                hyp_diag *diag)
{
    hyp_tensor t = {.name = proto->name};
    hyp_status status = read_elements(source, proto, &t, diag);
    if (status != HYP_OK)
        hyp_diag_prefix(diag, "tensor \"%s\"", proto->name ? proto->name : "");
    else
        *out = t;
    return status;
}

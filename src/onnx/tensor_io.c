#include "hypatia/tensor_io.h"

#include <string.h>

#include "base/dtype.h"
#include "base/file.h"
#include "onnx/npy.h"
#include "onnx/tensor.h"
#include "onnx/wire.h"

int64_t hyp_tensor_elements(const hyp_tensor *t)
{
    if (!t) return -1;
    int64_t count = 1;
    bool empty = false, fits = true;
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] < 0) return -1;
        empty = empty || t->dims[i] == 0;
        fits = fits && hyp_mul_i64(count, t->dims[i], &count);
    }
    return empty ? 0 : fits ? count : -1;
}

static hyp_status byte_size(const hyp_tensor *t, size_t *out, hyp_diag *diag)
{
    int64_t count = t->rank >= 0 && t->rank <= HYP_MAX_RANK ? hyp_tensor_elements(t) : -1;
    size_t elem = hyp_dtype_size(t->dtype);
    if (count < 0 || !elem || !hyp_mul_size((size_t)count, elem, out))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the type and dims do not describe a tensor");
    return HYP_OK;
}

/* Memory for the elements and behind them a copy of `name`, so that one pointer owns both. */
static hyp_status alloc_named(hyp_tensor *t, const char *name, hyp_diag *diag)
{
    size_t bytes, name_size = name ? strlen(name) + 1 : 0, total;
    HYP_TRY(byte_size(t, &bytes, diag));
    char *p = hyp_add_size(bytes, name_size, &total) ? hyp_aligned_alloc(64, total ? total : 1) : NULL;
    if (!p) return hyp_fail_memory(diag, bytes);
    memset(p, 0, bytes);
    if (name) t->name = memcpy(p + bytes, name, name_size);
    t->data = p;
    t->bytes = bytes;
    t->memory = HYP_MEMORY_HOST;
    return HYP_OK;
}

hyp_status hyp_tensor_alloc(hyp_tensor *t, hyp_diag *diag)
{
    HYP_NEED(t);
    return alloc_named(t, NULL, diag);
}

void hyp_tensor_dispose(hyp_tensor *t)
{
    if (!t) return;
    hyp_aligned_free(t->data);
    *t = (hyp_tensor){0};
}

typedef enum format { NPY, PB, BIN } format;

static hyp_status format_of(const char *path, format *out, hyp_diag *diag)
{
    const char *dot = strrchr(path, '.');
    static const char *const suffixes[] = {".npy", ".pb", ".bin"};
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcmp(dot, suffixes[i]) == 0) {
            *out = (format)i;
            return HYP_OK;
        }
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                    "%s: the name should end in .npy, .pb or .bin, which says the format", path);
}

/* Whether `bytes` are what the dtype and dims of `t` want. */
static hyp_status check_bytes(const char *path, const hyp_tensor *t, size_t bytes, hyp_diag *diag)
{
    size_t want;
    hyp_status status = byte_size(t, &want, diag);
    if (status != HYP_OK || want != bytes)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: has %zu bytes of elements, but its type and dims want %s%zu",
                        path, bytes, status == HYP_OK ? "" : "more than ", status == HYP_OK ? want : SIZE_MAX);
    return HYP_OK;
}

/* Fills `t`, whose dtype and dims are set, from `bytes` at `data`. */
static hyp_status take(const char *path, hyp_tensor *t, const char *name, const void *data, size_t bytes,
                       hyp_diag *diag)
{
    HYP_TRY(check_bytes(path, t, bytes, diag));
    HYP_TRY(alloc_named(t, name, diag));
    if (bytes) memcpy(t->data, data, bytes);
    return HYP_OK;
}

static hyp_status load_npy(const char *path, const hyp_mapping *map, hyp_tensor *t, hyp_diag *diag)
{
    size_t offset;
    HYP_TRY(hyp_npy_read_header(path, map->data, map->size, t, &offset, diag));
    return take(path, t, NULL, map->data + offset, map->size - offset, diag);
}

static hyp_status load_pb(const char *path, const hyp_mapping *map, hyp_tensor *t, hyp_diag *diag)
{
    hyp_onnx_source source = {.file = path, .data = map->data, .size = map->size};
    ProtobufCMessage *message;
    hyp_status status =
        hyp_wire_unpack(path, map->data, map->size, &hyp_onnx__tensor_proto__descriptor, &source.arena, &message, diag);
    if (status == HYP_OK) {
        status = hyp_onnx_tensor_read(&source, (const HypOnnx__TensorProto *)message, t, diag);
        if (status != HYP_OK) hyp_diag_prefix(diag, "%s", path);
    }
    if (status == HYP_OK) status = take(path, t, t->name, t->data, t->bytes, diag);
    hyp_onnx_source_dispose(&source);
    return status;
}

static hyp_status load_bin(const char *path, const hyp_mapping *map, const hyp_tensor *want, hyp_tensor *t,
                           hyp_diag *diag)
{
    if (!want)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: a .bin file says nothing of its type and dims; use .npy",
                        path);
    *t = (hyp_tensor){.dtype = want->dtype, .rank = want->rank};
    int32_t open = -1;
    for (int32_t i = 0; i < want->rank; i++) {
        t->dims[i] = want->dims[i];
        if (want->dims[i] >= 0) continue;
        if (open >= 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "%s: dims %d and %d are both open, so the size of a .bin file cannot decide them; use .npy",
                            path, open, i);
        open = i;
        t->dims[i] = 1;
    }
    size_t row;
    HYP_TRY(byte_size(t, &row, diag));
    if (open >= 0 && row) t->dims[open] = (int64_t)(map->size / row);
    return take(path, t, NULL, map->data, map->size, diag);
}

static hyp_status check_wanted(const char *path, const hyp_tensor *want, const hyp_tensor *t, hyp_diag *diag)
{
    if (want->dtype != t->dtype)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: has elements of type %s, but %s is wanted", path,
                        hyp_dtype_name(t->dtype), hyp_dtype_name(want->dtype));
    if (want->rank != t->rank)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: has rank %d, but rank %d is wanted", path, t->rank,
                        want->rank);
    for (int32_t i = 0; i < t->rank; i++)
        if (want->dims[i] >= 0 && want->dims[i] != t->dims[i])
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: dim %d is %lld, but %lld is wanted", path, i,
                            (long long)t->dims[i], (long long)want->dims[i]);
    return HYP_OK;
}

hyp_status hyp_tensor_load(const char *path, const hyp_tensor *want, hyp_tensor *out, hyp_diag *diag)
{
    HYP_NEED(path);
    format kind;
    hyp_mapping map;
    HYP_TRY(format_of(path, &kind, diag));
    HYP_TRY(hyp_map_file(path, &map, diag));
    hyp_tensor t = {0};
    hyp_status status = HYP_OK;
    switch (kind) {
    case NPY: status = load_npy(path, &map, &t, diag); break;
    case PB: status = load_pb(path, &map, &t, diag); break;
    case BIN: status = load_bin(path, &map, want, &t, diag); break;
    }
    hyp_unmap(&map);
    if (status != HYP_OK) return status;
    if (want) status = check_wanted(path, want, &t, diag);
    if (status == HYP_OK)
        *out = t;
    else
        hyp_tensor_dispose(&t);
    return status;
}

struct hyp_tensor_mapping {
    hyp_mapping map;
};

hyp_status hyp_tensor_map(const char *path, hyp_tensor *out, hyp_tensor_mapping **out_mapping, hyp_diag *diag)
{
    HYP_NEED(path && out && out_mapping);
    hyp_tensor_mapping *m = hyp_calloc(1, sizeof *m);
    if (!m) return hyp_fail_memory(diag, sizeof *m);
    hyp_tensor t = {0};
    size_t offset = 0;
    hyp_status status = hyp_map_file(path, &m->map, diag);
    if (status == HYP_OK) status = hyp_npy_read_header(path, m->map.data, m->map.size, &t, &offset, diag);
    if (status == HYP_OK) status = check_bytes(path, &t, m->map.size - offset, diag);
    if (status != HYP_OK) {
        hyp_tensor_unmap(m);
        return status;
    }
    t.data = (void *)(uintptr_t)(m->map.data + offset);
    t.bytes = m->map.size - offset;
    *out = t;
    *out_mapping = m;
    return HYP_OK;
}

void hyp_tensor_unmap(hyp_tensor_mapping *mapping)
{
    if (!mapping) return;
    hyp_unmap(&mapping->map);
    hyp_free(mapping);
}

static void put_tagged(hyp_strbuf *sb, uint32_t number, uint32_t wire, uint64_t value)
{
    uint8_t text[HYP_WIRE_PAIR];
    hyp_wire_put(sb, (hyp_wire_bytes){text, hyp_wire_put_pair(text, number, wire, value)});
}

/* A TensorProto up to and with the length of raw_data, its last field. */
static void write_pb_header(hyp_strbuf *sb, const hyp_tensor *t, size_t bytes)
{
    enum { DIMS = 1, DATA_TYPE = 2, NAME = 8 };
    for (int32_t i = 0; i < t->rank; i++) put_tagged(sb, DIMS, HYP_WIRE_VARINT, (uint64_t)t->dims[i]);
    put_tagged(sb, DATA_TYPE, HYP_WIRE_VARINT, (uint64_t)t->dtype);
    if (t->name) {
        put_tagged(sb, NAME, HYP_WIRE_LENGTH, strlen(t->name));
        hyp_strbuf_puts(sb, t->name);
    }
    put_tagged(sb, HYP_TENSOR_RAW_DATA, HYP_WIRE_LENGTH, bytes);
}

hyp_status hyp_tensor_save(const char *path, const hyp_tensor *tensor, hyp_diag *diag)
{
    HYP_NEED(path);
    format kind;
    size_t bytes;
    HYP_TRY(format_of(path, &kind, diag));
    HYP_TRY(byte_size(tensor, &bytes, diag));
    if (tensor->memory != HYP_MEMORY_HOST || tensor->bytes < bytes)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: %s", path,
                        tensor->memory != HYP_MEMORY_HOST ? "only tensors in host memory can be saved"
                                                          : "the tensor's memory is smaller than its dims say");
    hyp_strbuf head = {0};
    hyp_outfile file = {0};
    if (kind == NPY) hyp_npy_write_header(&head, tensor);
    if (kind == PB) write_pb_header(&head, tensor, bytes);
    hyp_status status = head.failed ? hyp_fail_memory(diag, head.len) : hyp_outfile_open(&file, path, diag);
    if (status == HYP_OK) status = hyp_outfile_write(&file, hyp_strbuf_text(&head), head.len, diag);
    if (status == HYP_OK) status = hyp_outfile_write(&file, tensor->data, bytes, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    hyp_strbuf_dispose(&head);
    return status;
}

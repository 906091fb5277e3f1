#include "onnx/npy.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    hyp_dtype dtype;
    char descr[4]; /* without the byte order */
} types[] = {
    {HYP_F32, "f4"}, {HYP_F64, "f8"}, {HYP_F16, "f2"},  {HYP_BF16, "V2"}, {HYP_I8, "i1"},
    {HYP_I16, "i2"}, {HYP_I32, "i4"}, {HYP_I64, "i8"},  {HYP_U8, "u1"},   {HYP_U16, "u2"},
    {HYP_U32, "u4"}, {HYP_U64, "u8"}, {HYP_BOOL, "b1"},
};

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* The header is the text of a Python dict. Its text lies in a NUL-terminated copy. */
static const char *skip_space(const char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\t') p++;
    return p;
}

/* What stands after 'key': in the dict, or NULL. */
static const char *find_value(const char *header, const char *key)
{
    const char *p = strstr(header, key);
    if (!p) return NULL;
    p = skip_space(p + strlen(key));
    return *p == ':' ? skip_space(p + 1) : NULL;
}

static hyp_status read_descr(const char *path, const char *p, hyp_tensor *out, hyp_diag *diag)
{
    size_t n = p && *p == '\'' ? strcspn(p + 1, "'") : 0;
    if (n == 3 && p[4] == '\'' && strchr("<|", p[1]))
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            if (memcmp(types[i].descr, p + 2, 2) == 0) {
                out->dtype = types[i].dtype;
                return HYP_OK;
            }
    if (n == 3 && p[1] == '>')
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: its elements are big-endian; save it in little-endian order",
                        path);
    if (!p) return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: its .npy header has no 'descr'", path);
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: element type %.*s is not supported", path, (int)strcspn(p, ",}"),
                    p);
}

static hyp_status read_shape(const char *path, const char *p, hyp_tensor *out, hyp_diag *diag)
{
    int32_t rank = 0;
    if (!p || *p != '(') goto malformed;
    for (p = skip_space(p + 1); *p != ')'; p = skip_space(p)) {
        char *end;
        if (*p < '0' || *p > '9') goto malformed;
        long long dim = strtoll(p, &end, 10);
        if (dim < 0 || dim == INT64_MAX) goto malformed;
        if (rank == HYP_MAX_RANK)
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: its rank is above %d, the highest supported", path,
                            HYP_MAX_RANK);
        out->dims[rank++] = dim;
        p = skip_space(end);
        if (*p == ',')
            p++;
        else if (*p != ')')
            goto malformed;
    }
    out->rank = rank;
    return HYP_OK;
malformed:
    return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: its .npy header has no valid 'shape'", path);
}

hyp_status hyp_npy_read_header(const char *path, const uint8_t *data, size_t size, hyp_tensor *out, size_t *out_offset,
                               hyp_diag *diag)
{
    if (size < 10 || memcmp(data, magic, sizeof magic) != 0)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: is not a .npy file", path);
    uint8_t version = data[6];
    if (version < 1 || version > 3)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: .npy format %u is not known; 1 to 3 are", path, version);
    size_t start = version == 1 ? 10 : 12;
    size_t length = data[8] | (size_t)data[9] << 8;
    if (version > 1 && size >= start) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (size < start || length > size - start || length > 65536)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: its .npy header is cut off", path);

    char *header = hyp_malloc(length + 1);
    if (!header) return hyp_fail_memory(diag, length + 1);
    memcpy(header, data + start, length);
    header[length] = 0;
    hyp_tensor t = {0};
    const char *fortran = find_value(header, "'fortran_order'");
    hyp_status status = read_descr(path, find_value(header, "'descr'"), &t, diag);
    if (status == HYP_OK) status = read_shape(path, find_value(header, "'shape'"), &t, diag);
    if (status == HYP_OK && (!fortran || strncmp(fortran, "False", 5) != 0))
        status = hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                          "%s: is stored in Fortran order; save it with numpy.ascontiguousarray", path);
    hyp_free(header);
    if (status != HYP_OK) return status;
    *out = t;
    *out_offset = start + length;
    return HYP_OK;
}

void hyp_npy_write_header(hyp_strbuf *sb, const hyp_tensor *t)
{
    const char *descr = "";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == t->dtype) descr = types[i].descr;
    hyp_strbuf dict = {0};
    bool bytes = hyp_dtype_size(t->dtype) == 1;
    hyp_strbuf_printf(&dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", bytes ? '|' : '<', descr);
    for (int32_t i = 0; i < t->rank; i++)
        hyp_strbuf_printf(&dict, "%lld%s", (long long)t->dims[i], i + 1 < t->rank ? ", " : t->rank == 1 ? "," : "");
    hyp_strbuf_puts(&dict, "), }");
    while ((10 + dict.len + 1) % 64 != 0) hyp_strbuf_puts(&dict, " ");
    hyp_strbuf_puts(&dict, "\n");
    const char head[10] = {magic[0],
                           magic[1],
                           magic[2],
                           magic[3],
                           magic[4],
                           magic[5],
                           1,
                           0,
                           (char)(dict.len & 0xff),
                           (char)(dict.len >> 8)};
    hyp_strbuf_add(sb, head, sizeof head);
    hyp_strbuf_add(sb, hyp_strbuf_text(&dict), dict.len);
    sb->failed = sb->failed || dict.failed;
    hyp_strbuf_dispose(&dict);
}

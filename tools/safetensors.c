#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hypatia/tensor_io.h"

static const uint64_t max_header = (uint64_t)32 << 20;
static const char meta_key[] = "__metadata__";

static const struct {
    hyp_dtype dtype;
    const char *name;
} types[] = {
    {HYP_F64, "F64"}, {HYP_F32, "F32"}, {HYP_F16, "F16"}, {HYP_BF16, "BF16"}, {HYP_F8E4M3, "F8_E4M3"},
    {HYP_I64, "I64"}, {HYP_I32, "I32"}, {HYP_I16, "I16"}, {HYP_I8, "I8"},     {HYP_U64, "U64"},
    {HYP_U32, "U32"}, {HYP_U16, "U16"}, {HYP_U8, "U8"},   {HYP_BOOL, "BOOL"},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

/* ---- writing --------------------------------------------------------------------------------------------------- */

static json_t *describe(const hyp_tensor *t, uint64_t offset)
{
    const char *type = NULL;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (types[i].dtype == t->dtype) type = types[i].name;
    json_t *dims = json_array();
    for (int32_t a = 0; a < t->rank; a++) json_array_append_new(dims, json_integer(t->dims[a]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", dims, "data_offsets", (json_int_t)offset,
                     (json_int_t)(offset + t->bytes));
}

/* The header, padded with spaces to a multiple of 8; NULL where a name or text is no UTF-8, or memory is out. To be
 * freed. */
static char *make_header(const hyp_tensor *const *order, size_t count, const safetensors_meta *meta, size_t meta_count)
{
    json_t *root = json_object(), *texts = json_object();
    uint64_t offset = 0;
    bool ok = true;
    for (size_t i = 0; i < meta_count; i++)
        ok = json_object_set_new(texts, meta[i].key, json_string(meta[i].value)) == 0 && ok;
    ok = json_object_set_new(root, meta_key, texts) == 0 && ok;
    for (size_t i = 0; i < count; i++) {
        bool fresh = !json_object_get(root, order[i]->name);
        ok = fresh && json_object_set_new(root, order[i]->name, describe(order[i], offset)) == 0 && ok;
        offset += order[i]->bytes;
    }
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text) return NULL;
    size_t len = strlen(text), padded = (len + 7) / 8 * 8;
    char *header = cli_alloc(NULL, padded + 1, 1);
    memset(header, ' ', padded);
    memcpy(header, text, len);
    header[padded] = 0;
    free(text);
    return header;
}

static bool write_all(int fd, const void *data, size_t size)
{
    for (const char *p = data; size;) {
        ssize_t n = write(fd, p, size < ((size_t)1 << 30) ? size : (size_t)1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

bool safetensors_write(int fd, const hyp_tensor *tensors, size_t count, const safetensors_meta *meta, size_t meta_count)
{
    const hyp_tensor **order = cli_alloc(NULL, count, sizeof *order);
    size_t at = 0;
    for (size_t size = 8; size; size /= 2)
        for (size_t i = 0; i < count; i++)
            if (hyp_dtype_size(tensors[i].dtype) == size) order[at++] = &tensors[i];
    char *header = make_header(order, at, meta, meta_count);
    if (!header) errno = EINVAL;
    uint8_t length[8];
    for (int i = 0; i < 8 && header; i++) length[i] = (uint8_t)((uint64_t)strlen(header) >> 8 * i);
    bool ok = header && write_all(fd, length, sizeof length) && write_all(fd, header, strlen(header));
    for (size_t i = 0; i < at && ok; i++) ok = write_all(fd, order[i]->data, order[i]->bytes);
    int why = errno;
    free(header);
    free(order);
    errno = why;
    return ok;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool read_all(int fd, void *data, size_t size, uint64_t offset)
{
    for (char *p = data; size;) {
        ssize_t n = pread(fd, p, size < ((size_t)1 << 30) ? size : (size_t)1 << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = ENODATA; /* it was cut meanwhile */
        if (n <= 0) return false;
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

static const char *take_texts(safetensors *s, json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return "its __metadata__ is no object";
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value)) return "its __metadata__ has what is no text";
    }
    s->texts = json_incref(object);
    return NULL;
}

static const char *take_tensor(safetensors *s, const char *name, json_t *value, uint64_t size)
{
    const char *type;
    json_t *dims;
    json_int_t begin, end;
    if (json_unpack(value, "{s:s, s:o, s:[I, I!]!}", "dtype", &type, "shape", &dims, "data_offsets", &begin, &end) != 0)
        return "a tensor has not just dtype, shape and data_offsets";
    hyp_tensor t = {0};
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i].name, type) == 0) t.dtype = types[i].dtype;
    if (t.dtype == HYP_DTYPE_NONE) return "a tensor is of a type that is not known";
    if (!json_is_array(dims) || json_array_size(dims) > HYP_MAX_RANK) return "a tensor has too many dims, or none";
    for (size_t a = 0; a < json_array_size(dims); a++) {
        json_t *dim = json_array_get(dims, a);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) return "a dim of a tensor is none";
        t.dims[t.rank++] = json_integer_value(dim);
    }
    int64_t elements = hyp_tensor_elements(&t);
    if (elements < 0 || begin < 0 || end < begin || (uint64_t)end > size) return "a tensor lies outside of the file";
    t.bytes = (size_t)(end - begin);
    if (t.bytes % hyp_dtype_size(t.dtype) || t.bytes / hyp_dtype_size(t.dtype) != (uint64_t)elements)
        return "the dims of a tensor do not give the bytes that it has";
    t.name = cli_copy(name, strlen(name));
    s->tensors[s->count] = t;
    s->offsets[s->count++] = (uint64_t)begin;
    return NULL;
}

typedef struct extent {
    uint64_t begin, end;
} extent;

static int by_place(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* NULL, or what is wrong: tensors lie one behind the other and fill the file. */
static const char *check_places(const safetensors *s, uint64_t size)
{
    extent *all = cli_alloc(NULL, s->count, sizeof *all);
    uint64_t at = 0;
    bool ok = true;
    for (size_t i = 0; i < s->count; i++) all[i] = (extent){s->offsets[i], s->offsets[i] + s->tensors[i].bytes};
    qsort(all, s->count, sizeof *all, by_place);
    for (size_t i = 0; i < s->count && ok; i++) {
        ok = all[i].begin == at;
        at = all[i].end;
    }
    free(all);
    return ok && at == size ? NULL : "its tensors do not fill it without gaps: it is cut off, or was changed";
}

static const char *take_header(safetensors *s, const char *text, size_t len, uint64_t size)
{
    json_error_t error;
    json_t *root = len && text[0] == '{' ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!json_is_object(root)) {
        json_decref(root);
        return "its header is not JSON as a safetensors file has it";
    }
    const char *key, *problem = NULL;
    json_t *value;
    s->tensors = cli_alloc(NULL, json_object_size(root), sizeof *s->tensors);
    s->offsets = cli_alloc(NULL, json_object_size(root), sizeof *s->offsets);
    json_object_foreach(root, key, value)
    {
        if (!problem) problem = strcmp(key, meta_key) == 0 ? take_texts(s, value) : take_tensor(s, key, value, size);
    }
    json_decref(root);
    return problem ? problem : check_places(s, size);
}

/* NULL, or what is wrong. */
static const char *read_header(safetensors *s)
{
    struct stat st;
    uint8_t length[8];
    uint64_t header = 0;
    if (fstat(s->fd, &st) != 0) return strerror(errno);
    if (!S_ISREG(st.st_mode)) return "is no file";
    uint64_t size = (uint64_t)st.st_size;
    if (size < sizeof length) return "is too short for a safetensors file";
    if (!read_all(s->fd, length, sizeof length, 0)) return strerror(errno);
    for (int i = 0; i < 8; i++) header |= (uint64_t)length[i] << 8 * i;
    if (header > size - sizeof length) return "is no safetensors file, or is cut off in its header";
    if (header > max_header) return "has a header of more than 32 MiB";
    char *text = cli_alloc(NULL, header, 1);
    s->data = sizeof length + header;
    const char *problem =
        read_all(s->fd, text, header, sizeof length) ? take_header(s, text, header, size - s->data) : strerror(errno);
    free(text);
    return problem;
}

int safetensors_open(safetensors *s, const char *path, const char *tool)
{
    *s = (safetensors){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (s->fd < 0) {
        cli_error(tool, "%s: cannot open: %s", path, strerror(errno));
        *s = (safetensors){0};
        return CLI_FAILED;
    }
    s->path = cli_copy(path, strlen(path));
    const char *problem = read_header(s);
    if (!problem) return CLI_OK;
    cli_error(tool, "%s: %s", path, problem);
    safetensors_close(s);
    return CLI_FAILED;
}

void safetensors_close(safetensors *s)
{
    if (!s->path) return;
    close(s->fd);
    for (size_t i = 0; i < s->count; i++) free((char *)(uintptr_t)s->tensors[i].name);
    free(s->tensors);
    free(s->offsets);
    json_decref(s->texts);
    free(s->path);
    *s = (safetensors){0};
}

const char *safetensors_text(const safetensors *s, const char *key)
{
    return json_string_value(json_object_get(s->texts, key));
}

int safetensors_read(const safetensors *s, size_t i, const hyp_tensor *t, const char *tool)
{
    if (read_all(s->fd, t->data, s->tensors[i].bytes, s->data + s->offsets[i])) return CLI_OK;
    cli_error(tool, "%s: cannot read: %s", s->path, strerror(errno));
    return CLI_FAILED;
}

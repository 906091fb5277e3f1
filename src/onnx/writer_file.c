/* The messages of a model that is written, and its file: weights go from where they are to where they belong, one by one. */
#include "onnx/writer.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "onnx/wire.h"

enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_FUNCTION = 25 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };
enum { IR_VERSION = 9, IR_VERSION_NEW = 13 /* which comes with the operators from 26 on */ };
enum { SMALL = 1024, ALIGNED = 64 }; /* bytes: of weights that stay in the model, and of those beside it */
static const uint64_t most_message = INT32_MAX; /* bytes: readers of protobuf refuse more */

/* ---- messages ---------------------------------------------------------------------------------------------- */

void hyp_ow_put_int(hyp_strbuf *sb, uint32_t field, int64_t value)
{
    uint8_t text[HYP_WIRE_PAIR];
    hyp_strbuf_add(sb, (const char *)text, hyp_wire_put_pair(text, field, HYP_WIRE_VARINT, (uint64_t)value));
}

void hyp_ow_put_text(hyp_strbuf *sb, uint32_t field, const char *text)
{
    hyp_wire_put_field(sb, field, (hyp_wire_bytes){(const uint8_t *)text, strlen(text)});
}

void hyp_ow_put_part(hyp_strbuf *sb, uint32_t field, const hyp_strbuf *part)
{
    hyp_wire_put_field(sb, field, (hyp_wire_bytes){(const uint8_t *)hyp_strbuf_text(part), part->len});
    sb->failed = sb->failed || part->failed;
}

/* TensorShapeProto.Dimension: a number, a symbol, or an expression as text. */
static void put_dim(hyp_strbuf *shape, const hyp_dims *dims, hyp_dim d)
{
    enum { VALUE = 1, PARAM = 2, DIM = 1 };
    hyp_strbuf dim = {0}, text = {0};
    size_t symbol;
    int64_t scale, offset;
    if (d == HYP_OW_ANY) {
        /* a dim of which nothing is said */
    } else if (hyp_dim_is_const(d)) {
        hyp_ow_put_int(&dim, VALUE, d);
    } else if (hyp_dim_is_linear(dims, d, &symbol, &scale, &offset) && scale == 1 && offset == 0) {
        hyp_ow_put_text(&dim, PARAM, hyp_dims_symbol_name(dims, symbol));
    } else {
        hyp_dim_print(&text, dims, d);
        hyp_ow_put_part(&dim, PARAM, &text);
    }
    hyp_ow_put_part(shape, DIM, &dim);
    hyp_strbuf_dispose(&text);
    hyp_strbuf_dispose(&dim);
}

void hyp_ow_print_value(hyp_strbuf *value, const char *name, const hyp_dims *dims, const hyp_type *type)
{
    enum { NAME = 1, TYPE = 2, TENSOR = 1, ELEMENT = 1, SHAPE = 2 };
    hyp_strbuf of = {0}, tensor = {0}, shape = {0};
    hyp_ow_put_text(value, NAME, name);
    if (type) {
        for (int32_t i = 0; i < type->rank; i++) put_dim(&shape, dims, type->dims[i]);
        hyp_ow_put_int(&tensor, ELEMENT, type->dtype);
        hyp_ow_put_part(&tensor, SHAPE, &shape);
        hyp_ow_put_part(&of, TENSOR, &tensor);
        hyp_ow_put_part(value, TYPE, &of);
    }
    hyp_strbuf_dispose(&shape);
    hyp_strbuf_dispose(&tensor);
    hyp_strbuf_dispose(&of);
}

void hyp_ow_put_value(hyp_strbuf *sb, uint32_t field, const char *name, const hyp_dims *dims, const hyp_type *type)
{
    hyp_strbuf value = {0};
    hyp_ow_print_value(&value, name, dims, type);
    hyp_ow_put_part(sb, field, &value);
    hyp_strbuf_dispose(&value);
}

static void put_tensor_head(hyp_strbuf *sb, const char *name, hyp_dtype dtype, int32_t rank, const int64_t *dims)
{
    for (int32_t i = 0; i < rank; i++) hyp_ow_put_int(sb, TENSOR_DIMS, dims[i]);
    hyp_ow_put_int(sb, TENSOR_TYPE, dtype);
    if (name) hyp_ow_put_text(sb, TENSOR_NAME, name);
}

void hyp_ow_put_tensor(hyp_strbuf *sb, uint32_t field, const char *name, hyp_dtype dtype, int32_t rank, const int64_t *dims,
                       const void *data, size_t bytes)
{
    hyp_strbuf tensor = {0};
    put_tensor_head(&tensor, name, dtype, rank, dims);
    hyp_wire_put_field(&tensor, TENSOR_RAW, (hyp_wire_bytes){bytes ? data : (const void *)"", bytes});
    hyp_ow_put_part(sb, field, &tensor);
    hyp_strbuf_dispose(&tensor);
}

/* ---- the file ---------------------------------------------------------------------------------------------- */

typedef struct writing {
    hyp_ow *w;
    hyp_constants *constants;
    hyp_outfile model, beside;
    char *beside_path;        /* NULL: all weights are in the model */
    const char *beside_name;  /* without its folder */
    hyp_diag *diag;
} writing;

static size_t bytes_of(const writing *f, const hyp_ow_weight *weight)
{
    size_t bytes = 0;
    return hyp_type_bytes(&f->w->g->values.data[weight->value].type, &bytes) ? bytes : 0;
}

static bool is_beside(const writing *f, size_t bytes) { return f->beside_path && bytes > SMALL; }

/* The message of a weight but for its elements, which come last where they are in it. `offset` is moved behind those
 * that are beside it. */
static void put_weight(const writing *f, const hyp_ow_weight *weight, uint64_t *offset, hyp_strbuf *out)
{
    enum { KEY = 1, VALUE = 2 };
    static const char *const keys[] = {"location", "offset", "length"};
    const hyp_type *type = &f->w->g->values.data[weight->value].type;
    size_t bytes = bytes_of(f, weight);
    put_tensor_head(out, weight->name, type->dtype, type->rank, type->dims);
    if (!is_beside(f, bytes)) {
        uint8_t head[HYP_WIRE_PAIR];
        hyp_strbuf_add(out, (const char *)head, hyp_wire_put_head(head, TENSOR_RAW, bytes));
        return;
    }
    *offset = (*offset + ALIGNED - 1) / ALIGNED * ALIGNED;
    for (int i = 0; i < 3; i++) {
        hyp_strbuf entry = {0};
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)(i == 1 ? *offset : bytes));
        hyp_ow_put_text(&entry, KEY, keys[i]);
        hyp_ow_put_text(&entry, VALUE, i ? number : f->beside_name);
        hyp_ow_put_part(out, TENSOR_EXTERNAL, &entry);
        hyp_strbuf_dispose(&entry);
    }
    hyp_ow_put_int(out, TENSOR_LOCATION, 1);
    *offset += bytes;
}

/* What the weights' messages take in the graph, their elements among them. */
static hyp_status size_weights(const writing *f, uint64_t *out)
{
    uint64_t offset = 0;
    *out = 0;
    for (size_t i = 0; i < f->w->weights.len; i++) {
        hyp_strbuf tensor = {0};
        uint8_t head[HYP_WIRE_PAIR];
        size_t bytes = bytes_of(f, &f->w->weights.data[i]);
        put_weight(f, &f->w->weights.data[i], &offset, &tensor);
        uint64_t size = tensor.len + (is_beside(f, bytes) ? 0 : (uint64_t)bytes);
        *out += size + hyp_wire_put_head(head, GRAPH_INITIALIZER, size);
        bool failed = tensor.failed;
        hyp_strbuf_dispose(&tensor);
        if (failed) return hyp_fail_memory(f->diag, 0);
    }
    return HYP_OK;
}

static hyp_status write_elements(writing *f, hyp_value_id v, size_t bytes, hyp_outfile *to)
{
    const hyp_value *value = &f->w->g->values.data[v];
    const hyp_onnx_write_options *o = f->w->options;
    if (value->kind == HYP_VALUE_CONST) {
        HYP_TRY(hyp_outfile_write(to, value->data, bytes, f->diag));
        if (o->forget) o->forget(o->user, value->data, bytes);
        return HYP_OK;
    }
    void *data;
    HYP_TRY(hyp_constants_take(f->constants, v, &data, f->diag));
    hyp_status status = hyp_outfile_write(to, data, bytes, f->diag);
    hyp_free(data);
    return status;
}

static hyp_status write_weights(writing *f)
{
    static const char zeros[ALIGNED];
    uint64_t offset = 0;
    for (size_t i = 0; i < f->w->weights.len; i++) {
        const hyp_ow_weight *weight = &f->w->weights.data[i];
        hyp_strbuf tensor = {0};
        uint8_t head[HYP_WIRE_PAIR];
        size_t bytes = bytes_of(f, weight);
        bool beside = is_beside(f, bytes);
        put_weight(f, weight, &offset, &tensor);
        hyp_status status = tensor.failed ? hyp_fail_memory(f->diag, bytes) : HYP_OK;
        size_t size = hyp_wire_put_head(head, GRAPH_INITIALIZER, tensor.len + (beside ? 0 : (uint64_t)bytes));
        if (status == HYP_OK) status = hyp_outfile_write(&f->model, head, size, f->diag);
        if (status == HYP_OK) status = hyp_outfile_write(&f->model, hyp_strbuf_text(&tensor), tensor.len, f->diag);
        if (status == HYP_OK && beside)
            status = hyp_outfile_write(&f->beside, zeros, (size_t)(offset - bytes - f->beside.offset), f->diag);
        if (status == HYP_OK) status = write_elements(f, weight->value, bytes, beside ? &f->beside : &f->model);
        hyp_strbuf_dispose(&tensor);
        HYP_TRY(status);
    }
    return HYP_OK;
}

static void put_opset(hyp_strbuf *sb, const char *domain, int64_t version)
{
    enum { DOMAIN = 1, VERSION = 2 };
    hyp_strbuf opset = {0};
    hyp_ow_put_text(&opset, DOMAIN, domain);
    hyp_ow_put_int(&opset, VERSION, version);
    hyp_ow_put_part(sb, MODEL_OPSET, &opset);
    hyp_strbuf_dispose(&opset);
}

/* Everything but the weights: the model up to its graph's head, and in it the graph. */
static hyp_status write_model(writing *f)
{
    hyp_ow *w = f->w;
    hyp_strbuf model = {0}, graph = {0};
    uint64_t weights = 0;
    uint8_t head[HYP_WIRE_PAIR];
    hyp_ow_put_text(&graph, GRAPH_NAME, w->options->name && *w->options->name ? w->options->name : "graph");
    hyp_strbuf_add(&graph, hyp_strbuf_text(&w->graph.nodes), w->graph.nodes.len);
    hyp_strbuf_add(&graph, hyp_strbuf_text(&w->infos), w->infos.len);
    hyp_strbuf_add(&graph, hyp_strbuf_text(&w->initializers), w->initializers.len);
    hyp_ow_put_int(&model, MODEL_IR, w->opset > HYP_ONNX_WRITE_OPSET ? IR_VERSION_NEW : IR_VERSION);
    hyp_ow_put_text(&model, MODEL_PRODUCER, "hypatia");
    hyp_ow_put_text(&model, MODEL_VERSION, HYP_VERSION);
    put_opset(&model, "", w->opset);
    for (size_t i = 0; i < w->domains.names.len; i++) put_opset(&model, w->domains.names.data[i], 1);
    hyp_strbuf_add(&model, hyp_strbuf_text(&w->functions), w->functions.len);
    hyp_status status = size_weights(f, &weights);
    uint64_t size = graph.len + weights;
    bool failed = model.failed || graph.failed || w->graph.nodes.failed || w->infos.failed || w->initializers.failed ||
                  w->functions.failed;
    if (status == HYP_OK && failed) status = hyp_fail_memory(f->diag, model.len + graph.len);
    if (status == HYP_OK && size > most_message - model.len)
        status = hyp_fail(f->diag, HYP_ERR_LIMIT, "the model would take more than 2 GiB without its weights");
    if (status == HYP_OK) status = hyp_outfile_write(&f->model, hyp_strbuf_text(&model), model.len, f->diag);
    if (status == HYP_OK) status = hyp_outfile_write(&f->model, head, hyp_wire_put_head(head, MODEL_GRAPH, size), f->diag);
    if (status == HYP_OK) status = hyp_outfile_write(&f->model, hyp_strbuf_text(&graph), graph.len, f->diag);
    hyp_strbuf_dispose(&model);
    hyp_strbuf_dispose(&graph);
    return status == HYP_OK ? write_weights(f) : status;
}

static hyp_status open_files(writing *f, const char *path)
{
    const hyp_onnx_write_options *o = f->w->options;
    uint64_t most = o->most ? o->most : most_message - ((uint64_t)64 << 20), all = 0;
    for (size_t i = 0; i < f->w->weights.len; i++) {
        const hyp_ow_weight *weight = &f->w->weights.data[i];
        all += bytes_of(f, weight);
        if (f->w->g->values.data[weight->value].kind == HYP_VALUE_NODE)
            HYP_TRY(hyp_constants_want(f->constants, weight->value, NULL, f->diag));
    }
    if (all > most) {
        const char *slash = strrchr(path, '/');
        if (strcmp(path, "-") == 0)
            return hyp_fail(f->diag, HYP_ERR_INVALID_ARGUMENT,
                            "the weights take %llu bytes, and go to a file beside the model, which needs a path",
                            (unsigned long long)all);
        size_t size = strlen(path) + sizeof ".data";
        f->beside_path = hyp_malloc(size);
        if (!f->beside_path) return hyp_fail_memory(f->diag, size);
        snprintf(f->beside_path, size, "%s.data", path);
        f->beside_name = f->beside_path + (slash ? slash + 1 - path : 0);
        HYP_TRY(hyp_outfile_open(&f->beside, f->beside_path, f->diag));
    }
    return hyp_outfile_open(&f->model, path, f->diag);
}

hyp_status hyp_ow_write_file(hyp_ow *w, const char *path)
{
    const hyp_onnx_write_options *o = w->options;
    writing f = {.w = w, .diag = w->diag};
    HYP_TRY(hyp_constants_create(w->g, o->forget, o->user, &f.constants, w->diag));
    hyp_status status = open_files(&f, path);
    if (status == HYP_OK) status = write_model(&f);
    if (status == HYP_OK && f.beside_path) status = hyp_outfile_commit(&f.beside, w->diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&f.model, w->diag);
    hyp_outfile_abort(&f.beside);
    hyp_outfile_abort(&f.model);
    hyp_constants_destroy(f.constants);
    hyp_free(f.beside_path);
    return status;
}

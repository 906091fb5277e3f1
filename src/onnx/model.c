/* A model's file: reading it, and what is known of it when it has become a graph. */
#include <string.h>

#include "onnx/import.h"
#include "onnx/skeleton.h"
#include "onnx/wire.h"

struct hyp_onnx_model {
    hyp_onnx_source source; /* owns everything the graph borrows */
    hyp_onnx_info info;
};

static const char standard_input[] = "standard input"; /* in messages, in the place of a path */

static const char *text_of(const char *text) { return text ? text : ""; }

/* Of the bytes in blocks, letting go of each block, so that the file need not fit in memory at once. */
static uint64_t hash_bytes(const hyp_onnx_source *source, const uint8_t *data, size_t size, uint64_t hash)
{
    const size_t block = (size_t)1 << 20;
    for (size_t at = 0; at < size; at += block) {
        size_t part = size - at < block ? size - at : block;
        hash = hyp_hash(data + at, part, hash);
        hyp_onnx_source_forget(source, data + at, part);
    }
    return hash;
}

/* Of the model file, chained with that of its external data, in order of first use. */
static uint64_t hash_source(const hyp_onnx_source *source)
{
    uint64_t hash = hash_bytes(source, source->data, source->size, 0);
    for (size_t i = 0; i < source->externals.len; i++) {
        const hyp_mapping *map = &source->externals.data[i].map;
        hash = hash_bytes(source, map->data, map->size, hash);
    }
    return hash;
}

/* A copy of a list in the model's arena. */
static hyp_status keep(hyp_onnx_model *m, const void *list, size_t count, size_t size, const void **out, hyp_diag *diag)
{
    void *copy = hyp_arena_zalloc(&m->source.arena, count, size);
    if (!copy) return hyp_fail_memory(diag, count * size);
    if (count) memcpy(copy, list, count * size);
    *out = copy;
    return HYP_OK;
}

static hyp_status fill_info(hyp_onnx_model *m, const hyp_importer *im)
{
    const char *producer = text_of(im->model->producer_name), *version = text_of(im->model->producer_version);
    m->info = (hyp_onnx_info){
        .producer = hyp_arena_printf(&m->source.arena, "%s%s%s", producer, *producer && *version ? " " : "", version),
        .graph_name = text_of(im->model->graph->name),
        .ir_version = im->model->ir_version,
        .opset = im->model_opset,
        .file_bytes = m->source.size,
        .hash = hash_source(&m->source),
        .equality_count = im->equalities.len,
        .warning_count = im->warnings.len,
    };
    const void *equalities, *warnings;
    HYP_TRY(keep(m, im->equalities.data, im->equalities.len, sizeof *im->equalities.data, &equalities, im->diag));
    HYP_TRY(keep(m, im->warnings.data, im->warnings.len, sizeof *im->warnings.data, &warnings, im->diag));
    m->info.equalities = equalities;
    m->info.warnings = warnings;
    for (size_t i = 0; i < m->source.externals.len; i++) m->info.file_bytes += m->source.externals.data[i].map.size;
    if (!m->info.producer) return hyp_fail_memory(im->diag, strlen(producer));
    im->g->name = hyp_arena_strdup(&im->g->arena, m->info.graph_name);
    return im->g->name ? HYP_OK : hyp_fail_memory(im->diag, strlen(m->info.graph_name));
}

static hyp_status read_model(hyp_onnx_model *m, const hyp_onnx_options *options, hyp_graph *g, hyp_diag *diag)
{
    static const hyp_onnx_options no_options = {0};
    ProtobufCMessage *message;
    hyp_diag unread; /* what nodes say is collected, whether the caller wants it or not */
    hyp_importer im = {.file = m->source.file,
                       .source = &m->source,
                       .options = options ? options : &no_options,
                       .g = g,
                       .diag = diag ? diag : &unread};
    if (!m->source.size) return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: is empty", im.file);
    HYP_TRY(hyp_wire_unpack(im.file, m->source.data, m->source.size, &hyp_onnx__model_proto__descriptor,
                            &m->source.arena, &message, diag));
    im.model = (const HypOnnx__ModelProto *)message;
    if (!im.model->graph)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: has no graph: it is not an ONNX model", im.file);
    hyp_status status = hyp_onnx_build(&im);
    if (status == HYP_OK) status = hyp_onnx_close_warnings(&im);
    if (status == HYP_OK) status = fill_info(m, &im);
    hyp_strbuf_dispose(&im.unsupported);
    hyp_vec_free(&im.warnings);
    hyp_onnx_drop_names(&im.scope);
    hyp_vec_free(&im.equal);
    hyp_vec_free(&im.sizes);
    hyp_vec_free(&im.data_sizes);
    hyp_vec_free(&im.states);
    hyp_vec_free(&im.sequences);
    hyp_vec_free(&im.from_data);
    hyp_vec_free(&im.equalities);
    hyp_arena_dispose(&im.arena);
    return status;
}

static hyp_status create_model(const char *file, const char *folder, size_t folder_len, hyp_onnx_model **out,
                               hyp_diag *diag)
{
    hyp_onnx_model *m = hyp_calloc(1, sizeof *m);
    if (!m) return hyp_fail_memory(diag, sizeof *m);
    m->source.file = hyp_arena_strdup(&m->source.arena, file);
    if (folder) m->source.folder = hyp_arena_strndup(&m->source.arena, folder, folder_len);
    if (!m->source.file || (folder && !m->source.folder)) {
        hyp_onnx_model_destroy(m);
        return hyp_fail_memory(diag, strlen(file));
    }
    *out = m;
    return HYP_OK;
}

static hyp_status finish(hyp_status status, hyp_onnx_model *m, hyp_onnx_model **out)
{
    if (status == HYP_OK)
        *out = m;
    else
        hyp_onnx_model_destroy(m);
    return status;
}

hyp_status hyp_onnx_import(const char *path, const hyp_onnx_options *options, hyp_graph *g, hyp_onnx_model **out_model,
                           hyp_diag *diag)
{
    hyp_onnx_model *m;
    hyp_mapping map;
    bool standard = strcmp(path, "-") == 0, open = strncmp(path, "/dev/fd/", 8) == 0;
    HYP_TRY(hyp_map_file(standard ? "/dev/stdin" : path, &map, diag));
    /* What has no folder has its external data in the working directory. */
    const char *slash = standard || open || map.copied ? NULL : strrchr(path, '/');
    size_t folder_len = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;
    hyp_status status = create_model(standard ? standard_input : path, slash ? path : ".", folder_len, &m, diag);
    if (status != HYP_OK) {
        hyp_unmap(&map);
        return status;
    }
    m->source.map = map;
    m->source.data = m->source.map.data;
    m->source.size = m->source.map.size;
    return finish(read_model(m, options, g, diag), m, out_model);
}

hyp_status hyp_onnx_import_memory(const void *data, size_t size, const char *file, const char *folder,
                                  const hyp_onnx_options *options, hyp_graph *g, hyp_onnx_model **out_model,
                                  hyp_diag *diag)
{
    hyp_onnx_model *m;
    HYP_TRY(create_model(file, folder, folder ? strlen(folder) : 0, &m, diag));
    m->source.data = data;
    m->source.size = size;
    return finish(read_model(m, options, g, diag), m, out_model);
}

void hyp_onnx_model_destroy(hyp_onnx_model *model)
{
    if (!model) return;
    hyp_onnx_source_dispose(&model->source);
    hyp_free(model);
}

const void *hyp_onnx_model_piped(const hyp_onnx_model *model, size_t *out_size)
{
    const hyp_onnx_source *s = &model->source;
    bool standard = strcmp(s->file, standard_input) == 0;
    *out_size = s->size;
    return s->map.data && (standard || s->map.copied) ? s->data : NULL;
}

bool hyp_onnx_model_reads(const hyp_onnx_model *model, const char *path)
{
    bool reads = hyp_same_file(model->source.file, path);
    for (size_t i = 0; i < model->source.externals.len; i++)
        reads = reads || hyp_same_file(model->source.externals.data[i].path, path);
    return reads;
}

void hyp_onnx_model_forget(const hyp_onnx_model *model, const void *data, size_t size)
{
    hyp_onnx_source_forget(&model->source, data, size);
}

hyp_status hyp_onnx_model_skeleton(hyp_onnx_model *model, const char *const *names, size_t count, size_t most,
                                   hyp_strbuf *out, hyp_diag *diag)
{
    return hyp_onnx_skeleton_make(&model->source, names, count, most, out, diag);
}

hyp_onnx_info hyp_onnx_model_info(const hyp_onnx_model *model) { return model->info; }

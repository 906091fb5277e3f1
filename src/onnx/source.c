#include "onnx/source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hyp_onnx_source_dispose(hyp_onnx_source *source)
{
    for (size_t i = 0; i < source->externals.len; i++) hyp_unmap(&source->externals.data[i].map);
    hyp_vec_free(&source->externals);
    hyp_unmap(&source->map);
    hyp_arena_dispose(&source->arena);
}

static bool has_parent_step(const char *location)
{
    for (const char *p = location; *p;) {
        size_t n = strcspn(p, "/\\");
        if (n == 2 && p[0] == '.' && p[1] == '.') return true;
        p += n + (p[n] != 0);
    }
    return false;
}

/* The path of `location` with every link followed, only if it is inside the folder. */
static hyp_status resolve(const hyp_onnx_source *source, const char *location, char out[PATH_MAX], hyp_diag *diag)
{
    const char *file = source->file;
    if (!source->folder)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "%s: has external data (\"%s\"), which a model in memory cannot have; load it from its file",
                        file, location);
    if (!*location || location[0] == '/' || location[0] == '\\' || has_parent_step(location))
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "%s: external data at \"%s\" is refused: only relative paths inside the model's folder, "
                        "without \"..\", are read",
                        file, location);
    char folder[PATH_MAX], joined[PATH_MAX];
    if (!realpath(source->folder, folder))
        return hyp_fail(diag, HYP_ERR_IO, "%s: cannot resolve the model's folder: %s", file, strerror(errno));
    int n = snprintf(joined, sizeof joined, "%s/%s", folder, location);
    if (n < 0 || (size_t)n >= sizeof joined || !realpath(joined, out))
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: external data file \"%s\" cannot be found beside the model: %s",
                        file, location, strerror((size_t)n >= sizeof joined ? ENAMETOOLONG : errno));
    size_t prefix = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    if (strncmp(out, folder, prefix) != 0 || out[prefix] != '/')
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "%s: external data at \"%s\" is refused: it is a link to %s, outside the model's folder", file,
                        location, out);
    return HYP_OK;
}

hyp_status hyp_onnx_source_external(hyp_onnx_source *source, const char *location, const hyp_mapping **out,
                                    hyp_diag *diag)
{
    char path[PATH_MAX];
    HYP_TRY(resolve(source, location, path, diag));
    for (size_t i = 0; i < source->externals.len; i++)
        if (strcmp(source->externals.data[i].path, path) == 0) {
            *out = &source->externals.data[i].map;
            return HYP_OK;
        }
    hyp_onnx_external external = {.path = hyp_arena_strdup(&source->arena, path)};
    if (!external.path) return hyp_fail_memory(diag, strlen(path));
    HYP_TRY(hyp_vec_reserve(&source->externals, source->externals.len + 1, diag));
    HYP_TRY(hyp_map_file(path, &external.map, diag));
    source->externals.data[source->externals.len++] = external;
    *out = &source->externals.data[source->externals.len - 1].map;
    return HYP_OK;
}

void hyp_onnx_source_forget(const hyp_onnx_source *source, const void *data, size_t size)
{
    hyp_map_forget(&source->map, data, size);
    for (size_t i = 0; i < source->externals.len; i++) hyp_map_forget(&source->externals.data[i].map, data, size);
}

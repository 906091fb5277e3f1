#include "route.h"

#include <string.h>

/* * stands for a model's name; what may follow it is versions/N. */
static const struct {
    const char *path, *name;
    bool post, versions;
} routes[ROUTE_COUNT] = {
    [ROUTE_NONE] = {"", "none", false, false},
    [ROUTE_SERVER] = {"/v2", "server", false, false},
    [ROUTE_LIVE] = {"/v2/health/live", "live", false, false},
    [ROUTE_READY] = {"/v2/health/ready", "ready", false, false},
    [ROUTE_MODEL] = {"/v2/models/*", "model", false, true},
    [ROUTE_MODEL_READY] = {"/v2/models/*/ready", "model_ready", false, true},
    [ROUTE_INFER] = {"/v2/models/*/infer", "infer", true, true},
    [ROUTE_INDEX] = {"/v2/repository/index", "index", true, false},
    [ROUTE_LOAD] = {"/v2/repository/models/*/load", "load", true, false},
    [ROUTE_UNLOAD] = {"/v2/repository/models/*/unload", "unload", true, false},
    [ROUTE_METRICS] = {"/metrics", "metrics", false, false},
};

bool route_is_post(route_kind kind) { return routes[kind].post; }
const char *route_name(route_kind kind) { return routes[kind].name; }

bool route_is_name(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return len && len <= ROUTE_NAME_MOST && !name[len] && !strchr("._-", *name);
}

/* "versions/N" at *at, which moves behind it. False: N is no version. */
static bool take_version(const char **at, int64_t *out)
{
    static const char word[] = "/versions/";
    if (strncmp(*at, word, sizeof word - 1) != 0) return true;
    const char *digits = *at + sizeof word - 1, *c = digits;
    int64_t version = 0;
    for (; *c >= '0' && *c <= '9' && c - digits < 18; c++) version = version * 10 + (*c - '0');
    if (version < 1 || (*c && *c != '/')) return false;
    *at = c;
    *out = version;
    return true;
}

static bool fits(const char *pattern, bool versions, const char *path, route *out)
{
    size_t before = strcspn(pattern, "*");
    if (strncmp(path, pattern, before) != 0) return false;
    if (!pattern[before]) return !path[before];
    const char *name = path + before, *behind = name + strcspn(name, "/");
    size_t len = (size_t)(behind - name);
    if (!len || len > ROUTE_NAME_MOST) return false;
    if (versions && !take_version(&behind, &out->version)) return false;
    if (strcmp(behind, pattern + before + 1) != 0) return false;
    memcpy(out->model, name, len);
    out->model[len] = 0;
    return true;
}

route route_find(const char *path)
{
    for (int kind = ROUTE_NONE + 1; kind < ROUTE_COUNT; kind++) {
        route r = {.kind = (route_kind)kind};
        if (fits(routes[kind].path, routes[kind].versions, path, &r)) return r;
    }
    return (route){.kind = ROUTE_NONE};
}

/* route.h - what a path of the server is. */
#ifndef HYPATIA_SERVE_ROUTE_H
#define HYPATIA_SERVE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum route_kind {
    ROUTE_NONE = 0,
    ROUTE_SERVER,
    ROUTE_LIVE,
    ROUTE_READY,
    ROUTE_MODEL,
    ROUTE_MODEL_READY,
    ROUTE_INFER,
    ROUTE_INDEX,
    ROUTE_LOAD,
    ROUTE_UNLOAD,
    ROUTE_METRICS,
    ROUTE_COUNT
} route_kind;

enum { ROUTE_NAME_MOST = 128 }; /* characters of a model's name */
typedef struct route {
    route_kind kind;
    char model[ROUTE_NAME_MOST + 1]; /* "" where the path names none */
    int64_t version;                 /* 0: the path names none */
} route;

/* ROUTE_NONE for a path that is not there, or names a version that cannot be one. */
route route_find(const char *path);
bool route_is_post(route_kind kind);     /* else it is GET */
const char *route_name(route_kind kind); /* for metrics: "infer" */
/* Letters, digits, and '.', '_', '-' but in front. */
bool route_is_name(const char *name);

#endif

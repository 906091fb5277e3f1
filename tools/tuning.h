/* tuning.h - tuning a plan on a device, with a timing cache: for `hypatia tune` and `hypatiac --tune`. */
#ifndef HYPATIA_TOOLS_TUNING_H
#define HYPATIA_TOOLS_TUNING_H

#include "session.h"

typedef struct tune_request {
    const char *cache; /* file; NULL = none */
    const char *key;   /* file of the private key that signs what is written; NULL = none */
    double seconds;    /* about how long to measure */
    bool quiet;        /* no progress, no table */
} tune_request;

/* Tunes the plan of a session, reading and extending the cache, and writes the plan to `out`. It is tuned for every
 * combination of the sizes in o->dims, which may have several for a dim ("batch=1", "8", "32"), with inputs as `o` says. A table goes to `people`. An exit code after a message. */
int tune_session(session *s, const session_options *o, const tune_request *r, const char *out, FILE *people,
                 const cli_args *args);

/* ---- tune_cache.c: what was measured, a JSON object on every line of a file ------------------------------------ */

typedef struct tune_cache {
    struct tune_line *lines; /* those of the device by their products; later ones replace earlier ones of the same product */
    size_t count, room, others; /* `others` are for other devices */
} tune_cache;

/* Reads the lines of a device. A missing file is an empty cache; a line that is broken is told on stderr with its
 * number, and left out. An exit code after a message. */
int tune_cache_load(tune_cache *c, const char *path, const char *device, const char *tool);
/* hyp_tune_options.find, with the cache as `user`. */
bool tune_cache_find(const char *product, hyp_tuned *out, void *cache);
/* Adds lines for what a context knows and the cache does not. An exit code after a message. */
int tune_cache_extend(const tune_cache *c, const char *path, const hyp_context *context, const char *tool);
/* Adds one line to the cache and, unless it is NULL, to the file. An exit code after a message. */
int tune_cache_add(tune_cache *c, const char *path, const char *device, const hyp_tuned *tuned, const char *tool);
void tune_cache_free(tune_cache *c);

#endif

/* server.h - what all requests of a server share, and the thread that loads plans, heeds signals and ends it all. */
#ifndef HYPATIA_SERVE_SERVER_H
#define HYPATIA_SERVE_SERVER_H

#include "options.h"
#include "route.h"
#include "tokens.h"

typedef enum server_state {
    SERVER_STARTING = 0,
    SERVER_SERVING,
    SERVER_LEAVING, /* serves, but says that it is not ready, so that balancers look elsewhere */
    SERVER_STOPPING /* what is under way is finished, what is new refused */
} server_state;

/* What a client asks of the thread that loads. */
typedef struct server_task {
    bool unload; /* else load */
    const char *model;
    hyp_status status; /* what became of it, with the diag's message */
    hyp_diag *diag;
    void (*done)(struct server_task *task); /* called once, by another thread */
    struct server_task *next;
} server_task;

typedef struct server {
    const serve_options *options;
    models models;
    budget budget;
    tokens tokens;
    code_counts codes[ROUTE_COUNT];
    _Atomic int state;               /* server_state */
    _Atomic size_t exchanges, whole; /* requests under way; those of them that have come as a whole */
    _Atomic uint64_t heard_ns;       /* when bytes of a body have come last */
    _Atomic size_t connections;
    uint64_t started_ns;
    pthread_mutex_t mutex; /* of tasks */
    server_task *first_task, **last_task;
    int wake_fd; /* eventfd */
} server;

/* Any thread. */
void server_ask(server *s, server_task *task);
bool server_stopping(server *s);

/* Serves until it is told to end. An exit code after a message. */
int server_run(const serve_options *options);

#endif

/* exchange.h - one request and its answer, as bytes: what each path of the server does. Nothing of how bytes are sent
 * and received, so that tests can have exchanges without a connection.
 *
 *     exchange_begin            path and method are known
 *     exchange_open_body        how much of a body is wanted
 *     exchange_prepare          the body is whole: false: it is answered
 *     exchange_submit           another thread answers, and calls `resume`
 *     exchange_answer           what to send
 */
#ifndef HYPATIA_SERVE_EXCHANGE_H
#define HYPATIA_SERVE_EXCHANGE_H

#include "server.h"

typedef struct answer_part {
    const void *data;
    size_t len;
} answer_part;

typedef struct answer {
    int code; /* of HTTP; 0: none yet */
    const char *type;
    const answer_part *parts; /* one behind the other: the text, and outputs where they lie */
    answer_part first;
    size_t count, len;   /* of parts, of all bytes */
    size_t header_bytes; /* of the JSON in front of binary outputs; 0: there are none */
    const char *allow;   /* methods, with 405 */
    bool retry;          /* another attempt may do: Retry-After */
    bool close;          /* the connection ends with it */
} answer;

typedef struct exchange {
    server *server;
    route route;
    store store;
    char *body;                            /* in the store, a NUL behind it */
    size_t body_len, body_room, body_most; /* body_most: as its length was said, else as the server has it */
    int64_t header_bytes;                  /* of Inference-Header-Content-Length; V2_NO_HEADER_BYTES */
    uint64_t begun_ns;
    model *model;
    served_plan *plan; /* a reference */
    v2_request request;
    job job;
    server_task task;
    hyp_diag diag;
    answer answer;
    bool whole;                         /* has come */
    bool waits;                         /* for another thread */
    void (*resume)(struct exchange *e); /* called by it, once: exchange_answer may be called */
} exchange;

/* The headers that decide before a body is read. NULL: absent. */
typedef struct exchange_headers {
    const char *authorization, *length, *inference_length, *encoding;
    bool framed_twice; /* there is more than one that says where the body ends */
} exchange_headers;

/* Afterwards e->answer.code is not 0 where no body is wanted any more. */
void exchange_begin(exchange *e, server *s, const char *method, const char *path, const exchange_headers *headers);
/* Appends to the body. False: answered, by 413 or 503. */
bool exchange_add_body(exchange *e, const char *data, size_t len);
/* True: exchange_submit is to follow; else answered. */
bool exchange_prepare(exchange *e);
void exchange_submit(exchange *e);
/* After `resume`. */
void exchange_finish(exchange *e);
/* Counts what is about to be sent: who has read an answer finds it counted. */
void exchange_count(exchange *e);
/* When it was sent, or the connection is gone: logs, and frees all but the struct. */
void exchange_end(exchange *e);

/* ---- for the parts of it ----------------------------------------------------------------------------------------- */

/* Answers with a text of the store; one that has failed is 503. */
void answer_text(exchange *e, int code, const char *type, const text *t);
/* Answers {"error": message}. */
void answer_error(exchange *e, int code, const char *message);
/* With the code of HTTP that the status has. */
void answer_status(exchange *e, hyp_status status);

/* infer.c */
bool infer_prepare(exchange *e);
void infer_submit(exchange *e);
void infer_finish(exchange *e);
/* pages.c: all that is only looked at */
void page_answer(exchange *e);
/* repository.c */
bool repository_prepare(exchange *e);
void repository_submit(exchange *e);
void repository_finish(exchange *e);

#endif

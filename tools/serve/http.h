/* http.h - connections, by libmicrohttpd: bytes to exchanges and back. The only part that knows it; http_absent.c
 * stands in where its header was missing.
 */
#ifndef HYPATIA_SERVE_HTTP_H
#define HYPATIA_SERVE_HTTP_H

#include "server.h"

typedef struct http http;

/* HYP_OK, or HYP_ERR_UNSUPPORTED where there is no libmicrohttpd, or Hypatia was built without its header. */
hyp_status http_check(hyp_diag *diag);
/* Listens, and has threads that serve. HYP_ERR_IO where the address cannot be had, HYP_ERR_MALFORMED for a certificate
 * or a key. */
hyp_status http_start(server *s, http **out, hyp_diag *diag);
/* "http://127.0.0.1:8000", with the port that was taken. Borrowed. */
const char *http_url(const http *h);
/* No more connections. */
void http_stop_accepting(http *h);
/* When no exchange waits for another thread: closes all. */
void http_stop(http *h);

#endif

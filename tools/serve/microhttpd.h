/* microhttpd.h - libmicrohttpd, opened when plans are to be served: it brings TLS along, for which every other command
 * would start later. Private to http.c. */
#ifndef HYPATIA_SERVE_MICROHTTPD_H
#define HYPATIA_SERVE_MICROHTTPD_H

#include <microhttpd.h>

#include "hypatia/status.h"

#define MICROHTTPD_FUNCTIONS(FUNCTION)                                                                                 \
    FUNCTION(start_daemon)                                                                                             \
    FUNCTION(quiesce_daemon)                                                                                           \
    FUNCTION(stop_daemon)                                                                                              \
    FUNCTION(is_feature_supported)                                                                                     \
    FUNCTION(lookup_connection_value)                                                                                  \
    FUNCTION(get_connection_values)                                                                                    \
    FUNCTION(suspend_connection)                                                                                       \
    FUNCTION(resume_connection)                                                                                        \
    FUNCTION(create_response_from_buffer)                                                                              \
    FUNCTION(create_response_from_iovec)                                                                               \
    FUNCTION(add_response_header)                                                                                      \
    FUNCTION(queue_response)                                                                                           \
    FUNCTION(destroy_response)

/* Its functions, each of the type that its header declares. */
typedef struct microhttpd {
#define MICROHTTPD_MEMBER(name) __typeof__(MHD_##name) *name;
    MICROHTTPD_FUNCTIONS(MICROHTTPD_MEMBER)
#undef MICROHTTPD_MEMBER
} microhttpd;

/* HYP_ERR_UNSUPPORTED where there is no libmicrohttpd that has all of these. It stays open for as long as the process
 * lives. */
hyp_status microhttpd_open(microhttpd *out, hyp_diag *diag);

#endif

/* http.h where Hypatia is built without libmicrohttpd. */
#include "http.h"

hyp_status http_check(hyp_diag *diag)
{
    return refuse(
        diag, HYP_ERR_UNSUPPORTED,
        "this build of Hypatia cannot serve: libmicrohttpd was not there (libmicrohttpd-dev) when it was made");
}

hyp_status http_start(server *s, http **out, hyp_diag *diag)
{
    (void)s, (void)out;
    return http_check(diag);
}

const char *http_url(const http *h)
{
    (void)h;
    return "";
}

void http_stop_accepting(http *h) { (void)h; }
void http_stop(http *h) { (void)h; }

#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hypatia/types.h"

static void mark_cut(hyp_diag *diag, int written)
{
    if (written >= (int)sizeof diag->message) memcpy(diag->message + sizeof diag->message - 4, "...", 4);
}

/* Names in messages come from models. A newline stays where an indented line follows, as ours do. */
static void make_visible(hyp_diag *diag)
{
    char old[HYP_DIAG_SIZE], *line = old;
    size_t len = 0;
    memcpy(old, diag->message, sizeof old);
    while (line) {
        char *end = strstr(line, "\n  ");
        if (end) *end = 0;
        len += hyp_visible(line, diag->message + len, sizeof diag->message - len);
        if (end && len < sizeof diag->message - 1) memcpy(diag->message + len++, "\n", 2);
        if (len >= sizeof diag->message) break;
        line = end ? end + 1 : NULL;
    }
    mark_cut(diag, (int)len);
}

hyp_status hyp_diag_write(hyp_diag *diag, hyp_status status, const char *fmt, ...)
{
    if (!diag) return status;
    /* The arguments may point into the old message, so the new one is made beside it. */
    char text[HYP_DIAG_SIZE];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(diag->message, text, sizeof text);
    diag->status = status;
    mark_cut(diag, n);
    make_visible(diag);
    return status;
}

void hyp_diag_prefix(hyp_diag *diag, const char *fmt, ...)
{
    if (!diag) return;
    char old[HYP_DIAG_SIZE], prefix[512];
    memcpy(old, diag->message, sizeof old);
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    mark_cut(diag, snprintf(diag->message, sizeof diag->message, "%s: %s", prefix, old));
    make_visible(diag);
}

const char *hyp_status_name(hyp_status status)
{
    static const char *const names[] = {
        "ok",       "invalid argument",  "out of memory", "i/o error",    "malformed input", "unsupported",
        "mismatch", "incompatible plan", "limit reached", "device error", "internal error",  "device lost",
        "cancelled", "signature",
    };
    _Static_assert(sizeof names / sizeof *names == HYP_STATUS_COUNT, "a name for every status");
    return (unsigned)status < HYP_STATUS_COUNT ? names[status] : "unknown status";
}

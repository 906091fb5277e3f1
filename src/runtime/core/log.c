#include <stdarg.h>
#include <stdio.h>

#include "runtime/core/backend.h"

void hyp_log_printf(const hyp_log *log, const char *fmt, ...)
{
    if (!log->write) return;
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    log->write(line, log->user);
}

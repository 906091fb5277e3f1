#include "schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char *const kinds[] = {"constant", "step", "cosine", "linear"}; /* by schedule_kind */

static bool parse_step(schedule *s, const char *text)
{
    size_t len = strcspn(text, ":");
    char *every = cli_copy(text, len);
    bool ok = text[len] == ':' && cli_parse_int(every, 1, INT64_MAX, &s->every) &&
              cli_parse_double(text + len + 1, 0, &s->factor) && isfinite(s->factor);
    free(every);
    return ok;
}

bool schedule_parse(schedule *s, const char *text)
{
    size_t len = strcspn(text, ":");
    for (int i = 0; i < 4; i++) {
        if (strlen(kinds[i]) != len || memcmp(kinds[i], text, len) != 0) continue;
        s->kind = (schedule_kind)i;
        s->last = 0;
        switch (s->kind) {
        case SCHEDULE_CONSTANT: return !text[len];
        case SCHEDULE_STEP: return text[len] && parse_step(s, text + len + 1);
        default: return !text[len] || (cli_parse_double(text + len + 1, 0, &s->last) && isfinite(s->last));
        }
    }
    return false;
}

void schedule_print(const schedule *s, char *out, size_t size)
{
    int n = snprintf(out, size, "%s rate %.17g warmup %" PRId64, kinds[s->kind], s->rate, s->warmup);
    if (n < 0 || (size_t)n >= size) return;
    if (s->kind == SCHEDULE_STEP)
        snprintf(out + n, size - (size_t)n, " every %" PRId64 " factor %.17g", s->every, s->factor);
    else if (s->kind != SCHEDULE_CONSTANT)
        snprintf(out + n, size - (size_t)n, " last %.17g total %" PRId64, s->last, s->total);
}

double schedule_rate(const schedule *s, int64_t step)
{
    const double pi = 3.14159265358979323846;
    if (step < s->warmup) return s->rate * (double)(step + 1) / (double)(s->warmup + 1);
    double t = (double)(step - s->warmup), n = (double)(s->total - s->warmup);
    switch (s->kind) {
    case SCHEDULE_CONSTANT: return s->rate;
    case SCHEDULE_STEP: return s->rate * pow(s->factor, (double)((step - s->warmup) / s->every));
    case SCHEDULE_COSINE: return t >= n ? s->last : s->last + (s->rate - s->last) * (1 + cos(pi * t / n)) / 2;
    case SCHEDULE_LINEAR: return t >= n ? s->last : s->rate + (s->last - s->rate) * t / n;
    }
    return s->rate;
}

#include "log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store.h"

enum { LONGEST = 6144, RESERVED = 8 };

typedef struct line {
    char text[LONGEST];
    size_t len;
} line;

static void put(line *l, const char *string)
{
    size_t len = strlen(string);
    if (len > LONGEST - RESERVED - l->len) len = LONGEST - RESERVED - l->len;
    memcpy(l->text + l->len, string, len);
    l->len += len;
}

/* The text without control characters, in quotes and escaped for JSON; as it is for people, in quotes where it has
 * spaces. */
static void put_text(line *l, log_form form, const char *string)
{
    char visible[LONGEST / 2];
    bool quoted = form == LOG_JSON || strpbrk(string, " \"") || !*string;
    hyp_visible(string, visible, sizeof visible);
    if (quoted) put(l, "\"");
    for (const char *c = visible; *c; c++) {
        char one[3] = {*c, 0, 0};
        if (quoted && (*c == '"' || *c == '\\')) one[0] = '\\', one[1] = *c;
        put(l, one);
    }
    if (quoted) put(l, "\"");
}

static void put_time(line *l)
{
    struct timespec now;
    struct tm parts;
    char when[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t len = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(when + len, sizeof when - len, ".%03dZ", (int)(now.tv_nsec / 1000000));
    put(l, when);
}

void log_event(log_form form, const char *event, const log_field *fields, size_t count)
{
    if (form == LOG_OFF) return;
    line l = {.len = 0};
    put(&l, form == LOG_JSON ? "{\"time\":\"" : "");
    put_time(&l);
    put(&l, form == LOG_JSON ? "\",\"event\":\"" : " ");
    put(&l, event);
    put(&l, form == LOG_JSON ? "\"" : "");
    for (size_t i = 0; i < count; i++) {
        char number[40];
        if (form == LOG_TEXT && fields[i].text && !*fields[i].text) continue;
        put(&l, form == LOG_JSON ? ",\"" : " ");
        put(&l, fields[i].name);
        put(&l, form == LOG_JSON ? "\":" : "=");
        snprintf(number, sizeof number, "%.9g", fields[i].number);
        if (fields[i].text)
            put_text(&l, form, fields[i].text);
        else
            put(&l, number);
    }
    if (form == LOG_JSON && l.len == LONGEST - RESERVED) l.text[l.len++] = '"'; /* a text was cut */
    l.text[l.len++] = form == LOG_JSON ? '}' : '\n';
    if (form == LOG_JSON) l.text[l.len++] = '\n';
    (void)!write(STDERR_FILENO, l.text, l.len);
}

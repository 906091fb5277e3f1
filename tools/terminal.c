#include "terminal.h"

#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "cli.h"
#include "timing.h"

/* ---- colours ---------------------------------------------------------------------------------------------- */

static enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } color;

bool terminal_choose_color(const char *when)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(when, names[i]) != 0) continue;
        color = i;
        return true;
    }
    return false;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* A terminal on which a line can be erased and colours be had. */
static bool is_able(FILE *to)
{
    const char *term = getenv("TERM");
    return isatty(fileno(to)) == 1 && term && strcmp(term, "dumb") != 0;
}

static bool has_color(FILE *to)
{
    if (color != COLOR_AUTO) return color == COLOR_ALWAYS;
    if (is_set("NO_COLOR")) return false;
    return (is_set("CLICOLOR_FORCE") && strcmp(getenv("CLICOLOR_FORCE"), "0") != 0) || is_able(to);
}

const char *terminal_begin(FILE *to, terminal_style style)
{
    static const char *const sequences[] = {"\033[1;31m", "\033[33m", "\033[32m", "\033[1m", "\033[0m"};
    return has_color(to) ? sequences[style] : "";
}

/* ---- columns ---------------------------------------------------------------------------------------------- */

size_t terminal_width(FILE *to)
{
    struct winsize size = {0};
    int64_t columns = 0;
    if (isatty(fileno(to)) != 1) return 0;
    if (is_set("COLUMNS") && cli_parse_int(getenv("COLUMNS"), 1, 1 << 20, &columns)) return (size_t)columns;
    return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* The character at the text: how many bytes it has and columns it takes, by the tables of the C library, whatever the
 * locale of the user is. */
static size_t next_character(const char *text, size_t *out_columns)
{
    static locale_t utf8;
    if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    mbstate_t state = {0};
    wchar_t c = 0;
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    size_t bytes = mbrtowc(&c, text, strlen(text), &state);
    bool whole = bytes > 0 && bytes <= MB_LEN_MAX;
    int columns = whole ? wcwidth(c) : 1;
    if (before) uselocale(before);
    *out_columns = columns < 0 ? 1 : (size_t)columns;
    return whole ? bytes : 1;
}

size_t terminal_columns(const char *text)
{
    size_t sum = 0, columns;
    for (; *text; sum += columns) text += next_character(text, &columns);
    return sum;
}

/* Bytes from the start of the text that take no more than so many columns; what combines stays with what it is put on. */
static size_t bytes_within(const char *text, size_t columns)
{
    size_t at = 0, wide;
    while (text[at]) {
        size_t bytes = next_character(text + at, &wide);
        if (wide > columns) break;
        columns -= wide;
        at += bytes;
    }
    return at;
}

/* Where the end of the text begins that takes no more than so many columns. */
static size_t end_within(const char *text, size_t all, size_t columns)
{
    size_t at = 0, wide;
    while (text[at] && all > columns) {
        at += next_character(text + at, &wide);
        all -= wide;
    }
    while (text[at]) { /* what combines has lost what it was put on */
        size_t bytes = next_character(text + at, &wide);
        if (wide > 0) break;
        at += bytes;
    }
    return at;
}

char *terminal_cut(const char *text, size_t columns)
{
    enum { DOTS = 3 };
    size_t all = columns ? terminal_columns(text) : 0;
    if (all <= columns) return cli_copy(text, strlen(text));
    size_t dots = columns < DOTS ? columns : DOTS, left = (columns - dots + 1) / 2, right = columns - dots - left;
    size_t first = bytes_within(text, left), last = end_within(text, all, right);
    char *cut = cli_alloc(NULL, first + dots + strlen(text + last) + 1, 1);
    memcpy(cut, text, first);
    memcpy(cut + first, "...", dots);
    memcpy(cut + first + dots, text + last, strlen(text + last) + 1);
    return cut;
}

void terminal_print_lines(FILE *to, const char *indent, const char *text)
{
    size_t width = terminal_width(to), taken = strlen(indent);
    while (*text) {
        size_t len = strcspn(text, "\n");
        char *line = cli_copy(text, len), *shown = cli_visible(line);
        char *cut = terminal_cut(shown, width ? (width > taken ? width - taken : 1) : 0);
        fprintf(to, "%s%s\n", indent, cut);
        free(cut);
        free(shown);
        free(line);
        text += len + (text[len] == '\n');
    }
}

/* ---- progress --------------------------------------------------------------------------------------------- */

/* Seconds until a work is a long one, and between two drawings. */
#define LONG 1.0 /* but for HYPATIA_PROGRESS */
#define DRAWS 0.1
#define TICKS 0.25

/* What the thread shares with who works is behind the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    pthread_t thread;
    bool active, ticking, end; /* it is drawn at all; the thread runs; it is to end */
    bool quiescent;            /* the thread draws nothing: something is timed */
    bool hidden, drawn;        /* nothing is to be drawn until the work says more; the line stands there */
    double began, last;        /* of the work; drawing */
    double after;              /* seconds until the first one */
    const char *tool;
    char text[512];
} work = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void erase(void)
{
    if (work.drawn) fputs("\r\033[K", stderr);
    work.drawn = false;
    fflush(stderr);
}

static bool is_due(double now, double pause)
{
    return work.active && !work.hidden && now - work.began >= work.after && (!work.drawn || now - work.last >= pause);
}

static void draw(double now)
{
    char line[640];
    size_t width = terminal_width(stderr);
    snprintf(line, sizeof line, "%s: %s, %.0f s", work.tool, work.text, now - work.began);
    char *cut = terminal_cut(line, width > 1 ? width - 1 : 1); /* behind the last column some terminals begin a line */
    fprintf(stderr, "\r\033[K%s", cut);
    fflush(stderr);
    free(cut);
    work.drawn = true;
    work.last = now;
}

static void *tick(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&work.lock);
    while (!work.end) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(TICKS * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&work.ended, &work.lock, &until);
        if (!work.end && !work.quiescent && work.text[0] && is_due(timing_now(), TICKS)) draw(timing_now());
    }
    pthread_mutex_unlock(&work.lock);
    return NULL;
}

/* The thread takes no signals: they are for who works. */
static bool start_ticking(void)
{
    pthread_condattr_t clock;
    sigset_t all, before;
    sigfillset(&all);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&work.ended, &clock);
    pthread_condattr_destroy(&clock);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&work.thread, NULL, tick, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started) pthread_cond_destroy(&work.ended);
    return started;
}

void terminal_work_begin(const char *tool, bool quiet, bool ticks)
{
    terminal_work_end();
    work.tool = tool;
    work.began = timing_now();
    work.text[0] = 0;
    work.end = work.hidden = work.quiescent = false;
    if (!is_set("HYPATIA_PROGRESS") || !cli_parse_double(getenv("HYPATIA_PROGRESS"), 0, &work.after)) work.after = LONG;
    work.active = !quiet && is_able(stderr);
    work.ticking = work.active && ticks && start_ticking();
}

bool terminal_work_asks(void)
{
    if (!work.active || timing_now() - work.began < work.after) return false;
    pthread_mutex_lock(&work.lock);
    bool asks = !work.drawn || timing_now() - work.last >= DRAWS;
    pthread_mutex_unlock(&work.lock);
    return asks;
}

void terminal_work_says(const char *fmt, ...)
{
    if (!work.active) return;
    va_list list;
    va_start(list, fmt);
    pthread_mutex_lock(&work.lock);
    vsnprintf(work.text, sizeof work.text, fmt, list);
    work.hidden = false;
    if (is_due(timing_now(), DRAWS)) draw(timing_now());
    pthread_mutex_unlock(&work.lock);
    va_end(list);
}

void terminal_work_tick(bool ticks)
{
    if (!work.active) return;
    pthread_mutex_lock(&work.lock);
    work.quiescent = !ticks;
    pthread_mutex_unlock(&work.lock);
}

void terminal_work_hide(void)
{
    if (!work.active) return;
    pthread_mutex_lock(&work.lock);
    work.hidden = true;
    erase();
    pthread_mutex_unlock(&work.lock);
}

void terminal_work_end(void)
{
    if (!work.active) return;
    pthread_mutex_lock(&work.lock);
    work.end = true;
    if (work.ticking) pthread_cond_signal(&work.ended);
    pthread_mutex_unlock(&work.lock);
    if (work.ticking) {
        pthread_join(work.thread, NULL);
        pthread_cond_destroy(&work.ended);
    }
    erase();
    work.active = work.ticking = false;
}

const char *terminal_duration(double seconds, char out[32])
{
    long left = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (left >= 3600)
        snprintf(out, 32, "%ld:%02ld:%02ld", left / 3600, left / 60 % 60, left % 60);
    else
        snprintf(out, 32, "%ld:%02ld", left / 60, left % 60);
    return out;
}

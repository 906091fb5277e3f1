#include "base/sexpr.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list being read. */
typedef struct open_list {
    hyp_sexpr *list;
    size_t base; /* of its items on the stack */
    const char *at, *line_start;
    uint32_t line;
} open_list;

typedef struct reader {
    hyp_arena *arena;
    const char *file, *begin, *end, *p;
    const char *line_start;
    uint32_t line;
    hyp_diag *diag;
    HYP_VEC(hyp_sexpr *) stack; /* items of the lists being read */
    HYP_VEC(open_list) open;
} reader;

static hyp_status fail_at(reader *r, const char *at, const char *what)
{
    const char *eol = memchr(r->line_start, '\n', (size_t)(r->end - r->line_start));
    size_t len = (size_t)((eol ? eol : r->end) - r->line_start), column = (size_t)(at - r->line_start);
    if (len > 160) len = 160;
    if (column > len) return hyp_fail(r->diag, HYP_ERR_MALFORMED, "%s:%u:%zu: %s", r->file, r->line, column + 1, what);
    return hyp_fail(r->diag, HYP_ERR_MALFORMED, "%s:%u:%zu: %s\n  %.*s\n  %*s^", r->file, r->line, column + 1, what,
                    (int)len, r->line_start, (int)column, "");
}

static void skip_space(reader *r)
{
    for (; r->p < r->end; r->p++) {
        if (*r->p == '\n') {
            r->line++;
            r->line_start = r->p + 1;
        } else if (*r->p == ';') {
            while (r->p + 1 < r->end && r->p[1] != '\n') r->p++;
        } else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r') {
            return;
        }
    }
}

static bool ends_atom(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '(' || c == ')' || c == '"' || c == ';';
}

static void put_utf8(char **out, unsigned code)
{
    unsigned char *o = (unsigned char *)*out;
    if (code < 0x80) {
        *o++ = (unsigned char)code;
    } else if (code < 0x800) {
        *o++ = (unsigned char)(0xc0 | code >> 6);
        *o++ = (unsigned char)(0x80 | (code & 0x3f));
    } else {
        *o++ = (unsigned char)(0xe0 | code >> 12);
        *o++ = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        *o++ = (unsigned char)(0x80 | (code & 0x3f));
    }
    *out = (char *)o;
}

static hyp_status read_string(reader *r, hyp_sexpr *sx)
{
    const char *start = r->p++, *close = r->p;
    for (; close < r->end && *close != '"' && *close != '\n'; close++)
        if (*close == '\\') close++;
    if (close >= r->end || *close != '"') return fail_at(r, start, "this string is not closed on its line");
    char *out = hyp_arena_alloc(r->arena, (size_t)(close - r->p) + 1); /* no escape grows its text */
    if (!out) return hyp_fail_memory(r->diag, (size_t)(close - r->p) + 1);
    sx->kind = HYP_SX_STRING;
    sx->text = out;
    while (r->p < close) {
        char c = *r->p++;
        if (c == '\\') {
            const char *at = r->p - 1;
            c = *r->p++;
            if (c == 'n') {
                c = '\n';
            } else if (c == 't') {
                c = '\t';
            } else if (c == 'u') {
                char hex[5] = {0};
                if (close - r->p < 4) return fail_at(r, at, "\\u wants four hexadecimal digits");
                memcpy(hex, r->p, 4);
                char *stop;
                unsigned code = (unsigned)strtoul(hex, &stop, 16);
                if (stop != hex + 4 || code == 0) return fail_at(r, at, "\\u wants four hexadecimal digits, not all 0");
                r->p += 4;
                put_utf8(&out, code);
                continue;
            } else if (c != '"' && c != '\\') {
                return fail_at(r, at, "unknown escape; known are \\\" \\\\ \\n \\t \\uXXXX");
            }
        }
        if (c == 0) return fail_at(r, r->p - 1, "a string may not contain a NUL byte");
        *out++ = c;
    }
    *out = 0;
    r->p = close + 1;
    return HYP_OK;
}

static void classify(hyp_sexpr *sx)
{
    const char *t = sx->text;
    char *stop;
    const char *digits = *t == '-' || *t == '+' ? t + 1 : t;
    sx->kind = HYP_SX_SYMBOL;
    if (*digits >= '0' && *digits <= '9') {
        errno = 0;
        long long v = strtoll(t, &stop, 10);
        if (!*stop && !errno) {
            sx->kind = HYP_SX_INT;
            sx->integer = v;
            sx->number = (double)v;
            return;
        }
    }
    bool named = !strcmp(t, "inf") || !strcmp(t, "-inf") || !strcmp(t, "nan");
    if (named || (*digits >= '0' && *digits <= '9') || (*digits == '.' && digits[1] >= '0' && digits[1] <= '9')) {
        double v = hyp_strtod(t, &stop);
        if (!*stop) {
            sx->kind = HYP_SX_FLOAT;
            sx->number = v;
        }
    }
}

static hyp_status read_atom(reader *r, hyp_sexpr *sx)
{
    const char *start = r->p;
    while (r->p < r->end && !ends_atom(*r->p)) {
        unsigned char c = (unsigned char)*r->p;
        if (c < 0x20 || c == 0x7f) return fail_at(r, r->p, "a control character is not allowed here");
        r->p++;
    }
    sx->text = hyp_arena_strndup(r->arena, start, (size_t)(r->p - start));
    if (!sx->text) return hyp_fail_memory(r->diag, (size_t)(r->p - start));
    classify(sx);
    return HYP_OK;
}

static hyp_status open_one(reader *r, hyp_sexpr *list, const char *at)
{
    return hyp_vec_push(&r->open, r->diag, (open_list){list, r->stack.len, at, r->line_start, r->line});
}

/* Gives the innermost list its items. */
static hyp_status close_one(reader *r)
{
    const open_list *top = &r->open.data[--r->open.len];
    hyp_sexpr *list = top->list;
    list->kind = HYP_SX_LIST;
    list->count = (uint32_t)(r->stack.len - top->base);
    list->items = hyp_arena_zalloc(r->arena, list->count, sizeof *list->items);
    if (!list->items) return hyp_fail_memory(r->diag, list->count * sizeof *list->items);
    if (list->count) memcpy(list->items, r->stack.data + top->base, list->count * sizeof *list->items);
    r->stack.len = top->base;
    return HYP_OK;
}

/* The next item of the innermost list; a list is opened. */
static hyp_status read_item(reader *r, size_t max_depth)
{
    hyp_sexpr *sx = hyp_arena_zalloc(r->arena, 1, sizeof *sx);
    if (!sx) return hyp_fail_memory(r->diag, sizeof *sx);
    sx->line = r->line;
    sx->column = (uint32_t)(r->p - r->line_start) + 1;
    HYP_TRY(hyp_vec_push(&r->stack, r->diag, sx));
    if (*r->p == '"') return read_string(r, sx);
    if (*r->p != '(') return read_atom(r, sx);
    const char *at = r->p++;
    if (r->open.len > max_depth) {
        char what[64];
        snprintf(what, sizeof what, "nesting deeper than %zu", max_depth);
        return fail_at(r, at, what);
    }
    return open_one(r, sx, at);
}

static hyp_status read_forms(reader *r, hyp_sexpr *forms, size_t max_depth)
{
    HYP_TRY(open_one(r, forms, r->p));
    while (r->open.len) {
        const open_list *top = &r->open.data[r->open.len - 1];
        bool outermost = r->open.len == 1;
        skip_space(r);
        if (r->p >= r->end && !outermost) {
            r->line = top->line;
            r->line_start = top->line_start;
            return fail_at(r, top->at, "this '(' is never closed");
        }
        if (r->p < r->end && *r->p == ')' && outermost) return fail_at(r, r->p, "this ')' closes nothing");
        if (r->p < r->end && *r->p != ')') {
            HYP_TRY(read_item(r, max_depth));
            continue;
        }
        if (!outermost) r->p++;
        HYP_TRY(close_one(r));
    }
    return HYP_OK;
}

hyp_status hyp_sexpr_parse(hyp_arena *arena, const char *file, const char *text, size_t len,
                           const hyp_sexpr **out_forms, hyp_diag *diag)
{
    enum { MAX_DEPTH = 256 };
    return hyp_sexpr_parse_deep(arena, file, text, len, MAX_DEPTH, out_forms, diag);
}

hyp_status hyp_sexpr_parse_deep(hyp_arena *arena, const char *file, const char *text, size_t len, size_t max_depth,
                                const hyp_sexpr **out_forms, hyp_diag *diag)
{
    reader r = {.arena = arena, .file = file, .begin = text, .end = text + len, .p = text, .line_start = text,
                .line = 1, .diag = diag};
    hyp_sexpr *forms = hyp_arena_zalloc(arena, 1, sizeof *forms);
    if (!forms) return hyp_fail_memory(diag, sizeof *forms);
    forms->line = forms->column = 1;
    size_t wrong = hyp_text_prefix(text, len);
    if (wrong < len) {
        while (r.p < text + wrong) {
            if (*r.p++ != '\n') continue;
            r.line++;
            r.line_start = r.p;
        }
        return fail_at(&r, r.p, *r.p ? "this is not UTF-8" : "a control character is not allowed here");
    }
    hyp_status status = read_forms(&r, forms, max_depth);
    hyp_vec_free(&r.stack);
    hyp_vec_free(&r.open);
    if (status == HYP_OK) *out_forms = forms;
    return status;
}

bool hyp_sexpr_is(const hyp_sexpr *sx, const char *name)
{
    return sx->kind == HYP_SX_SYMBOL && strcmp(sx->text, name) == 0;
}

bool hyp_sexpr_is_form(const hyp_sexpr *sx, const char *name)
{
    return sx->kind == HYP_SX_LIST && sx->count > 0 && hyp_sexpr_is(sx->items[0], name);
}

void hyp_sexpr_print_symbol(hyp_strbuf *sb, const char *text)
{
    bool plain = *text != 0;
    for (const char *p = text; *p && plain; p++) plain = !ends_atom(*p) && (unsigned char)*p >= ' ' && *p != 0x7f;
    if (plain)
        hyp_strbuf_puts(sb, text);
    else
        hyp_strbuf_quote(sb, text);
}

void hyp_sexpr_print(hyp_strbuf *sb, const hyp_sexpr *sx)
{
    switch (sx->kind) {
    case HYP_SX_LIST:
        hyp_strbuf_puts(sb, "(");
        for (uint32_t i = 0; i < sx->count; i++) {
            if (i) hyp_strbuf_puts(sb, " ");
            hyp_sexpr_print(sb, sx->items[i]);
        }
        hyp_strbuf_puts(sb, ")");
        break;
    case HYP_SX_STRING: hyp_strbuf_quote(sb, sx->text); break;
    case HYP_SX_SYMBOL: hyp_sexpr_print_symbol(sb, sx->text); break;
    case HYP_SX_INT: hyp_strbuf_printf(sb, "%lld", (long long)sx->integer); break;
    case HYP_SX_FLOAT: hyp_strbuf_double(sb, sx->number); break;
    }
}

hyp_status hyp_sexpr_diag(hyp_diag *diag, const char *file, const hyp_sexpr *sx, hyp_status status, const char *fmt,
                          ...)
{
    char text[HYP_DIAG_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return hyp_fail(diag, status, "%s:%u:%u: %s", file, sx->line, sx->column, text);
}

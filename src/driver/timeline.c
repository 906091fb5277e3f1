/* timeline.c - what a compilation took its time for, in Chrome's trace event format: complete events, microseconds from its start. */
#include <stdlib.h>

#include "driver/driver.h"

enum { PASSES = 1, RULES = 2 }; /* tracks */

static void put_microseconds(hyp_strbuf *sb, double seconds)
{
    uint64_t ns = seconds > 0 ? (uint64_t)(seconds * 1e9 + 0.5) : 0;
    hyp_strbuf_printf(sb, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

/* An event up to its arguments. */
static void begin_event(hyp_timeline *t, const char *name, const char *kind, int track, double start, double seconds)
{
    hyp_strbuf_puts(&t->text, t->text.len ? ",\n{\"name\": " : "{\"name\": ");
    hyp_strbuf_quote(&t->text, name);
    hyp_strbuf_puts(&t->text, ", \"cat\": ");
    hyp_strbuf_quote(&t->text, kind);
    hyp_strbuf_printf(&t->text, ", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": ", track);
    put_microseconds(&t->text, start - t->start);
    hyp_strbuf_puts(&t->text, ", \"dur\": ");
    put_microseconds(&t->text, seconds);
    hyp_strbuf_puts(&t->text, ", \"args\": {");
}

void hyp_timeline_pass(hyp_timeline *t, const char *name, double start, double seconds, size_t nodes)
{
    begin_event(t, name, "pass", PASSES, start, seconds);
    hyp_strbuf_printf(&t->text, "\"nodes\": %zu}}", nodes);
}

void hyp_timeline_span(const hyp_rewrite_span *s, void *user)
{
    hyp_timeline *t = user;
    const struct {
        const char *name;
        size_t value;
    } args[] = {{"number", s->number},   {"matches", s->matches},     {"applications", s->applications},
                {"e_nodes", s->e_nodes}, {"e_classes", s->e_classes}};
    bool rule = s->kind[0] == 'r', iteration = s->kind[0] == 'i', first = true;
    begin_event(t, s->name, s->kind, rule ? RULES : PASSES, s->start, s->seconds);
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        bool counts = i == 0 ? iteration : i < 3 ? rule || iteration : args[i].value > 0;
        if (!counts) continue;
        hyp_strbuf_printf(&t->text, "%s\"%s\": %zu", first ? "" : ", ", args[i].name, args[i].value);
        first = false;
    }
    hyp_strbuf_puts(&t->text, "}}");
}

hyp_status hyp_timeline_write(hyp_timeline *t, const char *model, hyp_write_fn write, void *user, hyp_diag *diag)
{
    static const struct {
        int track;
        const char *name;
    } tracks[] = {{PASSES, "passes"}, {RULES, "rules, each as long as all its work"}};
    begin_event(t, "compile", "compilation", PASSES, t->start, hyp_limit_clock() - t->start);
    hyp_strbuf_puts(&t->text, "\"model\": ");
    hyp_strbuf_quote(&t->text, model);
    hyp_strbuf_puts(&t->text, "}}");
    for (size_t i = 0; i < 2; i++)
        hyp_strbuf_printf(&t->text, ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": \"%s\"}}",
                          tracks[i].track, tracks[i].name);
    if (t->text.failed) return hyp_fail_memory(diag, t->text.len);
    static const char head[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", tail[] = "\n]}\n";
    write(head, sizeof head - 1, user);
    write(t->text.data, t->text.len, user);
    write(tail, sizeof tail - 1, user);
    return HYP_OK;
}

/* blame.c - which rules made a wrong plan: bisection over those that were applied, each step a compilation without
 * some. reduce.c then finds the node. */
#include <stdio.h>
#include <string.h>

#include "driver/driver.h"

typedef struct search {
    const char *model_path;
    hyp_compile_options options;
    const char **disabled; /* the caller's, then what this search leaves out */
    size_t fixed;          /* how many are the caller's */
    hyp_samples *samples;  /* those that the plan failed on */
    const char **names;    /* rules that may be to blame, the likelier ones first */
    size_t count;
} search;

/* Whether the plan is right without these rules. One that cannot be made tells nothing and counts as wrong. */
static bool passes(search *s, const char *const *without, size_t count)
{
    for (size_t i = 0; i < count; i++) s->disabled[s->fixed + i] = without[i];
    s->options.disabled_rules = s->disabled;
    s->options.disabled_rule_count = s->fixed + count;
    return hyp_compile_once(s->model_path, NULL, &s->options, NULL, NULL, NULL) == HYP_OK;
}

/* Finds rules without which the plan is right, as few as bisection finds: each is the last of the shortest prefix of
 * the candidates that, with those found so far, makes the plan right when it is left out. They are moved to the front;
 * returns their number, 0 where no subset helps. */
static size_t find_culprits(search *s)
{
    size_t found = 0;
    if (!passes(s, s->names, s->count)) return 0;
    while (found < s->count && !(found > 0 && passes(s, s->names, found))) {
        size_t low = found, high = s->count; /* without [0, high) the plan is right, without [0, low) it is not */
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            if (passes(s, s->names, middle))
                high = middle;
            else
                low = middle;
        }
        const char *culprit = s->names[high - 1];
        memmove(&s->names[found + 1], &s->names[found], (high - 1 - found) * sizeof *s->names);
        s->names[found++] = culprit;
        s->count = high;
    }
    return found;
}

/* Rules that the result owes its form to come first, the caller's own before the built-in ones. */
static void list_candidates(search *s, const hyp_rewrite_report *r)
{
    for (int used = 1; used >= 0; used--)
        for (size_t i = r->rule_count; i-- > 0;)
            if (r->rules[i].applications && (r->rules[i].used > 0) == used) s->names[s->count++] = r->rules[i].name;
}

static bool prepare(search *s, const hyp_settings *settings, const hyp_rewrite_report *r, const hyp_verification *v)
{
    const hyp_compile_options *o = &settings->options;
    s->options = *o;
    s->options.no_record = true;
    s->options.verify = "strict";
    s->options.reduced = NULL;
    s->options.explain = s->options.why_not = s->options.why_not_node = s->options.dump_ir_stage = NULL;
    s->options.emit_onnx = NULL;
    s->options.dump_egraph = NULL;
    s->options.dump_rewrites = s->options.trace = s->options.progress = s->options.warning = NULL;
    s->options.on_progress = NULL;
    s->options.choose_form = NULL; /* what is timed now would not be what made the plan */
    s->options.stop = NULL; /* with a search that was cut short no rule does harm */
    s->fixed = o->disabled_rule_count;
    s->disabled = hyp_calloc(s->fixed + r->rule_count + 1, sizeof *s->disabled);
    s->names = hyp_calloc(r->rule_count + 1, sizeof *s->names);
    s->samples = hyp_calloc(v->count + 1, sizeof *s->samples);
    if (!s->disabled || !s->names || !s->samples) return false;
    for (size_t i = 0; i < s->fixed; i++) s->disabled[i] = o->disabled_rules[i];
    for (size_t i = 0; i < v->count; i++) s->samples[i] = (hyp_samples){v->samples[i].inputs, v->graph->inputs.len};
    /* With fp8 they are what was given, and the scales come from all of them. */
    if (settings->precision != HYP_PRECISION_FP8) {
        s->options.samples = s->samples;
        s->options.samples_count = v->count;
    }
    list_candidates(s, r);
    return true;
}

/* The options of the caller, samples too, so that what is found shows with them. */
static void find_node(search *s, const hyp_settings *settings, size_t found, hyp_strbuf *says)
{
    for (size_t i = 0; i < found; i++) s->disabled[s->fixed + i] = s->names[i];
    s->options.samples = settings->options.samples;
    s->options.samples_count = settings->options.samples_count;
    hyp_suspects suspects = {s->disabled, s->fixed, found};
    hyp_blame_node(s->model_path, &s->options, &suspects, settings->options.reduced, says);
}

static void say(search *s, const hyp_settings *settings, size_t found, hyp_diag *diag)
{
    char was[HYP_DIAG_SIZE];
    if (!diag) return;
    snprintf(was, sizeof was, "%s", diag->message);
    hyp_strbuf sb = {0};
    if (found == 0)
        hyp_strbuf_puts(&sb, "no rule is to blame: it is wrong without any that was applied");
    else
        hyp_strbuf_printf(&sb, "to blame %s", found == 1 ? "is the rule" : "are the rules");
    for (size_t i = 0; i < found; i++) hyp_strbuf_printf(&sb, "%s '%s'", i ? "," : "", s->names[i]);
    if (found) hyp_strbuf_printf(&sb, ": without %s the plan is right", found == 1 ? "it" : "them");
    hyp_strbuf_puts(&sb, "; ");
    hyp_strbuf node = {0};
    find_node(s, settings, found, &node);
    hyp_strbuf_puts(&sb, hyp_strbuf_text(&node));
    hyp_strbuf_dispose(&node);
    hyp_diag_write(diag, diag->status, "%s; %s. No plan was written", was, hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
}

void hyp_blame(const char *model_path, const hyp_settings *settings, const hyp_rewrite_report *rewrite,
               const hyp_verification *v, hyp_diag *diag)
{
    search s = {.model_path = model_path};
    if (prepare(&s, settings, rewrite, v)) say(&s, settings, s.count ? find_culprits(&s) : 0, diag);
    hyp_free(s.samples);
    hyp_free(s.names);
    hyp_free(s.disabled);
}

/* Which rules there are, by the texts that are built in and the user's, and which of them a phase has. */
#include <string.h>

#include "rewrite/builtin.h"
#include "rewrite/job.h"

static const char *keep_stem(hyp_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    return hyp_arena_strndup(arena, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

/* Text i of those to read, the built-in ones first; false after the last. */
static bool rule_text(const hyp_rewrite_options *options, size_t i, const char **out_file, const char **out_text)
{
    size_t builtin = options->no_builtin ? 0 : hyp_builtin_rules_count;
    if (i >= builtin + options->rule_file_count) return false;
    *out_file = i < builtin ? hyp_builtin_rules[i].name : options->rule_files[i - builtin];
    *out_text = i < builtin ? hyp_builtin_rules[i].text : options->rule_texts[i - builtin];
    return true;
}

static hyp_status keep_rules(hyp_rw_job *j, hyp_ruleset *rules, size_t first, const char *file)
{
    hyp_rewrite_report *report = j->report;
    const char *stem = keep_stem(&report->arena, file);
    for (size_t i = first; stem && i < hyp_ruleset_count(rules); i++) {
        hyp_rule_info info = hyp_ruleset_rule(rules, i);
        hyp_rule_use *use = &report->rules[i];
        use->name = hyp_arena_strdup(&report->arena, info.name);
        use->ruleset = info.ruleset[0] ? hyp_arena_strdup(&report->arena, info.ruleset) : stem;
        use->numeric_class = hyp_arena_strdup(&report->arena, info.numeric_class[0] ? info.numeric_class : "E");
        use->doc = hyp_arena_strdup(&report->arena, info.doc);
        if (!use->name || !use->ruleset || !use->numeric_class || !use->doc) stem = NULL;
        j->names[i] = use->name;
    }
    return stem ? HYP_OK : hyp_fail_memory(j->diag, strlen(file));
}

/* Room in the report for the rules of a ruleset. */
static hyp_status grow_report(hyp_rw_job *j, size_t count)
{
    hyp_rewrite_report *report = j->report;
    hyp_rule_use *uses = hyp_arena_zalloc(&report->arena, count, sizeof *uses);
    const char **names = hyp_arena_zalloc(&report->arena, count, sizeof *names);
    if (!uses || !names) return hyp_fail_memory(j->diag, count * sizeof *uses);
    if (report->rule_count) {
        memcpy(uses, report->rules, report->rule_count * sizeof *uses);
        memcpy(names, j->names, report->rule_count * sizeof *names);
    }
    report->rules = uses;
    report->rule_count = count;
    j->names = names;
    return HYP_OK;
}

/* Whether a phase searches for rules of text i: of the user's any may be of any ruleset, and is to be right. */
static bool is_searched(const hyp_rewrite_options *options, size_t i, const char *file, hyp_rw_phase p)
{
    size_t builtin = options->no_builtin ? 0 : hyp_builtin_rules_count;
    return i >= builtin || hyp_rw_in_phase(file, p);
}

/* The last of the built-in texts that have rules of the first two phases. */
static const char last_normal[] = "linear";

hyp_status hyp_rw_read_rules(hyp_rw_job *j, hyp_rw *rw, hyp_rw_phase p, hyp_ruleset **out)
{
    const char *file, *text;
    bool first_time = j->report->rule_count == 0;
    *out = NULL;
    for (size_t i = 0; rule_text(j->options, i, &file, &text); i++) {
        size_t before = hyp_ruleset_count(*out);
        if (!*out) HYP_TRY(hyp_ruleset_parse_with(rw->eg, file, NULL, 0, hyp_rw_desugar, rw, out, j->diag));
        if (is_searched(j->options, i, file, p))
            HYP_TRY(hyp_ruleset_extend_with(*out, file, text, strlen(text), hyp_rw_desugar, rw, j->diag));
        else
            HYP_TRY(hyp_ruleset_extend_names(*out, file, text, strlen(text), j->diag));
        if (p == HYP_RW_RECOGNIZE && !j->options->rule_file_count && strcmp(file, last_normal) == 0) break;
        if (!first_time) continue;
        HYP_TRY(grow_report(j, hyp_ruleset_count(*out)));
        HYP_TRY(keep_rules(j, *out, before, file));
    }
    return HYP_OK;
}

static bool is_named(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Every one of `wanted` is the name of a rule; `purpose` is what it was given for. */
static hyp_status check_known(hyp_rw_job *j, const char *const *wanted, size_t count, const char *purpose)
{
    for (size_t i = 0; i < count; i++) {
        if (is_named(j->names, j->report->rule_count, wanted[i])) continue;
        const char **names = hyp_arena_zalloc(&j->report->arena, j->report->rule_count + 1, sizeof *names);
        if (!names) return hyp_fail_memory(j->diag, j->report->rule_count * sizeof *names);
        if (j->report->rule_count) memcpy(names, j->names, j->report->rule_count * sizeof *names);
        const char *near = hyp_nearest(wanted[i], names);
        return hyp_fail(j->diag, HYP_ERR_INVALID_ARGUMENT, "there is no rule '%s' to %s%s%s%s", wanted[i], purpose,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "; --list-rules shows them");
    }
    return HYP_OK;
}

hyp_status hyp_rw_check_names(hyp_rw_job *j)
{
    const hyp_rewrite_options *o = j->options;
    HYP_TRY(check_known(j, o->disabled, o->disabled_count, "disable"));
    if (o->why_not) HYP_TRY(check_known(j, &o->why_not, 1, "ask about"));
    return check_known(j, o->only, o->only_count, "apply alone");
}

bool hyp_rw_is_chosen(const hyp_rewrite_options *o, const char *name)
{
    return (!o->only_count || is_named(o->only, o->only_count, name)) &&
           !is_named(o->disabled, o->disabled_count, name);
}

bool hyp_rw_in_phase(const char *ruleset, hyp_rw_phase p)
{
    bool recognize = strcmp(ruleset, "recognize") == 0;
    if (p == HYP_RW_NORMALIZE) return strcmp(ruleset, "normalize") == 0;
    return p == HYP_RW_OPTIMIZE ? !recognize : recognize || strcmp(ruleset, "linear") == 0;
}

void hyp_rw_enable_rules(const hyp_rw_job *j, hyp_ruleset *rules, hyp_rw_phase p)
{
    for (size_t i = 0; i < hyp_ruleset_count(rules); i++) {
        const hyp_rule_use *use = &j->report->rules[i];
        bool on =
            hyp_rw_in_phase(use->ruleset, p) && (j->options->allow_approximate || strcmp(use->numeric_class, "A") != 0);
        hyp_ruleset_enable(rules, i, on && hyp_rw_is_chosen(j->options, use->name));
    }
}

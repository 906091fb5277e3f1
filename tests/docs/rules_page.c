/* The generated parts of docs/rules.md: the tables of rules, conditions and functions, from the rules and tables that
 * the compiler has.
 *
 *   rules_page PAGE     prints the page with what stands between <!-- generated: NAME --> and <!-- end --> made anew
 *
 * To bring the page up to date: rules_page docs/rules.md > new && mv new docs/rules.md */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "rewrite/builtin.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"

/* Text in a cell of a table. */
static void put_cell(hyp_strbuf *out, const char *text)
{
    for (; *text; text++) hyp_strbuf_printf(out, *text == '|' ? "\\|" : "%c", *text);
}

static hyp_status put_rules(hyp_strbuf *out, hyp_diag *diag)
{
    hyp_rewrite_options options = {0};
    hyp_rewrite_report report;
    HYP_TRY(hyp_rewrite_list(&options, &report, diag));
    hyp_strbuf_printf(out, "%zu rules:\n\n| rule | class | set | what it says |\n|---|---|---|---|\n",
                      report.rule_count);
    for (size_t i = 0; i < report.rule_count; i++) {
        const hyp_rule_use *rule = &report.rules[i];
        hyp_strbuf_printf(out, "| `%s` | %s | %s | ", rule->name, rule->numeric_class, rule->ruleset);
        put_cell(out, rule->doc);
        hyp_strbuf_printf(out, " |\n");
    }
    hyp_rewrite_report_dispose(&report);
    return HYP_OK;
}

static hyp_status put_callbacks(hyp_strbuf *out, bool conditions)
{
    for (const hyp_rw_callback *const *table = hyp_rw_callbacks; *table; table++)
        for (const hyp_rw_callback *r = *table; r->name; r++)
            if (conditions == (r->condition != NULL)) hyp_strbuf_printf(out, "    %s\n", r->doc);
    return HYP_OK;
}

static hyp_status put_part(hyp_strbuf *out, const char *name, size_t len, hyp_diag *diag)
{
    if (len == 5 && strncmp(name, "rules", len) == 0) return put_rules(out, diag);
    if (len == 10 && strncmp(name, "conditions", len) == 0) return put_callbacks(out, true);
    if (len == 9 && strncmp(name, "functions", len) == 0) return put_callbacks(out, false);
    return hyp_fail(diag, HYP_ERR_MALFORMED, "no part is called '%.*s'; wanted rules, conditions or functions",
                    (int)len, name);
}

static hyp_status make_page(const char *page, hyp_strbuf *out, hyp_diag *diag)
{
    static const char open[] = "<!-- generated: ", shut[] = "<!-- end -->";
    int parts = 0;
    for (const char *at; (at = strstr(page, open)) != NULL; parts++) {
        const char *name = at + strlen(open), *stop = strstr(name, " -->\n"), *end = strstr(name, shut);
        if (!stop || !end || end < stop) return hyp_fail(diag, HYP_ERR_MALFORMED, "a generated part has no end");
        hyp_strbuf_printf(out, "%.*s -->\n\n", (int)(stop - page), page);
        HYP_TRY(put_part(out, name, (size_t)(stop - name), diag));
        hyp_strbuf_printf(out, "\n");
        page = end;
    }
    hyp_strbuf_printf(out, "%s", page);
    return parts == 3 ? HYP_OK : hyp_fail(diag, HYP_ERR_MALFORMED, "the page has %d generated parts; wanted 3", parts);
}

int main(int argc, char **argv)
{
    hyp_diag diag = {0};
    hyp_mapping map;
    hyp_strbuf in = {0}, out = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: rules_page PAGE\n");
        return 2;
    }
    hyp_status status = hyp_map_file(argv[1], &map, &diag);
    if (status == HYP_OK) {
        hyp_strbuf_printf(&in, "%.*s", (int)map.size, (const char *)map.data);
        hyp_unmap(&map);
        status = make_page(hyp_strbuf_text(&in), &out, &diag);
    }
    if (status == HYP_OK)
        fputs(hyp_strbuf_text(&out), stdout);
    else
        fprintf(stderr, "%s: %s\n", argv[1], diag.message);
    hyp_strbuf_dispose(&in);
    hyp_strbuf_dispose(&out);
    return status == HYP_OK ? 0 : 1;
}

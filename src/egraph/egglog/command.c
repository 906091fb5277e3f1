/* command.c - a program, command by command; the C interface. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sized.h"
#include "egraph/egglog/db.h"

#define FAIL(sx, status, ...) hyp_sexpr_fail(r->diag, r->file, (sx), (status), __VA_ARGS__)

enum { MAX_INCLUDES = 64 };

static hyp_status run_forms(hyp_el_reader *r, const hyp_sexpr *forms);
static hyp_status run_text(hyp_egglog *db, const char *file, const char *text, size_t len, hyp_diag *diag);

void hyp_el_write(hyp_egglog *db, const char *text, size_t len)
{
    if (db->options.write) db->options.write(text, len, db->options.user);
}

/* ---- facts and actions at the top ----------------------------------------------------------------------------- */

static hyp_status find_one(hyp_egglog *db, const hyp_el_code *code, uint32_t *regs, void *user, bool *out_stop,
                           hyp_diag *diag)
{
    (void)db, (void)code, (void)regs, (void)diag;
    *(bool *)user = *out_stop = true;
    return HYP_OK;
}

hyp_status hyp_el_holds(hyp_el_reader *r, hyp_sexpr *const *facts, uint32_t count, bool *out)
{
    hyp_egglog *db = r->db;
    hyp_el_lower l;
    hyp_el_code *code;
    *out = false;
    HYP_TRY(hyp_el_rebuild(db, r->diag));
    for (size_t f = 0; f < db->functions.len; f++) db->functions.data[f].table.limit = db->functions.data[f].table.count;
    hyp_el_lower_begin(&l, db, r->file, true, r->diag);
    l.for_what = "in these facts";
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < count && status == HYP_OK; i++) status = hyp_el_lower_fact(&l, facts[i]);
    if (status == HYP_OK) status = hyp_el_lower_turn(&l);
    if (status == HYP_OK) status = hyp_el_lower_finish(&l, HYP_EL_NONE, &code);
    if (status == HYP_OK) status = hyp_el_search(db, code, 0, true, find_one, out, r->diag);
    hyp_el_lower_dispose(&l);
    return status;
}

static hyp_status act_at_top(hyp_el_reader *r, const hyp_sexpr *form)
{
    hyp_el_lower l;
    hyp_el_code *code;
    hyp_el_value unused;
    hyp_el_lower_begin(&l, r->db, r->file, true, r->diag);
    l.in_head = l.may_look_up = true;
    hyp_status status = hyp_el_lower_action(&l, form);
    if (status == HYP_OK) status = hyp_el_lower_finish(&l, HYP_EL_NONE, &code);
    if (status == HYP_OK) status = hyp_el_evaluate(r->db, code, NULL, 0, &unused, r->diag);
    hyp_el_lower_dispose(&l);
    return status;
}

static hyp_status check(hyp_el_reader *r, const hyp_sexpr *form)
{
    bool holds;
    HYP_TRY(hyp_el_holds(r, form->items + 1, form->count - 1, &holds));
    if (holds) return HYP_OK;
    hyp_strbuf sb = {0};
    hyp_sexpr_print(&sb, form);
    hyp_status status = FAIL(form, HYP_ERR_MISMATCH, "this does not hold: %.500s", hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

/* The command must fail, and for a reason of its own: what is not read, a limit and memory are none. */
static hyp_status fail(hyp_el_reader *r, const hyp_sexpr *form)
{
    if (form->count != 2) return FAIL(form, HYP_ERR_MALFORMED, "(fail COMMAND)");
    hyp_status status = hyp_el_command(r, form->items[1]);
    if (status == HYP_ERR_MALFORMED || status == HYP_ERR_MISMATCH || status == HYP_ERR_IO) return HYP_OK;
    if (status != HYP_OK) return status;
    return FAIL(form, HYP_ERR_MISMATCH, "the command did not fail");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The path of a file that a program names; it is relative to the program. NULL after a message. */
static char *path_of(hyp_el_reader *r, const hyp_sexpr *form, uint32_t i)
{
    hyp_strbuf sb = {0};
    if (form->count <= i || form->items[i]->kind != HYP_SX_STRING) {
        (void)FAIL(form, HYP_ERR_MALFORMED, "the name of a file, in quotes, is wanted");
        return NULL;
    }
    if (r->db->options.no_files) {
        (void)FAIL(form, HYP_ERR_UNSUPPORTED, "this program may not read files");
        return NULL;
    }
    const char *name = form->items[i]->text, *slash = strrchr(r->file, '/');
    if (*name != '/' && slash) hyp_strbuf_add(&sb, r->file, (size_t)(slash - r->file) + 1);
    hyp_strbuf_puts(&sb, name);
    if (!sb.failed) return sb.data;
    (void)hyp_fail_memory(r->diag, strlen(name));
    hyp_strbuf_dispose(&sb);
    return NULL;
}

static hyp_status include(hyp_el_reader *r, const hyp_sexpr *form)
{
    hyp_mapping map;
    if (r->db->include_depth >= MAX_INCLUDES)
        return FAIL(form, HYP_ERR_LIMIT, "files include each other more than %d deep", MAX_INCLUDES);
    char *path = path_of(r, form, 1);
    if (!path) return r->diag ? r->diag->status : HYP_ERR_MALFORMED;
    hyp_status status = hyp_map_file(path, &map, r->diag);
    if (status == HYP_OK) {
        r->db->include_depth++;
        status = run_text(r->db, path, (const char *)map.data, map.size, r->diag);
        r->db->include_depth--;
        hyp_unmap(&map);
    }
    hyp_free(path);
    return status;
}

/* One field of a line of (input): text, or a number as the column wants it. */
static hyp_status read_field(hyp_el_reader *r, const hyp_sexpr *form, uint32_t sort, const char *text, size_t len,
                             hyp_el_value *out)
{
    char number[64], *end = number;
    if (sort == HYP_EL_STRING) return hyp_el_string(r->db, text, len, out, r->diag);
    if (len < sizeof number && len) {
        memcpy(number, text, len);
        number[len] = 0;
        if (sort == HYP_EL_F64) {
            double f = hyp_strtod(number, &end);
            if (!*end) return hyp_el_f64(r->db, f, out, r->diag);
        } else if (sort == HYP_EL_I64) {
            long long i = strtoll(number, &end, 10);
            if (!*end) return hyp_el_i64(r->db, i, out, r->diag);
        }
    }
    return FAIL(form, HYP_ERR_MALFORMED, "'%.*s' is no %s", (int)(len < 40 ? len : 40), text, r->db->sorts.data[sort].name);
}

/* One line: columns with tabs between. */
static hyp_status input_line(hyp_el_reader *r, const hyp_sexpr *form, uint32_t function, const char *line, size_t len)
{
    hyp_egglog *db = r->db;
    const hyp_el_function *f = &db->functions.data[function];
    uint32_t columns[HYP_EL_MAX_COLUMNS] = {0}, wanted = f->kind == HYP_EL_FUNCTION ? f->arity + 1 : f->arity;
    for (uint32_t i = 0; i < wanted; i++) {
        const char *tab = i + 1 < wanted ? memchr(line, '\t', len) : line + len;
        if (!tab) return FAIL(form, HYP_ERR_MALFORMED, "a line has %u columns where %s takes %u", i + 1, f->name, wanted);
        HYP_TRY(read_field(r, form, f->sorts[i], line, (size_t)(tab - line), &columns[i]));
        len -= (size_t)(tab - line) + (i + 1 < wanted);
        line = tab + (i + 1 < wanted);
    }
    if (f->kind != HYP_EL_CONSTRUCTOR) return hyp_el_put(db, function, columns, r->diag);
    if (hyp_el_lookup(&f->table, columns) != HYP_EL_NONE) return HYP_OK;
    HYP_TRY(hyp_el_new_id(db, &columns[f->arity], r->diag));
    return hyp_el_put(db, function, columns, r->diag);
}

/* (input NAME "FILE"): a row for each line of a file. */
static hyp_status input(hyp_el_reader *r, const hyp_sexpr *form)
{
    hyp_mapping map;
    if (form->count != 3 || form->items[1]->kind != HYP_SX_SYMBOL)
        return FAIL(form, HYP_ERR_MALFORMED, "(input NAME \"FILE\")");
    uint32_t function = hyp_el_function_named(r->db, form->items[1]->text);
    if (function == HYP_EL_NONE) return FAIL(form, HYP_ERR_MALFORMED, "there is no table %s", form->items[1]->text);
    char *path = path_of(r, form, 2);
    if (!path) return r->diag ? r->diag->status : HYP_ERR_MALFORMED;
    hyp_status status = hyp_map_file(path, &map, r->diag);
    hyp_free(path);
    HYP_TRY(status);
    const char *text = (const char *)map.data, *end = text + map.size;
    if (map.size && (hyp_text_prefix(text, map.size) != map.size))
        status = FAIL(form, HYP_ERR_MALFORMED, "the file is no UTF-8 text");
    while (status == HYP_OK && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text)), *stop = newline ? newline : end;
        size_t len = (size_t)(stop - text) - (stop > text && stop[-1] == '\r');
        if (len) status = input_line(r, form, function, text, len);
        text = stop + 1;
    }
    hyp_unmap(&map);
    return status;
}

/* ---- commands ------------------------------------------------------------------------------------------------------ */

static hyp_status push_or_pop(hyp_el_reader *r, const hyp_sexpr *form, bool push)
{
    int64_t times = 1;
    if (form->count > 2 || (form->count == 2 && (form->items[1]->kind != HYP_SX_INT || form->items[1]->integer < 0)))
        return FAIL(form, HYP_ERR_MALFORMED, "(%s [N])", push ? "push" : "pop");
    if (form->count == 2) times = form->items[1]->integer;
    while (times-- > 0) {
        if (!push && !r->db->saved) return FAIL(form, HYP_ERR_MALFORMED, "(pop) without a (push) before it");
        HYP_TRY(push ? hyp_el_push(r->db, r->diag) : hyp_el_pop(r->db, r->diag));
    }
    return HYP_OK;
}

/* What egglog has and is not read, so that it is named. */
static hyp_status refuse(hyp_el_reader *r, const hyp_sexpr *form)
{
    static const char *const unread[] = {
        "prove",         "prove-exists",    "output",    "calc",          "define",        "declare",
        "query-extract", "simplify",        "keep-best", "multi-extract", "let-scheduler", "with-dynamic-cost",
        "query",         "unstable-fresh!", "for",       "parallel",      "primitive",     NULL};
    for (size_t i = 0; unread[i]; i++)
        if (hyp_sexpr_is_form(form, unread[i]))
            return FAIL(form, HYP_ERR_UNSUPPORTED, "the command %s is not read", unread[i]);
    return HYP_OK;
}

hyp_status hyp_el_command(hyp_el_reader *r, const hyp_sexpr *form)
{
    bool known;
    if (form->kind != HYP_SX_LIST || !form->count || form->items[0]->kind != HYP_SX_SYMBOL)
        return FAIL(form, HYP_ERR_MALFORMED, "a command is (NAME ..)");
    HYP_TRY(hyp_el_check_limits(r->db, r->diag));
    HYP_TRY(hyp_el_declare(r, form, &known));
    if (known) return HYP_OK;
    HYP_TRY(hyp_el_run_command(r, form, &known));
    if (known) return HYP_OK;
    if (hyp_sexpr_is_form(form, "check")) return check(r, form);
    if (hyp_sexpr_is_form(form, "fail")) return fail(r, form);
    if (hyp_sexpr_is_form(form, "extract")) return hyp_el_extract(r, form);
    if (hyp_sexpr_is_form(form, "print-function") || hyp_sexpr_is_form(form, "print-size"))
        return hyp_el_print_function(r, form);
    if (hyp_sexpr_is_form(form, "push")) return push_or_pop(r, form, true);
    if (hyp_sexpr_is_form(form, "pop")) return push_or_pop(r, form, false);
    if (hyp_sexpr_is_form(form, "include")) return include(r, form);
    if (hyp_sexpr_is_form(form, "input")) return input(r, form);
    if (hyp_sexpr_is_form(form, "set-option") || hyp_sexpr_is_form(form, "print-stats"))
        return HYP_OK; /* of egglog's own run */
    HYP_TRY(refuse(r, form));
    return act_at_top(r, form);
}

static hyp_status run_forms(hyp_el_reader *r, const hyp_sexpr *forms)
{
    for (uint32_t i = 0; i < forms->count; i++) {
        hyp_status status = hyp_el_command(r, forms->items[i]);
        if (status == HYP_OK) continue;
        /* What is found while a command runs says what, not where. */
        if (r->diag && strncmp(r->diag->message, r->file, strlen(r->file)) != 0 &&
            !hyp_sexpr_is_form(forms->items[i], "include"))
            hyp_diag_prefix(r->diag, "%s:%u:%u", r->file, forms->items[i]->line, forms->items[i]->column);
        return status;
    }
    return hyp_el_rebuild(r->db, r->diag);
}

static hyp_status run_text(hyp_egglog *db, const char *file, const char *text, size_t len, hyp_diag *diag)
{
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    hyp_el_reader r = {db, file, diag};
    hyp_status status = hyp_sexpr_parse(&arena, file, len ? text : "", len, &forms, diag);
    if (status == HYP_OK) status = run_forms(&r, forms);
    hyp_arena_dispose(&arena);
    return status;
}

/* ---- the C interface ----------------------------------------------------------------------------------------------- */

hyp_status hyp_egglog_run(hyp_egglog *db, const char *file, const char *text, size_t len, hyp_diag *diag)
{
    hyp_diag own = {0}; /* what comes back is read here, too */
    HYP_NEED(db);
    HYP_NEED(file);
    HYP_NEED_LIST(text, len);
    db->deadline = db->options.max_seconds > 0 ? hyp_el_now() + db->options.max_seconds : 0;
    return run_text(db, file, text, len, diag ? diag : &own);
}

void hyp_egglog_cancel(hyp_egglog *db)
{
    if (db) atomic_store(&db->cancel, true);
}

static hyp_status start(hyp_egglog *db, hyp_diag *diag)
{
    static const char *const sorts[] = {"Unit", "bool", "i64", "f64", "String"};
    uint32_t id;
    for (uint32_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        HYP_TRY(hyp_el_name_of(db, sorts[i], &id, diag));
        HYP_TRY(hyp_vec_push(&db->sorts, diag,
                             (hyp_el_sort){db->names.names.data[id], (hyp_el_sort_kind)i, HYP_EL_NONE, HYP_EL_NONE, false}));
        db->named.data[id].sort = i;
    }
    HYP_TRY(hyp_vec_push(&db->rulesets, diag, (hyp_el_ruleset){.name = ""}));
    return HYP_OK;
}

hyp_status hyp_egglog_create(const hyp_egglog_options *options, hyp_egglog **out, hyp_diag *diag)
{
    HYP_NEED(out);
    *out = NULL;
    hyp_egglog *db = hyp_calloc(1, sizeof *db);
    if (!db) return hyp_fail_memory(diag, sizeof *db);
    db->epoch = 1;
    db->options.size = sizeof db->options;
    hyp_status status = hyp_sized_take(&db->options, options, hyp_egglog_options, diag);
    if (status == HYP_OK && !(db->options.max_seconds >= 0))
        status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%g seconds are no limit; 0 is none", db->options.max_seconds);
    if (status == HYP_OK) status = start(db, diag);
    if (status != HYP_OK) {
        hyp_egglog_destroy(db);
        return status;
    }
    *out = db;
    return HYP_OK;
}

void hyp_egglog_destroy(hyp_egglog *db)
{
    if (!db) return;
    hyp_el_discard_saved(db);
    for (size_t i = 0; i < db->functions.len; i++) hyp_el_dispose_table(db, &db->functions.data[i].table);
    for (size_t i = 0; i < db->rulesets.len; i++) {
        hyp_vec_free(&db->rulesets.data[i].rules);
        hyp_vec_free(&db->rulesets.data[i].parts);
    }
    hyp_large_free(db->parent.data, db->parent.cap * sizeof *db->parent.data);
    hyp_large_free(db->dirty.data, db->dirty.cap * sizeof *db->dirty.data);
    hyp_vec_free(&db->mended);
    hyp_vec_free(&db->staged);
    hyp_vec_free(&db->staged_words);
    hyp_vec_free(&db->sorts);
    hyp_vec_free(&db->functions);
    hyp_vec_free(&db->rulesets);
    hyp_vec_free(&db->rules);
    hyp_vec_free(&db->prims);
    hyp_vec_free(&db->named);
    hyp_intern_dispose(&db->names);
    hyp_el_dispose_values(db);
    hyp_arena_dispose(&db->arena);
    hyp_free(db);
}

hyp_status hyp_egglog_last_run(const hyp_egglog *db, hyp_egglog_report *out, hyp_diag *diag)
{
    HYP_NEED(db);
    HYP_NEED(out);
    HYP_TRY(hyp_sized_want(out, hyp_egglog_report, diag));
    hyp_egglog_report report = db->report;
    report.size = sizeof report;
    (void)hyp_sized_give(out, &report);
    return HYP_OK;
}

/* egraph_language.c - what the tool knows of terms: conditions for rules, and costs of operators. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "egraph_tool.h"

/* ---- conditions ------------------------------------------------------------------------------------ */

/* A number in decimal: "inf" and "nan" are names like others. */
static bool read_number(const char *text, double *out)
{
    const char *digits = *text == '-' || *text == '+' ? text + 1 : text;
    return ((*digits >= '0' && *digits <= '9') || *digits == '.') && cli_parse_double(text, -HUGE_VAL, out);
}

/* The number that a leaf of a class is, if any: the one of its oldest such leaf. */
static bool number_of(const hyp_call *call, size_t arg, double *out)
{
    size_t count, kids;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(call->eg, call->args[arg], &count);
    for (size_t i = 0; nodes && i < count; i++) {
        hyp_enode_children(call->eg, nodes[i], &kids);
        if (kids == 0 && read_number(hyp_egraph_symbol_name(call->eg, hyp_enode_op(call->eg, nodes[i])), out))
            return true;
    }
    return false;
}

/* A leaf that is no number. */
static bool is_named(const hyp_call *call, size_t arg)
{
    size_t count, kids;
    double ignored;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(call->eg, call->args[arg], &count);
    for (size_t i = 0; nodes && i < count; i++) {
        hyp_enode_children(call->eg, nodes[i], &kids);
        const char *name = hyp_egraph_symbol_name(call->eg, hyp_enode_op(call->eg, nodes[i]));
        if (kids == 0 && !read_number(name, &ignored)) return true;
    }
    return false;
}

typedef bool (*test_fn)(const hyp_call *call);

static bool are_numbers(const hyp_call *call)
{
    double ignored;
    for (size_t i = 0; i < call->arg_count; i++)
        if (!number_of(call, i, &ignored)) return false;
    return true;
}

static bool are_integers(const hyp_call *call)
{
    double value;
    for (size_t i = 0; i < call->arg_count; i++)
        if (!number_of(call, i, &value) || value != floor(value)) return false;
    return true;
}

static bool are_symbols(const hyp_call *call)
{
    for (size_t i = 0; i < call->arg_count; i++)
        if (!is_named(call, i)) return false;
    return true;
}

static bool are_zero(const hyp_call *call)
{
    double value;
    for (size_t i = 0; i < call->arg_count; i++)
        if (!number_of(call, i, &value) || value != 0) return false;
    return true;
}

static bool are_same(const hyp_call *call)
{
    for (size_t i = 1; i < call->arg_count; i++)
        if (call->args[i] != call->args[0]) return false;
    return true;
}

static bool ascend(const hyp_call *call)
{
    double before = -HUGE_VAL, value;
    for (size_t i = 0; i < call->arg_count; i++, before = value)
        if (!number_of(call, i, &value) || !(before < value)) return false;
    return true;
}

static const struct {
    const char *name;
    test_fn test;
} conditions[] = {{"number", are_numbers}, {"integer", are_integers}, {"symbol", are_symbols},
                  {"zero", are_zero},      {"same", are_same},        {"less", ascend}};
enum { CONDITIONS = sizeof conditions / sizeof *conditions };

static hyp_status ask(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    const test_fn *test = call->user;
    *out = (*test)(call);
    return HYP_OK;
}

hyp_status language_register(hyp_egraph *eg, hyp_diag *diag)
{
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < CONDITIONS && status == HYP_OK; i++)
        status = hyp_egraph_register_condition(eg, conditions[i].name, -1, ask, (void *)(uintptr_t)&conditions[i].test,
                                               diag);
    return status;
}

/* ---- costs ------------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const operator_cost *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

bool costs_add(cost_table *t, const char *name, size_t len, const char *value)
{
    double cost = HUGE_VAL;
    bool is_inf = strcmp(value, "inf") == 0;
    if (!len || (!is_inf && (!cli_parse_double(value, -DBL_MAX, &cost) || isinf(cost)))) return false;
    t->rows = cli_alloc(t->rows, t->count + 1, sizeof *t->rows);
    operator_cost *row = &t->rows[t->count];
    *row = (operator_cost){.name = cli_alloc(NULL, len + 1, 1), .cost = cost, .order = t->count};
    memcpy(row->name, name, len);
    row->name[len] = 0;
    t->count++;
    return true;
}

bool costs_read(cost_table *t, const char *tool, const char *path, char *text)
{
    size_t number = 0;
    for (char *next = text; next; number++) {
        char *line = next, *end = strchr(line, '\n');
        if (end) *end = 0;
        next = end ? end + 1 : NULL;
        line[strcspn(line, ";\r")] = 0;
        line += strspn(line, " \t");
        size_t len = strcspn(line, " \t");
        if (len == 0) continue;
        char *value = line + len + strspn(line + len, " \t");
        value[strcspn(value, " \t")] = 0;
        if (costs_add(t, line, len, value)) continue;
        cli_error(tool, "%s, line %zu: a line is an operator and what it costs, a number or inf", path, number + 1);
        return false;
    }
    return true;
}

void costs_sort(cost_table *t)
{
    if (t->count) qsort(t->rows, t->count, sizeof *t->rows, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) { /* what was said last counts */
        if (kept && strcmp(t->rows[kept - 1].name, t->rows[i].name) == 0) free(t->rows[--kept].name);
        t->rows[kept++] = t->rows[i];
    }
    t->count = kept;
}

double costs_of(hyp_egraph *eg, hyp_enode_id node, void *table)
{
    const cost_table *t = table;
    const char *name = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(t->rows[middle].name, name);
        if (order == 0) return t->rows[middle].cost;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 1;
}

void costs_free(cost_table *t)
{
    for (size_t i = 0; i < t->count; i++) free(t->rows[i].name);
    free(t->rows);
}

/* Which form of the whole is taken in the end: what was made of the graph, unless what came in is predicted to be better, or
 * who can time them has another one. */
#include <string.h>

#include "base/json.h"
#include "rewrite/job.h"

/* Of what a plan takes: by less no prediction tells what came in from what was made of it. */
#define TELLS 0.01

static hyp_status replace(hyp_rw_job *j, const hyp_graph *by, hyp_graph *out)
{
    hyp_graph_dispose(out);
    hyp_graph_init(out, by->dims);
    return hyp_graph_copy_live(by, out, j->diag);
}

hyp_status hyp_rw_keep_what_came(hyp_rw_job *j, const hyp_rw_origin *from, hyp_graph *out)
{
    hyp_rewrite_report *report = j->report;
    if (report->parts_changed) return HYP_OK; /* that was measured */
    if (!(hyp_rewrite_rank(&j->price) <= hyp_rewrite_rank(&from->normal_price) * (1 + 1e-9))) {
        j->price = from->normal_price;
        report->nodes_after = from->normal_nodes;
        HYP_TRY(replace(j, from->normal, out));
    }
    bool named = j->options->only_count > 0; /* what such rules make is wanted, as by calibrations */
    if (!j->options->price || from->price.no_plan || named) return HYP_OK;
    if (hyp_rewrite_rank(&from->price) >= hyp_rewrite_rank(&j->price) * (1 - TELLS)) return HYP_OK;
    j->price = from->price;
    report->nodes_after = report->nodes_before;
    return replace(j, from->in, out);
}

/* ---- asking ----------------------------------------------------------------------------------------- */

enum { WHOLES = 5 };

/* Forms of the whole, in the order in which they are told. */
typedef struct race {
    const hyp_graph *graphs[WHOLES];
    const char *names[WHOLES];
    double seconds[WHOLES];
    size_t nodes[WHOLES], count;
} race;

static void add(race *r, const char *name, const hyp_graph *g, const hyp_rewrite_price *price, size_t nodes)
{
    r->graphs[r->count] = g;
    r->names[r->count] = name;
    r->seconds[r->count] = price->seconds;
    r->nodes[r->count++] = nodes;
}

hyp_status hyp_rw_choose_whole(hyp_rw_job *j, const hyp_rw_origin *from, hyp_graph *out)
{
    const hyp_rewrite_options *o = j->options;
    hyp_rewrite_report *report = j->report;
    const hyp_rw_entrant *predicted = &j->predicted, *apart = &j->apart;
    race r = {.count = 0};
    size_t best = 0;
    double start = hyp_limit_clock();
    if (!o->choose || !o->price || hyp_limit_reached(o->limit)) return HYP_OK;
    add(&r, predicted->in ? "by parts" : "rewritten", out, &j->price, report->nodes_after);
    if (predicted->in) add(&r, "rewritten", &predicted->graph, &predicted->price, predicted->nodes);
    if (apart->in && apart->price.steps != from->normal_price.steps && apart->price.steps != from->price.steps)
        add(&r, "apart", &apart->graph, &apart->price, apart->nodes);
    add(&r, "normal form", from->normal, &from->normal_price, from->normal_nodes);
    add(&r, "as it is", from->in, &from->price, report->nodes_before);
    hyp_rewrite_forms forms = {r.graphs, r.names, r.seconds, r.count};
    HYP_TRY(o->choose(&forms, &best, o->choose_user, j->diag));
    hyp_limit_extend(o->limit, hyp_limit_clock() - start);
    if (strcmp(r.names[best], "rewritten") != 0) report->form = r.names[best];
    if (best == 0) return HYP_OK;
    j->price.seconds = r.seconds[best];
    report->nodes_after = r.nodes[best];
    return replace(j, r.graphs[best], out);
}

/* ---- recording -------------------------------------------------------------------------------------- */

static void record_form(hyp_rewrite_record *record, const char *name, const hyp_rewrite_price *price, size_t nodes)
{
    size_t row = hyp_rw_begin_row(&record->forms);
    hyp_json_put_text(&record->forms, "name", name);
    hyp_json_put_count(&record->forms, "nodes", nodes);
    hyp_json_put_real(&record->forms, "seconds", price->seconds);
    hyp_rw_end_row(record, &record->forms, row);
}

void hyp_rw_record_forms(const hyp_rw_job *j, const hyp_rw_origin *from)
{
    hyp_rewrite_record *record = j->options->record;
    record_form(record, "as it came", &from->price, j->report->nodes_before);
    record_form(record, "normal form", &from->normal_price, from->normal_nodes);
    record_form(record, "chosen", &j->price, j->report->nodes_after);
}

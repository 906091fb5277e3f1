/* Writing an e-graph for other programs: egraph-serialize JSON and Graphviz. Both walk the classes breadth first
 * from the roots and number nodes by their place in the class, so the bytes depend on the e-graph only. */
#include <math.h>
#include <string.h>

#include "egraph/core/state.h"

#define FLUSH_AT 65536 /* bytes gathered before they are handed on */
#define DEFAULT_DOT_NODES 500

typedef struct writer {
    hyp_egraph *eg;
    hyp_strbuf text;
    hyp_text_fn write;
    void *write_user;
    uint32_t *place;         /* by class: index in order + 1, 0 = not met */
    HYP_VEC(uint32_t) order; /* classes, nearest to the roots first */
    size_t nodes;            /* in those classes */
    const hyp_egraph_part *part; /* NULL: all below the roots, or all */
} writer;

static void flush(writer *w, size_t at_least)
{
    if (w->text.failed || w->text.len < at_least) return;
    const char *outer = hyp_eg_begin_reading(w->eg, "the function that writes");
    if (w->text.len) w->write(w->text.data, w->text.len, w->write_user);
    hyp_eg_end_reading(w->eg, outer);
    w->text.len = 0;
}

static hyp_status meet(writer *w, uint32_t c, hyp_diag *diag)
{
    if (w->place[c]) return HYP_OK;
    HYP_TRY(hyp_vec_push(&w->order, diag, c));
    w->place[c] = (uint32_t)w->order.len;
    return HYP_OK;
}

static hyp_status nodes_of(writer *w, uint32_t c, const hyp_enode_id **out, size_t *count, hyp_diag *diag)
{
    *out = hyp_egraph_class_nodes(w->eg, c, count);
    return *out ? HYP_OK : hyp_fail_memory(diag, *count * sizeof **out);
}

/* Calls `each` for every edge from a class to one that its nodes read. */
typedef hyp_status edge_fn(void *user, uint32_t from, uint32_t to, hyp_diag *diag);
static hyp_status for_edges(writer *w, uint32_t from, edge_fn *each, void *user, hyp_diag *diag)
{
    const hyp_enode_id *nodes;
    size_t count, kid_count;
    HYP_TRY(nodes_of(w, from, &nodes, &count, diag));
    for (size_t n = 0; n < count; n++) {
        const hyp_class_id *kids = hyp_enode_children(w->eg, nodes[n], &kid_count);
        for (size_t k = 0; k < kid_count; k++) HYP_TRY(each(user, from, hyp_egraph_find(w->eg, kids[k]), diag));
    }
    return HYP_OK;
}

static hyp_status meet_kid(void *writer_, uint32_t from, uint32_t to, hyp_diag *diag)
{
    (void)from;
    return meet(writer_, to, diag);
}

/* Classes that read a class, one list after the other. */
typedef struct readers {
    uint32_t *first; /* by class: where its list begins, that of the one behind it where it ends */
    uint32_t *list;
} readers;

static hyp_status count_reader(void *user, uint32_t from, uint32_t to, hyp_diag *diag)
{
    readers *r = user;
    (void)from, (void)diag;
    r->first[to + 1]++;
    return HYP_OK;
}

/* Fills the lists from their ends, so that `first` is right again when all are full. */
static hyp_status add_reader(void *user, uint32_t from, uint32_t to, hyp_diag *diag)
{
    readers *r = user;
    (void)diag;
    r->list[--r->first[to + 1]] = from;
    return HYP_OK;
}

static hyp_status find_readers(writer *w, readers *r, hyp_diag *diag)
{
    size_t bound = w->eg->row_count;
    r->first = hyp_calloc(bound + 2, sizeof *r->first);
    if (!r->first) return hyp_fail_memory(diag, bound * sizeof *r->first);
    for (uint32_t c = 0; c < bound; c++)
        if (hyp_egraph_find(w->eg, c) == c) HYP_TRY(for_edges(w, c, count_reader, r, diag));
    for (size_t c = 0; c <= bound; c++) r->first[c + 1] += r->first[c];
    r->list = hyp_calloc((size_t)r->first[bound + 1] + 1, sizeof *r->list);
    if (!r->list) return hyp_fail_memory(diag, (size_t)r->first[bound + 1] * sizeof *r->list);
    for (uint32_t c = (uint32_t)bound; c-- > 0;)
        if (hyp_egraph_find(w->eg, c) == c) HYP_TRY(for_edges(w, c, add_reader, r, diag));
    return HYP_OK;
}

/* Lists the classes of a part, nearest first. */
static hyp_status walk_part(writer *w, const readers *r, hyp_diag *diag)
{
    size_t begin = 0;
    for (size_t step = 0; step < w->part->depth && begin < w->order.len; step++) {
        size_t end = w->order.len;
        for (; begin < end; begin++) {
            uint32_t c = w->order.data[begin];
            HYP_TRY(for_edges(w, c, meet_kid, w, diag));
            for (uint32_t i = r->first[c + 1]; i < r->first[c + 2]; i++) HYP_TRY(meet(w, r->list[i], diag));
        }
    }
    for (size_t i = 0; i < w->order.len; i++) {
        size_t count;
        const hyp_enode_id *nodes;
        HYP_TRY(nodes_of(w, w->order.data[i], &nodes, &count, diag));
        w->nodes += count;
    }
    return HYP_OK;
}

/* Lists the classes of the part, or below the roots, or all where there are none. */
static hyp_status walk(writer *w, const hyp_class_id *roots, size_t root_count, hyp_diag *diag)
{
    hyp_egraph *eg = w->eg;
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before it is written");
    w->place = hyp_calloc(eg->row_count + 1, sizeof *w->place);
    if (!w->place) return hyp_fail_memory(diag, eg->row_count * sizeof *w->place);
    for (size_t i = 0; i < root_count; i++) {
        uint32_t c = hyp_egraph_find(eg, roots[i]);
        if (c == HYP_NONE)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", roots[i]);
        HYP_TRY(meet(w, c, diag));
    }
    if (w->part) {
        readers r = {0};
        hyp_status status = find_readers(w, &r, diag);
        if (status == HYP_OK) status = walk_part(w, &r, diag);
        hyp_free(r.first);
        hyp_free(r.list);
        return status;
    }
    for (uint32_t c = 0; c < eg->row_count && !root_count; c++)
        if (hyp_egraph_find(eg, c) == c) HYP_TRY(meet(w, c, diag));
    for (size_t i = 0; i < w->order.len; i++) {
        size_t count;
        const hyp_enode_id *nodes;
        HYP_TRY(nodes_of(w, w->order.data[i], &nodes, &count, diag));
        w->nodes += count;
        HYP_TRY(for_edges(w, w->order.data[i], meet_kid, w, diag));
    }
    return HYP_OK;
}

static hyp_status finish(writer *w, hyp_status status, hyp_diag *diag)
{
    if (status == HYP_OK && w->text.failed) status = hyp_fail_memory(diag, w->text.cap);
    if (status == HYP_OK) flush(w, 0);
    hyp_strbuf_dispose(&w->text);
    hyp_free(w->place);
    hyp_vec_free(&w->order);
    return status;
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static hyp_status json_node(writer *w, uint32_t c, hyp_enode_id node, size_t index, hyp_node_cost_fn cost, void *user,
                            hyp_diag *diag)
{
    hyp_egraph *eg = w->eg;
    hyp_strbuf *sb = &w->text;
    size_t count;
    const char *outer = hyp_eg_begin_reading(eg, "a cost function");
    double own = cost ? cost(eg, node, user) : 1;
    hyp_eg_end_reading(eg, outer);
    if (isnan(own))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the cost of '%s' is not a number",
                        hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node)));
    hyp_strbuf_printf(sb, "\"%u.%zu\": {\"op\": ", c, index);
    hyp_strbuf_quote(sb, hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node)));
    hyp_strbuf_puts(sb, ", \"children\": [");
    const hyp_class_id *kids = hyp_enode_children(eg, node, &count);
    for (size_t k = 0; k < count; k++) hyp_strbuf_printf(sb, "%s\"%u.0\"", k ? ", " : "", hyp_egraph_find(eg, kids[k]));
    hyp_strbuf_printf(sb, "], \"eclass\": \"%u\", \"cost\": ", c);
    if (isinf(own))
        hyp_strbuf_puts(sb, "null");
    else
        hyp_strbuf_double(sb, own);
    hyp_strbuf_puts(sb, "}");
    flush(w, FLUSH_AT);
    return HYP_OK;
}

/* A class at the border of a part, which some node in it reads: one node, whose children are not there. */
static void json_border(writer *w, uint32_t c)
{
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(w->eg, c, &count);
    hyp_strbuf op = {0};
    if (!nodes || !count) return;
    hyp_enode_children(w->eg, nodes[0], &count);
    hyp_strbuf_printf(&op, "%s%s", hyp_egraph_symbol_name(w->eg, hyp_enode_op(w->eg, nodes[0])), count ? " ..." : "");
    hyp_strbuf_printf(&w->text, ",\n\"%u.0\": {\"op\": ", c);
    hyp_strbuf_quote(&w->text, hyp_strbuf_text(&op));
    hyp_strbuf_printf(&w->text, ", \"children\": [], \"eclass\": \"%u\", \"cost\": 0.0}", c);
    w->text.failed = w->text.failed || op.failed;
    hyp_strbuf_dispose(&op);
    flush(w, FLUSH_AT);
}

static hyp_status json_borders(writer *w, hyp_diag *diag)
{
    size_t inside = w->order.len;
    for (size_t i = 0; i < inside; i++) HYP_TRY(for_edges(w, w->order.data[i], meet_kid, w, diag));
    for (size_t i = inside; i < w->order.len; i++) json_border(w, w->order.data[i]);
    return HYP_OK;
}

static hyp_status json_all(writer *w, const hyp_class_id *roots, size_t root_count, hyp_node_cost_fn cost, void *user,
                           hyp_diag *diag)
{
    const char *between = "{\"nodes\": {\n";
    HYP_TRY(walk(w, roots, root_count, diag));
    for (size_t i = 0; i < w->order.len; i++) {
        const hyp_enode_id *nodes;
        size_t count;
        HYP_TRY(nodes_of(w, w->order.data[i], &nodes, &count, diag));
        for (size_t n = 0; n < count; n++) {
            hyp_strbuf_puts(&w->text, between);
            HYP_TRY(json_node(w, w->order.data[i], nodes[n], n, cost, user, diag));
            between = ",\n";
        }
    }
    if (w->part) HYP_TRY(json_borders(w, diag));
    hyp_strbuf_puts(&w->text, w->order.len ? "\n},\n\"root_eclasses\": [" : "{\"nodes\": {},\n\"root_eclasses\": [");
    for (size_t i = 0; i < root_count; i++)
        hyp_strbuf_printf(&w->text, "%s\"%u\"", i ? ", " : "", hyp_egraph_find(w->eg, roots[i]));
    hyp_strbuf_puts(&w->text, "]}\n");
    return HYP_OK;
}

hyp_status hyp_egraph_write_json(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count, hyp_node_cost_fn cost,
                                 void *user, hyp_text_fn write, void *write_user, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(roots, root_count);
    HYP_NEED(write);
    writer w = {.eg = eg, .write = write, .write_user = write_user};
    return finish(&w, json_all(&w, roots, root_count, cost, user, diag), diag);
}

hyp_status hyp_egraph_write_part_json(hyp_egraph *eg, const hyp_egraph_part *part, hyp_node_cost_fn cost, void *user,
                                      hyp_text_fn write, void *write_user, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(part);
    HYP_NEED_LIST(part->around, part->count);
    HYP_NEED(write);
    writer w = {.eg = eg, .write = write, .write_user = write_user, .part = part};
    return finish(&w, json_all(&w, part->around, part->count, cost, user, diag), diag);
}

/* ---- Graphviz ----------------------------------------------------------------------------------- */

static hyp_status dot_class(writer *w, uint32_t c, size_t shown, const hyp_extraction *chosen, hyp_diag *diag)
{
    const hyp_enode_id *nodes;
    size_t count;
    HYP_TRY(nodes_of(w, c, &nodes, &count, diag));
    hyp_strbuf_printf(&w->text, "  subgraph cluster_%u {\n    style=dotted\n", c);
    for (size_t n = 0; n < count && n < shown; n++) {
        bool bold = chosen && c < chosen->class_bound && chosen->choice[c] == nodes[n];
        hyp_strbuf_printf(&w->text, "    \"%u.%zu\" [label=", c, n);
        hyp_strbuf_quote(&w->text, hyp_egraph_symbol_name(w->eg, hyp_enode_op(w->eg, nodes[n])));
        hyp_strbuf_puts(&w->text, bold ? ", style=bold];\n" : "];\n");
    }
    hyp_strbuf_puts(&w->text, "  }\n");
    flush(w, FLUSH_AT);
    return HYP_OK;
}

/* Edges from the nodes shown to the classes shown: an arrow to a class ends at its border. */
static hyp_status dot_edges(writer *w, uint32_t c, size_t shown, size_t classes_shown, hyp_diag *diag)
{
    const hyp_enode_id *nodes;
    size_t count, kid_count;
    HYP_TRY(nodes_of(w, c, &nodes, &count, diag));
    for (size_t n = 0; n < count && n < shown; n++) {
        const hyp_class_id *kids = hyp_enode_children(w->eg, nodes[n], &kid_count);
        for (size_t k = 0; k < kid_count; k++) {
            uint32_t kid = hyp_egraph_find(w->eg, kids[k]);
            if (!w->place[kid] || w->place[kid] > classes_shown) continue;
            if (kid == c) /* an edge into its own cluster has no border to end at */
                hyp_strbuf_printf(&w->text, "  \"%u.%zu\" -> \"%u.0\" [label=%zu];\n", c, n, kid, k);
            else
                hyp_strbuf_printf(&w->text, "  \"%u.%zu\" -> \"%u.0\" [lhead=cluster_%u, label=%zu];\n", c, n, kid, kid,
                                  k);
        }
    }
    flush(w, FLUSH_AT);
    return HYP_OK;
}

static hyp_status dot_all(writer *w, const hyp_class_id *roots, size_t root_count, size_t max_nodes,
                          const hyp_extraction *chosen, hyp_diag *diag)
{
    HYP_TRY(walk(w, roots, root_count, diag));
    size_t left = max_nodes ? max_nodes : DEFAULT_DOT_NODES, classes = 0, last = 0, total = w->nodes;
    hyp_strbuf_puts(&w->text, "digraph egraph {\n  compound=true\n  clusterrank=local\n");
    if (total > left) hyp_strbuf_printf(&w->text, "  label=\"%zu of %zu e-nodes shown\"\n", left, total);
    for (; classes < w->order.len && left; classes++) {
        size_t count;
        hyp_egraph_class_nodes(w->eg, w->order.data[classes], &count);
        last = count < left ? count : left; /* only the last class is cut */
        HYP_TRY(dot_class(w, w->order.data[classes], last, chosen, diag));
        left -= last;
    }
    for (size_t i = 0; i < classes; i++)
        HYP_TRY(dot_edges(w, w->order.data[i], i + 1 == classes ? last : SIZE_MAX, classes, diag));
    hyp_strbuf_puts(&w->text, "}\n");
    return HYP_OK;
}

hyp_status hyp_egraph_write_dot(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count, size_t max_nodes,
                                const hyp_extraction *chosen, hyp_text_fn write, void *write_user, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(roots, root_count);
    HYP_NEED(write);
    writer w = {.eg = eg, .write = write, .write_user = write_user};
    return finish(&w, dot_all(&w, roots, root_count, max_nodes, chosen, diag), diag);
}

hyp_status hyp_egraph_write_part_dot(hyp_egraph *eg, const hyp_egraph_part *part, size_t max_nodes,
                                     const hyp_extraction *chosen, hyp_text_fn write, void *write_user, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(part);
    HYP_NEED_LIST(part->around, part->count);
    HYP_NEED(write);
    writer w = {.eg = eg, .write = write, .write_user = write_user, .part = part};
    return finish(&w, dot_all(&w, part->around, part->count, max_nodes, chosen, diag), diag);
}

/* One application of a rule as text and costs, for dumps. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

enum { MAX_TEXT = 400, MAX_DEPTH = 6 };
enum { MAX_WHOLE = 1 << 20, MAX_WHOLE_DEPTH = 1000 }; /* bytes and depth of whole terms; what is beyond is written short */

/* A term being written. */
typedef struct writer {
    hyp_rw_tracer *tracer;
    hyp_rw *rw;
    hyp_strbuf text;
    double cost;                 /* of the operators written */
    const hyp_enode_id *matched; /* left side: its e-nodes in pre-order, `next` the first not yet written */
    size_t count, next;
    HYP_VEC(hyp_class_id) bound; /* right side: what the left side bound, written short */
    bool whole;                  /* what is written is below what the rule looked into, and nothing of it is left out */
    bool counts;                 /* how often each class occurs there; the text is thrown away */
} writer;

static void write_node(writer *w, hyp_enode_id node, int depth);

/* What this event has seen of a class; NULL after a failure, noted. */
static hyp_rw_trace_mark *mark_of(writer *w, hyp_class_id c)
{
    hyp_rw_tracer *t = w->tracer;
    size_t bound = hyp_egraph_class_bound(w->rw->eg), had = t->marks.len;
    if (bound > had) {
        hyp_status status = hyp_vec_reserve(&t->marks, bound, t->diag);
        if (status != HYP_OK && t->status == HYP_OK) t->status = status;
        if (status != HYP_OK) return NULL;
        memset(t->marks.data + had, 0, (bound - had) * sizeof *t->marks.data);
        t->marks.len = bound;
    }
    hyp_rw_trace_mark *m = &t->marks.data[c];
    if (m->side != t->sides) *m = (hyp_rw_trace_mark){.side = t->sides};
    return m;
}

static void write_name(writer *w, hyp_class_id c);

/* A class with all that is below it; where it occurs again it is called by its number: (as @7 (relu x)), then @7. */
static void write_whole(writer *w, hyp_class_id c, int depth)
{
    const hyp_rw_fact *f = hyp_rw_fact_of(w->rw, c);
    hyp_rw_trace_mark *m = mark_of(w, c);
    hyp_rw_shape shape;
    hyp_rw_node n;
    uint32_t index;
    bool known = hyp_rw_inspect(w->rw, f->first, &shape, &index, &n, NULL) == HYP_OK;
    if (!m || !known || shape == HYP_RW_IS_LEAF || shape == HYP_RW_IS_LITERAL || w->text.len > MAX_WHOLE ||
        depth >= MAX_WHOLE_DEPTH) {
        write_name(w, c);
        return;
    }
    if (w->counts && m->times++) return;
    if (!w->counts && m->written) {
        hyp_strbuf_printf(&w->text, "@%u", (unsigned)c);
        return;
    }
    m->written = !w->counts;
    bool named = !w->counts && m->times > 1, outer = w->whole;
    const hyp_enode_id *matched = w->matched;
    double cost = w->cost; /* of what the rule looked into */
    if (named) hyp_strbuf_printf(&w->text, "(as @%u ", (unsigned)c);
    w->matched = NULL;
    w->whole = true;
    write_node(w, f->first, depth);
    w->matched = matched;
    w->whole = outer;
    w->cost = cost;
    if (named) hyp_strbuf_puts(&w->text, ")");
}

/* A class that the rule did not look into: its name, or its operator. */
static void write_short(writer *w, hyp_class_id c)
{
    if (w->tracer->options->full_terms)
        write_whole(w, hyp_egraph_find(w->rw->eg, c), 0);
    else
        write_name(w, c);
}

static void write_name(writer *w, hyp_class_id c)
{
    const hyp_rw_fact *f = hyp_rw_fact_of(w->rw, c);
    const char *name = hyp_egraph_symbol_name(w->rw->eg, hyp_enode_op(w->rw->eg, f->first));
    hyp_rw_shape shape;
    hyp_rw_node n;
    uint32_t index;
    if (hyp_rw_inspect(w->rw, f->first, &shape, &index, &n, NULL) != HYP_OK) return;
    if (shape == HYP_RW_IS_LEAF && w->rw->leaves.data[index].name)
        hyp_strbuf_puts(&w->text, w->rw->leaves.data[index].name);
    else if (shape == HYP_RW_IS_LEAF || shape == HYP_RW_IS_LITERAL)
        hyp_strbuf_puts(&w->text, name);
    else
        hyp_strbuf_printf(&w->text, "(%s ...)", name);
}

static bool is_bound(const writer *w, hyp_class_id c)
{
    for (size_t i = 0; i < w->bound.len; i++)
        if (hyp_egraph_find(w->rw->eg, w->bound.data[i]) == c) return true;
    return false;
}

static void write_class(writer *w, hyp_class_id c, int depth)
{
    c = hyp_egraph_find(w->rw->eg, c);
    if (w->whole) {
        write_whole(w, c, depth);
        return;
    }
    if (w->matched) { /* the left side goes as far as the rule looked */
        if (w->next < w->count && hyp_enode_class(w->rw->eg, w->matched[w->next]) == c)
            write_node(w, w->matched[w->next++], depth);
        else
            write_short(w, c);
        return;
    }
    if (is_bound(w, c) || depth >= MAX_DEPTH)
        write_short(w, c);
    else
        write_node(w, hyp_rw_fact_of(w->rw, c)->first, depth);
}

static void write_node(writer *w, hyp_enode_id node, int depth)
{
    hyp_egraph *eg = w->rw->eg;
    hyp_rw_shape shape;
    hyp_rw_node n;
    uint32_t index, hidden;
    const char *values[HYP_MAX_ATTRS] = {0};
    if (hyp_rw_inspect(w->rw, node, &shape, &index, &n, NULL) != HYP_OK) return;
    if (shape == HYP_RW_IS_LEAF || shape == HYP_RW_IS_LITERAL) {
        write_short(w, hyp_enode_class(eg, node));
        return;
    }
    if (shape == HYP_RW_IS_GET) {
        hyp_strbuf_printf(&w->text, "(get :index %u ", index);
        if (w->matched && w->next < w->count && hyp_rw_fact_of(w->rw, w->matched[w->next])->kind == HYP_RW_LITERAL)
            w->next++; /* the index */
        write_class(w, n.inputs[0], depth + 1);
        hyp_strbuf_puts(&w->text, ")");
        return;
    }
    const hyp_op_info *info = hyp_op_get(n.op);
    w->cost += hyp_rw_node_cost(eg, node, &w->tracer->weigh);
    const hyp_class_id *children = n.inputs - info->attr_count;
    for (uint32_t i = 0; i < info->attr_count; i++) {
        const hyp_rw_fact *f = hyp_rw_fact_of(w->rw, children[i]);
        values[i] = hyp_egraph_symbol_name(eg, f->literal);
        if (w->matched && w->next < w->count &&
            hyp_enode_class(eg, w->matched[w->next]) == hyp_egraph_find(eg, children[i]))
            w->next++; /* a literal of the pattern */
    }
    hyp_strbuf_printf(&w->text, "(%s", hyp_rw_op_name(n.op, values, &hidden));
    for (uint32_t i = 0; i < info->attr_count; i++)
        if (i != hidden && (info->attrs[i].required || strcmp(values[i], info->attrs[i].default_text) != 0))
            hyp_strbuf_printf(&w->text, " :%s %s", info->attrs[i].name, values[i]);
    for (uint32_t i = 0; i < n.input_count; i++) {
        size_t count;
        hyp_strbuf_puts(&w->text, " ");
        write_class(w, hyp_enode_children(eg, node, &count)[info->attr_count + i], depth + 1);
    }
    hyp_strbuf_puts(&w->text, ")");
}

/* The finished text, shortened unless terms are whole. */
static const char *finish(writer *w)
{
    if (w->tracer->options->full_terms) return hyp_strbuf_text(&w->text);
    if (w->text.len > MAX_TEXT) memcpy(w->text.data + MAX_TEXT - 3, "...", 4);
    return hyp_strbuf_text(&w->text);
}

static hyp_status bind(writer *right, const hyp_enode_id *matched, size_t count, hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        size_t n;
        const hyp_class_id *children = hyp_enode_children(right->rw->eg, matched[i], &n);
        HYP_TRY(hyp_vec_reserve(&right->bound, right->bound.len + n, diag));
        for (size_t j = 0; j < n; j++) right->bound.data[right->bound.len++] = children[j];
    }
    return HYP_OK;
}

static void write_left(writer *w, const hyp_rewrite_event *event)
{
    if (event->matched_count) write_node(w, event->matched[0], 0);
}

static void write_right(writer *w, const hyp_rewrite_event *event)
{
    if (event->created != HYP_NONE)
        write_node(w, event->created, 0);
    else
        write_short(w, hyp_egraph_find(w->rw->eg, event->right));
}

/* Writes one side; of whole terms it is known first what occurs in them more than once. */
static void write_side(writer *w, const hyp_rewrite_event *event, void (*write)(writer *, const hyp_rewrite_event *))
{
    if (w->tracer->options->full_terms) {
        writer first = *w;
        w->tracer->sides++;
        first.counts = true;
        write(&first, event);
        w->text.failed = first.text.failed;
        hyp_strbuf_dispose(&first.text);
    }
    write(w, event);
}

static double known(double cost) { return isfinite(cost) ? cost : NAN; }

static hyp_status tell(hyp_rw_tracer *t, const hyp_rewrite_event *event)
{
    writer left = {.tracer = t, .rw = t->rw, .matched = event->matched, .count = event->matched_count, .next = 1};
    writer right = {.tracer = t, .rw = t->rw};
    hyp_arena arena = {0};
    hyp_provenance from = {0};
    hyp_status status = bind(&right, event->matched, event->matched_count, t->diag);
    if (status == HYP_OK)
        status = hyp_rw_provenance(t->rw, t->rules, event->matched, event->matched_count, &arena, &from, t->diag);
    if (status == HYP_OK) {
        write_side(&left, event, write_left);
        write_side(&right, event, write_right);
        hyp_rewrite_trace trace = {.phase = t->phase,
                                   .iteration = event->iteration,
                                   .rule = t->rules->names[event->rule],
                                   .matched = finish(&left),
                                   .result = finish(&right),
                                   .sources = from.sources,
                                   .source_count = from.source_count,
                                   .cost_before = known(left.cost),
                                   .cost_after = known(right.cost)};
        if (t->status != HYP_OK)
            status = t->status;
        else if (left.text.failed || right.text.failed)
            status = hyp_fail_memory(t->diag, MAX_TEXT);
        else
            t->options->trace(&trace, t->options->trace_user);
    }
    hyp_strbuf_dispose(&left.text);
    hyp_strbuf_dispose(&right.text);
    hyp_vec_free(&right.bound);
    hyp_arena_dispose(&arena);
    return status;
}

void hyp_rw_on_rewrite(const hyp_rewrite_event *event, void *tracer)
{
    hyp_rw_tracer *t = tracer;
    if (t->status == HYP_OK) t->status = tell(t, event);
}

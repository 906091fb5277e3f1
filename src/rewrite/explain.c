/* How a node of the model came to the form that was chosen: the proof of each equality, told step by step.
 *
 * The e-graph proves that what the encoded node is equals what was chosen. Such a proof reaches down to the inputs of
 * the model; what is told ends at the values that have a proof of their own: those that a node of the phase's input
 * computes and that were chosen, too. They are written by name. */
#include <string.h>

#include "egraph/prove/explainer.h"
#include "rewrite/internal.h"

enum { MAX_STEPS = 200, MAX_DEPTH = 12, MAX_TEXT = 1000 };
enum { EACH_ENODE = 16 }; /* so many e-nodes are as much work to a proof as one of its terms */

/* A term around the one that is being rewritten. */
typedef struct frame {
    const char *op;
    uint32_t *kids; /* terms, as they are by now */
    uint32_t count, place;
} frame;

typedef struct teller {
    const hyp_rw_inquiry *q;
    hyp_rw_view view;
    hyp_class_id root;
    hyp_explainer *explainer; /* made when the first proof is wanted, as is the judge */
    hyp_checker *judge;
    const hyp_shared_proof *proof;
    HYP_VEC(hyp_class_id) class_of; /* by term of the proofs */
    hyp_rw_listener *to;
    uint64_t work; /* done so far */
    double cost;                   /* of the operators of the term being written */
    HYP_VEC(hyp_enode_id) counted; /* those */
    hyp_arena arena, scratch;
    HYP_VEC(frame) frames;
    size_t steps, told;
} teller;

/* ---- terms --------------------------------------------------------------------------------------- */

/* A class that is written by name. */
static bool is_boundary(const teller *t, hyp_class_id c)
{
    return c != HYP_NONE && c != t->root && c < t->view.bound && t->view.chosen[c] && t->view.encoded[c] != HYP_NONE &&
           hyp_rw_fact_of(t->q->rw, c)->kind == HYP_RW_TENSOR;
}

static hyp_status atom(teller *t, const char *text, hyp_sexpr **out)
{
    hyp_sexpr *sx = *out = hyp_arena_zalloc(&t->scratch, 1, sizeof *sx);
    if (!sx) return hyp_fail_memory(t->q->diag, sizeof *sx);
    sx->kind = HYP_SX_STRING;
    sx->text = text;
    return HYP_OK;
}

static hyp_status list(teller *t, const char *op, uint32_t count, hyp_sexpr **out)
{
    hyp_sexpr *sx = *out = hyp_arena_zalloc(&t->scratch, 1, sizeof *sx);
    if (sx) sx->items = hyp_arena_zalloc(&t->scratch, count + 1, sizeof *sx->items);
    if (!sx || !sx->items) return hyp_fail_memory(t->q->diag, count * sizeof *sx->items);
    sx->kind = HYP_SX_LIST;
    sx->count = count + 1;
    return atom(t, op, &sx->items[0]);
}

static const char *name_of(const teller *t, hyp_class_id c, const char *otherwise)
{
    const char *name = c != HYP_NONE && c < t->view.bound ? t->view.names[c] : NULL;
    return name ? name : otherwise;
}

/* The e-node of an operator over terms of the proof; HYP_NONE where it is not told. */
static hyp_status find_enode(teller *t, const char *op, const uint32_t *kids, uint32_t count, hyp_enode_id *out)
{
    hyp_egraph *eg = t->q->rw->eg;
    hyp_symbol symbol;
    hyp_class_id *classes = hyp_arena_alloc(&t->scratch, count * sizeof *classes);
    size_t nodes, n;
    *out = HYP_NONE;
    if (!classes) return hyp_fail_memory(t->q->diag, count * sizeof *classes);
    for (uint32_t i = 0; i < count; i++) {
        if (t->class_of.data[kids[i]] == HYP_NONE) return HYP_OK;
        classes[i] = hyp_egraph_find(eg, t->class_of.data[kids[i]]);
    }
    HYP_TRY(hyp_egraph_symbol(eg, op, &symbol, t->q->diag));
    hyp_class_id c = hyp_egraph_lookup(eg, symbol, classes, count);
    if (c == HYP_NONE) return HYP_OK;
    const hyp_enode_id *list = hyp_egraph_class_nodes(eg, hyp_egraph_find(eg, c), &nodes);
    if (!list) return hyp_fail_memory(t->q->diag, 0);
    for (size_t i = 0; i < nodes && *out == HYP_NONE; i++) {
        const hyp_class_id *mine = hyp_enode_children(eg, list[i], &n);
        bool same = n == count && hyp_enode_op(eg, list[i]) == symbol;
        for (size_t k = 0; k < n && same; k++) same = hyp_egraph_find(eg, mine[k]) == classes[k];
        if (same) *out = list[i];
    }
    return HYP_OK;
}

/* Adds what an operator costs, once in a term. */
static hyp_status count_cost(teller *t, const char *op, const uint32_t *kids, uint32_t count)
{
    hyp_enode_id node;
    if (!t->to->prices || !count) return HYP_OK;
    HYP_TRY(find_enode(t, op, kids, count, &node));
    if (node == HYP_NONE) return HYP_OK;
    for (size_t i = 0; i < t->counted.len; i++)
        if (t->counted.data[i] == node) return HYP_OK;
    HYP_TRY(hyp_vec_push(&t->counted, t->q->diag, node));
    t->cost += hyp_rw_node_cost(t->q->rw->eg, node, t->to->prices);
    return t->to->prices->status;
}

/* A term of the proof with what it is about written out. */
static hyp_status write_term(teller *t, uint32_t term, int depth, hyp_sexpr **out)
{
    const hyp_shared_term *s = &t->proof->terms[term];
    hyp_class_id c = t->class_of.data[term];
    if (s->count == 0) return atom(t, s->op[0] == '%' ? name_of(t, c, s->op) : s->op, out);
    if (is_boundary(t, c) || depth >= MAX_DEPTH) return atom(t, name_of(t, c, "..."), out);
    HYP_TRY(count_cost(t, s->op, s->kids, s->count));
    HYP_TRY(list(t, s->op, s->count, out));
    for (uint32_t i = 0; i < s->count; i++) HYP_TRY(write_term(t, s->kids[i], depth + 1, &(*out)->items[i + 1]));
    return HYP_OK;
}

/* The whole term, with `term` in the place that the frames leave. */
static hyp_status write_whole(teller *t, uint32_t term, hyp_sexpr **out)
{
    hyp_sexpr *inner;
    HYP_TRY(write_term(t, term, (int)t->frames.len, &inner));
    for (size_t level = t->frames.len; level-- > 0;) {
        const frame *f = &t->frames.data[level];
        hyp_sexpr *around;
        HYP_TRY(count_cost(t, f->op, f->kids, f->count));
        HYP_TRY(list(t, f->op, f->count, &around));
        for (uint32_t i = 0; i < f->count; i++) {
            if (i == f->place)
                around->items[i + 1] = inner;
            else
                HYP_TRY(write_term(t, f->kids[i], (int)level + 1, &around->items[i + 1]));
        }
        inner = around;
    }
    *out = inner;
    return HYP_OK;
}

/* Hands on the whole term that `rule` has made. */
static hyp_status put_whole(teller *t, uint32_t term, const char *rule, bool reversed)
{
    hyp_sexpr *sx;
    hyp_strbuf text = {0};
    t->cost = 0;
    t->counted.len = 0;
    HYP_TRY(write_whole(t, term, &sx));
    hyp_rw_spell(&text, sx);
    if (text.len > MAX_TEXT) { /* no character is cut */
        size_t kept = hyp_text_prefix(text.data, MAX_TEXT);
        memcpy(text.data + kept, "...", 4);
    }
    bool failed = text.failed;
    if (!failed) t->to->term(t->to->user, hyp_strbuf_text(&text), t->cost, rule, reversed);
    hyp_strbuf_dispose(&text);
    hyp_arena_dispose(&t->scratch);
    return failed ? hyp_fail_memory(t->q->diag, MAX_TEXT) : HYP_OK;
}

/* ---- steps ---------------------------------------------------------------------------------------- */

static hyp_lemma_use reversed(hyp_lemma_use use) { return (hyp_lemma_use){use.to, use.from, use.lemma}; }

static hyp_status walk(teller *t, hyp_lemma_use use);

/* One child after the other. */
static hyp_status walk_children(teller *t, const hyp_lemma *lemma, hyp_lemma_use use, bool forward)
{
    const hyp_shared_term *from = &t->proof->terms[use.from];
    size_t level = t->frames.len;
    uint32_t *kids = hyp_arena_alloc(&t->arena, from->count * sizeof *kids);
    if (!kids) return hyp_fail_memory(t->q->diag, from->count * sizeof *kids);
    memcpy(kids, from->kids, from->count * sizeof *kids);
    HYP_TRY(hyp_vec_grow(&t->frames, t->q->diag));
    t->frames.data[level] = (frame){from->op, kids, from->count, 0};
    for (uint32_t i = 0; i < from->count; i++) {
        hyp_lemma_use kid = forward ? lemma->uses[i] : reversed(lemma->uses[i]);
        t->frames.data[level].place = i;
        HYP_TRY(walk(t, kid));
        kids[i] = kid.to;
    }
    t->frames.len = level;
    return HYP_OK;
}

/* Tells the steps from one term to another, which is in the place that the frames leave. */
static hyp_status walk(teller *t, hyp_lemma_use use)
{
    if (use.from == use.to || (t->frames.len && is_boundary(t, t->class_of.data[use.from]))) return HYP_OK;
    const hyp_lemma *lemma = &t->proof->lemmas[use.lemma];
    bool forward = lemma->from == use.from;
    if (lemma->kind == HYP_LEMMA_CONGRUENCE) return walk_children(t, lemma, use, forward);
    if (lemma->kind == HYP_LEMMA_CHAIN) {
        for (size_t i = 0; i < lemma->use_count; i++) {
            size_t at = forward ? i : lemma->use_count - 1 - i;
            HYP_TRY(walk(t, forward ? lemma->uses[at] : reversed(lemma->uses[at])));
        }
        return HYP_OK;
    }
    if (t->steps++ >= MAX_STEPS) return HYP_OK;
    return put_whole(t, use.to, lemma->rule, !forward);
}

/* ---- proofs --------------------------------------------------------------------------------------- */

/* The class of every term of the proof: all of them are in the e-graph, though perhaps as an equal e-node. Those of
 * earlier proofs are known. */
static hyp_status find_classes(teller *t)
{
    hyp_egraph *eg = t->q->rw->eg;
    const hyp_shared_proof *p = t->proof;
    HYP_TRY(hyp_vec_reserve(&t->class_of, p->term_count, t->q->diag));
    for (size_t i = t->class_of.len; i < p->term_count; i++) {
        const hyp_shared_term *s = &p->terms[i];
        hyp_symbol symbol;
        hyp_class_id *kids = hyp_arena_alloc(&t->scratch, s->count * sizeof *kids);
        bool known = true;
        if (!kids) return hyp_fail_memory(t->q->diag, s->count * sizeof *kids);
        for (uint32_t k = 0; k < s->count; k++) {
            kids[k] = t->class_of.data[s->kids[k]];
            known = known && kids[k] != HYP_NONE;
        }
        HYP_TRY(hyp_egraph_symbol(eg, s->op, &symbol, t->q->diag));
        t->class_of.data[i] = known ? hyp_egraph_lookup(eg, symbol, kids, s->count) : HYP_NONE;
        t->class_of.len = i + 1;
    }
    hyp_arena_dispose(&t->scratch);
    return HYP_OK;
}

static hyp_status tell_proof(teller *t, const hyp_shared_proof *proof)
{
    t->proof = proof;
    t->steps = 0;
    HYP_TRY(find_classes(t));
    HYP_TRY(put_whole(t, proof->claim.from, NULL, false));
    HYP_TRY(walk(t, proof->claim));
    if (!t->judge) HYP_TRY(hyp_judge_create(&t->q->rules, t->q->rules ? 1 : 0, &t->judge, t->q->diag));
    hyp_status status = hyp_judge_check(t->judge, proof, t->q->diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(t->q->diag, "the proof of '%s' does not hold, which is a defect of Hypatia",
                        name_of(t, t->root, "a value"));
        return status;
    }
    t->to->end(t->to->user, t->steps > MAX_STEPS ? t->steps - MAX_STEPS : 0, proof->lemma_count);
    return HYP_OK;
}

static hyp_status tell_class(teller *t, hyp_class_id c)
{
    hyp_rw *rw = t->q->rw;
    const hyp_shared_proof *proof;
    size_t terms;
    hyp_enode_id from = t->view.encoded[c], to = t->q->choice->choice[c];
    t->root = c;
    t->told++;
    if (from != to && t->to->work && t->work > t->to->work) {
        t->to->untold++;
        return HYP_OK;
    }
    if (from != to || t->to->unchanged) t->to->value(t->to->user, &t->view, c, to);
    if (from == to) return HYP_OK;
    if (!t->explainer) HYP_TRY(hyp_explainer_create(rw->eg, &t->explainer, t->q->diag));
    hyp_status status = hyp_explainer_nodes(t->explainer, from, to, &proof, &terms, t->q->diag);
    if (status == HYP_ERR_LIMIT) { /* an answer, if a poor one */
        t->to->end(t->to->user, 0, 0);
        return HYP_OK;
    }
    HYP_TRY(status);
    t->work += terms + hyp_egraph_enode_bound(rw->eg) / EACH_ENODE;
    status = tell_proof(t, proof);
    t->frames.len = 0;
    return status;
}

/* Whether what was chosen for a class owes anything to the node. */
static hyp_status concerns(teller *t, hyp_class_id c, const char *source, bool *out)
{
    hyp_rw *rw = t->q->rw;
    hyp_provenance from = {0};
    hyp_enode_id node = t->q->choice->choice[c];
    *out = !source || hyp_rw_stands_for(rw, t->view.encoded[c], source);
    if (*out) return HYP_OK;
    HYP_TRY(hyp_rw_provenance(rw, t->q->names, &node, 1, &t->scratch, &from, t->q->diag));
    for (uint32_t i = 0; i < from.source_count; i++) *out = *out || strcmp(from.sources[i], source) == 0;
    hyp_arena_dispose(&t->scratch);
    return HYP_OK;
}

static hyp_status tell_all(teller *t, const char *source)
{
    bool wanted;
    HYP_TRY(hyp_rw_view_init(&t->view, t->q->rw, t->q->choice, &t->arena, t->q->diag));
    for (size_t i = 0; i < t->view.order_count && !hyp_limit_reached(t->to->limit); i++) {
        hyp_class_id c = t->view.order[i];
        hyp_enode_id node = t->view.encoded[c];
        if (node == HYP_NONE || node >= t->q->rw->encoded.len || !t->q->rw->encoded.data[node]) continue;
        HYP_TRY(concerns(t, c, source, &wanted));
        if (wanted) HYP_TRY(tell_class(t, c));
    }
    return HYP_OK;
}

hyp_status hyp_rw_tell(const hyp_rw_inquiry *q, const char *source, hyp_rw_listener *to, size_t *out_told)
{
    teller t = {.q = q, .to = to};
    hyp_status status = tell_all(&t, source);
    *out_told = t.told;
    hyp_explainer_destroy(t.explainer);
    hyp_judge_destroy(t.judge);
    hyp_vec_free(&t.class_of);
    hyp_vec_free(&t.counted);
    hyp_vec_free(&t.frames);
    hyp_arena_dispose(&t.scratch);
    hyp_arena_dispose(&t.arena);
    return status;
}

/* ---- as text -------------------------------------------------------------------------------------- */

static void print_value(void *user, const hyp_rw_view *view, hyp_class_id c, hyp_enode_id chosen)
{
    const hyp_rw_inquiry *q = user;
    hyp_strbuf_printf(q->out, "%s: ", q->phase);
    hyp_rw_describe(view, q->out, c);
    hyp_strbuf_puts(q->out, view->encoded[c] == chosen ? " stays as it was\n" : "\n");
}

static void print_term(void *user, const char *text, double cost, const char *rule, bool reversed)
{
    const hyp_rw_inquiry *q = user;
    (void)cost;
    hyp_strbuf_printf(q->out, "  %s %s\n", rule ? "=" : " ", text);
    if (rule) hyp_strbuf_printf(q->out, "      by %s%s\n", rule, reversed ? ", right to left" : "");
}

static void print_end(void *user, size_t left_out, size_t lemmas)
{
    const hyp_rw_inquiry *q = user;
    if (left_out) hyp_strbuf_printf(q->out, "    and %zu steps more\n", left_out);
    if (lemmas)
        hyp_strbuf_printf(q->out, "    checked from the rules alone: %zu lemma%s\n", lemmas, lemmas == 1 ? "" : "s");
    else
        hyp_strbuf_puts(q->out, "    its proof is too large to be told\n");
}

hyp_status hyp_rw_explain(const hyp_rw_inquiry *q, const char *source)
{
    hyp_rw_inquiry asked = *q;
    size_t told;
    hyp_rw_listener printer = {
        .user = &asked, .value = print_value, .term = print_term, .end = print_end, .unchanged = true};
    HYP_TRY(hyp_rw_tell(q, source, &printer, &told));
    if (!told) {
        hyp_strbuf_printf(q->out, "%s: nothing that was chosen owes its form to '", q->phase);
        hyp_strbuf_visible(q->out, source, false);
        hyp_strbuf_puts(q->out, "'\n");
    }
    return q->out->failed ? hyp_fail_memory(q->diag, q->out->len) : HYP_OK;
}

/* fuzz_egraph.c - calls of the e-graph's interface in any order, with arguments that may be none, callbacks that make calls
 * of their own, and allocations that fail. Bytes say what is called; where they end the case ends. After each call the
 * e-graph must be sound. The same bytes make the same calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fuzz/fuzz_egraph.h"
#include "fuzz/fuzz_egraph_world.h"
#include "hypatia/egraph.h"

enum { DEEPEST = 3, MOST_CALLS = 400 };

fuzz_told told;
world *now;

uint8_t byte(void) { return now->at < now->end ? *now->at++ : 0; }
static bool over(void) { return now->at >= now->end || now->calls >= MOST_CALLS; }

hyp_class_id any_id(void)
{
    size_t bound = hyp_egraph_class_bound(now->eg), draw = byte() | (size_t)byte() << 8;
    if (draw % 31 == 0) return HYP_NONE;
    if (draw % 31 == 1) return (hyp_class_id)(bound + draw % 5);
    return bound ? (hyp_class_id)(draw % bound) : 0;
}

void note(hyp_status status)
{
    if (status == HYP_ERR_INVALID_ARGUMENT) told.refused++;
    if (status != HYP_ERR_INTERNAL) return;
    fprintf(stderr, "an internal error\n");
    abort();
}

/* ---- callbacks ------------------------------------------------------------------------------------ */

static void call_something(void);

/* What any callback does first. */
static hyp_status misbehave(hyp_diag *diag)
{
    if (now->depth >= DEEPEST || over()) return HYP_OK;
    now->depth++;
    for (size_t n = below(3); n > 0 && !over(); n--) {
        told.inside++;
        call_something();
    }
    now->depth--;
    if (!now->fails || below(16)) return HYP_OK;
    static const hyp_status failures[] = {HYP_ERR_MALFORMED, HYP_ERR_NO_MEMORY, HYP_ERR_LIMIT, HYP_ERR_UNSUPPORTED};
    hyp_status status = failures[below(4)];
    if (diag) snprintf(diag->message, sizeof diag->message, "a callback failed"), diag->status = status;
    return status;
}

static hyp_status make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    size_t count;
    uint32_t most = 0;
    (void)user;
    hyp_status status = misbehave(diag);
    const hyp_class_id *kids = hyp_enode_children(eg, node, &count);
    for (size_t i = 0; i < count; i++) {
        const uint32_t *kid = hyp_egraph_data(eg, kids[i]);
        if (kid && *kid > most) most = *kid;
    }
    *(uint32_t *)data = most < 6 ? most + 1 : 6;
    return status;
}

static hyp_status merge(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user, hyp_diag *diag)
{
    (void)eg, (void)user;
    hyp_status status = misbehave(diag);
    uint32_t *a = into;
    const uint32_t *b = from;
    *out_changed = *b > *a;
    if (*out_changed) *a = *b;
    return status;
}

static hyp_status modify(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    (void)eg, (void)c, (void)user;
    return misbehave(diag);
}

static hyp_status agree(hyp_egraph *eg, const void *a, const void *b, void *user, hyp_diag *diag)
{
    (void)eg, (void)a, (void)b, (void)user;
    return misbehave(diag);
}

static hyp_status condition(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)call;
    *out = below(3) > 0;
    return misbehave(diag);
}

static hyp_status function(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_status status = misbehave(diag);
    size_t draw = below(8);
    *out = draw == 0 ? HYP_NONE : draw == 1 ? any_id() : call->arg_count ? call->args[0] : HYP_NONE;
    return status;
}

static void on_rewrite(const hyp_rewrite_event *event, void *user)
{
    (void)event, (void)user;
    hyp_status ignored = misbehave(NULL);
    (void)ignored;
}

/* Old ids have new ones, and nothing more may be done than to read. */
static void renumbered(hyp_egraph *eg, const hyp_renumbering *ids, void *user)
{
    size_t bound = hyp_egraph_enode_bound(eg);
    told.renumbered++;
    for (size_t i = 0; i < ids->bound; i++) {
        if (ids->classes[i] < bound && hyp_egraph_find(eg, ids->classes[i]) == ids->classes[i] &&
            (ids->nodes[i] < bound || ids->nodes[i] == HYP_NONE))
            continue;
        fprintf(stderr, "%zu has no new id\n", i);
        abort();
    }
    on_rewrite(NULL, user);
}

static void on_iteration(const hyp_iteration_report *it, size_t count, void *user)
{
    (void)it, (void)count;
    on_rewrite(NULL, user);
}

static bool stop(void *user)
{
    on_rewrite(NULL, user);
    return below(64) == 63;
}

double any_cost(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg;
    static const double odd[] = {INFINITY, 0, 1e300, -1, NAN, -INFINITY};
    on_rewrite(NULL, user);
    size_t draw = below(64);
    return draw < 6 ? odd[draw] : node % 7;
}

static hyp_status matched(const hyp_match_view *match, void *user, hyp_diag *diag)
{
    (void)match, (void)user;
    return misbehave(diag);
}

static hyp_status near(const hyp_near_miss *miss, void *user, hyp_diag *diag)
{
    (void)miss, (void)user;
    return misbehave(diag);
}

static hyp_status hook(hyp_egraph *eg, size_t iteration, void *user, hyp_diag *diag)
{
    (void)eg, (void)iteration, (void)user;
    return misbehave(diag);
}

static size_t turn(hyp_egraph *eg, const hyp_rule_turn *asked, void *user)
{
    (void)eg;
    on_rewrite(NULL, user);
    size_t draw = below(8);
    return asked->kind == HYP_TURN_IDLE ? draw > 5 : draw == 7 ? SIZE_MAX : draw * draw;
}

static double term_cost(hyp_egraph *eg, hyp_enode_id node, const double *kids, size_t count, void *user)
{
    double most = 0;
    (void)eg;
    on_rewrite(NULL, user);
    for (size_t i = 0; i < count; i++) most = fmax(most, kids[i]);
    size_t draw = below(128);
    return draw == 1 ? NAN : draw == 2 ? INFINITY : draw == 3 ? most - 1 : most + node % 3;
}

void any_write(const char *text, size_t len, void *user)
{
    (void)text, (void)len;
    on_rewrite(NULL, user);
}

/* ---- calls ------------------------------------------------------------------------------------------ */

static const char *const texts[] = {
    "a",   "b", "(f a)", "(f (f b))", "(g a b)", "(+ a (+ b 0))", "(h a b c)", "(l a b c d)", "(g (f a) (f b))",
    "(l)", "(", ")",     "(() a)",    "\"x y\"", "(f \"\" (g))",  "1 2"};
enum { TEXTS = sizeof texts / sizeof *texts };

static const char *const rules[] = {
    "(rule comm (+ ?a ?b) => (+ ?b ?a)) (rule assoc (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c))",
    "(rule zero (+ ?x 0) => ?x) (birule fg (f ?x) <=> (g ?x ?x))",
    "(rule if (f ?x) => (g ?x a) :if (or (is ?x) (not (is (f ?x)))))",
    "(rule call (g ?x ?y) => (h ?x (fn ?y ?x) ?y)) (rule call2 (f ?x) => (fn ?x))",
    "(rule seq (l ?a ?xs...) => (l ?xs... (fn ?a) ?a))",
    "(rule two (multi (?a = (f ?x)) (?b = (g ?x ?y))) => (let ?m (h ?x ?y ?y)) (union ?a ?m) (union ?b (fn ?m)))",
    "(rule many (collect (?x) (?y = (g ?w ?x))) => (let ?m (f (l (each ?w)))) (union ?y (g <i> ?m)))",
    "(rule ground (f a) => b) (rule grow (f ?x) => (f (f ?x)))",
    "(rule names (multi (?a = (f ?x))) => (let ?m ?x) (let ?n ?m) (let ?o (g ?n ?a)) (union ?a (h ?n ?m (fn ?o))))",
    "(rule asks (multi (?a = (f ?x))) => (let ?o (fn ?x)) (let ?p (g ?o ?a)) (union ?o ?p) :if (not (is ?x ?o ?p)))",
    "(rule bad (f ?x) => ?y)",
    "(rule bad",
};
enum { RULES = sizeof rules / sizeof *rules };

static void add(void)
{
    static const char *const names[] = {"a", "b", "f", "g", "+", "l", "0", "bad\xff"};
    hyp_symbol symbol = any_id();
    hyp_class_id kids[4], out = HYP_NONE;
    size_t count = below(5);
    if (hyp_egraph_node_count(now->eg) > MOST_NODES) return;
    if (below(16)) note(hyp_egraph_symbol(now->eg, names[below(8)], &symbol, NULL));
    for (size_t i = 0; i < count; i++) kids[i] = any_id();
    note(hyp_egraph_add(now->eg, symbol, kids, count, &out, NULL, NULL));
}

static void add_text(void)
{
    hyp_class_id c;
    if (hyp_egraph_node_count(now->eg) <= MOST_NODES) note(hyp_egraph_add_text(now->eg, texts[below(TEXTS)], &c, NULL));
}

static hyp_egraph_run_options run_options(void)
{
    hyp_egraph_run_options o = {
        .size = below(32) ? sizeof o : 0, .max_nodes = MOST_NODES, .max_iterations = 1 + below(4)};
    size_t draw = byte();
    if (draw & 1) o.on_rewrite = on_rewrite;
    if (draw & 2) o.on_iteration = on_iteration;
    if (draw & 4) o.stop = stop;
    if (draw & 8) o.scheduler = HYP_SCHEDULER_BACKOFF;
    if (draw & 16) o.backoff_match_limit = 1 + below(8);
    if (draw & 32) o.max_matches = 1 + below(64);
    draw = byte();
    if (draw & 1) o.hook = hook;
    if ((draw & 6) == 6) o.scheduler = HYP_SCHEDULER_CALLBACK;
    if (draw & 8) o.turn = turn;
    if ((draw & 192) == 192) o.max_bytes = 1000 + 1000 * (size_t)byte();
    return o;
}

static void run(void)
{
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = run_options();
    hyp_schedule parts[] = {{.kind = HYP_SCHEDULE_RUN, .rules = now->sets[below(SETS)], .times = below(3)},
                            {.kind = HYP_SCHEDULE_RUN, .rules = now->sets[below(SETS)], .times = below(3)}};
    hyp_schedule whole = {.kind = (hyp_schedule_kind)below(5), .times = below(3), .parts = parts, .part_count = 2};
    note(below(3) ? hyp_egraph_run(now->eg, now->sets[below(SETS)], &options, &report, NULL)
                  : hyp_egraph_run_schedule(now->eg, &whole, &options, &report, NULL));
    hyp_egraph_run_report_dispose(&report);
}

static void change_rules(void)
{
    size_t which = below(SETS), text = below(RULES);
    hyp_ruleset *set = now->sets[which];
    if (byte() & 1) {
        hyp_ruleset_enable(set, below(4), byte() & 1);
        hyp_ruleset_backoff(set, below(4), below(4), below(4));
        return;
    }
    now->sets[which] = NULL;
    hyp_ruleset_destroy(set);
    hyp_ruleset *made = NULL;
    note(hyp_ruleset_parse(now->eg, "rules", rules[text], strlen(rules[text]), &made, NULL));
    now->sets[which] = made;
}

static void search(void)
{
    static const char *const patterns[] = {"(f ?x)",        "(+ ?x (+ ?y ?z))",
                                           "(l ?a ?xs...)", "(multi (?a = (f ?x)) (?b = (g ?x ?y)))",
                                           "(f a)",         "?x",
                                           "(is ?x)",       "(f"};
    size_t which = below(PATTERNS);
    if (byte() & 1) {
        hyp_pattern *made = NULL, *before = now->patterns[which];
        now->patterns[which] = NULL;
        hyp_pattern_destroy(before);
        note(hyp_pattern_parse(now->eg, patterns[below(8)], &made, NULL));
        now->patterns[which] = made;
    }
    note(hyp_egraph_ematch(now->eg, now->patterns[which], matched, NULL, NULL));
}

static void near_misses(void)
{
    hyp_class_id focus[2] = {any_id(), any_id()};
    note(hyp_ruleset_near_misses(now->sets[below(SETS)], below(3), focus, below(3), below(4), near, NULL, NULL));
}

static void extract(void)
{
    hyp_class_id roots[2] = {any_id(), any_id()};
    hyp_extraction ex;
    size_t which = below(EXTRACTIONS);
    hyp_extract_options options = {
        .size = below(32) ? sizeof options : below(8), .method = (hyp_extract_method)below(4), .budget_work = 20000};
    if (byte() & 1) options.stop = stop;
    note(hyp_egraph_extract_with(now->eg, roots, below(3), &options, any_cost, NULL, &ex, NULL));
    hyp_extraction_dispose(&now->extractions[which]);
    now->extractions[which] = ex;
}

static void extract_by_term(void)
{
    hyp_class_id roots[2] = {any_id(), any_id()};
    hyp_extraction ex;
    size_t which = below(EXTRACTIONS);
    note(hyp_egraph_extract_by_term(now->eg, roots, below(3), term_cost, NULL, &ex, NULL));
    hyp_extraction_dispose(&now->extractions[which]);
    now->extractions[which] = ex;
}

static void add_rule(void)
{
    static const char *const lefts[] = {"(f ?x)", "(g ?x ?y)", "(l ?xs...)", "(multi (?a = (f ?x)) (?b = (g ?x ?y)))",
                                        "?x",     "(f"};
    static const char *const names[] = {"one", "two words", "comm", ""};
    hyp_rule_source source = {
        .size = sizeof source, .name = names[below(4)], .left = lefts[below(6)], .apply = function};
    if (below(3) == 0) source.condition = "(is ?x)";
    note(hyp_ruleset_add(now->sets[below(SETS)], &source, NULL));
}

static void declare(void)
{
    static const char *const forms[] = {
        "(operators E (f E) (g E E) (+ E E) (l E...) (h E E E) a b) (literals E int float name)",
        "(operators B (not B)) (literals E name)", "(operators", "(operators E (f B))"};
    const char *text = forms[below(4)];
    note(hyp_egraph_declare(now->eg, "forms", text, strlen(text), NULL));
    hyp_egraph_sort(now->eg, any_id());
}

static void compact(void)
{
    hyp_class_id classes[2] = {any_id(), HYP_NONE}, nodes[2] = {any_id(), any_id()};
    note(hyp_egraph_compact(now->eg, classes, below(3), nodes, below(3), NULL));
}

static void copy(void)
{
    hyp_egraph *made, *before = now->eg;
    hyp_ruleset *sets[SETS];
    bool known = now->sets[0] && now->sets[1] && now->sets[2];
    if (now->depth) return; /* callbacks may be the copy's, too */
    hyp_status status = hyp_egraph_copy(before, now->sets, known ? SETS : 0, &made, sets, NULL);
    note(status);
    if (status != HYP_OK) return;
    hyp_mem_fail_after(0);
    hyp_egraph_run_report report;
    hyp_egraph_run_options options = {.size = sizeof options, .max_nodes = MOST_NODES, .max_iterations = 2};
    hyp_diag diag = {0};
    const uint8_t *end = now->end;
    now->end = now->at; /* its callbacks do nothing */
    if (known && hyp_egraph_run(made, sets[below(SETS)], &options, &report, &diag) == HYP_OK)
        hyp_egraph_run_report_dispose(&report);
    if (hyp_egraph_rebuild(made, &diag) == HYP_OK && hyp_egraph_check(made, &diag) == HYP_ERR_INTERNAL &&
        !(now->fails && strstr(diag.message, "does not know"))) {
        fprintf(stderr, "copy: %s\n", diag.message);
        abort();
    }
    now->end = end;
    hyp_egraph_destroy(made);
}

/* Changes a field of a proof: its judge may refuse it, and no more. */
static void damage(hyp_shared_proof *proof)
{
    size_t lemma = below(proof->lemma_count), draw = byte();
    hyp_lemma *l = &proof->lemmas[lemma];
    switch (draw % 5) {
    case 0: l->from = any_id(); break;
    case 1: l->kind = (hyp_lemma_kind)below(5); break;
    case 2: l->use_count = l->use_count > 1 ? l->use_count - 1 : l->use_count; break;
    case 3: l->rule = below(2) ? NULL : "other"; break;
    default: proof->claim.lemma = any_id(); break;
    }
}

static void explain(void)
{
    hyp_shared_proof proof;
    hyp_proof flat;
    hyp_ruleset *sets[1] = {now->sets[below(SETS)]};
    hyp_proof_check_options options = {.size = sizeof options, .ask = byte() & 1};
    hyp_status status = byte() & 1 ? hyp_egraph_explain_nodes(now->eg, any_id(), any_id(), &proof, NULL)
                                   : hyp_egraph_explain_shared(now->eg, texts[below(9)], texts[below(9)], &proof, NULL);
    note(status);
    if (status != HYP_OK) return;
    if (proof.lemma_count && below(2)) damage(&proof);
    note(hyp_shared_proof_check(&proof, NULL, NULL, sets, sets[0] && below(4), &options, NULL, NULL));
    if (hyp_shared_proof_flatten(&proof, &flat, NULL) == HYP_OK) {
        note(hyp_proof_check(&flat, "a", "b", sets, sets[0] && below(4), &options, NULL, NULL));
        hyp_proof_dispose(&flat);
    }
    hyp_shared_proof_dispose(&proof);
}

static void push_or_pop(void)
{
    if (byte() & 1 ? now->pushes > 0 : now->pushes > 3) {
        hyp_status status = hyp_egraph_pop(now->eg, NULL);
        note(status);
        now->pushes -= status == HYP_OK;
    } else {
        hyp_status status = hyp_egraph_push(now->eg, NULL);
        note(status);
        now->pushes += status == HYP_OK;
    }
}

static void unite(void) { note(hyp_egraph_union(now->eg, any_id(), any_id(), below(4) ? NULL : "said", NULL, NULL)); }
static void rebuild(void) { note(hyp_egraph_rebuild(now->eg, NULL)); }
static void cancel(void)
{
    if (below(8) == 0) hyp_egraph_cancel(now->eg);
}
static void destroy_inside(void)
{
    if (now->depth) hyp_egraph_destroy(now->eg);
}

static void fail_next(void)
{
    if (now->depth == 0) hyp_mem_fail_after(1 + below(40));
}

static void call_something(void)
{
    static void (*const all[])(void) = {
        add,      add,         add_text,       unite,          rebuild, run,          run,
        search,   near_misses, extract,        use_extraction, explain, explain,      push_or_pop,
        unite,    cancel,      destroy_inside, read_something, add,     change_rules, extract_by_term,
        add_rule, declare,     walk,           compact,        copy,    use_file,     read_rules};
    now->calls++;
    told.calls++;
    all[below(sizeof all / sizeof *all)]();
}

/* ---- a case ------------------------------------------------------------------------------------------ */

static void make_world(world *w)
{
    uint8_t kind = byte();
    hyp_analysis analysis = {.data_size = 4, .make = make, .merge = merge, .modify = modify, .agree = agree};
    if (kind & 8) analysis.modify = NULL;
    if (kind & 16) analysis.agree = NULL;
    w->fails = (kind & 96) == 96;
    hyp_egraph_options options = {
        .size = sizeof options, .analysis = kind & 1 ? &analysis : NULL, .explain = kind & 2, .explain_all = kind & 4,
        .renumbered = kind & 128 ? renumbered : NULL};
    if (hyp_egraph_create(&options, &w->eg, NULL) != HYP_OK ||
        hyp_egraph_register_condition(w->eg, "is", -1, condition, NULL, NULL) != HYP_OK ||
        hyp_egraph_register_function(w->eg, "fn", -1, function, NULL, NULL) != HYP_OK)
        abort();
    w->depth = DEEPEST; /* nothing is called while the first rules are read */
    for (size_t i = 0; i < SETS; i++) {
        const char *text = rules[below(RULES - 2)];
        if (hyp_ruleset_parse(w->eg, "rules", text, strlen(text), &w->sets[i], NULL) != HYP_OK) abort();
    }
    w->depth = 0;
}

/* Every invariant, asked while callbacks do nothing. */
static void check(world *w)
{
    hyp_diag diag = {0};
    const uint8_t *end = w->end;
    w->end = w->at;
    hyp_status status = hyp_egraph_rebuild(w->eg, &diag);
    if (status == HYP_OK) status = hyp_egraph_check(w->eg, &diag);
    w->end = end;
    if (status == HYP_OK || (w->fails && strstr(diag.message, "does not know"))) return;
    if (status != HYP_ERR_INTERNAL && w->fails) return;
    fprintf(stderr, "%s\n", diag.message);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    world w = {.at = data, .end = data + len};
    now = &w;
    make_world(&w);
    while (!over()) {
        if (below(16) == 15) fail_next();
        call_something();
        hyp_mem_fail_after(0);
        if (below(4) == 3) check(&w);
    }
    check(&w);
    for (size_t i = 0; i < EXTRACTIONS; i++) hyp_extraction_dispose(&w.extractions[i]);
    for (size_t i = 0; i < PATTERNS; i++) hyp_pattern_destroy(w.patterns[i]);
    for (size_t i = 0; i < SETS; i++) hyp_ruleset_destroy(w.sets[i]);
    hyp_egraph_destroy(w.eg);
    return 0;
}

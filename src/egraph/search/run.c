/* Saturation: iterations of search, apply and rebuild under limits.
 *
 * All rules of an iteration see the e-graph as the last rebuild left it, whatever the rules before them
 * added; so the result does not depend on their order but for ids. Matches are applied in small batches
 * while the search goes on, and never held all at once. */
#include <string.h>
#include <time.h>

#include "base/sized.h"
#include "egraph/rules/rule.h"

/* Words of declined matches that a rule keeps to ask again. */
#ifdef HYP_SMALL_SIZES
enum { DECLINED_LIMIT = 8 };
#else
enum { DECLINED_LIMIT = 1 << 20 };
#endif

typedef struct runner {
    hyp_egraph *eg;
    hyp_ruleset *rules;
    hyp_egraph_run_options options;
    hyp_egraph_run_report *report;
    hyp_applier applier;
    hyp_search search;
    uint32_t *grounds;
    hyp_parts_found parts; /* of the rule under way, if it collects */
    double start;
    uint64_t begun;       /* hyp_egraph.version when the iteration began */
    double rebuild_price; /* seconds per change of the last rebuild: what the next one will take of the time */
    size_t applied; /* in this run */
    hyp_stop stop;
    bool stopping; /* `stop` is set: a limit cut this iteration */
    /* Of the rule and iteration under way. */
    uint32_t rule;
    size_t matches, applications, match_limit;
    double apply_seconds;
    hyp_iteration_report now;
    HYP_VEC(hyp_iteration_report) iterations;
} runner;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void set_stop(runner *r, hyp_stop stop)
{
    if (stop == HYP_STOP_CANCELLED) atomic_store(&r->eg->cancel, false); /* it is done: not the next run, too */
    r->stop = stop;
    r->stopping = true;
}

static hyp_status stop_with(runner *r, hyp_stop stop, hyp_diag *diag)
{
    set_stop(r, stop);
    return hyp_fail(diag, HYP_ERR_LIMIT, "the saturation stops: %s", hyp_stop_name(stop));
}

/* Time and cancelling: why the run is to end now, or _SATURATED. */
static hyp_stop poll(void *user)
{
    runner *r = user;
    if (atomic_load_explicit(&r->eg->cancel, memory_order_relaxed)) return HYP_STOP_CANCELLED;
    if (r->options.max_seconds > 0) { /* what was changed so far has to be rebuilt in it, too */
        double rebuild = r->rebuild_price * (double)(r->eg->version - r->begun);
        if (seconds() - r->start + rebuild >= r->options.max_seconds) return HYP_STOP_TIME;
    }
    if (!r->options.stop) return HYP_STOP_SATURATED;
    const char *outer = hyp_eg_begin_reading(r->eg, "stop");
    bool asked = r->options.stop(r->options.stop_user);
    hyp_eg_end_reading(r->eg, outer);
    return asked ? HYP_STOP_CANCELLED : HYP_STOP_SATURATED;
}

static hyp_status check_clock(void *user, hyp_diag *diag)
{
    hyp_stop stop = poll(user);
    return stop == HYP_STOP_SATURATED ? HYP_OK : stop_with(user, stop, diag);
}

/* ---- one rule ----------------------------------------------------------------------------------- */

/* Counts refused applications, and keeps what is said of the rule's first one. */
static hyp_status note_refusals(runner *r, size_t count, const hyp_refusal *first, hyp_diag *diag)
{
    hyp_rule_report *report = &r->report->rules[r->rule];
    report->refused += count;
    if (!count || report->refusal) return HYP_OK;
    size_t bytes = strlen(first->why.message) + 1;
    report->refusal = hyp_malloc(bytes);
    if (!report->refusal) return hyp_fail_memory(diag, bytes);
    memcpy(report->refusal, first->why.message, bytes);
    return HYP_OK;
}

/* Applies a rule to matches, as many as may still be applied; `rule` as in an application's record. *out_done of them have
 * their outcomes, also after a failure. */
static hyp_status apply_matches(runner *r, uint32_t rule, const uint32_t *matches, size_t count, hyp_outcome *outcomes,
                                size_t *out_done, hyp_diag *diag)
{
    size_t left = r->options.max_matches ? r->options.max_matches - r->applied : count;
    hyp_refusal first;
    hyp_diag said;
    first.match = SIZE_MAX;
    said.message[0] = 0;
    *out_done = 0;
    if (left == 0) return stop_with(r, HYP_STOP_MATCHES, diag);
    if (count > left) count = left;
    hyp_status status = hyp_apply_batch(&r->applier, rule, matches, count, outcomes, out_done, &first, &said);
    uint32_t changes = 0, applied = 0, refused = 0; /* not counted by outcome: the next would wait for the last one's sum */
    for (size_t i = 0; i < *out_done; i++) {
        changes += outcomes[i] == HYP_APPLIED_CHANGE;
        applied += outcomes[i] <= HYP_APPLIED_FORBIDDEN;
        refused += outcomes[i] == HYP_APPLIED_REFUSED;
    }
    r->applications += changes;
    r->applied += applied;
    HYP_TRY(note_refusals(r, refused, &first, diag));
    if (status == HYP_ERR_LIMIT && r->eg->limit_hit != HYP_STOP_SATURATED) return stop_with(r, r->eg->limit_hit, diag);
    return status == HYP_OK ? HYP_OK : hyp_fail(diag, status, "%s", said.message);
}

/* Keeps a declined match, which may hold later when more is known. */
static hyp_status keep_declined(hyp_rule *rule, const uint32_t *match, hyp_diag *diag)
{
    uint32_t words = hyp_match_words(rule);
    if (rule->forgets) return HYP_OK;
    if (rule->declined.len + words > DECLINED_LIMIT) {
        rule->forgets = true;
        hyp_vec_free(&rule->declined);
        return HYP_OK;
    }
    HYP_TRY(hyp_vec_reserve(&rule->declined, rule->declined.len + words, diag));
    memcpy(rule->declined.data + rule->declined.len, match, words * sizeof *match);
    rule->declined.len += words;
    return HYP_OK;
}

static hyp_status apply_batch(void *user, const uint32_t *matches, size_t count, hyp_diag *diag)
{
    runner *r = user;
    hyp_rule *rule = &r->rules->rules.data[r->rule];
    uint32_t words = hyp_match_words(rule);
    hyp_status status = check_clock(r, diag);
    double begin = seconds();
    r->matches += count;
    for (size_t at = 0, done; at < count && status == HYP_OK; at += done) {
        hyp_outcome outcomes[HYP_MATCH_BATCH];
        status = apply_matches(r, r->rule, matches + at * words, count - at, outcomes, &done, diag);
        for (size_t i = 0; i < done && (rule->cond || rule->calls); i++) {
            hyp_diag said;
            if (outcomes[i] != HYP_APPLIED_DECLINED) continue;
            hyp_status kept = keep_declined(rule, matches + (at + i) * words, &said);
            if (status == HYP_OK && kept != HYP_OK) status = hyp_fail(diag, kept, "%s", said.message);
        }
    }
    r->apply_seconds += seconds() - begin;
    return status;
}

/* Asks the matches again that were declined. What a limit leaves is kept. */
static hyp_status ask_declined(runner *r, hyp_rule *rule, hyp_diag *diag)
{
    uint32_t words = hyp_match_words(rule);
    uint64_t version = r->eg->version;
    size_t kept = 0, at = 0, count = rule->declined.len / words, done;
    hyp_status status = HYP_OK;
    if (rule->asked == version || count == 0) return HYP_OK;
    while (at < count && status == HYP_OK) {
        hyp_outcome outcomes[HYP_MATCH_BATCH];
        uint32_t *matches = rule->declined.data + at * words;
        size_t n = count - at < HYP_MATCH_BATCH ? count - at : HYP_MATCH_BATCH;
        for (size_t i = 0; i < n; i++)
            for (uint32_t j = 0, *m = matches + i * words; j < rule->reg_count; j++) m[j] = hyp_eg_find(r->eg, m[j]);
        status = check_clock(r, diag);
        done = 0;
        if (status == HYP_OK) status = apply_matches(r, r->rule, matches, n, outcomes, &done, diag);
        for (size_t i = 0; i < done; i++)
            if (outcomes[i] == HYP_APPLIED_DECLINED)
                memmove(rule->declined.data + kept++ * words, matches + i * words, words * sizeof *matches);
        at += done;
    }
    memmove(rule->declined.data + kept * words, rule->declined.data + at * words, (count - at) * words * sizeof(uint32_t));
    rule->declined.len -= (at - kept) * words;
    if (status == HYP_OK) rule->asked = version;
    return status;
}

static hyp_status count_batch(void *user, const uint32_t *matches, size_t count, hyp_diag *diag)
{
    (void)matches;
    runner *r = user;
    HYP_TRY(check_clock(r, diag));
    r->matches += count;
    return r->matches > r->match_limit ? HYP_ERR_LIMIT : HYP_OK;
}

/* Counts the matches that are new to the rule, or all there are. *out_more: there are more than `limit`. */
static hyp_status count_matches(runner *r, hyp_rule *rule, bool all, size_t limit, bool *out_more)
{
    uint32_t since = rule->since;
    if (all) rule->since = 0;
    r->match_limit = limit;
    r->matches = 0;
    r->search.emit = count_batch;
    hyp_status status = hyp_match(&r->search, r->grounds);
    rule->since = since;
    *out_more = status == HYP_ERR_LIMIT && !r->stopping;
    return *out_more ? HYP_OK : status;
}

/* More matches than `limit`: all in the e-graph count, as in egg, not only the new ones. There are at most as many as
 * were ever found, so they are counted only where that is too many. */
static hyp_status has_more(runner *r, hyp_rule *rule, size_t limit, bool *out)
{
    *out = rule->found > limit;
    if (!*out) HYP_TRY(count_matches(r, rule, false, limit - rule->found, out));
    return *out ? count_matches(r, rule, true, limit, out) : HYP_OK;
}

/* Asks the caller's scheduler. */
static size_t ask_turn(runner *r, hyp_turn_kind kind, size_t rule, size_t matches)
{
    hyp_rule_turn turn = {.kind = kind, .iteration = r->applier.iteration, .rule = rule, .matches = matches};
    const char *outer = hyp_eg_begin_reading(r->eg, "a scheduler");
    size_t answer = r->options.turn(r->eg, &turn, r->options.turn_user);
    hyp_eg_end_reading(r->eg, outer);
    return answer;
}

/* Whether the caller's scheduler leaves a rule out of this iteration. */
static hyp_status is_left_out(runner *r, hyp_rule *rule, bool *out)
{
    size_t limit = ask_turn(r, HYP_TURN_BEGIN, r->rule, rule->found);
    *out = limit == 0;
    if (limit == 0 || limit == SIZE_MAX) return HYP_OK;
    HYP_TRY(has_more(r, rule, limit, out));
    if (*out) ask_turn(r, HYP_TURN_OVER, r->rule, limit);
    return HYP_OK;
}

/* Whether there are more matches than backoff allows the rule; then it is banned, and none is applied. */
static hyp_status is_explosive(runner *r, hyp_rule *rule, bool *out)
{
    size_t limit = rule->own_match_limit ? rule->own_match_limit : r->options.backoff_match_limit;
    size_t length = rule->own_ban_length ? rule->own_ban_length : r->options.backoff_ban_length;
    unsigned shift = rule->times_banned < 20 ? (unsigned)rule->times_banned : 20;
    if (limit > SIZE_MAX >> shift) return HYP_OK;
    limit <<= shift;
    HYP_TRY(has_more(r, rule, limit, out));
    if (*out) {
        rule->banned_until = r->applier.iteration + (length < SIZE_MAX >> (shift + 1) ? length << shift : length);
        rule->times_banned++;
    }
    return HYP_OK;
}

static hyp_status collect_batch(void *user, const uint32_t *matches, size_t count, hyp_diag *diag)
{
    runner *r = user;
    uint32_t words = hyp_match_words(r->search.rule);
    HYP_TRY(check_clock(r, diag));
    r->matches += count;
    for (size_t i = 0; i < count; i++)
        HYP_TRY(hyp_collect_add(&r->applier, r->rule, matches + i * words, &r->parts, diag));
    return HYP_OK;
}

static hyp_status apply_collected(runner *r, const hyp_rule *rule, hyp_diag *diag)
{
    uint32_t width;
    size_t done;
    hyp_outcome outcome;
    HYP_TRY(hyp_collect_sort(r->eg, rule, &r->parts, diag));
    for (;;) {
        HYP_TRY(hyp_collect_next(rule, &r->parts, &width, diag));
        if (!width) return HYP_OK;
        HYP_TRY(hyp_rule_instance(r->rules, r->rule, width, diag));
        HYP_TRY(check_clock(r, diag));
        HYP_TRY(apply_matches(r, r->rule | width << HYP_RULE_WIDTH, r->parts.match.data, 1, &outcome, &done, diag));
    }
}

/* A rule that collects meets all its parts again whenever the e-graph is another one: who belongs together may change
 * with any of them. */
static hyp_status collect_and_apply(runner *r, hyp_rule *rule, hyp_diag *diag)
{
    if (rule->asked == r->eg->version) return HYP_OK;
    uint64_t version = r->eg->version;
    rule->since = 0;
    r->parts.words.len = 0;
    r->search.emit = collect_batch;
    HYP_TRY(hyp_match(&r->search, r->grounds));
    rule->collecting->declined = r->matches - hyp_collect_count(rule, &r->parts);
    double begin = seconds();
    hyp_status status = apply_collected(r, rule, diag);
    r->apply_seconds += seconds() - begin;
    rule->collecting->beyond = r->parts.beyond;
    if (status == HYP_OK) rule->asked = version;
    return status;
}

static hyp_status search_and_apply(runner *r, hyp_rule *rule, bool *out_banned, hyp_diag *diag)
{
    r->search.rule = rule;
    r->search.diag = diag;
    if (rule->collecting) return collect_and_apply(r, rule, diag);
    if (r->options.scheduler == HYP_SCHEDULER_BACKOFF) {
        HYP_TRY(is_explosive(r, rule, out_banned));
        if (*out_banned) return HYP_OK;
    }
    if (r->options.scheduler == HYP_SCHEDULER_CALLBACK) {
        HYP_TRY(is_left_out(r, rule, out_banned));
        if (*out_banned) return HYP_OK;
    }
    uint64_t version = r->eg->version;
    r->matches = 0;
    HYP_TRY(ask_declined(r, rule, diag));
    rule->asked = version;
    r->search.emit = apply_batch;
    HYP_TRY(hyp_match(&r->search, r->grounds));
    rule->since = r->eg->epoch;
    rule->found += r->matches;
    if (rule->ground_count) memcpy(rule->ground_class, r->grounds, rule->ground_count * sizeof *r->grounds);
    return HYP_OK;
}

static hyp_status run_rule(runner *r, bool *out_banned, hyp_diag *diag)
{
    hyp_rule *rule = &r->rules->rules.data[r->rule];
    hyp_rule_report *report = &r->report->rules[r->rule];
    double begin = seconds();
    r->matches = r->applications = 0;
    r->apply_seconds = 0;
    hyp_status status = search_and_apply(r, rule, out_banned, diag);
    double took = seconds() - begin;
    report->seconds += took;
    if (!*out_banned) {
        report->matches += r->matches;
        report->applications += r->applications;
        r->now.matches += r->matches;
        r->now.applications += r->applications;
    }
    r->now.apply_seconds += r->apply_seconds;
    r->now.search_seconds += took - r->apply_seconds;
    if (status != HYP_OK && !r->stopping) hyp_diag_prefix(diag, "rule %s", rule->info.name);
    return status;
}

/* ---- iterations --------------------------------------------------------------------------------- */

/* Runs every rule that may run. *out_whole: each of them was searched to its end. */
static hyp_status run_rules(runner *r, bool *out_whole, hyp_diag *diag)
{
    hyp_egraph *eg = r->eg;
    double begin = seconds();
    hyp_status status = hyp_index_sync(eg, diag);
    r->now.search_seconds += seconds() - begin;
    if (status == HYP_ERR_LIMIT && eg->limit_hit != HYP_STOP_SATURATED) return stop_with(r, eg->limit_hit, diag);
    HYP_TRY(status);
    eg->epoch++; /* from here on, what is made or changed is new to the next iteration */
    eg->busy = true;
    r->search.row_limit = (uint32_t)eg->row_count;
    for (r->rule = 0; r->rule < r->rules->rules.len && status == HYP_OK; r->rule++) {
        hyp_rule *rule = &r->rules->rules.data[r->rule];
        bool banned = rule->banned_until > r->applier.iteration;
        if (!rule->enabled) continue;
        if (!banned) status = run_rule(r, &banned, diag);
        if (banned) *out_whole = false;
    }
    eg->busy = false;
    return status;
}

static hyp_status note_iteration(runner *r, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_grow(&r->iterations, diag));
    r->now.e_nodes = r->eg->live_count;
    r->now.e_classes = r->eg->class_count;
    r->iterations.data[r->iterations.len - 1] = r->now;
    return HYP_OK;
}

static void tell_iteration(const runner *r)
{
    if (!r->options.on_iteration) return;
    const char *outer = hyp_eg_begin_reading(r->eg, "on_iteration");
    r->options.on_iteration(&r->now, r->iterations.len, r->options.on_iteration_user);
    hyp_eg_end_reading(r->eg, outer);
}

/* When all that is left is banned, the bans are shortened, by what the shortest has left, instead of waiting for
 * nothing. */
static void shorten_bans(runner *r)
{
    size_t least = SIZE_MAX, now = r->applier.iteration;
    for (size_t i = 0; i < r->rules->rules.len; i++) {
        const hyp_rule *rule = &r->rules->rules.data[i];
        if (rule->enabled && rule->banned_until > now && rule->banned_until - now < least)
            least = rule->banned_until - now;
    }
    for (size_t i = 0; i < r->rules->rules.len; i++) {
        hyp_rule *rule = &r->rules->rules.data[i];
        if (rule->enabled && rule->banned_until > now) rule->banned_until -= least;
    }
}

/* One iteration. Sets r->stopping when there is no next one. */
static hyp_status iterate(runner *r, hyp_diag *diag)
{
    hyp_egraph *eg = r->eg;
    uint64_t version = r->begun = eg->version;
    size_t nodes = eg->live_count, classes = eg->class_count;
    bool whole = true;
    r->now = (hyp_iteration_report){0};
    hyp_diag said = {0}; /* kept apart: what a rebuild after a failure says is not what went wrong */
    hyp_status status = run_rules(r, &whole, &said);
    double begin = seconds();
    uint64_t changes = eg->version - version;
    r->begun = eg->version;
    hyp_status rebuilt = hyp_eg_rebuild(eg, diag);
    if (rebuilt == HYP_OK && eg->limit_hit != HYP_STOP_SATURATED && !r->stopping)
        set_stop(r, eg->limit_hit); /* the analysis ran into it */
    r->now.rebuild_seconds = seconds() - begin;
    if (changes) r->rebuild_price = r->now.rebuild_seconds / (double)changes;
    r->begun = eg->version;
    if (status != HYP_OK && !r->stopping) return hyp_fail(diag, status, "%s", said.message);
    HYP_TRY(rebuilt);
    HYP_TRY(note_iteration(r, diag));
    tell_iteration(r);
    if (r->stopping && r->stop == HYP_STOP_NODES && eg->live_count < eg->max_nodes &&
        (eg->live_count != nodes || eg->class_count != classes)) {
        r->stopping = false; /* the rebuild made room again, and something was learnt */
        eg->limit_hit = HYP_STOP_SATURATED;
        return HYP_OK;
    }
    if (r->stopping || eg->version != version) return HYP_OK;
    bool mine = r->options.scheduler == HYP_SCHEDULER_CALLBACK;
    if (whole || (mine && ask_turn(r, HYP_TURN_IDLE, HYP_NONE, 0) == 0))
        set_stop(r, HYP_STOP_SATURATED);
    else if (!mine)
        shorten_bans(r);
    return HYP_OK;
}

/* What the caller does before an iteration. A run's limits are of the run: what is added here is not held against them.
 */
static hyp_status call_hook(runner *r, hyp_diag *diag)
{
    hyp_egraph *eg = r->eg;
    if (!r->options.hook) return HYP_OK;
    hyp_eg_view_release(eg);
    eg->max_nodes = eg->max_bytes = 0;
    hyp_status status = r->options.hook(eg, r->applier.iteration, r->options.hook_user, diag);
    eg->max_nodes = r->options.max_nodes;
    eg->max_bytes = r->options.max_bytes;
    HYP_TRY(status);
    return hyp_eg_rebuild(eg, diag);
}

static hyp_status saturate(runner *r, hyp_diag *diag)
{
    HYP_TRY(hyp_eg_rebuild(r->eg, diag));
    while (!r->stopping) {
        if (r->options.max_iterations && r->applier.iteration >= r->options.max_iterations) {
            r->stop = HYP_STOP_ITERATIONS;
            return HYP_OK;
        }
        HYP_TRY(call_hook(r, diag));
        hyp_eg_reclaim(r->eg);
        if (check_clock(r, NULL) != HYP_OK) return HYP_OK;
        HYP_TRY(iterate(r, diag));
        r->applier.iteration++;
    }
    return HYP_OK;
}

/* ---- the run ------------------------------------------------------------------------------------ */

static hyp_status make_buffers(runner *r, hyp_diag *diag)
{
    size_t words = 1, grounds = 1, more = HYP_MATCH_COPY;
    for (size_t i = 0; i < r->rules->rules.len; i++) {
        hyp_rule *rule = &r->rules->rules.data[i];
        rule->times_banned = rule->banned_until = 0;
        if (rule->reg_count + rule->left_nodes + 1 > words) words = rule->reg_count + rule->left_nodes + 1;
        if (rule->ground_count > grounds) grounds = rule->ground_count;
    }
    r->search.match = hyp_malloc((words + more) * sizeof(uint32_t));
    r->search.buffer = hyp_malloc((HYP_MATCH_BATCH * words + more) * sizeof(uint32_t));
    r->grounds = hyp_malloc(grounds * sizeof(uint32_t));
    r->report->rules = hyp_calloc(r->rules->rules.len, sizeof *r->report->rules);
    if (!r->search.match || !r->search.buffer || !r->grounds || !r->report->rules)
        return hyp_fail_memory(diag, HYP_MATCH_BATCH * words * sizeof(uint32_t));
    r->report->rule_count = r->rules->rules.len;
    return HYP_OK;
}

hyp_status hyp_egraph_run(hyp_egraph *eg, hyp_ruleset *rules, const hyp_egraph_run_options *options,
                          hyp_egraph_run_report *out_report, hyp_diag *diag)
{
    HYP_NEED(out_report);
    *out_report = (hyp_egraph_run_report){.stop = HYP_STOP_ERROR};
    HYP_NEED(eg);
    HYP_NEED(rules);
    HYP_TRY(hyp_eg_may_rebuild(eg, "a saturation", diag));
    if (eg->running) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a saturation was called from inside a callback");
    if (rules->eg != eg) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "these rules belong to another e-graph");
    runner r = {.eg = eg, .rules = rules, .report = out_report, .start = seconds()};
    HYP_TRY(hyp_sized_take(&r.options, options, hyp_egraph_run_options, diag));
    if (!(r.options.max_seconds >= 0))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%g seconds are no limit; 0 is none", r.options.max_seconds);
    if ((unsigned)r.options.scheduler > HYP_SCHEDULER_CALLBACK)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%d is no scheduler", (int)r.options.scheduler);
    if (r.options.scheduler == HYP_SCHEDULER_CALLBACK && !r.options.turn)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a scheduler of the caller's is a function: set options.turn");
    if (!r.options.backoff_match_limit) r.options.backoff_match_limit = 1000;
    if (!r.options.backoff_ban_length) r.options.backoff_ban_length = 5;
    r.applier = (hyp_applier){.eg = eg, .rules = rules, .on_rewrite = r.options.on_rewrite, .user = r.options.user};
    r.search = (hyp_search){.eg = eg, .tick = check_clock, .user = &r};
    eg->max_nodes = r.options.max_nodes;
    eg->max_bytes = r.options.max_bytes;
    eg->limit_hit = HYP_STOP_SATURATED;
    eg->poll = poll;
    eg->poll_user = &r;
    eg->peak_bytes = eg->bytes;
    eg->running++;
    rules->recorded = rules->recorded || eg->explain;
    hyp_status status = make_buffers(&r, diag);
    if (status == HYP_OK) status = saturate(&r, diag);
    eg->running--;
    eg->max_nodes = eg->max_bytes = 0;
    eg->poll = NULL;
    eg->limit_hit = HYP_STOP_SATURATED;

    for (size_t i = 0; i < out_report->rule_count; i++) {
        const hyp_rule *rule = &rules->rules.data[i];
        hyp_rule_report *report = &out_report->rules[i];
        if (rule->collecting) {
            report->declined = rule->collecting->declined;
            report->beyond = rule->collecting->beyond;
        } else if (rule->declined.len) {
            report->declined = rule->declined.len / hyp_match_words(rule);
        }
    }
    out_report->stop = status == HYP_OK ? r.stop : HYP_STOP_ERROR;
    out_report->e_nodes = eg->live_count;
    out_report->e_classes = eg->class_count;
    out_report->peak_bytes = eg->peak_bytes;
    out_report->matches = r.applied;
    out_report->seconds = seconds() - r.start;
    out_report->iterations = r.iterations.data;
    out_report->iteration_count = r.iterations.len;
    hyp_applier_dispose(&r.applier);
    hyp_collect_dispose(&r.parts);
    hyp_free(r.search.match);
    hyp_free(r.search.buffer);
    hyp_free(r.grounds);
    return status;
}

void hyp_egraph_run_report_dispose(hyp_egraph_run_report *report)
{
    if (!report) return;
    hyp_free(report->iterations);
    for (size_t i = 0; report->rules && i < report->rule_count; i++) hyp_free(report->rules[i].refusal);
    hyp_free(report->rules);
    *report = (hyp_egraph_run_report){0};
}

const char *hyp_stop_name(hyp_stop stop)
{
    static const char *const names[] = {"saturated",  "iteration limit", "node limit", "memory limit",
                                        "time limit", "match limit",     "cancelled",  "error"};
    return (unsigned)stop < sizeof names / sizeof *names ? names[stop] : "unknown";
}

/* fuzz_egraph_reads.c - calls of the e-graph's interface that read it, and files of it, also with bytes that are others. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_egraph_world.h"

void read_something(void)
{
    size_t count, all = 0;
    hyp_class_id c = any_id();
    hyp_egraph_find(now->eg, c);
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(now->eg, c, &count);
    for (size_t i = 0; nodes && i < count; i++) {
        size_t n;
        const hyp_class_id *kids = hyp_enode_children(now->eg, nodes[i], &n);
        for (size_t j = 0; j < n; j++) all += hyp_egraph_find(now->eg, kids[j]);
        if (hyp_enode_class(now->eg, nodes[i]) != hyp_egraph_find(now->eg, c)) abort();
        const char *name = hyp_egraph_symbol_name(now->eg, hyp_enode_op(now->eg, nodes[i]));
        hyp_origin origin = hyp_egraph_origin(now->eg, nodes[i]);
        for (size_t j = 0; j < origin.matched_count; j++) all += origin.matched[j];
        all += (size_t)name[0];
    }
    const uint32_t *fact = hyp_egraph_data(now->eg, c);
    if (fact) all += *fact;
    hyp_symbol symbol = any_id();
    hyp_egraph_lookup(now->eg, symbol, &c, 1);
    hyp_enode_op(now->eg, any_id());
    hyp_enode_class(now->eg, any_id());
    hyp_egraph_symbol_name(now->eg, (hyp_symbol)all);
}

void walk(void)
{
    hyp_enode_id users[4];
    size_t count;
    note(hyp_egraph_class_users(now->eg, any_id(), users, below(5), &count, NULL));
    hyp_egraph_next_class(now->eg, any_id());
}

void use_extraction(void)
{
    char *text = NULL;
    const hyp_extraction *ex = &now->extractions[below(EXTRACTIONS)];
    note(hyp_extraction_term(now->eg, ex, any_id(), &text, NULL));
    free(text);
    hyp_class_id around[2] = {any_id(), any_id()};
    hyp_egraph_part part = {around, below(3), below(3)};
    hyp_extraction copy = *ex; /* a writer may make another one meanwhile */
    copy.choice = malloc((ex->class_bound + 1) * sizeof *copy.choice);
    if (ex->choice) memcpy(copy.choice, ex->choice, ex->class_bound * sizeof *copy.choice);
    switch (below(4)) {
    case 0: note(hyp_egraph_write_json(now->eg, around, part.count, any_cost, NULL, any_write, NULL, NULL)); break;
    case 1: note(hyp_egraph_write_dot(now->eg, around, part.count, below(20), &copy, any_write, NULL, NULL)); break;
    case 2: note(hyp_egraph_write_part_json(now->eg, &part, any_cost, NULL, any_write, NULL, NULL)); break;
    default: note(hyp_egraph_write_part_dot(now->eg, &part, below(20), &copy, any_write, NULL, NULL)); break;
    }
    free(copy.choice);
}

/* ---- files --------------------------------------------------------------------------------------- */

enum { MOST_TEXT = 1 << 14 };
typedef struct text {
    char bytes[MOST_TEXT];
    size_t len;
} text;

static void collect(const char *bytes, size_t len, void *user)
{
    text *to = user;
    if (len > MOST_TEXT - to->len) len = MOST_TEXT - to->len;
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
}

static double plain_cost(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)user;
    return node % 5;
}

static void damage(text *t)
{
    static const char odd[] = "\"{}[]:,0-9.eE\\u ntf\x80\xff";
    for (size_t n = below(4); n > 0 && t->len; n--) {
        size_t at = (byte() | (size_t)byte() << 8) % t->len;
        if (byte() & 1)
            t->bytes[at] = odd[below(sizeof odd - 1)];
        else
            memmove(t->bytes + at, t->bytes + at + 1, --t->len - at);
    }
}

static void read_file(const hyp_serialized *file)
{
    size_t count, all = 0;
    const uint32_t *roots = hyp_serialized_roots(file, &count);
    for (size_t i = 0; i < count; i++) all += roots[i];
    for (uint32_t i = 0; i <= hyp_serialized_node_count(file); i++) { /* the last one is none */
        hyp_serialized_node node = hyp_serialized_get(file, i);
        for (size_t j = 0; j < node.child_count; j++) all += node.children[j];
        if (node.op) all += strlen(node.op) + strlen(node.id);
        const char *name = hyp_serialized_class_name(file, node.eclass);
        const char *type = hyp_serialized_class_type(file, node.eclass);
        all += (name ? strlen(name) : 0) + (type ? strlen(type) : 0);
    }
    hyp_serialized_class_name(file, (uint32_t)all);
    hyp_serialized_class_type(file, (uint32_t)hyp_serialized_class_count(file));
}

/* A file of the e-graph, as it is or damaged, is read, extracted from, and loaded again. */
void use_file(void)
{
    static text written; /* nothing that is called meanwhile calls this */
    hyp_serialized *file = NULL;
    hyp_extraction ex;
    hyp_class_id root = any_id(), *classes;
    hyp_extract_options options = {.size = sizeof options, .method = (hyp_extract_method)below(4), .budget_work = 20000};
    bool whole = !below(3);
    written.len = 0;
    note(hyp_egraph_write_json(now->eg, &root, below(2), plain_cost, NULL, collect, &written, NULL));
    if (!whole) damage(&written);
    hyp_status status = hyp_serialized_parse("file", written.bytes, written.len, &file, NULL);
    note(status);
    if (status != HYP_OK) return;
    read_file(file);
    note(hyp_serialized_extract(file, &options, &ex, NULL));
    hyp_extraction_dispose(&ex);
    classes = malloc((hyp_serialized_class_count(file) + 1) * sizeof *classes);
    if (classes && hyp_egraph_node_count(now->eg) <= MOST_NODES)
        note(hyp_serialized_load(file, now->eg, below(2) ? classes : NULL, NULL));
    free(classes);
    hyp_serialized_destroy(file);
}

/* ---- rules, patterns ------------------------------------------------------------------------------ */

void read_rules(void)
{
    size_t all = strlen(hyp_stop_name((hyp_stop)below(10)));
    const hyp_ruleset *set = now->sets[below(SETS)];
    for (size_t i = 0; i <= hyp_ruleset_count(set); i++) { /* the last one is none */
        hyp_rule_info info = hyp_ruleset_rule(set, i);
        if (info.text) all += strlen(info.text) + strlen(info.name) + strlen(info.doc);
    }
    const hyp_pattern *pattern = now->patterns[below(PATTERNS)];
    for (size_t i = 0; i <= hyp_pattern_variable_count(pattern); i++) {
        const char *name = hyp_pattern_variable(pattern, i);
        all += name ? strlen(name) : 0;
    }
    hyp_extraction ex;
    hyp_class_id root = (hyp_class_id)all;
    if (byte() & 1) root = any_id();
    note(hyp_egraph_extract(now->eg, &root, 1, (hyp_extract_method)below(2), any_cost, NULL, &ex, NULL));
    free(hyp_extraction_text(now->eg, &ex, any_id()));
    hyp_extraction_dispose(&ex);
    hyp_proof proof;
    note(hyp_egraph_explain(now->eg, "(f a)", below(2) ? "b" : "(f (f a))", &proof, NULL));
    hyp_proof_dispose(&proof);
    if (hyp_egraph_class_count(now->eg) > hyp_egraph_class_bound(now->eg)) abort();
}

/* Reading egraph-serialize JSON. The text is read in one pass: ids are interned, children are kept as ids of
 * nodes and become classes at the end, when all nodes are known. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/sized.h"
#include "egraph/core/state.h"
#include "egraph/extract/problem.h"
#include "egraph/files/json_reader.h"

typedef struct node_entry {
    uint32_t id, op, eclass; /* interned */
    uint32_t kid_at;
    double cost;
    bool subsumed;
} node_entry;

struct hyp_serialized {
    char *name;
    hyp_intern ids, ops, classes, types; /* types: of classes, as texts */
    HYP_VEC(node_entry) nodes;           /* and one more, for its kid_at */
    HYP_VEC(uint32_t) kids;              /* classes; while reading, interned ids */
    HYP_VEC(uint32_t) node_of;           /* by interned id: node, or HYP_NONE */
    HYP_VEC(uint32_t) roots;             /* classes; while reading, interned in root_names */
    HYP_VEC(uint32_t) type_of;           /* by class: in types, or HYP_NONE; may be shorter than the classes */
};

/* Names met before all nodes are known. */
typedef struct pending {
    hyp_intern names;
    HYP_VEC(uint32_t) roots, typed, type; /* names; beside each other the last two */
} pending;

static hyp_status add_id(hyp_serialized *s, hyp_json *j, uint32_t *out)
{
    HYP_TRY(hyp_intern_add(&s->ids, hyp_strbuf_text(&j->string), j->string.len, out, j->diag));
    if (*out < s->node_of.len) return HYP_OK;
    return hyp_vec_push(&s->node_of, j->diag, HYP_NONE);
}

static hyp_status read_children(hyp_serialized *s, hyp_json *j)
{
    bool first = true, more;
    for (;;) {
        uint32_t id;
        HYP_TRY(hyp_json_item(j, '[', ']', &first, &more));
        if (!more) return HYP_OK;
        HYP_TRY(hyp_json_string(j));
        HYP_TRY(add_id(s, j, &id));
        HYP_TRY(hyp_vec_push(&s->kids, j->diag, id));
    }
}

/* One member of "nodes", after its key. */
static hyp_status read_node(hyp_serialized *s, hyp_json *j)
{
    node_entry node = {.op = HYP_NONE, .eclass = HYP_NONE, .kid_at = (uint32_t)s->kids.len, .cost = 1};
    bool first = true, more, children = false;
    HYP_TRY(add_id(s, j, &node.id));
    if (s->node_of.data[node.id] != HYP_NONE) return hyp_json_fail(j, "a second node with the same id");
    for (;;) {
        HYP_TRY(hyp_json_member(j, &first, &more));
        if (!more) break;
        const char *key = hyp_strbuf_text(&j->string);
        if (strcmp(key, "op") == 0) {
            HYP_TRY(hyp_json_string(j));
            HYP_TRY(hyp_intern_add(&s->ops, hyp_strbuf_text(&j->string), j->string.len, &node.op, j->diag));
        } else if (strcmp(key, "eclass") == 0) {
            HYP_TRY(hyp_json_string(j));
            HYP_TRY(hyp_intern_add(&s->classes, hyp_strbuf_text(&j->string), j->string.len, &node.eclass, j->diag));
        } else if (strcmp(key, "children") == 0) {
            if (children) return hyp_json_fail(j, "a node has its children twice");
            children = true;
            HYP_TRY(read_children(s, j));
        } else if (strcmp(key, "cost") == 0) {
            HYP_TRY(hyp_json_number(j, &node.cost));
        } else if (strcmp(key, "subsumed") == 0) {
            HYP_TRY(hyp_json_bool(j, &node.subsumed));
        } else {
            HYP_TRY(hyp_json_skip(j));
        }
    }
    if (node.op == HYP_NONE || node.eclass == HYP_NONE) return hyp_json_fail(j, "a node needs \"op\" and \"eclass\"");
    if (s->nodes.len >= HYP_NONE - 1 || s->kids.len >= HYP_NONE - 1) return hyp_json_fail(j, "too many nodes");
    s->node_of.data[node.id] = (uint32_t)s->nodes.len;
    return hyp_vec_push(&s->nodes, j->diag, node);
}

static hyp_status read_nodes(hyp_serialized *s, hyp_json *j)
{
    bool first = true, more;
    for (;;) {
        HYP_TRY(hyp_json_member(j, &first, &more));
        if (!more) return HYP_OK;
        HYP_TRY(read_node(s, j));
    }
}

static hyp_status read_roots(pending *w, hyp_json *j)
{
    bool first = true, more;
    for (;;) {
        uint32_t name;
        HYP_TRY(hyp_json_item(j, '[', ']', &first, &more));
        if (!more) return HYP_OK;
        HYP_TRY(hyp_json_string(j));
        HYP_TRY(hyp_intern_add(&w->names, hyp_strbuf_text(&j->string), j->string.len, &name, j->diag));
        HYP_TRY(hyp_vec_push(&w->roots, j->diag, name));
    }
}

/* "class_data": of each class only its type is kept. */
static hyp_status read_class_data(hyp_serialized *s, pending *w, hyp_json *j)
{
    bool first = true, more;
    for (;;) {
        bool inner = true;
        uint32_t name, type;
        HYP_TRY(hyp_json_member(j, &first, &more));
        if (!more) return HYP_OK;
        HYP_TRY(hyp_intern_add(&w->names, hyp_strbuf_text(&j->string), j->string.len, &name, j->diag));
        for (;;) {
            HYP_TRY(hyp_json_member(j, &inner, &more));
            if (!more) break;
            if (strcmp(hyp_strbuf_text(&j->string), "type") != 0 || hyp_json_peek(j) != '"') {
                HYP_TRY(hyp_json_skip(j));
                continue;
            }
            HYP_TRY(hyp_json_string(j));
            HYP_TRY(hyp_intern_add(&s->types, hyp_strbuf_text(&j->string), j->string.len, &type, j->diag));
            HYP_TRY(hyp_vec_push(&w->typed, j->diag, name));
            HYP_TRY(hyp_vec_push(&w->type, j->diag, type));
        }
    }
}

/* ---- after reading ------------------------------------------------------------------------------ */

static bool find_class(const hyp_serialized *s, const char *name, uint32_t *out)
{
    return hyp_intern_find(&s->classes, name, strlen(name), out);
}

static hyp_status resolve_children(hyp_serialized *s, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_grow(&s->nodes, diag));
    s->nodes.data[--s->nodes.len].kid_at = (uint32_t)s->kids.len;
    for (size_t n = 0; n < s->nodes.len; n++)
        for (uint32_t i = s->nodes.data[n].kid_at; i < s->nodes.data[n + 1].kid_at; i++) {
            uint32_t id = s->kids.data[i], node = s->node_of.data[id];
            if (node != HYP_NONE)
                s->kids.data[i] = s->nodes.data[node].eclass;
            else if (!find_class(s, s->ids.names.data[id], &s->kids.data[i]))
                return hyp_fail(diag, HYP_ERR_MALFORMED,
                                "%s: node '%s' has the child '%s', which is neither a node nor a class", s->name,
                                s->ids.names.data[s->nodes.data[n].id], s->ids.names.data[id]);
        }
    return HYP_OK;
}

static hyp_status resolve_classes(hyp_serialized *s, const pending *w, hyp_diag *diag)
{
    uint32_t c;
    for (size_t i = 0; i < w->roots.len; i++) {
        const char *name = w->names.names.data[w->roots.data[i]];
        if (!find_class(s, name, &c))
            return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: the root class '%s' has no node", s->name, name);
        HYP_TRY(hyp_vec_push(&s->roots, diag, c));
    }
    HYP_TRY(hyp_vec_reserve(&s->type_of, s->classes.names.len, diag));
    for (; s->type_of.len < s->classes.names.len; s->type_of.len++) s->type_of.data[s->type_of.len] = HYP_NONE;
    for (size_t i = 0; i < w->typed.len; i++)
        if (find_class(s, w->names.names.data[w->typed.data[i]], &c)) s->type_of.data[c] = w->type.data[i];
    return HYP_OK;
}

static hyp_status read_text(hyp_serialized *s, pending *w, hyp_json *j)
{
    bool first = true, more, nodes = false;
    for (;;) {
        HYP_TRY(hyp_json_member(j, &first, &more));
        if (!more) break;
        const char *key = hyp_strbuf_text(&j->string);
        if (strcmp(key, "nodes") == 0) {
            nodes = true;
            HYP_TRY(read_nodes(s, j));
        } else if (strcmp(key, "root_eclasses") == 0) {
            HYP_TRY(read_roots(w, j));
        } else if (strcmp(key, "class_data") == 0) {
            HYP_TRY(read_class_data(s, w, j));
        } else {
            HYP_TRY(hyp_json_skip(j));
        }
    }
    HYP_TRY(hyp_json_end(j));
    if (!nodes) return hyp_json_fail(j, "there is no \"nodes\": this is no egraph-serialize file");
    HYP_TRY(resolve_children(s, j->diag));
    return resolve_classes(s, w, j->diag);
}

hyp_status hyp_serialized_parse(const char *name, const char *text, size_t len, hyp_serialized **out, hyp_diag *diag)
{
    HYP_NEED(name);
    HYP_NEED_LIST(text, len);
    HYP_NEED(out);
    *out = NULL;
    hyp_serialized *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    hyp_json j = {.name = name, .text = text, .len = len, .diag = diag};
    pending w = {0};
    hyp_status status = HYP_OK;
    s->name = hyp_malloc(strlen(name) + 1);
    if (s->name)
        memcpy(s->name, name, strlen(name) + 1);
    else
        status = hyp_fail_memory(diag, strlen(name) + 1);
    if (status == HYP_OK) status = read_text(s, &w, &j);
    hyp_strbuf_dispose(&j.string);
    hyp_intern_dispose(&w.names);
    hyp_vec_free(&w.roots);
    hyp_vec_free(&w.typed);
    hyp_vec_free(&w.type);
    if (status == HYP_OK)
        *out = s;
    else
        hyp_serialized_destroy(s);
    return status;
}

hyp_status hyp_serialized_read(const char *path, hyp_serialized **out, hyp_diag *diag)
{
    HYP_NEED(path);
    HYP_NEED(out);
    *out = NULL;
    hyp_mapping map;
    HYP_TRY(hyp_map_file(path, &map, diag));
    hyp_status status = hyp_serialized_parse(path, (const char *)map.data, map.size, out, diag);
    hyp_unmap(&map);
    return status;
}

void hyp_serialized_destroy(hyp_serialized *s)
{
    if (!s) return;
    hyp_free(s->name);
    hyp_intern_dispose(&s->ids);
    hyp_intern_dispose(&s->ops);
    hyp_intern_dispose(&s->classes);
    hyp_intern_dispose(&s->types);
    hyp_vec_free(&s->nodes);
    hyp_vec_free(&s->kids);
    hyp_vec_free(&s->node_of);
    hyp_vec_free(&s->roots);
    hyp_vec_free(&s->type_of);
    hyp_free(s);
}

/* ---- reading what was read ---------------------------------------------------------------------- */

size_t hyp_serialized_node_count(const hyp_serialized *s) { return s ? s->nodes.len : 0; }
size_t hyp_serialized_class_count(const hyp_serialized *s) { return s ? s->classes.names.len : 0; }

const uint32_t *hyp_serialized_roots(const hyp_serialized *s, size_t *out_count)
{
    if (!s || !out_count) return NULL;
    *out_count = s->roots.len;
    return s->roots.data;
}

hyp_serialized_node hyp_serialized_get(const hyp_serialized *s, uint32_t node)
{
    if (!s || node >= s->nodes.len) return (hyp_serialized_node){.eclass = HYP_NONE};
    const node_entry *n = &s->nodes.data[node];
    return (hyp_serialized_node){.id = s->ids.names.data[n->id],
                                 .op = s->ops.names.data[n->op],
                                 .eclass = n->eclass,
                                 .children = s->kids.data ? s->kids.data + n->kid_at : NULL,
                                 .child_count = n[1].kid_at - n->kid_at,
                                 .cost = n->cost,
                                 .subsumed = n->subsumed};
}

const char *hyp_serialized_class_name(const hyp_serialized *s, uint32_t c)
{
    return s && c < s->classes.names.len ? s->classes.names.data[c] : NULL;
}

const char *hyp_serialized_class_type(const hyp_serialized *s, uint32_t c)
{
    if (!s || c >= s->classes.names.len) return NULL;
    uint32_t type = s->type_of.data[c];
    return type == HYP_NONE ? NULL : s->types.names.data[type];
}

/* ---- extraction --------------------------------------------------------------------------------- */

static hyp_status fill(const hyp_serialized *s, hyp_problem *p, hyp_extract_method method, hyp_diag *diag)
{
    for (uint32_t n = 0; n < p->node_count; n++) {
        const node_entry *node = &s->nodes.data[n];
        if (node->cost < 0 && (method != HYP_EXTRACT_EXACT || node->cost == -INFINITY))
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                            "%s: node '%s' has the negative cost %g; only the exact method takes such", s->name,
                            s->ids.names.data[node->id], node->cost);
        p->owner[n] = node->eclass;
        p->kid_at[n] = node->kid_at;
        p->cost[n] = node->subsumed ? INFINITY : node->cost;
    }
    if (s->kids.len) memcpy(p->kids, s->kids.data, s->kids.len * sizeof *p->kids);
    memcpy(p->roots, s->roots.data, s->roots.len * sizeof *p->roots);
    return HYP_OK;
}

hyp_status hyp_serialized_extract(const hyp_serialized *s, const hyp_extract_options *options, hyp_extraction *out,
                                  hyp_diag *diag)
{
    HYP_NEED(out);
    *out = (hyp_extraction){0};
    HYP_NEED(s);
    hyp_extract_options o = {.size = sizeof o};
    HYP_NEED(options);
    HYP_TRY(hyp_sized_take(&o, options, hyp_extract_options, diag));
    if (!s->roots.len)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: there are no \"root_eclasses\" to extract", s->name);
    hyp_problem p;
    HYP_TRY(hyp_problem_alloc(&p, s->classes.names.len, s->nodes.len, s->kids.len, s->roots.len, diag));
    out->class_bound = p.class_count;
    out->choice = hyp_malloc(p.class_count * sizeof *out->choice);
    hyp_status status =
        out->choice ? fill(s, &p, o.method, diag) : hyp_fail_memory(diag, p.class_count * sizeof *out->choice);
    if (status == HYP_OK) status = hyp_problem_solve(&p, options, out->choice, out, diag);
    hyp_problem_dispose(&p);
    if (status != HYP_OK) hyp_extraction_dispose(out);
    return status;
}

/* ---- into an e-graph ---------------------------------------------------------------------------- */

typedef struct loader {
    const hyp_serialized *s;
    hyp_egraph *eg;
    hyp_problem p;
    uint32_t *waiting;     /* by node: children without a class */
    hyp_class_id *classes; /* by class: a class of the e-graph, HYP_NONE before */
    HYP_VEC(uint32_t) ready;
    HYP_VEC(hyp_class_id) kids;
} loader;

static hyp_status add_node(loader *l, uint32_t n, hyp_diag *diag)
{
    hyp_serialized_node node = hyp_serialized_get(l->s, n);
    hyp_symbol op;
    hyp_class_id c;
    HYP_TRY(hyp_vec_reserve(&l->kids, node.child_count, diag));
    for (size_t i = 0; i < node.child_count; i++) l->kids.data[i] = l->classes[node.children[i]];
    HYP_TRY(hyp_egraph_symbol(l->eg, node.op, &op, diag));
    HYP_TRY(hyp_egraph_add(l->eg, op, l->kids.data, node.child_count, &c, NULL, diag));
    if (l->classes[node.eclass] != HYP_NONE)
        return hyp_egraph_union(l->eg, l->classes[node.eclass], c, NULL, NULL, diag);
    l->classes[node.eclass] = c;
    for (uint32_t i = l->p.up_at[node.eclass]; i < l->p.up_at[node.eclass + 1]; i++) {
        if (--l->waiting[l->p.up[i]]) continue;
        HYP_TRY(hyp_vec_push(&l->ready, diag, l->p.up[i]));
    }
    return HYP_OK;
}

static hyp_status load(loader *l, hyp_diag *diag)
{
    const hyp_serialized *s = l->s;
    HYP_TRY(hyp_problem_alloc(&l->p, s->classes.names.len, s->nodes.len, s->kids.len, s->roots.len, diag));
    l->waiting = hyp_malloc(s->nodes.len * sizeof *l->waiting);
    l->classes = hyp_malloc(s->classes.names.len * sizeof *l->classes);
    if (!l->waiting || !l->classes) return hyp_fail_memory(diag, s->nodes.len * sizeof *l->waiting);
    memset(l->classes, 0xff, s->classes.names.len * sizeof *l->classes);
    for (uint32_t n = 0; n < s->nodes.len; n++) {
        l->p.kid_at[n] = s->nodes.data[n].kid_at;
        l->waiting[n] = s->nodes.data[n + 1].kid_at - l->p.kid_at[n];
    }
    if (s->kids.len) memcpy(l->p.kids, s->kids.data, s->kids.len * sizeof *l->p.kids);
    HYP_TRY(hyp_problem_link(&l->p, diag));
    for (uint32_t n = 0; n < s->nodes.len; n++)
        if (l->p.kid_at[n] == l->p.kid_at[n + 1]) HYP_TRY(add_node(l, n, diag));
    for (size_t i = 0; i < l->ready.len; i++) HYP_TRY(add_node(l, l->ready.data[i], diag));
    HYP_TRY(hyp_eg_may_rebuild(l->eg, "reading a file into it", diag));
    return hyp_eg_rebuild(l->eg, diag); /* its classes keep their ids until they are handed over */
}

hyp_status hyp_serialized_load(const hyp_serialized *s, hyp_egraph *eg, hyp_class_id *out_classes, hyp_diag *diag)
{
    HYP_NEED(s);
    HYP_NEED(eg);
    loader l = {.s = s, .eg = eg};
    hyp_status status = load(&l, diag);
    for (size_t c = 0; c < s->classes.names.len && out_classes && status == HYP_OK; c++)
        out_classes[c] = l.classes[c] == HYP_NONE ? HYP_NONE : hyp_egraph_find(eg, l.classes[c]);
    hyp_problem_dispose(&l.p);
    hyp_free(l.waiting);
    hyp_free(l.classes);
    hyp_vec_free(&l.ready);
    hyp_vec_free(&l.kids);
    return status;
}

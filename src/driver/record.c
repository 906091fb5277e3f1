/* The record of a compilation, which plans keep for `hypatia report`: JSON, described by docs/report.md. Nothing in it
 * depends on the machine or on how long anything took. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "driver/driver.h"

/* ---- the graph that came in ----------------------------------------------------------------------------- */

static void put_ids(hyp_strbuf *sb, const char *name, const hyp_value_id *ids, uint32_t count)
{
    hyp_json_begin(sb, name, '[');
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] != HYP_NO_VALUE) hyp_json_put_count(sb, NULL, (size_t)ids[i]);
    hyp_strbuf_puts(sb, "]");
}

static void put_value(hyp_strbuf *sb, const hyp_graph *g, const hyp_value *v)
{
    hyp_strbuf type = {0};
    hyp_type_print(&type, g->dims, &v->type);
    hyp_json_begin(sb, NULL, '{');
    if (v->name) hyp_json_put_text(sb, "name", v->name);
    hyp_json_put_text(sb, "type", hyp_strbuf_text(&type));
    if (v->kind == HYP_VALUE_CONST) hyp_json_put_count(sb, "constant_bytes", v->bytes);
    hyp_strbuf_puts(sb, "}");
    sb->failed = sb->failed || type.failed;
    hyp_strbuf_dispose(&type);
}

/* Attributes that have not their default value: ":axis 1 :keep true". */
static void put_attributes(hyp_strbuf *sb, const hyp_graph *g, const hyp_node *n)
{
    const hyp_op_info *info = hyp_op_get(n->op);
    hyp_strbuf text = {0};
    for (uint32_t i = 0; i < info->attr_count; i++) {
        hyp_attr standard;
        if (!info->attrs[i].required) standard = hyp_attr_default(&info->attrs[i]);
        if (!info->attrs[i].required && hyp_attr_equal(&standard, &n->attrs[i])) continue;
        hyp_strbuf_printf(&text, "%s:%s ", text.len ? " " : "", info->attrs[i].name);
        hyp_attr_print(&text, g->dims, &n->attrs[i]);
    }
    if (text.len) hyp_json_put_text(sb, "attributes", hyp_strbuf_text(&text));
    sb->failed = sb->failed || text.failed;
    hyp_strbuf_dispose(&text);
}

/* What is computed of constants alone is marked; of the rest it is said what it takes by itself. */
static hyp_status put_node(hyp_strbuf *sb, const hyp_settings *s, const hyp_graph *g, const hyp_node *n,
                           const bool *constant, hyp_diag *diag)
{
    bool folded = true;
    for (uint32_t i = 0; i < n->output_count; i++) folded = folded && constant[n->outputs[i]];
    hyp_json_begin(sb, NULL, '{');
    hyp_json_put_text(sb, "op", hyp_op_get(n->op)->name);
    put_attributes(sb, g, n);
    put_ids(sb, "reads", n->inputs, n->input_count);
    put_ids(sb, "writes", n->outputs, n->output_count);
    hyp_json_put_texts(sb, "sources", n->from.sources, n->from.source_count);
    if (folded) hyp_json_put_bool(sb, "constant", true);
    if (!folded) {
        double seconds;
        HYP_TRY(hyp_roofline_kernel(g, &n, 1, &s->cost, &seconds, diag));
        hyp_json_put_real(sb, "seconds", seconds < HYP_COST_UNSUPPORTED ? seconds : INFINITY);
    }
    hyp_strbuf_puts(sb, "}");
    return HYP_OK;
}

/* One that there is no room for ends somewhere. */
static hyp_status put_graph(hyp_strbuf *sb, const hyp_settings *s, const hyp_graph *g, hyp_diag *diag)
{
    bool *constant = hyp_calloc(g->values.len + 1, sizeof *constant);
    if (!constant) return hyp_fail_memory(diag, g->values.len);
    hyp_status status = hyp_constants_find(g, &s->fold, constant, diag);
    hyp_json_begin(sb, "graph", '{');
    hyp_json_begin(sb, "values", '[');
    for (size_t i = 0; i < g->values.len && sb->len <= HYP_RECORD_GRAPH; i++) put_value(sb, g, &g->values.data[i]);
    hyp_strbuf_puts(sb, "]");
    hyp_json_begin(sb, "nodes", '[');
    for (size_t i = 0; i < g->nodes.len && status == HYP_OK && sb->len <= HYP_RECORD_GRAPH; i++)
        status = put_node(sb, s, g, &g->nodes.data[i], constant, diag);
    hyp_strbuf_puts(sb, "]");
    put_ids(sb, "inputs", g->inputs.data, (uint32_t)g->inputs.len);
    hyp_json_begin(sb, "outputs", '[');
    for (size_t i = 0; i < g->outputs.len; i++) {
        hyp_json_begin(sb, NULL, '{');
        hyp_json_put_text(sb, "name", g->outputs.data[i].name);
        hyp_json_put_count(sb, "value", (size_t)g->outputs.data[i].value);
        hyp_strbuf_puts(sb, "}");
    }
    hyp_strbuf_puts(sb, "]}");
    hyp_free(constant);
    return status;
}

/* ---- rules, the device, numbers ------------------------------------------------------------------------- */

/* Those that found something. */
static void put_rules(hyp_strbuf *sb, const hyp_rewrite_report *rewrite)
{
    hyp_json_begin(sb, "rules", '[');
    for (size_t i = 0; i < rewrite->rule_count; i++) {
        const hyp_rule_use *use = &rewrite->rules[i];
        if (!use->matches) continue;
        hyp_json_begin(sb, NULL, '{');
        hyp_json_put_text(sb, "name", use->name);
        hyp_json_put_text(sb, "class", use->numeric_class);
        hyp_json_put_text(sb, "ruleset", use->ruleset);
        hyp_json_put_text(sb, "doc", use->doc);
        hyp_json_put_count(sb, "matches", use->matches);
        hyp_json_put_count(sb, "applications", use->applications);
        hyp_json_put_count(sb, "declined", use->declined);
        hyp_json_put_count(sb, "used", use->used);
        hyp_strbuf_puts(sb, "}");
    }
    hyp_strbuf_puts(sb, "]");
}

static void put_device(hyp_strbuf *sb, const hyp_settings *s)
{
    const hyp_device_profile *p = &s->cost.profile;
    const struct {
        const char *type;
        double rate;
    } rates[] = {{"f32", p->flops_f32},   {"tf32", p->flops_tf32}, {"f16", p->flops_f16},
                 {"bf16", p->flops_bf16}, {"f8e4m3", p->flops_f8}, {"f64", p->flops_f64}};
    hyp_json_begin(sb, "device", '{');
    hyp_json_put_text(sb, "name", p->name);
    hyp_json_put_real(sb, "launch_seconds", p->launch_seconds);
    hyp_json_put_real(sb, "bytes_per_second", p->bytes_per_second);
    hyp_json_put_real(sb, "cache_bytes", p->cache_bytes);
    hyp_json_put_real(sb, "cache_bytes_per_second", p->cache_bytes_per_second);
    hyp_json_begin(sb, "flops_per_second", '{');
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i].rate > 0) hyp_json_put_real(sb, rates[i].type, rates[i].rate);
    hyp_strbuf_puts(sb, "}}");
}

/* What verification will compare; what it finds is known when the plan is written. */
static void put_numerics(hyp_strbuf *sb, const hyp_verification *v, const char *classes)
{
    static const char *const modes[] = {"off", "warn", "strict"};
    hyp_json_begin(sb, "numerics", '{');
    hyp_json_put_text(sb, "classes", classes);
    hyp_json_put_text(sb, "verification", modes[v->mode]);
    hyp_json_begin(sb, "samples", '[');
    for (size_t i = 0; i < v->count; i++) {
        hyp_json_begin(sb, NULL, '{');
        hyp_json_put_text(sb, "kind", hyp_sample_kind(v, i));
        hyp_json_begin(sb, "inputs", '[');
        for (size_t k = 0; k < v->graph->inputs.len; k++) {
            const hyp_tensor *t = &v->samples[i].inputs[k];
            hyp_json_begin(sb, NULL, '{');
            hyp_json_put_text(sb, "name", t->name ? t->name : "");
            hyp_json_begin(sb, "dims", '[');
            for (int32_t a = 0; a < t->rank; a++) hyp_json_put_count(sb, NULL, (size_t)t->dims[a]);
            hyp_strbuf_puts(sb, "]}");
        }
        hyp_strbuf_puts(sb, "]}");
    }
    hyp_strbuf_puts(sb, "]}");
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static void put_lists(hyp_strbuf *sb, const hyp_rewrite_record *r)
{
    const struct {
        const char *name;
        const hyp_strbuf *rows;
    } lists[] = {{"forms", &r->forms},
                 {"phases", &r->phases},
                 {"chains", &r->chains},
                 {"misses", &r->misses},
                 {"alternatives", &r->alternatives}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        hyp_json_begin(sb, lists[i].name, '[');
        hyp_strbuf_puts(sb, hyp_strbuf_text(lists[i].rows));
        hyp_strbuf_puts(sb, "]");
        sb->failed = sb->failed || lists[i].rows->failed;
    }
}

static hyp_status put_record(hyp_strbuf *sb, const hyp_settings *s, const hyp_graph *g,
                             const hyp_rewrite_report *rewrite, const hyp_rewrite_record *r, const hyp_verification *v,
                             hyp_diag *diag)
{
    char classes[HYP_CLASSES];
    hyp_strbuf graph = {0};
    size_t left_out = r->left_out;
    hyp_used_classes(s, rewrite, classes);
    hyp_json_begin(sb, NULL, '{');
    hyp_json_put_count(sb, "version", 1);
    put_device(sb, s);
    put_numerics(sb, v, classes);
    hyp_status status = put_graph(&graph, s, g, diag);
    if (status == HYP_OK && graph.len <= HYP_RECORD_GRAPH) {
        hyp_strbuf_puts(sb, ",");
        hyp_strbuf_puts(sb, hyp_strbuf_text(&graph));
    } else {
        left_out++;
    }
    sb->failed = sb->failed || graph.failed;
    hyp_strbuf_dispose(&graph);
    if (rewrite) put_rules(sb, rewrite);
    put_lists(sb, r);
    hyp_json_put_count(sb, "left_out", left_out);
    hyp_strbuf_puts(sb, "}");
    return sb->failed ? hyp_fail_memory(diag, sb->len) : status;
}

hyp_status hyp_record_add(const hyp_settings *s, const hyp_graph *g, const hyp_rewrite_report *rewrite,
                          const hyp_rewrite_record *r, const hyp_verification *v, hyp_lowered *lowered, hyp_diag *diag)
{
    hyp_strbuf sb = {0};
    hyp_status status = put_record(&sb, s, g, rewrite, r, v, diag);
    bool fits = status == HYP_OK && sb.len <= HYP_PLAN_MAX_RECORD; /* not with the names of some models */
    uint8_t *kept = fits ? hyp_arena_alloc(&lowered->arena, sb.len) : NULL;
    if (fits && !kept) status = hyp_fail_memory(diag, sb.len);
    if (kept) {
        memcpy(kept, sb.data, sb.len);
        lowered->program->record = (ProtobufCBinaryData){sb.len, kept};
    }
    hyp_strbuf_dispose(&sb);
    return status;
}

/* What a plan says about itself, as text or JSON. The runtime has no need of a JSON library for writing. */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "hypatia/runtime.h"
#include "runtime/core/dim_text.h"

typedef struct report {
    hyp_strbuf sb;
    const hyp_plan *plan;
    const HypPlan__Program *p;
    const char *path;
    int64_t *symbols, *values; /* symbols[i]: as given, 1 where not */
    bool *given;
    hyp_strbuf updatable; /* the weights that may be replaced, as text or JSON */
} report;

static const char *place_name(HypPlan__Place place)
{
    static const char *const names[] = {"input", "output", "weight", "scratch", "view"};
    return names[place];
}

/* "64-50 relu, 50-10 none" */
static void layers_text(report *r, const HypPlan__Linear *s)
{
    for (size_t l = 0; l < s->n_layers; l++) {
        const HypPlan__Layer *layer = s->layers[l];
        hyp_strbuf_printf(&r->sb, "%s%" PRId64 "-%" PRId64 " %s", l ? ", " : "", r->values[layer->k],
                          r->values[layer->n], hyp_plan_act_name(layer->act));
        if (layer->x_scale > 0)
            hyp_strbuf_printf(&r->sb, ", x scaled by %g, weight by %g", (double)layer->x_scale,
                              (double)layer->weight_scale);
    }
    if (s->added_plus1)
        hyp_strbuf_printf(&r->sb, ", a tensor added %s the activation", s->add_after ? "after" : "before");
    if (s->normalizes) hyp_strbuf_puts(&r->sb, ", perhaps with the step before it");
}

static void values_text(report *r, uint32_t tensor)
{
    const HypPlan__Tensor *t = r->p->tensors[tensor];
    hyp_strbuf_puts(&r->sb, "[");
    for (size_t a = 0; a < t->n_dims; a++)
        hyp_strbuf_printf(&r->sb, "%s%" PRId64, a ? ", " : "", r->values[t->dims[a]]);
    hyp_strbuf_puts(&r->sb, "]");
}

/* Reads or writes of a step. Lists longer than the room are cut; only hand-made plans have such. */
enum { ROOM = HYP_PLAN_CUSTOM_INPUTS };
typedef size_t (*step_list)(const HypPlan__Step *step, uint32_t *tensors, size_t room);

static size_t list_of(const HypPlan__Step *step, step_list list, uint32_t tensors[ROOM])
{
    size_t n = list(step, tensors, ROOM);
    return n < ROOM ? n : ROOM;
}

/* 0 where it is beyond any size. */
static size_t scratch_bytes(const report *r)
{
    size_t bytes = 0;
    return hyp_plan_scratch_bytes(r->p, r->values, &bytes, NULL) == HYP_OK ? bytes : 0;
}

static size_t weight_count(const HypPlan__Program *p)
{
    size_t n = 0;
    for (size_t t = 0; t < p->n_tensors; t++) n += p->tensors[t]->place == HYP_PLAN__PLACE__PLACE_WEIGHT;
    return n;
}

/* ---- for people ---------------------------------------------------------------------------------------- */

/* Words, a name of the plan, and more words. */
static void put_name(report *r, const char *before, const char *name, const char *after)
{
    hyp_strbuf_puts(&r->sb, before);
    hyp_strbuf_visible(&r->sb, name, false);
    hyp_strbuf_puts(&r->sb, after);
}

static void text_tensors(report *r, const uint32_t *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Tensor *t = r->p->tensors[tensors[i]];
        put_name(r, "  ", t->name, "  ");
        hyp_strbuf_printf(&r->sb, "%s ", hyp_dtype_name((hyp_dtype)t->dtype));
        hyp_strbuf dims = {0};
        hyp_dims_text(&dims, r->p, t->dims, t->n_dims);
        put_name(r, "", hyp_strbuf_text(&dims), "\n");
        r->sb.failed = r->sb.failed || dims.failed;
        hyp_strbuf_dispose(&dims);
    }
}

static void text_io(report *r, const char *title, const uint32_t *tensors, size_t count)
{
    hyp_strbuf_printf(&r->sb, "%s\n", title);
    text_tensors(r, tensors, count);
}

static void text_names(report *r, const char *title, char *const *names, const uint32_t *list, size_t count)
{
    if (!count) return;
    hyp_strbuf_printf(&r->sb, "       %s ", title);
    for (size_t i = 0; i < count; i++) put_name(r, i ? ", " : "", names[list[i]], "");
    hyp_strbuf_puts(&r->sb, "\n");
}

static void text_shapes(report *r, const HypPlan__Step *step, step_list list)
{
    uint32_t tensors[ROOM];
    size_t n = list_of(step, list, tensors);
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        if (r->p->tensors[hyp_plan_root(r->p, tensors[i])]->place == HYP_PLAN__PLACE__PLACE_WEIGHT) continue;
        hyp_strbuf_printf(&r->sb, "%s%s ", first ? "" : ", ",
                          hyp_dtype_name((hyp_dtype)r->p->tensors[tensors[i]]->dtype));
        values_text(r, tensors[i]);
        first = false;
    }
    if (first) hyp_strbuf_puts(&r->sb, "weights");
}

static void text_step(report *r, uint32_t index)
{
    const HypPlan__Step *step = r->p->steps[index];
    hyp_step_work work = hyp_plan_step_work(r->p, index, r->values);
    hyp_strbuf_printf(&r->sb, "  %3u", index);
    put_name(r, "  ", step->label, "");
    put_name(r, "  (kernel ", hyp_plan_kernel_name(step), ")  ");
    text_shapes(r, step, hyp_plan_step_reads);
    hyp_strbuf_puts(&r->sb, " -> ");
    text_shapes(r, step, hyp_plan_step_writes);
    hyp_strbuf_puts(&r->sb, "\n");
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) {
        hyp_strbuf_printf(&r->sb, "       rows %" PRId64 ", layers ", r->values[step->linear->m]);
        layers_text(r, step->linear);
        hyp_strbuf_puts(&r->sb, "\n");
    }
    hyp_strbuf_printf(&r->sb, "       %.0f flops, %.0f bytes", work.flops, work.bytes);
    if (step->predicted_seconds > 0) hyp_strbuf_printf(&r->sb, ", predicted %.2f us", step->predicted_seconds * 1e6);
    hyp_strbuf_puts(&r->sb, "\n");
    if (*step->price) put_name(r, "       price ", step->price, "\n");
    text_names(r, "rules", r->p->rule_names, step->rules, step->n_rules);
    text_names(r, "from", r->p->source_names, step->sources, step->n_sources);
}

static void text_device(report *r, const HypPlan__Device *d)
{
    hyp_strbuf_printf(&r->sb, "tuned     on %s\n", d->name);
    for (size_t i = 0; i < d->n_products; i++)
        hyp_strbuf_printf(&r->sb, "  %s\n       %.2f us, %.2f untuned; %s\n", d->products[i]->key,
                          d->products[i]->seconds * 1e6, d->products[i]->first_seconds * 1e6,
                          d->products[i]->attributes);
    if (d->n_products > 0)
        hyp_strbuf_puts(&r->sb, "  sizes in between are run as the next larger one, up to twice as large\n");
}

static void text_data_size(report *r, const HypPlan__DataSize *s)
{
    hyp_strbuf_printf(&r->sb, "          the data say how much of axis %u there is", s->axis);
    put_name(r, " of '", r->p->tensors[r->p->outputs[s->output]]->name, "'\n");
}

static void text_recomputed(report *r)
{
    size_t steps = hyp_plan_recomputed(r->p);
    if (!steps) return;
    hyp_strbuf_printf(&r->sb, "          %zu step%s compute%s something again; without, for the typical sizes: %" PRIu64
                      " bytes, predicted %.2f us\n",
                      steps, steps == 1 ? "" : "s", steps == 1 ? "s" : "", r->p->kept_bytes, r->p->kept_seconds * 1e6);
}

static void text_state(report *r)
{
    size_t twice, all = hyp_plan_state_bytes(r->p, &twice);
    if (!r->p->n_variables) return;
    hyp_strbuf_printf(&r->sb, "state     %zu bytes of variables; %zu of them twice, the others are updated in place\n", all, twice);
}

static void write_text(report *r)
{
    char signer[HYP_PLAN_KEY_TEXT];
    const HypPlan__Program *p = r->p;
    hyp_strbuf *sb = &r->sb;
    hyp_strbuf_printf(sb, "plan      %s, %" PRIu64 " bytes, format %u.%u\n", r->path, r->plan->file_bytes,
                      r->plan->major, r->plan->minor);
    if (r->plan->signer) hyp_strbuf_printf(sb, "signed by %s\n", hyp_plan_key_text(r->plan->signer, signer));
    put_name(r, "producer  ", p->producer, "\n");
    put_name(r, "target    ", p->target, ", ");
    put_name(r, "precision ", p->precision, "");
    if (*p->classes) put_name(r, ", rules of class ", p->classes, "");
    hyp_strbuf_puts(sb, "\n");
    put_name(r, "model     ", p->model_name, "");
    hyp_strbuf_printf(sb, ", hash %016" PRIx64 "\n", p->model_hash);
    for (size_t i = 0; i < p->n_flags; i++)
        put_name(r, i ? " " : "flags     ", p->flags[i], i + 1 == p->n_flags ? "\n" : "");
    for (size_t i = 0; i < p->n_symbols; i++) {
        put_name(r, "symbol    ", p->symbols[i], "");
        hyp_strbuf_printf(sb, " = %" PRId64 "%s\n", r->symbols[i],
                          r->given[i] ? "" : " (no value was given; the figures below count it as 1)");
        if (!p->n_padding) continue;
        put_name(r,
                 *p->padding[i] ? "          runs are not padded along it: " : "          runs may be padded along it",
                 p->padding[i], "\n");
    }
    text_io(r, "inputs", p->inputs, hyp_plan_shown_inputs(p));
    text_io(r, "outputs", p->outputs, hyp_plan_shown_outputs(p));
    if (p->n_variables) text_io(r, "variables", hyp_plan_variable_inputs(p), p->n_variables);
    for (size_t i = 0; i < p->n_data_sizes; i++) text_data_size(r, p->data_sizes[i]);
    hyp_strbuf_printf(sb, "weights   %" PRIu64 " bytes in %zu tensors\n", r->plan->weights_bytes, weight_count(p));
    if (r->updatable.len) hyp_strbuf_printf(sb, "updatable\n%s", hyp_strbuf_text(&r->updatable));
    text_state(r);
    hyp_strbuf_printf(sb, "scratch   %zu bytes in %u slots\n", scratch_bytes(r), p->slot_count);
    text_recomputed(r);
    hyp_strbuf_printf(sb, "steps     %zu\n", p->n_steps);
    hyp_step_work total = {0};
    double predicted = hyp_plan_predicted(p), steps = hyp_plan_predicted_steps(p);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        hyp_step_work work = hyp_plan_step_work(p, i, r->values);
        total.flops += work.flops;
        total.bytes += work.bytes;
        text_step(r, i);
    }
    hyp_strbuf_printf(sb, "total     %.0f flops, %.0f bytes\n", total.flops, total.bytes);
    if (r->plan->device) text_device(r, r->plan->device);
    if (!(predicted > 0)) return;
    hyp_strbuf_printf(sb, "predicted %.2f us", predicted * 1e6);
    if (predicted < steps) hyp_strbuf_printf(sb, " side by side, %.2f us one by one", steps * 1e6);
    for (size_t i = 0; i < p->n_typical_sizes; i++) {
        put_name(r, i ? ", " : " for ", p->symbols[i], "");
        hyp_strbuf_printf(sb, " = %" PRIu64, p->typical_sizes[i]);
    }
    hyp_strbuf_puts(sb, "\n");
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

/* `"key": ` with a comma before it unless it is the first of its object. */
static void key(report *r, bool first, const char *name)
{
    hyp_strbuf_printf(&r->sb, "%s\"%s\": ", first ? "" : ", ", name);
}

static void json_string(report *r, bool first, const char *name, const char *value)
{
    key(r, first, name);
    hyp_strbuf_quote(&r->sb, value);
}

static void json_names(report *r, const char *name, char *const *names, const uint32_t *list, size_t count)
{
    key(r, false, name);
    hyp_strbuf_puts(&r->sb, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) hyp_strbuf_puts(&r->sb, ", ");
        hyp_strbuf_quote(&r->sb, names[list ? list[i] : i]);
    }
    hyp_strbuf_puts(&r->sb, "]");
}

/* A tensor: its index, that of the one that holds its bytes, and how many these are; name, type, place, dims as declared
 * (numbers or expressions) and as evaluated. */
static void json_tensor(report *r, uint32_t tensor)
{
    const HypPlan__Tensor *t = r->p->tensors[tensor];
    uint32_t root = hyp_plan_root(r->p, tensor);
    int64_t elements = 0;
    if (hyp_plan_elements(r->p, tensor, r->values, &elements, NULL) != HYP_OK) elements = 0; /* beyond any size */
    hyp_strbuf_printf(&r->sb, "{\"tensor\": %u, \"bytes\": %" PRId64, tensor,
                      elements * (int64_t)hyp_dtype_size((hyp_dtype)t->dtype));
    if (root != tensor) hyp_strbuf_printf(&r->sb, ", \"view_of\": %u", root);
    if (r->p->tensors[root]->place == HYP_PLAN__PLACE__PLACE_SCRATCH)
        hyp_strbuf_printf(&r->sb, ", \"slot\": %u", r->p->tensors[root]->slot);
    json_string(r, false, "name", t->name);
    json_string(r, false, "dtype", hyp_dtype_name((hyp_dtype)t->dtype));
    json_string(r, false, "place", place_name(t->place));
    key(r, false, "dims");
    hyp_strbuf_puts(&r->sb, "[");
    for (size_t a = 0; a < t->n_dims; a++) {
        hyp_strbuf text = {0};
        if (a) hyp_strbuf_puts(&r->sb, ", ");
        hyp_dim_text(&text, r->p, t->dims[a]);
        if (r->p->dims[t->dims[a]]->kind == HYP_PLAN__DIM__KIND__CONST)
            hyp_strbuf_puts(&r->sb, hyp_strbuf_text(&text));
        else
            hyp_strbuf_quote(&r->sb, hyp_strbuf_text(&text));
        r->sb.failed = r->sb.failed || text.failed;
        hyp_strbuf_dispose(&text);
    }
    hyp_strbuf_puts(&r->sb, "]");
    key(r, false, "shape");
    values_text(r, tensor);
    hyp_strbuf_puts(&r->sb, "}");
}

static void json_tensors(report *r, const char *name, const uint32_t *tensors, size_t count)
{
    key(r, false, name);
    hyp_strbuf_puts(&r->sb, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) hyp_strbuf_puts(&r->sb, ", ");
        json_tensor(r, tensors[i]);
    }
    hyp_strbuf_puts(&r->sb, "]");
}

static void json_layer(report *r, const HypPlan__Layer *layer, bool first)
{
    hyp_strbuf_printf(&r->sb, "%s{\"k\": %" PRId64 ", \"n\": %" PRId64 ", \"bias\": %s, \"act\": \"%s\"",
                      first ? "" : ", ", r->values[layer->k], r->values[layer->n], layer->bias_plus1 ? "true" : "false",
                      hyp_plan_act_name(layer->act));
    if (layer->x_scale > 0) {
        hyp_strbuf_puts(&r->sb, ", \"x_scale\": ");
        hyp_strbuf_double(&r->sb, (double)layer->x_scale);
        hyp_strbuf_puts(&r->sb, ", \"weight_scale\": ");
        hyp_strbuf_double(&r->sb, (double)layer->weight_scale);
    }
    hyp_strbuf_puts(&r->sb, "}");
}

static void json_step(report *r, uint32_t index)
{
    const HypPlan__Step *step = r->p->steps[index];
    hyp_step_work work = hyp_plan_step_work(r->p, index, r->values);
    uint32_t tensors[ROOM];
    hyp_strbuf_printf(&r->sb, "%s\n  {", index ? "," : "");
    json_string(r, true, "label", step->label);
    json_string(r, false, "kernel", hyp_plan_kernel_name(step));
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) {
        const HypPlan__Linear *s = step->linear;
        hyp_strbuf_printf(&r->sb, ", \"rows\": %" PRId64 ", \"layers\": [", r->values[s->m]);
        for (size_t l = 0; l < s->n_layers; l++) json_layer(r, s->layers[l], l == 0);
        hyp_strbuf_puts(&r->sb, "]");
        if (s->added_plus1) json_string(r, false, "adds", s->add_after ? "after" : "before");
    }
    json_tensors(r, "reads", tensors, list_of(step, hyp_plan_step_reads, tensors));
    json_tensors(r, "writes", tensors, list_of(step, hyp_plan_step_writes, tensors));
    hyp_strbuf_printf(&r->sb, ", \"flops\": %.0f, \"bytes\": %.0f, \"predicted_seconds\": ", work.flops, work.bytes);
    hyp_strbuf_double(&r->sb, step->predicted_seconds);
    if (r->p->hop_seconds > 0) {
        key(r, false, "share");
        hyp_strbuf_double(&r->sb, step->share);
    }
    json_string(r, false, "price", step->price);
    json_names(r, "rules", r->p->rule_names, step->rules, step->n_rules);
    json_names(r, "sources", r->p->source_names, step->sources, step->n_sources);
    hyp_strbuf_puts(&r->sb, "}");
}

static void json_device(report *r, const HypPlan__Device *d)
{
    hyp_strbuf_puts(&r->sb, ",\n \"device\": {");
    json_string(r, true, "name", d->name);
    hyp_strbuf_puts(&r->sb, ", \"products\": [");
    for (size_t i = 0; i < d->n_products; i++) {
        hyp_strbuf_puts(&r->sb, i ? ",\n  {" : "\n  {");
        json_string(r, true, "key", d->products[i]->key);
        json_string(r, false, "attributes", d->products[i]->attributes);
        hyp_strbuf_puts(&r->sb, ", \"seconds\": ");
        hyp_strbuf_double(&r->sb, d->products[i]->seconds);
        hyp_strbuf_puts(&r->sb, ", \"first_seconds\": ");
        hyp_strbuf_double(&r->sb, d->products[i]->first_seconds);
        hyp_strbuf_puts(&r->sb, "}");
    }
    hyp_strbuf_puts(&r->sb, "]}");
}

/* Of which outputs there may be less than their dims say. */
static void json_data_sizes(report *r)
{
    const HypPlan__Program *p = r->p;
    for (size_t i = 0; i < p->n_data_sizes; i++) {
        hyp_strbuf_puts(&r->sb, i ? ", {" : ",\n \"data_sizes\": [{");
        json_string(r, true, "output", p->tensors[p->outputs[p->data_sizes[i]->output]]->name);
        hyp_strbuf_printf(&r->sb, ", \"axis\": %u}", p->data_sizes[i]->axis);
    }
    if (p->n_data_sizes) hyp_strbuf_puts(&r->sb, "]");
}

/* What is stored, each once: its bytes by their hash, so that plans can be compared. */
static void json_weights(report *r)
{
    bool first = true;
    for (uint32_t t = 0; t < r->p->n_tensors; t++) {
        const HypPlan__Tensor *tensor = r->p->tensors[t];
        if (tensor->place != HYP_PLAN__PLACE__PLACE_WEIGHT) continue;
        uint64_t hash = hyp_hash(r->plan->weights + tensor->offset, tensor->bytes, 0);
        hyp_strbuf_puts(&r->sb, first ? ",\n \"weight_list\": [\n  {" : ",\n  {");
        json_string(r, true, "name", tensor->name);
        json_string(r, false, "dtype", hyp_dtype_name((hyp_dtype)tensor->dtype));
        key(r, false, "shape");
        values_text(r, t);
        hyp_strbuf_printf(&r->sb, ", \"bytes\": %" PRIu64 ", \"hash\": \"%016" PRIx64 "\"}", tensor->bytes, hash);
        first = false;
    }
    hyp_strbuf_puts(&r->sb, first ? ",\n \"weight_list\": []" : "]");
}

static void write_json(report *r)
{
    char signer[HYP_PLAN_KEY_TEXT];
    const HypPlan__Program *p = r->p;
    hyp_strbuf *sb = &r->sb;
    hyp_strbuf_puts(sb, "{");
    json_string(r, true, "plan", r->path);
    hyp_strbuf_printf(sb, ", \"format\": \"%u.%u\", \"file_bytes\": %" PRIu64, r->plan->major, r->plan->minor,
                      r->plan->file_bytes);
    json_string(r, false, "signed_by", hyp_plan_key_text(r->plan->signer, signer));
    json_string(r, false, "producer", p->producer);
    json_string(r, false, "target", p->target);
    json_string(r, false, "precision", p->precision);
    json_string(r, false, "classes", p->classes);
    json_string(r, false, "model", p->model_name);
    key(r, false, "predicted_seconds");
    hyp_strbuf_double(sb, hyp_plan_predicted(p));
    if (p->hop_seconds > 0) {
        key(r, false, "hop_seconds");
        hyp_strbuf_double(sb, p->hop_seconds);
    }
    hyp_strbuf_printf(sb, ", \"model_hash\": \"%016" PRIx64 "\"", p->model_hash);
    json_names(r, "flags", p->flags, NULL, p->n_flags);
    hyp_strbuf_puts(sb, ",\n \"symbols\": [");
    for (size_t i = 0; i < p->n_symbols; i++) {
        hyp_strbuf_puts(sb, i ? ", {" : "{");
        json_string(r, true, "name", p->symbols[i]);
        hyp_strbuf_printf(sb, ", \"value\": %" PRId64 ", \"given\": %s", r->symbols[i], r->given[i] ? "true" : "false");
        if (p->n_typical_sizes) hyp_strbuf_printf(sb, ", \"typical\": %" PRIu64, p->typical_sizes[i]);
        if (p->n_padding) hyp_strbuf_printf(sb, ", \"may_be_padded\": %s", *p->padding[i] ? "false" : "true");
        if (p->n_padding && *p->padding[i]) json_string(r, false, "not_padded_for", p->padding[i]);
        hyp_strbuf_puts(sb, "}");
    }
    hyp_strbuf_puts(sb, "]");
    json_tensors(r, "inputs", p->inputs, hyp_plan_shown_inputs(p));
    json_tensors(r, "outputs", p->outputs, hyp_plan_shown_outputs(p));
    json_tensors(r, "variables", hyp_plan_variable_inputs(p), p->n_variables);
    json_data_sizes(r);
    if (r->updatable.len) hyp_strbuf_printf(sb, ",\n \"updatable\": [%s]", hyp_strbuf_text(&r->updatable));
    size_t twice, state = hyp_plan_state_bytes(p, &twice);
    hyp_strbuf_printf(sb,
                      ",\n \"state_bytes\": %zu, \"state_bytes_twice\": %zu"
                      ", \"weights_bytes\": %" PRIu64 ", \"weights\": %zu, \"scratch_bytes\": %zu"
                      ", \"scratch_slots\": %u, \"recomputed\": %zu, \"kept_bytes\": %" PRIu64 ", \"kept_seconds\": ",
                      state, twice, r->plan->weights_bytes, weight_count(p), scratch_bytes(r), p->slot_count,
                      hyp_plan_recomputed(p), p->kept_bytes);
    hyp_strbuf_double(sb, p->kept_seconds);
    json_weights(r);
    hyp_strbuf_puts(sb, ",\n \"steps\": [");
    for (uint32_t i = 0; i < p->n_steps; i++) json_step(r, i);
    hyp_strbuf_puts(sb, "]");
    if (r->plan->device) json_device(r, r->plan->device);
    hyp_strbuf_puts(sb, "}\n");
}

/* ---- weights that may be replaced ---------------------------------------------------------------------------- */

static void json_update(report *r, bool first)
{
    for (size_t i = 0; i < r->p->n_inputs; i++) {
        const HypPlan__Tensor *t = r->p->tensors[r->p->inputs[i]];
        hyp_strbuf_puts(&r->sb, first && !i ? "{" : ", {");
        json_string(r, true, "name", t->name);
        json_string(r, false, "dtype", hyp_dtype_name((hyp_dtype)t->dtype));
        key(r, false, "dims");
        for (size_t a = 0; a < t->n_dims; a++) /* fixed sizes */
            hyp_strbuf_printf(&r->sb, "%s%" PRId64, a ? ", " : "[", r->p->dims[t->dims[a]]->value);
        hyp_strbuf_puts(&r->sb, t->n_dims ? "]}" : "[]}");
    }
}

/* They are the inputs of the plans of updates. */
static hyp_status list_updatable(report *r, bool json, hyp_diag *diag)
{
    const hyp_plan_open_options trusted = {.header_only = true}; /* the checksum of the program around it was checked */
    report one = {.path = r->path};
    hyp_status status = HYP_OK;
    for (size_t u = 0; u < r->p->n_updates && status == HYP_OK; u++) {
        const ProtobufCBinaryData *data = &r->p->updates[u]->plan;
        hyp_plan plan;
        status = hyp_plan_open_memory(data->data, data->len, "the plan of its update", &trusted, &plan, diag);
        if (status != HYP_OK) break;
        one.p = plan.program;
        if (json)
            json_update(&one, u == 0);
        else
            text_tensors(&one, one.p->inputs, one.p->n_inputs);
        hyp_plan_close(&plan);
    }
    r->updatable = one.sb;
    if (status != HYP_OK) return hyp_diag_prefix(diag, "%s", r->path), status;
    return one.sb.failed ? hyp_fail_memory(diag, one.sb.len) : HYP_OK;
}

/* ---- entry --------------------------------------------------------------------------------------------- */

static hyp_status unknown_symbol(const report *r, const char *name, hyp_diag *diag)
{
    size_t count = r->p->n_symbols;
    const char **names = hyp_calloc(count + 1, sizeof *names);
    if (!names) return hyp_fail_memory(diag, count * sizeof *names);
    for (size_t i = 0; i < count; i++) names[i] = r->p->symbols[i];
    const char *near = hyp_nearest(name, names);
    if (!near && count) near = names[0];
    hyp_free(names);
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: the plan has no symbolic dim '%s'%s%s%s", r->path, name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static hyp_status set_symbols(report *r, const hyp_tensor *dims, size_t dim_count, hyp_diag *diag)
{
    for (size_t s = 0; s < r->p->n_symbols; s++) r->symbols[s] = 1;
    for (size_t i = 0; i < dim_count; i++) {
        size_t s = 0;
        if (!dims[i].name || dims[i].rank != 1 || dims[i].dims[0] < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "dim %zu: the name of a symbol, rank 1 and its value, 0 or more, in dims[0] are needed", i);
        while (s < r->p->n_symbols && strcmp(r->p->symbols[s], dims[i].name) != 0) s++;
        if (s == r->p->n_symbols) return unknown_symbol(r, dims[i].name, diag);
        r->symbols[s] = dims[i].dims[0];
        r->given[s] = true;
    }
    return hyp_plan_eval_dims(r->p, r->symbols, r->values, diag);
}

/* Closes the plan. */
static hyp_status describe(hyp_plan *plan, const char *name, bool json, const hyp_tensor *dims, size_t dim_count,
                           void (*write)(const char *text, size_t len, void *user), void *user, hyp_diag *diag)
{
    hyp_arena arena = {0};
    report r = {.plan = plan, .p = plan->program, .path = name};
    r.symbols = hyp_arena_zalloc(&arena, r.p->n_symbols, sizeof *r.symbols);
    r.values = hyp_arena_zalloc(&arena, r.p->n_dims, sizeof *r.values);
    r.given = hyp_arena_zalloc(&arena, r.p->n_symbols, sizeof *r.given);
    hyp_status status = r.symbols && r.values && r.given ? set_symbols(&r, dims, dim_count, diag)
                                                         : hyp_fail_memory(diag, r.p->n_dims * sizeof *r.values);
    if (status == HYP_OK) status = list_updatable(&r, json, diag);
    if (status == HYP_OK) {
        if (json)
            write_json(&r);
        else
            write_text(&r);
        hyp_strbuf text = {0};
        if (r.sb.len && !json) hyp_strbuf_visible(&text, r.sb.data, true); /* symbols in dims, keys of a device */
        if (r.sb.failed || text.failed)
            status = hyp_fail_memory(diag, r.sb.len);
        else
            write(json ? r.sb.data : text.data, json ? r.sb.len : text.len, user);
        hyp_strbuf_dispose(&text);
    }
    hyp_strbuf_dispose(&r.updatable);
    hyp_strbuf_dispose(&r.sb);
    hyp_arena_dispose(&arena);
    hyp_plan_close(plan);
    return status;
}

hyp_status hyp_plan_describe(const char *path, bool json, const hyp_tensor *dims, size_t dim_count,
                             void (*write)(const char *text, size_t len, void *user), void *user, hyp_diag *diag)
{
    HYP_NEED(path);
    HYP_NEED_LIST(dims, dim_count);
    HYP_NEED(write);
    hyp_plan plan;
    HYP_TRY(hyp_plan_open_file(path, NULL, &plan, diag));
    return describe(&plan, path, json, dims, dim_count, write, user, diag);
}

hyp_status hyp_plan_record(const char *path, void (*write)(const char *text, size_t len, void *user), void *user,
                           hyp_diag *diag)
{
    HYP_NEED(path);
    HYP_NEED(write);
    hyp_plan plan;
    HYP_TRY(hyp_plan_open_file(path, NULL, &plan, diag));
    const ProtobufCBinaryData *record = &plan.program->record;
    if (record->len) write((const char *)record->data, record->len, user);
    hyp_plan_close(&plan);
    return HYP_OK;
}

hyp_status hyp_plan_describe_memory(const void *data, size_t size, const char *name, bool json, const hyp_tensor *dims,
                                    size_t dim_count, void (*write)(const char *text, size_t len, void *user), void *user,
                                    hyp_diag *diag)
{
    HYP_NEED(data);
    HYP_NEED(name);
    HYP_NEED_LIST(dims, dim_count);
    HYP_NEED(write);
    hyp_plan plan;
    HYP_TRY(hyp_plan_open_memory(data, size, name, NULL, &plan, diag));
    return describe(&plan, name, json, dims, dim_count, write, user, diag);
}

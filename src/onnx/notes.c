/* The names in a model, and what the importer says of them besides the error that ends it: warnings, and all that is not
 * supported. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "onnx/import.h"

enum { MAX_WARNINGS = 20, MAX_TEXT = 1024, MAX_UNSUPPORTED = 16 };

hyp_symbol *hyp_onnx_find(const hyp_onnx_scope *scope, const char *name)
{
    uint32_t id;
    return hyp_intern_find(&scope->names, name, strlen(name), &id) ? &scope->symbols.data[id] : NULL;
}

hyp_symbol *hyp_onnx_symbol(const hyp_importer *im, const char *name) { return hyp_onnx_find(&im->scope, name); }

const char *hyp_onnx_node_name(hyp_importer *im, const HypOnnx__NodeProto *node)
{
    if (node->name && *node->name) return node->name;
    return hyp_arena_printf(&im->arena, "%s:%s", node->op_type ? node->op_type : "", node->n_output ? node->output[0] : "");
}

hyp_status hyp_onnx_warn(hyp_importer *im, const char *fmt, ...)
{
    char text[MAX_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (size_t i = 0; i < im->warnings.len; i++) /* a loop's body is imported for every trip, and perhaps again to be run */
        if (strcmp(im->warnings.data[i], text) == 0) return HYP_OK;
    if (im->warnings.len == MAX_WARNINGS) {
        im->unlisted_warnings++;
        return HYP_OK;
    }
    const char *copy = hyp_arena_strdup(&im->source->arena, text);
    if (!copy) return hyp_fail_memory(im->diag, strlen(text));
    return hyp_vec_push(&im->warnings, im->diag, copy);
}

hyp_status hyp_onnx_close_warnings(hyp_importer *im)
{
    if (!im->unlisted_warnings) return HYP_OK;
    const char *text = hyp_arena_printf(&im->source->arena, "%zu more warnings", im->unlisted_warnings);
    if (!text) return hyp_fail_memory(im->diag, 32);
    return hyp_vec_push(&im->warnings, im->diag, text);
}

hyp_status hyp_onnx_note_unsupported(hyp_importer *im)
{
    const char *text = im->diag->message;
    size_t file = strlen(im->file);
    if (strncmp(text, im->file, file) == 0 && strncmp(text + file, ": ", 2) == 0) text += file + 2;
    if (im->unsupported_count++ < MAX_UNSUPPORTED)
        hyp_strbuf_printf(&im->unsupported, "%s%s", im->unsupported.len ? "; " : "", text);
    return im->unsupported.failed ? hyp_fail_memory(im->diag, im->unsupported.len) : HYP_OK;
}

hyp_status hyp_onnx_fail_unsupported(hyp_importer *im)
{
    char more[48] = "";
    if (im->unsupported_count > MAX_UNSUPPORTED)
        snprintf(more, sizeof more, "; and %zu more nodes", im->unsupported_count - MAX_UNSUPPORTED);
    return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "%s: %s%s", im->file, hyp_strbuf_text(&im->unsupported), more);
}

/* ---- attributes ------------------------------------------------------------------------------------ */

/* Whether the name is one of a list of names, each followed by a space. */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = list; *p; p += strcspn(p, " ") + 1)
        if (len && strncmp(p, name, len) == 0 && p[len] == ' ') return true;
    return false;
}

bool hyp_onnx_aligns_operands(const hyp_onnx_node *n)
{
    return n->im->opset < 7 && n->op->min_inputs == 2 && n->op->max_inputs == 2 && n->op->op != HYP_OP_COUNT &&
           (hyp_op_get(n->op->op)->flags & HYP_OPF_ELEMENTWISE);
}

/* Attributes that operators had in the first opsets and that change nothing now, or that import_node sees to. */
static bool is_old_attribute(const hyp_onnx_node *n, const char *name)
{
    int64_t opset = n->im->opset;
    if (strcmp(name, "consumed_inputs") == 0) return opset < 6;
    if (strcmp(name, "is_test") == 0) return opset < 7;
    if (strcmp(name, "broadcast") == 0) return opset < 7;
    return strcmp(name, "axis") == 0 && hyp_onnx_aligns_operands(n);
}

hyp_status hyp_onnx_check_attributes(const hyp_onnx_node *n)
{
    /* Names that some opset has for an operator of the tables, where Hypatia lacks them: never a slip of the pen. */
    static const char lacking[] =
        "across_channels activation_alpha activation_beta activation_gamma axis broadcast consumed_inputs height_scale "
        "input_forget is_test normalize_variance output_sequence paddings sparse_value value_string value_strings "
        "width_scale ";
    for (size_t i = 0; n->op->attributes && i < n->proto->n_attribute; i++) {
        const char *name = n->proto->attribute[i]->name ? n->proto->attribute[i]->name : "";
        if (is_listed(n->op->attributes, name) || is_old_attribute(n, name)) continue;
        bool known = is_listed(lacking, name) || strstr(n->op->name, "::"); /* others' operators have no list of names */
        if (known)
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "attribute \"%s\" is not supported%s%s", name,
                            *n->op->attributes ? "; supported are: " : "", n->op->attributes);
        HYP_TRY(hyp_onnx_warn(n->im, "node \"%s\" (%s): attribute \"%s\" is ignored: the operator has none of this name%s%s",
                              n->name, n->op->name, name, *n->op->attributes ? "; it has: " : "", n->op->attributes));
    }
    return HYP_OK;
}

/* egraph_write.c - the e-graph, or a part of it, for other programs and as a drawing. */
#include <string.h>

#include "egraph_tool.h"
#include "svg.h"

enum { DEPTH = 2 };

/* What is written of the e-graph. */
typedef struct view {
    const egraph_writing *w;
    hyp_egraph_part part; /* around nothing: all below the roots */
    hyp_class_id around;
    hyp_extraction chosen; /* of all roots; choice NULL: nothing was extracted */
} view;

static hyp_status write_json(FILE *file, view *v, hyp_diag *diag)
{
    const egraph_writing *w = v->w;
    return v->part.count
               ? hyp_egraph_write_part_json(w->eg, &v->part, costs_of, w->costs, cli_write_file, file, diag)
               : hyp_egraph_write_json(w->eg, w->roots, w->root_count, costs_of, w->costs, cli_write_file, file, diag);
}

static hyp_status write_dot(FILE *file, view *v, hyp_diag *diag)
{
    const egraph_writing *w = v->w;
    const hyp_extraction *chosen = v->chosen.choice ? &v->chosen : NULL;
    return v->part.count ? hyp_egraph_write_part_dot(w->eg, &v->part, w->most_nodes, chosen, cli_write_file, file, diag)
                         : hyp_egraph_write_dot(w->eg, w->roots, w->root_count, w->most_nodes, chosen, cli_write_file,
                                                file, diag);
}

/* Writes into a file, "-" for standard output. */
static int write_to(const cli_args *args, const char *path, hyp_status (*write)(FILE *file, view *v, hyp_diag *diag),
                    view *v)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!file) {
        cli_error(args->tool, "%s: cannot write", path);
        return CLI_FAILED;
    }
    hyp_diag diag = {0};
    hyp_status status = write(file, v, &diag);
    bool good = fflush(file) == 0 && !ferror(file);
    if (file != stdout) good = fclose(file) == 0 && good;
    if (status != HYP_OK) return cli_report(args->tool, &diag);
    if (!good) cli_error(args->tool, "%s: cannot write", path);
    return good ? CLI_OK : CLI_FAILED;
}

static int draw(const cli_args *args, view *v)
{
    hyp_diag diag = {0};
    FILE *file = tmpfile();
    if (!file) {
        cli_error(args->tool, "cannot make a temporary file");
        return CLI_FAILED;
    }
    hyp_status status = write_dot(file, v, &diag);
    int code = status != HYP_OK                                      ? cli_report(args->tool, &diag)
               : svg_draw(args->tool, file, v->w->svg, "--dot FILE") ? CLI_OK
                                                                     : CLI_FAILED;
    fclose(file);
    return code;
}

/* Finds the term that a part is around, which must be there. */
static int find_around(const cli_args *args, view *v)
{
    const egraph_writing *w = v->w;
    hyp_diag diag = {0};
    size_t before = hyp_egraph_node_count(w->eg);
    if (hyp_egraph_add_text(w->eg, w->around, &v->around, &diag) != HYP_OK) return cli_report(args->tool, &diag);
    if (hyp_egraph_node_count(w->eg) > before) {
        cli_error(args->tool, "--around: this term is not in the e-graph: %s", w->around);
        return CLI_FAILED;
    }
    v->part = (hyp_egraph_part){&v->around, 1, w->depth ? w->depth : DEPTH};
    return CLI_OK;
}

int egraph_write(const egraph_writing *w, const cli_args *args)
{
    view v = {.w = w};
    hyp_diag diag = {0};
    int code = w->around ? find_around(args, &v) : CLI_OK;
    hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_DAG};
    if (w->method == HYP_EXTRACT_TREE) options.method = HYP_EXTRACT_TREE; /* the exact search was had for each term */
    if (code == CLI_OK && w->method >= 0 && (w->dot || w->svg) &&
        hyp_egraph_extract_with(w->eg, w->roots, w->root_count, &options, costs_of, w->costs, &v.chosen, &diag) !=
            HYP_OK)
        code = cli_report(args->tool, &diag);
    if (code == CLI_OK && w->json) code = write_to(args, w->json, write_json, &v);
    if (code == CLI_OK && w->dot) code = write_to(args, w->dot, write_dot, &v);
    if (code == CLI_OK && w->svg) code = draw(args, &v);
    hyp_extraction_dispose(&v.chosen);
    return code;
}

/* egraph_extract.c - hypatia-egraph extract: the best terms of a saved e-graph. */
#include <time.h>

#include "egraph_tool.h"

const char *const extract_methods[] = {"tree", "dag", "exact"};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { EX_METHOD, EX_BUDGET, EX_JSON, EX_CHOICE, EX_HELP };

static const cli_option extract_options[] = {
    [EX_METHOD] = {"method", 0, "tree|dag|exact", "what to make small: the tree, or the DAG greedily or exactly (dag)"},
    [EX_BUDGET] = {"budget", 0, "SECONDS", "time for --method exact (10)"},
    [EX_JSON] = {"json", 0, NULL, "print JSON"},
    [EX_CHOICE] = {"choice", 0, NULL, "also print the node chosen for each class"},
    [EX_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static void print_choice(const hyp_serialized *s, const hyp_extraction *ex, bool json)
{
    const char *between = json ? "" : "\n";
    for (uint32_t c = 0; c < ex->class_bound; c++) {
        if (ex->choice[c] == HYP_NONE) continue;
        fputs(between, stdout);
        if (json)
            print_text(hyp_serialized_class_name(s, c));
        else
            printf("%s", hyp_serialized_class_name(s, c));
        fputs(json ? ": " : " ", stdout);
        if (json)
            print_text(hyp_serialized_get(s, ex->choice[c]).id);
        else
            printf("%s", hyp_serialized_get(s, ex->choice[c]).id);
        between = json ? ", " : "\n";
    }
}

static void print_extraction(const hyp_serialized *s, const hyp_extraction *ex, const char *method, double micros,
                             bool json, bool choice)
{
    if (json) {
        printf("{\"method\": \"%s\", \"tree_cost\": ", method);
        print_number(ex->tree_cost);
        printf(", \"dag_cost\": ");
        print_number(ex->dag_cost);
        printf(", \"lower_bound\": ");
        print_number(ex->lower_bound);
        printf(", \"proven\": %s, \"micros\": %.1f", ex->proven ? "true" : "false", micros);
        if (choice) {
            printf(", \"choice\": {");
            print_choice(s, ex, true);
            printf("}");
        }
        printf("}\n");
        return;
    }
    printf("tree cost    %.12g\ndag cost     %.12g\nlower bound  %.12g%s\nmicros       %.1f", ex->tree_cost,
           ex->dag_cost, ex->lower_bound, ex->proven ? " (proven)" : "", micros);
    if (choice) print_choice(s, ex, false);
    printf("\n");
}

int command_extract(int argc, char **argv)
{
    cli_args args = cli_begin("hypatia-egraph extract", extract_options, argc, argv);
    hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_DAG};
    const char *path = NULL, *value;
    bool json = false, choice = false;
    int option, method;
    while ((option = cli_next(&args, &value)) != CLI_END) {
        switch (option) {
        case EX_METHOD:
            if ((method = pick(&args, "method", value, extract_methods, 3)) < 0) return CLI_USAGE;
            options.method = (hyp_extract_method)method;
            break;
        case EX_BUDGET:
            if (!cli_parse_double(value, 1e-9, &options.budget_seconds))
                return cli_usage_error(&args, "--budget: '%s' is no positive number of seconds", value);
            break;
        case EX_JSON: json = true; break;
        case EX_CHOICE: choice = true; break;
        case EX_HELP:
            printf("Usage: hypatia-egraph extract FILE.json [options]\n"
                   "Chooses a node per class of an egraph-serialize file so that the roots cost little.\n");
            cli_print_options(stdout, extract_options);
            return CLI_OK;
        case CLI_POSITIONAL:
            if (path) return cli_usage_error(&args, "one file at a time: '%s' is too much", value);
            path = value;
            break;
        default: return CLI_USAGE;
        }
    }
    if (!path) return cli_usage_error(&args, "no file was given");
    hyp_diag diag = {0};
    hyp_serialized *s;
    hyp_extraction ex;
    if (hyp_serialized_read(path, &s, &diag) != HYP_OK) return cli_report(args.tool, &diag);
    double start = now();
    hyp_status status = hyp_serialized_extract(s, &options, &ex, &diag);
    double micros = (now() - start) * 1e6;
    if (status == HYP_OK) print_extraction(s, &ex, extract_methods[options.method], micros, json, choice);
    hyp_extraction_dispose(&ex);
    hyp_serialized_destroy(s);
    return status == HYP_OK ? CLI_OK : cli_report(args.tool, &diag);
}

/* Times building, rebuilding and extracting a large e-graph, and how the time per e-node grows with its size.
 *
 *     bench-egraph-scale [-n NODES] [-m NODES] [-w WINDOW]
 *
 * For NODES of -m (1,000,000) and of -n (20,000,000): adds that many distinct e-nodes one by one through the public
 * interface, each of one of 8 binary operators on two classes drawn at random from all before it (or with -w from the
 * last WINDOW); merges 1 % of the classes in random pairs; rebuilds; extracts the last class by tree cost. Prints one
 * line of JSON for each size: nanoseconds per e-node of every phase, and peak bytes; then the ratios. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BENCH "bench-egraph-scale"
#include "egraph_bench.h"

enum { OPERATORS = 8, LEAVES = 64, MERGED_PERCENT = 1 };

typedef struct outcome {
    size_t nodes, classes, bytes;
    double add, rebuild, extract; /* seconds */
} outcome;

static uint64_t draw(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double one(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node, (void)user;
    return 1;
}

static outcome measure(size_t nodes, size_t window)
{
    hyp_diag diag = {0};
    hyp_egraph *eg;
    hyp_symbol op[OPERATORS], leaf;
    hyp_class_id kids[2], c = 0;
    uint64_t random = 7;
    char name[24];
    hyp_egraph_options options = {.size = sizeof options};
    need(hyp_egraph_create(&options, &eg, &diag), &diag);
    hyp_class_id *classes = malloc(nodes * sizeof *classes);
    if (!classes) exit(1);
    size_t count = 0;
    for (int i = 0; i < OPERATORS; i++) {
        snprintf(name, sizeof name, "f%d", i);
        need(hyp_egraph_symbol(eg, name, &op[i], &diag), &diag);
    }
    for (int i = 0; i < LEAVES; i++) {
        snprintf(name, sizeof name, "x%d", i);
        need(hyp_egraph_symbol(eg, name, &leaf, &diag), &diag);
        need(hyp_egraph_add(eg, leaf, NULL, 0, &classes[count++], NULL, &diag), &diag);
    }
    double begin = now();
    while (count < nodes) {
        size_t from = window && count > window ? count - window : 0;
        uint64_t r = draw(&random);
        size_t before = hyp_egraph_class_bound(eg);
        kids[0] = classes[from + (r & 0xffffffff) % (count - from)];
        kids[1] = classes[from + (r >> 32) % (count - from)];
        need(hyp_egraph_add(eg, op[draw(&random) % OPERATORS], kids, 2, &c, NULL, &diag), &diag);
        if (hyp_egraph_class_bound(eg) > before) classes[count++] = c;
    }
    outcome out = {.add = now() - begin};
    for (size_t i = 0; i < nodes / 100 * MERGED_PERCENT; i++)
        need(hyp_egraph_union(eg, classes[draw(&random) % count], classes[draw(&random) % count], NULL, NULL, &diag),
             &diag);
    begin = now();
    need(hyp_egraph_rebuild(eg, &diag), &diag);
    out.rebuild = now() - begin;
    hyp_extraction extraction;
    hyp_class_id root = hyp_egraph_find(eg, classes[count - 1]);
    begin = now();
    need(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_TREE, one, NULL, &extraction, &diag), &diag);
    out.extract = now() - begin;
    hyp_extraction_dispose(&extraction);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    out.bytes = (size_t)usage.ru_maxrss * 1024;
    out.nodes = hyp_egraph_node_count(eg);
    out.classes = hyp_egraph_class_count(eg);
    hyp_egraph_destroy(eg);
    free(classes);
    return out;
}

static void print(const outcome *o, size_t window)
{
    double each = 1e9 / (double)o->nodes;
    printf("{\"workload\": \"scale\", \"e_nodes\": %zu, \"e_classes\": %zu, \"window\": %zu, \"add_ns\": %.1f, "
           "\"rebuild_ns\": %.1f, \"extract_ns\": %.1f, \"resident_bytes\": %zu}\n",
           o->nodes, o->classes, window, o->add * each, o->rebuild * each, o->extract * each, o->bytes);
    fflush(stdout);
}

static void usage(void)
{
    fprintf(stderr, "usage: bench-egraph-scale [-n NODES] [-m NODES] [-w WINDOW]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    size_t large = 20000000, small = 1000000, window = 0;
    for (int i = 1; i < argc; i += 2) {
        size_t *to = strcmp(argv[i], "-n") == 0   ? &large
                     : strcmp(argv[i], "-m") == 0 ? &small
                     : strcmp(argv[i], "-w") == 0 ? &window
                                                  : NULL;
        if (!to || i + 1 == argc) usage();
        *to = (size_t)strtoull(argv[i + 1], NULL, 10);
    }
    if (small < 1000 || large < small) usage();
    outcome a = measure(small, window), b = measure(large, window);
    print(&a, window);
    print(&b, window);
    double scale = (double)a.nodes / (double)b.nodes;
    printf("{\"workload\": \"scale\", \"ratio_add\": %.2f, \"ratio_rebuild\": %.2f, \"ratio_extract\": %.2f}\n",
           b.add / a.add * scale, b.rebuild / a.rebuild * scale, b.extract / a.extract * scale);
    return 0;
}

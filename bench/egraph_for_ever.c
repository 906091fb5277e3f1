/* Whether an e-graph that is added to and united for hours stays as small as what lives in it.
 *
 *     bench-egraph-for-ever [-n ADDITIONS]
 *
 * ADDITIONS (100 million) e-nodes come and die: towers of a thousand on a new leaf, which turns out to be the first one, so
 * that each is congruent to the first tower; every other one between a push and its pop. Prints, after each tenth of them,
 * how many ids there are, the resident memory, and the nanoseconds that an addition has taken with its union, rebuilds,
 * pushes and pops: a line of JSON each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BENCH "bench-egraph-for-ever"
#include "egraph_bench.h"

enum { HEIGHT = 1000, TOWERS_EACH = 50 }; /* towers on one new leaf, by operators of their own */

static size_t resident(void)
{
    size_t all = 0, pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%zu %zu", &all, &pages) != 2) pages = 0;
    if (statm) fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Ids of what is kept: of one class. */
static void renumbered(hyp_egraph *eg, const hyp_renumbering *now_are, void *user)
{
    hyp_class_id *kept = user;
    (void)eg;
    *kept = now_are->classes[*kept];
}

static hyp_symbol symbol_of(hyp_egraph *eg, char letter, size_t number)
{
    char name[32];
    hyp_diag diag = {0};
    hyp_symbol symbol;
    snprintf(name, sizeof name, "%c%zu", letter, number);
    need(hyp_egraph_symbol(eg, name, &symbol, &diag), &diag);
    return symbol;
}

/* Towers on a leaf that is then united with the first one. */
static size_t add_round(hyp_egraph *eg, hyp_class_id *first, size_t round)
{
    hyp_diag diag = {0};
    hyp_class_id leaf;
    need(hyp_egraph_add(eg, symbol_of(eg, 'x', round), NULL, 0, &leaf, NULL, &diag), &diag);
    for (size_t t = 0; t < TOWERS_EACH; t++) {
        hyp_symbol f = symbol_of(eg, 'f', t);
        hyp_class_id top = leaf;
        for (size_t i = 0; i < HEIGHT; i++) need(hyp_egraph_add(eg, f, &top, 1, &top, NULL, &diag), &diag);
    }
    need(hyp_egraph_union(eg, *first, leaf, NULL, NULL, &diag), &diag);
    need(hyp_egraph_rebuild(eg, &diag), &diag);
    return TOWERS_EACH * HEIGHT;
}

int main(int argc, char **argv)
{
    size_t wanted = 100000000, done = 0, round = 0, most = 0;
    hyp_diag diag = {0};
    hyp_egraph *eg;
    hyp_class_id first;
    if (argc == 3 && strcmp(argv[1], "-n") == 0)
        wanted = (size_t)strtoull(argv[2], NULL, 10);
    else if (argc > 1)
        wanted = 0;
    if (wanted < 10 || wanted > 100000000000) {
        fprintf(stderr, "usage: bench-egraph-for-ever [-n ADDITIONS]\n");
        return 2;
    }
    hyp_egraph_options options = {.size = sizeof options, .renumbered = renumbered, .renumbered_user = &first};
    need(hyp_egraph_create(&options, &eg, &diag), &diag);
    need(hyp_egraph_add(eg, symbol_of(eg, 'x', 0), NULL, 0, &first, NULL, &diag), &diag);
    double begin = now();
    for (size_t tenth = 1; tenth <= 10; tenth++) {
        while (done < wanted / 10 * tenth) {
            hyp_class_id kept = first;
            if (round % 2) need(hyp_egraph_push(eg, &diag), &diag);
            done += add_round(eg, &first, ++round);
            if (hyp_egraph_enode_bound(eg) > most) most = hyp_egraph_enode_bound(eg);
            if (round % 2 == 0) {
                need(hyp_egraph_pop(eg, &diag), &diag);
                first = kept; /* ids of then are valid again */
            }
        }
        printf("{\"workload\": \"for ever\", \"additions\": %zu, \"e_nodes\": %zu, \"most_ids\": %zu, "
               "\"resident_bytes\": %zu, \"each_ns\": %.1f}\n",
               done, hyp_egraph_node_count(eg), most, resident(), (now() - begin) * 1e9 / (double)done);
        fflush(stdout);
    }
    need(hyp_egraph_check(eg, &diag), &diag);
    hyp_egraph_destroy(eg);
    return 0;
}

/* fuzz_egraph_world.h - what the files of the fuzz target of e-graphs share. */
#ifndef TESTS_FUZZ_FUZZ_EGRAPH_WORLD_H
#define TESTS_FUZZ_FUZZ_EGRAPH_WORLD_H

#include "hypatia/egraph.h"

enum { MOST_NODES = 300, SETS = 3, PATTERNS = 2, EXTRACTIONS = 2 };

/* A case under way. */
typedef struct world {
    const uint8_t *at, *end;
    hyp_egraph *eg;
    hyp_ruleset *sets[SETS];
    hyp_pattern *patterns[PATTERNS];
    hyp_extraction extractions[EXTRACTIONS];
    unsigned depth; /* of callbacks */
    size_t calls;
    bool fails; /* callbacks fail at times: then facts may lack something */
    size_t pushes;
} world;
extern world *now;

/* The next of the bytes that say what is done, 0 where they end; and one below n. */
uint8_t byte(void);
static inline size_t below(size_t n) { return byte() % n; }
/* An id, which may be none of the e-graph. */
hyp_class_id any_id(void);
/* Counts what was refused; ends the program where the engine says that it is broken. */
void note(hyp_status status);

/* Callbacks that may make calls of their own. */
double any_cost(hyp_egraph *eg, hyp_enode_id node, void *user);
void any_write(const char *text, size_t len, void *user);

/* fuzz_egraph_reads.c: calls that read. */
void read_something(void);
void walk(void);
void use_extraction(void);
void use_file(void);
void read_rules(void);

#endif

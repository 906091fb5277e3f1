/* The solvers of extraction on random problems against brute force: trees, greedy and exact answers, and each reduction
 * by itself. Problems are small, many are cyclic, have several roots, free and forbidden nodes. */
#include "egraph/extract/solve_exact.h"
#include "support.h"

enum { CLASSES = 9, NODES = 18, TRIES = 60000 };

typedef struct brute {
    const hyp_problem *p;
    uint32_t choice[CLASSES];
    double best;
    size_t tried;
} brute;

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

/* The first `leaves` classes have a leaf, so most problems have answers. */
static hyp_problem random_problem(uint64_t *seed, bool whole)
{
    hyp_problem p;
    uint32_t classes = 2 + draw(seed, CLASSES - 1), nodes = classes + draw(seed, NODES - classes + 1), kids = 0;
    uint32_t roots = 1 + draw(seed, 3), leaves = 1 + draw(seed, 3);
    must(hyp_problem_alloc(&p, classes, nodes, 3 * NODES, roots, &diag));
    for (uint32_t n = 0; n < nodes; n++) {
        p.owner[n] = n < classes ? n : draw(seed, classes);
        p.kid_at[n] = kids;
        for (uint32_t k = n < leaves ? 0 : draw(seed, 4); k > 0; k--) p.kids[kids++] = draw(seed, classes);
        uint32_t kind = draw(seed, 12);
        p.cost[n] = kind == 0 ? INFINITY : kind < 4 ? 0 : whole ? 1 + draw(seed, 5) : 0.1 * (1 + draw(seed, 90));
    }
    p.kid_at[nodes] = kids;
    for (uint32_t i = 0; i < roots; i++) p.roots[i] = draw(seed, classes);
    must(hyp_problem_link(&p, &diag));
    return p;
}

/* The cost of class c's choices, by recursion; infinite at a cycle. */
static double below(const brute *b, uint32_t c, char *mark)
{
    if (mark[c]) return mark[c] == 2 ? 0 : INFINITY;
    mark[c] = 1;
    uint32_t n = b->choice[c];
    if (n == HYP_NONE) return INFINITY;
    double sum = b->p->cost[n];
    for (uint32_t i = b->p->kid_at[n]; i < b->p->kid_at[n + 1]; i++) sum += below(b, b->p->kids[i], mark);
    mark[c] = 2;
    return sum;
}

static double cost_of(const brute *b)
{
    char mark[CLASSES] = {0};
    double sum = 0;
    for (uint32_t i = 0; i < b->p->root_count; i++) sum += below(b, b->p->roots[i], mark);
    return sum;
}

static void try_all(brute *b, uint32_t c)
{
    if (c == b->p->class_count) {
        b->best = fmin(b->best, cost_of(b));
        b->tried++;
        return;
    }
    b->choice[c] = HYP_NONE;
    for (uint32_t n = 0; n < b->p->node_count && b->tried < TRIES; n++)
        if (b->p->owner[n] == c) {
            b->choice[c] = n;
            try_all(b, c + 1);
        }
}

/* The least cost; NaN when there are too many answers to try. */
static double least_cost(const hyp_problem *p)
{
    brute b = {.p = p, .best = INFINITY};
    try_all(&b, 0);
    return b.tried < TRIES ? b.best : NAN;
}

static bool same(double a, double b) { return fabs(a - b) < 1e-9 * fmax(1, fabs(a)) || (isinf(a) && isinf(b)); }

static void answers_agree_with_brute_force(void **state)
{
    (void)state;
    uint64_t seed = 5;
    int solved = 0, shared = 0, greedy_worse = 0;
    for (int round = 0; round < 1500; round++) {
        hyp_problem p = random_problem(&seed, round % 2);
        double best = least_cost(&p), tree_dag = INFINITY;
        uint32_t choice[CLASSES];
        for (int m = HYP_EXTRACT_TREE; m <= HYP_EXTRACT_EXACT && !isnan(best); m++) {
            hyp_extract_options options = {
                .size = sizeof options, .method = (hyp_extract_method)m, .budget_seconds = 5};
            hyp_extraction out = {0};
            hyp_diag said = {0};
            hyp_free(p.up_at);
            hyp_free(p.up);
            hyp_status status = hyp_problem_solve(&p, &options, choice, &out, &said);
            if (isinf(best)) {
                assert_int_equal(status, HYP_ERR_UNSUPPORTED);
                continue;
            }
            if (status != HYP_OK) fail_msg("round %d: %s", round, said.message);
            brute b = {.p = &p};
            memcpy(b.choice, choice, sizeof choice);
            assert_true(same(cost_of(&b), out.dag_cost)); /* what was chosen costs what was said, without a cycle */
            assert_true(out.dag_cost >= best - 1e-9);
            assert_true(out.dag_cost <= out.tree_cost + 1e-9);
            if (m == HYP_EXTRACT_TREE) tree_dag = out.dag_cost;
            if (m == HYP_EXTRACT_DAG) assert_true(out.dag_cost <= tree_dag + 1e-9);
            if (m == HYP_EXTRACT_DAG) greedy_worse += !same(out.dag_cost, best);
            if (m != HYP_EXTRACT_EXACT) continue;
            if (!same(out.dag_cost, best) || !out.proven)
                fail_msg("round %d: %g, the best is %g, bound %g", round, out.dag_cost, best, out.lower_bound);
            assert_true(out.lower_bound <= best + 1e-9);
            shared += !same(out.dag_cost, out.tree_cost);
            solved++;
        }
        hyp_problem_dispose(&p);
    }
    assert_true(solved > 500 && shared > 100);
    assert_true(greedy_worse < solved / 50);
}

/* The least cost of p stays what it is, and its answer is worth as much in the problem before. */
static void expect_reduced(const hyp_problem *core, unsigned which, double best, int *shrunk)
{
    hyp_trails trails = {.leaves = core->node_count};
    hyp_problem p;
    must(hyp_problem_core(core, &p, &diag)); /* a copy; its origins are the nodes of core */
    for (uint32_t n = 0; n < p.node_count; n++) p.origin[n] = n;
    hyp_diag said = {0};
    if (hyp_reduce(&p, &trails, which, &said) != HYP_OK) fail_msg("reduction %u: %s", which, said.message);
    double left = least_cost(&p);
    if (left >= 0 && !same(left, best)) fail_msg("reduction %u: %g became %g", which, best, left);
    *shrunk += p.node_count < core->node_count || p.kid_at[p.node_count] < core->kid_at[core->node_count];
    hyp_problem_dispose(&p);
    hyp_vec_free(&trails.pairs);
}

static void each_reduction_keeps_the_least_cost(void **state)
{
    (void)state;
    static const unsigned sets[] = {HYP_REDUCE_CYCLES,
                                    HYP_REDUCE_DOMINATED,
                                    HYP_REDUCE_REQUIRED,
                                    HYP_REDUCE_CHAINS,
                                    HYP_REDUCE_SINGLE_USE,
                                    HYP_REDUCE_CHAINS | HYP_REDUCE_SINGLE_USE,
                                    HYP_REDUCE_DOMINATED | HYP_REDUCE_SINGLE_USE,
#ifdef HYP_SMALL_SIZES /* elsewhere these are too small for it */
                                    HYP_REDUCE_TREES,
#endif
                                    HYP_REDUCE_ALL};
    enum { SETS = sizeof sets / sizeof *sets };
    int shrunk[SETS] = {0};
    uint64_t seed = 77;
    for (int round = 0; round < 1500; round++) {
        hyp_problem p = random_problem(&seed, round % 2), core;
        hyp_diag said;
        if (hyp_problem_core(&p, &core, &said) == HYP_OK) {
            double best = least_cost(&p), same_best = least_cost(&core);
            if (!isnan(best) && same_best >= 0) assert_true(same(best, same_best));
            for (int i = 0; i < SETS && same_best >= 0; i++) expect_reduced(&core, sets[i], same_best, &shrunk[i]);
            hyp_problem_dispose(&core);
        }
        hyp_problem_dispose(&p);
    }
    for (int i = 0; i < SETS; i++)
        if (shrunk[i] < 20) fail_msg("reduction %u was hardly used", sets[i]);
}

/* Every node has a child at most, the next class or one of those after it, and some have one before it. */
static hyp_problem random_path(uint64_t *seed, uint32_t classes)
{
    hyp_problem p;
    enum { EACH = 6 };
    must(hyp_problem_alloc(&p, classes, classes * EACH, classes * EACH, 1, &diag));
    uint32_t kids = 0;
    for (uint32_t n = 0; n < classes * EACH; n++) {
        uint32_t c = n / EACH, far = c + 1 + draw(seed, n % EACH ? 9 : 1);
        p.owner[n] = c;
        p.kid_at[n] = kids;
        if (n % EACH == 5 && draw(seed, 4) == 0) far = draw(seed, classes);
        if (far < classes) p.kids[kids++] = far;
        p.cost[n] = draw(seed, 10) == 0 ? 0 : 1 + draw(seed, 30) + (far < classes ? 0 : 100);
    }
    p.kid_at[classes * EACH] = kids;
    p.roots[0] = 0;
    must(hyp_problem_link(&p, &diag));
    return p;
}

/* The least path from class 0, by Bellman and Ford. */
static double least_path(const hyp_problem *p)
{
    double *least = calloc(p->class_count, sizeof *least);
    for (uint32_t c = 0; c < p->class_count; c++) least[c] = INFINITY;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t n = p->node_count; n-- > 0;) {
            bool leaf = p->kid_at[n] == p->kid_at[n + 1];
            double cost = p->cost[n] + (leaf ? 0 : least[p->kids[p->kid_at[n]]]);
            if (!(cost < least[p->owner[n]])) continue;
            least[p->owner[n]] = cost;
            changed = true;
        }
    }
    double out = least[0];
    free(least);
    return out;
}

static void a_path_is_reduced_at_once(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (uint32_t classes = 40; classes <= 2560; classes *= 4) {
        hyp_problem p = random_path(&seed, classes), core;
        must(hyp_problem_core(&p, &core, &diag));
        for (uint32_t n = 0; n < core.node_count; n++) core.origin[n] = n;
        double best = least_path(&p);
        hyp_trails trails = {.leaves = core.node_count};
        must(hyp_reduce(&core, &trails, HYP_REDUCE_TREES, &diag));
        assert_int_equal(core.class_count, 1);
        assert_int_equal(core.node_count, 1);
        assert_true(same(core.cost[0], best));
        hyp_problem_dispose(&core);
        hyp_vec_free(&trails.pairs);

        hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = 1};
        hyp_extraction out = {0};
        uint32_t *choice = calloc(classes, sizeof *choice);
        hyp_free(p.up_at);
        hyp_free(p.up);
        must(hyp_problem_solve(&p, &options, choice, &out, &diag));
        assert_true(out.proven && same(out.dag_cost, best)); /* what was chosen costs as much */
        free(choice);
        hyp_problem_dispose(&p);
    }
}

/* A product of so many: a class for each interval, whose nodes split it in two at a cost of their own; and one that costs
 * nothing, which all read. With a `loan`, a node of the whole reads an interval that another of its children reads, too. */
static hyp_problem random_product(uint64_t *seed, uint32_t count, bool loan, double *out_least)
{
    enum { MOST = 24 };
    static double least[MOST][MOST + 1];
    static uint32_t class_of[MOST][MOST + 1];
    uint32_t classes = 1 + count * (count + 1) / 2, nodes = 1 + count + count * (count * count - 1) / 6 + loan, node = 1, kid = 0;
    hyp_problem p;
    must(hyp_problem_alloc(&p, classes, nodes, 3 * nodes, 1, &diag));
    p.owner[0] = 0, p.kid_at[0] = 0, p.cost[0] = 0;
    for (uint32_t length = 1, c = 1; length <= count; length++)
        for (uint32_t i = 0; i + length <= count; i++, c++) {
            uint32_t end = i + length, splits = length > 1 ? length - 1 : 1;
            class_of[i][end] = c;
            least[i][end] = INFINITY;
            for (uint32_t k = i + 1; k <= i + splits; k++, node++) {
                double cost = p.cost[node] = 1 + draw(seed, 50);
                p.owner[node] = c;
                p.kid_at[node] = kid;
                p.kids[kid++] = 0;
                if (length > 1) p.kids[kid++] = class_of[i][k], p.kids[kid++] = class_of[k][end];
                least[i][end] = fmin(least[i][end], cost + (length > 1 ? least[i][k] + least[k][end] : 0));
            }
        }
    if (loan) { /* all but the last, and the first */
        p.owner[node] = classes - 1;
        p.kid_at[node] = kid;
        p.kids[kid++] = class_of[0][count - 1], p.kids[kid++] = class_of[0][1];
        p.cost[node++] = 1e6;
    }
    p.kid_at[node] = kid;
    p.roots[0] = classes - 1;
    must(hyp_problem_link(&p, &diag));
    *out_least = least[0][count];
    return p;
}

static void a_tree_is_reduced_at_once(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (uint32_t count = 8; count <= 24; count += 8)
        for (int loan = 0; loan < 2; loan++) {
            double best;
            hyp_problem p = random_product(&seed, count, loan, &best), core;
            must(hyp_problem_core(&p, &core, &diag));
            for (uint32_t n = 0; n < core.node_count; n++) core.origin[n] = n;
            hyp_trails trails = {.leaves = core.node_count};
            must(hyp_reduce(&core, &trails, HYP_REDUCE_TREES, &diag));
            if (loan) /* an answer may share the first */
                assert_true(core.class_count > 1);
            else
                assert_true(core.class_count == 1 && core.node_count == 1 && same(core.cost[0], best));
            hyp_problem_dispose(&core);
            hyp_vec_free(&trails.pairs);
            hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = 1};
            hyp_extraction out = {0};
            uint32_t *choice = calloc(p.class_count, sizeof *choice);
            hyp_free(p.up_at);
            hyp_free(p.up);
            must(hyp_problem_solve(&p, &options, choice, &out, &diag));
            if (!loan) assert_true(out.proven && same(out.dag_cost, best));
            free(choice);
            hyp_problem_dispose(&p);
        }
}

static void bounds_are_never_above_the_least_cost(void **state)
{
    (void)state;
    uint64_t seed = 99;
    int tight = 0, rounds = 0;
    for (int round = 0; round < 600; round++) {
        hyp_problem p = random_problem(&seed, false), core;
        hyp_diag said;
        if (hyp_problem_core(&p, &core, &said) == HYP_OK) {
            double best = least_cost(&core);
            hyp_bound b;
            must(hyp_bound_begin(&b, &core, &diag));
            for (int i = 0; i < 200; i++) {
                hyp_bound_step(&b, best);
                if (i % 8 == 0) must(hyp_bound_cut(&b, &diag));
                if (i % 50 == 0) must(hyp_bound_raise(&b, best, &diag));
            }
            if (!isnan(best)) {
                assert_true(b.best <= best + 1e-9);
                tight += b.best > 0.95 * best;
                rounds++;
                /* What it fixes leaves every answer below the limit. */
                unsigned char required[CLASSES] = {0};
                hyp_bound_fix(&b, best * 1.0001 + 1e-6, core.cost, required);
                assert_true(same(least_cost(&core), best));
            }
            hyp_bound_end(&b);
            hyp_problem_dispose(&core);
        }
        hyp_problem_dispose(&p);
    }
    assert_true(tight > rounds / 2);
}

static void an_ended_budget_still_gives_an_answer(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 100; round++) {
        hyp_problem p = random_problem(&seed, false);
        double best = least_cost(&p);
        uint32_t choice[CLASSES];
        hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT};
        if (round % 2)
            options.budget_seconds = 1e-9;
        else
            options.budget_work = 1;
        hyp_extraction out = {0};
        hyp_diag said = {0};
        hyp_free(p.up_at);
        hyp_free(p.up);
        if (hyp_problem_solve(&p, &options, choice, &out, &said) == HYP_OK && !isnan(best)) {
            assert_true(out.lower_bound <= best + 1e-9 && out.dag_cost >= best - 1e-9);
            if (out.proven) assert_true(same(out.dag_cost, best));
        }
        hyp_problem_dispose(&p);
    }
}

/* Some classes are worth having, and to have them may be worth more than it costs. */
static void rewards_are_had_where_they_pay(void **state)
{
    (void)state;
    uint64_t seed = 11;
    int solved = 0, negative = 0, had = 0;
    for (int round = 0; round < 1500; round++) {
        hyp_problem p = random_problem(&seed, round % 2);
        for (uint32_t n = 0; n < p.node_count; n++)
            if (draw(&seed, 3) == 0) p.cost[n] -= round % 2 ? draw(&seed, 8) : 0.1 * draw(&seed, 100);
        double best = least_cost(&p);
        uint32_t choice[CLASSES];
        hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT};
        if (round % 3 == 0) options.budget_work = 1000000;
        hyp_extraction out = {0};
        hyp_diag said = {0};
        hyp_free(p.up_at);
        hyp_free(p.up);
        bool rewards = false;
        for (uint32_t n = 0; n < p.node_count; n++) rewards = rewards || p.cost[n] < 0;
        hyp_status status = isnan(best) ? HYP_ERR_UNSUPPORTED : hyp_problem_solve(&p, &options, choice, &out, &said);
        if (!isnan(best) && isinf(best)) assert_int_equal(status, HYP_ERR_UNSUPPORTED);
        if (!isnan(best) && !isinf(best)) {
            if (status != HYP_OK) fail_msg("round %d: %s", round, said.message);
            brute b = {.p = &p};
            memcpy(b.choice, choice, sizeof choice);
            assert_true(same(cost_of(&b), out.dag_cost));
            if (!same(out.dag_cost, best) || !out.proven)
                fail_msg("round %d: %g, the best is %g, bound %g", round, out.dag_cost, best, out.lower_bound);
            solved++;
            negative += best < 0;
            had += rewards;
        }
        hyp_problem_dispose(&p);
    }
    assert_true(solved > 700 && negative > 150 && had > 600);
}

/* Little work: an answer, and a bound that holds. */
static void rewards_within_a_budget(void **state)
{
    (void)state;
    uint64_t seed = 17;
    enum { PAIRS = 60 };
    hyp_problem p;
    must(hyp_problem_alloc(&p, 1 + 3 * PAIRS, 1 + 5 * PAIRS, 4 * PAIRS + PAIRS, 1, &diag));
    uint32_t node = 0, kid = 0;
    p.roots[0] = 0; /* needs all pairs; of a pair either side, which brings a reward that others bring, too */
    p.owner[node] = 0;
    p.cost[node] = 0;
    p.kid_at[node++] = kid;
    for (uint32_t i = 0; i < PAIRS; i++) p.kids[kid++] = 1 + 3 * i;
    for (uint32_t i = 0; i < PAIRS; i++) {
        for (uint32_t side = 0; side < 2; side++) {
            p.owner[node] = 1 + 3 * i;
            p.cost[node] = draw(&seed, 5);
            p.kid_at[node++] = kid;
            p.kids[kid++] = 2 + 3 * draw(&seed, PAIRS) + side;
            p.kids[kid++] = 2 + 3 * draw(&seed, PAIRS) + draw(&seed, 2);
        }
        for (uint32_t j = 0; j < 3 - (i == 0); j++) {
            p.owner[node] = j < 2 ? 2 + 3 * i + j : 2 + 3 * i;
            p.cost[node] = j < 2 ? -(double)draw(&seed, 9) : 1;
            p.kid_at[node++] = kid;
        }
    }
    p.node_count = node;
    p.kid_at[node] = kid;
    uint32_t choice[1 + 3 * PAIRS];
    double cost = INFINITY, bound = -INFINITY;
    for (uint64_t work = 1000; work < 100000000; work *= 100) {
        hyp_extraction out = {0};
        hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = work};
        must(hyp_problem_solve(&p, &options, choice, &out, &diag));
        hyp_free(p.up_at);
        hyp_free(p.up);
        p.up_at = p.up = NULL;
        cost = fmin(cost, out.dag_cost);
        bound = fmax(bound, out.lower_bound);
        assert_true(bound <= cost + 1e-9 && out.dag_cost < 0);
    }
    hyp_problem_dispose(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_agree_with_brute_force),
        cmocka_unit_test(rewards_are_had_where_they_pay),
        cmocka_unit_test(rewards_within_a_budget),
        cmocka_unit_test(each_reduction_keeps_the_least_cost),
        cmocka_unit_test(a_path_is_reduced_at_once),
        cmocka_unit_test(a_tree_is_reduced_at_once),
        cmocka_unit_test(bounds_are_never_above_the_least_cost),
        cmocka_unit_test(an_ended_budget_still_gives_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

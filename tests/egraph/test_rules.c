/* The rule language: what is read and refused, sequences, several roots, conditions, functions, and what
 * a run tells of its applications. */
#include "egraph/rules/language.h"
#include "support.h"

/* ---- reading ------------------------------------------------------------------------------------ */

static void rules_are_read_with_their_options(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, "; a comment\n"
                                      "(rule one :class R :ruleset fuse :doc \"says \\\"why\\\"\"\n  (f ?x)  =>  ?x)\n"
                                      "(birule two (f  ?x) <=> (g ?x))");
    assert_int_equal(hyp_ruleset_count(rules), 3);
    hyp_rule_info one = hyp_ruleset_rule(rules, 0);
    assert_string_equal(one.name, "one");
    assert_string_equal(one.numeric_class, "R");
    assert_string_equal(one.ruleset, "fuse");
    assert_string_equal(one.doc, "says \"why\"");
    assert_string_equal(one.text, "(rule one :class R :ruleset fuse :doc \"says \\\"why\\\"\" (f ?x) => ?x)");
    assert_string_equal(hyp_ruleset_rule(rules, 1).text, "(rule two (f ?x) => (g ?x))");
    assert_string_equal(hyp_ruleset_rule(rules, 2).name, "two-rev");
    assert_string_equal(hyp_ruleset_rule(rules, 2).text, "(rule two-rev (g ?x) => (f ?x))");
    assert_string_equal(hyp_ruleset_rule(rules, 2).doc, "");
    hyp_ruleset_destroy(rules);
    /* The canonical text is read back to itself. */
    hyp_ruleset *again = rules_of(eg, "(rule one :class R :ruleset fuse :doc \"says \\\"why\\\"\" (f ?x) => ?x)");
    assert_string_equal(hyp_ruleset_rule(again, 0).text,
                        "(rule one :class R :ruleset fuse :doc \"says \\\"why\\\"\" (f ?x) => ?x)");
    hyp_ruleset_destroy(again);
    hyp_ruleset_destroy(NULL);
    hyp_egraph_destroy(eg);
}

static void tab_separated_lines_are_read(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, "# name\tleft\tright\n\ncomm\t(+ ?a ?b)\t(+ ?b ?a)\t\r\nzero\t(+ ?a 0)\t?a\n");
    assert_int_equal(hyp_ruleset_count(rules), 2);
    term(eg, "(+ 0 x)");
    run_checked(eg, rules, 5);
    assert_true(equal(eg, "(+ 0 x)", "x"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void for_each_knows_lists_of_words(void **state)
{
    (void)state;
    static const char *const waves[] = {"sin", "cos", "tan", NULL};
    static const hyp_word_list lists[] = {{"waves", waves}, {NULL, NULL}};
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"(for-each <op> (waves... !exp) (rule r-<op> (<op> ?x) => ?x))", "t.rules:1:26: no word before this is exp"},
        {"(for-each <op> (ways...) (rule r-<op> (<op> ?x) => ?x))", "ways... is no list of words; known are: waves..."},
    };
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_egraph_name_lists(eg, lists);
    hyp_ruleset *rules = rules_of(eg, "(for-each <op> (exp waves... !cos) (rule r-<op> (<op> ?x) => (neg ?x)))");
    assert_int_equal(hyp_ruleset_count(rules), 3);
    assert_string_equal(hyp_ruleset_rule(rules, 0).name, "r-exp");
    assert_string_equal(hyp_ruleset_rule(rules, 1).name, "r-sin");
    assert_string_equal(hyp_ruleset_rule(rules, 2).text, "(rule r-tan (tan ?x) => (neg ?x))");
    hyp_ruleset_destroy(rules);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hyp_diag diag = {0};
        assert_int_equal(hyp_ruleset_parse(eg, "t.rules", bad[i].text, strlen(bad[i].text), &rules, &diag),
                         HYP_ERR_MALFORMED);
        if (!strstr(diag.message, bad[i].message)) fail_msg("%s\n  gave: %s", bad[i].text, diag.message);
    }
    hyp_egraph_destroy(eg);
}

static void for_each_reads_its_rules_once_for_each_word(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, "(for-each <op> (sin cos)\n"
                                      "  (rule <op>-neg :doc \"<op> of -x\" (<op> (neg ?x)) => (neg (<op> ?x)))\n"
                                      "  (birule a-<op> (a <op> ?x) <=> (<op>2<op> ?x)))");
    assert_int_equal(hyp_ruleset_count(rules), 6);
    assert_string_equal(hyp_ruleset_rule(rules, 0).text,
                        "(rule sin-neg :doc \"sin of -x\" (sin (neg ?x)) => (neg (sin ?x)))");
    assert_string_equal(hyp_ruleset_rule(rules, 3).name, "cos-neg");
    assert_string_equal(hyp_ruleset_rule(rules, 5).text, "(rule a-cos-rev (cos2cos ?x) => (a cos ?x))");
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static hyp_status always(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)call, (void)diag;
    *out = true;
    return HYP_OK;
}

static hyp_status first(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    (void)diag;
    *out = call->arg_count ? call->args[0] : HYP_NONE;
    return HYP_OK;
}

static void broken_rules_are_refused_at_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"(rule r (f ?x) =>\n  (g ?y))", "t.rules:2:6: rule r: ?y is not bound by the left side"},
        {"(rule r (f ?x) => ?x) (rule r (g ?x) => ?x)", "t.rules:1:23: rule r: there is a rule of this name already"},
        {"(birule r (f ?x ?y) <=> (g ?x))", "rule r-rev: ?y is not bound"},
        {"(rule r (f ?x) => ?x :if (nosuch ?x))", "t.rules:1:26: rule r: unknown condition 'nosuch'"},
        {"(rule r (f ?x) => ?x :if (first ?x))", "'first' is a function, not a condition"},
        {"(rule r (f ?x) => (always ?x))", "'always' is a condition, not a function"},
        {"(rule r (first ?x) => ?x)", "'first' is a registered function or condition and cannot be matched"},
        {"(rule r (f ?x) => ?x :if (always ?x ?x))", "'always' takes 1 arguments, not 2"},
        {"(rule r (f ?x) => ?x :if always)", "a condition is"},
        {"(rule r (f ?x) => ?x :if (not (always ?x) (always ?x)))", "'not' takes one condition, not 2"},
        {"(rule r ?x => (f ?x))", "a variable alone matches everything"},
        {"(rule r ?xs... => (f ?xs...))", "a variable alone matches everything"},
        {"(rule r (multi (?a = ?b)) => (union ?a ?a))", "a variable alone matches everything"},
        {"(rule r (f ?xs... ?ys...) => (g ?xs...))", "an e-node has at most one sequence variable"},
        {"(rule r (f (g ?xs...) ?xs...) => (g ?xs...))", "?xs... is bound twice; a sequence cannot be compared"},
        {"(rule r (f ?xs...) => ?xs...)", "stands for several children"},
        {"(rule r (f ?) => (g))", "a variable has a name"},
        {"(rule r (f ?...) => (g))", "a variable has a name"},
        {"(rule r (f ?x) => ?x ?x)", "a rule has one right side, this one has 2"},
        {"(rule r (f ?x) =>)", "after the name and the options come: left => right"},
        {"(rule r (f ?x) <=> ?x)", "after the name and the options come: left => right"},
        {"(rule r :colour blue (f ?x) => ?x)", "unknown option :colour"},
        {"(rule r (f ?x) => ?x :class)", ":class wants a value"},
        {"(rule r (f ?x) => ?x :class R more)", "nothing but options may follow"},
        {"(rule r (multi) => (union ?a ?a))", "at least one part"},
        {"(rule r (multi (f ?x)) => (union ?x ?x))", "a part of a multi-pattern is (?variable = term)"},
        {"(rule r (multi (?a = (f ?x))) => (g ?x))", "the right side of a multi-pattern is made of (let ?variable term) and (union term term)"},
        {"(rule r (multi (?a = (f ?x))) => (union ?a ?z))", "?z is not bound"},
        {"(rule r (multi (?a = (f ?x))) => (let ?m (g ?x)))", "a right side has a union"},
        {"(rule r (multi (?a = (f ?x))) => (union ?a ?m) (let ?m (g ?x)))", "?m is not bound"},
        {"(rule r (multi (?a = (f ?x))) => (let ?x (g ?x)) (union ?a ?x))", "?x stands for something already"},
        {"(rule r (multi (?a = (f ?x))) => (let ?m) (union ?a ?x))", "a name for a term is (let ?variable term)"},
        {"(rule r (f ?x) => (let ?m (g ?x)))", "?m is not bound"},
        {"(rule r (collect (?a = (f ?x))) => (union ?a ?x))", "a collection is (collect (KEY...) (?variable = term))"},
        {"(rule r (collect (?x) (f ?x)) => (union ?x ?x))", "a part of a multi-pattern is (?variable = term)"},
        {"(rule r (collect (?z) (?a = (f ?x))) => (union ?a ?x))", "?z is not bound"},
        {"(rule r (collect (?x) (?a = (f ?x ?w))) => (let ?m (g ?w)) (union ?a ?m))", "?w is another one for each part"},
        {"(rule r (collect (?x) (?a = (f ?x ?w))) => (let ?m (g (each ?w))))", "has a union, of each part"},
        {"(rule r (collect (?x) (?a = (f ?x ?w))) => (union ?a ?w) (union ?a ?x))", "has one union, of each part"},
        {"(rule r (collect (?x) (?a = (f ?x ?w))) => (let ?m (g (each ?w ?x))) (union ?a ?m))", "(each TERM) has one term"},
        {"(rule r (collect (?x) (?a = (f ?x ?w...))) => (union ?a ?x))", "no variables of several children"},
        {"(rule r () => a)", "a term in parentheses begins with an operator"},
        {"(rule r ((f) a) => a)", "a term in parentheses begins with an operator"},
        {"(rewrite r a => b)", "a rule is (rule name left => right)"},
        {"rule", "a rule is (rule name left => right)"},
        {"(rule (x) a => b)", "a rule has a name"},
        {"(for-each <op> (a) (rule r-<op> (f ?x) =>\n  (<op> ?y)))", "t.rules:2:9: rule r-a: ?y is not bound"},
        {"(for-each <op> (a b) (rule r (f ?x) => (<op> ?x)))", "rule r: there is a rule of this name already"},
        {"(for-each op (a) (rule r (f ?x) => ?x))", "after for-each come: a mark such as <op>"},
        {"(for-each <op>)", "after for-each come"},
        {"(for-each <op> (a (b)) (rule r-<op> (f ?x) => ?x))", "a word is wanted, not a list"},
        {"(for-each <op> (a) (for-each <x> (b) (rule r (f ?x) => ?x)))", "a rule is (rule name left => right)"},
        {"(rule r (f ?x) => (g ?x)", "t.rules:1:1: this '(' is never closed"},
        {"x\t(f ?a\t?a", "t.rules:1:3: this '(' is never closed"},
        {"# c\nx\t(f ?a)\t(g\t1)", "t.rules:2:10: this '(' is never closed"},
        {"# c\nx\t(f ?a)\t(g (h ?b))", "t.rules:2:16: rule x: ?b is not bound"},
        {"x\t(f ?a)", "a line is: name <tab> left <tab> right"},
        {"x\t(f ?a)\ta b", "a column holds one term, this one 2"},
    };
    hyp_egraph *eg = new_graph(false, NULL);
    must(hyp_egraph_register_condition(eg, "always", 1, always, NULL, &diag));
    must(hyp_egraph_register_function(eg, "first", -1, first, NULL, &diag));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hyp_diag diag = {0};
        hyp_ruleset *rules;
        hyp_status status = hyp_ruleset_parse(eg, "t.rules", bad[i].text, strlen(bad[i].text), &rules, &diag);
        if (status != HYP_ERR_MALFORMED || !strstr(diag.message, bad[i].message))
            fail_msg("%s\n  gave: %s", bad[i].text, status == HYP_OK ? "no error" : diag.message);
    }
    hyp_diag diag = {0};
    assert_int_equal(hyp_egraph_register_function(eg, "always", 1, first, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    hyp_egraph_destroy(eg);
}

/* A language with a keyword: (turn :by K X) stands for (turn K X). */
static hyp_status positional(void *user, hyp_arena *arena, const char *file, const hyp_sexpr *in, bool is_left,
                             const hyp_sexpr **out, hyp_diag *diag)
{
    *out = in;
    if (in->kind != HYP_SX_LIST) return HYP_OK;
    (*(int *)user) += is_left;
    hyp_sexpr *copy = hyp_arena_zalloc(arena, 1, sizeof *copy);
    hyp_sexpr **items = hyp_arena_zalloc(arena, in->count, sizeof *items);
    if (!copy || !items) return hyp_fail_memory(diag, sizeof *copy);
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->count; i++) {
        const hyp_sexpr *kid;
        if (hyp_sexpr_is(in->items[i], ":at"))
            return hyp_sexpr_fail(diag, file, in->items[i], HYP_ERR_MALFORMED, "turn has no attribute :at");
        if (hyp_sexpr_is(in->items[i], ":by")) continue;
        HYP_TRY(positional(user, arena, file, in->items[i], false, &kid, diag));
        items[n++] = (hyp_sexpr *)kid;
    }
    *copy = *in;
    copy->items = items;
    copy->count = n;
    *out = copy;
    return HYP_OK;
}

static void a_layer_above_desugars_terms(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules;
    int lefts = 0;
    must(hyp_egraph_register_condition(eg, "always", 1, always, NULL, &diag));
    static const char text[] =
        "(rule twice (turn :by \"(1 0)\" (turn :by \"(1 0)\" ?x)) => ?x :if (always (turn :by ?x ?x)))"
        "(rule both (multi (?a = (turn :by ?k ?x)) (?b = (flip ?x))) => (union ?a (turn :by ?k ?b)))";
    must(hyp_ruleset_parse_with(eg, "t", text, strlen(text), positional, &lefts, &rules, &diag));
    assert_int_equal(lefts, 3);
    assert_non_null(strstr(hyp_ruleset_rule(rules, 0).text, ":by \"(1 0)\"")); /* as it was written */
    term(eg, "(turn \"(1 0)\" (turn \"(1 0)\" x))");
    term(eg, "(turn x x)");
    run_checked(eg, rules, 3);
    assert_true(equal(eg, "(turn \"(1 0)\" (turn \"(1 0)\" x))", "x"));
    static const char more[] = "(rule undo (flip (flip ?x)) => ?x)";
    must(hyp_ruleset_extend_with(rules, "u", more, strlen(more), NULL, NULL, &diag));
    assert_string_equal(hyp_ruleset_rule(rules, 2).name, "undo");
    term(eg, "(flip (flip y))");
    run_checked(eg, rules, 3);
    assert_true(equal(eg, "(flip (flip y))", "y"));
    hyp_ruleset_destroy(rules);
    hyp_diag diag = {0};
    static const char bad[] = "(rule r\n (turn :at 1 ?x) => ?x)";
    assert_int_equal(hyp_ruleset_parse_with(eg, "t", bad, strlen(bad), positional, &lefts, &rules, &diag),
                     HYP_ERR_MALFORMED);
    assert_string_equal(diag.message, "rule r: t:2:8: turn has no attribute :at");
    hyp_egraph_destroy(eg);
}

/* ---- sequences and several roots ----------------------------------------------------------------- */

static void sequences_match_any_number_of_children(void **state)
{
    (void)state;
    static const char text[] = "(rule flat (cat ?a... (cat ?b...) ) => (cat ?a... ?b...))"
                               "(rule front (cat ?a... end) => (cat start ?a...))"
                               "(rule pair (two ?x ?r... ?y) => (ends ?x ?y (mid ?r...)))"
                               "(rule single (cat ?x) => ?x)";
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, text);
    term(eg, "(cat a b (cat c d e))");
    term(eg, "(cat p q end)");
    term(eg, "(cat end)");
    term(eg, "(two a b)");
    term(eg, "(two a b c d)");
    term(eg, "(two a)");
    term(eg, "(cat (cat))");
    run_checked(eg, rules, 6);
    assert_true(equal(eg, "(cat a b (cat c d e))", "(cat a b c d e)"));
    assert_true(equal(eg, "(cat p q end)", "(cat start p q)"));
    assert_true(equal(eg, "(cat end)", "(cat start)"));
    assert_true(equal(eg, "(two a b)", "(ends a b mid)"));
    assert_true(equal(eg, "(two a b c d)", "(ends a d (mid b c))"));
    assert_false(equal(eg, "(two a)", "(ends a a mid)"));
    assert_true(equal(eg, "(cat (cat))", "cat"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A child after a sequence is reached from below: the join goes upward through its last place. */
static void new_nodes_below_a_sequence_are_found(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule r (cat ?a... (neg ?x) ?y) => (ok ?x ?y ?a...))");
    term(eg, "(cat u v w z)");
    run_checked(eg, rules, 2);
    unite(eg, "w", "(neg n)");
    run_checked(eg, rules, 2);
    assert_true(equal(eg, "(cat u v w z)", "(ok n z u v)"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void several_roots_are_joined(void **state)
{
    (void)state;
    static const char text[] = "(rule merge (multi (?a = (mul ?x ?u)) (?b = (mul ?x ?v)))"
                               " => (union ?a (first (pair ?x ?u ?v))) (union ?b (second (pair ?x ?u ?v))))";
    hyp_egraph *eg = new_graph(true, NULL);
    hyp_ruleset *rules = rules_of(eg, text);
    term(eg, "(mul x p)");
    run_checked(eg, rules, 2);
    term(eg, "(mul x q)"); /* joins with an old root */
    term(eg, "(mul y q)");
    run_checked(eg, rules, 3);
    assert_true(equal(eg, "(mul x p)", "(first (pair x p q))"));
    assert_true(equal(eg, "(mul x q)", "(second (pair x p q))"));
    assert_true(equal(eg, "(mul x q)", "(first (pair x q p))"));
    assert_false(equal(eg, "(mul y q)", "(second (pair x p q))"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void roots_without_a_common_variable_are_all_pairs(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule all (multi (?a = (f ?x)) (?b = (g ?y))) => (union (seen ?x ?y) done))");
    static const char *const terms[] = {"(f 1)", "(f 2)", "(g 3)"};
    for (int i = 0; i < 3; i++) term(eg, terms[i]);
    hyp_egraph_run_report report;
    must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
    assert_int_equal(report.rules[0].matches, 2);
    hyp_egraph_run_report_dispose(&report);
    term(eg, "(g 4)");
    must(hyp_egraph_run(eg, rules, NULL, &report, &diag));
    assert_int_equal(report.rules[0].matches, 2); /* only the new ones */
    assert_true(equal(eg, "(seen 1 4)", "(seen 2 3)"));
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A constant that joins a class later makes old nodes match. */
static void constants_may_come_late(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    hyp_ruleset *rules = rules_of(eg, "(rule unit (* ?a (s 0)) => ?a) (rule whole (s (s 0)) => two)");
    term(eg, "(* x y)");
    term(eg, "(s y)");
    run_checked(eg, rules, 2);
    unite(eg, "y", "(s 0)");
    run_checked(eg, rules, 2);
    assert_true(equal(eg, "(* x y)", "x"));
    assert_true(equal(eg, "(s y)", "two"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- conditions and functions --------------------------------------------------------------------- */

/* The number that a class is, by one of its leaves. */
static bool number_of(hyp_egraph *eg, hyp_class_id c, long *out)
{
    size_t count, kids;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
    for (size_t i = 0; i < count; i++) {
        char *end;
        const char *name = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, nodes[i]));
        hyp_enode_children(eg, nodes[i], &kids);
        *out = strtol(name, &end, 10);
        if (kids == 0 && end != name && *end == 0) return true;
    }
    return false;
}

static hyp_status is_number(const hyp_call *call, bool *out, hyp_diag *diag)
{
    long n;
    (void)diag;
    ++*(int *)call->user;
    *out = number_of(call->eg, call->args[0], &n);
    return HYP_OK;
}

static hyp_status less(const hyp_call *call, bool *out, hyp_diag *diag)
{
    long a, b;
    (void)diag;
    *out = number_of(call->eg, call->args[0], &a) && number_of(call->eg, call->args[1], &b) && a < b;
    return HYP_OK;
}

/* The sum of its arguments; declines when one is no number. */
static hyp_status sum(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    long total = 0, n;
    for (size_t i = 0; i < call->arg_count; i++, total += n)
        if (!number_of(call->eg, call->args[i], &n)) return HYP_OK;
    char text[32];
    hyp_symbol symbol;
    snprintf(text, sizeof text, "%ld", total);
    HYP_TRY(hyp_egraph_symbol(call->eg, text, &symbol, diag));
    return hyp_egraph_add(call->eg, symbol, NULL, 0, out, NULL, diag);
}

static hyp_egraph *graph_with_callbacks(int *calls)
{
    hyp_egraph *eg = new_graph(true, NULL);
    must(hyp_egraph_register_condition(eg, "is-number", 1, is_number, calls, &diag));
    must(hyp_egraph_register_condition(eg, "less", 2, less, NULL, &diag));
    must(hyp_egraph_register_function(eg, "sum", -1, sum, NULL, &diag));
    return eg;
}

static void conditions_decide(void **state)
{
    (void)state;
    int calls = 0;
    hyp_egraph *eg = graph_with_callbacks(&calls);
    hyp_ruleset *rules =
        rules_of(eg, "(rule a (f ?x) => (num ?x) :if (is-number ?x))"
                     "(rule b (f ?x) => (no ?x) :if (not (is-number ?x)))"
                     "(rule c (g ?x ?y) => (in ?x ?y) :if (and (less 0 ?x) (or (less ?x ?y) (is-number (k ?y)))))"
                     "(rule d (g ?x ?y) => (big ?x) :if (less (sum ?x 1) (sum ?y 1 1)))");
    static const char *const terms[] = {"(f 1)", "(f x)", "(g 1 2)", "(g 2 1)", "(g 3 t)", "(k t)", "(g -1 2)"};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) term(eg, terms[i]);
    unite(eg, "(k t)", "9");
    run_checked(eg, rules, 5);
    assert_true(equal(eg, "(f 1)", "(num 1)"));
    assert_false(equal(eg, "(f x)", "(num x)"));
    assert_true(equal(eg, "(f x)", "(no x)"));
    assert_true(equal(eg, "(g 1 2)", "(in 1 2)"));
    assert_false(equal(eg, "(g 2 1)", "(in 2 1)"));
    assert_true(equal(eg, "(g 3 t)", "(in 3 t)"));
    assert_false(equal(eg, "(g -1 2)", "(in -1 2)"));
    assert_true(equal(eg, "(g 1 2)", "(big 1)"));
    assert_false(equal(eg, "(g 3 t)", "(big 3)"));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* A match that was declined is asked again when more is known, and only then. */
static void a_declined_match_gets_another_chance(void **state)
{
    (void)state;
    int calls = 0;
    hyp_egraph *eg = graph_with_callbacks(&calls);
    hyp_ruleset *rules =
        rules_of(eg, "(rule a (f ?x) => (num ?x) :if (is-number ?x)) (rule s (g ?x ?y) => (sum ?x ?y))");
    hyp_class_id f = term(eg, "(f x)"), g = term(eg, "(g x 2)");
    run_checked(eg, rules, 3);
    int before = calls;
    run_checked(eg, rules, 3);
    assert_int_equal(calls, before); /* nothing changed */
    unite(eg, "x", "5");
    run_checked(eg, rules, 3);
    assert_int_equal(hyp_egraph_find(eg, f), hyp_egraph_find(eg, term(eg, "(num 5)")));
    assert_int_equal(hyp_egraph_find(eg, g), hyp_egraph_find(eg, term(eg, "7")));
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static void functions_compute_the_right_side(void **state)
{
    (void)state;
    int calls = 0;
    hyp_egraph *eg = graph_with_callbacks(&calls);
    hyp_ruleset *rules = rules_of(eg, "(rule fold (+ ?xs...) => (sum ?xs...))"
                                      "(rule wrap (w ?x ?y) => (box (sum ?x (sum ?y 1)) (junk ?x)))");
    term(eg, "(+ 1 2 3 (+ 4 5))");
    term(eg, "(w 3 4)");
    term(eg, "(w 3 z)");
    run_checked(eg, rules, 5);
    assert_true(equal(eg, "(+ 1 2 3 (+ 4 5))", "15"));
    assert_true(equal(eg, "(w 3 4)", "(box 8 (junk 3))"));
    size_t nodes = hyp_egraph_node_count(eg);
    run_checked(eg, rules, 5);
    assert_int_equal(hyp_egraph_node_count(eg), nodes); /* a function that declines leaves nothing behind */
    hyp_symbol box;
    must(hyp_egraph_symbol(eg, "box", &box, &diag));
    for (hyp_enode_id n = 0, boxes = 0; n < hyp_egraph_enode_bound(eg); n++) {
        boxes += hyp_enode_op(eg, n) == box;
        assert_true(boxes <= 1);
    }
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

static hyp_status broken_condition(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)call, (void)out;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the oracle is silent");
}

static hyp_status meddling(const hyp_call *call, bool *out, hyp_diag *diag)
{
    *out = true;
    if (hyp_egraph_rebuild(call->eg, NULL) != HYP_ERR_INVALID_ARGUMENT)
        return hyp_fail(diag, HYP_ERR_INTERNAL, "a rebuild inside a callback was allowed");
    return HYP_OK;
}

static void a_failing_callback_stops_the_run(void **state)
{
    (void)state;
    hyp_egraph *eg = new_graph(false, NULL);
    must(hyp_egraph_register_condition(eg, "broken", -1, broken_condition, NULL, &diag));
    must(hyp_egraph_register_condition(eg, "meddling", -1, meddling, NULL, &diag));
    hyp_ruleset *rules = rules_of(eg, "(rule a (f ?x) => ?x) (rule b (g ?x) => ?x :if (broken))");
    hyp_ruleset *fine = rules_of(eg, "(rule c (h ?x) => ?x :if (meddling))");
    term(eg, "(g (f x))");
    term(eg, "(h x)");
    hyp_egraph_run_report report;
    hyp_diag said = {0};
    assert_int_equal(hyp_egraph_run(eg, rules, NULL, &report, &said), HYP_ERR_UNSUPPORTED);
    assert_string_equal(said.message, "rule b: the oracle is silent");
    assert_int_equal(report.stop, HYP_STOP_ERROR);
    hyp_egraph_run_report_dispose(&report);
    must(hyp_egraph_check(eg, &diag));
    must(hyp_egraph_run(eg, fine, NULL, &report, &diag));
    assert_int_equal(report.stop, HYP_STOP_SATURATED);
    hyp_egraph_run_report_dispose(&report);
    assert_true(equal(eg, "(h x)", "x"));
    hyp_ruleset_destroy(fine);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
}

/* ---- what a run tells ---------------------------------------------------------------------------- */

typedef struct heard {
    hyp_egraph *eg;
    size_t count, created;
    bool explain;
} heard;

static void hear(const hyp_rewrite_event *event, void *user)
{
    heard *h = user;
    h->count++;
    h->created += event->created != HYP_NONE;
    assert_int_equal(event->matched_count, h->explain ? 2 : 0);
    if (!h->explain) return;
    assert_string_equal(hyp_egraph_symbol_name(h->eg, hyp_enode_op(h->eg, event->matched[0])), "relu");
    assert_string_equal(hyp_egraph_symbol_name(h->eg, hyp_enode_op(h->eg, event->matched[1])), "linear");
    assert_int_equal(hyp_egraph_find(h->eg, event->left), hyp_enode_class(h->eg, event->matched[0]));
}

static void rewrites_are_told_and_origins_kept(void **state)
{
    (void)state;
    for (int explain = 0; explain < 2; explain++) {
        hyp_egraph *eg = new_graph(explain, NULL);
        hyp_ruleset *other = rules_of(eg, "(rule never (never) => never)");
        hyp_ruleset *rules =
            rules_of(eg, "(rule skip (never ?x) => ?x) (rule fuse (relu (linear ?w ?b ?x)) => (fused ?w ?b ?x))");
        hyp_class_id root = term(eg, "(relu (linear w2 b2 (relu (linear w1 b1 x))))");
        heard h = {.eg = eg, .explain = explain};
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .on_rewrite = hear, .user = &h};
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        assert_int_equal(h.count, 2);
        assert_int_equal(h.created, 2);
        assert_int_equal(report.rules[1].applications, 2);
        assert_int_equal(report.rules[0].matches, 0);
        hyp_egraph_run_report_dispose(&report);
        size_t count, fused = 0;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, root, &count);
        for (size_t i = 0; i < count; i++) {
            hyp_origin origin = hyp_egraph_origin(eg, nodes[i]);
            if (!explain || strcmp(hyp_egraph_symbol_name(eg, hyp_enode_op(eg, nodes[i])), "fused")) {
                assert_int_equal(origin.rule, HYP_NONE);
                continue;
            }
            fused++;
            assert_int_equal(origin.rule, 1);
            assert_int_equal(origin.ruleset, 1);
            assert_int_equal(origin.matched_count, 2);
            assert_string_equal(hyp_egraph_symbol_name(eg, hyp_enode_op(eg, origin.matched[1])), "linear");
        }
        assert_int_equal(fused, explain);
        hyp_ruleset_destroy(rules);
        hyp_ruleset_destroy(other);
        hyp_egraph_destroy(eg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_read_with_their_options),
        cmocka_unit_test(tab_separated_lines_are_read),
        cmocka_unit_test(for_each_knows_lists_of_words),
        cmocka_unit_test(for_each_reads_its_rules_once_for_each_word),
        cmocka_unit_test(broken_rules_are_refused_at_their_place),
        cmocka_unit_test(a_layer_above_desugars_terms),
        cmocka_unit_test(sequences_match_any_number_of_children),
        cmocka_unit_test(new_nodes_below_a_sequence_are_found),
        cmocka_unit_test(several_roots_are_joined),
        cmocka_unit_test(roots_without_a_common_variable_are_all_pairs),
        cmocka_unit_test(constants_may_come_late),
        cmocka_unit_test(conditions_decide),
        cmocka_unit_test(a_declined_match_gets_another_chance),
        cmocka_unit_test(functions_compute_the_right_side),
        cmocka_unit_test(a_failing_callback_stops_the_run),
        cmocka_unit_test(rewrites_are_told_and_origins_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

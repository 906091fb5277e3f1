"""Replays a shared proof that `hypatia-egraph saturate --explain --json` printed, from the text of the rules alone.

Knows nothing of the library. Terms are tuples (operator, child...) and equal ones are one object, so a proof whose
terms share parts is as cheap as it is short. Both forms of rule file are read, with multi-patterns and sequence
variables; conditions are not, as the rules of the tool have none."""
import json
import re


def tokens(text):
    for word in re.findall(r';[^\n]*|"(?:[^"\\]|\\.)*"|[()]|[^\s();"]+', text):
        if not word.startswith(";"):
            yield word


def read_all(text):
    """S-expressions as nested lists; quoted symbols without their quotes."""
    stack = [[]]
    for word in tokens(text):
        if word == "(":
            stack.append([])
        elif word == ")":
            stack[-2].append(stack.pop())
        else:
            stack[-1].append(json.loads(word) if word.startswith('"') else word)
    assert len(stack) == 1
    return stack[0]


def read(text):
    form, = read_all(text)
    return form


def read_rules(text):
    """By name: the parts [(variable or None, pattern)] of the left side, and the actions [(left, right)]."""
    rules = {}

    def add(name, left, actions):
        assert name not in rules
        if left[0] == "multi":
            parts = [(variable, pattern) for variable, _, pattern in left[1:]]
            rules[name] = (parts, [(a, b) for _, a, b in actions])
        else:
            rules[name] = ([(None, left)], [(left, right) for right in actions])

    if "\t" in text:
        for line in text.splitlines():
            if line.strip() and not line.startswith(("#", ";")):
                name, left, right = line.split("\t")[:3]
                add(name, read(left), [read(right)])
        return rules
    for kind, name, *rest in read_all(text):
        arrow = rest.index("=>" if kind == "rule" else "<=>")
        add(name, rest[arrow - 1], rest[arrow + 1:])
        if kind == "birule":
            add(name + "-rev", rest[arrow + 1], [rest[arrow - 1]])
    return rules


def is_variable(pattern):
    return isinstance(pattern, str) and pattern.startswith("?")


def bind(pattern, term, bound):
    """Matches, and notes in `bound` what the variables stand for; a sequence stands for a tuple of terms."""
    if is_variable(pattern):
        return bound.setdefault(pattern, term) is term
    op, *kids = [pattern] if isinstance(pattern, str) else pattern
    many = [i for i, kid in enumerate(kids) if is_variable(kid) and kid.endswith("...")]
    if term[0] != op or len(term) - 1 < len(kids) - len(many) or (not many and len(term) - 1 != len(kids)):
        return False
    given = term[1:]
    if many:
        i, extra = many[0], len(given) - len(kids) + 1
        taken, given = given[i:i + extra], given[:i] + given[i + extra:]
        seen = bound.setdefault(kids.pop(i), taken)
        if len(seen) != len(taken) or not all(x is y for x, y in zip(seen, taken)):
            return False
    return all(bind(p, t, bound) for p, t in zip(kids, given))


def instance(pattern, bound, cons):
    if is_variable(pattern):
        return bound[pattern]
    op, *kids = [pattern] if isinstance(pattern, str) else pattern
    made = []
    for kid in kids:
        if is_variable(kid) and kid.endswith("..."):
            made.extend(bound[kid])
        else:
            made.append(instance(kid, bound, cons))
    return cons(op, made)


def is_use(rule, a, b, parts, cons):
    """Whether the rule turns a into b; `parts` are (what the variable stands for, the instance) of a multi-pattern."""
    left, actions = rule
    bound, instances = {}, {}
    if left[0][0] is None:
        parts = [(None, a)] if not parts else []
    if len(parts) != len(left):
        return False
    for (variable, pattern), (root, whole) in zip(left, parts):
        if not bind(pattern, whole, bound) or (variable and not bind(variable, root, bound)):
            return False
        instances[variable] = whole
    return any((a is instance(x, bound, cons) or (is_variable(x) and a is instances.get(x)))
               and b is instance(y, bound, cons) for x, y in actions)


def replay(proof, rules, start, goal):
    """Raises AssertionError where the proof is wrong."""
    made = {}

    def cons(op, kids):
        return made.setdefault((op, *map(id, kids)), (op, *kids))

    def of_text(tree):
        return cons(tree, ()) if isinstance(tree, str) else cons(tree[0], [of_text(t) for t in tree[1:]])

    terms = []
    for op, *kids in proof["terms"]:
        assert all(0 <= k < len(terms) for k in kids)
        terms.append(cons(op, [terms[k] for k in kids]))
    proven = []

    def use(link):
        a, b, lemma = link
        if lemma is None:
            assert terms[a] is terms[b]
        else:
            assert 0 <= lemma < len(proven)
            p, q = proven[lemma]
            assert (terms[a] is p and terms[b] is q) or (terms[a] is q and terms[b] is p)
        return terms[a], terms[b]

    for lemma in proof["lemmas"]:
        a, b = terms[lemma["from"]], terms[lemma["to"]]
        uses = [use(u) for u in lemma["uses"]]
        if lemma["kind"] == "rule":
            assert lemma["rule"] in rules and is_use(rules[lemma["rule"]], a, b, uses, cons), lemma
        elif lemma["kind"] == "congruence":
            assert a[0] == b[0] and len(a) == len(b) == len(uses) + 1
            assert all(x is p and y is q for x, y, (p, q) in zip(a[1:], b[1:], uses))
        else:
            assert lemma["kind"] == "chain", lemma  # nothing is stated here
            ends = [a] + [q for _, q in uses]
            assert ends[-1] is b and all(p is e for (p, _), e in zip(uses, ends))
        proven.append((a, b))
    first, last = use(proof["claim"])
    assert first is of_text(read(start)) and last is of_text(read(goal))

"""Replays a shared proof that `hypatia-egraph saturate --explain --json` printed, from the text of the rules alone.

Knows nothing of the library. Terms are tuples (operator, child...) and equal ones are one object, so a proof whose
terms share parts is as cheap as it is short."""


def tokens(text):
    return text.replace("(", " ( ").replace(")", " ) ").split()


def read(stream):
    word = stream.pop(0)
    if word != "(":
        return word
    items = []
    while stream[0] != ")":
        items.append(read(stream))
    stream.pop(0)
    return items


def read_rules(text):
    """Lines of name, left, right; names may not repeat."""
    rules = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith(("#", ";")):
            name, left, right = line.split("\t")[:3]
            assert name not in rules
            rules[name] = (read(tokens(left)), read(tokens(right)))
    return rules


def bind(pattern, term, bound):
    if isinstance(pattern, str) and pattern.startswith("?"):
        return bound.setdefault(pattern, term) is term
    pattern = [pattern] if isinstance(pattern, str) else pattern
    return (len(pattern) == len(term) and pattern[0] == term[0]
            and all(bind(p, t, bound) for p, t in zip(pattern[1:], term[1:])))


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
            assert 0 <= lemma < len(proven) and {id(terms[a]), id(terms[b])} == set(map(id, proven[lemma]))
        return terms[a], terms[b]

    for lemma in proof["lemmas"]:
        a, b = terms[lemma["from"]], terms[lemma["to"]]
        uses = [use(u) for u in lemma["uses"]]
        if lemma["kind"] == "rule":
            left, right = rules[lemma["rule"]]
            bound = {}
            assert bind(left, a, bound) and bind(right, b, bound) and not uses, lemma
        elif lemma["kind"] == "congruence":
            assert a[0] == b[0] and len(a) == len(b) == len(uses) + 1
            assert all(x is p and y is q for x, y, (p, q) in zip(a[1:], b[1:], uses))
        else:
            assert lemma["kind"] == "chain", lemma  # nothing is stated here
            ends = [a] + [q for _, q in uses]
            assert ends[-1] is b and all(p is e for (p, _), e in zip(uses, ends))
        proven.append((a, b))
    first, last = use(proof["claim"])
    assert first is of_text(read(tokens(start))) and last is of_text(read(tokens(goal)))

/* Canonical form. An expression is a polynomial: a sum of terms, each an integer coefficient times a product
 * of atoms. Terms are in ascending graded order (degree, then the sorted atoms one by one), which multiplication
 * keeps, so polynomial division ends. Atoms are compared by structure, never by id, so the form does not
 * depend on the order in which a table met its expressions. Polynomials and atoms are hash-consed.
 */
#include "ir/dim.h"

#include <string.h>

enum {
    MAX_TERMS = 64,
    MAX_DEGREE = 15, /* odd, so that a term has no padding and can be hashed as bytes */
    MAX_SIZE = 1024, /* atoms and terms of an expression written out as a tree */
    MAX_DEPTH = 64,  /* of atoms in operands of atoms: bounds recursion */
    FIRST_SLOTS = 64
};

typedef struct term {
    int64_t coef; /* neither 0 nor INT64_MIN, so it can be negated */
    uint32_t degree;
    uint32_t atoms[MAX_DEGREE]; /* ascending, repeated for powers; 0 above degree */
} term;

/* A polynomial being worked on. */
typedef struct poly {
    uint32_t count;
    term terms[MAX_TERMS];
} poly;

typedef struct atom {
    uint32_t kind;   /* hyp_dim_kind: SYMBOL, FLOORDIV, MIN or MAX */
    uint32_t symbol; /* SYMBOL: its index, else 0 */
    hyp_dim a, b;    /* operands, else 0 */
} atom;

/* Objects named by their bytes: equal bytes, equal id. */
typedef struct entry {
    const void *bytes; /* in the table's arena */
    uint32_t len;
    uint32_t size;  /* as a tree, at most MAX_SIZE */
    uint32_t depth; /* at most MAX_DEPTH */
} entry;
typedef struct hashcons {
    HYP_VEC(entry) entries;
    uint32_t *slots; /* open addressing, id + 1, 0 = empty; slot_count a power of two */
    size_t slot_count;
} hashcons;

struct hyp_dims {
    hyp_arena arena;
    hyp_intern symbols;
    hashcons atoms; /* of atom */
    hashcons exprs; /* of term[]: never a constant; expression i is the hyp_dim INT64_MIN + i */
    hyp_dim unequal[2];
};

/* ---- table ------------------------------------------------------------------------------------------ */

static size_t probe(const hashcons *h, const void *bytes, uint32_t len)
{
    size_t mask = h->slot_count - 1, i = (size_t)hyp_hash(bytes, len, 0) & mask;
    for (; h->slots[i]; i = (i + 1) & mask) {
        const entry *e = &h->entries.data[h->slots[i] - 1];
        if (e->len == len && memcmp(e->bytes, bytes, len) == 0) break;
    }
    return i;
}

/* `e` is complete but its bytes are the caller's. */
static hyp_status intern(hashcons *h, hyp_arena *arena, entry e, uint32_t *out_id, hyp_diag *diag)
{
    if (h->entries.len * 2 >= h->slot_count) {
        size_t next = h->slot_count ? h->slot_count * 2 : FIRST_SLOTS;
        uint32_t *slots = hyp_calloc(next, sizeof *slots);
        if (!slots) return hyp_fail_memory(diag, next * sizeof *slots);
        hyp_free(h->slots);
        h->slots = slots;
        h->slot_count = next;
        for (uint32_t id = 0; id < h->entries.len; id++)
            slots[probe(h, h->entries.data[id].bytes, h->entries.data[id].len)] = id + 1;
    }
    size_t i = probe(h, e.bytes, e.len);
    if (!h->slots[i]) {
        HYP_TRY(hyp_vec_reserve(&h->entries, h->entries.len + 1, diag));
        void *copy = hyp_arena_alloc(arena, e.len);
        if (!copy) return hyp_fail_memory(diag, e.len);
        memcpy(copy, e.bytes, e.len);
        e.bytes = copy;
        h->entries.data[h->entries.len++] = e;
        h->slots[i] = (uint32_t)h->entries.len;
    }
    *out_id = h->slots[i] - 1;
    return HYP_OK;
}

hyp_status hyp_dims_create(hyp_dims **out, hyp_diag *diag)
{
    hyp_dims *dims = hyp_calloc(1, sizeof *dims);
    if (!dims) return hyp_fail_memory(diag, sizeof *dims);
    *out = dims;
    return HYP_OK;
}

void hyp_dims_destroy(hyp_dims *dims)
{
    if (!dims) return;
    hyp_vec_free(&dims->atoms.entries);
    hyp_free(dims->atoms.slots);
    hyp_vec_free(&dims->exprs.entries);
    hyp_free(dims->exprs.slots);
    hyp_intern_dispose(&dims->symbols);
    hyp_arena_dispose(&dims->arena);
    hyp_free(dims);
}

void hyp_dims_note_unequal(hyp_dims *dims, hyp_dim a, hyp_dim b)
{
    dims->unequal[0] = a;
    dims->unequal[1] = b;
}

void hyp_dims_unequal(const hyp_dims *dims, hyp_dim *out_a, hyp_dim *out_b)
{
    *out_a = dims->unequal[0];
    *out_b = dims->unequal[1];
}

size_t hyp_dims_symbol_count(const hyp_dims *dims) { return dims->symbols.names.len; }

const char *hyp_dims_symbol_name(const hyp_dims *dims, size_t i) { return dims->symbols.names.data[i]; }

static const atom *get_atom(const hyp_dims *dims, uint32_t id) { return dims->atoms.entries.data[id].bytes; }

/* The entry of an expression that is not a constant. */
static const entry *get_expr(const hyp_dims *dims, hyp_dim d) { return &dims->exprs.entries.data[d - INT64_MIN]; }

static const term *get_terms(const hyp_dims *dims, hyp_dim d, uint32_t *out_count)
{
    const entry *e = get_expr(dims, d);
    *out_count = e->len / (uint32_t)sizeof(term);
    return e->bytes;
}

static hyp_status too_large(hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "the expression of a dimension is too large (limits: %d terms, degree %d, %d operations, %d deep); "
                    "give some symbolic dimensions fixed values",
                    MAX_TERMS, MAX_DEGREE, MAX_SIZE, MAX_DEPTH);
}

static hyp_status overflow(hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_LIMIT, "the arithmetic of a dimension overflows 63 bits");
}

/* ---- order ------------------------------------------------------------------------------------------ */

static int compare_dims(const hyp_dims *dims, hyp_dim a, hyp_dim b);

static int compare_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_atoms(const hyp_dims *dims, uint32_t a, uint32_t b)
{
    if (a == b) return 0;
    const atom *x = get_atom(dims, a), *y = get_atom(dims, b);
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->kind == HYP_DIM_SYMBOL)
        return strcmp(hyp_dims_symbol_name(dims, x->symbol), hyp_dims_symbol_name(dims, y->symbol));
    int c = compare_dims(dims, x->a, y->a);
    return c ? c : compare_dims(dims, x->b, y->b);
}

static int compare_monomials(const hyp_dims *dims, const term *a, const term *b)
{
    if (a->degree != b->degree) return a->degree < b->degree ? -1 : 1;
    for (uint32_t i = 0; i < a->degree; i++) {
        int c = compare_atoms(dims, a->atoms[i], b->atoms[i]);
        if (c) return c;
    }
    return 0;
}

static int compare_dims(const hyp_dims *dims, hyp_dim a, hyp_dim b)
{
    if (a == b) return 0;
    if (hyp_dim_is_const(a) || hyp_dim_is_const(b))
        return hyp_dim_is_const(a) && hyp_dim_is_const(b) ? compare_i64(a, b) : hyp_dim_is_const(a) ? -1 : 1;
    uint32_t n, m;
    const term *x = get_terms(dims, a, &n), *y = get_terms(dims, b, &m);
    for (uint32_t i = 0; i < n && i < m; i++) {
        int c = compare_monomials(dims, &x[i], &y[i]);
        if (!c) c = compare_i64(x[i].coef, y[i].coef);
        if (c) return c;
    }
    return n < m ? -1 : 1; /* not both the same: interning would have made a == b */
}

/* ---- polynomials ------------------------------------------------------------------------------------ */

static void load(const hyp_dims *dims, hyp_dim d, poly *out)
{
    out->count = 0;
    if (d == 0) return;
    if (hyp_dim_is_const(d)) {
        out->count = 1;
        out->terms[0] = (term){.coef = d};
        return;
    }
    const term *terms = get_terms(dims, d, &out->count);
    memcpy(out->terms, terms, out->count * sizeof *terms);
}

static hyp_status store(hyp_dims *dims, const poly *p, hyp_dim *out, hyp_diag *diag)
{
    if (p->count == 0) return *out = 0, HYP_OK;
    if (p->count == 1 && p->terms[0].degree == 0) {
        if (!hyp_dim_is_const(p->terms[0].coef)) return overflow(diag);
        return *out = p->terms[0].coef, HYP_OK;
    }
    entry e = {.bytes = p->terms, .len = p->count * (uint32_t)sizeof *p->terms};
    for (uint32_t i = 0; i < p->count; i++) {
        e.size++;
        for (uint32_t j = 0; j < p->terms[i].degree; j++) {
            const entry *factor = &dims->atoms.entries.data[p->terms[i].atoms[j]];
            e.size += factor->size;
            if (factor->depth > e.depth) e.depth = factor->depth;
        }
        if (e.size > MAX_SIZE) return too_large(diag);
    }
    uint32_t id;
    HYP_TRY(intern(&dims->exprs, &dims->arena, e, &id, diag));
    *out = INT64_MIN + id;
    return HYP_OK;
}

/* p += t */
static hyp_status add_term(const hyp_dims *dims, poly *p, const term *t, hyp_diag *diag)
{
    uint32_t low = 0, high = p->count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        int c = compare_monomials(dims, &p->terms[mid], t);
        if (c == 0) {
            int64_t sum;
            if (!hyp_add_i64(p->terms[mid].coef, t->coef, &sum) || sum == INT64_MIN) return overflow(diag);
            p->terms[mid].coef = sum;
            if (p->terms[mid].coef == 0) {
                p->count--;
                memmove(&p->terms[mid], &p->terms[mid + 1], (p->count - mid) * sizeof *t);
            }
            return HYP_OK;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (p->count == MAX_TERMS) return too_large(diag);
    memmove(&p->terms[low + 1], &p->terms[low], (p->count - low) * sizeof *t);
    p->terms[low] = *t;
    p->count++;
    return HYP_OK;
}

static hyp_status multiply_terms(const hyp_dims *dims, const term *a, const term *b, term *out, hyp_diag *diag)
{
    term t = {.degree = a->degree + b->degree};
    if (t.degree > MAX_DEGREE) return too_large(diag);
    if (!hyp_mul_i64(a->coef, b->coef, &t.coef) || t.coef == INT64_MIN) return overflow(diag);
    for (uint32_t i = 0, j = 0; i + j < t.degree;) {
        bool from_a = j == b->degree || (i < a->degree && compare_atoms(dims, a->atoms[i], b->atoms[j]) <= 0);
        uint32_t id = from_a ? a->atoms[i] : b->atoms[j];
        t.atoms[i + j] = id;
        if (from_a)
            i++;
        else
            j++;
    }
    *out = t;
    return HYP_OK;
}

/* p += q * t */
static hyp_status add_product(const hyp_dims *dims, poly *p, const poly *q, const term *t, hyp_diag *diag)
{
    for (uint32_t i = 0; i < q->count; i++) {
        term product;
        HYP_TRY(multiply_terms(dims, &q->terms[i], t, &product, diag));
        HYP_TRY(add_term(dims, p, &product, diag));
    }
    return HYP_OK;
}

/* a + scale * b */
static hyp_status combine(hyp_dims *dims, hyp_dim a, int64_t scale, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    if (hyp_dim_is_const(a) && hyp_dim_is_const(b)) {
        int64_t sum;
        if (!hyp_mul_i64(scale, b, &sum) || !hyp_add_i64(a, sum, &sum) || !hyp_dim_is_const(sum)) return overflow(diag);
        return *out = sum, HYP_OK;
    }
    poly p, q;
    load(dims, a, &p);
    load(dims, b, &q);
    HYP_TRY(add_product(dims, &p, &q, &(term){.coef = scale}, diag));
    return store(dims, &p, out, diag);
}

hyp_status hyp_dim_add(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    return combine(dims, a, 1, b, out, diag);
}

hyp_status hyp_dim_sub(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    return combine(dims, a, -1, b, out, diag);
}

hyp_status hyp_dim_mul(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    if (hyp_dim_is_const(a) && hyp_dim_is_const(b)) {
        int64_t product;
        if (!hyp_mul_i64(a, b, &product) || !hyp_dim_is_const(product)) return overflow(diag);
        return *out = product, HYP_OK;
    }
    poly p, q, r = {.count = 0};
    load(dims, a, &p);
    load(dims, b, &q);
    for (uint32_t i = 0; i < p.count; i++) HYP_TRY(add_product(dims, &r, &q, &p.terms[i], diag));
    return store(dims, &r, out, diag);
}

/* ---- division and comparison ------------------------------------------------------------------------ */

/* b != 0, and not INT64_MIN by -1. */
static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/* True when the atoms of b are among those of a; *out is the rest of a's atoms, coefficient 1. */
static bool cancel(const term *a, const term *b, term *out)
{
    term t = {.coef = 1};
    uint32_t j = 0;
    for (uint32_t i = 0; i < a->degree; i++) {
        if (j < b->degree && a->atoms[i] == b->atoms[j])
            j++;
        else if (t.degree < a->degree - b->degree)
            t.atoms[t.degree++] = a->atoms[i];
        else
            return false;
    }
    *out = t;
    return j == b->degree;
}

/* a = q b + r by division on the leading terms (b's leading coefficient > 0): no term of r could be divided
 * further. */
static hyp_status divide(const hyp_dims *dims, const poly *a, const poly *b, poly *q, poly *r, hyp_diag *diag)
{
    const term *lead = &b->terms[b->count - 1];
    q->count = 0;
    *r = *a;
    for (uint32_t left = r->count; left > 0;) {
        const term *t = &r->terms[left - 1];
        term part;
        if (t->degree < lead->degree || !cancel(t, lead, &part) ||
            (part.coef = floor_divide(t->coef, lead->coef)) == 0) {
            left--;
            continue;
        }
        uint32_t above = r->count - left;
        bool exact = t->coef % lead->coef == 0;
        HYP_TRY(add_term(dims, q, &part, diag));
        part.coef = -part.coef;
        HYP_TRY(add_product(dims, r, b, &part, diag));
        left = r->count - above - !exact;
    }
    return HYP_OK;
}

static void negate(poly *p)
{
    for (uint32_t i = 0; i < p->count; i++) p->terms[i].coef = -p->terms[i].coef;
}

bool hyp_dim_divides(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out_quotient)
{
    poly p, d, q, r;
    load(dims, b, &p);
    load(dims, a, &d);
    if (d.count == 0) return false;
    if (d.terms[d.count - 1].coef < 0) {
        negate(&d);
        negate(&p);
    }
    return divide(dims, &p, &d, &q, &r, NULL) == HYP_OK && r.count == 0 &&
           store(dims, &q, out_quotient, NULL) == HYP_OK;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* The dim that is this atom alone. */
static hyp_status make_atom(hyp_dims *dims, hyp_dim_kind kind, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    atom t = {.kind = (uint32_t)kind, .a = a, .b = b};
    entry e = {.bytes = &t, .len = sizeof t, .size = 1};
    const hyp_dim operands[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (hyp_dim_is_const(operands[i])) continue;
        const entry *operand = get_expr(dims, operands[i]);
        e.size += operand->size;
        if (operand->depth >= e.depth) e.depth = operand->depth + 1;
    }
    uint32_t id;
    if (e.size > MAX_SIZE || e.depth > MAX_DEPTH) return too_large(diag);
    HYP_TRY(intern(&dims->atoms, &dims->arena, e, &id, diag));
    return store(dims, &(poly){.count = 1, .terms = {{.coef = 1, .degree = 1, .atoms = {id}}}}, out, diag);
}

hyp_status hyp_dim_symbol(hyp_dims *dims, const char *name, hyp_dim *out, hyp_diag *diag)
{
    uint32_t symbol, id;
    HYP_TRY(hyp_intern_add(&dims->symbols, name, strlen(name), &symbol, diag));
    atom t = {.kind = HYP_DIM_SYMBOL, .symbol = symbol};
    HYP_TRY(intern(&dims->atoms, &dims->arena, (entry){.bytes = &t, .len = sizeof t, .size = 1}, &id, diag));
    return store(dims, &(poly){.count = 1, .terms = {{.coef = 1, .degree = 1, .atoms = {id}}}}, out, diag);
}

hyp_status hyp_dim_floordiv(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    if (b == 0) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a dimension is divided by zero");
    poly p, d, q, r;
    load(dims, a, &p);
    load(dims, b, &d);
    if (d.terms[d.count - 1].coef < 0) {
        negate(&d);
        negate(&p);
    }
    HYP_TRY(divide(dims, &p, &d, &q, &r, diag));
    if (r.count == 0) return store(dims, &q, out, diag);
    /* A divisor of several terms is divided out wholly or not at all. */
    if (d.count > 1) {
        q.count = 0;
        r = p;
    }
    int64_t common = 0;
    for (uint32_t i = 0; i < r.count; i++) common = gcd(r.terms[i].coef, common);
    for (uint32_t i = 0; i < d.count; i++) common = gcd(d.terms[i].coef, common);
    for (uint32_t i = 0; i < r.count; i++) r.terms[i].coef /= common;
    for (uint32_t i = 0; i < d.count; i++) d.terms[i].coef /= common;
    hyp_dim whole, rest, divisor, quotient;
    HYP_TRY(store(dims, &q, &whole, diag));
    HYP_TRY(store(dims, &r, &rest, diag));
    HYP_TRY(store(dims, &d, &divisor, diag));
    if (hyp_dim_is_const(rest) && hyp_dim_is_const(divisor))
        quotient = floor_divide(rest, divisor);
    else
        HYP_TRY(make_atom(dims, HYP_DIM_FLOORDIV, rest, divisor, &quotient, diag));
    return hyp_dim_add(dims, whole, quotient, out, diag);
}

bool hyp_dim_is_nonneg(const hyp_dims *dims, hyp_dim d)
{
    if (hyp_dim_is_const(d)) return d >= 0;
    uint32_t count;
    const term *terms = get_terms(dims, d, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (terms[i].coef < 0) return false;
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            const atom *t = get_atom(dims, terms[i].atoms[j]);
            if (t->kind == HYP_DIM_SYMBOL) continue;
            bool a = hyp_dim_is_nonneg(dims, t->a), b = hyp_dim_is_nonneg(dims, t->b);
            if (t->kind == HYP_DIM_MAX ? !a && !b : !a || !b) return false;
        }
    }
    return true;
}

static hyp_status extremum(hyp_dims *dims, hyp_dim_kind kind, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    hyp_dim over, under;
    HYP_TRY(hyp_dim_sub(dims, a, b, &over, diag));
    HYP_TRY(hyp_dim_sub(dims, b, a, &under, diag));
    if (hyp_dim_is_nonneg(dims, over)) return *out = kind == HYP_DIM_MAX ? a : b, HYP_OK;
    if (hyp_dim_is_nonneg(dims, under)) return *out = kind == HYP_DIM_MAX ? b : a, HYP_OK;
    bool swap = compare_dims(dims, a, b) > 0;
    return make_atom(dims, kind, swap ? b : a, swap ? a : b, out, diag);
}

hyp_status hyp_dim_min(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    return extremum(dims, HYP_DIM_MIN, a, b, out, diag);
}

hyp_status hyp_dim_max(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    return extremum(dims, HYP_DIM_MAX, a, b, out, diag);
}

/* ---- walking ---------------------------------------------------------------------------------------- */

bool hyp_dim_is_linear(const hyp_dims *dims, hyp_dim d, size_t *out_symbol, int64_t *out_scale, int64_t *out_offset)
{
    if (hyp_dim_is_const(d)) return false;
    uint32_t count;
    const term *terms = get_terms(dims, d, &count), *last = &terms[count - 1];
    if (count > 2 || last->degree != 1 || (count == 2 && terms[0].degree != 0)) return false;
    const atom *t = get_atom(dims, last->atoms[0]);
    if (t->kind != HYP_DIM_SYMBOL) return false;
    *out_symbol = t->symbol;
    *out_scale = last->coef;
    *out_offset = count == 2 ? terms[0].coef : 0;
    return true;
}

bool hyp_dim_depends(const hyp_dims *dims, hyp_dim d, size_t symbol)
{
    if (hyp_dim_is_const(d)) return false;
    uint32_t count;
    const term *terms = get_terms(dims, d, &count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            const atom *t = get_atom(dims, terms[i].atoms[j]);
            bool here = t->kind == HYP_DIM_SYMBOL
                            ? t->symbol == symbol
                            : hyp_dim_depends(dims, t->a, symbol) || hyp_dim_depends(dims, t->b, symbol);
            if (here) return true;
        }
    return false;
}

/* -(d - term i) / (coefficient of term i), if that is whole. */
static bool solve_term(hyp_dims *dims, hyp_dim d, uint32_t i, hyp_dim *out)
{
    poly p;
    load(dims, d, &p);
    int64_t scale = p.terms[i].coef;
    p.count--;
    memmove(&p.terms[i], &p.terms[i + 1], (p.count - i) * sizeof *p.terms);
    for (uint32_t k = 0; k < p.count; k++) {
        if (p.terms[k].coef % scale != 0) return false;
        p.terms[k].coef = -(p.terms[k].coef / scale);
    }
    return store(dims, &p, out, NULL) == HYP_OK;
}

bool hyp_dim_solve(hyp_dims *dims, hyp_dim d, size_t *out_symbol, hyp_dim *out_value)
{
    if (hyp_dim_is_const(d)) return false;
    uint32_t count;
    const term *terms = get_terms(dims, d, &count); /* stays where it is: the arena never moves */
    bool found = false, found_nonneg = false;
    for (uint32_t i = 0; i < count; i++) {
        const atom *t = terms[i].degree == 1 ? get_atom(dims, terms[i].atoms[0]) : NULL;
        hyp_dim value;
        if (!t || t->kind != HYP_DIM_SYMBOL || !solve_term(dims, d, i, &value)) continue;
        if (hyp_dim_depends(dims, value, t->symbol) || (hyp_dim_is_const(value) && value < 0)) continue;
        bool nonneg = hyp_dim_is_nonneg(dims, value);
        if (found && (found_nonneg > nonneg || (found_nonneg == nonneg && *out_symbol > t->symbol))) continue;
        found = true;
        found_nonneg = nonneg;
        *out_symbol = t->symbol;
        *out_value = value;
    }
    return found;
}

static hyp_status eval_atom(const hyp_dims *dims, const atom *t, const int64_t *symbols, int64_t *out, hyp_diag *diag)
{
    if (t->kind == HYP_DIM_SYMBOL) {
        *out = symbols[t->symbol];
        if (*out < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the symbolic dimension '%s' has no value",
                            hyp_dims_symbol_name(dims, t->symbol));
        return HYP_OK;
    }
    int64_t a, b;
    HYP_TRY(hyp_dim_eval(dims, t->a, symbols, &a, diag));
    HYP_TRY(hyp_dim_eval(dims, t->b, symbols, &b, diag));
    if (t->kind == HYP_DIM_MIN) return *out = a < b ? a : b, HYP_OK;
    if (t->kind == HYP_DIM_MAX) return *out = a > b ? a : b, HYP_OK;
    if (b == 0) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a dimension is divided by zero");
    if (a == INT64_MIN && b == -1) return overflow(diag);
    *out = floor_divide(a, b);
    return HYP_OK;
}

hyp_status hyp_dim_eval(const hyp_dims *dims, hyp_dim d, const int64_t *symbols, int64_t *out, hyp_diag *diag)
{
    if (hyp_dim_is_const(d)) return *out = d, HYP_OK;
    uint32_t count;
    const term *terms = get_terms(dims, d, &count);
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t product = terms[i].coef, factor = 0;
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            HYP_TRY(eval_atom(dims, get_atom(dims, terms[i].atoms[j]), symbols, &factor, diag));
            if (!hyp_mul_i64(product, factor, &product)) return overflow(diag);
        }
        if (!hyp_add_i64(sum, product, &sum)) return overflow(diag);
    }
    *out = sum;
    return HYP_OK;
}

static hyp_status substitute_atom(hyp_dims *dims, atom t, const hyp_dim *replacement, hyp_dim *out, hyp_diag *diag)
{
    if (t.kind == HYP_DIM_SYMBOL) return *out = replacement[t.symbol], HYP_OK;
    hyp_dim a, b;
    HYP_TRY(hyp_dim_substitute(dims, t.a, replacement, &a, diag));
    HYP_TRY(hyp_dim_substitute(dims, t.b, replacement, &b, diag));
    if (t.kind == HYP_DIM_FLOORDIV) return hyp_dim_floordiv(dims, a, b, out, diag);
    return extremum(dims, (hyp_dim_kind)t.kind, a, b, out, diag);
}

hyp_status hyp_dim_substitute(hyp_dims *dims, hyp_dim d, const hyp_dim *replacement, hyp_dim *out, hyp_diag *diag)
{
    if (hyp_dim_is_const(d)) return *out = d, HYP_OK;
    uint32_t count;
    const term *terms = get_terms(dims, d, &count); /* stays where it is: the arena never moves */
    hyp_dim sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        hyp_dim product = terms[i].coef, factor = 0;
        if (!hyp_dim_is_const(product)) return overflow(diag);
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            HYP_TRY(substitute_atom(dims, *get_atom(dims, terms[i].atoms[j]), replacement, &factor, diag));
            HYP_TRY(hyp_dim_mul(dims, product, factor, &product, diag));
        }
        HYP_TRY(hyp_dim_add(dims, sum, product, &sum, diag));
    }
    *out = sum;
    return HYP_OK;
}

hyp_status hyp_dim_inspect(hyp_dims *dims, hyp_dim d, hyp_dim_view *out, hyp_diag *diag)
{
    *out = (hyp_dim_view){.kind = HYP_DIM_CONST, .value = d};
    if (hyp_dim_is_const(d)) return HYP_OK;
    poly rest, first = {.count = 1};
    load(dims, d, &rest);
    if (rest.count > 1) {
        out->kind = HYP_DIM_ADD;
        first.terms[0] = rest.terms[0];
        rest.count--;
        memmove(rest.terms, rest.terms + 1, rest.count * sizeof *rest.terms);
    } else if (rest.terms[0].coef != 1) {
        out->kind = HYP_DIM_MUL;
        first.terms[0] = (term){.coef = rest.terms[0].coef};
        rest.terms[0].coef = 1;
    } else if (rest.terms[0].degree > 1) {
        term *t = &rest.terms[0];
        out->kind = HYP_DIM_MUL;
        first.terms[0] = (term){.coef = 1, .degree = 1, .atoms = {t->atoms[0]}};
        t->degree--;
        memmove(t->atoms, t->atoms + 1, t->degree * sizeof *t->atoms);
        t->atoms[t->degree] = 0;
    } else {
        const atom *t = get_atom(dims, rest.terms[0].atoms[0]);
        *out = (hyp_dim_view){.kind = (hyp_dim_kind)t->kind, .value = t->symbol, .a = t->a, .b = t->b};
        return HYP_OK;
    }
    out->value = 0;
    HYP_TRY(store(dims, &first, &out->a, diag));
    return store(dims, &rest, &out->b, diag);
}

/* ---- text ------------------------------------------------------------------------------------------- */

/* A name that can stand bare in a dimension: letters, digits and _ . - after a letter or _, and none of
 * the words that mean something else to a reader. */
static bool is_plain(const char *name)
{
    static const char *const taken[] = {"floordiv", "min", "max", "inf", "nan"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0) return false;
    for (const char *p = name; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
        if (!letter && (p == name || !((*p >= '0' && *p <= '9') || *p == '.' || *p == '-'))) return false;
    }
    return *name != 0;
}

static void print_atom(hyp_strbuf *sb, const hyp_dims *dims, const atom *t)
{
    if (t->kind == HYP_DIM_SYMBOL) {
        const char *name = hyp_dims_symbol_name(dims, t->symbol);
        if (is_plain(name))
            hyp_strbuf_puts(sb, name);
        else
            hyp_strbuf_quote(sb, name);
        return;
    }
    hyp_strbuf_puts(sb, t->kind == HYP_DIM_FLOORDIV ? "(floordiv " : t->kind == HYP_DIM_MIN ? "(min " : "(max ");
    hyp_dim_print(sb, dims, t->a);
    hyp_strbuf_puts(sb, " ");
    hyp_dim_print(sb, dims, t->b);
    hyp_strbuf_puts(sb, ")");
}

static void print_term(hyp_strbuf *sb, const hyp_dims *dims, const term *t)
{
    bool product = t->degree > 1 || (t->degree == 1 && t->coef != 1);
    if (product) hyp_strbuf_puts(sb, "(*");
    if (t->coef != 1 || t->degree == 0) hyp_strbuf_printf(sb, product ? " %lld" : "%lld", (long long)t->coef);
    for (uint32_t i = 0; i < t->degree; i++) {
        if (product) hyp_strbuf_puts(sb, " ");
        print_atom(sb, dims, get_atom(dims, t->atoms[i]));
    }
    if (product) hyp_strbuf_puts(sb, ")");
}

void hyp_dim_print(hyp_strbuf *sb, const hyp_dims *dims, hyp_dim d)
{
    if (hyp_dim_is_const(d)) {
        hyp_strbuf_printf(sb, "%lld", (long long)d);
        return;
    }
    uint32_t count;
    const term *terms = get_terms(dims, d, &count);
    if (count == 1) {
        print_term(sb, dims, terms);
        return;
    }
    hyp_strbuf_puts(sb, "(+");
    for (uint32_t i = 0; i < count; i++) {
        hyp_strbuf_puts(sb, " ");
        print_term(sb, dims, &terms[i]);
    }
    hyp_strbuf_puts(sb, ")");
}

hyp_status hyp_dim_parse(hyp_dims *dims, const char *file, const hyp_sexpr *sx, hyp_dim *out, hyp_diag *diag)
{
    typedef hyp_status operation(hyp_dims *, hyp_dim, hyp_dim, hyp_dim *, hyp_diag *);
    static const struct {
        const char *name;
        operation *apply;
    } operations[] = {{"+", hyp_dim_add},
                      {"*", hyp_dim_mul},
                      {"floordiv", hyp_dim_floordiv},
                      {"min", hyp_dim_min},
                      {"max", hyp_dim_max}};
    if (sx->kind == HYP_SX_INT) {
        if (!hyp_dim_is_const(sx->integer)) return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "too small");
        return *out = sx->integer, HYP_OK;
    }
    if (sx->kind == HYP_SX_STRING || (sx->kind == HYP_SX_SYMBOL && is_plain(sx->text)))
        return hyp_dim_symbol(dims, sx->text, out, diag);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (!hyp_sexpr_is_form(sx, operations[i].name)) continue;
        if (sx->count < 3 || (sx->count > 3 && operations[i].apply == hyp_dim_floordiv))
            return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED, "'%s' wants two operands", operations[i].name);
        hyp_dim all, next;
        HYP_TRY(hyp_dim_parse(dims, file, sx->items[1], &all, diag));
        for (uint32_t j = 2; j < sx->count; j++) {
            HYP_TRY(hyp_dim_parse(dims, file, sx->items[j], &next, diag));
            hyp_status status = operations[i].apply(dims, all, next, &all, diag);
            if (status != HYP_OK) {
                hyp_diag_prefix(diag, "%s:%u:%u", file, sx->line, sx->column);
                return status == HYP_ERR_INVALID_ARGUMENT ? HYP_ERR_MALFORMED : status;
            }
        }
        return *out = all, HYP_OK;
    }
    return hyp_sexpr_fail(diag, file, sx, HYP_ERR_MALFORMED,
                          "a dimension is an integer, a name (quoted if it has odd characters) or one of (+ a b), "
                          "(* a b), (floordiv a b), (min a b), (max a b)");
}

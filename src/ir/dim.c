/* dim.c - arithmetic on dims, all of which ends in the canonical form: see dim_table.h. */
#include <string.h>

#include "ir/dim_table.h"

enum {
    MAX_TERMS = HYP_DIM_MAX_TERMS,
    MAX_DEGREE = HYP_DIM_MAX_DEGREE,
    MAX_SIZE = 1024, /* atoms and terms of an expression written out as a tree */
    MAX_DEPTH = 64,  /* of atoms in operands of atoms: bounds recursion */
    FIRST_SLOTS = 64
};

typedef hyp_dim_term term;
typedef hyp_dim_poly poly;
typedef hyp_dim_atom atom;
typedef hyp_dim_entry entry;
typedef hyp_dim_hashcons hashcons;

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

static hyp_status too_large(hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "the expression of a dimension is too large (limits: %d terms, degree %d, %d operations, %d deep); "
                    "give some symbolic dimensions fixed values",
                    MAX_TERMS, MAX_DEGREE, MAX_SIZE, MAX_DEPTH);
}

hyp_status hyp_dim_overflow(hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_LIMIT, "the arithmetic of a dimension overflows 63 bits");
}

/* ---- order ------------------------------------------------------------------------------------------ */

static int compare_dims(const hyp_dims *dims, hyp_dim a, hyp_dim b);

static int compare_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_atoms(const hyp_dims *dims, uint32_t a, uint32_t b)
{
    if (a == b) return 0;
    const atom *x = hyp_dim_get_atom(dims, a), *y = hyp_dim_get_atom(dims, b);
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
    const term *x = hyp_dim_get_terms(dims, a, &n), *y = hyp_dim_get_terms(dims, b, &m);
    for (uint32_t i = 0; i < n && i < m; i++) {
        int c = compare_monomials(dims, &x[i], &y[i]);
        if (!c) c = compare_i64(x[i].coef, y[i].coef);
        if (c) return c;
    }
    return n < m ? -1 : 1; /* not both the same: interning would have made a == b */
}

/* ---- polynomials ------------------------------------------------------------------------------------ */

void hyp_dim_load(const hyp_dims *dims, hyp_dim d, poly *out)
{
    out->count = 0;
    if (d == 0) return;
    if (hyp_dim_is_const(d)) {
        out->count = 1;
        out->terms[0] = (term){.coef = d};
        return;
    }
    const term *terms = hyp_dim_get_terms(dims, d, &out->count);
    memcpy(out->terms, terms, out->count * sizeof *terms);
}

hyp_status hyp_dim_store(hyp_dims *dims, const poly *p, hyp_dim *out, hyp_diag *diag)
{
    if (p->count == 0) return *out = 0, HYP_OK;
    if (p->count == 1 && p->terms[0].degree == 0) {
        if (!hyp_dim_is_const(p->terms[0].coef)) return hyp_dim_overflow(diag);
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
            if (!hyp_add_i64(p->terms[mid].coef, t->coef, &sum) || sum == INT64_MIN) return hyp_dim_overflow(diag);
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
    if (!hyp_mul_i64(a->coef, b->coef, &t.coef) || t.coef == INT64_MIN) return hyp_dim_overflow(diag);
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
        if (!hyp_mul_i64(scale, b, &sum) || !hyp_add_i64(a, sum, &sum) || !hyp_dim_is_const(sum)) return hyp_dim_overflow(diag);
        return *out = sum, HYP_OK;
    }
    poly p, q;
    hyp_dim_load(dims, a, &p);
    hyp_dim_load(dims, b, &q);
    HYP_TRY(add_product(dims, &p, &q, &(term){.coef = scale}, diag));
    return hyp_dim_store(dims, &p, out, diag);
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
        if (!hyp_mul_i64(a, b, &product) || !hyp_dim_is_const(product)) return hyp_dim_overflow(diag);
        return *out = product, HYP_OK;
    }
    poly p, q, r = {.count = 0};
    hyp_dim_load(dims, a, &p);
    hyp_dim_load(dims, b, &q);
    for (uint32_t i = 0; i < p.count; i++) HYP_TRY(add_product(dims, &r, &q, &p.terms[i], diag));
    return hyp_dim_store(dims, &r, out, diag);
}

/* ---- division and comparison ------------------------------------------------------------------------ */

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
            (part.coef = hyp_dim_floor(t->coef, lead->coef)) == 0) {
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
    hyp_dim_load(dims, b, &p);
    hyp_dim_load(dims, a, &d);
    if (d.count == 0) return false;
    if (d.terms[d.count - 1].coef < 0) {
        negate(&d);
        negate(&p);
    }
    return divide(dims, &p, &d, &q, &r, NULL) == HYP_OK && r.count == 0 &&
           hyp_dim_store(dims, &q, out_quotient, NULL) == HYP_OK;
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
        const entry *operand = &dims->exprs.entries.data[operands[i] - INT64_MIN];
        e.size += operand->size;
        if (operand->depth >= e.depth) e.depth = operand->depth + 1;
    }
    uint32_t id;
    if (e.size > MAX_SIZE || e.depth > MAX_DEPTH) return too_large(diag);
    HYP_TRY(intern(&dims->atoms, &dims->arena, e, &id, diag));
    return hyp_dim_store(dims, &(poly){.count = 1, .terms = {{.coef = 1, .degree = 1, .atoms = {id}}}}, out, diag);
}

hyp_status hyp_dim_symbol(hyp_dims *dims, const char *name, hyp_dim *out, hyp_diag *diag)
{
    uint32_t symbol, id;
    HYP_TRY(hyp_intern_add(&dims->symbols, name, strlen(name), &symbol, diag));
    atom t = {.kind = HYP_DIM_SYMBOL, .symbol = symbol};
    HYP_TRY(intern(&dims->atoms, &dims->arena, (entry){.bytes = &t, .len = sizeof t, .size = 1}, &id, diag));
    return hyp_dim_store(dims, &(poly){.count = 1, .terms = {{.coef = 1, .degree = 1, .atoms = {id}}}}, out, diag);
}

hyp_status hyp_dim_floordiv(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    if (b == 0) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a dimension is divided by zero");
    poly p, d, q, r;
    hyp_dim_load(dims, a, &p);
    hyp_dim_load(dims, b, &d);
    if (d.terms[d.count - 1].coef < 0) {
        negate(&d);
        negate(&p);
    }
    HYP_TRY(divide(dims, &p, &d, &q, &r, diag));
    if (r.count == 0) return hyp_dim_store(dims, &q, out, diag);
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
    HYP_TRY(hyp_dim_store(dims, &q, &whole, diag));
    HYP_TRY(hyp_dim_store(dims, &r, &rest, diag));
    HYP_TRY(hyp_dim_store(dims, &d, &divisor, diag));
    if (hyp_dim_is_const(rest) && hyp_dim_is_const(divisor))
        quotient = hyp_dim_floor(rest, divisor);
    else
        HYP_TRY(make_atom(dims, HYP_DIM_FLOORDIV, rest, divisor, &quotient, diag));
    return hyp_dim_add(dims, whole, quotient, out, diag);
}

bool hyp_dim_is_nonneg(const hyp_dims *dims, hyp_dim d)
{
    if (hyp_dim_is_const(d)) return d >= 0;
    uint32_t count;
    const term *terms = hyp_dim_get_terms(dims, d, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (terms[i].coef < 0) return false;
        for (uint32_t j = 0; j < terms[i].degree; j++) {
            const atom *t = hyp_dim_get_atom(dims, terms[i].atoms[j]);
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

#include "kernels/product.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "kernels/openmp.h"

#ifdef HYP_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

bool hyp_product_is_fast(void) { return true; }

/* One thread works in oneDNN from here on, of all that this thread would start; returns how many it was before. */
static int take_one_thread(void (**out_set)(int))
{
    int (*max_threads)(void);
    void *get = hyp_openmp_symbol("omp_get_max_threads"), *set = hyp_openmp_symbol("omp_set_num_threads");
    memcpy(&max_threads, &get, sizeof get);
    memcpy(out_set, &set, sizeof set);
    int before = get && set ? max_threads() : 1;
    if (before > 1) (*out_set)(1);
    return before;
}

/* c[m n] = a b of this many terms, which lie in matrices of `k`; false where oneDNN cannot. */
static bool multiply_part(const hyp_product *p, const float *a, const float *b, int64_t depth, float *c)
{
    return dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, depth, 1, a, p->trans_a ? p->m : p->k,
                      b, p->trans_b ? p->k : p->n, 0, c, p->n) == dnnl_success;
}

/* False where oneDNN cannot, or there is no memory. */
static bool multiply_by_library(const hyp_product *p, double *c)
{
    float *part = hyp_malloc((size_t)(p->m * p->n) * sizeof *part);
    void (*set_threads)(int) = NULL;
    int before = part ? take_one_thread(&set_threads) : 1;
    bool done = part != NULL;
    for (int64_t from = 0; from < p->k && done; from += HYP_PRODUCT_DEPTH) {
        int64_t depth = p->k - from < HYP_PRODUCT_DEPTH ? p->k - from : HYP_PRODUCT_DEPTH;
        done =
            multiply_part(p, p->a + from * (p->trans_a ? p->m : 1), p->b + from * (p->trans_b ? 1 : p->n), depth, part);
        for (int64_t i = 0; done && i < p->m * p->n; i++) c[i] = from ? c[i] + (double)part[i] : (double)part[i];
    }
    if (before > 1) set_threads(before);
    hyp_free(part);
    return done;
}
#else
bool hyp_product_is_fast(void) { return false; }

static bool multiply_by_library(const hyp_product *p, double *c)
{
    (void)p, (void)c;
    return false;
}
#endif

/* ---- plain loops ------------------------------------------------------------------------------------------ */

enum { COLUMNS = 256, DEPTH = 128 }; /* of a block of b, which stays in the cache for all rows of a */

/* c[m, first .. first + width) += a[m, from .. from + depth) block[depth width] */
static void add_block(const hyp_product *p, int64_t first, int64_t width, int64_t from, int64_t depth,
                      const float *block, double *c)
{
    int64_t row = p->trans_a ? 1 : p->k, column = p->trans_a ? p->m : 1;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t l = 0; l < depth; l++) {
            double factor = (double)p->a[i * row + (from + l) * column], *to = c + i * p->n + first;
            const float *values = block + l * COLUMNS;
            for (int64_t j = 0; j < width; j++) to[j] += factor * (double)values[j];
        }
}

/* Sums in double, in ascending order of k. */
static hyp_status multiply_by_loops(const hyp_product *p, double *c, hyp_diag *diag)
{
    float *block = hyp_malloc(sizeof *block * COLUMNS * DEPTH);
    if (!block) return hyp_fail_memory(diag, sizeof *block * COLUMNS * DEPTH);
    for (int64_t i = 0; i < p->m * p->n; i++) c[i] = 0;
    for (int64_t first = 0; first < p->n; first += COLUMNS) {
        int64_t width = p->n - first < COLUMNS ? p->n - first : COLUMNS;
        for (int64_t from = 0; from < p->k; from += DEPTH) {
            int64_t depth = p->k - from < DEPTH ? p->k - from : DEPTH;
            for (int64_t l = 0; l < depth; l++)
                for (int64_t j = 0; j < width; j++)
                    block[l * COLUMNS + j] =
                        p->trans_b ? p->b[(first + j) * p->k + from + l] : p->b[(from + l) * p->n + first + j];
            add_block(p, first, width, from, depth, block, c);
        }
    }
    hyp_free(block);
    return HYP_OK;
}

/* ---- the library, checked --------------------------------------------------------------------------------- */

static bool all_finite(const float *x, int64_t count)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t none = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        none |= (bits & exponent) == exponent;
    }
    return none == 0;
}

static double a_at(const hyp_product *p, int64_t i, int64_t l)
{
    return (double)p->a[p->trans_a ? l * p->m + i : i * p->k + l];
}

static double b_at(const hyp_product *p, int64_t l, int64_t j)
{
    return (double)p->b[p->trans_b ? j * p->k + l : l * p->n + j];
}

/* Whether element (i, j) is the sum of its terms, up to what sums of floats of HYP_PRODUCT_DEPTH may be off. */
static bool is_right(const hyp_product *p, const double *c, int64_t i, int64_t j)
{
    double sum = 0, size = 0, depth = (double)(p->k < HYP_PRODUCT_DEPTH ? p->k : HYP_PRODUCT_DEPTH);
    for (int64_t l = 0; l < p->k; l++) {
        double term = a_at(p, i, l) * b_at(p, l, j);
        sum += term;
        size += fabs(term);
    }
    double least = (double)p->k * 0x1p-148; /* products that are below all normal numbers */
    return fabs(c[i * p->n + j] - sum) <= 0x1p-24 * (depth + 1) * size + least;
}

/* A library's mistake must not hide itself where the plan runs by the same one: some elements, which ones depends on
 * what is multiplied, are summed again. */
static bool passes_sample(const hyp_product *p, const double *c)
{
    enum { SAMPLE = 64 };
    uint64_t count = (uint64_t)(p->m * p->n);
    uint64_t at = hyp_hash(p->a, sizeof *p->a * (size_t)(p->m * p->k < SAMPLE ? p->m * p->k : SAMPLE), count);
    for (int s = 0; s < SAMPLE; s++) {
        at = at * 6364136223846793005u + 1442695040888963407u; /* Knuth's */
        int64_t element = (int64_t)((at >> 24) % count);
        if (!is_right(p, c, element / p->n, element % p->n)) return false;
    }
    return true;
}

/* Of finite operands. */
static hyp_status multiply_finite(const hyp_product *p, double *c, hyp_diag *diag)
{
    bool trusted = p->k > 0 && multiply_by_library(p, c);
    for (int64_t i = 0; trusted && i < p->m * p->n; i++) trusted = isfinite(c[i]);
    return trusted && passes_sample(p, c) ? HYP_OK : multiply_by_loops(p, c, diag);
}

/* ---- what is no number -------------------------------------------------------------------------------------- */

/* A copy with zeros in place of what is not finite. NULL: no memory. */
static float *make_finite(const float *x, int64_t count)
{
    float *out = hyp_malloc((size_t)count * sizeof *out);
    for (int64_t i = 0; out && i < count; i++) out[i] = isfinite(x[i]) ? x[i] : 0;
    return out;
}

/* Adds the terms that are not finite, as IEEE arithmetic has them: what they are added to does not matter to them. A
 * row of a, or a column of b, with a NaN in it gives nothing else, and needs no more. `bad` and `list` have room for n.
 */
static void add_infinite(const hyp_product *p, double *c, bool *bad, int64_t *list)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t l = 0; l < p->k; l++) {
            double x = a_at(p, i, l);
            if (isfinite(x)) continue;
            for (int64_t j = 0; j < p->n; j++) c[i * p->n + j] += x * b_at(p, l, j);
            if (isnan(x)) break;
        }
    for (int64_t l = 0; l < p->k; l++)
        for (int64_t j = 0; j < p->n; j++) bad[j] = bad[j] || isnan(b_at(p, l, j));
    for (int64_t l = 0; l < p->k; l++) {
        int64_t count = 0;
        for (int64_t j = 0; j < p->n; j++)
            if (!bad[j] && isinf(b_at(p, l, j))) list[count++] = j;
        for (int64_t i = 0; i < p->m && count; i++) {
            double x = a_at(p, i, l), *row = c + i * p->n;
            for (int64_t s = 0; s < count; s++) row[list[s]] += x * b_at(p, l, list[s]);
        }
    }
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            if (bad[j]) c[i * p->n + j] = NAN;
}

static hyp_status multiply_any(const hyp_product *p, double *c, hyp_diag *diag)
{
    float *a = make_finite(p->a, p->m * p->k), *b = make_finite(p->b, p->k * p->n);
    bool *bad = hyp_calloc((size_t)p->n, sizeof *bad);
    int64_t *list = hyp_calloc((size_t)p->n, sizeof *list);
    hyp_product finite = *p;
    finite.a = a;
    finite.b = b;
    hyp_status status = a && b && bad && list ? multiply_finite(&finite, c, diag)
                                              : hyp_fail_memory(diag, (size_t)(p->k * p->n) * sizeof *b);
    if (status == HYP_OK) add_infinite(p, c, bad, list);
    hyp_free(a);
    hyp_free(b);
    hyp_free(bad);
    hyp_free(list);
    return status;
}

hyp_status hyp_product_f32(const hyp_product *p, double *c, hyp_diag *diag)
{
    if (p->m == 0 || p->n == 0) return HYP_OK;
    bool finite = all_finite(p->a, p->m * p->k) && all_finite(p->b, p->k * p->n);
    return finite ? multiply_finite(p, c, diag) : multiply_any(p, c, diag);
}

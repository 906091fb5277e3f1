#include "kernels/product.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/openmp.h"

#ifdef HYP_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

bool hyp_product_is_fast(void) { return true; }

/* False where oneDNN cannot. */
static bool multiply_by_library(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                                const float *b, float *c)
{
    int (*max_threads)(void);
    void (*set_threads)(int);
    void *get = hyp_openmp_symbol("omp_get_max_threads"), *set = hyp_openmp_symbol("omp_set_num_threads");
    int before = 0;
    memcpy(&max_threads, &get, sizeof get);
    memcpy(&set_threads, &set, sizeof set);
    if (get && set) before = max_threads();
    if (before > 1) set_threads(1); /* of this thread alone */
    dnnl_status_t status = dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, 1, a, trans_a ? m : k, b,
                                      trans_b ? k : n, 0, c, n);
    if (before > 1) set_threads(before);
    return status == dnnl_success;
}
#else
bool hyp_product_is_fast(void) { return false; }

static bool multiply_by_library(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                                const float *b, float *c)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)a, (void)b, (void)c;
    return false;
}
#endif

enum { COLUMNS = 256, DEPTH = 128 }; /* of a block of b, which stays in the cache for all rows of a */

/* sums[m width] += a[m, from .. from + depth) b[the same, first .. first + width) */
static void add_block(double *sums, int64_t width, int64_t m, int64_t depth, const float *a, int64_t a_row,
                      int64_t a_column, const float *b)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < depth; l++) {
            double factor = (double)a[i * a_row + l * a_column];
            double *to = sums + i * width;
            const float *row = b + l * COLUMNS;
            for (int64_t j = 0; j < width; j++) to[j] += factor * (double)row[j];
        }
}

/* Sums in double, in ascending order of k. */
static hyp_status multiply_by_loops(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                                    const float *b, float *c, hyp_diag *diag)
{
    size_t count;
    bool fits = hyp_mul_size((size_t)m, COLUMNS, &count) && hyp_mul_size(count, sizeof(double), &count);
    double *sums = fits ? hyp_malloc(count) : NULL;
    float *block = hyp_malloc(sizeof *block * COLUMNS * DEPTH);
    hyp_status status = sums && block ? HYP_OK : hyp_fail_memory(diag, fits ? count : SIZE_MAX);
    for (int64_t first = 0; status == HYP_OK && first < n; first += COLUMNS) {
        int64_t width = n - first < COLUMNS ? n - first : COLUMNS;
        for (int64_t i = 0; i < m * width; i++) sums[i] = 0;
        for (int64_t from = 0; from < k; from += DEPTH) {
            int64_t depth = k - from < DEPTH ? k - from : DEPTH;
            for (int64_t l = 0; l < depth; l++)
                for (int64_t j = 0; j < width; j++)
                    block[l * COLUMNS + j] = trans_b ? b[(first + j) * k + from + l] : b[(from + l) * n + first + j];
            add_block(sums, width, m, depth, a + from * (trans_a ? m : 1), trans_a ? 1 : k, trans_a ? m : 1, block);
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < width; j++) c[i * n + first + j] = (float)sums[i * width + j];
    }
    hyp_free(block);
    hyp_free(sums);
    return status;
}

static bool all_finite(const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

hyp_status hyp_product_f32(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                           float *c, hyp_diag *diag)
{
    if (m == 0 || n == 0) return HYP_OK;
    if (k > 0 && multiply_by_library(trans_a, trans_b, m, n, k, a, b, c) && all_finite(c, m * n)) return HYP_OK;
    return multiply_by_loops(trans_a, trans_b, m, n, k, a, b, c, diag);
}

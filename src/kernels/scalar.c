#include "kernels/scalar.h"

#include <math.h>

#include "base/dtype.h"
#include "base/elementwise.h"

double hyp_sign_f64(double x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }

static double relu(double x) { return x > 0 || isnan(x) ? x : 0; }

static double leaky_relu(double x, double alpha) { return x >= 0 || isnan(x) ? x : alpha * x; }

static double at_most(double x, double limit) { return x > limit ? limit : x; }

/* exp never overflows */
static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }

static double softplus(double x) { return relu(x) + log1p(exp(-fabs(x))); }

static double gelu(double x) { return 0.5 * x * (1 + erf(x * 0.70710678118654752440)); }

static double elu(double x, double alpha, double gamma) { return gamma * (x > 0 ? x : alpha * expm1(x)); }

#define NUM(number) (number)
#define LIB(function) function
#define OWN(function) function
double hyp_function_f64(int op, double a, double p, double q)
{
    switch (op) {
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...)                                                   \
    case HYP_PW_##OP: return __VA_ARGS__;
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
    default: return a;
    }
}

double hyp_pow_f64(double a, double b) { return b == 2 ? a * a : pow(a, b); }

double hyp_mod_f64(double a, double b, bool keep_sign_of_a)
{
    double r = fmod(a, b);
    if (keep_sign_of_a || isnan(r)) return r;
    return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}

bool hyp_less_i64(int64_t a, int64_t b, bool is_u64) { return is_u64 ? (uint64_t)a < (uint64_t)b : a < b; }

int64_t hyp_sign_i64(int64_t x, bool is_u64) { return x == 0 ? 0 : x > 0 || is_u64 ? 1 : -1; }

int64_t hyp_div_i64(int64_t a, int64_t b, bool is_u64)
{
    if (b == 0) return 0;
    if (is_u64) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

int64_t hyp_mod_i64(int64_t a, int64_t b, bool keep_sign_of_a, bool is_u64)
{
    if (b == 0) return 0;
    if (is_u64) return (int64_t)((uint64_t)a % (uint64_t)b);
    int64_t r = b == -1 ? 0 : a % b;
    return !keep_sign_of_a && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t hyp_pow_i64(int64_t base, int64_t exponent, bool is_u64)
{
    if (exponent < 0 && !is_u64) return base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == -1 ? -1 : 0;
    uint64_t result = 1, square = (uint64_t)base;
    for (uint64_t e = (uint64_t)exponent; e; e >>= 1, square *= square)
        if (e & 1) result *= square;
    return (int64_t)result;
}

int64_t hyp_shift_i64(int64_t a, int64_t by, bool left, bool is_u64)
{
    if (by < 0 || by >= 64) return !left && a < 0 && !is_u64 ? -1 : 0;
    if (left || is_u64 || a >= 0) return (int64_t)(left ? (uint64_t)a << by : (uint64_t)a >> by);
    return (int64_t) ~(~(uint64_t)a >> by);
}

int64_t hyp_clip_bound_i64(double bound, bool is_low, bool is_u64)
{
    int64_t stored;
    bound = is_low ? ceil(bound) : floor(bound);
    if (!is_u64) return hyp_load_i64(HYP_F64, &bound, 0); /* saturates */
    if (bound >= 18446744073709551616.0) return -1;       /* all bits */
    hyp_store_f64(HYP_U64, &stored, 0, bound > 0 ? bound : 0);
    return stored;
}

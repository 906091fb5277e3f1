#include "wire.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/tensor_io.h"

typedef struct wire_type {
    hyp_dtype dtype;
    const char *name;
    enum { BOOL, INTEGER, FLOAT } kind;
    int64_t low;
    uint64_t high;          /* the largest integer; the bits of the largest number of a float that C has no type for */
    int mantissa, exponent; /* bits of such a float */
    uint32_t infinity, nan; /* its bits; 0: nothing is infinite */
} wire_type;
static const wire_type types[] = {
    {HYP_BOOL, "BOOL", BOOL, 0, 1, 0, 0, 0, 0},
    {HYP_U8, "UINT8", INTEGER, 0, UINT8_MAX, 0, 0, 0, 0},
    {HYP_U16, "UINT16", INTEGER, 0, UINT16_MAX, 0, 0, 0, 0},
    {HYP_U32, "UINT32", INTEGER, 0, UINT32_MAX, 0, 0, 0, 0},
    {HYP_U64, "UINT64", INTEGER, 0, UINT64_MAX, 0, 0, 0, 0},
    {HYP_I8, "INT8", INTEGER, INT8_MIN, INT8_MAX, 0, 0, 0, 0},
    {HYP_I16, "INT16", INTEGER, INT16_MIN, INT16_MAX, 0, 0, 0, 0},
    {HYP_I32, "INT32", INTEGER, INT32_MIN, INT32_MAX, 0, 0, 0, 0},
    {HYP_I64, "INT64", INTEGER, INT64_MIN, INT64_MAX, 0, 0, 0, 0},
    {HYP_F16, "FP16", FLOAT, 0, 0x7bff, 10, 5, 0x7c00, 0x7e00},
    {HYP_F32, "FP32", FLOAT, 0, 0, 0, 0, 0, 0},
    {HYP_F64, "FP64", FLOAT, 0, 0, 0, 0, 0, 0},
    {HYP_BF16, "BF16", FLOAT, 0, 0x7f7f, 7, 8, 0x7f80, 0x7fc0},
    {HYP_F8E4M3, "FP8E4M3", FLOAT, 0, 0x7e, 3, 4, 0, 0x7f},
};

static const wire_type *find_type(hyp_dtype dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return &types[i];
    return NULL;
}

const char *wire_type_name(hyp_dtype dtype)
{
    const wire_type *type = find_type(dtype);
    return type ? type->name : "?";
}

hyp_status wire_check_binary(const hyp_tensor *t, hyp_diag *diag)
{
    const unsigned char *bytes = t->data;
    for (size_t i = 0; t->dtype == HYP_BOOL && i < t->bytes; i++)
        if (bytes[i] > 1)
            return refuse(diag, HYP_ERR_INVALID_ARGUMENT, "element %zu is the byte %d; wanted 0 or 1, as of BOOL", i,
                          bytes[i]);
    return HYP_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

typedef struct reader {
    const char *at, *end;
    const wire_type *type;
    hyp_tensor *t;
    size_t size;          /* of an element */
    int64_t read, wanted; /* elements */
    bool nested;
    hyp_diag *diag;
} reader;

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool take_word(reader *r, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0) return false;
    r->at += len;
    return true;
}

typedef struct found_text {
    char text[48];
} found_text;

/* What stands there, up to the next comma or bracket. */
static found_text token_at(const reader *r, const char *at)
{
    found_text t;
    size_t left = (size_t)(r->end - at), len = strcspn(at, ",]} \t\r\n");
    if (!len) len = 1; /* it is one itself */
    if (len > left) len = left;
    snprintf(t.text, sizeof t.text, "%.*s", len < 40 ? (int)len : 40, at);
    return t;
}

/* "element 7 is '300'; wanted ..." */
static hyp_status refuse_element(const reader *r, const char *at)
{
    const char *name = r->type->name;
    found_text found = token_at(r, at);
    if (r->type->kind == INTEGER)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                      "element %" PRId64 " of the data is '%s'; wanted a whole number of %s, %" PRId64 " to %" PRIu64,
                      r->read, show(found.text).text, name, r->type->low, r->type->high);
    return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "element %" PRId64 " of the data is '%s'; wanted %s of %s",
                  r->read, show(found.text).text,
                  r->type->kind == BOOL ? "true, false, 1 or 0" : "a number in the range", name);
}

/* The end of the number of JSON's grammar that begins at `at`, NULL where none does. *out_whole: it has neither
 * fraction nor exponent. */
static const char *number_end(const char *at, const char *end, bool *out_whole)
{
    *out_whole = true;
    if (at < end && *at == '-') at++;
    if (at == end || *at < '0' || *at > '9') return NULL;
    if (*at == '0')
        at++;
    else
        while (at < end && *at >= '0' && *at <= '9') at++;
    if (at < end && *at == '.') {
        *out_whole = false;
        const char *first = ++at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        if (at == first) return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        *out_whole = false;
        if (++at < end && (*at == '+' || *at == '-')) at++;
        const char *first = at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        if (at == first) return NULL;
    }
    return at;
}

/* Two's complement of any width is the low bytes of the number. */
static hyp_status read_integer(reader *r, void *out)
{
    const char *token = r->at;
    bool whole, negative = *token == '-';
    const char *end = number_end(token, r->end, &whole);
    if (!end || !whole) return refuse_element(r, token);
    uint64_t value = 0;
    for (const char *c = token + negative; c < end; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (value > (UINT64_MAX - digit) / 10) return refuse_element(r, token);
        value = value * 10 + digit;
    }
    uint64_t most = negative ? (uint64_t)0 - (uint64_t)r->type->low : r->type->high;
    if (value > most) return refuse_element(r, token);
    if (negative) value = (uint64_t)0 - value;
    memcpy(out, &value, r->size);
    r->at = end;
    return HYP_OK;
}

static hyp_status read_bool(reader *r, void *out)
{
    const char *token = r->at;
    bool value = take_word(r, "true") || take_word(r, "1");
    if (!value && !take_word(r, "false") && !take_word(r, "0")) return refuse_element(r, token);
    *(unsigned char *)out = value;
    return HYP_OK;
}

/* The nearest double. Where both the digits and the power of ten are doubles, one operation rounds once (Clinger 1990).
 */
static double parse_double(const char *at, const char *end)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *c = at + (*at == '-');
    uint64_t digits = 0;
    int count = 0, point = 0;
    for (bool behind = false; c < end && *c != 'e' && *c != 'E'; c++) {
        if (*c == '.') {
            behind = true;
            continue;
        }
        if (++count > 18) return strtod(at, NULL);
        digits = digits * 10 + (uint64_t)(*c - '0');
        point += behind;
    }
    if (c < end || digits > (uint64_t)1 << 53) return strtod(at, NULL);
    double value = (double)digits / powers[point];
    return *at == '-' ? -value : value;
}

/* The magnitude of the number of a narrow float that is nearest, of two the even one, as if exponents went on. */
static uint32_t narrow(double value, const wire_type *type)
{
    int least = 2 - (1 << (type->exponent - 1)), e; /* exponent of subnormal numbers and of the first normal ones */
    frexp(value, &e);
    e = value == 0 || e - 1 < least ? least : e - 1;
    double units =
        nearbyint(ldexp(fabs(value), type->mantissa - e)); /* with the leading bit: a carry goes into the exponent */
    return ((uint32_t)(e - least) << type->mantissa) + (uint32_t)units;
}

/* False: no number of the type is near. */
static bool store_float(const reader *r, double value, void *out)
{
    const wire_type *type = r->type;
    if (type->dtype == HYP_F64) {
        memcpy(out, &value, sizeof value);
        return true;
    }
    if (type->dtype == HYP_F32) {
        float single = (float)value;
        memcpy(out, &single, sizeof single);
        return !isinf(single) || isinf(value);
    }
    uint32_t bits = isnan(value) ? type->nan : isinf(value) ? type->infinity : narrow(value, type);
    bool fits = isfinite(value) ? bits <= type->high : bits != 0;
    if (signbit(value)) bits |= 1u << (type->mantissa + type->exponent);
    memcpy(out, &bits, r->size); /* plans, and all that runs them, are little-endian */
    return fits;
}

static hyp_status read_float(reader *r, void *out)
{
    const char *token = r->at;
    double value;
    bool whole;
    const char *end = number_end(token, r->end, &whole);
    if (end) {
        value = parse_double(token, end);
        if (isinf(value)) return refuse_element(r, token);
        r->at = end;
    } else if (take_word(r, "NaN")) {
        value = NAN;
    } else if (take_word(r, "Infinity")) {
        value = INFINITY;
    } else if (take_word(r, "-Infinity")) {
        value = -INFINITY;
    } else {
        return refuse_element(r, token);
    }
    return store_float(r, value, out) ? HYP_OK : refuse_element(r, token);
}

static hyp_status read_element(reader *r)
{
    if (r->read == r->wanted)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                      "the data have more elements than the shape, which has %" PRId64, r->wanted);
    if (r->at == r->end || *r->at == ']') return refuse_element(r, r->at);
    void *out = (char *)r->t->data + (size_t)r->read * r->size;
    hyp_status status = r->type->kind == FLOAT  ? read_float(r, out)
                        : r->type->kind == BOOL ? read_bool(r, out)
                                                : read_integer(r, out);
    r->read++;
    return status;
}

static hyp_status read_array(reader *r, int32_t axis)
{
    bool of_arrays = r->nested && axis + 1 < r->t->rank;
    int64_t count = 0, wanted = r->nested ? r->t->dims[axis] : r->wanted;
    if (!take_word(r, "["))
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                      "the data are an array of arrays, but not on level %d; wanted as many levels as the shape has "
                      "axes, or all elements in one array",
                      axis + 1);
    skip_space(r);
    bool more = !take_word(r, "]");
    while (more) {
        hyp_status status = of_arrays ? read_array(r, axis + 1) : read_element(r);
        if (status != HYP_OK) return status;
        count++;
        skip_space(r);
        more = take_word(r, ",");
        if (!more && !take_word(r, "]"))
            return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                          "'%s' follows element %" PRId64 " of the data; wanted ',' or ']'",
                          show(token_at(r, r->at).text).text, r->read - 1);
        skip_space(r);
    }
    if (count == wanted) return HYP_OK;
    if (!r->nested)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                      "the data have %" PRId64 " elements; wanted %" PRId64 ", as the shape has", count, wanted);
    return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                  "an array on level %d of the data has %" PRId64 " elements; wanted %" PRId64
                  ", as axis %d of the shape",
                  axis + 1, count, wanted, axis);
}

hyp_status wire_read_json(const char *json, size_t len, hyp_tensor *t, hyp_diag *diag)
{
    reader r = {.at = json,
                .end = json + len,
                .type = find_type(t->dtype),
                .t = t,
                .size = hyp_dtype_size(t->dtype),
                .wanted = hyp_tensor_elements(t),
                .diag = diag};
    if (!r.type || r.wanted < 0) return refuse(diag, HYP_ERR_INVALID_ARGUMENT, "the type or the shape is none");
    reader second = r;
    if (take_word(&second, "[")) skip_space(&second);
    r.nested = t->rank >= 2 && second.at < second.end && *second.at == '[';
    hyp_status status = read_array(&r, 0);
    if (status == HYP_OK && r.at != r.end)
        status = refuse(diag, HYP_ERR_INVALID_ARGUMENT, "something follows the array of the data");
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static int print_float(char *to, size_t room, double value, int digits)
{
    if (isnan(value)) return snprintf(to, room, "NaN");
    if (isinf(value)) return snprintf(to, room, value < 0 ? "-Infinity" : "Infinity");
    if (value == 0 && signbit(value)) return snprintf(to, room, "-0.0"); /* "-0" is an integer to many, and 0 */
    return snprintf(to, room, "%.*g", digits, value);
}

static int print_element(char *to, size_t room, const hyp_tensor *t, const wire_type *type, int64_t i)
{
    if (type->kind == BOOL) return snprintf(to, room, ((const unsigned char *)t->data)[i] ? "true" : "false");
    if (t->dtype == HYP_U64) return snprintf(to, room, "%" PRIu64, ((const uint64_t *)t->data)[i]);
    if (t->dtype == HYP_I64) return snprintf(to, room, "%" PRId64, ((const int64_t *)t->data)[i]);
    if (type->kind == INTEGER) return snprintf(to, room, "%.0f", hyp_tensor_at(t, i));
    /* Digits that tell all numbers of the type apart: 2 + mantissa bits times log10(2). */
    int digits = t->dtype == HYP_F64 ? 17 : t->dtype == HYP_F32 ? 9 : t->dtype == HYP_F16 ? 5 : 4;
    return print_float(to, room, hyp_tensor_at(t, i), digits);
}

void wire_write_json(text *out, const hyp_tensor *t)
{
    enum { LONGEST = 32 };
    const wire_type *type = find_type(t->dtype);
    int64_t count = hyp_tensor_elements(t);
    text_add(out, "[", 1);
    for (int64_t i = 0; type && i < count; i++) {
        char *to = text_reserve(out, LONGEST);
        if (!to) return;
        if (i) *to = ',';
        out->len += (size_t)print_element(to + (i > 0), LONGEST - 1, t, type, i) + (i > 0);
    }
    text_add(out, "]", 1);
}

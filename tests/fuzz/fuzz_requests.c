/* Hostile requests to hypatia serve, as bytes: bodies of the open inference protocol, what its headers say, and paths.
 * What is read has to be right in itself, what is answered to be JSON, and all memory to come back, also where there is
 * little.
 *
 *   fuzz_requests [--cases N] [--seed S] [--seconds T] [--case I]
 *
 * changes valid requests at random, always the same ones; --case shows one. With libFuzzer (HYPATIA_FUZZ) it looks for
 * new ones by itself.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hypatia/tensor_io.h"
#include "serve/route.h"
#include "serve/v2.h"

/* ---- the plan that is asked -------------------------------------------------------------------------------- */

static const struct {
    hyp_dtype dtype;
    int32_t rank;
    int64_t dims[3];
} inputs_of[] = {
    {HYP_F32, 2, {-1, 4}}, {HYP_I64, 1, {-1}},   {HYP_U8, 3, {-1, 2, 2}}, {HYP_BOOL, 2, {-1, 3}},
    {HYP_F16, 2, {-1, 2}}, {HYP_F64, 0, {0}},    {HYP_U64, 2, {-1, -1}},  {HYP_I8, 1, {3}},
    {HYP_BF16, 1, {2}},    {HYP_F8E4M3, 1, {2}},
};
enum { INPUTS = sizeof inputs_of / sizeof *inputs_of };
static hyp_io_info infos[INPUTS];
static const hyp_io_info *pointers[INPUTS];
static char names[INPUTS][8];

static v2_signature make_signature(void)
{
    for (int i = 0; i < INPUTS; i++) {
        snprintf(names[i], sizeof names[i], "in%d", i);
        infos[i] = (hyp_io_info){
            .size = sizeof infos[i], .name = names[i], .dtype = inputs_of[i].dtype, .rank = inputs_of[i].rank};
        for (int32_t a = 0; a < infos[i].rank; a++) {
            infos[i].dims[a] = inputs_of[i].dims[a];
            if (infos[i].dims[a] < 0) infos[i].symbols[a] = "n";
        }
        pointers[i] = &infos[i];
    }
    return (v2_signature){pointers, pointers, INPUTS, INPUTS}; /* it answers what it is asked */
}

static void die(const char *what)
{
    fprintf(stderr, "fuzz_requests: %s\n", what);
    abort();
}

/* ---- one request --------------------------------------------------------------------------------------------- */

/* The answer that has the inputs as outputs. */
static void check_answer(const v2_request *request, const v2_signature *s, store *memory)
{
    text json = {.store = memory};
    hyp_tensor outputs[INPUTS]; /* aligned, as those of a run */
    for (int i = 0; i < INPUTS; i++) {
        outputs[i] = request->inputs[i];
        outputs[i].data = store_alloc(memory, outputs[i].bytes);
        if (!outputs[i].data) return;
        if (outputs[i].bytes) memcpy(outputs[i].data, request->inputs[i].data, outputs[i].bytes);
    }
    bool binary;
    v2_response_write(&(v2_response){.model = "m",
                                     .id = request->id,
                                     .version = 1,
                                     .signature = s,
                                     .outputs = outputs,
                                     .forms = request->forms},
                      &json, &binary);
    if (json.failed) return;
    for (int i = 0; i < INPUTS; i++)
        if (request->forms[i] == V2_JSON && inputs_of[i].dtype != HYP_I64 && inputs_of[i].dtype != HYP_I8 &&
            inputs_of[i].dtype != HYP_U8 && inputs_of[i].dtype != HYP_BOOL)
            return; /* NaN, or more than Jansson's integers */
    json_error_t error;
    json_t *root = json_loadb(json.data, json.len, 0, &error);
    if (!root) die("an answer is no JSON");
    json_decref(root);
}

static void check_request(const v2_request *request, const v2_signature *s, const char *body, size_t len, store *memory)
{
    for (int i = 0; i < INPUTS; i++) {
        const hyp_tensor *t = &request->inputs[i];
        if (t->dtype != infos[i].dtype || t->rank != infos[i].rank) die("an input is of another type");
        for (int32_t a = 0; a < t->rank; a++)
            if (t->dims[a] < 0 || (infos[i].dims[a] >= 0 && infos[i].dims[a] != t->dims[a]))
                die("an input has other dims");
        if (t->bytes != (size_t)hyp_tensor_elements(t) * hyp_dtype_size(t->dtype))
            die("an input has other bytes than its dims");
        if (t->bytes && !t->data) die("an input has no data");
        const char *data = t->data;
        if (data >= body && data < body + len && data + t->bytes > body + len) die("an input reaches beyond the body");
        unsigned sum = 0;
        for (size_t k = 0; k < t->bytes; k++) sum += (unsigned char)data[k]; /* for the sanitizer to see */
        if (t->dtype == HYP_BOOL && sum > t->bytes) die("a bool is neither 0 nor 1");
    }
    check_answer(request, s, memory);
}

/* Bytes: two that say how much memory there is and how many are JSON, then the body. */
static bool run_case(const unsigned char *data, size_t size)
{
    static v2_signature signature;
    if (!signature.inputs) {
        signature = make_signature();
        v2_start();
    }
    if (size < 3) return false;
    size_t len = size - 3;
    char *body = malloc(len + 1); /* no larger, for the sanitizer */
    if (!body) return false;
    memcpy(body, data + 3, len);
    body[len] = 0;
    budget bytes = {.most = data[0] < 200 ? (size_t)1 << 26 : (size_t)(data[0] - 199) * 256};
    store memory = {.budget = &bytes};
    int64_t header = V2_NO_HEADER_BYTES;
    if (data[1] != 255 && len) header = (int64_t)((data[1] * 256u + data[2]) % (len + 1));
    v2_request request;
    hyp_diag diag = {0};
    hyp_status status = v2_request_read(body, len, header, &signature, &memory, &request, &diag);
    if (status == HYP_OK)
        check_request(&request, &signature, body, len, &memory);
    else if (!diag.message[0] || diag.status != status)
        die("a refusal says nothing");
    if (status == HYP_ERR_NO_MEMORY && data[0] < 200) die("there was no memory for a small request");
    text error = {.store = &memory};
    v2_error_write(&error, diag.message);
    json_t *root = error.failed ? json_null() : json_loadb(error.data, error.len, 0, NULL);
    if (!root) die("an error is no JSON");
    json_decref(root);
    int64_t number;
    if (v2_read_header_bytes(body, 1000, &number) && (number < 0 || number > 1000))
        die("a header's number is out of range");
    route r = route_find(body);
    if (r.kind != ROUTE_NONE && strlen(r.model) > ROUTE_NAME_MOST) die("a name is too long");
    store_clear(&memory);
    if (atomic_load(&bytes.used)) die("memory was not given back");
    free(body);
    return status == HYP_OK;
}

#ifdef HYP_LIBFUZZER
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    run_case(data, size);
    return 0;
}
#else

/* ---- changed requests ------------------------------------------------------------------------------------------ */

static uint64_t state;
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

typedef struct bytes {
    unsigned char data[1 << 16];
    size_t len;
} bytes;

static void add(bytes *b, const void *data, size_t len)
{
    if (len > sizeof b->data - b->len) len = sizeof b->data - b->len;
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void add_text(bytes *b, const char *string) { add(b, string, strlen(string)); }

/* A tensor's elements, flat. */
static void add_data(bytes *b, hyp_dtype dtype, int64_t count)
{
    static const char *const floats[] = {"0", "-1.5", "1e10", "NaN", "-0.0", "3.25E-3"},
                             *const bools[] = {"true", "false", "1"}, *const whole[] = {"0", "1", "7", "100"};
    add_text(b, "[");
    for (int64_t i = 0; i < count; i++) {
        if (i) add_text(b, ",");
        add_text(b, dtype == HYP_BOOL                       ? bools[draw(3)]
                    : dtype == HYP_F8E4M3                   ? floats[draw(2)]
                    : dtype == HYP_F32 || dtype == HYP_F64  ? floats[draw(6)]
                    : dtype == HYP_F16 || dtype == HYP_BF16 ? floats[3 + draw(3)]
                                                            : whole[draw(4)]);
    }
    add_text(b, "]");
}

/* A request that is right. */
static void make_request(bytes *b)
{
    bytes tail = {.len = 0};
    int64_t n = draw(4);
    bool binary = draw(2);
    b->len = 0;
    add(b, "\0\xff", 3);
    add_text(b, draw(2) ? "{\"id\":\"a\\\"\\u00e9\",\"inputs\":[" : "{\"inputs\":[");
    for (int i = 0; i < INPUTS; i++) {
        char part[256];
        int64_t count = 1;
        snprintf(part, sizeof part, "%s{\"name\":\"in%d\",\"datatype\":\"%s\",\"shape\":[", i ? "," : "", i,
                 wire_type_name(inputs_of[i].dtype));
        add_text(b, part);
        for (int32_t a = 0; a < inputs_of[i].rank; a++) {
            int64_t size = inputs_of[i].dims[a] < 0 ? n : inputs_of[i].dims[a];
            count *= size;
            snprintf(part, sizeof part, "%s%lld", a ? "," : "", (long long)size);
            add_text(b, part);
        }
        size_t size = (size_t)count * hyp_dtype_size(inputs_of[i].dtype);
        if (binary && draw(2)) {
            static const unsigned char zeros[4096];
            snprintf(part, sizeof part, "],\"parameters\":{\"binary_data_size\":%zu}}", size);
            add_text(b, part);
            add(&tail, zeros, size);
        } else {
            add_text(b, "],\"data\":");
            add_data(b, inputs_of[i].dtype, count);
            add_text(b, "}");
        }
    }
    add_text(b, draw(2)
                    ? "],\"parameters\":{\"binary_data_output\":true}}"
                    : "],\"outputs\":[{\"name\":\"in1\"},{\"name\":\"in7\",\"parameters\":{\"binary_data\":true}}]}");
    if (binary) {
        size_t json = b->len - 3;
        b->data[1] = (unsigned char)(json / 256);
        b->data[2] = (unsigned char)json;
        add(b, tail.data, tail.len);
    }
}

static void replace(bytes *b, size_t at, size_t old, const void *data, size_t len)
{
    if (old > b->len - at) old = b->len - at;
    if (b->len - old + len > sizeof b->data) return;
    memmove(b->data + at + len, b->data + at + old, b->len - at - old);
    memcpy(b->data + at, data, len);
    b->len += len - old;
}

static void change(bytes *b)
{
    static const char *const words[] = {"[",
                                        "]",
                                        "{",
                                        "}",
                                        "\"",
                                        ",",
                                        ":",
                                        "-",
                                        "0",
                                        "1e999",
                                        "18446744073709551615",
                                        "-9223372036854775808",
                                        "1.5",
                                        "null",
                                        "true",
                                        "NaN",
                                        "-Infinity",
                                        "[[",
                                        "]]",
                                        "\"data\"",
                                        "\"data\":[",
                                        "\"shape\":[",
                                        "\"datatype\":\"FP32\"",
                                        "\\",
                                        "\\u0000",
                                        "\xff",
                                        "\"parameters\":{",
                                        "\"binary_data_size\":",
                                        "99999999999999999999",
                                        "\"name\":\"in0\"",
                                        "\"outputs\":[",
                                        " ",
                                        "\n",
                                        "{\"data\":[1]}",
                                        "\xf0\x9f\x98\x80"};
    enum { WORDS = sizeof words / sizeof *words };
    size_t at = 3 + draw((uint32_t)(b->len - 2));
    const char *word = words[draw(WORDS)];
    unsigned char byte = (unsigned char)draw(256);
    switch (draw(9)) {
    case 0: replace(b, at, 1, &byte, 1); break;
    case 1: replace(b, at, 0, word, strlen(word)); break;
    case 2: replace(b, at, draw(16), word, strlen(word)); break;
    case 3: replace(b, at, draw(64), "", 0); break;
    case 4: b->len = at; break;
    case 5: b->data[draw(3)] = byte; break;
    case 6: { /* a digit is another one */
        while (at < b->len && (b->data[at] < '0' || b->data[at] > '9')) at++;
        if (at < b->len) b->data[at] = (unsigned char)('0' + draw(10));
        break;
    }
    case 7: { /* a part once more, elsewhere */
        unsigned char part[64];
        size_t from = 3 + draw((uint32_t)(b->len - 2)), len = draw(64);
        if (len > b->len - from) len = b->len - from;
        memcpy(part, b->data + from, len);
        replace(b, at, 0, part, len);
        break;
    }
    default:
        replace(b, at, 1, &(unsigned char){(unsigned char)(b->data[at < b->len ? at : 0] ^ (1u << draw(8)))}, 1);
        break;
    }
}

static bool run_number(uint64_t seed, uint64_t number, bool show)
{
    static bytes b;
    state = seed * 1000003 + number * 2 + 1;
    draw(2);
    make_request(&b);
    for (uint32_t changes = number % 8 ? 1 + draw(6) : 0; changes; changes--) change(&b);
    if (show) fwrite(b.data, 1, b.len, stdout);
    bool read = run_case(b.data, b.len);
    if (number % 8 == 0 && !read) die("a right request was refused");
    return read;
}

int main(int argc, char **argv)
{
    uint64_t cases = 20000, seed = 1, only = UINT64_MAX, read = 0, done = 0;
    double seconds = 1e9;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--cases") == 0)
            cases = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--case") == 0)
            only = strtoull(argv[i + 1], NULL, 10);
        else
            return fprintf(stderr, "fuzz_requests [--cases N] [--seed S] [--seconds T] [--case I]\n"), 2;
    }
    if (only != UINT64_MAX) return run_number(seed, only, true), 0;
    time_t begun = time(NULL);
    for (; done < cases && difftime(time(NULL), begun) < seconds; done++) read += run_number(seed, done, false);
    printf("%llu requests, of which %llu were read\n", (unsigned long long)done, (unsigned long long)read);
    return 0;
}
#endif

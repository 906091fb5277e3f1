/* Operators whose elements come from positions and sizes: Range, Tile, triangles, windows, blocks of space and depth.
 */
#include <math.h>
#include <string.h>

#include "onnx/import.h"
#include "onnx/tensor.h"

/* ---- tile ---------------------------------------------------------------------------------------------- */

/* A reshape and an expand that repeat some axes: [2, 3] three times along axis 1 is [2, 1, 3] -> [2, 3, 3]. */
typedef struct tiling {
    int32_t rank;
    hyp_dim from[HYP_MAX_RANK], to[HYP_MAX_RANK];
    bool open; /* the last entry may take in a neighbour */
} tiling;

static hyp_status keep_axis(const hyp_onnx_node *n, tiling *t, hyp_dim size)
{
    if (!t->open) t->from[t->rank++] = 1;
    t->open = true;
    HYP_TRY(hyp_dim_mul(n->im->g->dims, t->from[t->rank - 1], size, &t->from[t->rank - 1], n->im->diag));
    t->to[t->rank - 1] = t->from[t->rank - 1];
    return HYP_OK;
}

/* Axes from *first on, as many as there is room for; x has the result's sizes along those before. */
static hyp_status tile_some(const hyp_onnx_node *n, const hyp_onnx_ints *repeats, int32_t *first, hyp_type *type,
                            hyp_value_id *x)
{
    tiling t = {0};
    int32_t axis = 0;
    for (; axis < type->rank; axis++) {
        hyp_dim size = type->dims[axis];
        bool repeat = axis >= *first && repeats->items[axis] != 1;
        if (repeat && t.rank + 3 > HYP_MAX_RANK) break; /* one for the axes that are left */
        if (repeat) {
            t.from[t.rank] = 1;
            t.to[t.rank++] = repeats->items[axis];
            t.open = false;
            HYP_TRY(hyp_dim_mul(n->im->g->dims, size, repeats->items[axis], &type->dims[axis], n->im->diag));
        }
        if (!repeat || size != 1) HYP_TRY(keep_axis(n, &t, size));
    }
    *first = axis;
    for (; axis < type->rank; axis++) HYP_TRY(keep_axis(n, &t, type->dims[axis]));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, *x, t.from, t.rank, x));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_expand, *x, t.to, t.rank, x));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, *x, type->dims, type->rank, x);
}

static hyp_status import_tile(hyp_onnx_node *n)
{
    hyp_type type = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints repeats;
    hyp_value_id x = n->inputs[0];
    bool any = false;
    HYP_TRY(hyp_onnx_input_ints(n, 1, "repeats", &repeats));
    if (repeats.count != (uint32_t)type.rank)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has %u repeats for %d axes", repeats.count, type.rank);
    for (uint32_t i = 0; i < repeats.count; i++) {
        any = any || repeats.items[i] != 1;
        if (hyp_dim_is_const(repeats.items[i]) && repeats.items[i] < 0)
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "a repeat is %lld", (long long)repeats.items[i]);
    }
    if (!any) return hyp_onnx_emit_unary(n, HYP_OP_identity, NULL);
    for (int32_t first = 0; first < type.rank;) HYP_TRY(tile_some(n, &repeats, &first, &type, &x));
    n->outputs[0] = x;
    return HYP_OK;
}

/* ---- range --------------------------------------------------------------------------------------------- */

/* Of integers known as sizes: (limit - start) / delta rounded up, at least 0. */
static hyp_status count_sizes(const hyp_onnx_node *n, const hyp_dim *v, hyp_dim *out)
{
    hyp_dims *dims = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    hyp_dim step = v[2] < 0 ? -v[2] : v[2];
    HYP_TRY(v[2] < 0 ? hyp_dim_sub(dims, v[0], v[1], out, diag) : hyp_dim_sub(dims, v[1], v[0], out, diag));
    HYP_TRY(hyp_dim_add(dims, *out, step - 1, out, diag));
    HYP_TRY(hyp_dim_floordiv(dims, *out, step, out, diag));
    return hyp_dim_is_nonneg(dims, *out) ? HYP_OK : hyp_dim_max(dims, *out, 0, out, diag);
}

static hyp_status count_numbers(const hyp_onnx_node *n, hyp_dim *out)
{
    static const char *const names[] = {"start", "limit", "delta"};
    double v[3] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        hyp_eval_tensor t;
        hyp_status status = hyp_onnx_constant(n, i, names[i], &t);
        if (status == HYP_OK && t.count == 1) v[i] = t.f ? t.f[0] : (double)t.i[0];
        hyp_eval_tensor_dispose(&t);
        HYP_TRY(status);
    }
    double count = v[2] == 0 ? NAN : ceil((v[1] - v[0]) / v[2]);
    if (!(count < (double)((int64_t)1 << 48)))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "from %g to %g in steps of %g has no end", v[0], v[1], v[2]);
    *out = count > 0 ? (hyp_dim)count : 0;
    return HYP_OK;
}

static hyp_status import_range(hyp_onnx_node *n)
{
    hyp_dim v[3], count;
    bool known = true;
    hyp_value_id scalars[3];
    for (uint32_t i = 0; i < 3; i++) {
        const hyp_value *value = &n->im->g->values.data[n->inputs[i]];
        known = known && value->content_count == 1;
        if (known) v[i] = value->content[0];
        scalars[i] = n->inputs[i];
    }
    if (known && hyp_dim_is_const(v[2]) && v[2] != 0)
        HYP_TRY(count_sizes(n, v, &count));
    else
        HYP_TRY(count_numbers(n, &count));
    for (uint32_t i = 0; i < 3; i++)
        if (hyp_onnx_input_type(n, i).rank != 0)
            HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, scalars[i], NULL, 0, &scalars[i]));
    hyp_attr size = hyp_attr_of_dims(&count, 1);
    return hyp_onnx_emit(n, HYP_OP_range, (hyp_value_id[]){scalars[0], scalars[2]}, 2, &size, n->outputs, 1);
}

/* ---- constants of a shape ------------------------------------------------------------------------------ */

static hyp_status import_constant_of_shape(hyp_onnx_node *n)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, "value");
    hyp_onnx_ints shape;
    hyp_value_id value;
    HYP_TRY(hyp_onnx_input_ints(n, 0, "shape", &shape));
    if (a && !a->t) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"value\" has no tensor");
    if (a) {
        hyp_tensor t;
        HYP_TRY(hyp_onnx_tensor_read(n->im->source, a->t, &t, n->im->diag));
        if (t.bytes != hyp_dtype_size(t.dtype))
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"value\" should have one element");
        t.rank = 0;
        HYP_TRY(hyp_onnx_add_const(n->im, NULL, &t, &value));
    } else {
        HYP_TRY(hyp_onnx_add_scalar(n, HYP_F32, 0, &value));
    }
    return hyp_onnx_emit_dims(n, HYP_OP_expand, value, shape.items, (int32_t)shape.count, n->outputs);
}

static hyp_status read_dtype(const hyp_onnx_node *n, const char *name, hyp_dtype missing, hyp_dtype *out)
{
    int64_t number;
    HYP_TRY(hyp_onnx_attr_int(n, name, (int64_t)missing, &number));
    *out = (hyp_dtype)number;
    if (number > 0 && number < 64 && hyp_dtype_size(*out)) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "element type %lld is not supported", (long long)number);
}

/* The diagonal of a matrix of ones: what neither triangle beside it has. */
static hyp_status import_eye_like(hyp_onnx_node *n)
{
    hyp_type type = hyp_onnx_input_type(n, 0);
    hyp_value_id x[2];
    hyp_attr upper = hyp_attr_of_int(1), lower = hyp_attr_of_int(0);
    hyp_dtype dtype;
    int64_t k;
    HYP_TRY(read_dtype(n, "dtype", type.dtype, &dtype));
    HYP_TRY(hyp_onnx_attr_int(n, "k", 0, &k));
    if (type.rank != 2) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has an input of rank %d, not 2", type.rank);
    HYP_TRY(hyp_onnx_add_scalar(n, dtype, 1, &x[0]));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_expand, x[0], type.dims, 2, &x[0]));
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, (double)k, &x[1]));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_trilu, x, 2, &upper, &x[0], 1));
    return hyp_onnx_emit(n, HYP_OP_trilu, x, 2, &lower, n->outputs, 1);
}

static hyp_status import_trilu(hyp_onnx_node *n)
{
    hyp_attr upper = hyp_attr_of_int(1);
    HYP_TRY(hyp_onnx_attr_int(n, "upper", 1, &upper.i));
    return hyp_onnx_emit(n, HYP_OP_trilu, n->inputs, n->input_count, &upper, n->outputs, 1);
}

/* Sums of cosines over a window, each with its factor. */
static hyp_status import_window(hyp_onnx_node *n)
{
    enum { LONGEST = 1 << 24 };
    static const struct {
        const char *name;
        double factors[3];
    } windows[] = {{"HannWindow", {0.5, -0.5, 0}},
                   {"HammingWindow", {25.0 / 46, -21.0 / 46, 0}},
                   {"BlackmanWindow", {0.42, -0.5, 0.08}}};
    const double pi = 3.14159265358979323846, *factors = windows[0].factors;
    int64_t periodic;
    hyp_onnx_ints size;
    hyp_type type = {.rank = 1};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        if (strcmp(windows[i].name, n->op->name) == 0) factors = windows[i].factors;
    HYP_TRY(hyp_onnx_attr_int(n, "periodic", 1, &periodic));
    HYP_TRY(read_dtype(n, "output_datatype", HYP_F32, &type.dtype));
    HYP_TRY(hyp_onnx_input_ints(n, 0, "size", &size));
    if (size.count != 1 || !hyp_dim_is_const(size.items[0]) || size.items[0] < 0 || size.items[0] > LONGEST)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the size should be one known number, at most %d", LONGEST);
    type.dims[0] = size.items[0];
    size_t count = (size_t)type.dims[0], bytes = count * hyp_dtype_size(type.dtype);
    void *data = hyp_arena_alloc(&n->im->g->arena, bytes);
    if (!data) return hyp_fail_memory(n->im->diag, bytes);
    for (size_t i = 0; i < count; i++) {
        double angle = 2 * pi * (double)i / (double)(periodic ? count : count - 1);
        hyp_store_f64(type.dtype, data, i, factors[0] + factors[1] * cos(angle) + factors[2] * cos(2 * angle));
    }
    return hyp_graph_add_const(n->im->g, NULL, &type, data, bytes, false, n->outputs, n->im->diag);
}

/* ---- space and depth ----------------------------------------------------------------------------------- */

/* A reshape to six axes, a transpose, and a reshape back to four: to depth three axes become one, to space two pairs.
 */
static hyp_status move_blocks(const hyp_onnx_node *n, bool to_depth, const hyp_dim *split, const hyp_dim *perm)
{
    static const int32_t into[2][6] = {{0, 1, 2, 2, 3, 3}, {0, 1, 1, 1, 2, 3}};
    hyp_dim joined[4] = {1, 1, 1, 1};
    hyp_value_id x = n->inputs[0];
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, x, split, 6, &x));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_transpose, x, perm, 6, &x));
    for (int32_t i = 0; i < 6; i++) {
        hyp_dim *d = &joined[into[to_depth][i]];
        HYP_TRY(hyp_dim_mul(n->im->g->dims, *d, split[perm[i]], d, n->im->diag));
    }
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, x, joined, 4, n->outputs);
}

static hyp_status read_blocks(const hyp_onnx_node *n, hyp_type *x, int64_t *block)
{
    *x = hyp_onnx_input_type(n, 0);
    HYP_TRY(hyp_onnx_attr_int(n, "blocksize", 0, block));
    if (x->rank == 4 && *block > 0 && *block <= 65536) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has an input of rank %d and a block size of %lld", x->rank,
                    (long long)*block);
}

static hyp_status divide(const hyp_onnx_node *n, hyp_dim size, int64_t by, hyp_dim *out)
{
    if (hyp_dim_divides(n->im->g->dims, by, size, out)) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "a size is not known to be a multiple of %lld", (long long)by);
}

/* Whether the depth is ahead of the places in a block (CRD) or behind them (DCR). */
static hyp_status depth_is_first(const hyp_onnx_node *n, bool *out)
{
    static const char *const modes[] = {"DCR", "CRD", NULL};
    const char *mode;
    HYP_TRY(hyp_onnx_attr_choice(n, "mode", modes, &mode));
    *out = mode == modes[1];
    return HYP_OK;
}

static hyp_status import_depth_to_space(hyp_onnx_node *n)
{
    hyp_type x;
    int64_t b;
    hyp_dim depth;
    bool first;
    HYP_TRY(depth_is_first(n, &first));
    HYP_TRY(read_blocks(n, &x, &b));
    HYP_TRY(divide(n, x.dims[1], b * b, &depth));
    const hyp_dim dcr[] = {x.dims[0], b, b, depth, x.dims[2], x.dims[3]}, dcr_perm[] = {0, 3, 4, 1, 5, 2};
    const hyp_dim crd[] = {x.dims[0], depth, b, b, x.dims[2], x.dims[3]}, crd_perm[] = {0, 1, 4, 2, 5, 3};
    return move_blocks(n, false, first ? crd : dcr, first ? crd_perm : dcr_perm);
}

static hyp_status import_space_to_depth(hyp_onnx_node *n)
{
    hyp_type x;
    int64_t b;
    hyp_dim height, width;
    bool first;
    HYP_TRY(depth_is_first(n, &first));
    HYP_TRY(read_blocks(n, &x, &b));
    HYP_TRY(divide(n, x.dims[2], b, &height));
    HYP_TRY(divide(n, x.dims[3], b, &width));
    const hyp_dim split[] = {x.dims[0], x.dims[1], height, b, width, b};
    const hyp_dim dcr_perm[] = {0, 3, 5, 1, 2, 4}, crd_perm[] = {0, 1, 3, 5, 2, 4};
    return move_blocks(n, true, split, first ? crd_perm : dcr_perm);
}

/* ---- others -------------------------------------------------------------------------------------------- */

static hyp_status import_bit_cast(hyp_onnx_node *n)
{
    hyp_dtype to;
    HYP_TRY(read_dtype(n, "to", HYP_DTYPE_NONE, &to));
    hyp_attr attr = hyp_attr_of_sym(hyp_dtype_name(to));
    return hyp_onnx_emit_unary(n, HYP_OP_bit_cast, &attr);
}

static hyp_status refuse_random(hyp_onnx_node *n)
{
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                    "its result is random; a plan gives the same outputs for the same inputs");
}

static const hyp_onnx_operator rows[] = {
    {"Bernoulli", 15, 1, 1, 1, "dtype seed ", refuse_random, HYP_OP_COUNT},
    {"BitCast", 26, 1, 1, 1, "to ", import_bit_cast, HYP_OP_bit_cast},
    {"BlackmanWindow", 17, 1, 1, 1, "output_datatype periodic ", import_window, HYP_OP_COUNT},
    {"ConstantOfShape", 9, 1, 1, 1, "value ", import_constant_of_shape, HYP_OP_expand},
    {"DepthToSpace", 7, 1, 1, 1, "blocksize mode ", import_depth_to_space, HYP_OP_COUNT},
    {"EyeLike", 9, 1, 1, 1, "dtype k ", import_eye_like, HYP_OP_trilu},
    {"HammingWindow", 17, 1, 1, 1, "output_datatype periodic ", import_window, HYP_OP_COUNT},
    {"HannWindow", 17, 1, 1, 1, "output_datatype periodic ", import_window, HYP_OP_COUNT},
    {"Multinomial", 7, 1, 1, 1, "dtype sample_size seed ", refuse_random, HYP_OP_COUNT},
    {"RandomNormal", 7, 0, 0, 1, "dtype mean scale seed shape ", refuse_random, HYP_OP_COUNT},
    {"RandomNormalLike", 7, 1, 1, 1, "dtype mean scale seed ", refuse_random, HYP_OP_COUNT},
    {"RandomUniform", 7, 0, 0, 1, "dtype high low seed shape ", refuse_random, HYP_OP_COUNT},
    {"RandomUniformLike", 7, 1, 1, 1, "dtype high low seed ", refuse_random, HYP_OP_COUNT},
    {"Range", 11, 3, 3, 1, "stash_type ", import_range, HYP_OP_range},
    {"Size", 7, 1, 1, 1, "", hyp_onnx_import_same, HYP_OP_size},
    {"SpaceToDepth", 7, 1, 1, 1, "blocksize mode ", import_space_to_depth, HYP_OP_COUNT},
    {"Tile", 7, 2, 2, 1, "", import_tile, HYP_OP_expand},
    {"Trilu", 14, 1, 2, 1, "upper ", import_trilu, HYP_OP_trilu},
};
const hyp_onnx_family hyp_onnx_generate = {rows, sizeof rows / sizeof *rows};

/* Elementwise steps, softmax, sums and movement on the CPU backend against the reference backend, on random plans. */
#include <string.h>

#include "runtime/cpu_agrees.h"

/* Random extents of a random rank with at most `most` elements. */
static size_t random_extents(size_t max_rank, int64_t most, int64_t *extents, int64_t *count)
{
    size_t rank = rng_below(&r, max_rank + 1);
    *count = 1;
    for (size_t a = 0; a < rank; a++) {
        extents[a] = PICK(1, 2, 3, 5, 7, 24, 300);
        if (*count * extents[a] > most) extents[a] = 1;
        *count *= extents[a];
    }
    return rank;
}

static void dense_strides(size_t rank, const int64_t *extents, int64_t *strides)
{
    int64_t step = 1;
    for (size_t a = rank; a-- > 0; step *= extents[a]) strides[a] = step;
}

static void pointwise_agrees_on_random_programs(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        hyp_dtype dtype = (hyp_dtype)PICK(HYP_F32, HYP_F32, HYP_BF16, HYP_F16, HYP_F64);
        int64_t extents[8], strides[3][8], count;
        size_t rank = random_extents(HYP_MAX_RANK, 3000, extents, &count), inputs = 1 + rng_below(&r, 3);
        uint32_t *dims = pb_consts(&b, rank, extents), tensors[3];
        hyp_tensor in[3];
        static const char *const names[] = {"a", "b", "c"};
        for (size_t i = 0; i < inputs; i++) { /* each operand is dense over the axes where it is not broadcast */
            int64_t have[8], own = 1;
            for (size_t a = 0; a < rank; a++) have[a] = i && rng_below(&r, 3) == 0 ? 1 : extents[a];
            dense_strides(rank, have, strides[i]);
            for (size_t a = 0; a < rank; a++) {
                own *= have[a];
                if (have[a] != extents[a]) strides[i][a] = 0;
            }
            tensors[i] = pb_input(&b, names[i], dtype, rank, pb_consts(&b, rank, have));
            in[i] = tensor_of(names[i], dtype, random_data(dtype, (size_t)own), rank, have);
        }
        bool both = rng_below(&r, 2) == 0;
        uint32_t y = pb_output(&b, "y", dtype, rank, dims), z = both ? pb_output(&b, "z", dtype, rank, dims) : y;
        hyp_dtype compute = dtype == HYP_F64 ? HYP_F64 : HYP_F32;
        HypPlan__Pointwise *s = pb_pointwise(&b, compute, rank, dims);
        for (size_t i = 0; i < inputs; i++) pb_operand(&b, s, tensors[i], pb_consts(&b, rank, strides[i]));
        uint32_t last = 0;
        for (size_t i = 0, n = 1 + rng_below(&r, 6); i < n; i++) {
            static const HypPlan__Pointwise__Op ops[] = {
                HYP_PLAN__POINTWISE__OP__ADD,        HYP_PLAN__POINTWISE__OP__SUB,
                HYP_PLAN__POINTWISE__OP__MUL,        HYP_PLAN__POINTWISE__OP__MIN,
                HYP_PLAN__POINTWISE__OP__MAX,        HYP_PLAN__POINTWISE__OP__RELU,
                HYP_PLAN__POINTWISE__OP__LEAKY_RELU, HYP_PLAN__POINTWISE__OP__SIGMOID,
                HYP_PLAN__POINTWISE__OP__TANH,       HYP_PLAN__POINTWISE__OP__GELU,
                HYP_PLAN__POINTWISE__OP__GELU_TANH,  HYP_PLAN__POINTWISE__OP__ERF,
                HYP_PLAN__POINTWISE__OP__CLIP,       HYP_PLAN__POINTWISE__OP__CONST,
                HYP_PLAN__POINTWISE__OP__ABS,        HYP_PLAN__POINTWISE__OP__NEG,
                HYP_PLAN__POINTWISE__OP__SIN,        HYP_PLAN__POINTWISE__OP__COS,
                HYP_PLAN__POINTWISE__OP__ATAN,       HYP_PLAN__POINTWISE__OP__ASINH,
                HYP_PLAN__POINTWISE__OP__SOFTPLUS,   HYP_PLAN__POINTWISE__OP__ELU,
                HYP_PLAN__POINTWISE__OP__SILU,       HYP_PLAN__POINTWISE__OP__QUICK_GELU,
                HYP_PLAN__POINTWISE__OP__HARD_SWISH, HYP_PLAN__POINTWISE__OP__MISH};
            uint32_t known = (uint32_t)(inputs + i), operand = (uint32_t)rng_below(&r, known);
            last = pb_instr(&b, s, ops[rng_below(&r, sizeof ops / sizeof *ops)], last, operand, -0.5, 0.75,
                            compute == HYP_F32 ? dtype : HYP_F64);
        }
        pb_result(&b, s, y, last);
        if (both) pb_result(&b, s, z, (uint32_t)rng_below(&r, last + 1));
        compare_backends(inputs, in, both ? 2 : 1, (const char *const[]){"y", "z"}, dtype, (size_t)count,
                         dtype == HYP_BF16  ? 0.05
                         : dtype == HYP_F16 ? 0.005
                                            : 1e-5);
        for (size_t i = 0; i < inputs; i++) free(in[i].data);
        pb_dispose(&b);
    }
}

/* y = c(x) ? x : 3 where c compares x with 0, of tensors of every type. */
static void comparisons_and_choices_agree_in_every_type(void **state)
{
    (void)state;
    static const HypPlan__Pointwise__Op ops[] = {HYP_PLAN__POINTWISE__OP__EQUAL, HYP_PLAN__POINTWISE__OP__LESS,
                                                 HYP_PLAN__POINTWISE__OP__LESS_EQUAL};
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_I64, HYP_I32, HYP_I16,
                                      HYP_I8,  HYP_U64, HYP_U32,  HYP_U16, HYP_U8,  HYP_BOOL};
    const int64_t count = 300, one = 1;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int wide = 0; wide < 2; wide++) {
                hyp_dtype dtype = types[t];
                bool real = hyp_dtype_is_float(dtype), small = hyp_dtype_size(dtype) < 4;
                if (!wide && !small && dtype != HYP_F32) continue; /* f32 does not hold all elements */
                pb_init(&b);
                uint32_t *dims = pb_consts(&b, 1, &count), *ones = pb_consts(&b, 1, &one);
                uint32_t x = pb_input(&b, "x", dtype, 1, dims), y = pb_output(&b, "y", dtype, 1, dims);
                HypPlan__Pointwise *s = pb_pointwise(&b,
                                                     !wide              ? HYP_F32
                                                     : real             ? HYP_F64
                                                     : dtype == HYP_U64 ? HYP_U64
                                                                        : HYP_I64,
                                                     1, dims);
                pb_operand(&b, s, x, ones);
                uint32_t three = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, 3, 0, dtype);
                uint32_t zero = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, 0, 0, dtype);
                uint32_t flag = pb_instr(&b, s, ops[o], 0, zero, 0, 0, HYP_BOOL);
                uint32_t opposite = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__NOT, flag, 0, 0, 0, HYP_BOOL);
                uint32_t choice = pb_instr(&b, s, HYP_PLAN__POINTWISE__OP__WHERE, opposite, 0, 0, 0, dtype);
                s->instrs[choice - 1]->c = three;
                pb_result(&b, s, y, choice);
                hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), 1, &count);
                compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)count, 0);
                free(in.data);
                pb_dispose(&b);
            }
}

static void softmax_agrees_on_random_shapes(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        int64_t dims[3] = {PICK(0, 1, 3, 16, 37), PICK(1, 2, 7, 10, 16, 100), PICK(1, 1, 2, 15, 40)},
                count = dims[0] * dims[1] * dims[2];
        hyp_dtype dtype = rng_below(&r, 4) ? HYP_F32 : HYP_BF16;
        uint32_t *d = pb_consts(&b, 3, dims);
        HypPlan__Softmax *s = pb_softmax(&b);
        s->x = pb_input(&b, "x", dtype, 3, d), s->y = pb_output(&b, "y", dtype, 3, d);
        s->outer = d[0], s->axis = d[1], s->inner = d[2];
        hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), 3, dims);
        compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)count, dtype == HYP_F32 ? 1e-6 : 0.01);
        free(in.data);
        pb_dispose(&b);
    }
}

static void gradients_of_softmax_agree_on_random_shapes(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(30); round++) {
        pb_init(&b);
        int64_t dims[3] = {PICK(0, 1, 3), PICK(1, 2, 10, 16, 100), PICK(1, 1, 2, 15, 300)},
                count = dims[0] * dims[1] * dims[2];
        hyp_dtype dtype = rng_below(&r, 4) ? HYP_F32 : HYP_BF16;
        uint32_t *d = pb_consts(&b, 3, dims), in[2] = {pb_input(&b, "y", dtype, 3, d), pb_input(&b, "g", dtype, 3, d)};
        pb_call_int(&b, pb_call(&b, "softmax-gradient", 2, in, pb_output(&b, "z", dtype, 3, d)), 1);
        hyp_tensor x[2] = {tensor_of("y", dtype, random_data(dtype, (size_t)count), 3, dims),
                           tensor_of("g", dtype, random_data(dtype, (size_t)count), 3, dims)};
        compare_backends(2, x, 1, (const char *const[]){"z"}, dtype, (size_t)count, dtype == HYP_F32 ? 1e-5 : 0.01);
        free(x[0].data);
        free(x[1].data);
        pb_dispose(&b);
    }
}

static void reduce_agrees_on_random_axes(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        hyp_dtype dtype = rng_below(&r, 4) ? HYP_F32 : HYP_I32;
        int64_t extents[8], strides[8], count, kept[8], kept_strides[8], reduced[8], reduced_strides[8], results = 1;
        size_t rank = random_extents(HYP_MAX_RANK, 20000, extents, &count), n_kept = 0, n_reduced = 0;
        dense_strides(rank, extents, strides);
        for (size_t a = 0; a < rank; a++) {
            if (rng_below(&r, 2)) {
                kept[n_kept] = extents[a], kept_strides[n_kept++] = strides[a];
                results *= extents[a];
            } else {
                reduced[n_reduced] = extents[a], reduced_strides[n_reduced++] = strides[a];
            }
        }
        HypPlan__Reduce *s = pb_reduce(&b);
        s->kind = dtype == HYP_F32 && rng_below(&r, 2) ? HYP_PLAN__REDUCE__KIND__MEAN : HYP_PLAN__REDUCE__KIND__SUM;
        s->x = pb_input(&b, "x", dtype, rank, pb_consts(&b, rank, extents));
        s->y = pb_output(&b, "y", dtype, n_kept, pb_consts(&b, n_kept, kept));
        s->n_kept = s->n_kept_strides = n_kept, s->n_reduced = s->n_reduced_strides = n_reduced;
        s->kept = pb_consts(&b, n_kept, kept), s->kept_strides = pb_consts(&b, n_kept, kept_strides);
        s->reduced = pb_consts(&b, n_reduced, reduced), s->reduced_strides = pb_consts(&b, n_reduced, reduced_strides);
        hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), rank, extents);
        compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)results, 1e-5);
        free(in.data);
        pb_dispose(&b);
    }
}

/* A random permutation with some axes backwards. */
static void copy_agrees_on_random_permutations(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        pb_init(&b);
        hyp_dtype dtype = (hyp_dtype)PICK(HYP_F32, HYP_U8, HYP_F16, HYP_F64);
        int64_t y_dims[8], x_dims[8], strides[8], x_strides[8], y_strides[8], count, offset = 0;
        size_t rank = random_extents(HYP_MAX_RANK, 20000, y_dims, &count), perm[8] = {0};
        for (size_t a = 0; a < rank; a++) {
            size_t at = rng_below(&r, a + 1);
            perm[a] = perm[at], perm[at] = a;
        }
        for (size_t a = 0; a < rank; a++) x_dims[perm[a]] = y_dims[a];
        dense_strides(rank, x_dims, strides);
        dense_strides(rank, y_dims, y_strides);
        for (size_t a = 0; a < rank; a++) {
            bool back = rng_below(&r, 4) == 0;
            x_strides[a] = back ? -strides[perm[a]] : strides[perm[a]];
            if (back) offset += (y_dims[a] - 1) * strides[perm[a]];
        }
        HypPlan__Copy *s = pb_copy(&b);
        s->x = pb_input(&b, "x", dtype, rank, pb_consts(&b, rank, x_dims));
        s->y = pb_output(&b, "y", dtype, rank, pb_consts(&b, rank, y_dims));
        s->n_extents = s->n_x_strides = s->n_y_strides = rank;
        s->extents = pb_consts(&b, rank, y_dims);
        s->x_strides = pb_consts(&b, rank, x_strides), s->y_strides = pb_consts(&b, rank, y_strides);
        s->x_offset = pb_const(&b, offset), s->y_offset = pb_const(&b, 0);
        hyp_tensor in = tensor_of("x", dtype, random_data(dtype, (size_t)count), rank, x_dims);
        compare_backends(1, &in, 1, (const char *const[]){"y"}, dtype, (size_t)count, 0);
        free(in.data);
        pb_dispose(&b);
    }
}

/* Matrices side by side, of bits that are no numbers, too. */
static void matrices_are_transposed(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(40); round++) {
        pb_init(&b);
        int64_t count = PICK(1, 3), rows = PICK(1, 3, 4, 31, 33, 64, 196), columns = PICK(1, 2, 5, 32, 100, 257, 1024);
        int64_t elements = count * rows * columns, x_dims[] = {count, rows, columns}, y_dims[] = {count, columns, rows};
        HypPlan__Copy *s = pb_copy(&b);
        s->x = pb_input(&b, "x", HYP_I32, 3, pb_consts(&b, 3, x_dims));
        s->y = pb_output(&b, "y", HYP_I32, 3, pb_consts(&b, 3, y_dims));
        s->n_extents = s->n_x_strides = s->n_y_strides = 3;
        s->extents = pb_consts(&b, 3, y_dims);
        s->x_strides = pb_consts(&b, 3, (int64_t[]){rows * columns, 1, columns});
        s->y_strides = pb_consts(&b, 3, (int64_t[]){rows * columns, rows, 1});
        s->x_offset = s->y_offset = pb_const(&b, 0);
        int32_t *x = calloc((size_t)elements, sizeof *x), *y = calloc((size_t)elements, sizeof *y);
        for (int64_t i = 0; i < elements; i++) x[i] = (int32_t)(0x7f800000 + rng_below(&r, 1 << 23));
        hyp_tensor in = tensor_of("x", HYP_I32, x, 3, x_dims);
        hyp_tensor out = {.name = "y", .data = y, .bytes = (size_t)elements * sizeof *y, .dtype = HYP_I32};
        run_once(&b, HYP_DEVICE_CPU, &in, 1, &out, 1);
        for (int64_t i = 0; i < elements; i++) {
            int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
            assert_int_equal(y[(matrix * columns + column) * rows + row], x[i]);
        }
        free(x), free(y);
        pb_dispose(&b);
    }
}

int main(void)
{
    r.state = 20;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointwise_agrees_on_random_programs),
        cmocka_unit_test(comparisons_and_choices_agree_in_every_type),
        cmocka_unit_test(softmax_agrees_on_random_shapes),
        cmocka_unit_test(gradients_of_softmax_agree_on_random_shapes),
        cmocka_unit_test(reduce_agrees_on_random_axes),
        cmocka_unit_test(copy_agrees_on_random_permutations),
        cmocka_unit_test(matrices_are_transposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

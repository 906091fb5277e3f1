/* Shapes of plans: sizes by symbols, and programs that would leave their tensors under some. */
#include "written_plan.h"

static hyp_status check_batch(const HypPlan__Program *p, int64_t batch, hyp_diag *diag)
{
    int64_t values[D_DIMS];
    HYP_TRY(hyp_plan_eval_dims(p, &batch, values, diag));
    return hyp_plan_check_bounds(p, values, diag);
}

static void symbols_are_bound_by_input_dims(void **state)
{
    fixture *f = *state;
    int64_t symbol = 0, x[] = {5, 4}, ids[] = {3};
    const int64_t *dims[] = {x, ids};
    int32_t ranks[] = {2, 1};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_bind_symbols(f->program, dims, ranks, &symbol, &diag), HYP_OK);
    assert_int_equal(symbol, 5);
    x[1] = 6;
    assert_int_equal(hyp_plan_bind_symbols(f->program, dims, ranks, &symbol, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "input 'x': axis 1 is 6, the model wants 4"));
    ranks[1] = 0;
    x[1] = 4;
    assert_int_equal(hyp_plan_bind_symbols(f->program, dims, ranks, &symbol, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'ids' has 0 axes"));
}

static void a_symbol_has_one_value(void **state)
{
    fixture *f = *state;
    f->program->tensors[S_IDS]->dims[0] = D_BATCH;
    int64_t symbol = 0, x[] = {5, 4}, ids[] = {3};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_bind_symbols(f->program, (const int64_t *[]){x, ids}, (int32_t[]){2, 1}, &symbol, &diag),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'batch' is 5 by axis 0 of input 'x'"));
}

static void axes_that_are_expressions_are_checked(void **state)
{
    fixture *f = *state;
    f->program->tensors[S_IDS]->dims[0] = D_8BATCH;
    int64_t symbol = 0, x[] = {5, 4}, ids[] = {40};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_bind_symbols(f->program, (const int64_t *[]){x, ids}, (int32_t[]){2, 1}, &symbol, &diag),
                     HYP_OK);
    ids[0] = 41;
    assert_int_equal(hyp_plan_bind_symbols(f->program, (const int64_t *[]){x, ids}, (int32_t[]){2, 1}, &symbol, &diag),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "the other inputs make it 40"));
}

static void steps_stay_inside_their_tensors(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    hyp_diag diag = {0};
    assert_int_equal(check_batch(p, 5, &diag), HYP_OK);
    assert_int_equal(check_batch(p, 0, &diag), HYP_OK);
    assert_int_equal(check_batch(p, (int64_t)1 << 60, &diag), HYP_ERR_LIMIT);
    uint32_t of_nothing[] = {D_BATCH, D_BATCH, D_0}; /* but the product of two axes would overflow */
    HypPlan__Tensor *x = p->tensors[S_X], whole = *x;
    x->dims = of_nothing;
    x->n_dims = 3;
    assert_int_equal(check_batch(p, (int64_t)1 << 40, &diag), HYP_ERR_LIMIT);
    assert_non_null(strstr(diag.message, "'x' overflows"));
    *x = whole;
#define OUTSIDE(place, value, text)                                                                                    \
    do {                                                                                                               \
        uint32_t old_ = (place);                                                                                       \
        (place) = (value);                                                                                             \
        assert_int_equal(hyp_plan_validate(p, &diag), HYP_OK);                                                         \
        assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);                                          \
        if (!strstr(diag.message, (text))) fail_msg("'%s' lacks '%s'", diag.message, (text));                          \
        (place) = old_;                                                                                                \
    } while (0)
    OUTSIDE(p->steps[T_LINEAR]->linear->m, D_8, "x has 20 elements");
    p->steps[T_LINEAR]->linear->added_plus1 = S_X + 1;
    assert_int_equal(check_batch(p, 5, &diag), HYP_OK);
    OUTSIDE(p->steps[T_LINEAR]->linear->added_plus1, S_W1 + 1, "what is added has 32 elements, the step wants 20");
    OUTSIDE(p->steps[T_LINEAR]->linear->layers[1]->k, D_BATCH, "takes 5 features");
    OUTSIDE(p->steps[T_POINTWISE]->pointwise->inputs[1]->strides[0], D_8, "elements 0 to 35");
    OUTSIDE(p->steps[T_POINTWISE]->pointwise->inputs[0]->strides[1], D_0, "not dense");
    OUTSIDE(p->steps[T_RIGHT]->copy->y_offset, D_8, "elements 8 to 43");
    OUTSIDE(p->steps[T_MATMUL]->matmul->m, D_8, "y has 25");
    OUTSIDE(p->steps[T_SOFTMAX]->softmax->axis, D_4, "x has 40");
    OUTSIDE(p->steps[T_REDUCE]->reduce->kept_strides[0], D_8, "elements 0 to 36");
    OUTSIDE(p->steps[T_GATHER]->gather->count, D_4, "indices");
    OUTSIDE(p->steps[T_COPY]->copy->extents[0], D_4, "copies fill 4 of the 40");
    OUTSIDE(p->steps[T_ATTENTION]->attention->rows, D_8, "elements 0 to 31 of q");
    OUTSIDE(p->steps[T_ATTENTION]->attention->k->strides[0], D_8, "elements 0 to 35 of k");
    OUTSIDE(p->steps[T_ATTENTION]->attention->v->offset, D_1, "elements 1 to 20 of v");
    OUTSIDE(p->steps[T_ATTENTION]->attention->mask->strides[1], D_2, "of the mask");
    OUTSIDE(p->steps[T_ATTENTION]->attention->y->strides[0], D_0, "y is not dense");
    OUTSIDE(p->steps[T_ATTENTION]->attention->columns, D_3, "y has 20 elements");
    OUTSIDE(p->tensors[S_FLAT]->dims[0], D_8, "reshaped");
}

static void windows_end_inside_of_their_tensors(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor *flat = p->tensors[S_FLAT];
    uint32_t eight = D_8;
    hyp_diag diag = {0};
    flat->window = true;
    flat->dims = &eight;
    p->steps[T_COPY]->copy->x_strides[0] = D_0;
    flat->first = 32;
    assert_int_equal(check_batch(p, 5, &diag), HYP_OK);
    flat->first = 36;
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "8 elements from number 36 on of 40"));
    flat->first = 44;
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    flat->first = (uint64_t)INT64_MAX / 4 - 3;
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    flat->first = 0;
    assert_int_equal(check_batch(p, 0, &diag), HYP_ERR_INVALID_ARGUMENT);
}

static void keys_in_two_parts_are_as_many_as_there_are(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Attention *k = p->steps[T_ATTENTION]->attention;
    HypPlan__Attention__Operand more = *k->k;
    hyp_diag diag = {0};
    k->more_k = k->more_v = &more;
    k->first_keys = D_4;
    k->more_keys = D_1;
    OUTSIDE(k->rows, D_BATCH, "keys in two parts are 4 and 1 for 5 rows, wanted 5 for one");
    k->rows = D_1;
    OUTSIDE(k->more_keys, D_2, "keys in two parts are 4 and 2 for 1 rows, wanted 5 for one");
    OUTSIDE(more.offset, D_8BATCH, "elements 40 to 43 of more of k");
}

static void negative_strides_are_checked_at_the_low_end(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Copy *k = p->steps[T_COPY]->copy;
    p->dims[D_2]->value = -1; /* only the shape output used it */
    p->tensors[S_SHAPE]->dims[0] = D_1;
    p->steps[T_FILL]->fill->n_values = 1;
    k->x_strides[0] = D_2;
    hyp_diag diag = {0};
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "elements -39 to 0"));
}

static void a_plan_of_fixed_shapes_is_checked_when_it_opens(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    p->dims[D_BATCH]->kind = HYP_PLAN__DIM__KIND__CONST;
    p->dims[D_BATCH]->value = 5;
    p->n_symbols = 0;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    p->steps[T_RIGHT]->copy->y_offset = D_8;
    REFUSED(f, "elements 8 to 43");
}

static void work_counts_operations_and_bytes(void **state)
{
    fixture *f = *state;
    int64_t batch = 2, values[D_DIMS];
    assert_int_equal(hyp_plan_eval_dims(f->program, &batch, values, NULL), HYP_OK);
    hyp_step_work work = hyp_plan_step_work(f->program, T_LINEAR, values);
    assert_true(work.flops == 2 * 8 * (2 * 4 + 2) + 2 * 4 * (2 * 8));
    assert_true(work.bytes == 4 * (2 * 4 + 8 * 4 + 8 + 4 * 8 + 2 * 8 + 2 * 4));
    work = hyp_plan_step_work(f->program, T_LEFT, values);
    assert_true(work.bytes == 2 * 4 * 2 * 4);
}

static void steps_name_what_they_read_and_write(void **state)
{
    fixture *f = *state;
    uint32_t t[8];
    assert_int_equal(hyp_plan_step_reads(f->program->steps[T_LINEAR], t, 8), 4);
    assert_int_equal(t[0], S_X);
    assert_int_equal(t[3], S_W2);
    assert_int_equal(hyp_plan_step_writes(f->program->steps[T_LINEAR], t, 1), 2);
    assert_int_equal(t[0], S_HIDDEN);
    assert_int_equal(hyp_plan_step_reads(f->program->steps[T_COPY], t, 8), 1);
    assert_int_equal(hyp_plan_root(f->program, t[0]), S_CAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(symbols_are_bound_by_input_dims),
        TEST(a_symbol_has_one_value),
        TEST(axes_that_are_expressions_are_checked),
        TEST(steps_stay_inside_their_tensors),
        TEST(windows_end_inside_of_their_tensors),
        TEST(keys_in_two_parts_are_as_many_as_there_are),
        TEST(negative_strides_are_checked_at_the_low_end),
        TEST(a_plan_of_fixed_shapes_is_checked_when_it_opens),
        TEST(work_counts_operations_and_bytes),
        TEST(steps_name_what_they_read_and_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Programs that would misbehave are refused. */
#include <math.h>

#include "written_plan.h"

static void indexes_out_of_range_are_refused(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->dims[D_8BATCH]->a, D_8BATCH, "do not come before");
    CHANGED(f, p->dims[D_BATCH]->value, 1, "symbol 1 of 1");
    CHANGED(f, p->tensors[S_CAT]->dims[1], D_DIMS, "tensor 8");
    CHANGED(f, p->tensors[S_CAT]->slot, 3, "slot 3 of 3");
    CHANGED(f, p->tensors[S_FLAT]->view_of, S_TENSORS, "view of tensor");
    CHANGED(f, p->tensors[S_FLAT]->view_of, S_FLAT, "view of a view");
    CHANGED(f, p->tensors[S_W1]->bytes, 127, "127 bytes");
    CHANGED(f, p->tensors[S_W1]->dims[0], D_BATCH, "not a fixed size");
    CHANGED(f, p->inputs[0], S_TENSORS, "input 0");
    CHANGED(f, p->outputs[1], S_SOFT, "two outputs are named");
    CHANGED(f, p->n_outputs, 4, "outputs are listed");
    CHANGED(f, p->slot_count, 1000000, "slots");
    CHANGED(f, p->steps[T_LINEAR]->rules[0], 1, "rule 1 of 1");
    CHANGED(f, p->predicted_seconds, -1e-9, "predicted to take -1e-09 seconds");
    CHANGED(f, p->predicted_seconds, (double)INFINITY, "predicted to take inf");
    CHANGED(f, p->hop_seconds, -1e-9, "going on on another stream is predicted to take -1e-09 seconds");
    CHANGED(f, p->hop_seconds, (double)NAN, "another stream is predicted to take nan");
    CHANGED(f, p->steps[T_LINEAR]->share, -0.5, "its share of the device is -0.5");
    CHANGED(f, p->steps[T_LINEAR]->share, (double)INFINITY, "its share of the device is inf");
    CHANGED(f, p->kept_seconds, -1e-9, "without computing anything again it is predicted to take -1e-09 seconds");
    CHANGED(f, p->kept_seconds, (double)NAN, "again it is predicted to take nan");
    CHANGED(f, p->steps[T_LINEAR]->predicted_seconds, -1e-9, "predicted to take -1e-09 seconds");
    CHANGED(f, p->steps[T_LINEAR]->predicted_seconds, (double)NAN, "predicted to take nan");
    CHANGED(f, p->steps[T_LINEAR]->predicted_seconds, (double)INFINITY, "predicted to take inf");
    CHANGED(f, p->n_typical_sizes, 2, "2 typical sizes for 1 symbols");
    CHANGED(f, p->record, ((ProtobufCBinaryData){2, (uint8_t[]){'{', 0xff}}), "record of its compilation has 2 bytes; wanted is UTF-8");
    CHANGED(f, p->record, ((ProtobufCBinaryData){2, (uint8_t[]){'{', 0}}), "record of its compilation has 2 bytes; wanted is UTF-8");
    CHANGED(f, p->record, ((ProtobufCBinaryData){HYP_PLAN_MAX_RECORD + 1, (uint8_t[]){'{'}}), "4194305 bytes");
    CHANGED(f, p->steps[T_LINEAR]->linear->x, S_TENSORS, "step 0 (fused-mlp)");
    CHANGED(f, p->steps[T_LINEAR]->linear->m, D_DIMS, "m is dim");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->instrs[0]->a, 2, "registers");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->output_regs[0], 3, "register 3 of 3");
    CHANGED(f, p->steps[T_ATTENTION]->attention->q->tensor, S_TENSORS, "q is tensor");
    CHANGED(f, p->steps[T_ATTENTION]->attention->k->offset, D_DIMS, "k is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->v->strides[1], D_DIMS, "v is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->columns, D_DIMS, "columns is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->first_keys, D_DIMS, "the first keys is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->more_keys, D_DIMS, "more keys is dim");
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
}

static void lists_of_other_lengths_are_refused(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->steps[T_LINEAR]->linear->n_layers, 0, "no layers");
    CHANGED(f, p->steps[T_LINEAR]->linear->layers[0]->hidden_plus1, 0, "hidden");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->inputs[0]->n_strides, 1, "1 strides for 2 axes");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->n_output_regs, 0, "registers");
    CHANGED(f, p->steps[T_LEFT]->copy->n_y_strides, 1, "strides");
    CHANGED(f, p->steps[T_REDUCE]->reduce->n_kept_strides, 0, "strides");
    CHANGED(f, p->steps[T_ATTENTION]->attention->mask->n_strides, 1, "the mask has 1 strides for 2 axes");
    CHANGED(f, p->steps[T_ATTENTION]->attention->y, NULL, "lacks y");
    CHANGED(f, p->steps[T_ATTENTION]->attention->plain, true, "it has a mask but no softmax");
    CHANGED(f, p->steps[T_ATTENTION]->attention->more_k, p->steps[T_ATTENTION]->attention->k, "lacks more of v");
    CHANGED(f, p->steps[T_ATTENTION]->attention->n_batch, 9, "9 axes");
    CHANGED(f, p->tensors[S_X]->n_dims, 9, "9 axes");
    CHANGED(f, p->tensors[S_X]->n_dims, 0, "batch"); /* nothing binds the symbol any more */
}

/* Backends pack weights when they load a plan, before there are shapes: what has no symbol is proved by then. */
static void layers_have_their_weights_before_there_are_shapes(void **state)
{
    fixture *f = *state;
    HypPlan__Layer **layers = f->program->steps[T_LINEAR]->linear->layers;
    CHANGED(f, layers[0]->k, D_8, "the weight has 32 elements, the step wants 64");
    CHANGED(f, layers[0]->n, D_3, "the weight has 32 elements, the step wants 12");
    CHANGED(f, layers[0]->bias_plus1, S_W1 + 1, "the bias has 32 elements, the step wants 8");
    layers[1]->n = D_8;
    CHANGED(f, layers[1]->k, D_4, "layer 1 takes 4 features, the one before gives 8");
    layers[1]->n = D_4;
    HypPlan__Dim *eight = f->program->dims[D_8], old = *eight; /* as large, and made of others */
    *eight = (HypPlan__Dim){.base = old.base, .kind = HYP_PLAN__DIM__KIND__MUL, .a = D_4, .b = D_4};
    f->program->tensors[S_B1]->dims[0] = f->program->tensors[S_W1]->dims[0] = f->program->tensors[S_W2]->dims[1] = D_4;
    f->program->tensors[S_B1]->bytes = 16;
    f->program->tensors[S_W1]->bytes = f->program->tensors[S_W2]->bytes = 64;
    REFUSED(f, "the weight has 16 elements, the step wants 64");
    *eight = old;
}

/* A view of a weight is as large as the weight, and a size that is not there yet is looked at with the shapes. */
static void views_and_symbols_of_layers_are_looked_at_in_time(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Layer **layers = p->steps[T_LINEAR]->linear->layers;
    layers[0]->n = D_BATCH;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    int64_t values[D_DIMS], three = 3;
    assert_int_equal(hyp_plan_eval_dims(p, &three, values, NULL), HYP_OK);
    assert_int_equal(hyp_plan_check_bounds(p, values, NULL), HYP_ERR_INVALID_ARGUMENT);
    layers[0]->n = D_8;
    p->tensors[S_FLAT]->view_of = S_W1;
    p->tensors[S_FLAT]->dims[0] = D_8;
    REFUSED(f, "32 elements are reshaped to 8 in tensor 9");
}

static void types_that_do_not_agree_are_refused(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->tensors[S_X]->dtype, HYP_F64, "wanted");
    CHANGED(f, p->tensors[S_IDS]->dtype, HYP_F32, "indices");
    CHANGED(f, p->tensors[S_SHAPE]->dtype, HYP_I32, "i64");
    CHANGED(f, p->tensors[S_FLAT]->dtype, HYP_I32, "another type");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->compute, HYP_I64, "integer");
    CHANGED(f, p->steps[T_ATTENTION]->attention->mask->tensor, S_SHAPE, "the mask is i64, wanted f32");
    CHANGED(f, p->steps[T_ATTENTION]->attention->k->tensor, S_IDS, "k is i64, wanted f32");
}

static void steps_must_read_what_stands(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->steps[T_LINEAR]->linear->x, S_Z, "before it is written");
    CHANGED(f, p->steps[T_MATMUL]->matmul->a, S_Y, "overwritten"); /* replaced in place */
    CHANGED(f, p->steps[T_LINEAR]->linear->y, S_HIDDEN, "written twice");
    CHANGED(f, p->tensors[S_Y]->slot, 0, "another that the step writes"); /* the hidden tensor's slot */
    CHANGED(f, p->tensors[S_PRODUCT]->slot, 1, "slot of a tensor that the step reads");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->y, S_X, "neither an output nor scratch");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->y, S_SUM, "written twice");
    CHANGED(f, p->steps[T_COPY]->copy->x, S_COPY, "before it is written");
    CHANGED(f, p->n_steps, T_COPY, "no step writes the output 'copy'");
}

/* A linear step in place of the pointwise one: S_Y is added to its result S_Z, which lies in the same slot. */
static void what_is_added_to_a_linear_may_give_its_place_to_the_result(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Linear k = HYP_PLAN__LINEAR__INIT;
    HypPlan__Layer first = *p->steps[T_LINEAR]->linear->layers[0], last = *p->steps[T_LINEAR]->linear->layers[1];
    first.hidden_plus1 = S_CAT + 1; /* in the slot of S_HIDDEN */
    k.layers = (HypPlan__Layer *[]){&last, NULL};
    k.n_layers = 1;
    k.x = S_X;
    k.y = S_Z;
    k.m = D_BATCH;
    k.added_plus1 = S_Y + 1;
    p->steps[T_POINTWISE]->kernel_case = HYP_PLAN__STEP__KERNEL_LINEAR;
    p->steps[T_POINTWISE]->linear = &k;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    CHANGED(f, k.added_plus1, S_TENSORS + 1, "what is added is tensor 17 of 17");
    CHANGED(f, k.added_plus1, S_Z + 1, "what is added, tensor 7, is read before it is written");
    CHANGED(f, k.added_plus1, S_IDS + 1, "what is added is i64, wanted f32");
    CHANGED(f, k.add_after, 1, "y, tensor 7, is in the slot of a tensor that the step reads");
    CHANGED(f, k.x, S_Y, "y, tensor 7, is in the slot of a tensor that the step reads"); /* read twice */
    p->tensors[S_FLAT]->view_of = S_Y;
    p->tensors[S_FLAT]->window = true;
    p->tensors[S_FLAT]->first = 4;
    CHANGED(f, k.added_plus1, S_FLAT + 1, "y, tensor 7, is in the slot of a tensor that the step reads");
    p->tensors[S_FLAT]->view_of = S_CAT;
    k.layers = (HypPlan__Layer *[]){&first, &last};
    k.n_layers = 2;
    CHANGED(f, k.added_plus1, S_HIDDEN + 1,
            "a hidden tensor, tensor 8, is in the slot of a tensor that the step reads");
}

/* Two steps more: a normalization of S_X into slot 0, and a linear of its result in slot 1. */
static void a_linear_normalizes_what_it_alone_reads(void **state)
{
    enum { NORMED = S_TENSORS, RESULT, MORE_TENSORS };
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor scratch[2] = {*p->tensors[S_Y], *p->tensors[S_Y]}, *tensors[MORE_TENSORS];
    HypPlan__Step more[2] = {*p->steps[T_FILL], *p->steps[T_LINEAR]}, *steps[T_STEPS + 2];
    HypPlan__Linear linear = *p->steps[T_LINEAR]->linear;
    HypPlan__Layer layer = *linear.layers[0], *layers[] = {&layer};
    HypPlan__Call call = HYP_PLAN__CALL__INIT;
    uint32_t in[] = {S_X + 1}, out[] = {NORMED};
    char kernel[] = "rms-norm";
    scratch[0].slot = 0;
    scratch[1].dims = p->tensors[S_CAT]->dims;
    call.kernel = kernel;
    call.inputs_plus1 = in;
    call.outputs = out;
    call.n_inputs_plus1 = call.n_outputs = 1;
    more[0].kernel_case = HYP_PLAN__STEP__KERNEL_CALL;
    more[0].call = &call;
    layer.n = D_8;
    layer.weight = S_W1;
    layer.bias_plus1 = layer.hidden_plus1 = 0;
    linear.x = NORMED;
    linear.y = RESULT;
    linear.normalizes = true;
    linear.layers = layers;
    linear.n_layers = 1;
    more[1].linear = &linear;
    memcpy(tensors, p->tensors, sizeof *tensors * S_TENSORS);
    memcpy(steps, p->steps, sizeof *steps * T_STEPS);
    for (int i = 0; i < 2; i++) {
        tensors[S_TENSORS + i] = &scratch[i];
        steps[T_STEPS + i] = &more[i];
    }
    p->tensors = tensors;
    p->steps = steps;
    p->n_tensors += 2;
    p->n_steps += 2;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    CHANGED(f, linear.added_plus1, NORMED + 1, "what is added, tensor 17, is read before it is written");
    CHANGED(f, scratch[1].slot, 0, "y, tensor 18, is in the slot of a tensor that the step reads");
    CHANGED(f, kernel[0], 'R', "the step before is no normalization that makes x");
    CHANGED(f, more[0].kernel_case, HYP_PLAN__STEP__KERNEL__NOT_SET, "it has no kernel");
    p->tensors[S_FLAT]->view_of = NORMED;
    p->tensors[S_FLAT]->window = true;
    p->steps[T_COPY]->copy->x = S_CAT;
    CHANGED(f, linear.x, S_FLAT, "the step before is no normalization that makes x");
    CHANGED(f, out[0], S_FLAT, "tensor 9 is written, and it is a window");
    CHANGED(f, p->steps[T_LINEAR]->linear->normalizes, true, "the step before is no normalization that makes x");
}

/* Two steps more: S_X becomes f8e4m3, and a linear multiplies it by a weight of that type. */
static void a_linear_of_f8e4m3_has_two_scales_and_one_layer(void **state)
{
    enum { BYTES = S_TENSORS, WEIGHT, BIAS, RESULT, MORE_TENSORS };
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor added[] = {*p->tensors[S_Y], *p->tensors[S_W1], *p->tensors[S_B1], *p->tensors[S_HIDDEN]};
    HypPlan__Tensor *tensors[MORE_TENSORS];
    HypPlan__Step more[2] = {*p->steps[T_POINTWISE], *p->steps[T_LINEAR]}, *steps[T_STEPS + 2];
    HypPlan__Pointwise convert = *p->steps[T_POINTWISE]->pointwise;
    HypPlan__Pointwise__Operand x = *convert.inputs[0], *inputs[] = {&x};
    HypPlan__Linear linear = *p->steps[T_LINEAR]->linear;
    HypPlan__Layer layer = *linear.layers[0], *layers[] = {&layer, &layer};
    uint32_t y = BYTES, reg = 0;
    added[0].dtype = added[1].dtype = HYP_F8E4M3;
    added[2].dtype = added[3].dtype = HYP_BF16;
    added[1].bytes = 32;
    added[2].bytes = 16;
    added[3].slot = 0;
    x.tensor = S_X;
    convert.inputs = inputs;
    convert.n_inputs = convert.n_outputs = convert.n_output_regs = 1;
    convert.n_instrs = 0;
    convert.outputs = &y;
    convert.output_regs = &reg;
    layer.weight = WEIGHT;
    layer.bias_plus1 = BIAS + 1;
    layer.hidden_plus1 = 0;
    layer.x_scale = 0.5f;
    layer.weight_scale = 0.125f;
    linear.x = BYTES;
    linear.y = RESULT;
    linear.layers = layers;
    linear.n_layers = 1;
    more[0].pointwise = &convert;
    more[1].linear = &linear;
    memcpy(tensors, p->tensors, sizeof *tensors * S_TENSORS);
    memcpy(steps, p->steps, sizeof *steps * T_STEPS);
    for (int i = 0; i < MORE_TENSORS - S_TENSORS; i++) tensors[S_TENSORS + i] = &added[i];
    for (int i = 0; i < 2; i++) steps[T_STEPS + i] = &more[i];
    p->tensors = tensors;
    p->steps = steps;
    p->n_tensors = MORE_TENSORS;
    p->n_steps += 2;
    hyp_plan_place_weights(p);
    hyp_diag diag = {0};
    if (hyp_plan_validate(p, &diag) != HYP_OK) fail_msg("%s", diag.message);
    CHANGED(f, layer.x_scale, 0, "layer 0 of f8e4m3 has scales 0 and 0.125");
    CHANGED(f, layer.weight_scale, INFINITY, "layer 0 of f8e4m3 has scales 0.5 and inf");
    CHANGED(f, layer.weight, S_W1, "the weight is f32, wanted f8e4m3");
    CHANGED(f, layer.bias_plus1, S_B1 + 1, "the bias is f32, wanted bf16");
    CHANGED(f, layer.weight_kn, true, "a weight of f8e4m3 is not [n,k]");
    CHANGED(f, linear.n_layers, 2, "it has 2 layers of f8e4m3 to bf16; one to bf16 is possible");
    CHANGED(f, added[3].dtype, HYP_F32, "it has 1 layers of f8e4m3 to f32; one to bf16 is possible");
    CHANGED(f, p->steps[T_LINEAR]->linear->layers[0]->x_scale, 0.5f, "layer 0 of f32 has scales 0.5 and 0");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->x, BYTES, "tensor 17, is read before it is written");
    CHANGED(f, p->tensors[S_X]->dtype, HYP_F8E4M3, "it has 2 layers of f8e4m3 to f32");

    hyp_plan plan;
    hyp_plan_weights weights = sample_weights();
    assert_int_equal(hyp_plan_write(f->path, p, &weights, NULL, &diag), HYP_OK);
    assert_int_equal(hyp_plan_open_file(f->path, NULL, &plan, &diag), HYP_OK);
    const HypPlan__Layer *read = plan.program->steps[T_STEPS + 1]->linear->layers[0];
    assert_true(read->x_scale == 0.5f && read->weight_scale == 0.125f);
    hyp_plan_close(&plan);
}

static void kernels_of_later_versions_are_incompatible(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    hyp_diag diag = {0};
    ProtobufCMessageUnknownField field = {.tag = 99};
    HypPlan__Step *s = p->steps[T_FILL];
    s->kernel_case = HYP_PLAN__STEP__KERNEL__NOT_SET;
    REFUSED(f, "no kernel");
    s->base.n_unknown_fields = 1;
    s->base.unknown_fields = &field;
    assert_int_equal(hyp_plan_validate(p, &diag), HYP_ERR_INCOMPATIBLE);
    assert_non_null(strstr(diag.message, "kernel (99)"));
    assert_non_null(strstr(diag.message, "build it again"));
    s->kernel_case = HYP_PLAN__STEP__KERNEL_FILL;
    s->base.n_unknown_fields = 0;
    p->steps[T_LINEAR]->linear->layers[0]->act = (HypPlan__Act)17;
    assert_int_equal(hyp_plan_validate(p, &diag), HYP_ERR_INCOMPATIBLE);
    assert_non_null(strstr(diag.message, "activation"));
}

/* S_FLAT, which a copy reads, as a part of S_CAT; and other tensors, as steps must not have them. */
static void windows_are_parts_that_are_read(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor *flat = p->tensors[S_FLAT];
    flat->window = true;
    flat->first = 4;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    assert_int_equal(hyp_plan_first_byte(p, S_FLAT), 16);
    CHANGED(f, flat->first, 5, "begins at byte 20, which is no multiple of 16");
    CHANGED(f, flat->first, UINT64_MAX - 3, "begins at element 18446744073709551612");
    CHANGED(f, flat->first, (uint64_t)INT64_MAX / 4 + 1, "begins at element 2305843009213693952");
    CHANGED(f, flat->view_of, S_W1, "a window of a weight");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->y, S_FLAT, "neither an output nor scratch");
    CHANGED(f, p->steps[T_COPY]->copy->y, S_FLAT, "neither an output nor scratch");
    /* Of S_Y, which the pointwise step replaces. */
    CHANGED(f, flat->view_of, S_Y, "overwritten");
    p->steps[T_COPY]->copy->x = S_CAT;
    flat->view_of = S_Y;
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->inputs[0]->tensor, S_FLAT, "replaces an input that begins elsewhere");
    flat->first = 0;
    p->steps[T_POINTWISE]->pointwise->inputs[0]->tensor = S_FLAT;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(indexes_out_of_range_are_refused),
        TEST(lists_of_other_lengths_are_refused),
        TEST(layers_have_their_weights_before_there_are_shapes),
        TEST(views_and_symbols_of_layers_are_looked_at_in_time),
        TEST(types_that_do_not_agree_are_refused),
        TEST(steps_must_read_what_stands),
        TEST(what_is_added_to_a_linear_may_give_its_place_to_the_result),
        TEST(a_linear_normalizes_what_it_alone_reads),
        TEST(a_linear_of_f8e4m3_has_two_scales_and_one_layer),
        TEST(windows_are_parts_that_are_read),
        TEST(kernels_of_later_versions_are_incompatible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

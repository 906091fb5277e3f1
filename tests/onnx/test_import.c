/* What models become: each test imports a small model and looks for the nodes it should give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model_builder.h"

static void expect(model_builder *b, const hyp_onnx_options *options, const char *const *parts)
{
    imported im;
    mb_import(b, options, &im);
    if (im.status != HYP_OK) fail_msg("%s", im.diag.message);
    for (; *parts; parts++)
        if (!strstr(hyp_strbuf_text(&im.text), *parts)) fail_msg("no %s in\n%s", *parts, hyp_strbuf_text(&im.text));
    imported_dispose(&im);
}
#define EXPECT(b, ...) expect(b, NULL, (const char *const[]){__VA_ARGS__, NULL})

/* One node on an input x and constants. */
static model_builder one(int64_t opset, const char *x_dims, const char *op, const char *inputs, const char *attributes)
{
    model_builder b;
    mb_init(&b, opset);
    mb_input(&b, "x", HYP_F32, x_dims);
    mb_node(&b, op, inputs, "y", attributes);
    mb_output(&b, "y");
    return b;
}

static void gemm_keeps_its_attributes(void **state)
{
    (void)state;
    model_builder b = one(13, "batch 3", "Gemm", "x w c", "transB=1 alpha=0.5 beta=2.0");
    mb_const(&b, "w", HYP_F32, "2 3", NULL);
    mb_const(&b, "c", HYP_F32, "2", NULL);
    EXPECT(&b, "(gemm :trans-b 1 :alpha 0.5 :beta 2.0 %x %w %c) :from (\"Gemm:y\")", "(input %x (f32 batch 3))",
           "(output \"y\"");
    b = one(13, "3 4", "Gemm", "x w -", "transA=1");
    mb_const(&b, "w", HYP_F32, "3 2", NULL);
    EXPECT(&b, "(gemm :trans-a 1 %x %w)");
}

static void node_names_become_provenance(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Relu", "x", "");
    b.nodes[0]->name = (char[]){"first"};
    EXPECT(&b, ":from (\"first\")");
}

static void attributes_of_value_zero_may_be_left_out(void **state)
{
    (void)state;
    model_builder b = one(13, "2 3", "Concat", "x x", "axis=0");
    b.nodes[0]->attribute[0]->has_i = false;
    EXPECT(&b, "(concat :axis 0 %x %x)");
}

static void nodes_out_of_order_are_sorted_and_others_stay(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Relu", "t", "");
    mb_node(&b, "Exp", "x", "e", "");
    mb_node(&b, "Tanh", "x", "t", "");
    EXPECT(&b, "(tanh %x) :from (\"Tanh:t\"))\n", "(relu %1) :from", "(exp %x)");
}

static void initializers_that_are_inputs_are_constants(void **state)
{
    (void)state;
    model_builder b = one(7, "2", "Add", "x w", "");
    b.model.ir_version = 3;
    mb_input(&b, "w", HYP_F32, "2");
    mb_const(&b, "w", HYP_F32, "2", "1 2");
    EXPECT(&b, "(const %w (f32 2) 1.0 2.0)", "(add %x %w)");
}

static void dims_without_a_name_get_one_of_their_own(void **state)
{
    (void)state;
    model_builder b = one(13, "? x_dim0 3", "Relu", "x", "");
    EXPECT(&b, "(input %x (f32 x_dim0_ x_dim0 3))");
    b = one(13, "-1 3", "Relu", "x", "");
    EXPECT(&b, "(input %x (f32 x_dim0 3))");
}

static void options_set_dims_everywhere(void **state)
{
    (void)state;
    const char *names[] = {"batch"};
    const int64_t values[] = {32};
    hyp_onnx_options options = {.dim_names = names, .dim_values = values, .dim_count = 1};
    model_builder b = one(13, "batch 3", "Add", "x z", "");
    mb_input(&b, "z", HYP_F32, "batch 1");
    expect(&b, &options, (const char *const[]){"%x (f32 32 3)", "%z (f32 32 1)", NULL});

    hyp_tensor shape = {.name = "x", .rank = 2, .dims = {5, -1}};
    options = (hyp_onnx_options){.shapes = &shape, .shape_count = 1};
    b = one(13, "batch ?", "Add", "x z", "");
    mb_input(&b, "z", HYP_F32, "batch 1");
    expect(&b, &options, (const char *const[]){"%x (f32 5 x_dim1)", "%z (f32 5 1)", NULL});

    b = one(13, NULL, "Relu", "x", "");
    expect(&b, &options, (const char *const[]){"%x (f32 5 x_dim1)", NULL});
}

static void reshape_resolves_zero_and_minus_one(void **state)
{
    (void)state;
    static const struct {
        const char *x, *count, *values, *attributes, *shape;
    } cases[] = {
        {"batch 3 4", "2", "0 -1", "", "(reshape :shape (batch 12) %x)"},
        {"batch 3 4", "2", "-1 4", "", "(reshape :shape ((* 3 batch) 4) %x)"},
        {"batch 3 4", "3", "-1 2 6", "", "(reshape :shape (batch 2 6) %x)"},
        {"0 3 4", "2", "0 -1", "", "(reshape :shape (0 12) %x)"},
        {"0 3", "2", "3 0", "allowzero=1", "(reshape :shape (3 0) %x)"},
        {"1 1", "0", "", "", "(reshape :shape () %x)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_builder b = one(14, cases[i].x, "Reshape", "x s", cases[i].attributes);
        mb_const(&b, "s", HYP_I64, cases[i].count, cases[i].values);
        EXPECT(&b, cases[i].shape);
    }
}

static void shapes_computed_from_shapes_are_known(void **state)
{
    (void)state;
    model_builder b = one(11, "batch 2 3", "Reshape", "x s", "");
    mb_node(&b, "Shape", "x", "d", "");
    mb_node(&b, "Gather", "d zero", "n", "axis=0");
    mb_node(&b, "Unsqueeze", "n", "n1", "axes=[0]");
    mb_node(&b, "Concat", "n1 rest", "s", "axis=0");
    mb_const(&b, "zero", HYP_I64, "", "0");
    mb_const(&b, "rest", HYP_I64, "1", "-1");
    EXPECT(&b, "(reshape :shape (batch 6) %x)");
    b = one(15, "batch 2 3", "Shape", "x", "start=-2 end=9");
    EXPECT(&b, "(slice :starts (1) :sizes (2) :steps (1)");
}

static void slices_are_normalised(void **state)
{
    (void)state;
    static const struct {
        const char *x, *starts, *ends, *axes, *steps, *slice;
    } cases[] = {
        {"4 6", "1", "3", "0", "1", "(slice :starts (1 0) :sizes (2 6) :steps (1 1) %x)"},
        {"4 6", "-3", "9223372036854775807", "-1", "1", "(slice :starts (0 3) :sizes (4 3) :steps (1 1) %x)"},
        {"4 6", "0", "6", "1", "4", "(slice :starts (0 0) :sizes (4 2) :steps (1 4) %x)"},
        {"4 6", "-1", "-9223372036854775808", "1", "-1", "(slice :starts (0 5) :sizes (4 6) :steps (1 -1) %x)"},
        {"4 6", "9", "0", "1", "-2", "(slice :starts (0 5) :sizes (4 3) :steps (1 -2) %x)"},
        {"4 6", "0", "6", "1", "9223372036854775807", "(slice :starts (0 0) :sizes (4 1) :steps (1 6) %x)"},
        {"4 6", "5", "-9", "1", "-9223372036854775808", "(slice :starts (0 5) :sizes (4 1) :steps (1 -6) %x)"},
        {"4 6", "3", "1", "0", "1", "(slice :starts (0 0) :sizes (0 6) :steps (1 1) %x)"},
        {"4 6", "-9", "-9223372036854775808", "1", "-1", "(slice :starts (0 0) :sizes (4 1) :steps (1 -1) %x)"},
        {"4 6", "-7", "-6", "1", "-1", "(slice :starts (0 0) :sizes (4 0) :steps (1 -1) %x)"},
        {"4 0", "-2", "-9", "1", "-1", "(slice :starts (0 0) :sizes (4 0) :steps (1 -1) %x)"},
        {"n 6", "-2", "-9223372036854775808", "0", "-1", ":sizes ((min (+ 1 (max 0 (+ -2 n))) n) 6)"},
        {"n 6", "0", "9223372036854775807", "0", "1", "(slice :starts (0 0) :sizes (n 6) :steps (1 1) %x)"},
        {"n 6", "1", "2147483647", "0", "1", ":sizes ((max 0 (+ -1 n)) 6)"},
        {"n 6", "0", "-1", "0", "1", ":sizes ((max 0 (+ -1 n)) 6)"},
        {"n 6", "-2", "9223372036854775807", "0", "1", ":sizes ((min 2 n) 6)"},
        {"n 6", "-1", "-9223372036854775808", "0", "-1", ":sizes (n 6) :steps (-1 1)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_builder b = one(13, cases[i].x, "Slice", "x starts ends axes steps", "");
        mb_const(&b, "starts", HYP_I64, "1", cases[i].starts);
        mb_const(&b, "ends", HYP_I64, "1", cases[i].ends);
        mb_const(&b, "axes", HYP_I64, "1", cases[i].axes);
        mb_const(&b, "steps", HYP_I64, "1", cases[i].steps);
        EXPECT(&b, cases[i].slice);
    }
    model_builder b = one(9, "4 6", "Slice", "x", "starts=[1,0] ends=[-1,5]");
    EXPECT(&b, "(slice :starts (1 0) :sizes (2 5) :steps (1 1) %x)");
}

static void splits_take_sizes_or_make_equal_parts(void **state)
{
    (void)state;
    static const struct {
        int64_t opset;
        const char *x, *inputs, *attributes, *split;
    } cases[] = {
        {11, "7 6", "x", "axis=-1", "(split :axis 1 :sizes (2 2 2) %x)"},
        {11, "7 6", "x", "axis=1 split=[1,2,3]", "(split :axis 1 :sizes (1 2 3) %x)"},
        {13, "7 6", "x sizes", "", "(split :axis 0 :sizes (4 2 1) %x)"},
        {18, "7 6", "x", "num_outputs=3", "(split :axis 0 :sizes (3 3 1) %x)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_builder b;
        mb_init(&b, cases[i].opset);
        mb_input(&b, "x", HYP_F32, cases[i].x);
        mb_const(&b, "sizes", HYP_I64, "3", "4 2 1");
        mb_node(&b, "Split", cases[i].inputs, "a b c", cases[i].attributes);
        mb_output(&b, "b");
        EXPECT(&b, cases[i].split);
    }
}

static void softmax_follows_the_opset(void **state)
{
    (void)state;
    model_builder b = one(13, "2 3 4", "Softmax", "x", "axis=1");
    EXPECT(&b, "(softmax :axis 1 %x)");
    b = one(12, "n 3 4", "Softmax", "x", "");
    EXPECT(&b, "(flatten %x)", "(softmax :axis 1 %1)", "(reshape :shape (n 3 4) %2)");
    b = one(12, "2 3 4", "Softmax", "x", "axis=-1");
    EXPECT(&b, "(softmax :axis 2 %x)");
}

static void clip_takes_bounds_from_attributes_constants_or_values(void **state)
{
    (void)state;
    model_builder b = one(10, "2", "Clip", "x", "min=0.0 max=6.0");
    EXPECT(&b, "(clip :min 0.0 :max 6.0 %x)");
    b = one(13, "2", "Clip", "x - hi", "");
    mb_const(&b, "hi", HYP_F32, "", "6");
    EXPECT(&b, "(clip :max 6.0 %x)");
    b = one(13, "2", "Clip", "x lo hi", "");
    mb_input(&b, "lo", HYP_F32, "");
    mb_const(&b, "hi", HYP_F32, "", "6");
    EXPECT(&b, "(max %x %lo)", "(min %3 %hi)");
}

static void reductions_take_axes_from_attribute_or_input(void **state)
{
    (void)state;
    model_builder b = one(11, "2 3 4", "ReduceMean", "x", "axes=[-1,0] keepdims=0");
    EXPECT(&b, "(reduce-mean :axes (0 2) :keep 0 %x)");
    b = one(18, "2 3 4", "ReduceMean", "x a", "");
    mb_const(&b, "a", HYP_I64, "1", "-2");
    EXPECT(&b, "(reduce-mean :axes (1) %x)");
    b = one(13, "2 3", "ReduceSum", "x", "");
    EXPECT(&b, "(reduce-sum :axes (0 1) %x)");
    b = one(13, "2 3", "ReduceSum", "x", "noop_with_empty_axes=1");
    EXPECT(&b, "(identity %x)");
}

static void views_are_normalised(void **state)
{
    (void)state;
    model_builder b = one(11, "1 3 1", "Squeeze", "x", "");
    EXPECT(&b, "(squeeze :axes (0 2) %x)");
    b = one(13, "3", "Unsqueeze", "x a", "");
    mb_const(&b, "a", HYP_I64, "2", "-1 0");
    EXPECT(&b, "(unsqueeze :axes (0 2) %x)");
    b = one(11, "n 2 3", "Flatten", "x", "axis=-1");
    EXPECT(&b, "(flatten :axis 2 %x)");
    b = one(13, "2 3 4", "Transpose", "x", "");
    EXPECT(&b, "(transpose :perm (2 1 0) %x)");
    b = one(13, "3 1", "Expand", "x s", "");
    mb_const(&b, "s", HYP_I64, "3", "2 1 4");
    EXPECT(&b, "(expand :shape (2 3 4) %x)");
}

static void small_operators(void **state)
{
    (void)state;
    model_builder b = one(20, "2", "Gelu", "x", "approximate=tanh");
    EXPECT(&b, "(gelu-tanh %x)");
    b = one(13, "2", "LeakyRelu", "x", "alpha=0.25");
    EXPECT(&b, "(leaky-relu :alpha 0.25 %x)");
    b = one(13, "2", "Cast", "x", "to=10");
    EXPECT(&b, "(cast :to f16 %x)");
    b = one(13, "2", "Sum", "x x x", "");
    EXPECT(&b, "(add %x %x)", "(add %1 %x)");
    b = one(13, "2", "Max", "x", "");
    EXPECT(&b, "(identity %x)");
    b = one(7, "2", "Dropout", "x", "ratio=0.5");
    EXPECT(&b, "(dropout %x)");
    b = one(13, "2", "Dropout", "x", "");
    b.nodes[0]->output = (char *[]){(char[]){"kept"}, (char[]){"y"}};
    b.nodes[0]->n_output = 2;
    EXPECT(&b, "(dropout %x)", "(expand :shape (2) %1)");
    b = one(13, "8 3", "Gather", "x i", "axis=-1");
    mb_const(&b, "i", HYP_I64, "2", "0 2");
    EXPECT(&b, "(gather :axis 1 %x %i)");
}

static void refuse(model_builder *b, const hyp_onnx_options *options, hyp_status wanted, const char *part)
{
    imported im;
    mb_import(b, options, &im);
    if (im.status != wanted || !strstr(im.diag.message, part))
        fail_msg("%s, wanted %s: no \"%s\" in: %s", hyp_status_name(im.status), hyp_status_name(wanted), part, im.diag.message);
    imported_dispose(&im);
}

/* For a training step that drops elements the ratio stays, in training mode, too. */
static void dropouts_keep_their_ratio_for_training(void **state)
{
    const hyp_onnx_options options = {.dropout = true};
    (void)state;
    model_builder b = one(7, "2", "Dropout", "x", "ratio=0.25");
    expect(&b, &options, (const char *const[]){"(dropout :ratio 0.25 %x)", NULL});
    b = one(13, "2", "Dropout", "x", "");
    expect(&b, &options, (const char *const[]){"(dropout :ratio 0.5 %x)", NULL});
    b = one(13, "2", "Dropout", "x r t", "");
    mb_const(&b, "r", HYP_F32, "", "0.75");
    mb_const(&b, "t", HYP_BOOL, "", "1");
    expect(&b, &options, (const char *const[]){"(dropout :ratio 0.75 %x)", NULL});
    b = one(13, "2", "Dropout", "x r t", "");
    mb_const(&b, "r", HYP_F32, "", "0.75");
    mb_const(&b, "t", HYP_BOOL, "", "1");
    refuse(&b, NULL, HYP_ERR_UNSUPPORTED, "training_mode is not a constant false");
    b = one(13, "2", "Dropout", "x r", "");
    mb_const(&b, "r", HYP_F32, "", "1.5");
    refuse(&b, &options, HYP_ERR_MALFORMED, "the ratio is 1.5");
    b = one(13, "2", "Dropout", "x r", "");
    mb_input(&b, "r", HYP_F32, "");
    refuse(&b, &options, HYP_ERR_UNSUPPORTED, "the ratio is no constant");
    b = one(13, "2", "Dropout", "x r t", "");
    mb_const(&b, "r", HYP_F32, "", "0.75");
    mb_input(&b, "t", HYP_BOOL, "");
    refuse(&b, &options, HYP_ERR_UNSUPPORTED, "training_mode is no constant");
    mb_init(&b, 13);
    mb_input(&b, "x", HYP_F32, "2");
    mb_node(&b, "Dropout", "x", "y mask", "");
    mb_node(&b, "Not", "mask", "z", "");
    mb_output(&b, "y");
    mb_output(&b, "z");
    refuse(&b, &options, HYP_ERR_UNSUPPORTED, "the mask is read");
    mb_init(&b, 13);
    mb_input(&b, "x", HYP_F32, "2");
    mb_node(&b, "Dropout", "x", "y mask", "");
    mb_output(&b, "y");
    mb_output(&b, "mask");
    refuse(&b, &options, HYP_ERR_UNSUPPORTED, "the mask is read");
    mb_init(&b, 13);
    mb_input(&b, "x", HYP_F32, "2");
    mb_node(&b, "Dropout", "x", "y mask", "");
    mb_output(&b, "y");
    expect(&b, &options, (const char *const[]){"(dropout :ratio 0.5 %x)", NULL});
}

static void repeats_and_pads_are_copies(void **state)
{
    (void)state;
    model_builder b = one(13, "n 3", "Tile", "x r", "");
    mb_const(&b, "r", HYP_I64, "2", "1 2");
    EXPECT(&b, "(reshape :shape (n 1 3) %x)", "(expand :shape (n 2 3)", "(reshape :shape (n 6)");
    b = one(13, "n 3", "Tile", "x r", "");
    mb_const(&b, "r", HYP_I64, "2", "1 1");
    EXPECT(&b, "(identity %x)");
    b = one(9, "n 3", "Pad", "x", "mode=constant pads=[0,1,2,-1] value=1.5");
    EXPECT(&b, "(f32) 1.5)", "(slice :starts (0 0) :sizes (n 2) :steps (1 1) %x)", "(pad :before (0 1) :after (2 0)");
    b = one(18, "n 3", "Pad", "x p c a", "mode=edge");
    mb_const(&b, "p", HYP_I64, "2", "2 0");
    mb_const(&b, "c", HYP_F32, "", "0");
    mb_const(&b, "a", HYP_I64, "1", "-1");
    EXPECT(&b, "(slice :starts (0 0) :sizes (n 1) :steps (1 1) %x)", "(expand :shape (n 2)", "(concat :axis 1");
    b = one(13, "n 3", "Pad", "x p", "mode=reflect");
    mb_const(&b, "p", HYP_I64, "4", "0 0 2 0");
    EXPECT(&b, "(slice :starts ((+ -2 n) 0) :sizes (2 3) :steps (-1 1) %x)", "(concat :axis 0");
}

static void ranges_are_sized_by_shapes(void **state)
{
    (void)state;
    model_builder b = one(13, "n 3", "ConstantOfShape", "s", "");
    mb_node(&b, "Shape", "x", "s", "");
    EXPECT(&b, "(expand :shape (n 3)");
    b = one(13, "n 3", "Range", "z u o", "");
    mb_node(&b, "Size", "x", "u", "");
    mb_const(&b, "z", HYP_I64, "", "1");
    mb_const(&b, "o", HYP_I64, "", "2");
    EXPECT(&b, "(range :size ((+ n (floordiv n 2)))");
    b = one(13, "n 3", "Range", "z u o", "");
    mb_const(&b, "z", HYP_F32, "", "1");
    mb_const(&b, "u", HYP_F32, "", "0");
    mb_const(&b, "o", HYP_F32, "", "-0.25");
    EXPECT(&b, "(range :size (4)");
}

static void resizes_take_scales_or_sizes(void **state)
{
    (void)state;
    model_builder b = one(13, "1 2 h 8", "Resize", "x - s", "mode=linear");
    mb_const(&b, "s", HYP_F32, "4", "1 1 2 0.5");
    EXPECT(&b, "(f64 4) 1.0 1.0 2.0 0.5", "(resize :sizes (1 2 (* 2 h) 4) :mode linear %x");
    b = one(13, "1 2 h 8", "Resize", "x - - s", "coordinate_transformation_mode=asymmetric nearest_mode=floor");
    mb_const(&b, "s", HYP_I64, "4", "1 2 5 6");
    EXPECT(&b, "(resize :sizes (1 2 5 6) :mode nearest :coordinates asymmetric :nearest floor %x)");
    b = one(18, "1 2 4 8", "Resize", "x - - s", "axes=[3,2] keep_aspect_ratio_policy=not_larger");
    mb_const(&b, "s", HYP_I64, "2", "4 9");
    EXPECT(&b, "(resize :sizes (1 2 2 4)");
    b = one(9, "1 1 2 3", "Upsample", "x s", "mode=nearest");
    mb_const(&b, "s", HYP_F32, "4", "1 1 2 2");
    EXPECT(&b, "(resize :sizes (1 1 4 6) :mode nearest :coordinates asymmetric :nearest floor");
}

static void results_sized_by_constant_data_are_known(void **state)
{
    (void)state;
    model_builder b = one(13, "3", "NonZero", "c", "");
    mb_const(&b, "c", HYP_F32, "2 3", "0 1 0 2 0 3");
    EXPECT(&b, "(i64 2 3) 0 1 1 1 0 2");
    b = one(13, "n 3", "Compress", "x c", "axis=1");
    mb_const(&b, "c", HYP_BOOL, "3", "1 0 1");
    EXPECT(&b, "(i64 2) 0 2", "(gather :axis 1 %x");
    b = one(13, "3", "Unique", "c", "sorted=0");
    mb_const(&b, "c", HYP_I64, "4", "7 -1 7 3");
    EXPECT(&b, "(i64 3) 7 -1 3");
}

/* The most that they can be takes the place of their sizes, and what they are is an output behind those of the model. */
static void results_sized_by_data_have_room_for_the_most(void **state)
{
    (void)state;
    model_builder b = one(13, "n 3", "Transpose", "p", "");
    mb_node(&b, "NonZero", "x", "p", "");
    EXPECT(&b, "(nonzero :size ((* 3 n)) %x)", "(output \"y\"", "(output \"NonZero:p_count\"");
    b = one(13, "n 4 5", "NonMaxSuppression", "b x k", "");
    mb_input(&b, "b", HYP_F32, "n 5 4");
    mb_const(&b, "k", HYP_I64, "1", "2");
    EXPECT(&b, "(non-max-suppression :size ((* 8 n)) %b %x %k)");
    b = one(13, "n 3", "Gather", "x q", "axis=1"); /* two outputs, one count */
    mb_node(&b, "Unique", "i", "- - - q", "");
    mb_input(&b, "i", HYP_I64, "m");
    EXPECT(&b, "(unique :size (m) %i)", "(gather :axis 1 %x");
}

static void constant_nodes_are_constants(void **state)
{
    (void)state;
    model_builder b = one(13, "3", "Add", "x c", "");
    HypOnnx__NodeProto *c = mb_node(&b, "Constant", "", "c", "value=0");
    c->attribute[0]->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    c->attribute[0]->t = mb_tensor(&b, "", HYP_F32, "3", "1 2 3");
    EXPECT(&b, "(const %c (f32 3) 1.0 2.0 3.0)");
    b = one(13, "3", "Reshape", "x c", "");
    mb_node(&b, "Constant", "", "c", "value_ints=[3,1]");
    EXPECT(&b, "(reshape :shape (3 1) %x)");
    b = one(13, "3", "Mul", "x c", "");
    mb_node(&b, "Constant", "", "c", "value_float=0.5");
    EXPECT(&b, "(const %c (f32) 0.5)");
}

static void elements_are_read_from_every_field(void **state)
{
    (void)state;
    hyp_dims *dims;
    hyp_graph g;
    hyp_onnx_model *model;
    hyp_strbuf text = {0};
    hyp_diag diag = {0};
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_graph_init(&g, dims);
    if (hyp_onnx_import(HYP_SOURCE_DIR "/tests/models/tiny_encodings.onnx", NULL, &g, &model, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(hyp_graph_print(&text, &g, SIZE_MAX, NULL), HYP_OK);
    static const char *const parts[] = {"(f32 2) 1.5 -2.0", "(f16 2) 1.5 -2.0",  "(i8 2) -3 4",
                                        "(i64 2) -5 6",     "(f64 2) 0.25 -8.0", "(u64 2) 7 1099511627776"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_non_null(strstr(hyp_strbuf_text(&text), parts[i]));
    hyp_strbuf_dispose(&text);
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
}

static void external_data_is_mapped_from_the_models_folder(void **state)
{
    (void)state;
    hyp_dims *dims;
    hyp_graph g;
    hyp_onnx_model *model;
    hyp_diag diag = {0};
    assert_int_equal(hyp_dims_create(&dims, NULL), HYP_OK);
    hyp_graph_init(&g, dims);
    if (hyp_onnx_import(HYP_SOURCE_DIR "/tests/models/tiny_external.onnx", NULL, &g, &model, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    double sum = 0;
    for (size_t i = 0; i < g.values.len; i++)
        for (size_t k = 0; g.values.data[i].kind == HYP_VALUE_CONST && k < g.values.data[i].bytes / 4; k++)
            sum += hyp_load_f64(HYP_F32, g.values.data[i].data, k);
    assert_true(sum == 36.0);
    hyp_onnx_info info = hyp_onnx_model_info(model);
    assert_string_equal(info.producer, "make_models");
    assert_string_equal(info.graph_name, "tiny_external");
    assert_int_equal(info.opset, 13);
    assert_true(info.file_bytes > 32 + 200 && info.hash != 0);
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
}

static void packed_and_single_numbers_give_the_same(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Add", "x w", "");
    HypOnnx__TensorProto *w = mb_const(&b, "w", HYP_F32, "2", "1 2");
    w->has_raw_data = false;
    w->float_data = (float[]){1, 2};
    w->n_float_data = 2;
    EXPECT(&b, "(const %w (f32 2) 1.0 2.0)");
    b = one(13, "2", "Reshape", "x w", "");
    w = mb_const(&b, "w", HYP_I64, "2", NULL);
    w->has_raw_data = false;
    w->int64_data = (int64_t[]){2, 1};
    w->n_int64_data = 2;
    EXPECT(&b, "(reshape :shape (2 1) %x)");
    b = one(13, "2", "Identity", "w", "");
    w = mb_const(&b, "w", HYP_BF16, "2", NULL);
    w->has_raw_data = false;
    w->int32_data = (int32_t[]){0x3f80, 0xc000};
    w->n_int32_data = 2;
    EXPECT(&b, "(const %w (bf16 2) 1.0 -2.0)");
}

static void fields_of_our_own_in_a_file_are_ignored(void **state)
{
    (void)state;
    model_builder b = one(13, "2", "Add", "x w", "");
    HypOnnx__TensorProto *w = mb_const(&b, "w", HYP_F32, "2", "1 2");
    w->has_payload_field = w->has_payload_offset = w->has_payload_length = true;
    w->payload_field = 9;
    w->payload_offset = UINT64_MAX;
    w->payload_length = 8;
    EXPECT(&b, "(const %w (f32 2) 1.0 2.0)");
}

static void the_same_bytes_give_the_same_graph(void **state)
{
    (void)state;
    imported first, second;
    for (int i = 0; i < 2; i++) {
        model_builder b = one(13, "n 3", "MatMul", "x w", "");
        mb_const(&b, "w", HYP_F32, "3 2", "1 2 3 4 5 6");
        mb_import(&b, NULL, i ? &second : &first);
        assert_int_equal((i ? &second : &first)->status, HYP_OK);
    }
    assert_string_equal(hyp_strbuf_text(&first.text), hyp_strbuf_text(&second.text));
    imported_dispose(&first);
    imported_dispose(&second);
}

/* x of a batch normalization that trains, whose two statistics are initializers, or one of them for both nodes. */
static void import_statistics(bool states, bool shared, imported *out)
{
    model_builder b;
    mb_init(&b, 15);
    mb_input(&b, "x", HYP_F32, "n 2 3");
    mb_const(&b, "one", HYP_F32, "2", "1 1");
    mb_const(&b, "mean", HYP_F32, "2", "0 0");
    mb_const(&b, "variance", HYP_F32, "2", "1 1");
    mb_node(&b, "BatchNormalization", "x one one mean variance", "y m v", "training_mode=1 momentum=0.75");
    if (shared) mb_node(&b, "BatchNormalization", "y one one one mean", "z", "training_mode=1");
    mb_output(&b, "y");
    if (shared) mb_output(&b, "z");
    mb_import(&b, &(hyp_onnx_options){.states = states}, out);
}

static void statistics_of_training_become_outputs(void **state)
{
    (void)state;
    imported im;
    import_statistics(false, false, &im);
    assert_int_equal(im.status, HYP_OK);
    assert_int_equal(im.graph.outputs.len, 1);
    imported_dispose(&im);
    import_statistics(true, false, &im);
    assert_int_equal(im.status, HYP_OK);
    assert_int_equal(im.graph.outputs.len, 3);
    assert_string_equal(im.graph.outputs.data[1].name, "new:mean");
    assert_string_equal(im.graph.outputs.data[2].name, "new:variance");
    assert_int_equal(im.graph.values.data[im.graph.outputs.data[2].value].type.rank, 1);
    imported_dispose(&im);
    import_statistics(true, true, &im);
    assert_int_equal(im.status, HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(im.diag.message, "another node keeps its statistics in 'mean', too"));
    imported_dispose(&im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_keeps_its_attributes),
        cmocka_unit_test(node_names_become_provenance),
        cmocka_unit_test(attributes_of_value_zero_may_be_left_out),
        cmocka_unit_test(nodes_out_of_order_are_sorted_and_others_stay),
        cmocka_unit_test(initializers_that_are_inputs_are_constants),
        cmocka_unit_test(dims_without_a_name_get_one_of_their_own),
        cmocka_unit_test(options_set_dims_everywhere),
        cmocka_unit_test(reshape_resolves_zero_and_minus_one),
        cmocka_unit_test(shapes_computed_from_shapes_are_known),
        cmocka_unit_test(slices_are_normalised),
        cmocka_unit_test(splits_take_sizes_or_make_equal_parts),
        cmocka_unit_test(softmax_follows_the_opset),
        cmocka_unit_test(clip_takes_bounds_from_attributes_constants_or_values),
        cmocka_unit_test(reductions_take_axes_from_attribute_or_input),
        cmocka_unit_test(views_are_normalised),
        cmocka_unit_test(small_operators),
        cmocka_unit_test(dropouts_keep_their_ratio_for_training),
        cmocka_unit_test(repeats_and_pads_are_copies),
        cmocka_unit_test(ranges_are_sized_by_shapes),
        cmocka_unit_test(resizes_take_scales_or_sizes),
        cmocka_unit_test(results_sized_by_constant_data_are_known),
        cmocka_unit_test(results_sized_by_data_have_room_for_the_most),
        cmocka_unit_test(constant_nodes_are_constants),
        cmocka_unit_test(elements_are_read_from_every_field),
        cmocka_unit_test(external_data_is_mapped_from_the_models_folder),
        cmocka_unit_test(packed_and_single_numbers_give_the_same),
        cmocka_unit_test(fields_of_our_own_in_a_file_are_ignored),
        cmocka_unit_test(the_same_bytes_give_the_same_graph),
        cmocka_unit_test(statistics_of_training_become_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

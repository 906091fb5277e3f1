/* Where the CUDA backend puts the tensors of a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/session/placement.h"
#include "runtime/plan_builder.h"

static plan_builder builder; /* large */

static void copy_step(uint32_t x, uint32_t y, uint32_t count)
{
    pb_copy_all(&builder, x, y, count);
}

/* y is written over x, as their slot says. */
static void replace_step(uint32_t x, uint32_t y, uint32_t count)
{
    const uint32_t one = pb_const(&builder, 1);
    HypPlan__Pointwise *k = pb_pointwise(&builder, HYP_F32, 1, &count);
    pb_operand(&builder, k, x, &one);
    pb_result(&builder, k, y, pb_instr(&builder, k, HYP_PLAN__POINTWISE__OP__RELU, 0, 0, 0, 0, 0));
}

static void blocks_are_as_steps_use_tensors(void **state)
{
    (void)state;
    pb_init(&builder);
    uint32_t ten = pb_const(&builder, 10), n = pb_symbol(&builder, "n");
    uint32_t in = pb_input(&builder, "x", HYP_F32, 1, &n), out = pb_output(&builder, "y", HYP_F32, 1, &n);
    uint32_t a = pb_scratch(&builder, HYP_F32, 0, 1, &n), b = pb_scratch(&builder, HYP_F32, 0, 1, &n); /* b over a */
    uint32_t c = pb_scratch(&builder, HYP_F32, 1, 1, &n), d = pb_scratch(&builder, HYP_F32, 1, 1, &ten); /* d after c */
    uint32_t unused = pb_scratch(&builder, HYP_F32, 2, 1, &n);
    copy_step(in, a, n);
    copy_step(in, c, n);
    replace_step(a, b, n);
    copy_step(c, out, n);
    copy_step(in, d, ten);
    copy_step(d, out, ten);
    copy_step(b, out, n);
    int64_t values[16] = {0}, symbol = 100;
    hyp_diag diag = {0};
    hyp_plan_blocks blocks;
    size_t total;
    assert_int_equal(hyp_plan_eval_dims(&builder.program, &symbol, values, &diag), HYP_OK);
    assert_int_equal(hyp_plan_list_blocks(&builder.program, values, 0, &blocks, &diag), HYP_OK);
    assert_int_equal(blocks.count, 3);
    assert_int_equal(blocks.block_plus1[a], blocks.block_plus1[b]);
    assert_int_not_equal(blocks.block_plus1[c], blocks.block_plus1[d]);
    assert_int_equal(blocks.block_plus1[unused], 0);
    assert_int_equal(blocks.block_plus1[in], 0);
    const hyp_plan_block *ab = &blocks.list[blocks.block_plus1[a] - 1], *of_d = &blocks.list[blocks.block_plus1[d] - 1];
    assert_int_equal(ab->first, 0);
    assert_int_equal(ab->last, 6);
    assert_int_equal(ab->bytes, 400);
    assert_int_equal(of_d->first, 4);
    assert_int_equal(of_d->last, 5);
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_OK);
    assert_int_equal(total, 1024); /* d lies where c was */
    hyp_plan_blocks_free(&blocks);
    pb_dispose(&builder);
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Bytes of the blocks that are wanted at one step. */
static size_t wanted_at(const hyp_plan_blocks *blocks, uint32_t step)
{
    size_t sum = 0;
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->list[i].first <= step && step <= blocks->list[i].last) sum += blocks->list[i].bytes;
    return sum;
}

static void blocks_lie_beside_those_of_their_time(void **state)
{
    (void)state;
    enum { MOST = 60, STEPS = 40 };
    uint64_t random = 18;
    hyp_diag diag = {0};
    for (int round = 0; round < 300; round++) {
        hyp_plan_block list[MOST];
        hyp_plan_blocks blocks = {.list = list, .count = draw(&random) % (MOST + 1)};
        size_t total, most = 0, sum = 0;
        for (size_t i = 0; i < blocks.count; i++) {
            uint32_t first = (uint32_t)(draw(&random) % STEPS), last = first + (uint32_t)(draw(&random) % (STEPS - first));
            size_t bytes = draw(&random) % 4 ? draw(&random) % 5000 : draw(&random) % 2 * 100000;
            list[i] = (hyp_plan_block){.bytes = bytes, .first = first, .last = last};
        }
        assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_OK);
        for (uint32_t s = 0; s < STEPS; s++) most = wanted_at(&blocks, s) > most ? wanted_at(&blocks, s) : most;
        for (size_t i = 0; i < blocks.count; i++) {
            const hyp_plan_block *x = &list[i];
            sum += x->bytes;
            assert_int_equal(x->at % HYP_PLAN_SLOT_ALIGN, 0);
            assert_true(x->at + x->bytes <= total);
            for (size_t k = 0; k < i; k++) {
                const hyp_plan_block *y = &list[k];
                bool together = x->first <= y->last && y->first <= x->last;
                bool apart = x->at + x->bytes <= y->at || y->at + y->bytes <= x->at || !x->bytes || !y->bytes;
                assert_true(apart || !together);
            }
        }
        assert_true(total >= most && total <= sum);
        assert_true(total <= most + most / 2); /* it is what places are for */
    }
}

static void sizes_beyond_any_are_refused(void **state)
{
    (void)state;
    hyp_plan_block list[] = {{.bytes = SIZE_MAX - 1000, .last = 1}, {.bytes = 2000, .first = 1, .last = 2}};
    hyp_plan_blocks blocks = {.list = list, .count = 2};
    hyp_diag diag = {0};
    size_t total;
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_ERR_LIMIT);
    list[0].bytes = SIZE_MAX - 10;
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_ERR_LIMIT);
    blocks.count = 0;
    assert_int_equal(hyp_plan_place_blocks(&blocks, &total, &diag), HYP_OK);
    assert_int_equal(total, 0);
}

static void small_inputs_and_outputs_lie_together(void **state)
{
    (void)state;
    pb_init(&builder);
    const int64_t counts[] = {1000, 3, 10, 2000, 5};
    for (int i = 0; i < 3; i++) pb_input(&builder, "x", HYP_F32, 1, pb_consts(&builder, 1, &counts[i]));
    for (int i = 3; i < 5; i++) pb_output(&builder, "y", HYP_F32, 1, pb_consts(&builder, 1, &counts[i]));
    int64_t values[16] = {0};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_eval_dims(&builder.program, NULL, values, &diag), HYP_OK);
    static const size_t want[] = {768, 0, 256, 4864, 512};
    size_t offsets[5], bytes[5], small, total;
    assert_int_equal(hyp_cuda_place_edges(&builder.program, values, 40, offsets, bytes, &small, &total, &diag), HYP_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(offsets[i], want[i]);
        assert_int_equal(bytes[i], 4 * counts[i]);
    }
    assert_int_equal(small, 768);
    assert_int_equal(total, 4864 + 8192);
    pb_dispose(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_as_steps_use_tensors),
        cmocka_unit_test(blocks_lie_beside_those_of_their_time),
        cmocka_unit_test(sizes_beyond_any_are_refused),
        cmocka_unit_test(small_inputs_and_outputs_lie_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

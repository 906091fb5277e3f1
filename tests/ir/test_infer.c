/* Types, contents and refusals of every operator. Each row is the body of a graph in the text form. */
#include "ir/op.h"
#include "ir_test.h"

typedef struct row {
    const char *body;   /* definitions; the last node is the one looked at */
    const char *result; /* types of its outputs, with the contents if they are known; or part of the message */
} row;

#define X "(input %x (f32 batch 3 4)) "
#define W "(input %w (f32 5 4)) (input %b (f32 5)) "
#define Q "(input %x (f8e4m3 batch 3 4)) (input %w (f8e4m3 5 4)) (input %b (bf16 5)) (input %r (bf16 batch 3 5)) "
#define SCALED "(%y (quantized-linear :x-scale 0.5 :w-scale 2.0 "
#define N "(input %x (f32 batch 4 8 width)) (input %w (f32 6 2 3 2)) (input %t (f32 4 3 2 2)) "
#define G "(input %x (f32 2 4 8 7)) (input %g (f32 2 6 6 6)) (input %h (f32 3 6 6 6)) "
#define A "(input %q (f32 batch 2 7 4)) (input %k (f32 1 2 n 4)) (input %v (f32 batch 2 n 5)) "
#define T "(input %q (f32 batch 2 7 6)) (input %k (f32 batch 2 n 6)) (input %v (f32 batch 2 n 5)) (input %g (f32 batch 2 7 5)) "
#define I "(input %i (i64 2 n)) "

static const row accepted[] = {
    {X W "(%y (linear %w %b %x))", "f32[batch 3 5]"},
    {X W "(%y (linear %w none %x))", "f32[batch 3 5]"},
    {W "(input %x (f32 4)) (%y (linear %w %b %x))", "f32[5]"},
    {"(input %w (f16 n k)) (input %x (f16 (* 2 m) k)) (%y (linear %w none %x))", "f16[(* 2 m) n]"},
    {X W "(%y (fused-linear-relu %w %b %x))", "f32[batch 3 5]"},
    {X W "(input %r (f32 batch 3 5)) (%y (fused-linear-add :act relu :add after %w %b %r %x))", "f32[batch 3 5]"},
    {Q SCALED ":act relu :add after :to bf16 %w %b %r %x))", "bf16[batch 3 5]"},
    {Q SCALED ":act none :add before :to f32 %w none none %x))", "f32[batch 3 5]"},
    {"(input %x (f16 n 4)) (input %w (f16 4 4)) (%y (fused-linear-add :act none :add before %w none %x %x))",
     "f16[n 4]"},
    {X W "(input %v (f32 2 5)) (%y (fused-mlp :acts (relu none) %w %b %v none %x))", "f32[batch 3 2]"},
    {X W "(%y (matmul :trans-b 1 %x %w))", "f32[batch 3 5]"},
    {"(input %a (f32 a 1 2 k)) (input %b (f32 7 k 3)) (%y (matmul %a %b))", "f32[a 7 2 3]"},
    {"(input %a (f32 k)) (input %b (f32 k)) (%y (matmul %a %b))", "f32[]"},
    {"(input %a (f32 k)) (input %b (f32 5 k 2)) (%y (matmul %a %b))", "f32[5 2]"},
    {"(input %a (f32 5 2 k)) (input %b (f32 k)) (%y (matmul %a %b))", "f32[5 2]"},
    {"(input %a (f32 k 2)) (input %b (f32 k 3)) (%y (matmul :trans-a 1 %a %b))", "f32[2 3]"},
    {"(input %a (f32 m k)) (input %b (f32 n k)) (input %c (f32 1 n)) (%y (gemm :trans-b 1 %a %b %c))", "f32[m n]"},
    {"(input %a (f32 m k)) (input %b (f32 k n)) (%y (gemm %a %b))", "f32[m n]"},
    {"(input %a (f32 m k)) (input %b (f32 k n)) (%y (gemm %a %b none))", "f32[m n]"},
    {A "(%y (attention %q %k %v))", "f32[batch 2 7 5]"},
    {"(input %q (f32 3 2 4 7 6)) (input %k (f32 3 2 1 n 6)) (%y (attention :rows-first 2 %q %k %k))", "f32[3 7 2 4 6]"},
    {A "(input %m (f32 7 n)) (%y (attention :rows-first 1 :scale 0.5 %q %k %v %m))", "f32[batch 7 2 5]"},
    {A "(input %m (bool batch 1 1 n)) (%y (attention %q %k %v %m))", "f32[batch 2 7 5]"},
    {A "(%y (attention :softmax 0 %q %k %v))", "f32[batch 2 7 5]"},
    {A "(input %o (f32 4 n)) (input %m (f32)) (%y (attention :trans-k 0 %q %o %v %m))", "f32[batch 2 7 5]"},
    {"(input %q (f32 m k)) (input %k (f32 n k)) (input %v (f32 3 n p)) (%y (attention %q %k %v))", "f32[3 m p]"},
    {"(input %g (bf16 batch 3)) (input %x (bf16 batch n)) ((%a %b) (linear-gradient %g %x))", "bf16[3 n] bf16[3]"},
    {"(input %g (f32 batch 3)) (input %x (f32 batch n)) ((%a %b) (linear-gradient :turned 1 %g %x))", "f32[n 3] f32[3]"},
    {T "((%a %b %c) (attention-gradient %q %k %v %g %g))", "f32[batch 2 7 6] f32[batch 2 n 6] f32[batch 2 n 5]"},
    {T "(input %m (bool 7 1)) ((%a %b %c) (attention-gradient %q %k %v %g %g %m))",
     "f32[batch 2 7 6] f32[batch 2 n 6] f32[batch 2 n 5]"},
    {"(input %q (f32 m 3 k)) (input %k (f32 n 3 k)) (input %v (f32 n 3 p)) (input %g (f32 m 3 p)) (input %m (f32 3 m n)) "
     "((%a %b %c) (attention-gradient :rows-first 1 %q %k %v %g %g %m))", "f32[m 3 k] f32[n 3 k] f32[n 3 p]"},
    {X "(input %r (f32 4)) (%y (add %x %r))", "f32[batch 3 4]"},
    {X "(input %r (f32 batch 1 1)) (%y (mul %r %x))", "f32[batch 3 4]"},
    {"(input %a (i32 n 1)) (input %b (i32 1 m)) (%y (sub %a %b))", "i32[n m]"},
    /* a mask of 16 cut to the size of the data */
    {"(input %a (f32 n m)) (input %b (f32 1 (min 16 m))) (%y (add %a %b))", "f32[n m]"},
    {"(input %a (f32 (max 0 (+ (min 16 (+ n p)) (* -1 (min 16 p)))))) (input %b (f32 n)) (%y (add %a %b))", "f32[n]"},
    {"(input %a (f32 0 1)) (input %b (f32 1 3)) (%y (max %a %b))", "f32[0 3]"},
    {X "(input %e (i64)) (%y (pow %x %e))", "f32[batch 3 4]"},
    {X "(%y (relu %x))", "f32[batch 3 4]"},
    {I "(%y (clip :min 0 %i))", "i64[2 n]"},
    {"(input %x (u8 n)) (%y (clip :min -3 :max 300 %x))", "u8[n]"},
    {"(input %x (i8 n)) (%y (clip :min -200 :max -128 %x))", "i8[n]"},
    {X "(%y (gelu %x))", "f32[batch 3 4]"},
    {X "(%y (cast :to bf16 %x))", "bf16[batch 3 4]"},
    {"(input %x (bool)) (%y (identity %x))", "bool[]"},
    {X "(%y (reshape :shape ((* 4 batch) 3) %x))", "f32[(* 4 batch) 3]"},
    {"(input %x (f32 0 n)) (%y (reshape :shape (5 0 2) %x))", "f32[5 0 2]"},
    {X "(%y (flatten %x))", "f32[batch 12]"},
    {X "(%y (flatten :axis 3 %x))", "f32[(* 12 batch) 1]"},
    {X "(%y (flatten :axis -1 %x))", "f32[(* 3 batch) 4]"},
    {"(input %x (f32)) (%y (flatten :axis 0 %x))", "f32[1 1]"},
    {"(input %x (f32 1 n 1)) (%y (squeeze :axes (-1 0) %x))", "f32[n]"},
    {"(input %x (f32 n)) (%y (unsqueeze :axes (0 -1) %x))", "f32[1 n 1]"},
    {"(input %x (f32 n 1)) (%y (expand :shape (2 n m) %x))", "f32[2 n m]"},
    {X "(%y (transpose :perm (2 0 1) %x))", "f32[4 batch 3]"},
    {X "(%y (concat :axis -2 %x %x))", "f32[batch 6 4]"},
    {"(input %a (f32 n 2)) (input %b (f32 m 2)) (%y (concat :axis 0 %a %b %a))", "f32[(+ m (* 2 n)) 2]"},
    {X "((%y %z) (split :axis 2 :sizes (1 3) %x))", "f32[batch 3 1] f32[batch 3 3]"},
    {"(input %x (f32 (* 2 n))) ((%y %z) (split :axis 0 :sizes (n n) %x))", "f32[n] f32[n]"},
    {X "(%y (slice :starts (0 2 3) :sizes (batch 3 2) :steps (1 -1 -2) %x))", "f32[batch 3 2]"},
    {X "(input %i (i32 7 n)) (%y (gather :axis 1 %x %i))", "f32[batch 7 n 4]"},
    {X "(input %r (f32 4)) (%y (less %x %r))", "bool[batch 3 4]"},
    {"(input %a (bool n 1)) (input %b (bool 3)) (%y (equal %a %b))", "bool[n 3]"},
    {"(input %a (bool n 1)) (input %b (bool 3)) (%y (xor %a %b))", "bool[n 3]"},
    {I "(%y (and %i %i))", "i64[2 n]"},
    {"(input %a (u8 n)) (%y (shift-left %a %a))", "u8[n]"},
    {I "(%y (not %i))", "i64[2 n]"},
    {X "(input %c (bool batch 1 1)) (input %s (f32)) (%y (where %c %s %x))", "f32[batch 3 4]"},
    {X "(%y (softmax :axis 0 %x))", "f32[batch 3 4]"},
    {X "(%y (reduce-sum :axes (0 -1) %x))", "f32[1 3 1]"},
    {X "(%y (reduce-mean :axes (1) :keep 0 %x))", "f32[batch 4]"},
    {I "(%y (reduce-sum :axes (0 1) :keep 0 %i))", "i64[]"},
    {"(input %x (f32 n 3)) (input %i (i64 m 3)) (%y (gather-elements :axis 0 %x %i))", "f32[m 3]"},
    {X "(input %i (i32 batch 7 1)) (%y (gather-nd :batch-axes 1 %x %i))", "f32[batch 7 4]"},
    {X "(input %i (i64 n 2)) (input %u (f32 n 4)) (%y (scatter-nd :reduction max %x %i %u))", "f32[batch 3 4]"},
    {"(input %x (u8 n 3)) (input %i (i64 m 2)) (input %u (u8 m 2)) (%y (scatter-elements :axis 0 %x %i %u))",
     "u8[n 3]"},
    {X "(input %u (f32 batch t 4)) (%y (tensor-scatter :axis -2 %x %u))", "f32[batch 3 4]"},
    {X "((%y %z) (topk :axis 1 :k (2) %x))", "f32[batch 2 4] i64[batch 2 4]"},
    {"(input %x (f32 t b 6)) (input %r (f32 6 6)) ((%y %h) (rnn %x %r))", "f32[t b 6] f32[b 6]"},
    {"(input %x (f32 t b 6)) (input %r (f32 2 6)) (input %l (i32 b)) ((%y %h) (gru %x %r none %l))",
     "f32[t b 2] f32[b 2]"},
    {"(input %x (f32 t b 8)) (input %r (f32 2 8)) (input %p (f32 6)) ((%y %h %c) (lstm %x %r none none none %p))",
     "f32[t b 2] f32[b 2] f32[b 2]"},
    {"(input %x (f32 t b 8)) (input %r (f32 2 8)) ((%y %h %c %a) (lstm-cells %x %r))", "f32[t b 2] f32[b 2] f32[b 2] f32[t b 2]"},
    {"(input %n (f32 t b 2)) (input %r (f32 2 8)) (input %g (f32 b 2)) ((%y %h %c) (lstm-gradient %n %r none %n %g %g none %n))",
     "f32[t b 8] f32[b 2] f32[b 2]"},
    {"(input %n (f32 t b 2)) (input %r (f32 2 6)) (input %l (i64 b)) ((%y %h) (gru-gradient :reset-after 1 %n %r %l none none %n %n))",
     "f32[t b 6] f32[b 2]"},
    {"(input %n (f32 t b 2)) (input %r (f32 2 2)) ((%y %h) (rnn-gradient %n %r))", "f32[t b 2] f32[b 2]"},
    {"(input %i (f32 n)) (input %v (bf16 2)) (%y (one-hot :new-axis 0 :depth (d) %i %v))", "bf16[d n]"},
    {"(input %a (f32)) (%y (range :size (n) %a %a))", "f32[n]"},
    {"(input %a (i64)) (%y (random-uniform :shape (n 3) :stream 4294967295 %a %a))", "f32[n 3]"},
    {X "(%y (dropout :ratio 1 %x))", "f32[batch 3 4]"},
    {X "(input %k (i64)) (%y (trilu :upper 0 %x %k))", "f32[batch 3 4]"},
    {X "(%y (bit-cast :to u32 %x))", "u32[batch 3 4]"},
    {X "(%y (cumprod :axis 0 %x))", "f32[batch 3 4]"},
    {"(input %x (bool 2 n)) (%y (reduce-max :axes (1) %x))", "bool[2 1]"},
    {X "(%y (argmax :axis -1 :keep 0 %x))", "i64[batch 3]"},
    {X "((%m %s) (softmax-stats :axis 1 %x))", "f32[batch 1 4] f32[batch 1 4]"},
    {"(input %x (f16 batch n)) ((%m %s) (softmax-stats %x))", "f32[batch 1] f32[batch 1]"},
    {"(input %x (f64 batch n)) ((%m %s) (softmax-stats %x))", "f64[batch 1] f64[batch 1]"},
    {N "(%y (conv :strides (2 1) :pads (1 0 1 0) :dilations (1 2) :group 2 %x %w none))",
     "f32[batch 6 4 (+ -2 width)]"},
    {N "(%y (conv-transpose :strides (2 1) :pads (0 0 0 0) :dilations (1 1) :more (1 0) %x %t))",
     "f32[batch 3 17 (+ 1 width)]"},
    {N "(input %g (f32 batch 6 4 (+ -2 width))) (%y (conv-backward-weights :strides (2 1) :pads (1 0 1 0) :dilations (1 2) "
       ":group 2 :kernel (3 2) %x %g))",
     "f32[6 2 3 2]"},
    {N "(%y (max-pool :kernel (2 2) :strides (2 2) :pads (0 0 0 0) :dilations (1 1) %x))",
     "f32[batch 4 4 (floordiv width 2)]"},
    {"(input %x (f32 1 4 6 4)) (%y (average-pool :kernel (3 3) :strides (2 2) :pads (0 0 0 0) :dilations (1 1) :ceil 1 "
     "%x))",
     "f32[1 4 3 2]"},
    {"(input %x (f32 n 2 7 5)) (input %y (f32 n 2 3 2)) (%d (max-pool-gradient :kernel (3 3) :strides (2 2) :pads (0 0 0 0) "
     ":dilations (1 1) %x %y %y))",
     "f32[n 2 7 5]"},
    {N "((%y %z) (max-pool-places :kernel (1 2) :strides (1 1) :pads (0 0 0 0) :dilations (1 1) %x))",
     "f32[batch 4 8 (+ -1 width)] i64[batch 4 8 (+ -1 width)]"},
    {"(input %x (f32 1 1 2 2)) (input %i (i64 1 1 2 2)) (%y (max-unpool :counted (4 4) :sizes (5 5) %x %i))",
     "f32[1 1 5 5]"},
    {X "(input %s (f32 3)) (input %v (f16 3)) ((%y %m %w) (batch-norm %x %s %v %s %v))", "f32[batch 3 4] f32[3] f16[3]"},
    {"(input %x (bf16 batch n)) ((%m %v %i) (batch-norm-stats %x)) ((%a %b) (batch-norm-gradient %x %x %m %i))",
     "f32[n] f32[n]"},
    {X "(input %s (f32 4)) ((%y %m %v) (layer-norm-stats %x %s))", "f32[batch 3 4] f32[batch 3 1] f32[batch 3 1]"},
    {X "(input %s (f32 3 4)) (%y (layer-norm :axis 1 %x none %s))", "f32[batch 3 4]"},
    {X "(input %s (f32 4)) (%y (rms-norm %x %s))", "f32[batch 3 4]"},
    {X "(input %s (f32 3 4)) (%y (norm-gradient :axis 1 %x %x %s))", "f32[batch 3 4]"},
    {X "(%y (norm-gradient :by scale %x %x))", "f32[batch 3 4]"},
    {X "(%y (softmax-gradient :axis 0 %x %x))", "f32[batch 3 4]"},
    {X "(%y (lrn :size 3 %x))", "f32[batch 3 4]"},
    {X "(input %l (i64 3)) (%y (reverse-sequence :batch-axis 1 :time-axis 0 %x %l))", "f32[batch 3 4]"},
    {X "(const %v (f32) 0) (%y (pad :before (0 1 n) :after (2 0 0) %x %v))", "f32[(+ 2 batch) 4 (+ 4 n)]"},
    {"(input %x (f32 n 3 h w)) (%y (resize :mode linear :sizes (n 3 (* 2 h) 7) %x))", "f32[n 3 (* 2 h) 7]"},
    {X "(const %s (f64 3) 1 2 2) (%y (resize :mode nearest :sizes (batch 6 8) %x %s))", "f32[batch 6 8]"},
    {"(input %x (f32 n 3 h w)) (input %g (f16 n 5 m 2)) (%y (grid-sample :mode cubic %x %g))", "f32[n 3 5 m]"},
    {"(input %t (f32 n 3 4)) (%y (affine-grid :size (n 1 d 5 6) %t))", "f32[n d 5 6 3]"},
    {"(input %x (f32 n 3 h w)) (input %r (f32 k 4)) (input %i (i64 k)) (%y (roi-align :bins (7 5) %x %r %i))",
     "f32[k 3 7 5]"},
    {"(input %x (f16 n 3 h w)) (input %g (f32 n 5 m 2)) (input %d (f16 n 3 5 m)) (%y (grid-sample-gradient %x %g %d)) "
     "(%z (grid-sample-gradient :by grid %x %g %d))",
     "f32[n 5 m 2]"},
    {"(input %x (f16 n 3 h w)) (input %g (f32 n 5 m 2)) (input %d (f16 n 3 5 m)) (%y (grid-sample-gradient %x %g %d))",
     "f32[n 3 h w]"},
    {"(input %x (f16 n 3 h w)) (input %r (f16 k 4)) (input %i (i64 k)) (input %d (f16 k 3 7 5)) (%y (roi-align-gradient :bins "
     "(7 5) %x %r %i %d))",
     "f16[n 3 h w]"},
    /* contents */
    {X "(%y (size %x))", "i64[] = (* 12 batch)"},
    {X "(%s (shape %x)) (const %v (i64) 1) (%y (pad :before (1) :after (0) %s %v))", "i64[4] = 1 batch 3 4"},
    {X "(%s (size %x)) (const %d (i64) 2) (%y (range :size (3) %s %d))",
     "i64[3] = (* 12 batch) (+ 2 (* 12 batch)) (+ 4 (* 12 batch))"},
    {"(const %k (i64 3) 4 5 6) (%y (cumsum :axis 0 %k))", "i64[3] = 4 9 15"},
    {"(const %k (i64 3) 4 5 6) (const %i (i64 1 1) 1) (const %u (i64 1) 9) (%y (scatter-nd %k %i %u))",
     "i64[3] = 4 9 6"},
    {X "(%s (shape %x)) (%y (cumsum :axis 0 %s))", "i64[3]"},
    {"(const %k (i8 2) 100 100) (%y (cumsum :axis 0 %k))", "i8[2]"},
    {"(const %k (i64 1) 4) (const %i (i64 1 1) 3) (%y (gather-nd %k %i))", "i64[1]"},
    {X "(%y (cumsum :axis -1 %x))", "f32[batch 3 4]"},
    {X "((%y %z) (nonzero :size (m) %x))", "i64[3 m] i64[]"},
    {"(input %b (f32 n 9 4)) (input %s (f16 n 2 9)) ((%y %z) (non-max-suppression :size (m) %b %s))", "i64[m 3] i64[]"},
    {X "(input %s (f64)) ((%y %z) (all-reduce %x %s))", "f32[batch 3 4] f64[]"},
    {X "((%y %f %i %c %z) (unique :size (m) %x))", "f32[m] i64[m] i64[(* 12 batch)] i64[m] i64[]"},
    {X "((%y %f %i %c %z) (unique :size (2) :along 1 %x))", "f32[batch 2 4] i64[2] i64[3] i64[2] i64[]"},
    {X "((%y %z) (custom :operator a::B :values () :types (i8 f64) :shapes (2 m (* 2 batch) 0) %x))",
     "i8[m (* 2 batch)] f64[]"},
    {X I "(%y (pow %x %x))", "f32[batch 3 4]"},
    {X "(%y (shape %x))", "i64[3] = batch 3 4"},
    {X "(%s (shape %x)) (const %k (i64) -1) (%y (gather %s %k))", "i64[] = 4"},
    {X "(%s (shape %x)) (%y (slice :starts (2) :sizes (2) :steps (-2) %s))", "i64[2] = 4 batch"},
    {X "(%s (shape %x)) (const %k (i64 1) 2) (%y (concat :axis 0 %k %s))", "i64[4] = 2 batch 3 4"},
    {X "(%s (shape %x)) (const %k (i64) 2) (%y (mul %s %k))", "i64[3] = (* 2 batch) 6 8"},
    {X "(%s (shape %x)) (const %k (i64) 1) (%y (sub %s %k))", "i64[3] = (+ -1 batch) 2 3"},
    {X "(%s (shape %x)) (const %k (i64) 2) (%y (div %s %k))", "i64[3] = (floordiv batch 2) 1 2"},
    {X "(%s (shape %x)) (const %k (i64) -1) (%y (equal %s %k))", "bool[3] = 0 0 0"},
    {X "(%s (shape %x)) (%y (equal %s %s))", "bool[3] = 1 1 1"},
    {"(const %a (i64 3) 1 2 3) (const %b (i64) 2) (%y (less-equal %a %b))", "bool[3] = 1 1 0"},
    {"(const %a (i64 2) 5 9) (const %b (i64) 4) (%y (mod %a %b))", "i64[2] = 1 1"},
    {X "(%s (shape %x)) (const %c (bool 3) 1 0 1) (const %k (i64) 7) (%y (where %c %s %k))", "i64[3] = batch 7 4"},
    {X "(%s (shape %x)) (const %k (i64) 3) (%y (min %s %k))", "i64[3] = (min 3 batch) 3 3"},
    {X "(%s (shape %x)) ((%y %z) (split :axis 0 :sizes (1 2) %s))", "i64[1] = batch i64[2] = 3 4"},
    {X "(%s (shape %x)) (%t (cast :to i32 %s)) (%y (unsqueeze :axes (0) %t))", "i32[1 3] = batch 3 4"},
    {X "(%s (shape %x)) (%y (expand :shape (2 3) %s))", "i64[2 3] = batch 3 4 batch 3 4"},
    {"(const %k (i64 2 2) 1 2 3 4) (%y (transpose :perm (1 0) %k))", "i64[2 2] = 1 3 2 4"},
    {"(const %k (i64 2) -7 7) (const %d (i64) 2) (%y (div %k %d))", "i64[2] = -3 3"},
    {"(const %k (bool 2) 0 1) (%y (cast :to i64 %k))", "i64[2] = 0 1"},
    /* contents that cannot be told are dropped, not guessed */
    {X "(%s (shape %x)) (const %k (i64) 4) (%y (equal %s %k))", "bool[3]"},
    {"(const %a (i64 1) -5) (const %b (i64) 4) (%y (mod %a %b))", "i64[1] = 3"},
    {"(const %a (i64 2) -5 2) (%n (neg %a)) (%y (abs %n))", "i64[2] = 5 2"},
    {"(const %a (bool 2) 1 0) (%n (not %a)) (%y (and %a %n))", "bool[2] = 0 0"},
    {"(const %a (i64 3) 5 9 2) (%y (reduce-sum :axes (0) %a))", "i64[1] = 16"},
    {X "(%s (shape %x)) (%y (neg %s))", "i64[3] = (* -1 batch) -3 -4"},
    {X "(%s (shape %x)) (const %k (i64) 2) (%y (mod %s %k))", "i64[3] = (+ batch (* -2 (floordiv batch 2))) 1 0"},
    {X "(%s (shape %x)) (const %k (i64) -2) (%y (less %s %k))", "bool[3] = 0 0 0"},
    {X "(%s (shape %x)) (%t (add %s %s)) (%y (less-equal %s %t))", "bool[3] = 1 1 1"},
    {X "(%s (shape %x)) (const %k (i64) 5) (%t (sub %s %k)) (const %d (i64) 2) (%y (div %t %d))", "i64[3]"},
    {"(const %k (i8 1) 100) (%y (add %k %k))", "i8[1]"},
    {"(const %k (i64 1) 300) (%y (cast :to u8 %k))", "u8[1]"},
    {"(const %k (i64 1) 9223372036854775807) (%y (add %k %k))", "i64[1] = -2"},
    {"(const %k (i64 1) 3) (const %z (i64 1) 0) (%y (div %k %z))", "i64[1]"},
    {X "(%s (shape %x)) (%f (cast :to f32 %s)) (%y (cast :to i64 %f))", "i64[3]"},
    {X "(%s (shape %x)) (const %k (i64) 9) (%y (gather %s %k))", "i64[]"},
    {I "(const %k (i64 2) 1 2) (%y (gather %k %i))", "i64[2 n]"},
};

static const row refused[] = {
    {X "(input %w (f32 5 3)) (%y (linear %w none %x))",
     "the last axis of x f32[batch 3 4] and K of the weight f32[5 3]"},
    {X "(input %w (f32 5)) (%y (linear %w none %x))", "the weight is f32[5], a matrix"},
    {X W "(input %c (f32 1 5)) (%y (linear %w %c %x))", "the bias is f32[1 5]"},
    {X W "(input %c (f32 1)) (%y (linear %w %c %x))", "the bias is f32[1], a vector of the weight's N = 5"},
    {W "(input %x (f32)) (%y (linear %w %b %x))", "x is a scalar"},
    {X W "(%y (linear none %b %x))", "a weight, is absent"},
    {W "(%y (linear %w %b none))", "x, is absent"},
    {"(input %x (f16 4)) " W "(%y (linear %w %b %x))", "different element types, f32 and f16"},
    {X W "(%y (fused-linear :act swish %w %b %x))", "no activation is called 'swish'"},
    {"(input %w (i32 1 1)) (%y (fused-linear :act tanh %w none %w))", "tanh wants a floating-point type"},
    {X W "(%y (fused-linear %w %b %x))", "fused-linear wants the attribute :act"},
    {X W "(input %r (f32 3 5)) (%y (fused-linear-add :act none :add before %w %b %r %x))",
     "what is added is f32[3 5], the result f32[batch 3 5] is wanted"},
    {X W "(input %r (f32 n 3 5)) (%y (fused-linear-add :act none :add before %w %b %r %x))",
     "what is added is f32[n 3 5]"},
    {X W "(%y (fused-linear-add :act none :add before %w %b none %x))", "input 2, what is added, is absent"},
    {X W "(%y (fused-linear-add :act none :add before %w %b %x none))", "input 3, x, is absent"},
    {X W "(%y (fused-linear-add :act none :add within %w %b %x %x))", "no add 'within'"},
    {X W "(%y (fused-linear-add :act swish :add after %w %b %x %x))", "no activation is called 'swish'"},
    {Q SCALED ":act relu :add after :to i32 %w %b %r %x))", "'i32' is no floating-point type"},
    {Q SCALED ":act relu :add after :to f16 %w %b none %x))", "the bias is bf16[5], f16 is wanted"},
    {Q SCALED ":act relu :add after :to bf16 %w none %b %x))", "what is added is bf16[5], the result bf16[batch 3 5]"},
    {Q SCALED ":act relu :add after :to bf16 %w none none %r))", "x bf16[batch 3 5], f8e4m3 is wanted"},
    {Q SCALED ":act relu :add after :to bf16 %w none none none))", "x is absent"},
    {Q "(%y (quantized-linear :x-scale 0.0 :w-scale 1.0 :act none :add before :to bf16 %w none none %x))",
     "a scale is 0, a positive number is wanted"},
    {X W "(%y (fused-mlp :acts (relu) %w %b %w %b %x))", "5 inputs for 1 activations"},
    {X W "(%y (fused-mlp :acts (relu relu) %w %b %w %b %x))", "the last axis of x f32[batch 3 5] and K"},
    {"(input %g (f32 batch 3)) (input %x (f32 3 batch)) ((%a %b) (linear-gradient %g %x))", "f32[batch 3] and f32[3 batch]"},
    {"(input %g (f32 batch 3)) (input %x (f16 batch 3)) ((%a %b) (linear-gradient %g %x))", "f32 and f16"},
    {"(input %g (i32 batch 3)) ((%a %b) (linear-gradient %g %g))", "a floating-point type is wanted"},
    {T "((%y %b %c) (attention-gradient %q %k %v %g %v))", "input 4 is f32[batch 2 n 5], f32[batch 2 7 5] is wanted"},
    {T "((%y %b %c) (attention-gradient %q %v %v %g %g))", "input 1 is f32[batch 2 n 5], f32[batch 2 n 6] is wanted"},
    {T "(input %w (f32 2 n 5)) ((%y %b %c) (attention-gradient %q %k %w %g %g))", "2 to 4 axes of each"},
    {T "(input %w (f16 batch 2 n 5)) ((%y %b %c) (attention-gradient %q %k %w %g %g))", "input 2 is f16[batch 2 n 5]"},
    {T "(input %m (bool batch 1 n)) ((%y %b %c) (attention-gradient %q %k %v %g %g %m))", "do not broadcast"},
    {T "(input %m (i64 7 n)) ((%y %b %c) (attention-gradient %q %k %v %g %g %m))", "f32 or bool is wanted"},
    {"(input %q (f32 3 3)) ((%y %b %c) (attention-gradient :rows-first 1 %q %q %q %q %q))", "3 to 4 axes of each"},
    {A "(%y (attention %q %k none))", "input 2 is absent"},
    {A "(input %s (f32 4)) (%y (attention %s %k %v))", "input 0 is f32[4], a matrix at least"},
    {A "(input %s (f16 2 n 5)) (%y (attention %q %k %s))", "input 2 is f16[2 n 5]; q, k and v of one"},
    {A "(%y (attention %q %v %v))", "differ in width"},
    {A "(%y (attention %q %k %q))", "differ in length"},
    {A "(input %m (i64 7 n)) (%y (attention %q %k %v %m))", "the mask is i64[7 n]; f32 or bool is wanted"},
    {A "(input %m (f32 3 batch 2 7 n)) (%y (attention %q %k %v %m))", "does not broadcast to the scores"},
    {A "(input %m (bool 4 n)) (%y (attention %q %k %v %m))", "do not broadcast"},
    {A "(input %m (bool 7 n)) (%y (attention :softmax 0 %q %k %v %m))", "softmax is 0 and there is a mask"},
    {"(input %q (f32 3 3)) (%y (attention :rows-first 1 %q %q %q))", "rows-first is 1, there are 0 axes of heads"},
    {X "(%y (matmul %x %x))", "the inner sizes 4 and 3 differ"},
    {X "(input %s (f32)) (%y (matmul %x %s))", "a scalar operand"},
    {"(input %a (f32 2 3 3)) (input %b (f32 4 3 3)) (%y (matmul %a %b))", "do not broadcast"},
    {"(input %a (i32 3 3)) (%y (matmul :alpha 0.5 %a %a))", "alpha = 0.5 on integers"},
    {"(input %a (f32 2 3)) (%y (gemm %a %a))", "the inner sizes differ"},
    {"(input %a (f32 2 2)) (input %c (f32 3 2 2)) (%y (gemm %a %a %c))", "does not broadcast to the result f32[2 2]"},
    {"(input %a (f32 2 2)) (input %c (f32 3)) (%y (gemm %a %a %c))", "do not broadcast"},
    {"(input %a (f32 2)) (%y (gemm %a %a))", "two matrices are wanted"},
    {X "(input %r (f32 3)) (%y (add %x %r))", "f32[batch 3 4] and f32[3] do not broadcast: 4 and 3 meet at axis 2"},
    {"(input %a (f32 (min 16 m))) (input %b (f32 (min 8 m))) (%y (add %a %b))", "do not broadcast"},
    {"(input %a (f32 m)) (input %b (f32 (min 1 m))) (%y (add %a %b))", "do not broadcast"},
    {X "(input %r (f32 seq 3 4)) (%y (add %x %r))", "batch and seq meet at axis 0"},
    {X "(input %r (f32 2 3 4)) (%y (add %x %r))", "give the symbolic sizes fixed values"},
    {X I "(%y (add %x %i))", "different element types, f32 and i64"},
    {"(input %x (bool 2)) (%y (add %x %x))", "input 0 is bool"},
    {"(input %x (bool 2)) (%y (pow %x %x))", "powers of bool"},
    {"(input %x (bool 2)) (%y (less %x %x))", "input 0 is bool"},
    {X I "(%y (equal %x %i))", "different element types"},
    {X "(%y (or %x %x))", "the inputs are f32, bools or integers are wanted"},
    {"(input %x (bool 2)) (%y (shift-left %x %x))", "the inputs are bool, integers are wanted"},
    {X "(%y (not %x))", "bools or integers"},
    {X "(%y (where %x %x %x))", "the condition is f32, bool is wanted"},
    {X I "(input %c (bool)) (%y (where %c %x %i))", "the values are of different element types"},
    {I "(%y (gelu %i))", "input 0 is i64, a floating-point type is wanted"},
    {X "(%y (add %x))", "1 inputs, 2 to 2 are wanted"},
    {X "(%y (add %x none))", "input 1 is absent"},
    {X "(%y (clip :min nan %x))", "a bound is NaN"},
    {"(input %x (u8 n)) (%y (clip :min 1 :max -0.5 %x))", "no number of type u8 lies within 1 .. -0.5"},
    {"(input %x (i8 n)) (%y (clip :min 127.5 %x))", "no number of type i8 lies within 127.5 .. inf"},
    {"(input %x (u64 n)) (%y (clip :min 2e19 %x))", "no number of type u64 lies within 2e+19 .. inf"},
    {X "(%y (cast :to float %x))", "no element type is called 'float'"},
    {X "(%y (reshape :shape (batch 13) %x))",
     "has (* 12 batch) elements, the new shape f32[batch 13] has (* 13 batch)"},
    {X "(%y (reshape :shape (12 -1) %x))", "a size of -1"},
    {X "(%y (reshape :shape (1 1 1 1 1 1 1 1 12 batch) %x))", "rank 10"},
    {X "(%y (flatten :axis 4 %x))", "axis 4 is outside [-3, 3]"},
    {X "(%y (squeeze :axes (0) %x))", "axis 0 of f32[batch 3 4] is not of size 1"},
    {"(input %x (f32 1 2)) (%y (squeeze :axes (0 -2) %x))", "axis 0 is listed twice"},
    {X "(%y (unsqueeze :axes (0 1 2 3 4 5) %x))", "rank 9"},
    {X "(%y (unsqueeze :axes (n) %x))", "an axis cannot be symbolic: n"},
    {X "(%y (expand :shape (1 3 4) %x))", "does not expand"},
    {X "(%y (transpose :perm (0 1) %x))", "the permutation has 2 entries"},
    {X "(%y (transpose :perm (0 1 1) %x))", "axis 1 is listed twice"},
    {X "(%y (transpose :perm (0 1 -1) %x))", "may not count from the end"},
    {X "(input %z (f32 batch 3 5)) (%y (concat :axis 1 %x %z))", "may differ along axis 1 only"},
    {"(input %x (f32 2 3 7 5)) (input %y (f32 2 2 3 2)) (%d (max-pool-gradient :kernel (3 3) :strides (2 2) :pads (0 0 0 0) "
     ":dilations (1 1) %x %y %y))",
     "the result of a pool over f32[2 3 7 5] is no f32[2 2 3 2]"},
    {"(input %x (f32 2 3 7)) (input %y (f32 2 3 3)) (input %g (f32 2 3 2)) (%d (max-pool-gradient :kernel (3) :strides (2) "
     ":pads (0 0) :dilations (1) %x %y %g))",
     "the gradient by f32[2 3 3] is f32[2 3 2]"},
    {X "(input %s (f32 4)) ((%y %m %w) (batch-norm %x %s %s %s %s))", "input 1 is f32[4], a float for each of the 3 channels of x"},
    {"(input %x (f32 4)) ((%m %v %i) (batch-norm-stats %x))", "x is f32[4], [N C ...] is wanted"},
    {"(input %x (i32 4 2)) ((%m %v %i) (batch-norm-stats %x))", "a floating-point type is wanted"},
    {X "(input %s (f64 3)) ((%a %b) (batch-norm-gradient %x %x %s %s))", "input 2 is f64[3], statistics of x are f32"},
    {X "(input %s (f32 3)) ((%a %b) (batch-norm-gradient %x %x %s %s %s))", "of scale and bias one is there: both or neither are wanted"},
    {X "(input %s (f32 3)) (input %t (f64 3)) ((%a %b) (batch-norm-gradient %x %x %s %s %s %t))", "input 5 is f64[3], statistics of x are f32"},
    {X "(input %g (f16 batch 3 4)) (input %s (f32 3)) ((%a %b) (batch-norm-gradient %x %g %s %s))", "f32[batch 3 4] is wanted"},
    {X "(%y (concat :axis 3 %x %x))", "axis 3 is outside [-3, 3)"},
    {X "(%y (concat :axis 0))", "0 inputs, at least 1"},
    {X "((%y %z) (split :axis 1 :sizes (1 1) %x))", "the sizes add up to 2, axis 1 of f32[batch 3 4] has 3"},
    {X "(%y (split :axis 1 :sizes (1 2) %x))", "2 sizes for 1 outputs"},
    {X "((%y %z) (split :axis 1 :sizes (-1 4) %x))", "a negative size -1"},
    {X "((%y %z) (relu %x))", "2 outputs, 1 are wanted"},
    {X "(%y (slice :starts (0 0 0) :sizes (batch 4 4) :steps (1 1 1) %x))",
     "4 elements from 0 in steps of 1 leave axis 1"},
    {X "(%y (slice :starts (0 0 0) :sizes (batch 3 2) :steps (1 1 -1) %x))", "leave axis 2"},
    {X "(%y (slice :starts (0 0) :sizes (1 1) :steps (1 1) %x))", "an entry for every axis"},
    {X "(%y (slice :starts (0 0 0) :sizes (1 1 1) :steps (1 0 1) %x))", "the step along axis 1 is 0"},
    {X "(%y (gather %x %x))", "input 1 is of type f32, i32 or i64 is wanted"},
    {X "((%m %s) (softmax-stats :axis 3 %x))", "axis 3 is outside [-3, 3)"},
    {X I "(%y (gather-elements :axis 0 %x %i))", "are of different ranks"},
    {"(input %x (f32 n 3)) (input %i (i64 n 4)) (%y (gather-elements :axis 0 %x %i))", "axis 1 of the indices"},
    {X I "(%y (gather-nd %x %i))", "the last axis of the indices i64[2 n] is no number of axes"},
    {X "(input %i (i64 5 4)) (%y (gather-nd :batch-axes 1 %x %i))", "no number of axes"},
    {X "(input %i (i64 5 7 1)) (%y (gather-nd :batch-axes 1 %x %i))", "batch axis 0"},
    {X "(input %i (i64 n 2)) (%y (scatter-nd %x %i %x))", "the updates are f32[batch 3 4], f32[n 4] is wanted"},
    {"(input %x (f32 3)) (input %i (i64 3)) (%y (scatter-elements :axis 0 :reduction sum %x %i %x))",
     "no reduction 'sum'"},
    {X "(input %u (f32 batch 5 4)) (%y (tensor-scatter :axis 1 %x %u))", "do not fit along axis 1"},
    {"(input %x (f32 t b 6)) (input %r (f32 5 6)) ((%y %h) (rnn %x %r))",
     "input 0 is f32[t b 6], f32[t b 5] is wanted"},
    {"(input %x (f32 t b 6)) (input %r (f32 2 6)) (input %l (f32 b)) ((%y %h) (gru %x %r none %l))",
     "input 3 is of type f32"},
    {"(input %x (f32 t b 8)) (input %r (f32 2 8)) (input %p (f32 2)) ((%y %h %c) (lstm %x %r none none none %p))",
     "input 5 is f32[2], f32[6] is wanted"},
    {"(input %x (f32 t b 2)) (input %r (f32 2 2)) ((%y %h) (rnn :f gelu %x %r))", "no f 'gelu'"},
    {"(input %n (f32 t b 2)) (input %r (f32 2 6)) ((%y %h %c) (lstm-gradient %n %r))", "input 1 is f32[2 6], f32[2 8] is wanted"},
    {"(input %n (f32 t b 2)) (input %r (f32 2 8)) ((%y %h %c) (lstm-gradient %n %r none none none none %r))",
     "input 6 is f32[2 8], f32[t b 2] is wanted"},
    {"(input %n (f32 t b 2)) (input %r (f32 2 6)) ((%y %h) (gru-gradient %n %r none none %n))",
     "input 4 is f32[t b 2], f32[b 2] is wanted"},
    {"(input %n (f32 t b 2)) (input %r (f32 2 2)) (input %l (i64 t)) ((%y %h) (rnn-gradient %n %r %l))", "the lengths are i64[t]"},
    {"(input %n (f32 t b)) (input %r (f32 2 2)) ((%y %h) (rnn-gradient %n %r))", "floats [time batch size] and [size n]"},
    {X "((%y %z) (topk :axis 1 :k (4) %x))", "k is 4, axis 1 of f32[batch 3 4] is shorter"},
    {X "((%y %z) (topk :axis 1 :k () %x))", "k has 0 entries, 1 is wanted"},
    {I "(input %v (f32 3)) (%y (one-hot :new-axis 0 :depth (4) %i %v))", "numbers and two values are wanted"},
    {I "(%y (range :size (3) %i %i))", "scalars are wanted"},
    {I "(%y (random-uniform :shape (3) %i %i))", "scalars of i64 are wanted"},
    {"(input %a (i32)) (%y (random-uniform :shape (3) %a %a))", "scalars of i64 are wanted"},
    {"(input %a (i64)) (%y (random-uniform :shape (-3) %a %a))", "a size of -3 in the shape"},
    {"(input %a (i64)) (%y (random-uniform :shape (3) :stream -1 %a %a))", "stream -1 is not a number of 32 bits"},
    {"(input %a (i64)) (%y (random-uniform :shape (3) :stream 4294967296 %a %a))", "is not a number of 32 bits"},
    {X "(%y (dropout :ratio -0.1 %x))", "the ratio is -0.1"},
    {X "(%y (dropout :ratio 1.5 %x))", "the ratio is 1.5"},
    {"(input %x (f32 3)) (%y (trilu %x))", "matrices are wanted"},
    {X "(%y (resize :mode linear :sizes (batch 6) %x))", "2 sizes for the axes of f32[batch 3 4]"},
    {X "(%y (resize :mode area :sizes (batch 6 8) %x))", "no mode 'area'"},
    {X "(input %s (f32 2)) (%y (resize :mode linear :sizes (batch 6 8) %x %s))", "3 floating-point numbers are wanted"},
    {X "(input %g (f32 batch 3 2)) (%y (grid-sample %x %g))", "the grid f32[batch 3 2] does not fit the images"},
    {"(input %x (f32 2 3 4)) (input %g (f32 2 3 1)) (%y (grid-sample-gradient %x %g %x))", "is f32[2 3 4], f32[2 3 3] is wanted"},
    {"(input %x (f32 2 3 4)) (input %g (f32 2 4 1)) (%y (grid-sample-gradient :by g %x %g %x))", "no by 'g'"},
    {"(input %x (f32 2 3 4 4)) (input %r (f32 5 4)) (input %i (i64 5)) (%y (roi-align-gradient :bins (7 5) %x %r %i %x))",
     "is f32[2 3 4 4], f32[5 3 7 5] is wanted"},
    {X "(%y (affine-grid :size (batch 1 5 6) %x))", "the matrices f32[batch 3 4] do not fit the size"},
    {X "(input %i (i64 3)) (%y (roi-align :bins (7 5) %x %x %i))", "the regions f32[batch 3 4] of the images"},
    {X "(%y (bit-cast :to i64 %x))", "f32[batch 3 4] cannot be read as 'i64'"},
    {X "(input %l (i64 4)) (%y (reverse-sequence :batch-axis 1 :time-axis 0 %x %l))", "the lengths are i64[4]"},
    {X "(%y (pad :before (1) :after (1) %x %x))", "the value is f32[batch 3 4], a scalar is wanted"},
    {X "(const %v (f32) 0) (%y (pad :before (0 -1 0) :after (0 0 0) %x %v))", "a negative pad -1 along axis 1"},
    {X I "(%y (gather :axis 3 %x %i))", "axis 3 is outside"},
    {X "(%y (softmax :axis 3 %x))", "axis 3 is outside"},
    {I "(%y (softmax %i))", "a floating-point type is wanted"},
    {X "(%y (reduce-sum :axes (3) %x))", "axis 3 is outside"},
    {X "(%y (cumsum :axis 3 %x))", "axis 3 is outside"},
    {X "((%y %z) (nonzero :size (2 3) %x))", "size has 2 entries"},
    {X "((%y %z) (nonzero :size (-1) %x))", "size is -1"},
    {X "((%y %z) (non-max-suppression :size (1) %x %x))", "boxes [images n 4] and scores [images classes n]"},
    {"(input %b (f32 n 9 4)) (input %s (f32 n 2 8)) ((%y %z) (non-max-suppression :size (m) %b %s))", "boxes [images n 4]"},
    {X "(%y (all-reduce %x %x))", "1 outputs for 2 inputs"},
    {X I "((%y %z) (all-reduce %x %i))", "input 1 is i64[2 n], floats are wanted"},
    {X "(%y (all-reduce :reduction max %x))", "no reduction 'max'"},
    {X "((%y %f %i %c %z) (unique :size (2) :along 3 %x))", "axis 3 is outside"},
    {X "(%y (custom :operator a::B :values () :types (i8 f64) :shapes (0 0) %x))", "1 outputs, and types for 2"},
    {X "(%y (custom :operator a::B :values () :types (i9) :shapes (0) %x))", "no element type 'i9'"},
    {X "(%y (custom :operator a::B :values () :types (i8) :shapes (2 3) %x))", "the shape of output 0 is not there"},
    {X "(%y (custom :operator a::B :values () :types (i8) :shapes (9 1 1 1 1 1 1 1 1 1) %x))", "the shape of output 0"},
    {X "(%y (custom :operator a::B :values () :types (i8) :shapes (1 -3) %x))", "a size of -3"},
    {X "(%y (custom :operator a::B :values () :types (i8) :shapes (0 0) %x))", "more shapes than outputs"},
    {X "(%y (custom :operator a::B :values () :types (i8) :shapes (0) none))", "input 0 is absent"},
    {X "(%y (reduce-max :axes (3) %x))", "axis 3 is outside"},
    {"(input %x (f32 2 0)) (%y (argmin :axis 1 %x))", "axis 1 of f32[2 0] is empty"},
    {N "(%y (conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) %x %w))", "do not fit in 1 groups"},
    {N "(%y (conv :strides (0 1) :pads (0 0 0 0) :dilations (1 1) :group 2 %x %w))", "strides of 0"},
    {N "(%y (conv :strides (1) :pads (0 0) :dilations (1) :group 2 %x %w))", "1 strides, 2 are wanted"},
    {N "(%y (conv :strides (1 1) :pads (0 0 0 0) :dilations (9 1) :group 2 %x %w))",
     "the window is larger than axis 2"},
    {N "(%y (conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :group 2 :act gelu %x %w))", "is called 'gelu'"},
    {N "(%y (conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :group 2 %x %w %x))", "a vector of 6 is wanted"},
    {N "(%y (conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :group 2 %x %w none %x))", "is added, the result is"},
    {N "(%y (conv-transpose :strides (1 1) :pads (9 0 9 0) :dilations (1 1) :more (0 0) %x %t))", "padding is larger"},
    {G "(%y (conv-backward-weights :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :kernel (3) %x %g))",
     "1 axes, 2 are wanted"},
    {G "(%y (conv-backward-weights :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :kernel (3 0) %x %g))", "a window of 0"},
    {G "(%y (conv-backward-weights :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :kernel (3 2) %x %h))",
     "f32[3 6 6 6] for x f32[2 4 8 7]"},
    {G "(%y (conv-backward-weights :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :kernel (3 3) %x %g))",
     "axis 3 of what the convolution gives has 5"},
    {G "(%y (conv-backward-weights :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :kernel (10 2) %x %g))",
     "the window is larger than axis 2"},
    {G "(%y (conv-backward-weights :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :group 4 :kernel (3 2) %x %g))",
     "do not fit in 4 groups"},
    {G "(%y (conv-backward-weights :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :group 0 :kernel (3 2) %x %g))",
     "do not fit in 0 groups"},
    {N "(%y (max-pool :kernel (2) :strides (1 1) :pads (0 0 0 0) :dilations (1 1) %x))", "1 axes, 2 are wanted"},
    {N "(%y (average-pool :kernel (2 3) :strides (2 2) :pads (0 0 0 0) :dilations (1 1) :ceil 1 %x))",
     "axis 3 must have a fixed size"},
    {"(input %x (i32 1 1 2)) (%y (average-pool :kernel (2) :strides (1) :pads (0 0) :dilations (1) %x))",
     "floating-point"},
    {"(input %x (f32 1 1 2)) (%y (max-unpool :counted (4) :sizes (4) %x %x))", "i64 is wanted"},
    {X "(input %s (f32 3)) (%y (layer-norm %x %s))", "input 1 is f32[3], the axes of x f32[batch 3 4] from 2 on"},
    {X "(input %s (f32 3)) (%y (rms-norm :axis 5 %x %s))", "axis 5 is outside"},
    {X "(input %g (f32 4)) (%y (norm-gradient %x %g))", "input 1 is f32[4], f32[batch 3 4] is wanted"},
    {X "(input %g (f32 batch 4 3)) (%y (softmax-gradient %x %g))", "input 1 is f32[batch 4 3], f32[batch 3 4] is wanted"},
    {X "(input %g (f16 batch 3 4)) (%y (softmax-gradient %x %g))", "different element types"},
    {X "(input %s (f32 3)) (%y (norm-gradient %x %x %s))", "input 2 is f32[3]"},
    {X "(input %s (f32 4)) (%y (norm-gradient :by scale %x %x %s))", "does not depend on it"},
    {X "(%y (norm-gradient :by bias %x %x))", "no by 'bias'"},
    {"(input %x (f32 2)) (%y (lrn :size 3 %x))", "[N C ...] is wanted"},
    {"(input %x (bool 2)) (%y (reduce-mean :axes (0) %x))", "input 0 is bool"},
};

static void describe(hyp_strbuf *sb, const hyp_graph *g)
{
    const hyp_node *n = &g->nodes.data[g->nodes.len - 1];
    for (uint32_t i = 0; i < n->output_count; i++) {
        const hyp_value *v = &g->values.data[n->outputs[i]];
        if (i) hyp_strbuf_puts(sb, " ");
        hyp_type_print(sb, g->dims, &v->type);
        if (v->content) hyp_strbuf_puts(sb, " =");
        for (uint32_t j = 0; j < v->content_count; j++) {
            hyp_strbuf_puts(sb, " ");
            hyp_dim_print(sb, g->dims, v->content[j]);
        }
    }
}

static void types_and_contents_are_inferred(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        char text[1024];
        hyp_dims *dims = new_dims();
        hyp_diag diag = {0};
        hyp_strbuf sb = {0};
        snprintf(text, sizeof text, "(graph \"\" %s)", accepted[i].body);
        hyp_graph g = parse(dims, text);
        assert_ok(hyp_graph_verify(&g, &diag), &diag);
        describe(&sb, &g);
        if (strcmp(hyp_strbuf_text(&sb), accepted[i].result) != 0)
            fail_msg("%s is %s, not %s", accepted[i].body, sb.data, accepted[i].result);
        hyp_strbuf_dispose(&sb);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

static void wrong_operands_are_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char text[1024];
        hyp_dims *dims = new_dims();
        hyp_graph g;
        hyp_diag diag = {0};
        hyp_graph_init(&g, dims);
        snprintf(text, sizeof text, "(graph \"\" %s)", refused[i].body);
        assert_int_equal(hyp_graph_parse(&g, "file", text, strlen(text), &diag), HYP_ERR_MALFORMED);
        if (!strstr(diag.message, refused[i].result) || strncmp(diag.message, "file:1:", 7) != 0)
            fail_msg("%s: the message is '%s'", refused[i].body, diag.message);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

static bool is_in(const row *rows, size_t count, hyp_op op)
{
    char call[64];
    snprintf(call, sizeof call, "(%s ", hyp_op_get(op)->name);
    for (size_t i = 0; i < count; i++)
        if (strstr(rows[i].body, call)) return true;
    return false;
}

/* Operators that share their inference with one that is in the tables need no rows of their own. */
static void every_inference_is_in_both_tables(void **state)
{
    (void)state;
    for (int op = 0; op < HYP_OP_COUNT; op++) {
        /* These cannot fail. */
        bool good = false,
             bad = op == HYP_OP_identity || op == HYP_OP_shape || op == HYP_OP_size;
        for (int other = 0; other < HYP_OP_COUNT; other++) {
            if (hyp_op_get_functions((hyp_op)op).infer != hyp_op_get_functions((hyp_op)other).infer) continue;
            good = good || is_in(accepted, sizeof accepted / sizeof *accepted, (hyp_op)other);
            bad = bad || is_in(refused, sizeof refused / sizeof *refused, (hyp_op)other);
        }
        if (!good || !bad) fail_msg("%s is missing here", hyp_op_get((hyp_op)op)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_contents_are_inferred),
        cmocka_unit_test(wrong_operands_are_refused_with_a_reason),
        cmocka_unit_test(every_inference_is_in_both_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

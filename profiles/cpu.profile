; cpu.profile - one core of a current x86-64 server with AVX-512, oneDNN with packed weights. Measured roughly:
; docs/rules.md says how the numbers are used.
(profile cpu
  (threads 1)
  (launch-seconds 3e-7)            ; a call into a kernel library, tiny sizes
  (next-launch-seconds 2.94e-7)    ; less: nothing is looked up in between
  (join-seconds 5e-6)
  (bytes-per-second 1.2e10)        ; one core streaming from memory
  (cache-bytes 2097152)            ; its second-level cache
  (cache-bytes-per-second 8e10)
  (flops-f32 1.6e11)               ; 512x4096x1024 with packed weights
  (flops-tf32 1.6e11)              ; no such mode: as f32
  (flops-f16 1.6e11)
  (flops-bf16 1.6e11)
  (flops-f8 3.2e11)
  (flops-f64 8e10)
  (flops-i32 1.2e+11)
  (pointwise-per-second 8e9)
  (epilogue relu gelu gelu-tanh sigmoid tanh silu quick-gelu hard-swish mish softplus leaky-relu)
  (columns-at-once 16)             ; two vectors with AVX2, one with AVX-512
  (add-after-act true)
  (kernel-calls true)
  (attention-in-one-kernel f32)
  (attention-gradient-in-one-kernel f32)
  (attention-reads-parts false)    ; it can, but one product for q, k and v is no faster than three
  (mlp-in-one-kernel true)
  (depthwise-ends-in-acts true))

; h200.profile - one NVIDIA H200, cuBLASLt and kernels of our own, launched from a CUDA graph or back to back.
(profile h200
  (launch-seconds 6.5e-7)          ; each further kernel of a CUDA graph
  (bytes-per-second 4.27e12)       ; copy
  (cache-bytes 50e6)               ; L2
  (cache-bytes-per-second 8e12)
  (flops-f32 5e13)                 ; 8192x4096x4096, full precision
  (flops-tf32 4e14)
  (flops-f16 7.9e14)
  (flops-bf16 7.9e14)
  (flops-f64 5e13)
  (pointwise-per-second 2e13)
  (epilogue relu gelu-tanh)        ; the library's GELU is the tanh form
  (add-after-act false)            ; the library adds before its epilogue
  (kernel-calls layer-norm rms-norm range)   ; what else is called by name, convolutions say, has no kernel there
  (attention-in-one-kernel f32 f16 bf16)
  (attention-widest 128)
  (mlp-in-one-kernel false))

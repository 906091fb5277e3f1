/* images.S - files that the binary carries as they are: the fatbins of image.cu, few_rows.cu and attention.cu, and the
 * texts that generated kernels share (cuda.cmake makes them). Assembler has a file of its own: within C, a compiler that
 * optimises at link time may put it into another object than the code that reads it.
 */
.macro file name, path
    .section .rodata.\name, "a", %progbits
    .balign 64
    .globl \name
    .hidden \name
    .type \name, %object
\name:
    .incbin "\path"
    .byte 0
    .size \name, . - \name
.endm

file hyp_cuda_basic_image, image.fatbin
file hyp_cuda_few_rows_image, few_rows.fatbin
file hyp_cuda_attention_image, attention.fatbin
file hyp_cuda_device_text, device_text.cuh
file hyp_cuda_layer_text, layer_text.cuh

.section .note.GNU-stack, "", %progbits

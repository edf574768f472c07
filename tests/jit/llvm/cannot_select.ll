; name: Instructions that a processor lacks
; target: x86_64-unknown-linux-gnu x86-64-v3
; fault: ends
; seen: 19 fault, 22 fault
; around: src/jit/emit_matrix.c tg_emit_matrix

declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)

define <16 x float> @f(<16 x float> %a, <32 x bfloat> %b) {
  %r = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %a, <32 x bfloat> %b, <32 x bfloat> %b)
  ret <16 x float> %r
}

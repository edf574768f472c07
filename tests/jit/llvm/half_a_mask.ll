; name: Half a mask
; target: x86_64-unknown-linux-gnu x86-64-v3
; fault: has vmovups 32(%rdi),
; seen: 19 fault, 22 fault
; around: src/jit/emit_masks.c takes_signs, src/jit/emit_masks.c find_window

declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)

define <16 x float> @f(ptr %p, i1 %c) {
  %a = insertelement <16 x i1> poison, i1 %c, i32 0
  %b = shufflevector <16 x i1> %a, <16 x i1> poison, <16 x i32> zeroinitializer
  %m = and <16 x i1> %b, <i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false,
                          i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>
  %r = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %p, i32 4, <16 x i1> %m, <16 x float> zeroinitializer)
  ret <16 x float> %r
}

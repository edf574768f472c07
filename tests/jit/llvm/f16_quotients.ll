; name: Quotients of f16
; target: amdgcn-amd-amdhsa gfx90a
; fault: has v_fma_mixlo_f16
; fault: lacks v_mad_f32
; seen: 19 fault, 22 mended
; around: src/jit/emit_value.c by_single

define half @f(half %a, half %b) {
  %c = fdiv half %a, %b
  ret half %c
}

; name: A product of -0
; target: amdgcn-amd-amdhsa gfx1100
; fault: has v_fma_mixlo_f16
; seen: 19 fault, 22 fault
; around: src/jit/emit_products.c tg_emit_products

define half @f(float %a, float %b) {
  %c = fmul float %a, %b
  %d = fptrunc float %c to half
  ret half %d
}

; name: Roots of f16
; target: amdgcn-amd-amdhsa gfx90a
; fault: has v_sqrt_f16_e32
; seen: 19 fault, 22 fault
; around: src/jit/emit_value.c by_single

declare half @llvm.sqrt.f16(half)

define half @f(half %a) {
  %c = call half @llvm.sqrt.f16(half %a)
  ret half %c
}

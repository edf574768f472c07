; name: Functions that are not there
; target: x86_64-unknown-linux-gnu x86-64-v2
; fault: has fmaf@PLT
; fault: has exp2f@PLT
; fault: has __extendhfsf2@PLT
; fault: has __truncsfhf2@PLT
; seen: 19 fault, 22 fault
; around: src/code/object.c tg_object_undefined, src/lower/types.c tg_pass_types, src/lower/functions.c tg_pass_functions

declare float @llvm.fma.f32(float, float, float)
declare float @llvm.exp2.f32(float)

define float @multiply_add(float %a, float %b, float %c) {
  %r = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %r
}

define float @power(float %a) {
  %r = call float @llvm.exp2.f32(float %a)
  ret float %r
}

define float @from_half(ptr %p) {
  %h = load half, ptr %p
  %r = fpext half %h to float
  ret float %r
}

define void @to_half(ptr %p, float %x) {
  %h = fptrunc float %x to half
  store half %h, ptr %p
  ret void
}

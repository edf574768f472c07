; name: Conversions to bf16
; target: x86_64-unknown-linux-gnu x86-64-v3
; fault: has __truncsfbf2
; seen: 19 fault, 22 fault
; around: src/jit/emit_convert.c f32_to_bf16

define void @f(ptr %p, float %x) {
  %b = fptrunc float %x to bfloat
  store bfloat %b, ptr %p
  ret void
}

; name: Conversions from f64 to f16
; target: x86_64-unknown-linux-gnu x86-64-v3
; fault: has __truncdfhf2
; seen: 19 fault, 22 fault
; around: src/jit/emit_convert.c f64_to_f32_odd

define void @f(ptr %p, double %x) {
  %h = fptrunc double %x to half
  store half %h, ptr %p
  ret void
}

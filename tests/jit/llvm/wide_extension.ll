; name: Eight numbers of f32 to f64
; target: nvptx64-nvidia-cuda sm_80
; fault: ends
; seen: 19 fault, 22 mended
; around: src/jit/emit_convert.c f32_to_f64

define void @f(ptr addrspace(1) %a, ptr addrspace(1) %b) {
  %x = load <8 x float>, ptr addrspace(1) %a, align 16, !invariant.load !0
  %y = fpext <8 x float> %x to <8 x double>
  store <8 x double> %y, ptr addrspace(1) %b
  ret void
}
!0 = !{}

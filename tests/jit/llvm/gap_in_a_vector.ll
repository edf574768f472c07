; name: A gap in a vector
; target: nvptx64-nvidia-cuda sm_80
; fault: has ld.global.v4
; seen: 19 mended, 22 fault
; around: src/jit/emit_device.c lay_out_local, tests/ptx/memory.c unread

define ptx_kernel void @f(ptr addrspace(1) align 16 %x, ptr addrspace(1) %y) {
  %p1 = getelementptr inbounds float, ptr addrspace(1) %x, i64 1
  %p2 = getelementptr inbounds float, ptr addrspace(1) %x, i64 2
  %a = load float, ptr addrspace(1) %x, align 16
  %b = load float, ptr addrspace(1) %p1, align 4
  %c = load float, ptr addrspace(1) %p2, align 8
  %d = fadd float %a, %b
  %e = fadd float %d, %c
  store float %e, ptr addrspace(1) %y
  ret void
}

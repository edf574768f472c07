; name: Threads of a kernel
; target: nvptx64-nvidia-cuda sm_80
; fault: has .visible .entry f(
; fault: lacks .reqntid
; seen: 19 fault, 22 mended
; around: src/jit/emit_device.c nvidia_attributes

define ptx_kernel void @f(ptr addrspace(1) %p) "nvvm.reqntid"="64" "nvvm.minctasm"="1" {
  store i32 1, ptr addrspace(1) %p
  ret void
}

; name: Atomic adds of floats
; target: amdgcn-amd-amdhsa gfx1100
; fault: has global_atomic_cmpswap_b32
; seen: 19 fault, 22 fault
; around: src/jit/emit_device.c tg_device_scope

define amdgpu_kernel void @f(ptr addrspace(1) %p, float %x) {
  %r = atomicrmw fadd ptr addrspace(1) %p, float %x syncscope("agent") monotonic
  ret void
}

; name: Hidden arguments
; target: amdgcn-amd-amdhsa gfx1100
; fault: has .amdhsa_user_sgpr_dispatch_ptr 1
; fault: has .amdhsa_kernarg_size 264
; seen: 19 fault, 22 fault
; around: src/jit/emit_device.c amd_attributes, src/jit/module.c check_device_object

define amdgpu_kernel void @f(ptr addrspace(1) %p) {
  store i32 1, ptr addrspace(1) %p
  ret void
}

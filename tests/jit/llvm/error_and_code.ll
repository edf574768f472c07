; name: An error, and code all the same
; target: amdgcn-amd-amdhsa gfx1100
; fault: reports exceeds limit
; fault: has s_endpgm
; seen: 19 fault, 22 fault
; around: src/jit/module.c check_diagnostics

@memory = internal addrspace(3) global [200000 x i8] poison, align 16

define amdgpu_kernel void @f(i32 %i) {
  %q = getelementptr i8, ptr addrspace(3) @memory, i32 %i
  store volatile i32 1, ptr addrspace(3) %q
  ret void
}

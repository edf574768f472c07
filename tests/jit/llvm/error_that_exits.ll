; name: An error that exits
; target: amdgcn-amd-amdhsa gfx1100
; handler: none
; fault: ends
; seen: 19 fault, 22 fault
; around: src/jit/module.c on_diagnostic, src/jit/emit_device.c lay_out_local

@memory = internal addrspace(3) global [200000 x i8] poison, align 16

define amdgpu_kernel void @f(i32 %i) {
  %q = getelementptr i8, ptr addrspace(3) @memory, i32 %i
  store volatile i32 1, ptr addrspace(3) %q
  ret void
}

; name: Narrow integers
; target: spirv64v1.0-unknown-unknown
; fault: has OpBitwiseAnd
; fault: has 255
; seen: 22 fault
; around: src/jit/module.c tg_llvm_machine

declare spir_func i64 @_Z12get_local_idj(i32)

define spir_kernel void @k(ptr addrspace(1) %y) {
  %i = call spir_func i64 @_Z12get_local_idj(i32 0)
  %low = trunc i64 %i to i4
  %wide = zext i4 %low to i64
  %p = getelementptr i64, ptr addrspace(1) %y, i64 %wide
  store i64 %i, ptr addrspace(1) %p, align 8
  ret void
}

; name: A matrix instruction behind a branch
; target: amdgcn-amd-amdhsa gfx1100
; fault: has s_cbranch_execz .LBB0_2 v_add_co_u32 v16, s0, s0, v8 s_delay_alu instid0(VALU_DEP_1) v_add_co_ci_u32_e64 v17, null, s1, 0, s0 s_waitcnt vmcnt(0) v_wmma
; seen: 19 fault, 22 fault
; around: src/jit/emit_device.c tg_device_computed

declare i32 @llvm.amdgcn.workitem.id.x()
declare <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16(<16 x half>, <16 x half>, <8 x float>)

define amdgpu_kernel void @f(ptr addrspace(1) noalias %p, i32 %n) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %at = getelementptr <16 x half>, ptr addrspace(1) %p, i32 %t
  %x = load <16 x half>, ptr addrspace(1) %at
  %y = call <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16(<16 x half> %x, <16 x half> %x, <8 x float> poison)
  %c = icmp ult i32 %t, %n
  br i1 %c, label %some, label %all
some:
  store <8 x float> %y, ptr addrspace(1) %at
  br label %all
all:
  ret void
}

; name: A scalar load without lanes
; target: amdgcn-amd-amdhsa gfx1100
; fault: lacks s_cbranch_execz
; seen: 19 mended, 22 fault
; around: src/jit/emit_device.c tg_device_keep_branch

declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()

define amdgpu_kernel void @f(ptr addrspace(1) noalias %p, ptr addrspace(1) noalias %q, i32 %n) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %at = getelementptr float, ptr addrspace(1) %p, i32 %g
  %u = load float, ptr addrspace(1) %p
  %full = fcmp olt float %u, 1.0
  %lane = icmp ult i32 %t, %n
  %c = and i1 %full, %lane
  br i1 %c, label %some, label %all
some:
  %v = load float, ptr addrspace(1) %at, !invariant.load !0
  br label %all
all:
  %w = phi float [ poison, %0 ], [ %v, %some ]
  %x = select i1 %c, float %w, float 0.0
  %to = getelementptr float, ptr addrspace(1) %q, i32 %t
  store float %x, ptr addrspace(1) %to
  ret void
}
!0 = !{}

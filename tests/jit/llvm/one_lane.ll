; name: One lane
; target: x86_64-unknown-linux-gnu x86-64-v4
; fault: has vextractps $2, %xmm0, 4(%rdi)
; seen: 19 mended, 22 fault
; around: src/jit/emit_masks.c find_runs

declare void @llvm.masked.store.v16i16.p0(<16 x i16>, ptr, i32, <16 x i1>)

define void @f(ptr %p, <16 x i32> %v) {
  %x = trunc <16 x i32> %v to <16 x i16>
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %x, ptr %p, i32 2, <16 x i1> <
    i1 false, i1 false, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false,
    i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>)
  ret void
}

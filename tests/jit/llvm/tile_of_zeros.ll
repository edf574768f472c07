; name: A tile of zeros
; target: x86_64-unknown-linux-gnu sapphirerapids
; fault: ends
; seen: 19 fault, 22 fault
; around: src/jit/emit_matrix.c tg_emit_tile

declare void @llvm.x86.tilestored64.internal(i16, i16, ptr, i64, x86_amx)

define void @f(ptr %p) {
  call void @llvm.x86.tilestored64.internal(i16 16, i16 64, ptr %p, i64 64, x86_amx zeroinitializer)
  ret void
}

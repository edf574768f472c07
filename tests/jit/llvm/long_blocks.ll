; name: Long blocks
; target: x86_64-unknown-linux-gnu x86-64-v3
; fault: slow
; seen: 19 fault, 22 fault
; around: src/jit/emit.c end_long_block, src/jit/module.c set_up

declare i32 @llvm.smax.i32(i32, i32)

define i32 @f(ptr %p, ptr %q, i32 %s0) {
; repeat
  %a# = getelementptr i32, ptr %p, i64 #
  %x# = load i32, ptr %a#, align 4
  %m# = mul i32 %s##, 3
  %y# = xor i32 %x#, %s##
  %s# = call i32 @llvm.smax.i32(i32 %m#, i32 %y#)
  %b# = getelementptr i32, ptr %q, i64 #
  store i32 %s#, ptr %b#, align 4
; end
  ret i32 %s#
}

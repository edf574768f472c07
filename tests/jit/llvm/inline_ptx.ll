; name: Inline PTX
; target: nvptx64-nvidia-cuda sm_80
; fault: has mov.u32 %r1, no such operand;
; seen: 19 fault, 22 fault
; around: src/jit/emit_matrix.c by_assembly, src/jit/module.c raise_version

define i32 @f() {
  %r = call i32 asm "mov.u32 $0, no such operand;", "=r"()
  ret i32 %r
}

; name: A processor that it does not know
; target: x86_64-unknown-linux-gnu no-such-processor
; fault: says is not a recognized processor
; fault: ends
; seen: 19 fault, 22 fault
; around: src/jit/module.c fill_in_host, tests/jit/rows.c one

define void @f() {
  ret void
}

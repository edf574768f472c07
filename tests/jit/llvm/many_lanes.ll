; name: Vectors of many lanes
; target: x86_64-unknown-linux-gnu x86-64-v3
; fault: ends
; seen: 19 fault, 22 fault
; around: src/lower/expand.c MAX_LANES

define void @f(ptr %p, i8 %x) {
  %a = insertelement <70000 x i8> poison, i8 %x, i32 0
  %b = shufflevector <70000 x i8> %a, <70000 x i8> poison, <70000 x i32> zeroinitializer
  store <70000 x i8> %b, ptr %p, align 1
  ret void
}

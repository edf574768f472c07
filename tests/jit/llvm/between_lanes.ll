; name: Places between lanes
; target: x86_64-unknown-linux-gnu x86-64-v4
; fault: ends
; seen: 19 fault, 22 fault
; around: src/jit/emit_steps.c spread

define <8 x float> @f(<16 x float> %v) {
  %s = shufflevector <16 x float> %v, <16 x float> poison, <16 x i32> <i32 8, i32 poison, i32 9, i32 poison,
                     i32 10, i32 poison, i32 11, i32 poison, i32 12, i32 poison, i32 13, i32 poison,
                     i32 14, i32 poison, i32 15, i32 poison>
  %t = shufflevector <16 x float> %s, <16 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3,
                     i32 4, i32 5, i32 6, i32 7>
  ret <8 x float> %t
}

/* SPDX-License-Identifier: MIT
 * Rows of block-quantised weights as f32. A block is some bytes that stand for 32 or 256 values (ggml-common.h has the
 * structures): scales of f16, and integers of 4, 6 or 8 bits. Each type is one text in the language, in which w[n,b,..]
 * are the bytes of a block and y[n,b,..] its values. */
#include <stdio.h>
#include "ggml/module.h"

#define HALF(AT) "f32(bitcast(f16, u16(w[n,b," AT "]) | u16(w[n,b," AT "+1]) << 8))"
#define LOW(AT) "(w[n,b," AT "] & 15)"
#define HIGH(AT) "(w[n,b," AT "] >> 4)"

static const char q8_0[] =
    "    let d = " HALF("0") ";\n"
    "    range(j, 32) y[n,b,j] = f32(bitcast(i8, w[n,b,2+j])) * d;\n";

static const char q4_0[] =
    "    let d = " HALF("0") ";\n"
    "    range(j, 16) y[n,b,j] = (f32(" LOW("2+j") ") - 8) * d;\n"
    "    range(j, 16) y[n,b,16+j] = (f32(" HIGH("2+j") ") - 8) * d;\n";

/* Eight groups of 32 with scales and least values of 6 bits: those of the first four groups in the low 6 bits of four
 * bytes each; of the others the low 4 bits are in four bytes more, and the high 2 bits above those of the first. */
static const char q4_k[] =
    "    let d = " HALF("0") ";\n"
    "    let e = " HALF("2") ";\n"
    "    range(g, 2) {\n"
    "      range(h, 2) {\n"
    "        let s = f32(w[n,b,4+2*g+h] & 63) * d;\n"
    "        let m = f32(w[n,b,8+2*g+h] & 63) * e;\n"
    "        range(j, 32) y[n,b,64*g+32*h+j] = f32((w[n,b,16+32*g+j] >> u8(4*h)) & 15) * s - m;\n"
    "      }\n"
    "    }\n"
    "    range(g, 2) {\n"
    "      range(h, 2) {\n"
    "        let s = f32((w[n,b,12+2*g+h] & 15) | ((w[n,b,4+2*g+h] >> 6) << 4)) * d;\n"
    "        let m = f32((w[n,b,12+2*g+h] >> 4) | ((w[n,b,8+2*g+h] >> 6) << 4)) * e;\n"
    "        range(j, 32) y[n,b,128+64*g+32*h+j] = f32((w[n,b,80+32*g+j] >> u8(4*h)) & 15) * s - m;\n"
    "      }\n"
    "    }\n";

/* Two halves of 128, each of four runs of 32: 4 low bits in nibbles, 2 high bits in a byte of four; a scale, a signed
 * byte, for every 16. */
static const char q6_k[] =
    "    let d = " HALF("208") ";\n"
    "    range(g, 2) range(h, 2) range(q, 2) range(s, 2) {\n"
    "      let r = f32(bitcast(i8, w[n,b,192+8*g+4*h+2*q+s])) * d;\n"
    "      range(j, 16) y[n,b,128*g+64*h+32*q+16*s+j] = (f32(((w[n,b,64*g+32*q+16*s+j] >> u8(4*h)) & 15) |\n"
    "          (((w[n,b,128+32*g+16*s+j] >> u8(4*h+2*q)) & 3) << 4)) - 32) * r;\n"
    "    }\n";

static const char *text_of(enum ggml_type t) {
  switch (t) {
    case GGML_TYPE_Q8_0: return q8_0;
    case GGML_TYPE_Q4_0: return q4_0;
    case GGML_TYPE_Q4_K: return q4_k;
    case GGML_TYPE_Q6_K: return q6_k;
    default: return NULL;
  }
}

bool tg_ggml_has_blocks(enum ggml_type t) { return text_of(t) != NULL; }

bool tg_ggml_unpack(tg_ggml_session *s, enum ggml_type t, const void *rows, size_t bytes, int64_t rows_n,
                    int64_t columns, float *out) {
  char text[2048];
  int64_t values = ggml_blck_size(t), blocks = columns / values;
  snprintf(text, sizeof text,
           "kernel unpack_%s(N in 1..2147483648, B in 1..16777216, L in 0..1099511627776) {\n"
           "  in(w, u8, [N, B, %zu], [L, %zu, 1]);\n"
           "  out(y, f32, [N, B, %lld]);\n"
           "  range(n, N) range(b, B) {\n%s  }\n}\n",
           ggml_type_name(t), ggml_type_size(t), ggml_type_size(t), (long long)values, text_of(t));
  tg_kernel *k = tg_ggml_kernel(text);
  if (!k) return false;
  tg_argument arguments[] = {
      {(void *)rows, (size_t)(rows_n - 1) * bytes + (size_t)blocks * ggml_type_size(t)},
      {out, (size_t)(rows_n * columns) * sizeof *out},
  };
  int64_t params[] = {rows_n, blocks, (int64_t)bytes};
  tg_launch launch = {.buffers = arguments, .buffers_n = 2, .params = params, .params_n = 3, .threads = s->threads};
  return !tg_kernel_run(k, &launch) || tg_ggml_failed("weights in blocks");
}

/* SPDX-License-Identifier: MIT
 * Weights packed ahead: a layout for all uses of one B, and the copy into it, [n / panel][k][panel]. The layout is the one of the widest use's tile; a single
 * row reads the same panels from end to end. */
#include <stdio.h>
#include "gemm/plan.h"
#include "gemm/sketch.h"

enum { WORD = 8 };   /* elements of four bits */

/* Of k elements of a column, in units of size bytes. */
static bool packed_bytes(int64_t n, int64_t k, int64_t panel, int64_t size, int64_t *bytes) {
  return !__builtin_mul_overflow((n + panel - 1) / panel * panel, k, bytes) && *bytes < ((int64_t)1 << 62) / size && (*bytes *= size, true);
}

static int64_t words(int64_t k) { return (k + WORD - 1) / WORD; }

bool tg_gemm_packing_valid(const tg_gemm_packing *p) {
  int64_t bytes;
  bool nibbles = p->format == TG_GEMM_NIBBLES;
  return (p->format == TG_GEMM_ELEMENTS || (nibbles && (p->type == TG_I8 || p->type == TG_U8))) && p->type < TG_INDEX && tg_type_bytes((tg_type)p->type) && p->panel && p->panel <= 1024 && p->n >= 0 && p->k >= 0 && p->n <= (int64_t)1 << 31 &&
         p->k <= (int64_t)1 << 31 && packed_bytes(p->n, nibbles ? words(p->k) : p->k, p->panel, nibbles ? 4 : tg_type_bytes((tg_type)p->type), &bytes) && (uint64_t)bytes == p->bytes;
}

tg_status tg_gemm_packing_choose_sized(tg_context *c, const tg_gemm_desc *uses, uint32_t uses_n, size_t desc_bytes, tg_gemm_packing *out) {
  char message[256];
  if (!c || !out) return TG_EINVAL;
  memset(out, 0, sizeof *out);
  if (!uses || !uses_n) return tg_context_fail(c, TG_EINVAL, "no use of the packing is given");
  tg_gemm_problem widest = {0};
  for (uint32_t i = 0; i < uses_n; i++) {
    tg_gemm_desc d = {0};
    memcpy(&d, (const char *)uses + i * desc_bytes, desc_bytes < sizeof d ? desc_bytes : sizeof d);
    d.packing = NULL;
    tg_gemm_problem p;
    tg_status s = tg_gemm_problem_of(c, &d, &p);
    if (s != TG_OK) return s;
    bool fixed = p.n.lo == p.n.hi && p.k.lo == p.k.hi;
    if (!fixed || p.c_major != TG_ROW_MAJOR || (i && (p.n.lo != widest.n.lo || p.k.lo != widest.k.lo || p.b != widest.b || p.bits != widest.bits))) {
      snprintf(message, sizeof message, "tg_gemm_packing_choose: use %u has %s", i, !fixed ? "a range for n or k" : p.c_major != TG_ROW_MAJOR ? "a C that is not row major" : "another n, k or type of b than the first");
      return tg_context_fail(c, TG_EINVAL, message);
    }
    if (!i || p.m.hi > widest.m.hi) widest = p;
  }
  tg_kit_choice choice;
  if (widest.m.hi < 64) widest.m.hi = widest.m.lo = 64;   /* a single row takes any panels; more rows may come */
  int64_t lanes = c->target.vector_bytes / (uint32_t)tg_type_bytes(widest.acc), bytes;
  tg_gemm_problem some = widest;   /* a B without elements is packed as one that has some */
  if (!some.n.hi) some.n.lo = some.n.hi = 1;
  if (!some.k.hi) some.k.lo = some.k.hi = 1;
  if (some.a == some.acc && some.b == some.acc) tg_gemm_choose_knobs(&some, &c->target, 1, &tg_gemm_panel, &choice);
  else tg_gemm_choose(&some, &c->target, 1, &choice);
  if (lanes > 16) lanes = 16;
  int64_t vectors = tg_kit_knob_of(&choice, "VL", 0) == lanes ? tg_kit_knob_of(&choice, "NU", 0) : 2;   /* whole ones, as many as a tile has: a narrow B alone may have another sketch */
  if (vectors < 1 || vectors > (c->target.vector_registers >= 32 ? 4 : 3)) vectors = 2;
  int64_t panel = (lanes ? lanes : 1) * (widest.bits ? 1 : vectors);   /* of few bits, a panel for each vector: several are read side by side */
  bool nibbles = widest.bits == 4;
  if (!packed_bytes(widest.n.lo, nibbles ? words(widest.k.lo) : widest.k.lo, panel, nibbles ? 4 : tg_type_bytes(widest.b), &bytes)) return tg_context_fail(c, TG_EINVAL, "tg_gemm_packing_choose: B is larger than 2^62 bytes");
  *out = (tg_gemm_packing){nibbles ? TG_GEMM_NIBBLES : TG_GEMM_ELEMENTS, (uint8_t)widest.b, (uint32_t)panel, widest.n.lo, widest.k.lo, (size_t)bytes};
  return TG_OK;
}

#define COPY(T)                                                                                                                \
  for (int64_t j = 0; j < p->n; j += panel) {                                                                                  \
    int64_t wide = p->n - j < panel ? p->n - j : panel;                                                                        \
    T *to = (T *)out + j * p->k;                                                                                               \
    for (int64_t k = 0; k < p->k; k++, to += panel) {                                                                          \
      const T *from = (const T *)b + k * down + j * right;                                                                     \
      for (int64_t v = 0; v < wide; v++) to[v] = from[v * right];                                                              \
      for (int64_t v = wide; v < panel; v++) to[v] = 0;                                                                        \
    }                                                                                                                          \
  }

/* Element e of b is in byte e / 2, in the low bits where e is even. */
static void pack_nibbles(const tg_gemm_packing *p, const uint8_t *b, int64_t down, int64_t right, uint32_t *to) {
  for (int64_t j = 0; j < p->n; j += p->panel)
    for (int64_t k = 0; k < p->k; k += WORD)
      for (int64_t v = j; v < j + p->panel; v++) {
        uint32_t word = 0;
        for (int64_t r = k; r < k + WORD && r < p->k && v < p->n; r++) {
          int64_t e = r * down + v * right;
          word |= (uint32_t)(b[e / 2] >> e % 2 * 4 & 15) << (r - k) * 4;
        }
        *to++ = word;
      }
}

tg_status tg_gemm_pack(const tg_gemm_packing *p, const void *b, const int64_t strides[2], void *out) {
  if (!p || !tg_gemm_packing_valid(p) || (p->bytes && (!b || !out))) return TG_EINVAL;
  bool dense = !strides || (!strides[0] && !strides[1]);
  bool nibbles = p->format == TG_GEMM_NIBBLES;
  int64_t down = !dense ? strides[0] : nibbles ? p->n + p->n % 2 : p->n, right = dense ? 1 : strides[1], panel = p->panel;
  if (down < 0 || right < 0) return TG_EINVAL;
  if (nibbles) return pack_nibbles(p, b, down, right, out), TG_OK;
  switch (tg_type_bytes((tg_type)p->type)) {
  case 1: COPY(uint8_t) break;
  case 2: COPY(uint16_t) break;
  case 4: COPY(uint32_t) break;
  default: COPY(uint64_t) break;
  }
  return TG_OK;
}

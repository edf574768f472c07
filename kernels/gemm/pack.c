/* SPDX-License-Identifier: MIT
 * Packing B before the calls: one layout [n / panel][k][panel] for all uses of a B, and the copy into it. A panel is as
 * wide as the tile of the use with the largest m; a product of one row reads the same panels sequentially. */
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "kit/pack.h"

bool tg_gemm_packing_valid(const tg_gemm_packing *p) {
  int64_t bytes;
  bool nibbles = p->format == TG_GEMM_NIBBLES;
  return (p->format == TG_GEMM_ELEMENTS || (nibbles && (p->type == TG_I8 || p->type == TG_U8))) && p->type < TG_INDEX &&
         tg_type_bytes(p->type) && p->panel && p->panel <= 1024 && p->n >= 0 && p->k >= 0 && p->n <= (int64_t)1 << 31 &&
         p->k <= (int64_t)1 << 31 &&
         tg_kit_packed_bytes(p->n, nibbles ? tg_kit_words(p->k) : p->k, p->panel, nibbles ? 4 : tg_type_bytes(p->type),
                             &bytes) &&
         (uint64_t)bytes == p->bytes;
}

/* A panel is a workgroup's tile of columns, if panels of that width have no padding; else, and for a quantised B, it is
 * as wide as a warp, whose lanes read one row of it together. */
static int64_t panel_of_warps(const tg_gemm_problem *widest, const tg_target *t) {
  int64_t panel = 4 * (int64_t)t->lanes;
  if (panel > 128) panel = 128;
  while (panel > (int64_t)t->lanes && (widest->bits || widest->n.lo % panel)) panel /= 2;
  return panel;
}

static int64_t panel_of_vectors(const tg_gemm_problem *widest, const tg_target *t) {
  tg_kit_choice choice;
  tg_gemm_problem some = *widest;   /* choose for sizes above 0 even if B has no elements */
  if (some.m.hi < 64) some.m.hi = some.m.lo = 64;   /* few rows are fast with panels of any width */
  if (!some.n.hi) some.n.lo = some.n.hi = 1;
  if (!some.k.hi) some.k.lo = some.k.hi = 1;
  int64_t lanes = t->vector_bytes / (uint32_t)tg_type_bytes(some.acc);
  if (some.a == some.acc && some.b == some.acc) tg_gemm_choose_knobs(&some, t, 1, &tg_gemm_panel, &choice);
  else tg_gemm_choose(&some, t, 1, &choice);
  if (lanes > 16) lanes = 16;
  /* vectors in a panel: those of the tile, if the choice has vectors of the target's full width */
  int64_t vectors = tg_kit_knob_of(&choice, "VL", 0) == lanes ? tg_kit_knob_of(&choice, "NU", 0) : 2;
  if (vectors < 1 || vectors > (t->vector_registers >= 32 ? 4 : 3)) vectors = 2;
  /* a quantised B has one vector in a panel, since gemm_grouped reads several panels at a time */
  return (lanes ? lanes : 1) * (some.bits ? 1 : vectors);
}

tg_status tg_gemm_packing_choose_sized(tg_context *c, const tg_gemm_desc *uses, uint32_t uses_n, size_t desc_bytes,
                                       tg_gemm_packing *out) {
  if (!c || !out) return TG_EINVAL;
  memset(out, 0, sizeof *out);
  if (!uses || !uses_n) return tg_context_fail(c, TG_EINVAL, "no use of the packing is given");
  tg_gemm_problem widest = {0};
  const tg_device *device = NULL;
  tg_target t;
  for (uint32_t i = 0; i < uses_n; i++) {
    tg_gemm_desc d;
    if (TG_READ(c, tg_gemm_desc, &d, (const char *)uses + i * desc_bytes, desc_bytes) != TG_OK) return TG_EINVAL;
    d.packing = NULL;
    const tg_device *its = d.device && !d.device->driver->immediate ? d.device : NULL;
    if (i && its != device)
      return tg_kit_fail(c, TG_EINVAL, "tg_gemm_packing_choose: use %u has another device than the first", i);
    device = its;
    tg_gemm_problem p;
    tg_status s = tg_gemm_problem_of(c, &d, &p);
    if (s != TG_OK) return s;
    bool fixed = p.n.lo == p.n.hi && p.k.lo == p.k.hi;
    if (!fixed || p.c_major != TG_ROW_MAJOR ||
        (i && (p.n.lo != widest.n.lo || p.k.lo != widest.k.lo || p.b != widest.b || p.bits != widest.bits))) {
      const char *what = !fixed                      ? "a range for n or k"
                         : p.c_major != TG_ROW_MAJOR ? "a C that is not row major"
                                                     : "another n, k or type of b than the first";
      return tg_kit_fail(c, TG_EINVAL, "tg_gemm_packing_choose: use %u has %s", i, what);
    }
    if (!i || p.m.hi > widest.m.hi) widest = p;
  }
  tg_gemm_target_of(c, device, &t);
  int64_t panel = tg_target_is_device(&t) ? panel_of_warps(&widest, &t) : panel_of_vectors(&widest, &t), bytes;
  bool nibbles = widest.bits == 4;
  if (!tg_kit_packed_bytes(widest.n.lo, nibbles ? tg_kit_words(widest.k.lo) : widest.k.lo, panel,
                           nibbles ? 4 : tg_type_bytes(widest.b), &bytes))
    return tg_context_fail(c, TG_EINVAL, "tg_gemm_packing_choose: B is larger than 2^62 bytes");
  *out = (tg_gemm_packing){nibbles ? TG_GEMM_NIBBLES : TG_GEMM_ELEMENTS,
                           (uint8_t)widest.b,
                           (uint32_t)panel,
                           widest.n.lo,
                           widest.k.lo,
                           (size_t)bytes};
  return TG_OK;
}

tg_status tg_gemm_pack(const tg_gemm_packing *p, const void *b, const int64_t strides[2], void *out) {
  if (!p || !tg_gemm_packing_valid(p) || (p->bytes && (!b || !out))) return TG_EINVAL;
  bool dense = !strides || (!strides[0] && !strides[1]);
  bool nibbles = p->format == TG_GEMM_NIBBLES;
  tg_kit_panels all = {.n = p->n,
                       .k = p->k,
                       .panel = p->panel,
                       .down = !dense    ? strides[0]
                               : nibbles ? p->n + p->n % 2
                                         : p->n,
                       .right = dense ? 1 : strides[1]};
  if (all.down < 0 || all.right < 0) return TG_EINVAL;
  if (nibbles) tg_kit_pack_nibbles(&all, b, out);
  else tg_kit_pack(&all, (uint32_t)tg_type_bytes(p->type), b, out);
  return TG_OK;
}

/* SPDX-License-Identifier: MIT
 * Words of machine code to an instruction (AMD's "RDNA3 / RDNA4 / CDNA2 / CDNA3 Instruction Set Architecture", "Microcode
 * Formats"). What is not in ops.def, and every field that would change a result and has no meaning here, is refused. */
#include <stdio.h>
#include <string.h>
#include "amd.h"

#define NONE (-1)
#define OP(operation, name, format, types, rdna3, rdna4, gfx90a, gfx942) \
  {AMD_##operation, name, AMD_##format, types, {rdna3, rdna4, gfx90a, gfx942}},
static const amd_row rows[] = {
#include "ops.def"
};
#undef OP
enum { ROWS = sizeof rows / sizeof *rows };

bool amd_family_of(const char *processor, amd_family *f) {
  static const struct { const char *name; amd_family family; } known[] = {
      {"gfx1100", AMD_RDNA3}, {"gfx1101", AMD_RDNA3}, {"gfx1102", AMD_RDNA3}, {"gfx1200", AMD_RDNA4}, {"gfx1201", AMD_RDNA4},
      {"gfx90a", AMD_GFX90A}, {"gfx942", AMD_GFX942}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (!strcmp(processor, known[k].name)) return *f = known[k].family, true;
  return false;
}

typedef struct {
  amd_family f;
  const uint32_t *word;
  uint32_t words, used;
  amd_instruction *i;
  char *message;
} decoder;

static bool rdna(amd_family f) { return f <= AMD_RDNA4; }

static const amd_row *find(amd_family f, amd_format format, uint32_t number) {
  for (size_t k = 0; k < ROWS; k++)
    if (rows[k].format == format && rows[k].number[f] != NONE) {
      uint32_t first = (uint32_t)rows[k].number[f];
      if (format == AMD_COMPARE ? number >= first && number < first + (rows[k].types[2] == 'f' || rows[k].types[2] == 'h' || rows[k].types[2] == 'd' ? 16 : 8) : number == first)
        return &rows[k];
    }
  return NULL;
}

static bool refuse(const decoder *d, const char *what) {
  snprintf(d->message, AMD_MESSAGE, "%s: %08x %08x", what, d->word[0], d->words > 1 ? d->word[1] : 0);
  return false;
}

static bool set_row(decoder *d, amd_format format, uint32_t number, const char *what) {
  static const char *const relation_of_float[] = {"f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "t"};
  static const char *const relation_of_int[] = {"f", "lt", "eq", "le", "gt", "ne", "ge", "t"};
  const amd_row *r = find(d->f, format, number);
  if (!r && format == AMD_VOPC) r = find(d->f, AMD_COMPARE, number);
  if (!r) {
    char text[64];
    snprintf(text, sizeof text, "unknown instruction, %s number 0x%x", what, number);
    return refuse(d, text);
  }
  d->i->row = r;
  d->i->operation = r->operation;
  snprintf(d->i->name, sizeof d->i->name, "%s", r->name);
  if (r->format == AMD_COMPARE) {
    const char *end = strrchr(r->name, '_');
    d->i->relation = (uint8_t)(number - (uint32_t)r->number[d->f]);
    const char *relation = (strchr("fhd", r->types[2]) ? relation_of_float : relation_of_int)[d->i->relation];
    snprintf(d->i->name, sizeof d->i->name, "%.*s_%s%s", (int)(end - r->name), r->name, relation, end);
  }
  return true;
}

/* The types of results and sources; codes of both are filled in by the formats. */
static void shape(amd_instruction *i) {
  const char *t = i->row->types;
  if (*t == '+') i->keep = 1, t++;
  for (; *t && *t != '='; t++) i->result[i->results++].type = *t;
  for (t += *t == '='; *t; t++) i->source[i->sources++].type = *t;
}

static bool literal(decoder *d) {
  if (d->used >= d->words) return refuse(d, "the code ends in an instruction");
  d->i->literal = d->word[d->used++];
  return true;
}
static bool constants(decoder *d) {
  bool has = false;
  for (uint32_t k = 0; k < d->i->sources; k++) {
    if (d->i->source[k].type == 'k') d->i->source[k].code = AMD_LITERAL;
    has |= d->i->source[k].code == AMD_LITERAL;
  }
  return !has || literal(d);
}

/* ---- scalar ---- */

static bool scalar(decoder *d) {
  amd_instruction *i = d->i;
  uint32_t w = d->word[0], top = w >> 23;
  d->used = 1;
  if (top == 0x17f) {
    if (!set_row(d, AMD_SOPP, w >> 16 & 127, "SOPP")) return false;
    i->offset = (int16_t)(w & 0xffff);
    return true;
  }
  if (top == 0x17d) {
    if (!set_row(d, AMD_SOP1, w >> 8 & 255, "SOP1")) return false;
    shape(i);
    i->result[0].code = w >> 16 & 127;
    i->source[0].code = w & 255;
    return i->sources ? constants(d) : true;
  }
  if (top == 0x17e) {
    if (!set_row(d, AMD_SOPC, w >> 16 & 127, "SOPC")) return false;
    shape(i);
    i->source[0].code = w & 255, i->source[1].code = w >> 8 & 255;
    return constants(d);
  }
  if (w >> 28 == 11) {
    if (!set_row(d, AMD_SOPK, w >> 23 & 31, "SOPK")) return false;
    shape(i);
    i->offset = (int16_t)(w & 0xffff);
    bool compares = !i->results && i->sources;
    i->literal = compares && strstr(i->name, "_u32") ? w & 0xffff : (uint32_t)(int32_t)(int16_t)(w & 0xffff);
    if (compares) i->source[0].code = w >> 16 & 127;
    else i->result[0].code = w >> 16 & 127;
    if (i->sources) i->source[i->sources - 1].code = AMD_LITERAL;
    return true;
  }
  if (!set_row(d, AMD_SOP2, w >> 23 & 127, "SOP2")) return false;
  shape(i);
  i->result[0].code = w >> 16 & 127;
  i->source[0].code = w & 255, i->source[1].code = w >> 8 & 255;
  if (i->sources == 3 && i->source[1].type == 'k') i->source[2].code = w >> 8 & 255;
  return constants(d);
}

static void memory_kind(amd_instruction *i) {
  const char *t = i->row->types;
  i->returns = *t == 'r';
  t += i->returns;
  i->two = *t == '2' || *t == '6';
  t += i->two;
  i->kind = *t;
  if (*t) {
    uint32_t n = 0;
    for (t++; *t >= '0' && *t <= '9'; t++) n = 10 * n + (uint32_t)(*t - '0');
    i->bytes = n;
  }
}

static bool scalar_load(decoder *d) {
  amd_instruction *i = d->i;
  uint32_t w = d->word[0], w1 = d->words > 1 ? d->word[1] : 0, number = d->f == AMD_RDNA4 ? w >> 13 & 63 : w >> 18 & 255;
  if (d->words < 2) return refuse(d, "the code ends in an instruction");
  d->used = 2;
  if (!set_row(d, AMD_SMEM, number, "SMEM")) return false;
  memory_kind(i);
  if (i->kind == 'b') i->bytes *= 4;
  i->results = 1, i->sources = 2;
  i->result[0].code = w >> 6 & 127;
  i->source[0].code = (w & 63) << 1;
  i->source[1].code = w1 >> 25;
  i->offset = d->f == AMD_RDNA4 ? (int32_t)(w1 << 8) >> 8 : (int32_t)(w1 << 11) >> 11;
  if (!rdna(d->f)) {
    bool immediate = w >> 17 & 1, both = w >> 14 & 1;
    if (!immediate) i->source[1].code = w1 & 127, i->offset = 0;
    else if (!both) i->source[1].code = AMD_NULL;
  }
  return true;
}

/* ---- vector ---- */

/* 16-bit operands of VOP1, VOP2 and VOPC: the highest bit of the register's number says which half (RDNA). */
static void halves(decoder *d, amd_operand *o) {
  bool small = o->type == 'h' || o->type == 'w';
  if (!small || !rdna(d->f) || o->code < AMD_V0 || o->code >= AMD_A0) return;
  o->high = o->code >> 7 & 1;
  o->code = (uint16_t)(AMD_V0 + (o->code & 127));
}

static bool dpp_word(decoder *d, uint32_t code) {
  amd_instruction *i = d->i;
  if (d->used >= d->words) return refuse(d, "the code ends in an instruction");
  uint32_t w = d->word[d->used++];
  i->source[0].code = (uint16_t)(AMD_V0 + (w & 255));
  if (code != 250) {
    i->dpp = DPP_8, i->dpp_control = w >> 8, i->dpp_inactive = code == 234;
    i->dpp_rows = i->dpp_banks = 15, i->dpp_bound = 1;
    return true;
  }
  i->dpp = DPP_16, i->dpp_control = w >> 8 & 511;
  i->dpp_inactive = w >> 18 & 1, i->dpp_bound = w >> 19 & 1, i->dpp_banks = w >> 24 & 15, i->dpp_rows = w >> 28;
  i->source[0].negate ^= w >> 20 & 1, i->source[0].absolute |= w >> 21 & 1;
  if (i->sources > 1) i->source[1].negate ^= w >> 22 & 1, i->source[1].absolute |= w >> 23 & 1;
  return true;
}

static bool sdwa_word(decoder *d, bool compares) {
  amd_instruction *i = d->i;
  if (d->used >= d->words) return refuse(d, "the code ends in an instruction");
  uint32_t w = d->word[d->used++];
  i->source[0].code = (uint16_t)((w >> 23 & 1 ? 0 : AMD_V0) + (w & 255));
  i->source[0].take = w >> 16 & 7, i->source[0].sign = w >> 19 & 1, i->source[0].negate = w >> 20 & 1, i->source[0].absolute = w >> 21 & 1;
  if (i->sources > 1) {
    if (w >> 31) i->source[1].code -= AMD_V0;
    i->source[1].take = w >> 24 & 7, i->source[1].sign = w >> 27 & 1, i->source[1].negate = w >> 28 & 1, i->source[1].absolute = w >> 29 & 1;
  }
  if (compares) {
    i->result[0].code = w >> 15 & 1 ? w >> 8 & 127 : AMD_VCC;
    return true;
  }
  i->result[0].take = w >> 8 & 7, i->result[0].sign = w >> 11 & 3;       /* sign: what the rest becomes: 0 zero, 1 sign, 2 kept */
  i->clamp = w >> 13 & 1, i->scale = w >> 14 & 3;
  return true;
}

static void whole(amd_instruction *i) {
  for (uint32_t k = 0; k < 2; k++) i->result[k].take = 6;
  for (uint32_t k = 0; k < 4; k++) i->source[k].take = 6;
}

static bool first_source(decoder *d, uint32_t code, bool compares) {
  d->i->source[0].code = (uint16_t)code;
  if (code == 250 || (rdna(d->f) && (code == 233 || code == 234))) return dpp_word(d, code);
  if (!rdna(d->f) && code == 249) return sdwa_word(d, compares);
  return true;
}

static bool vector_short(decoder *d) {
  amd_instruction *i = d->i;
  uint32_t w = d->word[0], kind = w >> 25;
  bool one = kind == 0x3f, compares = kind == 0x3e;
  d->used = 1;
  if (!set_row(d, one ? AMD_VOP1 : compares ? AMD_VOPC : AMD_VOP2, one ? w >> 9 & 255 : compares ? w >> 17 & 255 : w >> 25 & 63, one ? "VOP1" : compares ? "VOPC" : "VOP2")) return false;
  shape(i);
  whole(i);
  if (!one && i->sources > 1) {
    i->source[1].code = (uint16_t)(AMD_V0 + (w >> 9 & 255));
    if (i->source[1].type == 'k') i->source[2].code = i->source[1].code;
  }
  i->result[0].code = compares ? AMD_VCC : (uint16_t)(AMD_V0 + (w >> 17 & 255));
  if (i->operation == AMD_V_READFIRSTLANE) i->result[0].code = w >> 17 & 255;
  if (i->operation == AMD_ACC_MOV) i->result[0].code += AMD_A0 - AMD_V0;
  if (i->results > 1) i->result[1].code = AMD_VCC;
  if (i->sources == 3 && i->source[2].type == 'm') i->source[2].code = AMD_VCC;
  if (!i->sources) return true;
  if (!first_source(d, w & 511, compares)) return false;
  if (i->operation == AMD_ACC_MOV) i->source[0].code += AMD_A0 - AMD_V0;
  for (uint32_t k = 0; k < i->sources; k++) halves(d, &i->source[k]);
  if (!compares) halves(d, &i->result[0]);
  return constants(d);
}

static void modifiers(amd_instruction *i, uint32_t w0, uint32_t w1) {
  for (uint32_t k = 0; k < i->sources && k < 3; k++) {
    i->source[k].negate = w1 >> (29 + k) & 1, i->source[k].absolute = w0 >> (8 + k) & 1, i->source[k].high = w0 >> (11 + k) & 1;
    if (i->source[k].type != 'h' && i->source[k].type != 'w') i->source[k].high = 0;
  }
}

static bool vector_long(decoder *d) {
  amd_instruction *i = d->i;
  if (d->words < 2) return refuse(d, "the code ends in an instruction");
  uint32_t w = d->word[0], w1 = d->word[1], number = w >> 16 & 1023, ones = rdna(d->f) ? 0x180 : 0x140;
  bool compares = number < 0x100;
  d->used = 2;
  if (compares ? !set_row(d, AMD_VOPC, number, "VOP3 of VOPC") : false) return false;
  if (!compares) {
    const amd_row *r = find(d->f, AMD_VOP3, number);
    if (!r) r = find(d->f, AMD_VOP3B, number);
    if (!r && number >= ones && number < ones + 128) r = find(d->f, AMD_VOP1, number - ones);
    if (!r && number >= 0x100 && number < 0x140) r = find(d->f, AMD_VOP2, number - 0x100);
    if (!r) return set_row(d, AMD_VOP3, number, "VOP3");
    i->row = r, i->operation = r->operation;
    snprintf(i->name, sizeof i->name, "%s", r->name);
  }
  shape(i);
  whole(i);
  i->result[0].code = compares ? w & 255 : (uint16_t)(AMD_V0 + (w & 255));
  bool scalar_result = i->operation == AMD_V_READFIRSTLANE || i->operation == AMD_V_READLANE || !strncmp(i->name, "v_s_", 4);
  if (scalar_result) i->result[0].code = w & 255;
  bool carries = i->results > 1;
  if (carries) i->result[1].code = w >> 8 & 127;
  modifiers(i, w, w1);
  if (carries)
    for (uint32_t k = 0; k < i->sources; k++) i->source[k].absolute = i->source[k].high = 0;
  else if (!compares && (i->result[0].type == 'h' || i->result[0].type == 'w')) i->result[0].high = w >> 14 & 1;
  i->low_sources = w >> 11 & 7;         /* of v_permlane: fetch lanes that are off, as zero beyond */
  i->clamp = w >> 15 & 1, i->scale = w1 >> 27 & 3;
  if (i->sources > 1) i->source[1].code = w1 >> 9 & 511;
  if (i->sources > 2) i->source[2].code = w1 >> 18 & 511;
  if (!i->sources) return true;
  return first_source(d, w1 & 511, false) && constants(d);
}

static bool vector_packed(decoder *d) {
  amd_instruction *i = d->i;
  if (d->words < 2) return refuse(d, "the code ends in an instruction");
  uint32_t w = d->word[0], w1 = d->word[1], number = w >> 16 & 127;
  d->used = 2;
  bool product = find(d->f, AMD_MFMA, number) != NULL;
  if (!set_row(d, product ? AMD_MFMA : AMD_VOP3P, number, "VOP3P")) return false;
  bool matrix = product || *i->row->types == 'W';
  if (matrix) i->results = 1, i->sources = 3;
  else shape(i);
  whole(i);
  i->result[0].code = (uint16_t)(AMD_V0 + (w & 255));
  for (uint32_t k = 0; k < 3; k++) {
    i->source[k].code = w1 >> 9 * k & 511;
    i->source[k].negate = w1 >> (29 + k) & 1, i->source[k].negate_high = w >> (8 + k) & 1;
  }
  i->low_sources = w >> 11 & 7, i->high_sources = (uint8_t)((w1 >> 27 & 3) | (w >> 14 & 1) << 2), i->clamp = w >> 15 & 1;
  if (product) {
    if ((w >> 8 & 127) || w1 >> 29) return refuse(d, "an MFMA with broadcasts or permutations");
    if (w >> 15 & 1) i->result[0].code += AMD_A0 - AMD_V0, i->source[2].code += i->source[2].code >= AMD_V0 ? AMD_A0 - AMD_V0 : 0;
    for (uint32_t k = 0; k < 2; k++)
      if (w1 >> (27 + k) & 1) i->source[k].code += AMD_A0 - AMD_V0;
    i->clamp = 0;
  }
  if (i->operation == AMD_ACC_WRITE) i->result[0].code += AMD_A0 - AMD_V0;
  if (i->operation == AMD_ACC_READ) i->source[0].code += AMD_A0 - AMD_V0;
  if (i->source[0].code == 250 || i->source[0].code == 233 || i->source[0].code == 234) return first_source(d, i->source[0].code, false);
  return constants(d);
}

static bool vector_dual(decoder *d, amd_instruction *second) {
  amd_instruction *i = d->i;
  if (d->words < 2) return refuse(d, "the code ends in an instruction");
  uint32_t w = d->word[0], w1 = d->word[1];
  d->used = 2;
  if (!set_row(d, AMD_VOPD, w >> 22 & 15, "VOPD, first")) return false;
  decoder e = *d;
  memset(second, 0, sizeof *second);
  e.i = second;
  if (!set_row(&e, AMD_VOPD, w >> 17 & 31, "VOPD, second")) return false;
  i->second = second;
  for (int k = 0; k < 2; k++) {
    amd_instruction *x = k ? second : i;
    uint32_t v = k ? w1 : w;
    shape(x);
    whole(x);
    x->source[0].code = v & 511;
    if (x->sources > 1) x->source[1].code = (uint16_t)(AMD_V0 + (v >> 9 & 255));
    if (x->sources == 3 && x->source[1].type == 'k') x->source[2].code = x->source[1].code;
    if (x->sources == 3 && x->source[2].type == 'm') x->source[2].code = AMD_VCC;
    x->result[0].code = (uint16_t)(AMD_V0 + (k ? (w1 >> 17 & 127) << 1 | !(w1 >> 24 & 1) : w1 >> 24));
  }
  if (!constants(d)) return false;      /* one constant serves both */
  if (d->used == 3) {
    second->literal = i->literal;
    for (uint32_t k = 0; k < second->sources; k++)
      if (second->source[k].type == 'k') second->source[k].code = AMD_LITERAL;
    return true;
  }
  e.used = d->used;
  bool ok = constants(&e);
  d->used = e.used;
  return ok;
}

/* ---- memory ---- */

static bool local(decoder *d) {
  amd_instruction *i = d->i;
  if (d->words < 2) return refuse(d, "the code ends in an instruction");
  uint32_t w = d->word[0], w1 = d->word[1], a = rdna(d->f) ? 0 : w >> 25 & 1, v = a ? AMD_A0 : AMD_V0;
  d->used = 2;
  if (!set_row(d, AMD_DS, rdna(d->f) ? w >> 18 & 255 : w >> 17 & 255, "DS")) return false;
  if (w >> (rdna(d->f) ? 17 : 16) & 1) return refuse(d, "GDS");
  memory_kind(i);
  i->result[0].code = (uint16_t)(v + (w1 >> 24)), i->source[0].code = (uint16_t)(AMD_V0 + (w1 & 255));
  i->source[1].code = (uint16_t)(v + (w1 >> 8 & 255)), i->source[2].code = (uint16_t)(v + (w1 >> 16 & 255));
  uint32_t step = i->bytes * (i->row->types[0] == '6' ? 64 : 1);
  i->offset = i->two ? (w & 255) * step : w & 0xffff;
  i->offset2 = (w >> 8 & 255) * step;
  return true;
}

static bool global(decoder *d) {
  amd_instruction *i = d->i;
  uint32_t need = d->f == AMD_RDNA4 ? 3 : 2;
  if (d->words < need) return refuse(d, "the code ends in an instruction");
  uint32_t w = d->word[0], w1 = d->word[1], v = AMD_V0, space, number, saddr;
  d->used = need;
  if (d->f == AMD_RDNA4) {
    space = w >> 24 & 3, number = w >> 14 & 255, saddr = w & 127;
    i->result[0].code = (uint16_t)(v + (w1 & 255)), i->source[1].code = (uint16_t)(v + (w1 >> 23 & 255));
    i->source[0].code = (uint16_t)(v + (d->word[2] & 255)), i->offset = (int32_t)d->word[2] >> 8;
    i->returns = w1 >> 20 & 1;
  } else {
    space = rdna(d->f) ? w >> 16 & 3 : w >> 14 & 3, number = w >> 18 & 127, saddr = w1 >> 16 & 127;
    if (!rdna(d->f) && w1 >> 23 & 1) v = AMD_A0;
    i->result[0].code = (uint16_t)(v + (w1 >> 24)), i->source[1].code = (uint16_t)(v + (w1 >> 8 & 255));
    i->source[0].code = (uint16_t)(AMD_V0 + (w1 & 255)), i->offset = (int32_t)(w << 19) >> 19;
    i->returns = rdna(d->f) ? w >> 14 & 1 : w >> 16 & 1;
  }
  if (space != 2) return refuse(d, space == 1 ? "scratch memory" : "flat addresses");
  if (!set_row(d, AMD_GLOBAL, number, "GLOBAL")) return false;
  bool returns = i->returns;
  memory_kind(i);
  i->returns = returns;
  bool off = saddr == AMD_NULL || (!rdna(d->f) && saddr == 127);
  i->source[2].code = off ? AMD_NULL : (uint16_t)saddr;
  return true;
}

bool amd_decode(amd_family f, const uint32_t *word, uint32_t words, amd_instruction *i, amd_instruction *second, char message[AMD_MESSAGE]) {
  decoder d = {.f = f, .word = word, .words = words, .i = i, .message = message};
  uint32_t top = words ? word[0] >> 26 : 0;
  bool ok;
  memset(i, 0, sizeof *i);
  if (!words) return snprintf(message, AMD_MESSAGE, "the code ends"), false;
  if (!(word[0] >> 31)) ok = vector_short(&d);
  else if (word[0] >> 30 == 2) ok = scalar(&d);
  else if (top == (rdna(f) ? 0x3du : 0x30u)) ok = scalar_load(&d);
  else if (rdna(f) ? word[0] >> 24 == 0xcc : word[0] >> 23 == 0x1a7) ok = vector_packed(&d);
  else if (top == (rdna(f) ? 0x35u : 0x34u)) ok = vector_long(&d);
  else if (top == 0x32 && rdna(f)) ok = vector_dual(&d, second);
  else if (top == 0x36) ok = local(&d);
  else if (f == AMD_RDNA4 ? top == 0x3b : top == 0x37) ok = global(&d);
  else if (top == 0x38) d.used = 2, ok = set_row(&d, AMD_MUBUF, f == AMD_RDNA3 ? word[0] >> 18 & 255 : word[0] >> 18 & 127, "MUBUF");
  else return refuse(&d, "unknown format");
  i->words = (uint8_t)d.used;
  return ok;
}

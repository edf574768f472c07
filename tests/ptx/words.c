/* SPDX-License-Identifier: MIT
 * The words of a mnemonic: what each says, and that the instruction may have it. */
#include <string.h>
#include "parse.h"

typedef struct { const char *name; uint8_t field, value; } word;

static const word words[] = {
  {"rn", FIELD_ROUND, ROUND_RN}, {"rz", FIELD_ROUND, ROUND_RZ}, {"rm", FIELD_ROUND, ROUND_RM}, {"rp", FIELD_ROUND, ROUND_RP},
  {"rni", FIELD_ROUND, ROUND_RNI}, {"rzi", FIELD_ROUND, ROUND_RZI}, {"rmi", FIELD_ROUND, ROUND_RMI}, {"rpi", FIELD_ROUND, ROUND_RPI},
  {"NaN", FIELD_NAN, 1}, {"sat", FIELD_SAT, 1}, {"relu", FIELD_RELU, 1}, {"ftz", FIELD_FTZ, 1}, {"approx", FIELD_APPROX, 1},
  {"lo", FIELD_PART, PART_LO}, {"hi", FIELD_PART, PART_HI}, {"wide", FIELD_PART, PART_WIDE},
  {"lt", FIELD_COMPARE, COMPARE_LT}, {"le", FIELD_COMPARE, COMPARE_LE}, {"gt", FIELD_COMPARE, COMPARE_GT}, {"ge", FIELD_COMPARE, COMPARE_GE},
  {"eq", FIELD_COMPARE, COMPARE_EQ}, {"ne", FIELD_COMPARE, COMPARE_NE}, {"ltu", FIELD_COMPARE, COMPARE_LTU}, {"leu", FIELD_COMPARE, COMPARE_LEU},
  {"gtu", FIELD_COMPARE, COMPARE_GTU}, {"geu", FIELD_COMPARE, COMPARE_GEU}, {"equ", FIELD_COMPARE, COMPARE_EQU}, {"neu", FIELD_COMPARE, COMPARE_NEU},
  {"num", FIELD_COMPARE, COMPARE_NUM}, {"nan", FIELD_COMPARE, COMPARE_NAN},
  {"global", FIELD_SPACE, SPACE_GLOBAL}, {"shared", FIELD_SPACE, SPACE_SHARED}, {"param", FIELD_SPACE, SPACE_PARAM},
  {"v2", FIELD_VECTOR, 2}, {"v4", FIELD_VECTOR, 4}, {"x1", FIELD_COUNT, 1}, {"x2", FIELD_COUNT, 2}, {"x4", FIELD_COUNT, 4}, {"trans", FIELD_TRANS, 1},
  {"m16n8k4", FIELD_SHAPE, SHAPE_M16N8K4}, {"m16n8k8", FIELD_SHAPE, SHAPE_M16N8K8}, {"m16n8k16", FIELD_SHAPE, SHAPE_M16N8K16},
  {"m16n8k32", FIELD_SHAPE, SHAPE_M16N8K32}, {"m8n8", FIELD_SHAPE, SHAPE_M8N8}, {"row", FIELD_PLAIN, 0}, {"col", FIELD_PLAIN, 0},
  {"bfly", FIELD_HOW, HOW_BFLY}, {"idx", FIELD_HOW, HOW_IDX}, {"up", FIELD_HOW, HOW_UP}, {"down", FIELD_HOW, HOW_DOWN},
  {"ballot", FIELD_HOW, HOW_BALLOT}, {"any", FIELD_HOW, HOW_ANY}, {"all", FIELD_HOW, HOW_ALL}, {"add", FIELD_HOW, HOW_ADD},
  {"min", FIELD_HOW, HOW_MIN}, {"max", FIELD_HOW, HOW_MAX}, {"exch", FIELD_HOW, HOW_EXCH}, {"cas", FIELD_HOW, HOW_CAS},
  {"and", FIELD_HOW, HOW_AND}, {"or", FIELD_HOW, HOW_OR}, {"xor", FIELD_HOW, HOW_XOR}, {"commit_group", FIELD_HOW, HOW_COMMIT},
  {"wait_group", FIELD_HOW, HOW_WAIT}, {"wait_all", FIELD_HOW, HOW_WAIT_ALL}, {"warp", FIELD_HOW, HOW_WARP}, {"f4e", FIELD_HOW, HOW_F4E},
  {"l", FIELD_SIDE, 1}, {"r", FIELD_SIDE, 2}, {"wrap", FIELD_WRAP, WRAP_WRAP}, {"clamp", FIELD_WRAP, WRAP_CLAMP},
  {"sync", FIELD_PLAIN, 0}, {"aligned", FIELD_PLAIN, 0}, {"uni", FIELD_PLAIN, 0}, {"nc", FIELD_PLAIN, 0}, {"ca", FIELD_PLAIN, 0}, {"cg", FIELD_PLAIN, 0},
  {"async", FIELD_PLAIN, 0}, {"to", FIELD_PLAIN, 0}, {"relaxed", FIELD_PLAIN, 0}, {"gpu", FIELD_PLAIN, 0},
};

#define PTX_OP(name, head, words) {head, words},
static const struct { const char *head, *words; } ops[] = {
#include "ops.def"
};
#undef PTX_OP

static const struct { const char *name; uint8_t bits; } types[PTX_TYPES] = {
  [PTX_PRED] = {"pred", 1}, [PTX_B8] = {"b8", 8}, [PTX_B16] = {"b16", 16}, [PTX_B32] = {"b32", 32}, [PTX_B64] = {"b64", 64},
  [PTX_U8] = {"u8", 8}, [PTX_U16] = {"u16", 16}, [PTX_U32] = {"u32", 32}, [PTX_U64] = {"u64", 64},
  [PTX_S8] = {"s8", 8}, [PTX_S16] = {"s16", 16}, [PTX_S32] = {"s32", 32}, [PTX_S64] = {"s64", 64},
  [PTX_U16X2] = {"u16x2", 32}, [PTX_S16X2] = {"s16x2", 32}, [PTX_F16] = {"f16", 16}, [PTX_F16X2] = {"f16x2", 32}, [PTX_BF16] = {"bf16", 16}, [PTX_BF16X2] = {"bf16x2", 32},
  [PTX_TF32] = {"tf32", 32}, [PTX_E4M3] = {"e4m3", 8}, [PTX_E5M2] = {"e5m2", 8}, [PTX_F32] = {"f32", 32}, [PTX_F64] = {"f64", 64},
};
const uint8_t ptx_bits[PTX_TYPES] = {1, 8, 16, 32, 64, 8, 16, 32, 64, 8, 16, 32, 64, 32, 32, 16, 32, 16, 32, 32, 8, 8, 32, 64};

static bool same(const char *a, const char *b, size_t n) { return strlen(a) == n && !memcmp(a, b, n); }

bool ptx_type_named(const char *name, size_t n, uint8_t *type) {
  for (uint8_t t = 0; t < PTX_TYPES; t++)
    if (same(types[t].name, name, n)) {
      *type = t;
      return true;
    }
  return false;
}

static bool may_have(const char *list, const char *name, size_t n) {
  for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
    if (strcspn(at, " ") == n && !memcmp(at, name, n)) return true;
  return false;
}

static bool set_word(ptx_instruction *i, const char *name, size_t n) {
  const char *list = ops[i->op].words;
  if (!may_have(list, name, n)) return false;
  for (size_t w = 0; w < sizeof words / sizeof *words; w++)
    if (same(words[w].name, name, n)) {
      if (words[w].field) i->field[words[w].field] = words[w].value;
      return true;
    }
  return false;
}

void ptx_mnemonic(ptx_lexer *x, ptx_instruction *i) {
  const char *at = x->token, *end = x->token + x->n;
  size_t n = 0;
  while (at + n < end && at[n] != '.') n++;
  i->op = 0;
  while (i->op < PTX_OPS && !same(ops[i->op].head, at, n)) i->op++;
  if (i->op == PTX_OPS) ptx_refuse(x, "unknown instruction '%.*s'", (int)x->n, x->token);
  for (at += n; at < end; at += n) {
    at++;
    n = 0;
    while (at + n < end && at[n] != '.') n++;
    if (i->types < 4 && ptx_type_named(at, n, &i->type[i->types])) i->types++;
    else if (!set_word(i, at, n)) ptx_refuse(x, "unknown instruction '%.*s': '.%.*s'", (int)x->n, x->token, (int)n, at);
  }
}

/* SPDX-License-Identifier: MIT
 * Evaluates the shape of a GPU launch from the words kept beside the object. Format, one 64-bit word each: length,
 * threads, LOCAL bytes, number of ranges, number of nodes; for each range its grid dimension and the node of its
 * extent; then the nodes in order: a head (code | type << 8 | operands' type << 16), then an argument or the operands.
 * Words from a file are not trusted. */
#include "dsl/value.h"
#include "code/code.h"

static const uint8_t ops[] = {/* the place in this list is the code: append only */
                              TG_OP_CONST, TG_OP_PARAM, TG_OP_CAST, TG_OP_ADD,   TG_OP_SUB, TG_OP_MUL, TG_OP_NEG,
                              TG_OP_IDIV,  TG_OP_MOD,   TG_OP_CDIV, TG_OP_CMOD,  TG_OP_MAX, TG_OP_MIN, TG_OP_FMA,
                              TG_OP_AND,   TG_OP_OR,    TG_OP_XOR,  TG_OP_NOT,   TG_OP_SHL, TG_OP_SHR, TG_OP_LT,
                              TG_OP_LE,    TG_OP_EQ,    TG_OP_NE,   TG_OP_WHERE, TG_OP_ABS};

int tg_grid_code(tg_op op) {
  for (uint32_t i = 0; i < TG_COUNT(ops); i++)
    if (ops[i] == op) return (int)i;
  return -1;
}

tg_op tg_grid_op(int64_t code) {
  return code >= 0 && code < (int64_t)TG_COUNT(ops) ? (tg_op)ops[code] : TG_OP__COUNT;
}

typedef struct { const int64_t *at, *end; } reader;

static bool take(reader *r, int64_t *v) {
  if (r->at >= r->end) return false;
  *v = *r->at++;
  return true;
}

static bool integer(int64_t t) { return t == TG_BOOL || (t >= TG_I8 && t <= TG_U64) || t == TG_INDEX; }

static bool read_node(reader *r, const tg_code_info *info, const int64_t *params, tg_value *values, int64_t n) {
  int64_t head, arg;
  if (!take(r, &head) || head < 0 || (head & 255) >= (int64_t)TG_COUNT(ops) || !integer(head >> 8 & 255)) return false;
  tg_op op = tg_grid_op(head & 255);
  tg_type type = (tg_type)(head >> 8 & 255), from = (tg_type)(head >> 16 & 255);
  if (op == TG_OP_CONST || op == TG_OP_PARAM) {
    if (!take(r, &arg) || (op == TG_OP_PARAM && (arg < 0 || arg >= info->params))) return false;
    values[n].i = tg_wrap(type, op == TG_OP_CONST ? arg : params[arg]);
    return true;
  }
  tg_value operand[3] = {{.i = 0}, {.i = 0}, {.i = 0}};
  for (int i = 0; i < tg_ops[op].arity; i++) {
    if (!take(r, &arg) || arg < 0 || arg >= n) return false;
    operand[i] = values[arg];
  }
  if (!integer(from)) return false;
  return op == TG_OP_CAST ? tg_convert(type, from, operand[0], &values[n])
                          : tg_evaluate(op, type, from, operand, &values[n]);
}

bool tg_grid_of(const tg_code_info *info, uint32_t phase, const int64_t *params, tg_grid *out) {
  reader r = {info->launch, info->launch ? info->launch + info->launch_n : NULL};
  int64_t words, threads, local, ranges, nodes, dim, node;
  tg_value values[TG_GRID_NODES];
  if (phase >= info->phases) return false;
  for (uint32_t p = 0; p < phase; p++) {
    if (r.at >= r.end || *r.at < 5 || *r.at > r.end - r.at) return false;
    r.at += *r.at;
  }
  if (r.at >= r.end || *r.at < 5 || *r.at > r.end - r.at) return false;
  r.end = r.at + *r.at;
  if (!take(&r, &words) || !take(&r, &threads) || !take(&r, &local) || !take(&r, &ranges) || !take(&r, &nodes))
    return false;
  if (threads < 1 || threads > 1 << 16 || local < 0 || local > 1 << 30 || nodes < 0 || nodes > TG_GRID_NODES ||
      ranges < 0 || ranges > (r.end - r.at) / 2)
    return false;
  const int64_t *list = r.at;
  r.at += 2 * ranges;
  for (int64_t i = 0; i < nodes; i++)
    if (!read_node(&r, info, params, values, i)) return false;
  *out = (tg_grid){.groups = {1, 1, 1}, .threads = (uint32_t)threads, .local = (uint64_t)local};
  for (int64_t i = 0; i < ranges; i++) {
    dim = list[2 * i], node = list[2 * i + 1];
    if (dim < 0 || dim > 2 || node < 0 || node >= nodes) return false;
    tg_i128 extent = values[node].i < 0 ? 0 : values[node].i;
    if (extent > INT32_MAX || out->groups[dim] * extent > INT32_MAX) return false;
    out->groups[dim] = (int64_t)(out->groups[dim] * extent);
  }
  return true;
}

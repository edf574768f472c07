/* SPDX-License-Identifier: MIT
 * A module of PTX to decoded kernels. Registers become rows of a table (run.c has one for each warp), constants rows of
 * another; labels become indices of instructions. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parse.h"

/* Registers whose names are a prefix and a number below n; n 0: one, whose name is the prefix. */
typedef struct { char prefix[16]; uint32_t first, n; } registers;
typedef struct { char name[32]; uint32_t at, line; } label;
typedef struct { char name[96]; uint64_t address; } symbol;
enum { MOST_BANKS = 16, MOST_SYMBOLS = 16 };

typedef struct {
  ptx_lexer x;
  ptx_module *m;
  ptx_kernel *k;
  registers bank[MOST_BANKS];
  symbol symbol[MOST_SYMBOLS];
  label *label;
  char (*wanted)[32];                   /* by instruction: the label that it branches to */
  uint32_t banks, symbols, labels, room_labels, room_instructions, room_values, room_constants;
  uint64_t local;                       /* where the next array of LOCAL lies */
} parser;

/* Room for one more in an array that doubles. */
static void *grown(void *array, uint32_t n, uint32_t *room, size_t each) {
  if (n < *room) return array;
  uint32_t before = *room;
  *room = before ? 2 * before : 64;
  array = realloc(array, *room * each);
  memset((char *)array + before * each, 0, (*room - before) * each);
  return array;
}

/* ---- what is declared ---- */

static uint64_t number(parser *p) {
  uint64_t v;
  if (!ptx_number(&p->x, &v)) ptx_refuse(&p->x, "'%.*s' is no number", (int)p->x.n, p->x.token);
  return v;
}

/* [.extern] .shared .align N .b8 name[bytes]; an extern array has the rest of LOCAL. */
static void shared_array(parser *p) {
  ptx_lexer *x = &p->x;
  uint64_t align = 1;
  uint8_t type;
  ptx_expect(x, ".shared");
  if (ptx_take(x, ".align")) align = number(p);
  if (x->n < 2 || !ptx_type_named(x->token + 1, x->n - 1, &type)) ptx_refuse(x, "'%.*s' is no type", (int)x->n, x->token);
  ptx_next(x);
  if (p->symbols == MOST_SYMBOLS) ptx_refuse(x, "too many arrays");
  symbol *s = &p->symbol[p->symbols++];
  ptx_copy(x, s->name, sizeof s->name);
  ptx_next(x);
  ptx_expect(x, "[");
  p->local = (p->local + align - 1) / align * align;
  s->address = PTX_LOCAL_BASE + p->local;
  if (!ptx_is(x, "]")) p->local += number(p) * ptx_bits[type] / 8;
  ptx_expect(x, "]");
  ptx_expect(x, ";");
}

static void params(parser *p) {
  ptx_lexer *x = &p->x;
  ptx_expect(x, "(");
  while (!ptx_take(x, ")")) {
    uint8_t type;
    ptx_expect(x, ".param");
    if (x->n < 2 || !ptx_type_named(x->token + 1, x->n - 1, &type)) ptx_refuse(x, "'%.*s' is no type", (int)x->n, x->token);
    ptx_next(x);
    while (ptx_take(x, ".ptr") || ptx_take(x, ".global") || ptx_take(x, ".shared") || ptx_is(x, ".align"))
      if (ptx_take(x, ".align")) number(p);
    if (p->k->params == sizeof p->k->param / sizeof *p->k->param) ptx_refuse(x, "too many parameters");
    ptx_param *a = &p->k->param[p->k->params++];
    ptx_copy(x, a->name, sizeof a->name);
    a->bytes = ptx_bits[type] / 8;
    ptx_next(x);
    ptx_take(x, ",");
  }
}

/* .reg .b32 %r<110>; or, within braces of its own, .reg .b32 name; */
static void declare(parser *p) {
  ptx_lexer *x = &p->x;
  ptx_expect(x, ".reg");
  ptx_next(x);
  if (p->banks == MOST_BANKS) ptx_refuse(x, "too many kinds of registers");
  registers *b = &p->bank[p->banks++];
  ptx_copy(x, b->prefix, sizeof b->prefix);
  ptx_next(x);
  b->first = p->k->rows;
  b->n = 0;
  if (ptx_take(x, "<")) {
    b->n = (uint32_t)number(p);
    ptx_expect(x, ">");
  }
  p->k->rows += b->n ? b->n : 1;
  ptx_expect(x, ";");
}

/* ---- operands ---- */

static int32_t constant_row(parser *p, uint64_t bits) {
  ptx_kernel *k = p->k;
  for (uint32_t i = k->constants; i-- > 0 && i + 64 > k->constants;)
    if (k->constant[i] == bits) return ~(int32_t)i;
  k->constant = grown(k->constant, k->constants, &p->room_constants, sizeof *k->constant);
  k->constant[k->constants] = bits;
  return ~(int32_t)k->constants++;
}

static int32_t special_row(const ptx_lexer *x) {
  static const struct { const char *name; int32_t row; } names[] = {{"%tid", ROW_TID}, {"%ntid", ROW_NTID}, {"%ctaid", ROW_CTAID}, {"%nctaid", ROW_NCTAID}};
  if (ptx_is(x, "_")) return ROW_NOWHERE;
  if (ptx_is(x, "%laneid")) return ROW_LANEID;
  if (ptx_is(x, "%warpid")) return ROW_WARPID;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t n = strlen(names[i].name);
    if (x->n == n + 2 && !memcmp(x->token, names[i].name, n) && x->token[n] == '.' && x->token[n + 1] >= 'x' && x->token[n + 1] <= 'z')
      return names[i].row + (x->token[n + 1] - 'x');
  }
  return -1;
}

/* A register, a number, or the name of an array or a parameter (its ordinal). */
static int32_t value_row(parser *p) {
  ptx_lexer *x = &p->x;
  uint64_t bits;
  for (uint32_t b = p->banks; b-- > 0;)
    if (!p->bank[b].n && ptx_is(x, p->bank[b].prefix)) {
      ptx_next(x);
      return (int32_t)p->bank[b].first;
    }
  if (ptx_is(x, "_") || (x->n && x->token[0] == '%')) {
    int32_t row = special_row(x);
    uint32_t digits = x->n;
    while (digits > 1 && x->token[digits - 1] >= '0' && x->token[digits - 1] <= '9') digits--;
    for (uint32_t b = 0; row < 0 && b < p->banks; b++)
      if (strlen(p->bank[b].prefix) == digits && !memcmp(p->bank[b].prefix, x->token, digits) && digits < x->n) {
        uint32_t n = (uint32_t)strtoul(x->token + digits, NULL, 10);
        if (n < p->bank[b].n) row = (int32_t)(p->bank[b].first + n);
      }
    if (row < 0) ptx_refuse(x, "no register '%.*s'", (int)x->n, x->token);
    ptx_next(x);
    return row;
  }
  if (ptx_number(x, &bits)) return constant_row(p, bits);
  for (uint32_t s = 0; s < p->symbols; s++)
    if (ptx_is(x, p->symbol[s].name)) {
      ptx_next(x);
      return constant_row(p, p->symbol[s].address);
    }
  for (uint32_t a = 0; a < p->k->params; a++)
    if (ptx_is(x, p->k->param[a].name)) {
      ptx_next(x);
      return constant_row(p, a);
    }
  ptx_refuse(x, "unknown operand '%.*s'", (int)x->n, x->token);
}

static void put_value(parser *p, ptx_operand *o) {
  ptx_kernel *k = p->k;
  int32_t row = value_row(p);
  k->value = grown(k->value, k->values, &p->room_values, sizeof *k->value);
  k->value[k->values++] = row;
  o->n++;
}

static void operand(parser *p, ptx_operand *o) {
  ptx_lexer *x = &p->x;
  *o = (ptx_operand){.first = p->k->values};
  if (ptx_take(x, "{")) {
    do put_value(p, o);
    while (ptx_take(x, ","));
    ptx_expect(x, "}");
  } else if (ptx_take(x, "[")) {
    o->address = true;
    put_value(p, o);
    bool minus = ptx_is(x, "-");
    if (ptx_take(x, "+") || ptx_take(x, "-")) o->offset = minus ? -(int64_t)number(p) : (int64_t)number(p);
    else if (x->n > 1 && x->token[0] == '-') o->offset = (int64_t)number(p);
    ptx_expect(x, "]");
  } else {
    put_value(p, o);
    if (ptx_take(x, "|")) put_value(p, o);
  }
}

/* ---- instructions ---- */

static void narrowest(ptx_kernel *k, const ptx_instruction *i) {
  uint32_t space = i->field[FIELD_SPACE], bytes = i->types ? ptx_bytes(i->type[0]) : 0;
  if (i->op == PTX_CP && !i->field[FIELD_HOW]) {
    for (int s = SPACE_GLOBAL; s <= SPACE_SHARED; s++)
      if (k->granule[s] > 4) k->granule[s] = 4;
  } else if (i->op == PTX_LD || i->op == PTX_ST || i->op == PTX_ATOM || i->op == PTX_RED) {
    if ((space == SPACE_GLOBAL || space == SPACE_SHARED) && bytes && k->granule[space] > bytes) k->granule[space] = bytes;
  }
}

static void instruction(parser *p) {
  ptx_lexer *x = &p->x;
  ptx_kernel *k = p->k;
  uint32_t before = p->room_instructions;
  k->instruction = grown(k->instruction, k->instructions, &p->room_instructions, sizeof *k->instruction);
  if (before != p->room_instructions) {
    p->wanted = realloc(p->wanted, p->room_instructions * sizeof *p->wanted);
    memset(p->wanted + before, 0, (p->room_instructions - before) * sizeof *p->wanted);
  }
  ptx_instruction *i = &k->instruction[k->instructions];
  i->guard = -1;
  i->line = x->line;
  if (ptx_take(x, "@")) {
    i->negated = ptx_take(x, "!");
    i->guard = value_row(p);
  }
  i->mnemonic = x->token;
  ptx_mnemonic(x, i);
  ptx_next(x);
  if (i->op == PTX_BRA) {
    ptx_copy(x, p->wanted[k->instructions], sizeof *p->wanted);
    ptx_next(x);
  }
  while (i->op != PTX_BRA && !ptx_is(x, ";")) {
    if (i->operands == PTX_OPERANDS) ptx_refuse(x, "more operands than an instruction has");
    operand(p, &i->operand[i->operands++]);
    if (!ptx_take(x, ",")) break;
  }
  ptx_expect(x, ";");
  narrowest(k, i);
  k->instructions++;
}

static void statement(parser *p) {
  ptx_lexer *x = &p->x;
  if (ptx_is(x, ".reg")) declare(p);
  else if (ptx_is(x, ".shared")) shared_array(p);
  else if (ptx_is(x, ".pragma") || ptx_is(x, ".loc") || ptx_is(x, ".file")) {
    while (x->n && !ptx_take(x, ";")) ptx_next(x);
  } else if (x->token[0] == '$') {
    p->label = grown(p->label, p->labels, &p->room_labels, sizeof *p->label);
    label *l = &p->label[p->labels++];
    ptx_copy(x, l->name, sizeof l->name);
    l->at = p->k->instructions;
    l->line = x->line;
    ptx_next(x);
    ptx_expect(x, ":");
  } else instruction(p);
}

/* ---- labels, loops ---- */

static const label *find_label(const parser *p, const char *name) {
  for (uint32_t l = 0; l < p->labels; l++)
    if (!strcmp(p->label[l].name, name)) return &p->label[l];
  return NULL;
}

/* A loop is what lies between a branch backwards and the label that it goes to. */
static void add_loop(parser *p, const label *l, uint32_t last) {
  ptx_kernel *k = p->k;
  for (uint32_t i = 0; i < k->loops; i++)
    if (k->loop[i].first == l->at) {
      if (last > k->loop[i].last) k->loop[i].last = last;
      return;
    }
  k->loop = realloc(k->loop, (k->loops + 1) * sizeof *k->loop);
  k->loop[k->loops] = (ptx_loop){.first = l->at, .last = last, .label_line = l->line};
  memcpy(k->loop[k->loops++].label, l->name, sizeof l->name);
}

static void resolve(parser *p) {
  ptx_kernel *k = p->k;
  for (uint32_t i = 0; i < k->instructions; i++) {
    ptx_instruction *s = &k->instruction[i];
    if (s->op != PTX_BRA) continue;
    const label *l = find_label(p, p->wanted[i]);
    p->x.line = s->line;
    if (!l) ptx_refuse(&p->x, "no label '%s'", p->wanted[i]);
    s->target = l->at;
    if (l->at <= i) add_loop(p, l, i);
  }
  for (uint32_t i = 0; i < k->instructions; i++)
    for (uint32_t l = 0, least = UINT32_MAX; l < k->loops; l++) {
      uint32_t size = k->loop[l].last - k->loop[l].first;
      if (i < k->loop[l].first || i > k->loop[l].last || size >= least) continue;
      least = size;
      k->instruction[i].loop = l + 1;
    }
}

/* To the brace that closes it. Braces within make a scope for registers. */
static void body(parser *p) {
  ptx_lexer *x = &p->x;
  uint32_t outside[8], depth = 0;
  for (outside[0] = p->banks;;) {
    if (!x->n) ptx_refuse(x, "the text ends within a kernel");
    if (ptx_take(x, "{")) {
      if (++depth == 8) ptx_refuse(x, "braces within braces");
      outside[depth] = p->banks;
    } else if (ptx_take(x, "}")) {
      p->banks = outside[depth];
      if (!depth--) return;
    } else statement(p);
  }
}

static void find_reads(ptx_kernel *k) {
  k->read = calloc(k->rows, 1);
  for (uint32_t i = 0; i < k->instructions; i++) {
    const ptx_instruction *s = &k->instruction[i];
    bool writes = s->op != PTX_ST && s->op != PTX_RED && s->op != PTX_CP && s->op != PTX_BAR;   /* its first operand */
    if (s->guard >= 0) k->read[s->guard] = 1;
    for (uint32_t o = writes; o < s->operands; o++)
      for (uint32_t e = 0; e < s->operand[o].n; e++)
        if (k->value[s->operand[o].first + e] >= 0) k->read[k->value[s->operand[o].first + e]] = 1;
  }
}

static void entry(parser *p) {
  ptx_lexer *x = &p->x;
  ptx_module *m = p->m;
  m->kernel = realloc(m->kernel, (m->kernels + 1) * sizeof *m->kernel);
  ptx_kernel *k = p->k = &m->kernel[m->kernels++];
  *k = (ptx_kernel){.rows = ROWS_SPECIAL, .granule = {16, 16, 16}};
  p->banks = p->labels = p->room_instructions = p->room_values = p->room_constants = 0;
  uint32_t arrays = p->symbols;
  uint64_t local = p->local;
  ptx_copy(x, k->name, sizeof k->name);
  ptx_next(x);
  params(p);
  while (!ptx_take(x, "{")) {
    if (ptx_take(x, ".reqntid")) {
      k->threads = (uint32_t)number(p);
      while (ptx_take(x, ",")) number(p);
    } else if (ptx_take(x, ".minnctapersm") || ptx_take(x, ".maxntid")) {
      number(p);
      while (ptx_take(x, ",")) number(p);
    } else ptx_refuse(x, "unknown directive '%.*s'", (int)x->n, x->token);
  }
  body(p);
  resolve(p);
  find_reads(k);
  k->fixed_local = p->local;
  p->symbols = arrays;
  p->local = local;
}

static void module(parser *p) {
  ptx_lexer *x = &p->x;
  for (ptx_next(x); x->n;) {
    if (ptx_take(x, ".version") || ptx_take(x, ".target") || ptx_take(x, ".address_size")) {
      ptx_next(x);
      while (ptx_take(x, ",")) ptx_next(x);
    } else if (ptx_take(x, ".extern") || ptx_take(x, ".visible") || ptx_take(x, ".weak")) continue;
    else if (ptx_is(x, ".shared")) shared_array(p);
    else if (ptx_take(x, ".entry")) entry(p);
    else ptx_refuse(x, "unknown directive '%.*s'", (int)x->n, x->token);
  }
}

bool ptx_parse(ptx_module *m, const char *text) {
  *m = (ptx_module){.text = strdup(text)};
  parser *p = calloc(1, sizeof *p);
  p->m = m;
  p->x = (ptx_lexer){.at = m->text, .here = 1, .line = 1, .message = m->message};
  bool ok = !setjmp(p->x.trap);
  if (ok) module(p);
  free(p->label);
  free(p->wanted);
  free(p);
  return ok;
}

void ptx_module_free(ptx_module *m) {
  for (uint32_t i = 0; i < m->kernels; i++) {
    free(m->kernel[i].instruction);
    free(m->kernel[i].loop);
    free(m->kernel[i].value);
    free(m->kernel[i].constant);
    free(m->kernel[i].read);
  }
  free(m->kernel);
  free(m->text);
  *m = (ptx_module){0};
}

const ptx_kernel *ptx_find(const ptx_module *m, const char *name) {
  for (uint32_t i = 0; i < m->kernels; i++)
    if (!strcmp(m->kernel[i].name, name)) return &m->kernel[i];
  return NULL;
}

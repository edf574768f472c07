/* SPDX-License-Identifier: MIT
 * What names mean. A stack of entries, cut where a scope ends, and a table from a name to its innermost entry.
 * A value held by a name is remembered together with the buffers it reads. If one of them may have changed where the
 * name is used, the value is kept in a register, written at the place of the `let`, where two places of the statement
 * list were reserved for that. */
#include <stdlib.h>
#include "dsl/parse.h"

static uint32_t table_slot(const tg_builder *b, const char *symbol) {
  uint32_t h = (uint32_t)tg_hash(symbol, strlen(symbol), 1) & b->table_mask;
  while (b->keys[h] && b->keys[h] != symbol) h = (h + 1) & b->table_mask;
  return h;
}

static void table_grow(tg_builder *b) {
  uint32_t size = b->keys ? (b->table_mask + 1) * 2 : 256, old = b->keys ? b->table_mask + 1 : 0;
  const char **keys = b->keys;
  int32_t *table = b->table;
  b->keys = tg_new(&b->job->env, const char *, size);
  b->table = tg_new(&b->job->env, int32_t, size);
  b->table_mask = size - 1;
  for (uint32_t i = 0; i < old; i++) {
    if (!keys[i]) continue;
    uint32_t h = table_slot(b, keys[i]);
    b->keys[h] = keys[i];
    b->table[h] = table[i];
  }
}

tg_name *tg_name_find(tg_builder *b, const char *symbol) {
  if (!b->keys) return NULL;
  uint32_t h = table_slot(b, symbol);
  if (!b->keys[h] || !b->table[h]) return NULL;
  for (int32_t i = b->table[h] - 1; i >= 0; i = b->names.data[i].shadowed) {
    tg_name *n = &b->names.data[i];
    if ((uint32_t)i >= b->barrier) return n;
    if (b->formals_only ? n->kind == NAME_DEF
                        : n->kind == NAME_CONST || n->kind == NAME_PARAM || n->kind == NAME_DEF || n->kind == NAME_PROC)
      return n;
  }
  return NULL;
}

const char *tg_name_refused(const char *symbol) {
  static const char *const reserved[] = {"inf", "nan", "true", "false", "if", "else", "let", "do", "atomic", "stream"};
  for (unsigned i = 0; i < TG_COUNT(reserved); i++)
    if (!strcmp(symbol, reserved[i])) return "is a word of the language";
  return tg_type_of_word(symbol, strlen(symbol)) != TG_TYPE__COUNT ? "is the name of a type" : NULL;
}

tg_name *tg_name_add(tg_builder *b, const char *symbol, tg_name_kind kind, tg_pos pos) {
  tg_job *j = b->job;
  const char *refused = tg_name_refused(symbol);
  if (refused) tg_fail_at(j, pos, "'%s' %s", symbol, refused);
  if (strchr(symbol, '#') && kind != NAME_RANGE && kind != NAME_BUFFER)
    tg_fail_at(j, pos, "'%s': only ranges and buffers of one name are told apart by a '#' and a number", symbol);
  tg_name *old = tg_name_find(b, symbol);
  if (old) {
    if (old->pos.line > 0) tg_fail_at(j, pos, "'%s' is in scope already, since line %d", symbol, old->pos.line);
    tg_fail_at(j, pos, "'%s' is in scope already", symbol);
  }
  if (!b->keys || b->table_n * 2 > b->table_mask) table_grow(b);
  uint32_t h = table_slot(b, symbol);
  if (!b->keys[h]) {
    b->keys[h] = symbol;
    b->table_n++;
  }
  tg_push(&j->env, &b->names,
          ((tg_name){
              .name = symbol, .kind = (uint8_t)kind, .pos = pos, .shadowed = b->table[h] - 1, .serial = ++b->serial}));
  b->table[h] = (int32_t)b->names.n;
  return &b->names.data[b->names.n - 1];
}

void tg_names_cut(tg_builder *b, uint32_t n) {
  while (b->names.n > n) {
    tg_name *e = &b->names.data[--b->names.n];
    b->table[table_slot(b, e->name)] = e->shadowed + 1;
    if (!b->raw) tg_push(&b->job->env, &b->dead, ((tg_dead_name){e->name, e->kind, e->pos}));
  }
}

/* ---- unknown names ---- */

static unsigned distance(const char *a, const char *b) {
  unsigned row[34], n = (unsigned)strlen(b), m = (unsigned)strlen(a);
  if (n > 32 || m > 32) return 99;
  for (unsigned k = 0; k <= n; k++) row[k] = k;
  for (unsigned i = 1; i <= m; i++) {
    unsigned diagonal = row[0];
    row[0] = i;
    for (unsigned k = 1; k <= n; k++) {
      unsigned change = diagonal + (a[i - 1] != b[k - 1]);
      diagonal = row[k];
      if (row[k] + 1 < change) change = row[k] + 1;
      if (row[k - 1] + 1 < change) change = row[k - 1] + 1;
      row[k] = change;
    }
  }
  return row[n];
}

static void nearer(const char **best, unsigned *far, const char *name, const char *candidate) {
  unsigned d = distance(name, candidate);
  if (d >= *far || d >= strlen(candidate) + (strlen(name) > 1)) return;
  *best = candidate;
  *far = d;
}

const char *tg_nearest(const char *name, const char *const *words) {
  const char *best = NULL;
  unsigned far = strlen(name) > 4 ? 3 : 2;
  for (; *words; words++) nearer(&best, &far, name, *words);
  return best;
}

/* What other languages call the types. */
const char *tg_type_hint(const char *name) {
  static const struct { const char *name, *type;
  } others[] = {{"float", "f32"},   {"double", "f64"},   {"half", "f16"},   {"bfloat16", "bf16"}, {"bfloat", "bf16"},
                {"__bf16", "bf16"}, {"_Float16", "f16"}, {"__fp16", "f16"}, {"single", "f32"},    {"char", "i8"},
                {"short", "i16"},   {"int", "i32"},      {"long", "i64"},   {"unsigned", "u32"},  {"uint", "u32"},
                {"size_t", "u64"},  {"ssize_t", "i64"},  {"byte", "u8"},    {"_Bool", "bool"},    {"fp8", "e4m3"},
                {"e4m3fn", "e4m3"}};
  for (unsigned i = 0; i < TG_COUNT(others); i++)
    if (!strcmp(name, others[i].name)) return others[i].type;
  /* int8_t, uint16, float64 */
  static const struct {
    const char *head, letter[3];
  } families[] = {{"int", "i"}, {"uint", "u"}, {"float", "f"}, {"fp", "f"}};
  for (unsigned i = 0; i < TG_COUNT(families); i++) {
    size_t n = strlen(families[i].head), digits = strspn(name + (strlen(name) < n ? strlen(name) : n), "0123456789");
    if (strncmp(name, families[i].head, n) || !digits || (name[n + digits] && strcmp(name + n + digits, "_t")))
      continue;
    for (int t = TG_BOOL; t < TG_INDEX; t++)
      if (tg_type_name[t][0] == families[i].letter[0] && !strncmp(tg_type_name[t] + 1, name + n, digits) &&
          !tg_type_name[t][1 + digits])
        return tg_type_name[t];
  }
  return NULL;
}

void tg_name_unknown(tg_parser *p, const tg_token *t, bool function) {
  tg_builder *b = p->b;
  const char *name = tg_symbol(p->j, p->src->text + t->off, t->len), *best = NULL;
  unsigned far = strlen(name) > 4 ? 3 : 2;
  if (!function)
    for (uint32_t i = b->dead.n; i-- > 0;) {
      const tg_dead_name *d = &b->dead.data[i];
      static const char *const what[] = {"knob", "parameter", "range", "buffer", "value", "function", "proc"};
      if (d->name == name && d->pos.line > 0)
        tg_token_fail(p, t, "'%s' is used outside of its scope: a %s of line %d", name, what[d->kind], d->pos.line);
    }
  for (uint32_t i = b->barrier; i-- > 0;)
    if (b->names.data[i].name == name)
      tg_token_fail(p, t, "'%s' is not seen here: functions and procs see their arguments, parameters and knobs only",
                    name);
  for (uint32_t i = b->names.n; i-- > 0;) {
    const tg_name *n = &b->names.data[i];
    if ((n->kind == NAME_DEF) == function && tg_name_find(b, n->name) == n) nearer(&best, &far, name, n->name);
  }
  if (function)
    for (const char *const *w = tg_function_words; *w; w++) nearer(&best, &far, name, *w);
  const char *type = tg_type_hint(name);
  const char *meant = type   ? tg_format(&p->j->env, "\nwrite %s", type)
                      : best ? tg_format(&p->j->env, "\ndid you mean '%s'?", best)
                             : "";
  const char *of_c = p->src->macro && !function && !type
                         ? tg_format(&p->j->env, "\na value of C is brought in with tg_let(%s, %s)", name, name)
                         : "";
  tg_token_fail(p, t, "unknown %s '%s'%s%s", function ? "function" : "name", name, meant, of_c);
}

/* ---- values held by names ---- */

void tg_value_begin(tg_builder *b, tg_name *hold) {
  b->reads.n = 0;
  hold->notes = b->notes.n;
}

void tg_value_end(tg_builder *b, tg_name *hold, tg_expr e) {
  tg_env *env = &b->job->env;
  hold->value = e;
  hold->u = e.u;
  hold->depth = b->depth;
  hold->notes_n = b->notes.n - hold->notes;
  hold->serial = ++b->serial;
  hold->reads_n = b->reads.n;
  if (!b->reads.n || b->raw) return;
  uint32_t *reads = tg_new(env, uint32_t, 2 * b->reads.n), frame;
  for (uint32_t i = 0; i < b->reads.n; i++) {
    reads[2 * i] = b->reads.data[i];
    reads[2 * i + 1] = b->stores.data[b->reads.data[i]];
  }
  hold->reads = reads;
  tg_frame *f = tg_list_frame(b, &frame);
  hold->frame = frame;
  hold->slot = f->items.n;
  tg_push(env, &f->items, (tg_item){0});
  tg_push(env, &f->items, (tg_item){0});
}

void tg_note_read(tg_builder *b, uint32_t buffer) {
  for (uint32_t i = 0; i < b->reads.n; i++)
    if (b->reads.data[i] == buffer) return;
  tg_push(&b->job->env, &b->reads, buffer);
}

static void keep(tg_builder *b, tg_name *h) {
  tg_job *j = b->job;
  tg_frame *f = &b->frames.data[h->frame];
  const tg_uop *value = h->value.u, *stored = value->type == TG_INDEX ? tg_cast(j, TG_I64, value) : value;
  tg_buffer info = {.name = h->name ? h->name : "held", .space = TG_SPACE_REG, .type = stored->type, .pos = h->pos};
  const tg_uop *define = tg_define(j, info, value->lanes, NULL, NULL, true);
  tg_push(&j->env, &b->stores, 1);
  f->items.data[h->slot] = (tg_item){.node = define, .pos = h->pos};
  uint32_t notes = b->notes.n;
  tg_push(&j->env, &b->notes, ((tg_note){.serial = h->serial, .first = h->notes, .n = h->notes_n}));
  f->items.data[h->slot + 1] =
      (tg_item){.node = tg_store(j, define, NULL, stored, NULL, 0), .pos = h->pos, .notes = notes, .notes_n = 1};
  const tg_uop *load = tg_load(j, define, NULL, NULL, NULL, 0);
  h->value.u = h->u = value->type == TG_INDEX ? tg_cast(j, TG_INDEX, load) : load;
  h->kept = true;
  h->reads_n = 0;
}

tg_expr tg_value_use(tg_builder *b, tg_name *h) {
  bool stale = false;
  if (b->raw || h->value.lit) return h->value;
  for (uint32_t i = 0; i < h->reads_n; i++) {
    uint32_t buffer = h->reads[2 * i];
    /* a loop entered since may store before it comes back to the use */
    stale |= b->job->buffers.data[buffer].role != TG_ROLE_IN &&
             (b->stores.data[buffer] != h->reads[2 * i + 1] || b->depth > h->depth);
  }
  if (stale && h->value.u->type != TG_VOID) keep(b, h);
  for (uint32_t i = 0; i < h->reads_n; i++) tg_note_read(b, h->reads[2 * i]);
  if (h->notes_n && !h->kept)
    tg_push(&b->job->env, &b->notes, ((tg_note){.serial = h->serial, .first = h->notes, .n = h->notes_n}));
  return h->value;
}

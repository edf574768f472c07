/* SPDX-License-Identifier: MIT
 * A fused map as an expression that an operation puts behind its sums (TG_FUSE_EPILOGUE): rows and columns of the map
 * are the loops of its result, what it loads are the operation's sums and arguments.
 *
 * Its multiply-adds say fma already. Beside sums pass fma runs once more, and must not join what stands apart here: a
 * product that something is added to is written fma(a, b, -0), which is a * b for all values, rounded before the sum.
 * And what is added to a sum in blocks, with nothing else done, becomes where the sum starts (src/schedule/block.c),
 * with other bits: for these it is written fma(acc, 1, x). */
#include "compile/fuse.h"
#include "dsl/text.h"
#include "tg/exec.h"

enum { MOST_NODES = 400 };   /* of the printed expression */

typedef struct {
  tg_job *j;
  tg_fuse_side side;
  tg_type acc;                 /* of the sums */
  uint32_t sums;               /* ordinal of their buffer */
  bool adds;                   /* to them, as the last thing */
  uint8_t number[TG_MAX_BUFFERS], per[TG_MAX_BUFFERS];   /* by ordinal: index among the buffers; TG_PER_ALL.. */
  bool seen[TG_MAX_BUFFERS];
} expressing;

static bool is_dense(const tg_uop *define) { return !(define->arg >> 32 & TG_STRIDED); }

/* For how many elements of the result an element that is loaded is there; false: none of the kinds of arguments. */
static bool find_per(const expressing *x, const tg_uop *load, uint8_t *per) {
  const tg_uop *d = tg_define_of(load->src[0]), *const *at = x->side.store->src + 1,
               *const *extent = tg_define_of(x->side.store->src[0])->src;
  uint32_t rank = tg_access_rank(load);
  if (load->arg & TG_GATED || load->lanes != 1 || !is_dense(d) || !rank || rank > 2) return false;
  if (rank == 2) {
    *per = TG_PER_ELEMENT;
    return load->src[1] == at[0] && load->src[2] == at[1] && d->src[0] == extent[0] && d->src[1] == extent[1];
  }
  for (uint32_t i = 0; i < 2; i++)
    if (load->src[1] == at[i] && d->src[0] == extent[i]) return *per = i ? TG_PER_COLUMN : TG_PER_ROW, true;
  *per = TG_PER_ALL;
  return tg_is_const(load->src[1], 0);
}

/* Arguments are converted to the type of the sums where they are read: so must all uses of a load of another type. */
static bool is_converted(const expressing *x, const tg_uop *const *all, uint32_t n, const tg_uop *load) {
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < all[i]->n; k++)
      if (all[i]->src[k] == load && (all[i]->op != TG_OP_CAST || all[i]->type != x->acc)) return false;
  return true;
}

static bool find_values(expressing *x, const tg_uop *const *all, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (all[i]->op != TG_OP_LOAD) continue;
    uint32_t o = tg_buffer_ordinal(all[i]->src[0]);
    uint8_t per;
    if (!tg_is_float(all[i]->type) || !find_per(x, all[i], &per)) return false;
    if (all[i]->type != x->acc && !is_converted(x, all, n, all[i])) return false;
    if (x->seen[o] && x->per[o] != per) return false;
    x->seen[o] = true, x->per[o] = per;
  }
  return true;
}

static bool is_of(const tg_uop *u, uint32_t buffer) {
  return u->op == TG_OP_LOAD && tg_buffer_ordinal(u->src[0]) == buffer;
}

bool tg_fuse_adds_to(const tg_fuse_side *map, uint32_t buffer) {
  const tg_uop *u = tg_stored(map->store);
  return u->op == TG_OP_ADD && (is_of(u->src[0], buffer) || is_of(u->src[1], buffer));
}

static const tg_uop *rounded(tg_job *j, const tg_uop *u) {
  if (u->op == TG_OP_NEG) {
    const tg_uop *a = rounded(j, u->src[0]);
    return a == u->src[0] ? u : tg_op1(j, TG_OP_NEG, a);
  }
  return u->op == TG_OP_MUL ? tg_op3(j, TG_OP_FMA, u->src[0], u->src[1], tg_const_float(j, u->type, -0.0)) : u;
}

static const tg_uop *round_products(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)user;
  if ((old->op != TG_OP_ADD && old->op != TG_OP_SUB) || (old->type != TG_F32 && old->type != TG_F64)) return NULL;
  return tg_op2(j, old->op, rounded(j, src[0]), rounded(j, src[1]));
}

/* The expression with buffers in place of loads, and without conversions of these. NULL: it asks where it is, or is
 * long. */
static const tg_uop *without_loads(expressing *x, const tg_uop *const *all, uint32_t n) {
  tg_job *j = x->j;
  const tg_uop *root = all[n - 1], **to = tg_new(&j->env, const tg_uop *, root->id + 1);
  uint32_t *size = tg_new(&j->env, uint32_t, root->id + 1);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = all[i], *src[16];
    size[u->id] = 1;
    if (u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER || u->op == TG_OP_RANGE) continue;
    if (u->op == TG_OP_LOAD) {
      to[u->id] = tg_define_of(u->src[0]);
      continue;
    }
    if (u->n > TG_COUNT(src)) return NULL;
    for (uint32_t k = 0; k < u->n; k++) {
      if (!(src[k] = to[u->src[k]->id])) return NULL;
      if ((size[u->id] += size[u->src[k]->id]) > MOST_NODES) return NULL;
    }
    const tg_uop *d = src[0];
    bool converts = u->op == TG_OP_CAST && u->src[0]->op == TG_OP_LOAD && u->src[0]->type != x->acc;
    to[u->id] = converts ? tg_make(j, d->op, x->acc, d->lanes, d->arg, d->n, d->src)
                : u->n   ? tg_make(j, u->op, u->type, u->lanes, u->arg, u->n, src)
                         : u;
  }
  return to[root->id];
}

/* Gives the buffers their names, and tells about them. */
static void tell(expressing *x, tg_fusion *f) {
  const tg_uop *sink = x->side.plain;
  uint32_t at = 0, values = 0;
  for (uint32_t i = 0; i < sink->n; i++) {
    const tg_uop *d = sink->src[i];
    if (d->op != TG_OP_DEFINE) continue;
    uint32_t o = tg_buffer_ordinal(d);
    bool sums = f->buffer[at].of == TG_WRITER && !f->buffer[at].buffer;
    f->value[at].type = (uint8_t)d->type, f->value[at].per = x->per[o];
    tg_buffer_info(x->j, d)->name = sums ? "acc" : tg_format(&x->j->env, "a%u", values);
    values += !sums && x->seen[o];
    if (!x->seen[o]) tg_buffer_info(x->j, d)->name = "result";
    at++;
  }
}

/* Sums first, the result last; what is not read is left out. */
static bool put_in_order(const expressing *x, tg_fusion *f) {
  tg_fusion old = *f;
  uint32_t at = 0, sums = 0, result = 0, i = 0;
  for (uint32_t k = 0; k < x->side.plain->n; k++) {
    const tg_uop *d = x->side.plain->src[k];
    if (d->op != TG_OP_DEFINE) continue;
    uint32_t o = tg_buffer_ordinal(d);
    if (o == tg_buffer_ordinal(x->side.store->src[0])) result = i;
    else if (old.buffer[i].of == TG_WRITER && !old.buffer[i].buffer) sums = i;
    else if (x->seen[o]) f->buffer[1 + at] = old.buffer[i], f->value[1 + at] = old.value[i], at++;
    i++;
  }
  f->buffer[0] = old.buffer[sums], f->value[0] = old.value[sums];
  f->buffer[1 + at] = old.buffer[result], f->value[1 + at] = old.value[result];
  f->buffers_n = at + 2;
  return i == old.buffers_n && sums != result;
}

/* The type of the sums, if there is nothing unknown among the buffers. */
static bool find_sums(expressing *x, const tg_fusion *f) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < x->side.plain->n; i++) {
    const tg_uop *d = x->side.plain->src[i];
    if (d->op != TG_OP_DEFINE) continue;
    if (at == f->buffers_n || tg_buffer_ordinal(d) >= TG_MAX_BUFFERS) return false;
    bool sums = f->buffer[at].of == TG_WRITER && !f->buffer[at].buffer;
    if (sums) x->acc = d->type, x->sums = tg_buffer_ordinal(d);
    at++;
  }
  x->adds = tg_fuse_adds_to(&x->side, x->sums);
  return x->acc == TG_F32 || x->acc == TG_F64;
}

static const char *text_of(tg_job *j, const tg_uop *e) {
  tg_str text = tg_str_new(&j->env);
  tg_print_expr(j, &text, e);
  return text.data;
}

void tg_fuse_express(tg_job *j, const tg_lowering *l, const tg_uop *sink, tg_fusion *f) {
  expressing x = {.j = j, .side = {.job = j, .plain = tg_plain(j, sink), .between = UINT32_MAX}};
  uint32_t n;
  f->text = f->in_blocks = NULL;
  if (l->target->fma) x.side.plain = tg_map(j, x.side.plain, round_products, NULL, NULL);
  tg_fuse_see(&x.side);
  if (!x.side.map || !x.side.whole || tg_access_rank(x.side.store) != 2 ||
      !is_dense(tg_define_of(x.side.store->src[0])) || tg_pass_fma(j, l, x.side.plain) != x.side.plain) return;
  const tg_uop *const *all = tg_toposort(j, tg_stored(x.side.store), &n);
  if (!find_sums(&x, f) || !find_values(&x, all, n)) return;
  const tg_uop *e = without_loads(&x, all, n);
  if (!e) return;
  tell(&x, f);
  if (!put_in_order(&x, f)) return;
  f->text = text_of(j, e);
  f->in_blocks = x.adds ? NULL : f->text;
  if (!x.adds || !l->target->fma) return;
  bool second = is_of(all[n - 1]->src[1], x.sums);
  f->in_blocks = text_of(j, tg_op3(j, TG_OP_FMA, e->src[second], tg_const_float(j, e->type, 1), e->src[!second]));
}

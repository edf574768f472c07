/* SPDX-License-Identifier: MIT
 * stage .. space=packed: an input is read from a copy in another layout, which covers the whole input and which the
 * caller makes once and keeps (packed weights). The copy replaces the input among the kernel's buffers. The program
 * that fills it, a single statement in author form, is left in job->packings, as nodes and as the text of a kernel. */
#include "schedule/stage.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *source, *copy, *fill;   /* DEFINEs; a value of the copy's type */
  tg_type type;
  tg_digits layout;
  uint32_t rank, reads;
  tg_stage_sum sum;                     /* if the word has one */
  const tg_uop *sums;                   /* its DEFINE, or NULL */
} packing;

static const tg_uop *first_load(const packing *p, const tg_uop *end) {
  uint32_t n;
  for (uint32_t i = 1; i < end->n; i++) {
    const tg_uop **order = tg_toposort(p->s->j, end->src[i], &n);
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_LOAD && tg_define_of(order[k]->src[0]) == p->source) return order[k];
  }
  return NULL;
}

static void subscripts(const packing *p, const tg_uop *const *at, const tg_uop **out) {
  for (uint32_t i = 0; i < p->layout.n; i++)
    out[i] = tg_digits_place(p->s, &p->layout.digit[i], at);
}

static const tg_uop *inside(tg_job *j, uint32_t n, const tg_uop *const *at, const tg_uop *const *dims) {
  const tg_uop *all = NULL;
  for (uint32_t d = 0; d < n; d++) {
    const tg_uop *low = tg_op2(j, TG_OP_LE, tg_index(j, 0), at[d]), *high = tg_op2(j, TG_OP_LT, at[d], dims[d]);
    all = tg_and(j, all, tg_op2(j, TG_OP_AND, low, high));
  }
  return all;
}

/* The place in the copy holds what the gate's alternative is: without it, is the place there, and does the gate ask
 * for nothing else? */
static bool gate_is_padding(const packing *p, const tg_uop *gate, const tg_uop *alternative, const tg_uop *const *at,
                            const tg_uop *const *place) {
  tg_job *j = p->s->j;
  tg_facts within = {NULL, inside(j, p->rank, at, p->source->src)};
  if (alternative != p->fill || !tg_proves(j, &within, gate)) return false;
  const tg_uop *there = tg_simplified(p->s, inside(j, p->layout.n, place, p->copy->src));
  return tg_proves(j, NULL, there);
}

static const tg_uop *read_copy(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  packing *p = user;
  /* the conversion back, put around the load just now */
  bool converts = old->op == TG_OP_CAST && old->src[0]->op == TG_OP_LOAD && src[0]->op == TG_OP_CAST;
  if (converts && old->type == p->type && src[0]->src[0]->op == TG_OP_LOAD && src[0]->src[0]->src[0] == p->copy)
    return src[0]->src[0];
  if (old->op != TG_OP_LOAD || tg_define_of(old->src[0]) != p->source) return NULL;
  const tg_uop *place[16], *gate = tg_gate(old) ? src[old->n - 2] : NULL, *alternative = gate ? src[old->n - 1] : NULL;
  subscripts(p, src + 1, place);
  if (gate && alternative->type != p->type) alternative = tg_simplified(p->s, tg_cast(j, p->type, alternative));
  if (gate && gate_is_padding(p, gate, alternative, src + 1, place)) gate = NULL;
  p->reads++;
  return tg_cast(j, old->type, tg_load(j, p->copy, place, gate, gate ? alternative : NULL, 0));
}

static void read_in_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  const tg_uop **list = tg_new(&s->j->env, const tg_uop *, end->n);
  for (uint32_t i = 1; i < end->n; i++) list[i - 1] = tg_map(s->j, end->src[i], read_copy, NULL, user);
  tg_push(&s->j->env, out, tg_end_like(s, end, end->src[0], end->n - 1, list));
}

static bool still_read(tg_schedule *s, const tg_uop *source) {
  uint32_t n;
  const tg_uop **order = tg_toposort(s->j, s->sink, &n);
  for (uint32_t i = 0; i < n; i++)
    if ((order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_PREFETCH) && tg_define_of(order[i]->src[0]) == source)
      return true;
  return false;
}

/* ---- the copy, and the kernel that fills it ---- */

static void define_copy(packing *p, const char *name) {
  tg_job *j = p->s->j;
  const tg_uop *dims[16];
  int64_t pitch = p->o->number[0];
  for (uint32_t i = 0; i < p->layout.n; i++) {
    const tg_digit *e = &p->layout.digit[i];
    const tg_uop *dim = p->source->src[e->dim];
    dims[i] = e->mod || dim->op == TG_OP_CONST ? tg_index(j, e->extent) : tg_idx_ceildiv(j, dim, e->div);
    if (i + 1 < p->layout.n || !pitch) continue;
    if (dims[i]->op != TG_OP_CONST || pitch < dims[i]->arg)
      tg_fail_at(j, p->o->pos, "stage %s: a pitch of %lld is below the %s elements of a row", p->o->names[0],
                 (long long)pitch, tg_text(j, dims[i]));
    dims[i] = tg_index(j, pitch);
  }
  tg_buffer info = {.name = name,
                    .space = TG_SPACE_GLOBAL,
                    .role = TG_ROLE_IN,
                    .rank = (uint8_t)p->layout.n,
                    .type = (uint8_t)p->type,
                    .pos = p->o->pos};
  p->copy = tg_define(j, info, 1, dims, NULL, true);
}

/* A nest over the copy's digits that stores what the source has there, or fill. */
static const tg_uop *filling(const packing *p, const tg_uop *target) {
  tg_job *j = p->s->j;
  const tg_uop *at[16], *place[16], *to[16];
  for (uint32_t d = 0; d < p->rank; d++) at[d] = tg_index(j, 0);
  for (uint32_t i = 0; i < p->layout.n; i++) {
    const tg_digit *e = &p->layout.digit[i];
    const tg_uop *extent = e->mod || p->copy->src[i]->op == TG_OP_CONST ? tg_index(j, e->extent) : p->copy->src[i];
    place[i] = tg_range_new(j, tg_format(&j->env, "%s_%u", tg_buffer_info(j, p->copy)->name, i), extent, TG_LOOP,
                            UINT32_MAX, p->o->pos);
    at[e->dim] = tg_idx_add(j, at[e->dim], tg_idx_mul(j, place[i], e->div));
  }
  const tg_uop *there = inside(j, p->rank, at, p->source->src);
  const tg_uop *value = tg_cast(j, p->type, tg_load(j, p->source, at, there, tg_zero(j, p->source->type), 0));
  if (p->fill != tg_zero(j, p->type)) value = tg_op3(j, TG_OP_WHERE, there, value, p->fill);
  for (uint32_t i = 0; i < p->layout.n; i++) to[i] = tg_digits_swizzled(p->s, &p->layout.digit[i], place[i], at);
  const tg_uop *u = tg_store(j, target, to, value, NULL, 0);
  tg_set_pos(j, u, p->o->pos);
  for (uint32_t i = p->layout.n; i-- > 0;) {
    u = tg_end(j, place[i], 1, &u);
    tg_set_pos(j, u, p->o->pos);
  }
  return u;
}

/* The program's text with a header of its own: only the parameters that it uses. */
static const char *text_of(const packing *p, const tg_uop *sink) {
  tg_job *j = p->s->j;
  tg_str text = tg_str_new(&j->env), body = tg_str_new(&j->env);
  const char *stage = j->stage, *comma = "";
  uint32_t opts = j->opts.n, requires = j->requires.n, n;
  tg_str_printf(&text, "kernel %s_pack_%s(", j->name ? j->name : "kernel", p->o->names[0]);
  const tg_uop **order = tg_toposort(j, sink, &n);
  for (uint32_t i = 0; i < j->params.n; i++) {
    bool used = false;
    for (uint32_t k = 0; k < n && !used; k++) used = order[k]->op == TG_OP_PARAM && order[k]->arg == i;
    if (!used) continue;
    const tg_param *a = &j->params.data[i];
    tg_str_printf(&text, "%s%s in %lld..%lld", comma, a->name, (long long)a->lo, (long long)a->hi);
    if (a->multiple > 1) tg_str_printf(&text, " %% %lld", (long long)a->multiple);
    comma = ", ";
  }
  j->stage = "author", j->opts.n = j->requires.n = 0;
  tg_print(j, &body, sink);
  j->stage = stage, j->opts.n = opts, j->requires.n = requires;
  tg_str_printf(&text, ") {%s", strchr(body.data, '\n'));
  return text.data;
}

static void leave_packing(const packing *p) {
  tg_job *j = p->s->j;
  tg_buffer info = *tg_buffer_info(j, p->copy);
  info.role = TG_ROLE_OUT;
  info.partial = p->o->number[0] != 0;
  const tg_uop *out = tg_define(j, info, 1, p->copy->src, NULL, false), *list[5] = {p->source, out};
  uint32_t n = 2;
  if (p->sums) list[n++] = tg_stage_sum_define(p->s, p->o, &p->sum, true);
  list[n] = filling(p, out);
  if (p->sums) list[n + 1] = tg_stage_sum_statement(p->s, p->o, &p->sum, list[n - 1]);
  const tg_uop *sink = tg_sink(j, n + (p->sums ? 2 : 1), list);
  tg_push(&j->env, &j->packings,
          ((tg_packing){p->o->names[0], tg_buffer_info(j, p->copy)->name,
                        p->sums ? tg_buffer_info(j, p->sums)->name : NULL, tg_versioned(j, sink), text_of(p, sink)}));
}

static void check_source(const packing *p) {
  const tg_buffer *b = tg_buffer_info(p->s->j, p->source);
  const char *name = p->o->names[0];
  tg_pos pos = p->o->pos;
  tg_job *j = p->s->j;
  if (b->role != TG_ROLE_IN)
    tg_fail_at(j, pos, "stage %s: only an input of the kernel can be packed ahead of it", name);
  if (b->lo) tg_fail_at(j, pos, "stage %s: what is packed ahead would lose the promised range of its values", name);
  if (!p->rank) tg_fail_at(j, pos, "stage %s: it is one element", name);
  if (p->o->number[2]) tg_fail_at(j, pos, "stage %s: the caller keeps what is packed, and aligns it", name);
  if (p->o->number[3])
    tg_fail_at(j, pos, "stage %s: all of it is packed ahead, and depth is of copies in a loop", name);
}

static void read_sums(packing *p) {
  p->sum = tg_stage_sum_parse(p->s, p->o, p->source);
  p->sums = tg_stage_sum_define(p->s, p->o, &p->sum, false);
  tg_replaced_sums r = {p->s, &p->sum, p->sums, 0};
  p->s->sink = tg_map(p->s->j, p->s->sink, tg_stage_sum_replace, NULL, &r);
  if (!r.found)
    tg_fail_at(p->s->j, p->o->pos,
               "stage %s with %s: the kernel has no such reduction (it is looked for before its range is split)",
               p->o->names[0], p->o->with);
}

void tg_stage_packed(tg_schedule *s, const tg_opt *o, const tg_uop *source) {
  tg_job *j = s->j;
  packing *p = tg_new(&j->env, packing, 1);
  *p = (packing){.s = s, .o = o, .source = source, .rank = tg_buffer_info(j, source)->rank};
  check_source(p);
  p->type = tg_stage_type(s, o, source->type);
  p->fill = tg_stage_fill(s, o, p->type);
  tg_axis axis = tg_axis_find(s, o, o->names[1]);
  tg_stage_part part = {.rank = p->rank};
  const tg_uop *load = NULL;
  for (uint32_t i = 0; i < axis.n && !load; i++)
    if (axis.site[i].owner->op == TG_OP_END) load = first_load(p, axis.site[i].owner);
  if (load) part.subscript = load->src + 1;
  else tg_fail_at(j, o->pos, "stage %s at %s: no loop of that name reads it", o->names[0], o->names[1]);
  for (uint32_t d = 0; d < p->rank; d++) {
    tg_bounds b = tg_bounds_of(j, source->src[d]);
    if (b.hi > (tg_i128)1 << 40)
      tg_fail_at(j, o->pos, "stage %s: its dimension %u has no bound below 2^40", o->names[0], d);
    part.extent[d] = b.hi < 1 ? 1 : (int64_t)b.hi;
  }
  p->layout = tg_digits_parse(s, o, &part);
  define_copy(p, o->n > 2 ? o->names[2] : tg_format(&j->env, "%s.packed", o->names[0]));
  if (o->with) read_sums(p);
  for (uint32_t i = 0; i < axis.n; i++)
    if (axis.site[i].owner->op == TG_OP_END) s->sink = tg_replace_end(s, s->sink, axis.site[i].range, read_in_loop, p);
  tg_statements list = {0};
  bool keeps = still_read(s, source);
  for (uint32_t i = 0; i < s->sink->n; i++) {
    if (s->sink->src[i] != source || keeps) tg_push(&j->env, &list, s->sink->src[i]);
    if (s->sink->src[i] == source) tg_push(&j->env, &list, p->copy);
    if (s->sink->src[i] == source && p->sums) tg_push(&j->env, &list, p->sums);
  }
  s->sink = tg_sink(j, list.n, list.data);
  leave_packing(p);
}

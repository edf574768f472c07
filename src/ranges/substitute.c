/* SPDX-License-Identifier: MIT
 * Polynomials with atoms replaced: a range by another iteration of it, an unknown by its solution. Also their text.
 * Atoms mention earlier atoms only, so one pass in order of atoms finds all changes; nothing recurses. */
#include "dsl/text.h"
#include "ranges/polynomial.h"

typedef struct { bool changed; tg_poly p; } image;

static bool mentions_changed(tg_poly p, const image *to) {
  for (int i = 0; i < p.n; i++)
    for (uint32_t k = 0; k < p.t[i].degree; k++)
      if (to[p.t[i].atom[k]].changed) return true;
  return false;
}

static tg_poly apply(tg_polys *c, tg_poly p, const image *to) {
  tg_poly r = tg_poly_const(c, 0);
  for (int i = 0; i < p.n; i++) {
    tg_poly t = tg_poly_const(c, p.t[i].c);
    for (uint32_t k = 0; k < p.t[i].degree && t.n >= 0; k++) {
      const image *v = &to[p.t[i].atom[k]];
      t = tg_poly_mul(c, t, v->changed ? v->p : tg_poly_atom(c, p.t[i].atom[k]));
    }
    r = tg_poly_add(c, r, t, 1);
  }
  return r;
}

static bool uses_any(tg_polys *c, const tg_uop *u, uint32_t n, const uint32_t *from) {
  uint32_t count;
  const tg_uop **all = tg_toposort(c->job, u, &count);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < n; k++)
      if (all[i]->op == TG_OP_RANGE && c->atoms[from[k]].node == all[i]) return true;
  return false;
}

static image image_of(tg_polys *c, uint32_t i, uint32_t n, const uint32_t *from, const image *to, uint32_t copy) {
  tg_atom v = c->atoms[i];
  bool hidden = (v.kind == TG_ATOM_OPAQUE || v.kind == TG_ATOM_EITHER) && copy && !v.copy && v.node &&
                uses_any(c, v.node, n, from);
  if (v.kind == TG_ATOM_OPAQUE) return (image){hidden, hidden ? tg_poly_copy(c, i, copy) : v.a};
  if (v.kind == TG_ATOM_RANGE || v.kind == TG_ATOM_PARAM ||
      (!hidden && !mentions_changed(v.a, to) && !mentions_changed(v.b, to)))
    return (image){0};
  tg_poly a = apply(c, v.a, to), b = apply(c, v.b, to), r = {NULL, -1};
  if (v.kind == TG_ATOM_DIV) r = tg_poly_div(c, a, b);
  else r = tg_poly_extreme(c, v.kind, v.node, v.kind == TG_ATOM_EITHER && copy ? copy : v.copy, a, b);
  return (image){true, r};
}

tg_poly tg_poly_replace(tg_polys *c, tg_poly p, uint32_t n, const uint32_t *from, const tg_poly *to, uint32_t copy) {
  uint32_t last = 0;
  if (p.n <= 0) return p;
  for (int i = 0; i < p.n; i++)
    if (p.t[i].degree && p.t[i].atom[0] >= last) last = p.t[i].atom[0] + 1u;
  image *images = tg_new(&c->job->env, image, last + 1);
  for (uint32_t i = 0; i < last; i++) {
    bool given = false;
    for (uint32_t k = 0; k < n; k++)
      if (from[k] == i) {
        images[i] = (image){true, to[k]};
        given = true;
      }
    if (!given) images[i] = image_of(c, i, n, from, images, copy);
    if (images[i].changed && images[i].p.n < 0) images[i].p = (tg_poly){NULL, -1};
  }
  return mentions_changed(p, images) ? apply(c, p, images) : p;
}

/* ---- text ---- */

static void put_poly(tg_polys *c, tg_str *s, tg_poly p, int depth);

static bool is_plain(tg_poly p) {
  return p.n == 0 || (p.n == 1 && p.t[0].c > 0 && p.t[0].degree + (p.t[0].c != 1) <= 1);
}

static void put_atom(tg_polys *c, tg_str *s, uint32_t i, int depth) {
  const tg_atom *v = &c->atoms[i];
  if (depth > 4) tg_str_puts(s, "..");
  else if (v->kind == TG_ATOM_DIV) {
    const char *open = is_plain(v->a) ? "" : "(", *close = is_plain(v->a) ? "" : ")";
    tg_str_printf(s, "(%s", open);
    put_poly(c, s, v->a, depth + 1);
    open = is_plain(v->b) ? "" : "(";
    tg_str_printf(s, "%s / %s", close, open);
    put_poly(c, s, v->b, depth + 1);
    tg_str_puts(s, is_plain(v->b) ? ")" : "))");
  } else if (v->kind == TG_ATOM_MIN || v->kind == TG_ATOM_MAX) {
    tg_str_puts(s, v->kind == TG_ATOM_MIN ? "min(" : "max(");
    put_poly(c, s, v->a, depth + 1);
    tg_str_puts(s, ", ");
    put_poly(c, s, v->b, depth + 1);
    tg_str_puts(s, ")");
  } else if (!v->node) tg_str_printf(s, "t%u", i);
  else tg_str_printf(s, "%s%s", tg_text(c->job, v->node), v->copy ? "'" : "");
}

static void put_poly(tg_polys *c, tg_str *s, tg_poly p, int depth) {
  if (p.n < 0) tg_str_puts(s, "(unknown)");
  if (p.n == 0) tg_str_puts(s, "0");
  for (int i = 0; i < p.n; i++) {
    tg_i128 k = p.t[i].c;
    tg_str_puts(s, i ? (k < 0 ? " - " : " + ") : k < 0 ? "-" : "");
    if (k < 0) k = -k;
    if (k != 1 || !p.t[i].degree) tg_str_puts(s, tg_integer_text(c->job, k));
    for (uint32_t a = 0; a < p.t[i].degree; a++) {
      if (a || k != 1) tg_str_puts(s, "*");
      const tg_atom *v = &c->atoms[p.t[i].atom[a]];
      if (v->kind == TG_ATOM_PARAM && c->job->params.data[v->node->arg].multiple > 1) {
        tg_str_printf(s, "(%s/%lld)", c->job->params.data[v->node->arg].name,
                      (long long)c->job->params.data[v->node->arg].multiple);
      } else put_atom(c, s, p.t[i].atom[a], depth);
    }
  }
}

const char *tg_poly_text(tg_polys *c, tg_poly p) {
  tg_str s = tg_str_new(&c->job->env);
  put_poly(c, &s, p, 0);
  return s.data;
}

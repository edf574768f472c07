/* SPDX-License-Identifier: MIT
 * Kernels as an author writes them for threads: workgroups around memory that threads share, filled by one nest of local and lane
 * ranges and read by another with other subscripts (transposed, shifted, reversed, with halos); tiles staged inside sequential
 * loops, sums kept over them, state carried, values exchanged between lanes, barriers where the author likes one.
 * Needs the generator's ranges and expressions; every range of a nest of threads has a constant extent. */
#include <stdio.h>
#include <string.h>
#include "grammar.h"

enum { SCOPES = 2 };

static void indent(gen *g, out *o) { put(o, "%*s", 2 + g->n_open, ""); }

/* ---- ranges ---- */

enum { GRID, ORDERED, TEAM, PLAIN };

static bool team_has_room(const gen *g, int value);

static const range *open_kind(gen *g, out *o, int what) {
  static const int few[] = {2, 1, 3, 4}, threads[] = {4, 1, 2, 3, 5, 8, 16, 17, 32, 33};
  static const char *const grid[] = {"global", "thread", "loop", "global"}, *const team[] = {"lane", "local", "lane", "local", "upcast", "loop", "thread"};
  range *r = open_range(g, 'r');
  bool wide = g->work < 60;
  r->constant = true;
  const char *kind = "loop";
  if (what == GRID || what == ORDERED) {
    r->value = few[draw(g, 4)];
    if (what == GRID) kind = g->n_open == 1 ? grid[draw(g, 4)] : draw(g, 3) == 2 ? "loop" : "global";
    else if (draw(g, 6) == 5) kind = "unroll";
    else if (g->p->params && !g->large && draw(g, 4) == 3) {
      int q = (int)draw(g, (uint32_t)g->p->params);
      r->constant = false, r->value = (int)g->p->param[q];
      snprintf(r->extent, sizeof r->extent, "ceildiv(P%d, 8)", q);
      r->value = (r->value + 7) / 8;
    }
  } else {
    r->value = threads[draw(g, wide ? 10 : g->work < 300 ? 6 : 4)];
    if (what == TEAM && team_has_room(g, r->value)) kind = team[draw(g, 6)];
  }
  if (r->constant) snprintf(r->extent, sizeof r->extent, "%d", r->value);
  strcpy(r->dim, r->extent);
  r->lockstep = !strcmp(kind, "lane") || !strcmp(kind, "local") || !strcmp(kind, "upcast");
  r->lane = !strcmp(kind, "lane");
  r->ordered = !strcmp(kind, "loop") || !strcmp(kind, "unroll");
  g->work *= r->value > 0 ? r->value : 1;
  opt_name(g, r);
  bool says = strcmp(kind, "loop");
  put(o, "range(%s, %s%s%s) ", r->name, r->extent, says ? ", " : "", says ? kind : "");
  return r;
}

/* Room among the threads of a workgroup, a power of two for each range. */
static bool team_has_room(const gen *g, int value) {
  int room = 1024;
  for (int i = 0; i < g->n_open; i++)
    for (int n = 1; g->open[i].lockstep && n < g->open[i].value; n *= 2) room /= 2;
  for (int n = 1; n < value; n *= 2) room /= 2;
  return room >= 1;
}

/* The nest that fills a tile, or goes over it: one range for each of its dimensions. */
static void nest_over(gen *g, out *o, const buffer *t) {
  static const char *const kinds[] = {"lane", "local", "", "lane", "local", "upcast"};
  for (int d = 0; d < t->rank; d++) {
    range *r = open_range(g, 'r');
    const char *kind = kinds[draw(g, 6)];
    strcpy(r->extent, t->dims[d]), strcpy(r->dim, t->dims[d]);
    sscanf(r->dim, "%d", &r->value);
    if (!team_has_room(g, r->value)) kind = "";
    r->constant = true, r->lockstep = *kind, r->lane = *kind == 'l' && kind[1] == 'a', r->ordered = !*kind;
    g->work *= r->value;
    opt_name(g, r);
    put(o, "range(%s, %s%s%s) ", r->name, r->extent, *kind ? ", " : "", kind);
  }
}

/* ---- reading ---- */

static bool subscript_within(gen *g, out *o, int n, bool *gated) {
  const range *r = &g->open[g->n_open - 1 - (int)draw(g, (uint32_t)g->n_open)];
  bool fits = r->constant && r->value <= n;
  uint32_t how = draw(g, 10);
  int by = 1 + (int)draw(g, 3);
  switch (how) {
  case 1: case 2:
    has(g, FUZZ_reversed);
    if (fits) put(o, "%d - %s", n - 1, r->name);
    else put(o, "%d - %s%%%d", n - 1, r->name, n);
    return true;
  case 3: has(g, FUZZ_rotated), put(o, "(%s + %d)%%%d", r->name, by, n); return true;
  case 4:
    has(g, FUZZ_edge);
    if (fits) put(o, "max(%s - %d, 0)", r->name, by);
    else put(o, "min(%s, %d)", r->name, n - 1);
    return true;
  case 5: has(g, FUZZ_edge), put(o, "min(%s + %d, %d)", r->name, by, n - 1); return true;
  case 6: has(g, FUZZ_halo), *gated = true, put(o, "%s %c %d", r->name, by & 1 ? '-' : '+', by); return true;
  case 7:
    if (!r->constant || (r->value + 1) / 2 > n) break;
    put(o, "%s/2", r->name);
    return true;
  case 8: put(o, "%d", (int)draw(g, (uint32_t)n)); return true;
  case 9: {
    const range *q = &g->open[(int)draw(g, (uint32_t)g->n_open)];
    has(g, FUZZ_halo);
    if (q != r && fits && q->constant && r->value + q->value - 1 <= n) put(o, "%s + %s", r->name, q->name);
    else put(o, "(%s + %s*%d)%%%d", r->name, q->name, by, n);
    return true;
  }
  }
  if (!fits) put(o, "%s%%%d", r->name, n);
  else if (r->value < n && draw(g, 2)) has(g, FUZZ_halo), put(o, "%s + %d", r->name, n - r->value);
  else put(o, "%s", r->name);
  return true;
}

bool load_tile(gen *g, out *o, type t, double *size) {
  if (!g->n_tile || draw(g, 3) == 0) return false;
  const buffer *b = &g->tile[g->n_tile - 1 - (int)draw(g, (uint32_t)g->n_tile)];
  if (b->t != t || b->unread || !g->n_open || (g->own && !(b->private && g->own <= b->level))) return false;
  char text[256];
  out w = {text, text + sizeof text};
  bool gated = false;
  put(&w, "%s[", b->name);
  for (int d = 0; d < b->rank; d++) {
    int n = 0;
    sscanf(b->dims[d], "%d", &n);
    if (d) put(&w, ", ");
    subscript_within(g, &w, n, &gated);
  }
  put(o, gated ? "(%s] else %s(%d))" : "%s]", text, type_name[t], (int)draw(g, 3));
  *size = b->size;
  return true;
}

/* What another iteration of an open lane range has. */
bool load_shuffled(gen *g, out *o, type t, double *size) {
  const range *l = NULL;
  if (t == BOOL || g->own || g->reduces || draw(g, 8) != 7) return false;
  for (int i = g->n_open; i-- > 0;) /* the outermost: on a host one of nested lane ranges is the vector */
    if (g->open[i].lane && g->open[i].constant) l = &g->open[i];
  if (!l) return false;
  has(g, FUZZ_shuffled);
  g->own = 1 + (int)(l - g->open);
  put(o, "shuffle(");
  *size = leaf(g, o, t);
  g->own = 0;
  switch (draw(g, 4)) {
  case 0: put(o, ", %s, %s + 1)", l->name, l->name); break;
  case 1: put(o, ", %s, %s ^ 1)", l->name, l->name); break;
  case 2: put(o, ", %s, %d - %s)", l->name, l->value - 1, l->name); break;
  default: put(o, ", %s, %d)", l->name, (int)draw(g, (uint32_t)l->value));
  }
  return true;
}

/* ---- statements ---- */

static double cap(const gen *g) { return g->p->mode != FUZZ_EXACT ? 1e300 : limit_of(g, g->main) / 8; }

static void barrier(gen *g, out *o) {
  if (draw(g, 5) != 4) return;
  has(g, FUZZ_barrier);
  indent(g, o), put(o, "barrier();\n");
}

/* The loops from mark on are closed after one statement. */
static void close_nest(gen *g, int mark, int64_t work) { close_ranges(g, mark), g->work = work; }

static buffer *define(gen *g, out *o) {
  if (g->n_tile == 6) return NULL;
  static const int sizes[] = {4, 2, 3, 5, 8, 16, 17, 32, 33};
  buffer *t = &g->tile[g->n_tile];
  *t = (buffer){.t = g->main, .rank = 1 + (int)draw(g, 2), .level = g->n_open};
  bool private = t->private = draw(g, 4) == 3;
  fresh(g, t->name, 't');
  if (g->n_tile_names < 12) strcpy(g->tile_names[g->n_tile_names++], t->name);
  has(g, private ? FUZZ_private_tile : FUZZ_shared_tile);
  if (t->rank == 2) has(g, FUZZ_tile2);
  for (int i = 0; i < g->n_open; i++) has(g, g->open[i].lockstep ? FUZZ_tile_in_lane : g->open[i].ordered ? FUZZ_tile_in_loop : private ? FUZZ_private_tile : FUZZ_shared_tile);
  indent(g, o), put(o, "define_%s(%s, %s, [", private ? "reg" : "local", t->name, type_name[t->t]);
  for (int d = 0; d < t->rank; d++) {
    snprintf(t->dims[d], sizeof t->dims[d], "%d", sizes[draw(g, t->rank == 2 || g->work > 200 ? 5 : 9)]);
    put(o, "%s%s", d ? ", " : "", t->dims[d]);
  }
  put(o, "]);\n");
  t->unread = true;
  g->n_tile++;
  return t;
}

static void fill(gen *g, out *o, buffer *t, bool zero) {
  int mark = g->n_open;
  int64_t work = g->work;
  indent(g, o), nest_over(g, o, t), element(g, o, t, mark, draw(g, 4) == 3), put(o, " = ");
  if (zero) put(o, "%s(0)", type_name[t->t]);
  else t->used = expression(g, o, t->t);
  put(o, ";\n");
  close_nest(g, mark, work);
  t->size = t->used > cap(g) ? t->used : cap(g);
  if (g->p->mode == FUZZ_EXACT && t->used * 16 < t->size) t->size = t->used * 16;
  if (zero) t->size = cap(g);
  t->unread = false;
}

/* Its elements change, each by its own iteration. The tile belongs to the same iterations of parallel ranges as the statement. */
static void update(gen *g, out *o) {
  buffer *t = &g->tile[(int)draw(g, (uint32_t)g->n_tile)];
  double times = 1;
  if (t->unread) return;
  for (int i = t->level; i < g->n_open; i++) {
    if (!g->open[i].ordered) return;
    times *= g->open[i].value > 0 ? g->open[i].value : 1;
  }
  has(g, FUZZ_tile_update);
  int mark = g->n_open;
  int64_t work = g->work;
  char nest[256], value[8192];
  out n = {nest, nest + sizeof nest}, v = {value, value + sizeof value};
  nest_over(g, &n, t);
  t->unread = true;
  double size = expression(g, &v, t->t);
  t->unread = false;
  bool fits = t->used + size * times <= t->size;
  if (!fits && size > t->size) {
    close_nest(g, mark, work);
    return;
  }
  if (fits) t->used += size * times;
  indent(g, o), put(o, "%s", nest), element(g, o, t, mark, draw(g, 4) == 3);
  put(o, " %s %s;\n", fits ? "+=" : "max=", value);
  close_nest(g, mark, work);
}

/* Neighbours' values there and back: all lanes read what all lanes wrote, in each iteration. */
static void exchange(gen *g, out *o) {
  if (!g->n_tile || g->n_tile == 6) return;
  int at = (int)draw(g, (uint32_t)g->n_tile), tiles = g->n_tile, mark = g->n_open;
  buffer *t = &g->tile[at];
  int64_t work = g->work;
  if (t->unread || g->work > 200) return;
  for (int i = t->level; i < g->n_open; i++)
    if (!g->open[i].ordered) return;
  has(g, FUZZ_exchange);
  indent(g, o), open_kind(g, o, ORDERED), put(o, "{\n");
  int inside = g->n_open;
  buffer only = *t, saved[6];
  memcpy(saved, g->tile, sizeof saved);
  g->tile[0] = only, g->n_tile = 1;
  buffer *u = define(g, o);
  indent(g, o);
  int64_t in = g->work;
  nest_over(g, o, u), element(g, o, u, inside, false);
  double size = only.size;
  put(o, " = "), load_tile(g, o, u->t, &size) || (put(o, "%s(1)", type_name[u->t]), 0);
  put(o, ";\n");
  close_nest(g, inside, in);
  u->unread = false, u->size = only.size;
  barrier(g, o);
  g->tile[0].unread = true;
  indent(g, o), nest_over(g, o, &only), element(g, o, &only, inside, false);
  put(o, " = "), load_tile(g, o, u->t, &size) || (put(o, "%s(2)", type_name[u->t]), 0);
  put(o, ";\n");
  barrier(g, o);
  close_nest(g, mark, work);
  indent(g, o), put(o, "}\n");
  memcpy(g->tile, saved, sizeof saved);
  g->n_tile = tiles;
}

/* An output: its subscripts are the ranges that are open, and those of a nest of its own. */
static void results(gen *g, out *o) {
  if (g->n_done == 8 || g->n_open >= RANK) return;
  int mark = g->n_open;
  int64_t work = g->work;
  indent(g, o);
  do open_kind(g, o, TEAM);
  while (g->n_open < RANK && g->n_open < mark + 2 && draw(g, 2));
  buffer *b = output(g, g->main, g->n_open, 0);
  element(g, o, b, 0, draw(g, 6) == 5);
  put(o, " = "), b->size = expression(g, o, g->main), put(o, ";\n");
  b->unread = b->size > limit_of(g, g->main) / 8 || mark; /* in the middle of a nest: only nests after it may read */
  g->n_done++;
  close_nest(g, mark, work);
}

static void block(gen *g, out *o, int depth);

/* A sum over a sequential loop that stages what it adds. */
static void sum_over_tiles(gen *g, out *o, int depth) {
  int mark = g->n_open, tiles = g->n_tile;
  int64_t work = g->work;
  buffer *t = define(g, o);
  if (!t) return;
  has(g, FUZZ_sum_tile);
  fill(g, o, t, true);
  indent(g, o), open_kind(g, o, ORDERED), put(o, "{\n");
  block(g, o, depth - 1);
  g->tile[tiles].unread = false;
  if (g->n_tile > tiles + 1) update(g, o);
  indent(g, o);
  int inside = g->n_open;
  nest_over(g, o, t), element(g, o, t, inside, false);
  g->tile[tiles].unread = true;
  double times = g->open[mark].value > 0 ? g->open[mark].value : 1, size;
  char value[8192];
  out v = {value, value + sizeof value};
  g->depth += 1, size = expression(g, &v, t->t), g->depth -= 1;
  g->tile[tiles].unread = false;
  put(o, " %s %s;\n", size * times + t->used <= t->size ? "+=" : "max=", size <= t->size ? value : "1");
  if (size * times + t->used <= t->size) t->used += size * times;
  close_nest(g, mark, work);
  indent(g, o), put(o, "}\n");
  g->n_tile = tiles + 1;
}

static void carried(gen *g, out *o) {
  if (g->n_tile > 4) return;
  char m[16], s[16];
  int mark = g->n_open;
  int64_t work = g->work;
  const char *t = type_name[g->main];
  bool most = is_float(g->main);
  if (g->main == F16 || g->main == BF16) return;
  has(g, FUZZ_carry);
  fresh(g, m, 't'), fresh(g, s, 't');
  indent(g, o), put(o, "define_reg(%s, %s, []); define_reg(%s, %s, []); %s = %s(0); %s = %s%s;\n", s, t, m, t, s, t, m, most ? "-" : t, most ? "inf" : "(0)");
  indent(g, o);
  range *r = open_range(g, 'r');
  choose_extent(g, r, false);
  r->ordered = true;
  put(o, "range(%s, %s) carry(%s, %s) {\n", r->name, r->extent, m, s);
  double size;
  indent(g, o), put(o, "%s %s ", m, most ? "max=" : "+="), leaf(g, o, g->main), put(o, ";\n");
  indent(g, o), put(o, "%s += ", s), size = leaf(g, o, g->main), put(o, ";\n");
  indent(g, o), put(o, most ? "merge { %s = max(a.%s, b.%s); %s = a.%s + b.%s; }\n" : "merge { %s = a.%s + b.%s; %s = a.%s + b.%s; }\n", m, m, m, s, s, s);
  size *= r->value > 0 ? r->value : 1;
  close_nest(g, mark, work);
  indent(g, o), put(o, "}\n");
  if (g->n_open > RANK || g->n_done == 8 || !g->n_open) return;
  buffer *b = output(g, g->main, g->n_open, 0);
  indent(g, o), element(g, o, b, 0, false), put(o, " = where(%s > %s(0), %s, %s(0)) + %s;\n", m, t, s, t, s);
  b->size = 2 * size, b->unread = true;
  g->n_done++;
}

static void block(gen *g, out *o, int depth) {
  buffer *t = define(g, o);
  if (t) fill(g, o, t, false);
  barrier(g, o);
  for (int i = 0; i < 2; i++) {
    int mark = g->n_open;
    int64_t work = g->work;
    uint32_t what = draw(g, 14);
    bool room = depth > 0 && g->work < 60 && g->n_open < RANK - 1 && g->n_done < 6;
    switch (what) {
    case 0: case 1: return;
    case 2: case 3: results(g, o); break;
    case 4: case 5:
      if (g->n_tile) update(g, o);
      break;
    case 6: exchange(g, o); break;
    case 7: if ((t = define(g, o))) fill(g, o, t, false); break;
    case 8: if (room) sum_over_tiles(g, o, depth); break;
    case 9: carried(g, o); break;
    default:
      if (!room) break;
      indent(g, o), open_kind(g, o, what > 11 ? TEAM : ORDERED), put(o, "{\n");
      {
        int in = g->n_tile;
        block(g, o, depth - 1);
        if (draw(g, 2)) results(g, o);
        g->n_tile = in;
      }
      close_nest(g, mark, work);
      indent(g, o), put(o, "}\n");
    }
    barrier(g, o);
  }
}

void threads_nest(gen *g, out *o) {
  g->n_open = 0, g->n_tile = 0, g->work = 1, g->depth = 2, g->reduces = 0;
  put(o, "  ");
  do open_kind(g, o, GRID);
  while (g->n_open < 2 && draw(g, 3) == 2);
  put(o, "{\n");
  block(g, o, SCOPES);
  results(g, o);
  put(o, "  }\n");
}

/* ---- words that other kernels have no use for ---- */

void threads_opts(gen *g, out *o) {
  static const char *const spaces[] = {"", " space=thread", " space=team", " space=reg", " space=local"};
  for (int i = 0; i < 2 && g->words.ranges && draw(g, 3); i++) {
    char r[WORDS_NAME], a[16];
    uint32_t k = draw(g, 10);
    snprintf(r, sizeof r, "%s", words_pick(&g->words, k > 3));
    bool tile = g->n_tile_names && draw(g, 2);
    char what[16];
    snprintf(what, sizeof what, "x%d", (int)draw(g, 3));
    if (tile) strcpy(what, g->tile_names[draw(g, (uint32_t)g->n_tile_names)]);
    switch (k) {
    case 0: case 1: case 2:
      fresh(g, a, 'S');
      put(o, "opt(stage %s at %s as %s%s%s); ", what, r, a, spaces[draw(g, 5)], draw(g, 3) == 2 ? " depth=2" : "");
      if (draw(g, 2)) {
        put(o, "opt(%s %.10s.0 %d); ", draw(g, 2) ? "lane" : "local", a, 4 << draw(g, 3));
      }
      break;
    case 3: put(o, "opt(global %s); ", r); break;
    case 4: case 5: put(o, "opt(group %s); ", r); break;
    case 6: case 7: put(o, "opt(%s %s %d); ", draw(g, 2) ? "local" : "lane", r, 2 << draw(g, 4)); break;
    case 8: if (tile) put(o, "opt(place %s memory); ", what); break;
    default: put(o, "opt(unroll %s); ", r);
    }
  }
}

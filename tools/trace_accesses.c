/* SPDX-License-Identifier: MIT
 * tg trace: how each access of the program after the last pass moves through memory: a row an access, a strip of
 * elements for each loop around it, with those that the first iterations touch. The strides are the cost model's. */
#include <math.h>
#include <string.h>
#include "dsl/text.h"
#include "model/cost_memory.h"
#include "trace.h"

enum { ROWS = 80, CELLS = 24, CELL = 9, ROW = 30, LEFT = 250, COLUMN = 260 };

typedef struct { FILE *to; const char *text; const tg_target *target; tg_job job; tg_cost_loops loops; } picture;

static bool in_register(tg_job *j, const tg_uop *access) {
  const tg_buffer *b = tg_buffer_info(j, tg_define_of(access->src[0]));
  return b->space == TG_SPACE_REG;
}

/* Loops nest as deep as the program's text, which the parser has bounded. */
static void walk(picture *p, const tg_uop *const *list, uint32_t n, uint32_t loop) {
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    if (u->op == TG_OP_END) {
      tg_bounds trips = tg_bounds_of(&p->job, tg_extent(u->src[0]));
      double most = trips.hi > (tg_i128)1 << 50 ? 0x1p50 : (double)trips.hi;
      walk(p, u->src + 1, u->n - 1,
           tg_cost_loop(&p->loops, u->src[0], loop, most, tg_range_kind(u->src[0]) == TG_THREAD));
    } else if ((u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && !in_register(&p->job, u))
      tg_cost_access(&p->loops, u, loop);
  }
}

static double element_of(const tg_cost_access_info *a) {
  const tg_uop *d = tg_define_of(a->access->src[0]);
  return fmax(1, tg_type_bytes(d->type)) * d->lanes;
}

/* One strip: stride in elements, each: elements that one execution touches. */
static void put_strip(picture *p, double x, double y, double stride, double each, double trips) {
  const char *colour = isnan(stride) ? "bad" : stride == 0 ? "link" : fabs(stride) <= each ? "good" : "mid";
  bool hit[CELLS] = {false};
  /* far strides are drawn nearer, so that a strip shows some of them */
  double width = fmin(each, 4), step = isnan(stride) ? 0 : stride == 0 ? 0 : fabs(stride) <= each ? width : width + 3;
  for (double i = 0; i < trips && i < CELLS && (step > 0 || i < 1); i++)
    for (double k = 0; k < width && i * step + k < CELLS; k++) hit[(int)(i * step + k)] = !isnan(stride);
  for (int i = 0; i < CELLS; i++)
    fprintf(p->to, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"var(--%s)\"/>", x + i * CELL, y,
            CELL - 1, CELL - 1, hit[i] ? colour : "line");
  fprintf(p->to, "<text x=\"%.0f\" y=\"%.0f\" fill=\"var(--%s)\">", x, y + 20, colour);
  if (isnan(stride)) fputs("by no constant stride", p->to);
  else if (stride == 0) fputs("the same data again", p->to);
  else if (fabs(stride) <= each) fprintf(p->to, "contiguous, %g on", stride);
  else fprintf(p->to, "strided, %g on", stride);
  fprintf(p->to, " (%g times)</text>\n", trips);
}

static void put_access(picture *p, const tg_cost_access_info *a, double y) {
  tg_job *j = &p->job;
  double element = element_of(a), x = LEFT;
  const tg_buffer *b = tg_buffer_info(j, tg_define_of(a->access->src[0]));
  fprintf(p->to, "<text x=\"4\" y=\"%.0f\" fill=\"var(--ink)\">%s ", y + 8,
          a->access->op == TG_OP_STORE ? "store" : "load");
  trace_text(p->to, b->name, strlen(b->name));
  fprintf(p->to, "</text><text x=\"4\" y=\"%.0f\" fill=\"var(--ink)\">%g bytes", y + 21, a->bytes);
  if (a->same > 1) fprintf(p->to, ", %g such", a->same);
  if (a->same > 1 && a->apart > 0) fprintf(p->to, ", %g bytes apart", a->apart);
  fputs("</text>\n", p->to);
  for (uint32_t r = a->loop; r != TG_COST_NONE; r = p->loops.loop.data[r].outer, x += COLUMN) {
    const tg_cost_loop_info *l = &p->loops.loop.data[r];
    const char *name = j->ranges.data[tg_range_ordinal(l->range)].name;
    fprintf(p->to, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\" fill=\"var(--ink)\">", x - 4, y + 8);
    trace_text(p->to, name ? name : "", name ? strlen(name) : 0);
    fputs("</text>", p->to);
    if (l->depth < TG_COST_DEPTH) put_strip(p, x, y, a->stride[l->depth], a->bytes / element, l->trips);
  }
}

static void draw(void *user) {
  picture *p = user;
  tg_cost cost = {0};
  tg_parse_kernel(&p->job, "linear", p->text, 0, NULL);
  p->loops.j = &p->job;
  walk(p, p->job.sink->src, p->job.sink->n, TG_COST_NONE);
  tg_cost_memory(&p->loops, p->target, p->job.sink, 1, &cost);
  uint32_t n = p->loops.access.n < ROWS ? p->loops.access.n : ROWS, depth = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t r = p->loops.access.data[i].loop, d = r == TG_COST_NONE ? 0 : p->loops.loop.data[r].depth + 1;
    if (d > depth) depth = d;
  }
  fprintf(p->to, "<div class=\"wide\" tabindex=\"0\"><svg width=\"%u\" height=\"%u\" font-size=\"11\" "
                 "font-family=\"sans-serif\" role=\"img\" aria-label=\"Accesses\">\n",
          LEFT + COLUMN * depth, ROW * n + 10);
  for (uint32_t i = 0; i < n; i++) put_access(p, &p->loops.access.data[i], 8 + ROW * (double)i);
  fputs("</svg></div>\n", p->to);
  if (n < p->loops.access.n) fprintf(p->to, "<p>%u accesses more.</p>\n", p->loops.access.n - n);
}

void trace_accesses(FILE *to, const trace *t) {
  const trace_stage *linear = trace_find(t, "linear");
  fputs("<section id=\"accesses\"><h2>Memory accesses</h2>\n", to);
  if (!linear || !t->cost) fputs("<p>The cost model, whose strides these are, is of CPUs.</p>\n", to);
  else {
    static picture p;
    fputs("<p class=\"note\">Of the program after the last pass, from the innermost loop outwards: which elements its "
          "first iterations touch, in elements from one iteration to the next. Unrolled copies that lie close are one "
          "row. Far steps are drawn nearer.</p>\n", to);
    p = (picture){.to = to, .text = linear->text, .target = t->target};
    tg_job_init(&p.job, NULL);
    if (!tg_protect(&p.job.env, draw, &p)) fputs("<p>It cannot be drawn.</p>\n", to);
    tg_job_drop(&p.job);
  }
  fputs("</section>\n", to);
}

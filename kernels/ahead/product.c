/* SPDX-License-Identifier: MIT
 * A plan of a product as a function: checks as those of gemm/run.c, in IR; parts, cases and strips as there. One
 * product a call: batches and groups are the caller's loop. */
#include <stdio.h>
#include "ahead/function.h"
#include "ahead/product.h"
#include "gemm/sketch.h"

typedef struct {
  tg_function f;
  const tg_gemm *const *g;     /* of each target */
  const tg_gemm_problem *q;    /* the same for all */
  uint32_t number;             /* of the function in its object */
  uint32_t strips;             /* functions of strips so far */
  tg_str behind;               /* they */
  tg_ir size[3];               /* m, n, k */
} product;

static const tg_ir operands = {"%o"}, values = {"%v"};

/* ---- what a call leaves out ---- */

typedef struct { tg_ir rows, columns; int64_t step, fixed; uint8_t major; } lines;

static lines lines_of(product *p, uint32_t x) {
  tg_wrapper *w = p->f.w;
  const tg_gemm_problem *q = p->q;
  const tg_ir rows[3] = {p->size[0], p->size[2], p->size[0]}, columns[3] = {p->size[2], p->size[1], p->size[1]};
  const uint8_t major[3] = {q->a_major, q->b_major, q->c_major};
  const int64_t step[3] = {q->a_step, q->b_step, q->c_step};
  lines l = {rows[x], columns[x], step[x] > 1 ? step[x] : 1, p->g[0]->ld[x].lo, major[x]};
  if (x == 1 && q->bits == 4 && !q->panel) {   /* two elements are a byte */
    tg_ir *side = l.major == TG_GEMM_COLUMN ? &l.rows : &l.columns;
    *side = tg_ir_divided(w, tg_ir_add(w, *side, tg_ir_number(1)), tg_ir_number(2));
  }
  return l;
}

/* The leading dimension of operand x, as tg_kit_read_layout completes it. */
static tg_ir leading(product *p, uint32_t x, tg_ir given) {
  tg_wrapper *w = p->f.w;
  lines l = lines_of(p, x);
  tg_ir one = tg_ir_number(1), zero = tg_ir_number(0);
  if (l.major == TG_GEMM_STRIDES) {
    tg_ir other = tg_ir_put(w, "or i64 %s, %%stepof%u", given.text, x);
    return tg_ir_select(w, tg_ir_is(w, "eq", other, zero), tg_ir_larger(w, l.columns, one), given);
  }
  bool column = l.major == TG_GEMM_COLUMN;
  tg_ir side = column ? l.rows : l.columns, others = column ? l.columns : l.rows, step = tg_ir_number(l.step);
  if (x == 1 && p->q->bits == 4) {
    tg_ir odd = tg_ir_put(w, "and i64 %s, 1", given.text);
    tg_wrapper_check(w, tg_ir_is(w, "eq", odd, zero), "ldb elements of four bits are no whole bytes");
    given = tg_ir_divided(w, given, tg_ir_number(2));
  }
  tg_ir dense = tg_ir_mul(w, tg_ir_larger(w, side, one), step),
        least = tg_ir_add(w, tg_ir_sub(w, dense, step), one);
  tg_ir open = tg_ir_put(w, "or i1 %s, %s", tg_ir_is(w, "eq", given, zero).text, tg_ir_is(w, "sle", others, one).text),
        less = tg_ir_is(w, "slt", given, least);
  return tg_ir_select(w, tg_ir_put(w, "and i1 %s, %s", open.text, less.text), dense, given);
}

static tg_ir groups_line(product *p, tg_ir given) {
  tg_wrapper *w = p->f.w;
  const tg_gemm_problem *q = p->q;
  tg_ir one = tg_ir_number(1), groups = one;
  if (q->group)
    groups = tg_ir_divided(w, tg_ir_add(w, p->size[2], tg_ir_number(q->group - 1)), tg_ir_number(q->group));
  bool by_column = q->group_major == TG_GEMM_COLUMN;
  tg_ir rows = by_column ? p->size[1] : groups, columns = by_column ? groups : p->size[1];
  tg_ir open = tg_ir_put(w, "or i1 %s, %s", tg_ir_is(w, "eq", given, tg_ir_number(0)).text,
                         tg_ir_is(w, "sle", rows, one).text),
        less = tg_ir_is(w, "slt", given, columns);
  return tg_ir_select(w, tg_ir_put(w, "and i1 %s, %s", open.text, less.text), tg_ir_larger(w, columns, one), given);
}

/* Gives each parameter %aN its value %pN: a leading dimension of 0 is the dense one. */
static void complete(product *p) {
  tg_wrapper *w = p->f.w;
  const tg_signature *s = w->signature;
  const tg_kit_names *names = tg_gemm_names(p->q);
  for (uint32_t i = 0; i < s->params_n; i++) {
    uint32_t v = tg_function_number(tg_signature_strings(s) + tg_signature_params(s)[i].name, names->value,
                                    names->values_n);
    if (v >= GEMM_COLUMN_STEP && v < GEMM_ARG_LD)
      tg_str_printf(&w->out, "  %%stepof%u = add i64 %%a%u, 0\n", v - GEMM_COLUMN_STEP, i);
  }
  for (uint32_t i = 0; i < s->params_n; i++) {
    uint32_t v = tg_function_number(tg_signature_strings(s) + tg_signature_params(s)[i].name, names->value,
                                    names->values_n);
    tg_ir a = tg_ir_put(w, "add i64 %%a%u, 0", i);
    if (v >= GEMM_ROW_STEP && v < GEMM_COLUMN_STEP) a = leading(p, v - GEMM_ROW_STEP, a);
    else if (v >= GEMM_COLUMN_STEP && v < GEMM_ARG_LD) {
      tg_ir both = tg_ir_put(w, "or i64 %s, %%given%u", a.text, v - GEMM_COLUMN_STEP);
      a = tg_ir_select(w, tg_ir_is(w, "eq", both, tg_ir_number(0)), tg_ir_number(1), a);
    } else if (v >= GEMM_ARG_LD && v < GEMM_GROUP_LD)
      a = tg_ir_select(w, tg_ir_is(w, "eq", a, tg_ir_number(0)), tg_ir_larger(w, p->size[1], tg_ir_number(1)), a);
    else if (v == GEMM_GROUP_LD) a = groups_line(p, a);
    tg_str_printf(&w->out, "  %%p%u = add i64 %s, 0\n", i, a.text);
    if (v >= GEMM_ROW_STEP && v < GEMM_COLUMN_STEP)
      tg_str_printf(&w->out, "  %%given%u = add i64 %%a%u, 0\n", v - GEMM_ROW_STEP, i);
  }
}

/* ---- operands and values ---- */

static tg_ir line_value(product *p, uint32_t x) {
  const char *const names[] = {"lda", "ldb", "ldc"};
  return tg_function_value(p->f.w, names[x], p->g[0]->ld[x].lo);
}

static tg_ir next_value(product *p, uint32_t x) {
  const char *const names[] = {"stepa", "stepb", "stepc"};
  const int64_t step[3] = {p->q->a_step, p->q->b_step, p->q->c_step};
  return tg_function_value(p->f.w, names[x], step[x] > 1 ? step[x] : 1);
}

static void gather(product *p) {
  tg_wrapper *w = p->f.w;
  const tg_signature *s = w->signature;
  const tg_kit_names *names = tg_gemm_names(p->q);
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    uint32_t at = tg_function_number(tg_signature_strings(s) + tg_signature_buffers(s)[i].name, names->operand,
                                     names->operands_n);
    tg_ir b;
    snprintf(b.text, sizeof b.text, "%%b%u", i);
    if (at < names->operands_n) tg_ir_store(w, "ptr", b, operands, at);
  }
  for (uint32_t i = 0; i < 3; i++) {
    tg_ir_store(w, "i64", p->size[i], values, GEMM_M + i);
    tg_ir_store(w, "i64", line_value(p, i), values, GEMM_ROW_STEP + i);
    tg_ir_store(w, "i64", next_value(p, i), values, GEMM_COLUMN_STEP + i);
  }
  for (uint32_t i = GEMM_ARG_LD; i < GEMM_VALUES; i++)
    tg_ir_store(w, "i64", tg_function_value(w, names->value[i], 0), values, i);
}

/* ---- strips ---- */

static int64_t panel_bytes(const tg_gemm *g) {
  return (int64_t)g->packed / ((g->problem.n.lo + g->problem.panel - 1) / g->problem.panel);
}

static tg_ir element_bytes(tg_wrapper *w, tg_ir elements, tg_type t) {
  return tg_ir_mul(w, elements, tg_ir_number(tg_type_bytes(t)));
}

/* Moves operand `at` of the strip's own array by bytes. */
static void move(tg_wrapper *w, uint32_t at, tg_ir bytes) {
  tg_ir was = tg_ir_load(w, "ptr", operands, at),
        is = tg_ir_put(w, "getelementptr i8, ptr %s, i64 %s", was.text, bytes.text);
  tg_ir_store(w, "ptr", is, operands, at);
}

/* The operands of a strip of rows, or of columns, that begins at %from: run_strip of gemm/run.c. */
static void move_operands(product *p, const tg_gemm *g, bool rows) {
  tg_wrapper *w = p->f.w;
  const tg_gemm_problem *q = p->q;
  const tg_ir from = {"%from"};
  const tg_type type[3] = {q->a, q->b, q->c};
  const uint8_t major[3] = {q->a_major, q->b_major, q->c_major};
  for (uint32_t x = 0; x < 3; x++) {
    if (!(x == 2 || (x == 0) == rows)) continue;
    bool by_line = (major[x] == TG_GEMM_COLUMN) != rows;   /* the step from row to row, or from column to column */
    if (x == 1 && q->panel) {
      tg_ir panel = tg_ir_divided(w, from, tg_ir_number(q->panel));
      move(w, x, tg_ir_mul(w, panel, tg_ir_number(panel_bytes(g))));
      continue;
    }
    tg_ir step = tg_ir_load(w, "i64", values, (by_line ? GEMM_ROW_STEP : GEMM_COLUMN_STEP) + x),
          elements = tg_ir_mul(w, from, step);
    move(w, x, x == 1 && q->bits == 4 ? elements : element_bytes(w, elements, type[x]));
  }
  for (uint32_t i = 0; i < 2 && q->bits && !rows; i++) {
    if (i && !q->zero) continue;
    tg_ir elements = q->group_major == TG_GEMM_COLUMN
                         ? tg_ir_mul(w, from, tg_ir_load(w, "i64", values, GEMM_GROUP_LD))
                         : from;
    move(w, GEMM_SCALE + i, element_bytes(w, elements, i ? q->zero : q->scale));
  }
  for (uint32_t a = 0; a < q->arguments_n; a++) {
    uint8_t per = q->argument[a].per;
    if (!(per & (rows ? TG_PER_ROW : TG_PER_COLUMN))) continue;
    tg_ir elements = per == TG_PER_ELEMENT && rows
                         ? tg_ir_mul(w, from, tg_ir_load(w, "i64", values, GEMM_ARG_LD + a))
                         : from;
    move(w, GEMM_ARG + a, element_bytes(w, elements, q->argument[a].type));
  }
}

static void copy_array(tg_wrapper *w, const char *type, const char *from, tg_ir to, uint32_t n) {
  tg_ir source;
  snprintf(source.text, sizeof source.text, "%s", from);
  for (uint32_t i = 0; i < n; i++) tg_ir_store(w, type, tg_ir_load(w, type, source, i), to, i);
}

/* The function of a strip, and of the task of a thread, which runs some of them. The closure: operands, values,
 * memory, the number of tasks. Returns the number in the functions' names. */
static uint32_t put_strips(product *p, const tg_gemm *g, const tg_kit_part *part, bool update) {
  tg_wrapper *w = p->f.w;
  uint32_t id = p->number * 1000 + p->strips++, whole = tg_function_add(&p->f, &part->kernel[update]),
           last = part->last[update].kernel ? tg_function_add(&p->f, &part->last[update]) : whole;
  const tg_kit_strips *s = &part->strips;
  tg_str main = w->out;        /* the function that calls it is being written */
  w->out = tg_str_new(w->env);
  tg_str_printf(&w->out,
                "define internal void @strip.s%u(ptr %%o.all, ptr %%v.all, ptr %%memory, i64 %%i) {\n"
                "  %%o = alloca [%d x ptr]\n  %%v = alloca [%d x i64]\n  %%from = mul i64 %%i, %lld\n",
                id, GEMM_OPERANDS, GEMM_VALUES, (long long)s->size);
  copy_array(w, "ptr", "%o.all", operands, GEMM_OPERANDS);
  copy_array(w, "i64", "%v.all", values, GEMM_VALUES);
  tg_ir size = tg_ir_load(w, "i64", values, s->rows ? GEMM_M : GEMM_N),
        left = tg_ir_sub(w, size, (tg_ir){"%from"});
  tg_ir_store(w, "i64", tg_ir_smaller(w, left, tg_ir_number(s->size)), values, s->rows ? GEMM_M : GEMM_N);
  move_operands(p, g, s->rows);
  tg_str_printf(&w->out, "  %%is = icmp eq i64 %%i, %u\n  br i1 %%is, label %%last, label %%one\n", s->n - 1);
  for (int i = 0; i < 2; i++)
    tg_str_printf(&w->out,
                  "%s:\n  call void @call.t%u(ptr %%o, ptr %%v, ptr %%memory, i64 1, ptr null, ptr null)\n"
                  "  ret void\n",
                  i ? "last" : "one", i ? last : whole);
  tg_str_printf(&w->out,
                "}\ndefine internal void @strips.s%u(ptr %%c, i64 %%j) {\n"
                "  %%o = load ptr, ptr %%c\n  %%v.at = getelementptr ptr, ptr %%c, i64 1\n"
                "  %%v = load ptr, ptr %%v.at\n  %%m.at = getelementptr ptr, ptr %%c, i64 2\n"
                "  %%m = load ptr, ptr %%m.at\n  %%by.at = getelementptr ptr, ptr %%c, i64 3\n"
                "  %%by = load i64, ptr %%by.at\n  %%bytes = call i64 @%s.side()\n  %%own = mul i64 %%j, %%bytes\n"
                "  %%memory = getelementptr i8, ptr %%m, i64 %%own\n  br label %%next\n"
                "next:\n  %%i = phi i64 [ %%j, %%0 ], [ %%up, %%run ]\n  %%more = icmp slt i64 %%i, %u\n"
                "  br i1 %%more, label %%run, label %%done\n"
                "run:\n  call void @strip.s%u(ptr %%o, ptr %%v, ptr %%memory, i64 %%i)\n"
                "  %%up = add i64 %%i, %%by\n  br label %%next\ndone:\n  ret void\n}\n",
                id, w->name, s->n, id);
  tg_str_put(&p->behind, w->out.data, w->out.n);
  w->out = main;
  return id;
}

static void run_strips(product *p, const tg_gemm *g, const tg_kit_part *part, bool update) {
  tg_wrapper *w = p->f.w;
  uint32_t id = put_strips(p, g, part, update);
  const tg_ir c = {"%c"}, t = {"%t"};
  tg_ir by = tg_ir_smaller(w, t, tg_ir_number(part->strips.n)), many = tg_ir_is(w, "sgt", by, tg_ir_number(1));
  tg_ir_store(w, "ptr", operands, c, 0), tg_ir_store(w, "ptr", values, c, 1);
  tg_ir_store(w, "ptr", (tg_ir){"%memory"}, c, 2), tg_ir_store(w, "i64", by, c, 3);
  tg_str_printf(&w->out,
                "  br i1 %s, label %%many%u, label %%alone%u\n"
                "many%u:\n  call void %%each(ptr %%user, i64 %s, ptr @strips.s%u, ptr %%c)\n  ret i32 0\n"
                "alone%u:\n  call void @strips.s%u(ptr %%c, i64 0)\n  ret i32 0\n",
                many.text, id, id, id, by.text, id, id, id);
}

/* ---- running ---- */

static void run_kernel(product *p, const tg_kit_kernel *k) {
  tg_str_printf(&p->f.w->out,
                "  call void @call.t%u(ptr %%o, ptr %%v, ptr %%memory, i64 %%t, ptr %%each, ptr %%user)\n  ret i32 0\n",
                tg_function_add(&p->f, k));
}

/* One of the two cases, fresh and update, as the plan has them. */
static void run_cases(product *p, const tg_gemm *g, const tg_kit_part *part, const tg_kit_kernel *cases) {
  tg_wrapper *w = p->f.w;
  bool both = cases[GEMM_FRESH].kernel && cases[GEMM_UPDATE].kernel;
  uint32_t id = w->values++;
  if (both) tg_str_printf(&w->out, "  br i1 %%update, label %%update%u, label %%fresh%u\n", id, id);
  for (uint32_t i = 0; i < GEMM_CASES; i++) {
    if (!cases[i].kernel) continue;
    if (both) tg_str_printf(&w->out, "%s%u:\n", i ? "update" : "fresh", id);
    if (part && part->strips.n > 1) run_strips(p, g, part, i);
    else run_kernel(p, &cases[i]);
  }
}

/* %aliased of this target: do the lines of the rows' operand meet in one set of L1? */
static tg_ir aliased(product *p, const tg_gemm *g) {
  tg_wrapper *w = p->f.w;
  uint32_t x = p->q->c_major == TG_GEMM_COLUMN;
  tg_type t = x ? p->q->b : p->q->a;
  if (!g->open || !g->way) return tg_ir_number(0);
  tg_ir bytes = element_bytes(w, line_value(p, x), t), zero = tg_ir_number(0),
        rest = tg_ir_put(w, "urem i64 %s, %lld", bytes.text, (long long)g->way);
  tg_ir is = tg_ir_put(w, "and i1 %s, %s", tg_ir_is(w, "ne", bytes, zero).text, tg_ir_is(w, "eq", rest, zero).text);
  return tg_ir_put(w, "zext i1 %s to i64", is.text);
}

static void run_parts(product *p, uint32_t target) {
  tg_wrapper *w = p->f.w;
  const tg_gemm *g = p->g[target];
  tg_ir at[GEMM_SIZES] = {p->size[0], p->size[1], p->size[2], aliased(p, g)};
  for (uint32_t i = 0; i < g->parts_n; i++) {
    const tg_kit_part *part = &g->part[i];
    tg_ir fits = tg_ir_put(w, "add i1 true, false");
    for (uint32_t d = 0; d < GEMM_SIZES; d++) {
      tg_ir low = tg_ir_is(w, "sge", at[d], tg_ir_number(part->size[d].lo)),
            high = tg_ir_is(w, "sle", at[d], tg_ir_number(part->size[d].hi));
      fits = tg_ir_put(w, "and i1 %s, %s", fits.text, tg_ir_put(w, "and i1 %s, %s", low.text, high.text).text);
    }
    tg_str_printf(&w->out, "  br i1 %s, label %%part%u.%u, label %%next%u.%u\npart%u.%u:\n", fits.text, target, i,
                  target, i, target, i);
    run_cases(p, g, part, part->kernel);
    tg_str_printf(&w->out, "next%u.%u:\n", target, i);
  }
  tg_str_printf(&w->out, "  ret i32 0\n");   /* no size is left */
}

static tg_ir is_zero(product *p, const char *name) {
  tg_wrapper *w = p->f.w;
  const tg_signature *s = w->signature;
  const tg_type t = p->q->acc;
  for (uint32_t i = 0; i < s->buffers_n; i++)
    if (!strcmp(tg_signature_strings(s) + tg_signature_buffers(s)[i].name, name)) {
      const char *type = t == TG_F32 ? "float" : t == TG_F64 ? "double" : "i32";
      tg_ir v = tg_ir_put(w, "load %s, ptr %%b%u, align 1", type, i);
      return t == TG_I32 ? tg_ir_put(w, "icmp eq i32 %s, 0", v.text)
                         : tg_ir_put(w, "fcmp oeq %s %s, 0.0", type, v.text);
    }
  return tg_ir_put(w, "add i1 false, false");
}

static void put_cases(product *p) {
  tg_wrapper *w = p->f.w;
  const tg_gemm_problem *q = p->q;
  tg_ir no_terms = tg_ir_is(w, "eq", p->size[2], tg_ir_number(0)), no_alpha = is_zero(p, "alpha");
  tg_str_printf(&w->out, "  %%nothing = or i1 %s, %s\n", no_terms.text, no_alpha.text);
  if (q->beta) tg_str_printf(&w->out, "  %%update = xor i1 %s, true\n", is_zero(p, "beta").text);
  else tg_str_puts(&w->out, "  %update = add i1 false, false\n");
  if (!(p->g[0]->flags & TG_GEMM_NOT_ZERO)) return;
  tg_wrapper_check(w, tg_ir_put(w, "xor i1 %%nothing, true"), "k or alpha is 0, and the plan is for others");
  if (q->beta) tg_wrapper_check(w, tg_ir_put(w, "or i1 %%update, false"), "beta is 0, and the plan is for others");
}

static void put_body(product *p) {
  tg_wrapper *w = p->f.w;
  gather(p);
  put_cases(p);
  tg_function_memory(&p->f);
  tg_function_switch(&p->f);
  for (uint32_t t = 0; t < w->targets_n; t++) {
    bool has = p->g[t]->nothing[GEMM_FRESH].kernel || p->g[t]->nothing[GEMM_UPDATE].kernel;
    p->f.side_by_side |= p->g[t]->plan.strips;
    tg_str_printf(&w->out, "target%u:\n", t);
    if (has) {
      tg_str_printf(&w->out, "  br i1 %%nothing, label %%nothing%u, label %%some%u\nnothing%u:\n", t, t, t);
      run_cases(p, p->g[t], NULL, p->g[t]->nothing);
      tg_str_printf(&w->out, "some%u:\n", t);
    }
    run_parts(p, t);
  }
}

/* ---- the function ---- */

static void declare(tg_builder *b, void *user) { tg_gemm_declare_call(b, user); }

static const tg_signature *signature_of(tg_env *env, const tg_gemm *g, const tg_gemm_problem *q, const char *name) {
  static const tg_kernel_def plain = {.name = "call", .params = "M, N, K, lda, ldb, ldc", .body = declare,
                                      .file = __FILE__, .line = __LINE__};
  tg_gemm_def def;
  tg_binding b[GEMM_VALUES];
  tg_gemm_kernel_of(q, &plain, &def);
  def.def.name = name;
  uint32_t n = tg_gemm_bind(g, q, b);
  return tg_function_signature(env, &def.def, b, n, (void *)(uintptr_t)q);
}

static void put_header(product *p, tg_str *o) {
  tg_wrapper *w = p->f.w;
  tg_function_header_begin(w, o, "C = A B");
  for (uint32_t a = 0; a < p->q->arguments_n; a++)
    tg_str_printf(o, " *   arg%u is '%s' of the epilogue\n", a, p->q->argument[a].name);
  if (p->q->epilogue) {
    tg_str_puts(o, " *   epilogue: ");
    for (const char *c = p->q->epilogue; *c; c++) tg_str_put(o, *c == '\n' || (*c == '*' && c[1] == '/') ? " " : c, 1);
    tg_str_puts(o, "\n");
  }
  tg_str_puts(o, " *   ld*: elements from one row (column major: column) to the next; 0: dense\n");
  tg_function_header_end(w, o, "");
}

void tg_product_function(tg_wrapper *w, const tg_gemm *const *g, const tg_gemm_problem *q, const char *name,
                         uint32_t number, tg_str *header) {
  product p = {.f = {.w = w}, .g = g, .q = q, .number = number, .behind = tg_str_new(w->env)};
  w->name = name;
  w->messages = (tg_messages){0};
  w->signature = signature_of(w->env, g[0], q, name);
  const char *const sizes[] = {"M", "N", "K"};
  const tg_kit_dim fixed[] = {q->m, q->n, q->k};
  for (uint32_t i = 0; i < 3; i++) p.size[i] = tg_function_value(w, sizes[i], fixed[i].lo);
  tg_function_open(w);
  tg_str_printf(&w->out, "  %%o = alloca [%d x ptr]\n  %%v = alloca [%d x i64]\n  %%c = alloca [4 x ptr]\n",
                GEMM_OPERANDS, GEMM_VALUES);
  complete(&p);
  tg_wrapper_check_params(w);
  tg_function_unless_empty(w, p.size[0], p.size[1]);
  tg_wrapper_check_buffers(w, !(g[0]->flags & TG_GEMM_OVERLAP_UNCHECKED));
  put_body(&p);
  tg_str_puts(&w->out, "}\n");
  tg_function_put_workspace(&p.f);
  tg_function_end(&p.f);
  tg_str_put(&w->out, p.behind.data, p.behind.n);
  put_header(&p, header);
}

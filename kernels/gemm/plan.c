/* SPDX-License-Identifier: MIT
 * From a descriptor to a plan: defaults, the problem, sizes cut into parts of one choice each, and a kernel for each part and
 * for each case of beta. Needs a context; compiles through it, or takes what its cache has. */
#include <stdio.h>
#include "gemm/plan.h"
#include "gemm/sketch.h"

static const int64_t most_elements = (int64_t)1 << 31, most_ld = (int64_t)1 << 31, most_step = (int64_t)1 << 20;

typedef struct {
  tg_gemm *g;
  const tg_gemm_desc *desc;
  char message[512];
} planning;

static tg_status wrong(planning *p, tg_status s, const char *format, ...) TG_PRINTF(3, 4);
static tg_status wrong(planning *p, tg_status s, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(p->message, sizeof p->message, format, ap);
  va_end(ap);
  return tg_context_fail(p->g->context, s, p->message);
}

/* ---- the descriptor ---- */

static bool is_integer(tg_type t) { return t >= TG_I8 && t <= TG_U64; }
static bool is_element(tg_type t) { return t == TG_I8 || t == TG_U8 || t == TG_I32 || t == TG_F16 || t == TG_BF16 || t == TG_F32 || t == TG_F64; }

static tg_status read_types(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm_problem *q = &p->g->problem;
  q->a = d->a ? (tg_type)d->a : TG_F32;
  q->b = d->b ? (tg_type)d->b : d->b_bits ? TG_I8 : q->a;
  bool integers = is_integer(q->a) && is_integer(q->b);
  q->acc = d->acc ? (tg_type)d->acc : integers ? TG_I32 : q->a == TG_F64 || q->b == TG_F64 ? TG_F64 : TG_F32;
  q->c = d->c ? (tg_type)d->c : integers ? TG_I32 : q->a;
  const struct { const char *name; tg_type t; } types[] = {{"a", q->a}, {"b", q->b}, {"c", q->c}, {"acc", q->acc}};
  for (uint32_t i = 0; i < TG_COUNT(types); i++)
    if (!is_element(types[i].t)) return wrong(p, TG_EINVAL, "tg_gemm_desc.%s: type %d is none of i8, u8, i32, f16, bf16, f32, f64", types[i].name, (int)types[i].t);
  if (is_integer(q->a) != is_integer(q->b) && !is_integer(q->b)) return wrong(p, TG_EINVAL, "tg_gemm_desc.a is of integers and b of floats: only b may be of integers beside floats");
  if (is_integer(q->acc) && !integers) return wrong(p, TG_EINVAL, "tg_gemm_desc.acc is of integers, and the operands are not");
  if (q->acc == TG_F16 || q->acc == TG_BF16 || q->acc == TG_I8 || q->acc == TG_U8) return wrong(p, TG_EINVAL, "tg_gemm_desc.acc is a type of 8 or 16 bits: i32, f32 or f64");
  return TG_OK;
}

/* B of few bits: the rest of its type. */
static tg_status read_quantised(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm_problem *q = &p->g->problem;
  if (!d->b_bits) return d->b_scale || d->b_zero || d->b_group || d->b_group_major ? wrong(p, TG_EINVAL, "tg_gemm_desc: scales, zero points or groups of B without b_bits") : TG_OK;
  q->bits = d->b_bits;
  q->scale = d->b_scale ? (tg_type)d->b_scale : TG_F32;
  q->zero = (tg_type)d->b_zero;
  q->group = d->b_group;
  q->group_major = d->b_group_major;
  bool is_float = q->scale == TG_F32 || q->scale == TG_F16 || q->scale == TG_BF16;
  if (d->b_bits != 4 && d->b_bits != 8) return wrong(p, TG_EINVAL, "tg_gemm_desc.b_bits: %u is none of 0, 4, 8", d->b_bits);
  if (q->b != TG_I8 && q->b != TG_U8) return wrong(p, TG_EINVAL, "tg_gemm_desc.b: with b_bits it is i8 or u8, whether signed or not");
  if (q->a != TG_F32 && q->a != TG_F16 && q->a != TG_BF16) return wrong(p, TG_EINVAL, "tg_gemm_desc.a: with b_bits it is f32, f16 or bf16");
  if (q->acc != TG_F32) return wrong(p, TG_EINVAL, "tg_gemm_desc.acc: with b_bits it is f32");
  if (!is_float) return wrong(p, TG_EINVAL, "tg_gemm_desc.b_scale: type %d is none of f32, f16, bf16", (int)q->scale);
  if (q->zero && q->zero != TG_I8 && q->zero != TG_U8 && q->zero != TG_F32 && q->zero != TG_F16 && q->zero != TG_BF16) return wrong(p, TG_EINVAL, "tg_gemm_desc.b_zero: type %d is none of i8, u8, f32, f16, bf16", (int)q->zero);
  if (q->group_major > TG_COLUMN_MAJOR) return wrong(p, TG_EINVAL, "tg_gemm_desc.b_group_major: %u is none of TG_ROW_MAJOR, TG_COLUMN_MAJOR", q->group_major);
  if (q->group < 0 || q->group > most_elements) return wrong(p, TG_EINVAL, "tg_gemm_desc.b_group: %lld is no number of terms within 0..2^31", (long long)q->group);
  if (q->bits == 4 && d->b_major == TG_ANY_STRIDES) return wrong(p, TG_EINVAL, "tg_gemm_desc.b_major: elements of four bits lie side by side in rows or in columns");
  if (q->bits == 4 && d->b_ld.lo % 2) return wrong(p, TG_EINVAL, "tg_gemm_desc.b_ld: %lld elements of four bits are no whole bytes", (long long)d->b_ld.lo);
  return TG_OK;
}

static bool read_dim(tg_dim d, tg_gemm_dim *out) {
  *out = (tg_gemm_dim){d.lo, d.hi ? d.hi : d.lo};
  return d.lo >= 0 && out->hi >= d.lo && out->hi <= most_elements;
}

static tg_status read_sizes(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm *g = p->g;
  const struct { const char *name; tg_dim d; tg_gemm_dim *to; } dims[] = {{"m", d->m, &g->problem.m}, {"n", d->n, &g->problem.n}, {"k", d->k, &g->problem.k}};
  const struct { const char *name; tg_dim d; uint8_t major; int64_t step; } lds[] = {{"a", d->a_ld, d->a_major, d->a_step}, {"b", d->b_ld, d->b_major, d->b_step}, {"c", d->c_ld, d->c_major, d->c_step}};
  for (uint32_t i = 0; i < TG_COUNT(dims); i++)
    if (!read_dim(dims[i].d, dims[i].to))
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s: %lld..%lld is no range of sizes within 0..2^31", dims[i].name, (long long)dims[i].d.lo, (long long)dims[i].d.hi);
  for (uint32_t i = 0; i < TG_COUNT(lds); i++) {
    if (lds[i].major > TG_ANY_STRIDES) return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_major: %u is none of TG_ROW_MAJOR, TG_COLUMN_MAJOR, TG_ANY_STRIDES", lds[i].name, lds[i].major);
    if (lds[i].d.lo < 0 || lds[i].d.lo > most_ld || (lds[i].d.hi && lds[i].d.hi != lds[i].d.lo))
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_ld: %lld..%lld is no fixed leading dimension within 1..2^31", lds[i].name, (long long)lds[i].d.lo, (long long)lds[i].d.hi);
    if (lds[i].d.lo && lds[i].major == TG_ANY_STRIDES) return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_ld: of an operand with strides of its own there is none", lds[i].name);
    if (lds[i].step < 0 || lds[i].step > most_step) return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_step: %lld is no number of elements within 1..2^20", lds[i].name, (long long)lds[i].step);
    if (lds[i].step > 1 && (lds[i].major == TG_ANY_STRIDES || (i == 1 && g->problem.bits)))
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_step: %s", lds[i].name, lds[i].major == TG_ANY_STRIDES ? "of an operand with strides of its own there is none" : "weights of few bits have none");
    int64_t least = i == 0 ? d->a_major ? g->problem.m.hi : g->problem.k.hi : i == 1 ? d->b_major ? g->problem.k.hi : g->problem.n.hi : d->c_major ? g->problem.m.hi : g->problem.n.hi;
    if (lds[i].step > 1 && least > 0) least = (least - 1) * lds[i].step + 1;
    if (lds[i].d.lo && lds[i].d.lo < least)
      return wrong(p, TG_EINVAL, "tg_gemm_desc.%s_ld: %lld is less than the %lld elements that lie side by side", lds[i].name, (long long)lds[i].d.lo, (long long)least);
    int64_t ld = i == 1 && g->problem.bits == 4 ? lds[i].d.lo / 2 : lds[i].d.lo;   /* of four bits: bytes */
    g->ld[i] = (tg_gemm_dim){ld, ld};
  }
  g->problem.a_major = d->a_major;
  g->problem.b_major = d->b_major;
  g->problem.c_major = d->c_major;
  g->problem.a_step = d->a_step, g->problem.b_step = d->b_step, g->problem.c_step = d->c_step;
  g->problem.batch = (tg_gemm_dim){1, 1};
  g->problem.alpha = d->alpha;
  g->problem.beta = d->beta;
  g->problem.flush = d->flags & TG_GEMM_FLUSH_SUBNORMALS && g->problem.a == TG_BF16 && g->problem.b == TG_BF16 && g->problem.acc == TG_F32;
  return TG_OK;
}

/* A name, and none that the epilogue has already. */
static bool is_name(const tg_gemm_desc *d, uint32_t a) {
  const char *name = d->arg[a].name;
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  bool taken = !strcmp(name, "acc") || !strcmp(name, "m") || !strcmp(name, "n");
  for (uint32_t i = 0; i < a; i++) taken |= !strcmp(name, d->arg[i].name);
  return n && n < 40 && !name[n] && !(*name >= '0' && *name <= '9') && !taken;
}

static tg_status read_packing(planning *p) {
  const tg_gemm_packing *k = p->desc->packing;
  tg_gemm_problem *q = &p->g->problem;
  if (!k) return TG_OK;
  if (!tg_gemm_packing_valid(k)) return wrong(p, TG_EINVAL, "tg_gemm_desc.packing is not what tg_gemm_packing_choose makes");
  if (k->type != q->b || (k->format == TG_GEMM_NIBBLES) != (q->bits == 4)) return wrong(p, TG_EINVAL, "tg_gemm_desc.packing is of another type than b");
  if (q->n.lo != k->n || q->n.hi != k->n || q->k.lo != k->k || q->k.hi != k->k)
    return wrong(p, TG_EINVAL, "tg_gemm_desc.packing is of %lld columns and %lld terms: n and k are fixed at these", (long long)k->n, (long long)k->k);
  if (q->c_major != TG_ROW_MAJOR) return wrong(p, TG_EINVAL, "tg_gemm_desc.c_major: beside a packing, C is row major");
  q->panel = k->panel;
  q->b_major = TG_ROW_MAJOR;
  q->b_step = 0;
  p->g->ld[1] = (tg_gemm_dim){k->n, k->n};
  p->g->packed = k->bytes;
  return TG_OK;
}

static tg_status read_epilogue(planning *p) {
  const tg_gemm_desc *d = p->desc;
  tg_gemm_problem *q = &p->g->problem;
  q->epilogue = d->epilogue;
  for (uint32_t a = 0; a < TG_GEMM_ARGS; a++) {
    if (!d->arg[a].name) continue;
    if (!d->epilogue) return wrong(p, TG_EINVAL, "tg_gemm_desc.arg[%u]: '%s' without an epilogue", a, d->arg[a].name);
    if (a != q->arguments_n) return wrong(p, TG_EINVAL, "tg_gemm_desc.arg[%u]: '%s' stands behind an argument without a name", a, d->arg[a].name);
    if (!is_name(d, a)) return wrong(p, TG_EINVAL, "tg_gemm_desc.arg[%u]: '%s' is no name, or one that is taken (as acc, m and n are)", a, d->arg[a].name);
    tg_type t = d->arg[a].type ? (tg_type)d->arg[a].type : q->acc;
    if (!is_element(t)) return wrong(p, TG_EINVAL, "tg_gemm_desc.arg[%u].type: type %d is none of i8, u8, i32, f16, bf16, f32, f64", a, (int)t);
    if (d->arg[a].per > TG_PER_ELEMENT) return wrong(p, TG_EINVAL, "tg_gemm_desc.arg[%u].per: %u is none of TG_PER_ALL, TG_PER_ROW, TG_PER_COLUMN, TG_PER_ELEMENT", a, d->arg[a].per);
    q->argument[a].name = d->arg[a].name;
    q->argument[a].type = t;
    q->argument[a].per = d->arg[a].per;
    q->arguments_n++;
  }
  return TG_OK;
}

/* ---- kernels ---- */

static const char *const operand_names[GEMM_OPERANDS] = {"A", "B", "C", "alpha", "beta", "scale", "zero", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7"};
static const char *const value_names[GEMM_VALUES] = {"M", "N", "K", "lda", "ldb", "ldc", "stepa", "stepb", "stepc", "ld_arg0", "ld_arg1", "ld_arg2", "ld_arg3", "ld_arg4", "ld_arg5", "ld_arg6", "ld_arg7", "ld_group"};

static bool find(const char *name, const char *const *names, uint32_t n, uint8_t *out) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(name, names[i])) return *out = (uint8_t)i, true;
  return false;
}

/* B, or panels of it: never the one for the other. */
static bool find_operand(const char *name, bool panels, uint8_t *out) {
  bool packed = !strcmp(name, "Bp");
  return find(packed ? "B" : name, operand_names, TG_COUNT(operand_names), out) && (*out != GEMM_B || packed == panels);
}

static tg_status connect(planning *p, const tg_gemm_problem *q, tg_gemm_kernel *k) {
  const tg_kernel_info *info = tg_kernel_describe(k->kernel);
  const tg_signature *s = k->kernel->loaded->signature;
  const tg_code_info *code = &k->kernel->loaded->info;
  tg_gemm *g = p->g;
  for (uint32_t i = 0; i < info->buffers_n; i++, k->operands_n++)
    if (i == GEMM_OPERANDS || !find_operand(info->buffers[i].name, q->panel != 0, &k->operand[i])) return wrong(p, TG_INTERNAL, "internal error: the sketch %s has a buffer %s", info->name, info->buffers[i].name);
  for (uint32_t i = 0; i < info->params_n; i++, k->values_n++)
    if (i == GEMM_VALUES || !find(info->params[i].name, value_names, TG_COUNT(value_names), &k->value[i])) return wrong(p, TG_INTERNAL, "internal error: the sketch %s has a parameter %s", info->name, info->params[i].name);
  k->requirements = s->requires_n != 0;
  k->code = tg_device_entry(k->kernel->loaded, code->workspace);
  if (code->workspace > g->per_thread) g->per_thread = code->workspace;
  if (code->shared > g->shared) g->shared = code->shared;
  g->compiled++;
  g->found += info->from_cache != 0;
  g->tuned += info->tuned != 0;
  return TG_OK;
}

uint32_t tg_gemm_bind(const tg_gemm *g, const tg_gemm_problem *q, tg_binding *b) {
  const uint8_t majors[3] = {q->a_major, q->b_major, q->c_major};
  const tg_binding any = {NULL, 1, most_ld, 1}, size[] = {{NULL, q->m.lo, q->m.hi, 1}, {NULL, q->n.lo, q->n.hi, 1}, {NULL, q->k.lo, q->k.hi, 1}};
  uint32_t n = 0;
  for (uint32_t i = 0; i < GEMM_VALUES; i++) {
    if (i < GEMM_ROW_STEP) b[n] = size[i];
    else if (i < GEMM_COLUMN_STEP) b[n] = g->ld[i - GEMM_ROW_STEP].lo ? (tg_binding){NULL, g->ld[i - GEMM_ROW_STEP].lo, g->ld[i - GEMM_ROW_STEP].lo, 1} : any;
    else if (i < GEMM_ARG_LD ? majors[i - GEMM_COLUMN_STEP] == TG_GEMM_STRIDES : i == GEMM_GROUP_LD ? q->bits != 0 : i - GEMM_ARG_LD < q->arguments_n && q->argument[i - GEMM_ARG_LD].per == TG_PER_ELEMENT) b[n] = any;
    else continue;
    if (i >= GEMM_ROW_STEP && majors[(i - GEMM_ROW_STEP) % 3] == TG_GEMM_STRIDES && i < GEMM_ARG_LD) b[n].lo = 0;
    b[n++].name = value_names[i];
  }
  return n;
}

/* Weights of few bits have sketches of their own, beside the plain one. */
static bool takes(uint32_t sketch, const tg_gemm_problem *q) {
  if (sketch == GEMM_GROUPED) return q->bits && q->panel;
  if (sketch == GEMM_PAIRS && !q->flush) return false;
  return sketch == GEMM_PLAIN || (sketch == GEMM_WEIGHTS) == (q->bits != 0);
}

uint32_t tg_gemm_sketches_for(const tg_gemm_problem *q, const tg_gemm_choice *choice, tg_gemm_def *def, const tg_kernel_def **defs) {
  uint32_t n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; tg_gemm_sketches[i] && n < GEMM_SKETCHES; i++) {
      if (!takes(i, q) || (tg_gemm_sketches[i] == choice->sketch) != (pass == 0)) continue;
      tg_gemm_kernel_of(q, tg_gemm_sketches[i], &def[n]);
      defs[n] = &def[n].def, n++;
    }
  return n;
}

static tg_status compile_choice(planning *p, const tg_gemm_problem *q, const tg_gemm_choice *choice, tg_gemm_kernel *out) {
  tg_gemm *g = p->g;
  tg_binding b[GEMM_VALUES + TG_GEMM_KNOBS];
  uint32_t n = tg_gemm_bind(g, q, b);
  tg_gemm_def def[GEMM_SKETCHES];
  const tg_kernel_def *defs[GEMM_SKETCHES];
  tg_compile_options o = {.bindings = b, .bindings_n = n, .user = (void *)(uintptr_t)q, .flags = g->flags & TG_GEMM_NO_COMPILE ? TG_COMPILE_CACHED_ONLY : 0};
  if (g->context->tuned && !q->panel) {   /* what tg_gemm_tune has kept for this very kernel */
    tg_compile_options tuned = o;
    tuned.flags |= TG_COMPILE_TUNED_ONLY;
    if (tg_kernel_compile_tuned(g->context, defs, tg_gemm_sketches_for(q, choice, def, defs), &tuned, &out->kernel) == TG_OK) return connect(p, q, out);
  }
  for (uint32_t i = 0; i < choice->knobs_n; i++) b[n++] = choice->knob[i];
  o.bindings_n = n, o.flags |= TG_COMPILE_UNTUNED;
  tg_gemm_kernel_of(q, choice->sketch, def);
  tg_status s = tg_kernel_compile(g->context, &def->def, &o, &out->kernel);
  return s == TG_OK ? connect(p, q, out) : s;
}

/* A sketch that does not take sizes as these (a copy too large, say) gives way to the one that takes any; what is wrong with an epilogue is wrong there as well. */
static tg_status compile(planning *p, const tg_gemm_problem *q, const tg_gemm_choice *choice, tg_gemm_kernel *out) {
  const tg_gemm_choice plain = {.sketch = tg_gemm_sketches[0]};
  tg_status s = compile_choice(p, q, choice, out);
  return (s == TG_EINVAL || s == TG_ELIMIT) && choice->sketch != plain.sketch && (!q->panel || q->bits) ? compile_choice(p, q, &plain, out) : s;
}

/* ---- parts ---- */

static bool same_choice(const tg_gemm_choice *a, const tg_gemm_choice *b) {
  if (a->sketch != b->sketch || a->knobs_n != b->knobs_n) return false;
  for (uint32_t i = 0; i < a->knobs_n; i++)
    if (strcmp(a->knob[i].name, b->knob[i].name) || a->knob[i].lo != b->knob[i].lo) return false;
  return true;
}

static bool same_size(const tg_gemm_problem *a, const tg_gemm_problem *b) { return a->m.lo == b->m.lo && a->n.lo == b->n.lo; }

/* One choice, or those of strips. Strips know neither their place in C nor what rows beside theirs are computed with. */
static void choose(const tg_gemm *g, const tg_gemm_problem *q, bool open_rows, tg_gemm_part *part) {
  const tg_target *t = &g->context->target;
  bool whole = g->flags & TG_GEMM_BATCH_INVARIANT || (q->epilogue && (tg_gemm_reads(q->epilogue, "m") || tg_gemm_reads(q->epilogue, "n")));
  part->strips = whole ? (tg_gemm_strips){.n = 1} : tg_gemm_choose_strips(q, t, g->most, open_rows);
  if (part->strips.n < 2) {
    tg_gemm_choose(q, t, g->most, &part->choice);
    return;
  }
  tg_gemm_problem first = tg_gemm_strip(q, &part->strips, 0), last = tg_gemm_strip(q, &part->strips, part->strips.n - 1);
  tg_gemm_choose(&first, t, 1, &part->choice);
  tg_gemm_choose(&last, t, 1, &part->last_choice);
}

/* All strips are of columns where parts are joined: of rows that have a range. */
static bool same_choices(const tg_gemm_part *a, const tg_gemm_part *b) {
  return a->strips.n == b->strips.n && a->strips.size == b->strips.size && same_choice(&a->choice, &b->choice) && same_choice(&a->last_choice, &b->last_choice);
}

/* Does it ask for lines ahead of time, shared among as many tiles of rows as there may be? Then a range whose ends lie far apart would ask for too few. */
static bool asks_ahead(const tg_gemm_choice *c) {
  for (uint32_t i = 0; i < c->knobs_n; i++)
    if ((!strcmp(c->knob[i].name, "NEXT") || !strcmp(c->knob[i].name, "AHEAD")) && c->knob[i].lo) return true;
  return false;
}

/* A range of rows is cut where other sketches are better, and joined again where one choice serves both sides. Of columns likewise where there is no range of rows.
 * Where all else is fixed, as weights are, each of the smallest sizes has a kernel: the large operand is read once then, whatever the size of a tile.
 * Products without elements, or without terms, have no part. */
static void cut(tg_gemm *g) {
  enum { SMALL = 64, MANY = 4096 };
  static const int64_t few[] = {1, 4, 16, 64, 256}, many[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 24, 32, 64, 128, 191};
  _Static_assert(TG_COUNT(many) < GEMM_PARTS && TG_COUNT(few) < GEMM_PARTS, "a part behind the last end");
  tg_gemm_problem q = g->problem;
  tg_gemm_dim *const dims[] = {&q.m, &q.n, &q.k};
  for (uint32_t i = 0; i < TG_COUNT(dims); i++) {
    if (!dims[i]->hi) return;
    if (!dims[i]->lo) dims[i]->lo = 1;
  }
  bool rows = q.m.lo < q.m.hi;
  tg_gemm_dim whole = rows ? q.m : q.n, other = rows ? q.n : q.m;
  bool fixed = other.lo == other.hi && q.k.lo == q.k.hi;
  const int64_t *ends = fixed ? many : few;
  uint32_t n = fixed ? TG_COUNT(many) : TG_COUNT(few);
  int64_t from = whole.lo;
  for (uint32_t i = 0; i <= n && from <= whole.hi; i++) {
    int64_t to = i < n && ends[i] < whole.hi && !(g->flags & TG_GEMM_BATCH_INVARIANT) ? ends[i] : whole.hi;
    if (to < from) continue;
    tg_gemm_problem part = q;
    *(rows ? &part.m : &part.n) = (tg_gemm_dim){from, to};
    tg_gemm_part next = {.m = part.m, .n = part.n, .k = part.k}, *last = g->parts_n ? &g->part[g->parts_n - 1] : NULL;
    bool invariant = g->flags & TG_GEMM_BATCH_INVARIANT;
    int64_t last_rows = from < to && !tg_gemm_thin_roles_of(&part).column_k ? to + to % 2 : to;   /* what is best for the last of them is best for most; an even number, but for sums along k, whose tiles are of one size */
    if (rows && fixed && !invariant) part.m.lo = part.m.hi = last_rows < MANY ? last_rows : MANY;
    if (invariant) part.m = (tg_gemm_dim){1, part.m.hi <= SMALL ? SMALL : MANY};   /* where terms are cut must not depend on m; small products stay small */
    choose(g, &part, rows, &next);
    g->strips |= next.strips.n > 1;
    if (last && same_choices(last, &next) && !(rows && fixed && asks_ahead(&next.choice) && 2 * to > 3 * last->m.lo)) *(rows ? &last->m.hi : &last->n.hi) = to;
    else g->part[g->parts_n++] = next;
    from = to + 1;
  }
}

static tg_status compile_cases(planning *p, tg_gemm_problem q, const tg_gemm_choice *choice, tg_gemm_kernel *out) {
  tg_status s = TG_OK;
  for (uint32_t beta = 0; beta < (p->desc->beta ? GEMM_CASES : GEMM_UPDATE) && s == TG_OK; beta++) {
    q.beta = beta;
    s = compile(p, &q, choice, &out[beta]);
  }
  return s;
}

static tg_status compile_part(planning *p, tg_gemm_part *part) {
  tg_gemm_problem q = p->g->problem;
  q.m = part->m, q.n = part->n, q.k = part->k;
  if (part->strips.n < 2) return compile_cases(p, q, &part->choice, part->kernel);
  tg_gemm_problem first = tg_gemm_strip(&q, &part->strips, 0), last = tg_gemm_strip(&q, &part->strips, part->strips.n - 1);
  tg_status s = compile_cases(p, first, &part->choice, part->kernel);
  return s == TG_OK && !same_size(&first, &last) ? compile_cases(p, last, &part->last_choice, part->last) : s;
}

/* C = beta C, for all sizes. */
static tg_status compile_nothing(planning *p) {
  tg_gemm_problem q = p->g->problem;
  const tg_gemm_choice plain = {.sketch = tg_gemm_sketches[0]};
  if ((!q.alpha && q.k.lo) || !q.m.hi || !q.n.hi) return TG_OK;
  q.k = (tg_gemm_dim){0, 0};
  q.alpha = false;
  if (q.bits) q.bits = 0, q.b = q.a;
  q.panel = 0;   /* B has no elements, packed or not */
  for (uint32_t beta = 0; beta < (p->desc->beta ? GEMM_CASES : GEMM_UPDATE); beta++) {
    q.beta = beta;
    tg_status s = compile(p, &q, &plain, &p->g->nothing[beta]);
    if (s != TG_OK) return s;
  }
  return TG_OK;
}

static tg_status read_descriptor(planning *p) {
  const uint32_t known = TG_GEMM_NO_COMPILE | TG_GEMM_BATCH_INVARIANT | TG_GEMM_OVERLAP_UNCHECKED | TG_GEMM_FLUSH_SUBNORMALS;
  if (p->desc->flags & ~known) return wrong(p, TG_EINVAL, "tg_gemm_desc.flags: 0x%x has bits that mean nothing", p->desc->flags);
  tg_status s = read_types(p);
  if (s == TG_OK) s = read_quantised(p);
  if (s == TG_OK) s = read_sizes(p);
  if (s == TG_OK) s = read_epilogue(p);
  return s == TG_OK ? read_packing(p) : s;
}

/* The problem, in parts of one choice each. */
static tg_status lay_out(planning *p) {
  tg_gemm *g = p->g;
  tg_status s = read_descriptor(p);
  if (s != TG_OK) return s;
  g->flags = p->desc->flags;
  g->threads = tg_pool_asked(g->context->pool, p->desc->threads);
  g->most = p->desc->threads > 0 && (uint32_t)p->desc->threads > g->threads ? (uint32_t)p->desc->threads : g->threads;
  cut(g);
  return TG_OK;
}

tg_status tg_gemm_lay_out(tg_context *c, const tg_gemm_desc *d, tg_gemm *out) {
  *out = (tg_gemm){.context = c};
  return lay_out(&(planning){.g = out, .desc = d});
}

static tg_status make(planning *p) {
  tg_gemm *g = p->g;
  tg_status s = lay_out(p);
  for (uint32_t i = 0; i < g->parts_n && s == TG_OK; i++) s = compile_part(p, &g->part[i]);
  if (s == TG_OK) s = compile_nothing(p);
  g->problem.epilogue = NULL;   /* the caller's texts end with the call */
  for (uint32_t a = 0; a < g->problem.arguments_n; a++) g->problem.argument[a].name = NULL;
  return s;
}

tg_status tg_gemm_problem_of(tg_context *c, const tg_gemm_desc *d, tg_gemm_problem *out) {
  tg_gemm g = {.context = c};
  tg_status s = read_descriptor(&(planning){.g = &g, .desc = d});
  *out = g.problem;
  return s;
}

tg_status tg_gemm_plan_sized(tg_context *c, const tg_gemm_desc *desc, size_t desc_bytes, tg_gemm **out) {
  if (!c || !out) return TG_EINVAL;
  *out = NULL;
  if (!desc) return tg_context_fail(c, TG_EINVAL, "no descriptor is given");
  tg_gemm_desc d = {0};
  memcpy(&d, desc, desc_bytes < sizeof d ? desc_bytes : sizeof d);
  const tg_allocator *a = &c->env.allocator;
  tg_gemm *g = a->alloc(a->user, sizeof *g);
  if (!g) return tg_context_fail(c, TG_ENOMEM, "out of memory");
  memset(g, 0, sizeof *g);
  g->context = c;
  tg_status s = make(&(planning){.g = g, .desc = &d});
  if (s == TG_OK) *out = g;
  else tg_gemm_free(g);
  return s;
}

void tg_gemm_free(tg_gemm *g) {
  if (!g) return;
  for (uint32_t beta = 0; beta < GEMM_CASES; beta++) {
    tg_kernel_free(g->nothing[beta].kernel);
    for (uint32_t i = 0; i < g->parts_n; i++) tg_kernel_free(g->part[i].kernel[beta].kernel), tg_kernel_free(g->part[i].last[beta].kernel);
  }
  tg_allocator a = g->context->env.allocator;
  a.free(a.user, g, sizeof *g);
}

tg_gemm_info tg_gemm_describe(const tg_gemm *g) { return g ? (tg_gemm_info){g->compiled, g->found, g->per_thread, g->tuned} : (tg_gemm_info){0}; }

tg_gemm_code *tg_gemm_function(const tg_gemm *g) {
  if (!g || g->parts_n != 1 || g->strips) return NULL;
  const tg_gemm_kernel *k = &g->part[0].kernel[g->problem.beta];
  if (!k->kernel || k->requirements) return NULL;
  for (uint32_t i = 0; i < k->values_n; i++)   /* the header's order */
    if (k->value[i] >= GEMM_COLUMN_STEP || (i && k->value[i] <= k->value[i - 1])) return NULL;
  return tg_device_entry(k->kernel->loaded, TG_GEMM_SCRATCH);
}

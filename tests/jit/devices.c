/* SPDX-License-Identifier: MIT
 * Every op of every type, scalar and in vectors, every conversion, every atomic add, masked and gathered accesses, every matrix instruction, as code for every GPU target: LLVM
 * selects instructions for all of them (it would end the process), they disassemble, and ptxas (where it is installed) takes the PTX of all of them.
 * tests/library/targets.c does programs.
 *   jit_devices        of ops, conversions and accesses each target every other, the next one in the table the rest, so that a maker has all
 *   jit_devices all    all of all */
#define _GNU_SOURCE
#include <malloc.h>
#include <unistd.h>
#include "../folder.h"
#include "../target.h"
#include "jit.h"
#include "target/matrix.h"

typedef struct { bool all; uint32_t turn; tg_target target; tg_jit *jit; FILE *ptx; uint32_t serial; long version_at; char version[4]; } run;

enum { ELEMENTS = 4096 };

static const tg_uop *global(program *p, const char *name, tg_type t, tg_role role) {
  return buffer(p, name, t, role, TG_SPACE_GLOBAL, TG_PLACE_NONE, 1, ELEMENTS);
}

/* The thread's element, or vector of elements: lane index within block index. */
typedef struct { const tg_uop *body[24], *group, *lane, *at; uint32_t n; } scene;

static void begin_scene(run *r, program *p, scene *s, uint32_t lanes) {
  tg_job *j = &p->j;
  const tg_uop *groups = tg_const_int(j, TG_I32, ELEMENTS / 64 / 8), *width = tg_const_int(j, TG_I32, r->target.lanes);
  *s = (scene){.group = range_of(p, "g", groups, TG_GLOBAL), .lane = range_of(p, "l", width, TG_LANE)};
  const tg_uop *row = s->body[s->n++] = tg_op2(j, TG_OP_MUL, s->group, tg_const_int(j, TG_I32, 8 * 64));
  const tg_uop *column = s->body[s->n++] = tg_op2(j, TG_OP_MUL, s->lane, tg_const_int(j, TG_I32, lanes));
  s->at = s->body[s->n++] = tg_op2(j, TG_OP_ADD, row, column);
  if (lanes > 1) s->at = s->body[s->n++] = tg_op2(j, TG_OP_ADD, s->at, tg_iota(j, TG_I32, lanes));
}

static void end_scene(program *p, scene *s) {
  const tg_uop *end = tg_end(&p->j, s->lane, s->n, s->body);
  add(p, tg_end(&p->j, s->group, 1, &end));
}

/* The kernels of a target make one PTX file, under the first one's header with the highest version of PTX that one of them wants. */
static void keep_ptx(run *r, const char *text) {
  static const char word[] = ".version ";
  const char *body = strstr(text, ".address_size 64"), *version = strstr(text, word);
  CHECK(body && version, "PTX without a header");
  if (!body || !version) return;
  version += strlen(word);
  if (r->serial == 1) r->version_at = version - text;
  if (memcmp(version, r->version, 3) > 0) memcpy(r->version, version, 3);
  fputs(r->serial == 1 ? text : body + strlen(".address_size 64"), r->ptx);
}

static void finish(run *r, program *p, const char *what, tg_type t, uint32_t lanes) {
  p->j.name = tg_format(&p->j.env, "k%u", r->serial++);
  bool ok = tg_protect(&p->j.env, program_compile, p);
  CHECK(ok, "%s: %s of %s, %u lanes: %s", r->target.name, what, tg_type_name[t], lanes, p->j.env.message);
  if (ok && r->ptx) keep_ptx(r, p->object.data);
  if (ok && r->target.arch == TG_ARCH_AMDGPU) {
    const char *text = tg_object_assembly(&p->j, &r->target, &p->object, &p->info);
    CHECK(text && strstr(text, "s_endpgm") && !strstr(text, "(not an instruction"), "%s: %s of %s:\n%s", r->target.name, what, tg_type_name[t], text ? text : "");
  }
  program_end(p);
}

static void check_op(run *r, tg_op op, tg_type type, tg_type from, uint32_t lanes) {
  program p;
  scene s;
  const tg_uop *in[3], *arg[3] = {0};
  int arity = tg_ops[op].arity;
  program_begin(&p, r->jit);
  for (int i = 0; i < arity; i++) in[i] = global(&p, "a", i == 0 && op == TG_OP_WHERE ? TG_BOOL : from, TG_ROLE_IN);
  const tg_uop *out = global(&p, "r", type, TG_ROLE_OUT);
  begin_scene(r, &p, &s, lanes);
  for (int k = 0; k < arity; k++) arg[k] = s.body[s.n++] = tg_load(&p.j, in[k], &s.at, NULL, NULL, 0);
  const tg_uop *v = s.body[s.n++] = tg_make(&p.j, op, type, lanes, 0, (uint32_t)arity, arg);
  s.body[s.n++] = tg_store(&p.j, out, &s.at, v, NULL, 0);
  end_scene(&p, &s);
  finish(r, &p, tg_ops[op].name, from, lanes);
}

static void check_atomic(run *r, tg_type t, uint32_t lanes) {
  program p;
  scene s;
  program_begin(&p, r->jit);
  const tg_uop *in = global(&p, "a", t, TG_ROLE_IN), *out = global(&p, "r", t, TG_ROLE_INOUT), *where = global(&p, "w", TG_I32, TG_ROLE_IN);
  begin_scene(r, &p, &s, lanes);
  const tg_uop *v = s.body[s.n++] = tg_load(&p.j, in, &s.at, NULL, NULL, 0), *to = s.body[s.n++] = tg_load(&p.j, where, &s.at, NULL, NULL, 0);
  s.body[s.n++] = tg_store(&p.j, out, &to, v, NULL, TG_ATOMIC);
  end_scene(&p, &s);
  finish(r, &p, "atomic add", t, lanes);
}

/* A gather under a gate of one lane or of all, a scatter or a store in a row under the same, of the lane next to it through a shuffle and LOCAL. */
static void check_access(run *r, tg_type t, uint32_t lanes, bool wide_gate, bool row) {
  program p;
  scene s;
  program_begin(&p, r->jit);
  const tg_uop *in = global(&p, "a", t, TG_ROLE_IN), *where = global(&p, "w", TG_I32, TG_ROLE_IN), *out = global(&p, "r", t, TG_ROLE_INOUT);
  const tg_uop *local = buffer(&p, "t", t, TG_ROLE_TEMP, TG_SPACE_LOCAL, TG_PLACE_NONE, 1, ELEMENTS);
  begin_scene(r, &p, &s, lanes);
  const tg_uop *index = s.body[s.n++] = tg_load(&p.j, where, &s.at, NULL, NULL, 0), *limit = tg_const_int(&p.j, TG_I32, ELEMENTS);
  const tg_uop *gate = s.body[s.n++] = tg_op2(&p.j, TG_OP_LT, wide_gate ? index : s.lane, limit), *other = tg_is_float(t) ? tg_const_float(&p.j, t, 1) : tg_const_int(&p.j, t, 1);
  const tg_uop *v = s.body[s.n++] = tg_load(&p.j, in, row ? &s.at : &index, gate, other, TG_GATED);
  const tg_uop *turn = s.body[s.n++] = tg_op2(&p.j, TG_OP_XOR, s.lane, tg_const_int(&p.j, TG_I32, row ? 5 : 16));
  v = s.body[s.n++] = tg_shuffle(&p.j, v, s.lane, turn);
  s.body[s.n++] = tg_store(&p.j, local, &s.at, v, gate, TG_GATED);
  s.body[s.n++] = tg_barrier_new(&p.j);
  v = s.body[s.n++] = tg_load(&p.j, local, row ? &index : &s.at, gate, other, TG_GATED);
  s.body[s.n++] = tg_store(&p.j, out, row ? &s.at : &index, v, gate, TG_GATED);
  end_scene(&p, &s);
  finish(r, &p, row ? "access in a row" : "gather", t, lanes);
}

/* A lane's operands as they lie in memory, one behind the other. */
static const tg_uop *fragment(run *r, program *p, scene *s, tg_type t, uint32_t n) {
  tg_job *j = &p->j;
  const tg_uop *in = global(p, "f", t, TG_ROLE_IN), *at = s->body[s->n++] = tg_op2(j, TG_OP_MUL, s->lane, tg_const_int(j, TG_I32, n));
  (void)r;
  if (n > 1) at = s->body[s->n++] = tg_op2(j, TG_OP_ADD, at, tg_iota(j, TG_I32, n));
  return s->body[s->n++] = tg_load(j, in, &at, NULL, NULL, 0);
}

static void check_matrix(run *r, const tg_matrix_row *row) {
  program p;
  scene s;
  const tg_uop *v[3];
  uint32_t n[3];
  program_begin(&p, r->jit);
  begin_scene(r, &p, &s, 1);
  for (int i = 0; i < 3; i++) v[i] = fragment(r, &p, &s, tg_matrix_type(row, i), n[i] = tg_matrix_registers(row, i));
  const tg_uop *out = global(&p, "r", tg_matrix_type(row, 2), TG_ROLE_OUT), *at = s.body[s.n++] = tg_op2(&p.j, TG_OP_MUL, s.lane, tg_const_int(&p.j, TG_I32, n[2]));
  if (n[2] > 1) at = s.body[s.n++] = tg_op2(&p.j, TG_OP_ADD, at, tg_iota(&p.j, TG_I32, n[2]));
  const tg_uop *d = s.body[s.n++] = tg_matrix(&p.j, row->name, v[0], v[1], v[2], s.lane);
  s.body[s.n++] = tg_store(&p.j, out, &at, d, NULL, 0);
  end_scene(&p, &s);
  finish(r, &p, row->name, tg_matrix_type(row, 0), n[2]);
}

static const char *find_ptxas(void) {
  static const char *const places[] = {"ptxas", "/usr/local/cuda/bin/ptxas", "/opt/cuda/bin/ptxas"};
  char command[256];
  for (size_t i = 0; i < TG_COUNT(places); i++) {
    snprintf(command, sizeof command, "command -v %s >/dev/null", places[i]);
    if (!system(command)) return places[i];
  }
  return NULL;
}

static const tg_type types[] = {TG_BOOL, TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64, TG_F32, TG_F64, TG_F16};
static const tg_type stored[] = {TG_BOOL, TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64, TG_F16, TG_BF16, TG_F32, TG_F64};
static const uint32_t widths[] = {1, 4, 2, 8, 3};

static bool has_meaning(tg_op op, tg_type t) {
  tg_value probe[3] = {{0}}, v;
  return tg_ops[op].flags & TG_OPF_W && tg_evaluate(op, tg_ops[op].flags & TG_OPF_B ? TG_BOOL : t, t, probe, &v);
}

/* Is it this target's turn, or the next one's? */
static bool takes(const run *r, uint32_t serial) { return r->all || serial % 2 == r->turn % 2; }

static void check_target(run *r) {
  uint32_t serial = 0;
  for (uint32_t op = TG_OP_BITCAST + 1; op < TG_OP__COUNT; op++)
    for (uint32_t t = 0; t < TG_COUNT(types); t++)
      if (has_meaning((tg_op)op, types[t]) && takes(r, ++serial)) check_op(r, (tg_op)op, tg_ops[op].flags & TG_OPF_B ? TG_BOOL : types[t], types[t], widths[serial / 2 % TG_COUNT(widths)]);
  for (uint32_t a = 0; a < TG_COUNT(stored); a++)
    for (uint32_t b = 0; b < TG_COUNT(stored); b++)
      if (takes(r, ++serial)) check_op(r, TG_OP_CAST, stored[b], stored[a], widths[serial / 2 % TG_COUNT(widths)]);
  for (uint32_t t = 0; t < TG_COUNT(stored); t++) {
    if (stored[t] != TG_BOOL && stored[t] != TG_BF16) check_atomic(r, stored[t], t % 2 ? 4 : 1);
    for (uint32_t k = 0; k < 8; k++)
      if (takes(r, ++serial)) check_access(r, stored[t], k & 1 ? 4 : 1, k & 2, k & 4);
  }
  for (uint32_t i = 0; tg_matrix_at(i); i++)
    if (tg_matrix_on(tg_matrix_at(i), &r->target)) check_matrix(r, tg_matrix_at(i));
}

int main(int argc, char **argv) {
  const bool all = argc > 1 && !strcmp(argv[1], "all");
  uint32_t turn = 0;
  /* The heap is kept from program to program: half of the time went into giving pages back and taking them again. */
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT32_MAX);
  mallopt(M_TOP_PAD, 32 << 20);
#ifdef TG_OTHER_LLVM   /* that it selects is what is asked */
  const bool assembles = false;
#else
  const bool assembles = true;
#endif
  const char *ptxas = assembles ? find_ptxas() : NULL;
  char path[TEST_PATH] = "tg-devices-XXXXXX", command[512], out[8192];
  test_place(path);
  int file = mkstemp(path);
  CHECK(file >= 0, "a file");
  for (uint32_t i = 0; tg_target_name(i); i++) {
    run r = {.all = all};
    if (!tg_target_named(&r.target, tg_target_name(i)) || !tg_target_is_device(&r.target) || test_is_another(&r.target) || !tg_jit_knows(&r.target)) continue;
    r.jit = open_jit(r.target.name);
    r.turn = turn++;
    if (r.target.arch == TG_ARCH_NVPTX) r.ptx = fopen(path, "w");
    check_target(&r);
    tg_jit_close(r.jit);
    if (!r.ptx) continue;
    CHECK(!fseek(r.ptx, r.version_at, SEEK_SET) && fputs(r.version, r.ptx) >= 0 && !fclose(r.ptx), "%s cannot be written", path);
    if (!ptxas) {
      printf("%u kernels for %s not assembled: ptxas is not installed\n", r.serial, r.target.name);
      continue;
    }
    snprintf(command, sizeof command, "%s -O1 -arch=%s -o /dev/null %s 2>&1", ptxas, r.target.name, path);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(out, 1, sizeof out - 1, f) : 0;
    out[n] = 0;
    CHECK(f && !pclose(f), "%s: %s", r.target.name, out);
  }
  close(file);
  remove(path);
  return TEST_END();
}

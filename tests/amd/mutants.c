/* SPDX-License-Identifier: MIT
 * Faults in machine code for AMD's processors, one at a time, and how many of them a run notices: a product by matrix
 * instructions and one by multiplications are compiled, one instruction's bits are changed, and the launch is compared
 * with that of the code as it is. At least 98 of 100 must be noticed. Kinds: a barrier left out, a wait left out, a
 * branch turned round, a gate turned round, a digit of a layout (shifts, masks, factors), an address one access off,
 * the operands of a matrix instruction exchanged. The fields are those of AMD's "RDNA3 / RDNA4 / CDNA2 / CDNA3
 * Instruction Set Architecture", "Microcode Formats".
 *   amd_mutants [--target=NAME] [--number N] [--seed N] [--verbose] [FILE.tg ...] */
#include <stdlib.h>
#include "../test.h"
#include "launch.h"

enum { LEAST_PERCENT = 98, NUMBER = 60, NOP = (int)0xbf800000u, PATCHES = 2 };
typedef enum { BARRIER, WAIT, BRANCH, GATE, DIGIT, ADDRESS, OPERANDS, KINDS } kind;
static const char *const kind_name[KINDS] = {"barrier left out",  "wait left out",     "branch turned round",
                                             "gate turned round", "digit of a layout", "address one access off",
                                             "operands exchanged"};

/* Words of the image that become others. */
typedef struct {
  kind kind;
  uint64_t at[PATCHES];
  uint32_t to[PATCHES], n;
  char name[40];
} mutant;

typedef struct {
  kit_code code;
  amd_family family;
  kit_memory want, got;
  mutant *list;
  const mutant *now;
  uint32_t n, room;
  uint64_t steps;
} run;

/* ---- faults ---- */

static void add(run *r, kind k, const amd_instruction *i, uint64_t at, uint32_t to) {
  if (r->n == r->room) r->list = realloc(r->list, (r->room = r->room ? 2 * r->room : 256) * sizeof *r->list);
  mutant *m = &r->list[r->n++];
  *m = (mutant){.kind = k, .at = {at}, .to = {to}, .n = 1};
  snprintf(m->name, sizeof m->name, "%s", i->name);
}

/* On RDNA4 a barrier is two instructions: both go. What waits for loads just before one waits for the caches to be
 * emptied (global_inv counts as a load), and the interpreter has no caches. */
static void barrier(run *r, const amd_instruction *i, uint64_t at) {
  const mutant *last = r->n ? &r->list[r->n - 1] : NULL;
  if (i->operation == AMD_BARRIER_SIGNAL && last && last->kind == WAIT && last->at[0] == at - 4 &&
      !strcmp(last->name, "s_wait_loadcnt"))
    r->n--;
  if (i->operation == AMD_BARRIER_WAIT) {
    for (uint32_t k = r->n; k-- > 0;)
      if (r->list[k].kind == BARRIER && r->list[k].n == 1) {
        r->list[k].at[1] = at, r->list[k].to[1] = (uint32_t)NOP, r->list[k].n = 2;
        return;
      }
    return;
  }
  add(r, BARRIER, i, at, (uint32_t)NOP);
}

static void compare(run *r, const amd_instruction *i, uint64_t at, uint32_t w) {
  static const uint8_t other[] = {1, 0, 5, 4, 3, 2}; /* eq lg gt ge lt le, of s_cmp */
  uint32_t op = w >> 16 & 127;
  if (i->operation == AMD_V_CMP_INT || i->operation == AMD_V_CMP_UINT) /* f lt eq le gt ne ge t */
    add(r, GATE, i, at, w ^ (w >> 25 == 0x3e ? 7u << 17 : 7u << 16));
  else if (i->row->format == AMD_SOPC && op < 12 && strstr(i->name, "s_cmp"))
    add(r, GATE, i, at, (w & ~(127u << 16)) | (op / 6 * 6 + other[op % 6]) << 16);
}

static bool is_small(uint32_t code) { return code > 128 && code < 192; } /* 1 to 63 */

/* A constant in a field of 8 or 9 bits that becomes the next one. */
static void digit(run *r, const amd_instruction *i, uint64_t at, const uint32_t *w) {
  static const char *const ops[] = {"lshl", "lshr", "and_b32", "bfe", "mul_lo", "mul_u32"};
  bool is = false;
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) is |= strstr(i->name, ops[k]) != NULL;
  if (!is) return;
  if (i->row->format == AMD_SOP2 && is_small(w[0] >> 8 & 255))
    add(r, DIGIT, i, at, w[0] + (1u << 8));
  else if (i->row->format == AMD_VOP2 && !(w[0] >> 31) && is_small(w[0] & 511))
    add(r, DIGIT, i, at, w[0] + 1);
  else if (i->row->format == AMD_VOP3)
    for (uint32_t k = 0; k < i->sources; k++)
      if (is_small(w[1] >> 9 * k & 511)) {
        add(r, DIGIT, i, at + 4, w[1] + (1u << 9 * k));
        return;
      }
}

static void address(run *r, const amd_instruction *i, uint64_t at, uint32_t w) {
  if (i->row->format == AMD_DS && (i->operation == AMD_DS_LOAD || i->operation == AMD_DS_STORE)) {
    uint32_t by = i->two ? 1 : i->bytes, field = i->two ? 255 : 65535;
    if ((w & field) + by <= field) add(r, ADDRESS, i, at, w + by);
  }
  if (i->row->format == AMD_GLOBAL && r->family != AMD_RDNA4 &&
      (i->operation == AMD_G_LOAD || i->operation == AMD_G_STORE) && (w & 0xfff) + i->bytes < 0xfff)
    add(r, ADDRESS, i, at, w + i->bytes);
}

static void faults_of(run *r, const amd_instruction *i, uint64_t at, const uint32_t *w) {
  switch (i->operation) {
  case AMD_BARRIER:
  case AMD_BARRIER_SIGNAL:
  case AMD_BARRIER_WAIT: barrier(r, i, at); return;
  case AMD_WAITCNT:
  case AMD_WAIT_LOADCNT:
  case AMD_WAIT_DSCNT:
  case AMD_WAIT_KMCNT:
  case AMD_WAIT_LOADCNT_DSCNT: add(r, WAIT, i, at, (uint32_t)NOP); return;
  case AMD_CBRANCH_SCC0:
  case AMD_CBRANCH_VCCZ: add(r, BRANCH, i, at, w[0] + (1u << 16)); return;
  case AMD_CBRANCH_SCC1:
  case AMD_CBRANCH_VCCNZ: add(r, BRANCH, i, at, w[0] - (1u << 16)); return;
  default: break;
  }
  compare(r, i, at, w[0]);
  digit(r, i, at, w);
  address(r, i, at, w[0]);
  if (strstr(i->name, "wmma") || strstr(i->name, "mfma"))
    add(r, OPERANDS, i, at + 4, (w[1] & ~0x3ffffu) | (w[1] >> 9 & 511) | (w[1] & 511) << 9);
}

/* Of the entries for aligned buffers, from the first instruction to the first that is none. */
static void find_faults(run *r, const amd_object *o) {
  r->n = 0;
  for (uint32_t k = 0; k < o->kernels; k++) {
    if (strstr(o->kernel[k].name, "_unaligned")) continue;
    for (uint64_t at = o->kernel[k].entry - o->base; at + 16 <= o->bytes;) {
      uint32_t w[4];
      amd_instruction i, second;
      char message[AMD_MESSAGE];
      memcpy(w, o->image + at, sizeof w);
      memset(&i, 0, sizeof i);
      if (!amd_decode(r->family, w, 4, &i, &second, message)) break;
      faults_of(r, &i, at, w);
      if (i.operation == AMD_ENDPGM) break;
      at += 4 * i.words;
    }
  }
}

/* ---- runs ---- */

static void count_steps(void *user, const amd_dispatch *d) { ((run *)user)->steps += d->count.instructions; }

static void change(void *user, amd_object *o) {
  run *r = user;
  if (!r->now) find_faults(r, o);
  for (uint32_t k = 0; r->now && k < r->now->n; k++) memcpy(o->image + r->now->at[k], &r->now->to[k], 4);
}

static bool computes(run *r, uint64_t limit, char *message) {
  amd_program p = {.job = &r->code.job,
                   .processor = r->code.path.target.name,
                   .object = &r->code.object,
                   .info = &r->code.info,
                   .params = r->code.params,
                   .seed = 7,
                   .limit = limit,
                   .seen = limit ? NULL : count_steps,
                   .changed = change,
                   .user = r};
  kit_memory_copy(&r->got, &r->code.memory);
  return amd_program_run(&p, &r->got, message);
}

static bool same(const run *r) {
  for (uint32_t b = 0; b < r->want.n; b++)
    if (memcmp(r->want.data[b], r->got.data[b], r->want.bytes[b])) return false;
  return true;
}

static bool noticed(run *r, const mutant *m, bool verbose) {
  char message[AMD_MESSAGE] = "another result";
  r->now = m;
  bool ok = computes(r, 20 * r->steps, message) && same(r);
  if (verbose || ok)
    printf("%s +%llx %s, %s: %s\n", r->code.where, (unsigned long long)m->at[0], m->name, kind_name[m->kind],
           ok ? "NOT NOTICED" : message);
  return !ok;
}

static void one(run *r, const char *where, uint32_t number, uint32_t seed, bool verbose) {
  static char text[1 << 16];
  char message[AMD_MESSAGE] = "";
  uint32_t tried[KINDS] = {0}, missed[KINDS] = {0}, all = 0, found = 0;
  FILE *f = fopen(where, "rb");
  text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
  if (f) fclose(f);
  r->code.text = text, r->code.where = where, r->now = NULL, r->steps = 0;
  bool right = kit_compile(&r->code, NULL, NULL);
  CHECK(right, "%s: %s", where, r->code.job.env.message);
  right = right && computes(r, 0, message);
  CHECK(right, "%s: %s", where, message);
  kit_memory_copy(&r->want, &r->got);
  for (uint32_t i = 0; right && i < r->n; i++) { /* about `number` of them, drawn */
    seed = seed * 1664525u + 1013904223u;
    if (r->n > number && (uint64_t)(seed >> 8) * r->n >> 24 >= number) continue;
    bool found_it = noticed(r, &r->list[i], verbose);
    all++, tried[r->list[i].kind]++, found += found_it, missed[r->list[i].kind] += !found_it;
  }
  for (uint32_t k = 0; k < KINDS; k++)
    if (tried[k])
      printf("%s for %s: %s: %u of %u noticed\n", where, r->code.path.target.name, kind_name[k], tried[k] - missed[k],
             tried[k]);
  printf("%s for %s: %u of %u noticed, of %u that there are\n", where, r->code.path.target.name, found, all, r->n);
  CHECK(all && found * 100 >= all * LEAST_PERCENT, "%s for %s: %u of %u noticed", where, r->code.path.target.name, found,
        all);
  tg_job_drop(&r->code.job);
}

int main(int argc, char **argv) {
  static run r;
  static const char *const files[] = {"tests/ptx/gpu/matmul_f16_nt.tg", "tests/ptx/gpu/matmul_f32.tg"};
  static const char *const targets[] = {"gfx1100", "gfx1201", "gfx90a", "gfx942"};
  const char *target = NULL;
  uint32_t number = NUMBER, seed = 1;
  bool verbose = false;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--target=", 9))
      target = argv[at] + 9;
    else if (!strcmp(argv[at], "--number") && at + 1 < argc)
      number = (uint32_t)atoi(argv[++at]);
    else if (!strcmp(argv[at], "--seed") && at + 1 < argc)
      seed = (uint32_t)atoi(argv[++at]);
    else
      verbose |= !strcmp(argv[at], "--verbose");
  for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
    if (target && strcmp(target, targets[t])) continue;
    bool open = kit_path_open(&r.code.path, targets[t]) && amd_family_of(targets[t], &r.family);
    CHECK(open, "no path for %s", targets[t]);
    if (!open) continue;
    for (int k = at; k < argc; k++) one(&r, argv[k], number, seed, verbose);
    for (size_t k = 0; at == argc && k < sizeof files / sizeof *files; k++) one(&r, files[k], number, seed, verbose);
    kit_path_close(&r.code.path);
  }
  free(r.list);
  kit_memory_free(&r.code.memory), kit_memory_free(&r.want), kit_memory_free(&r.got);
  return TEST_END();
}

/* SPDX-License-Identifier: MIT
 * Every program of the corpus as code for every target: PTX that ptxas takes without a spill (where it is installed: on PATH, or
 * in the CUDA toolkit), AMD machine code every instruction of which disassembles; and each has its launch. Those of tests/corpus for every third target, the others for every ninth,
 * each for others. For processors every 18th program, each row others: its code has no wider registers than the row (library_corpus and library_aarch64 run code, of all).
 *   targets [--target=NAME] [PROGRAM.tg ...]      default: all
 *   targets --processors | --devices              every program for every row of a processor, or for every GPU */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "kit.h"
#include "tg/tg.h"

typedef struct { char *text, *summary; } shown;

static void keep(void *user, const char *stage, const char *text) {
  shown *s = user;
  if (!strcmp(stage, "asm")) s->text = strdup(text);
  if (!strcmp(stage, "object")) s->summary = strdup(text);
}

/* ---- ptxas ---- */

/* A few run beside the compiler. */
enum { BESIDE = 3 };
typedef struct { FILE *pipe; const char *target, *program; int entries; } assembly;
typedef struct { const char *ptxas, *folder; int skipped, lacking, next; assembly at[BESIDE]; } run;

static void collect(assembly *a) {
  static char report[1 << 16];
  if (!a->pipe) return;
  size_t n = fread(report, 1, sizeof report - 1, a->pipe);
  report[n] = 0;
  int status = pclose(a->pipe), kernels = 0;
  a->pipe = NULL;
  CHECK(status == 0, "%s for %s: ptxas: %s", a->program, a->target, report);
  if (status) return;
  CHECK(kit_no_spills(report, &kernels), "%s for %s: %s", a->program, a->target, report);
  CHECK(a->entries == kernels && kernels >= 1, "%s for %s: %d kernels, of which ptxas reports %d", a->program, a->target, a->entries, kernels);
}

static void assemble(run *r, const char *target, const char *program, const char *ptx) {
  char file[512], command[2048];
  assembly *a = &r->at[r->next];
  collect(a);
  snprintf(file, sizeof file, "%s/%d.ptx", r->folder, r->next);
  r->next = (r->next + 1) % BESIDE;
  FILE *f = fopen(file, "w");
  bool written = f && fputs(ptx, f) >= 0;
  if (f) written &= !fclose(f);
  CHECK(written, "%s cannot be written", file);
  snprintf(command, sizeof command, "'%s' -arch=%s -v -o /dev/null '%s' 2>&1", r->ptxas, target, file);
  *a = (assembly){popen(command, "r"), target, program, 0};
  for (const char *s = strstr(ptx, ".entry "); s; s = strstr(s + 1, ".entry ")) a->entries++;
  CHECK(a->pipe, "%s cannot be run", r->ptxas);
}

/* ---- programs ---- */

static void one(run *r, tg_context *c, const tg_target *t, const kit_program *p) {
  shown s = {NULL, NULL};
  tg_compile_options o = {.flags = 0};
  tg_status asked = tg_show_text(c, p->path, p->text, &o, "asm", keep, &s);
  if (asked == TG_EINVAL && strstr(tg_error_message(c), "this target has no ")) {   /* the program's own schedule names something of a CPU */
    r->lacking++;
    return;
  }
  CHECK(asked == TG_OK && s.text, "%s for %s: %s", p->path, t->name, tg_error_message(c));
  if (asked == TG_OK && s.text) {
    if (t->arch == TG_ARCH_NVPTX) {
      if (r->ptxas) assemble(r, t->name, p->path, s.text);
      else r->skipped++;
    } else if (t->arch == TG_ARCH_AMDGPU) {
      const char *end = strstr(s.text, "s_endpgm"), *bad = strstr(s.text, "(not an instruction");
      CHECK((end || !strchr(s.text, ':')) && !bad, "%s for %s: %s", p->path, t->name, bad ? bad : "no end");
    } else if (t->arch == TG_ARCH_X86_64) {
      const char *wide = t->vector_bytes < 64 ? strstr(s.text, "%zmm") : NULL;
      if (!wide && t->vector_bytes < 32) wide = strstr(s.text, "%ymm");
      CHECK(!wide, "%s for %s: registers of %u bytes, and '%.20s'", p->path, t->name, t->vector_bytes, wide);
    }
  }
  free(s.text);
  free(s.summary);
}

/* Four global ranges of extents that are known at the launch share three dimensions; what cannot be launched is refused where it is written. */
static void launches(tg_context *c, const tg_target *t) {
  static const struct { const char *text, *want; } cases[] = {
    {"kernel k(M in 1..1000000) { in(A, f32, [M]); out(B, f32, [M]);"
     "range(g, ceildiv(M, 256), global) range(i, 256, local) B[g*256 + i] = A[g*256 + i] * 2 if g*256 + i < M; }",
     "launch k_0: 3907 x 1 x 1 groups of 256 threads, 0 bytes of LOCAL, for M = 1000000"},
    {"kernel k(M in 1..100, N in 1..70000) { in(A, f32, [3, M, 5, N]); out(B, f32, [3, M, 5, N]);"
     "range(a, 3, global) range(b, M + 1, global) range(c, 5, global) range(d, ceildiv(N, 64), global) range(l, 64, local)"
     "B[a, b, c, d*64 + l] = A[a, b, c, d*64 + l] * 2 if b < M & d*64 + l < N; }",
     "launch k_0: 3282 x 5 x 101 groups of 64 threads, 0 bytes of LOCAL, for M = 100, N = 70000"},
    {"kernel k() { in(A, f32, [120000]); out(B, f32, [120000]); range(g, 2, global) { define_local(t, f32, [60000]);"
     "range(i, 60000, local) t[i] = A[g*60000 + i]; range(i, 60000, local) B[g*60000 + i] = t[59999 - i]; } }",
     "error: with 't' the workgroup has 240000 bytes of local memory"},
    {"kernel k() { in(A, f32, [4, 65, 64]); out(B, f32, [4]); opt(group a); opt(lane b); range(i, 4) B[i] = max(a : 65, b : 64, A[i, a, b]); }",
     "lane b (line 1): a reduction over 4160 threads, and 4096 are the most"},
  };
  tg_compile_options o = {.flags = TG_COMPILE_AS_WRITTEN};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    shown s = {NULL, NULL};
    tg_status st = tg_show_text(c, "k.tg", cases[i].text, &o, "object", keep, &s);
    const char *got = st == TG_OK ? s.summary : tg_error_message(c);
    CHECK(got && strstr(got, cases[i].want), "%s: %s\n--- want %s", t->name, got ? got : "nothing", cases[i].want);
    free(s.summary);
  }
}

/* Four neighbours in registers are one access of 16 bytes; on NVIDIA in the entry for buffers that are aligned to it. */
static void wide_accesses(tg_context *c, const tg_target *t) {
  static const char text[] = "kernel k() { in(A, f32, [8192]); out(B, f32, [8192]);"
                             "range(g, 32, global) range(l, 64, local) range(u, 4, upcast) B[g*256 + l*4 + u] = A[g*256 + l*4 + u] * 2; }";
  bool nvidia = t->arch == TG_ARCH_NVPTX, old = t->lanes == 64 || !strncmp(t->name, "gfx10", 5);
  const char *load = nvidia ? "ld.global.nc.v4.b32" : old ? "global_load_dwordx4" : "global_load_b128", *store = nvidia ? "st.global.v4.b32" : old ? "global_store_dwordx4" : "global_store_b128";
  shown s = {NULL, NULL};
  tg_compile_options o = {.flags = TG_COMPILE_AS_WRITTEN};
  CHECK(tg_show_text(c, "k.tg", text, &o, "asm", keep, &s) == TG_OK && s.text, "%s: %s", t->name, tg_error_message(c));
  const char *other = s.text ? strstr(s.text, ".entry k_0_unaligned") : NULL, *a = s.text ? strstr(s.text, load) : NULL, *b = s.text ? strstr(s.text, store) : NULL;
  CHECK(a && b && nvidia == (other != NULL), "%s:\n%s", t->name, s.text ? s.text : "nothing");
  CHECK(!other || (a < other && b < other && !strstr(other, load) && !strstr(other, store)), "%s:\n%s", t->name, s.text);
  free(s.text);
}

int main(int argc, char **argv) {
  static char ptxas[512];
  char folder[TEST_PATH] = "tg-targets-XXXXXX";
  int n;
  kit_program *p = kit_programs(&n);
  run r = {.ptxas = kit_find_ptxas(ptxas, sizeof ptxas), .folder = test_folder(folder)};
  const char *only = argc > 1 && !strncmp(argv[1], "--target=", 9) ? argv[1] + 9 : NULL;
  bool processors = argc > 1 && !strcmp(argv[1], "--processors"), devices = argc > 1 && !strcmp(argv[1], "--devices");
  if (only || processors || devices) argc--, argv++;
  for (uint32_t i = 0; tg_target_name(i); i++) {
    tg_target t;
    tg_context *c = NULL;
    CHECK(tg_target_named(&t, tg_target_name(i)), "%s", tg_target_name(i));
    if ((only && strcmp(only, t.name)) || (processors && tg_target_is_device(&t)) || (devices && !tg_target_is_device(&t))) continue;
    CHECK(tg_context_create(&(tg_context_options){.target = t.name, .flags = TG_CONTEXT_VERIFY}, &c) == TG_OK, "%s", t.name);
    for (int k = 0; k < n && c; k++) {
      bool wanted = argc < 2 && (only || processors || devices || (tg_target_is_device(&t) ? (!test_is_another(&t) && strstr(p[k].path, "tests/corpus/") && ((uint32_t)k + i) % 3 == 0) || ((uint32_t)k + i) % (test_is_another(&t) ? 36 : 9) == 0 : ((uint32_t)k + i) % 18 == 0));
      for (int a = 1; a < argc; a++) wanted |= !strcmp(argv[a], p[k].path);
      if (wanted) one(&r, c, &t, &p[k]);
    }
    if (tg_target_is_device(&t)) {
      launches(c, &t);
      wide_accesses(c, &t);
    }
    tg_context_free(c);
    for (int a = 0; a < BESIDE; a++) collect(&r.at[a]);
  }
  kit_remove(folder);
  kit_programs_free(p, n);
  /* prefetch in five programs, phases in loops in two; devices have neither */
  uint32_t all = 0;
  for (uint32_t i = 0; tg_target_name(i); i++) {
    tg_target t;
    all += tg_target_named(&t, tg_target_name(i)) && tg_target_is_device(&t);
  }
  CHECK(r.lacking <= (int)(7 * all), "%d programs ask for what their target lacks", r.lacking);
  if (r.lacking) printf("%d programs ask in their schedule for what a target lacks, and are told so\n", r.lacking);
  if (r.skipped) printf("%d programs not assembled: ptxas is not installed\n", r.skipped);
  return TEST_END();
}

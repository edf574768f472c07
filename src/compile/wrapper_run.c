/* SPDX-License-Identifier: MIT
 * All phases of a kernel, for one target, as code: what the CPU's driver does at a launch (devices/cpu), with the
 * caller's function in place of a pool of threads. A workspace of at most SMALL bytes lies on the stack of the thread
 * that runs the task. */
#include "compile/wrapper.h"

enum { SMALL = 16 << 10, ALIGN = 64 };

/* Memory aligned to 64 bytes for %NAME, from the stack or from malloc; of the latter the block is %NAME.block, and
 * control goes to `failed` if there is none. */
static void put_memory(tg_wrapper *w, const char *name, uint64_t bytes, bool on_stack, const char *failed) {
  tg_str *o = &w->out;
  if (on_stack) {
    tg_str_printf(o, "  %%%s = alloca [%llu x i8], align %d\n", name, (unsigned long long)bytes, ALIGN);
    return;
  }
  tg_str_printf(o,
                "  %%%s.block = call ptr @malloc(i64 %llu)\n  %%%s.none = icmp eq ptr %%%s.block, null\n"
                "  br i1 %%%s.none, label %%%s, label %%%s.there\n%s.there:\n",
                name, (unsigned long long)bytes + ALIGN, name, name, name, failed, name, name);
  tg_str_printf(o,
                "  %%%s.at = ptrtoint ptr %%%s.block to i64\n  %%%s.up = add i64 %%%s.at, %d\n"
                "  %%%s.low = and i64 %%%s.up, %d\n  %%%s = inttoptr i64 %%%s.low to ptr\n",
                name, name, name, name, ALIGN - 1, name, name, -ALIGN, name, name);
}

static void put_free(tg_wrapper *w, const char *name, bool on_stack) {
  if (!on_stack) tg_str_printf(&w->out, "  call void @free(ptr %%%s.block)\n", name);
}

/* A closure: the function of a phase, buffers, parameters, the workspace (null: each task takes one of its own), and
 * whether memory was missing. */
static void put_task(tg_wrapper *w, uint32_t t, uint64_t bytes, bool on_stack) {
  tg_str *o = &w->out;
  tg_str_printf(o,
                "define internal void @task.t%u(ptr %%c, i64 %%i) {\n"
                "  %%entry = load ptr, ptr %%c\n"
                "  %%buffers.at = getelementptr ptr, ptr %%c, i64 1\n  %%buffers = load ptr, ptr %%buffers.at\n"
                "  %%params.at = getelementptr ptr, ptr %%c, i64 2\n  %%params = load ptr, ptr %%params.at\n"
                "  %%given.at = getelementptr ptr, ptr %%c, i64 3\n  %%given = load ptr, ptr %%given.at\n"
                "  %%own = icmp eq ptr %%given, null\n  br i1 %%own, label %%mine, label %%theirs\n"
                "theirs:\n  call void %%entry(ptr %%buffers, ptr %%params, ptr %%given, i64 %%i)\n  ret void\n"
                "mine:\n",
                t);
  put_memory(w, "memory", bytes, on_stack, "failed");
  tg_str_puts(o, "  call void %entry(ptr %buffers, ptr %params, ptr %memory, i64 %i)\n");
  put_free(w, "memory", on_stack);
  tg_str_puts(o, "  ret void\n");
  if (!on_stack)
    tg_str_puts(o, "failed:\n  %failed.at = getelementptr ptr, ptr %c, i64 4\n"
                   "  store atomic i64 1, ptr %failed.at monotonic, align 8\n  ret void\n");
  tg_str_puts(o, "}\n");
}

/* Runs the n tasks of a phase: by the caller's function if there are several, else one after another. */
static void put_deal(tg_wrapper *w, uint32_t t) {
  tg_str_printf(&w->out,
                "define internal void @deal.t%u(ptr %%c, i64 %%n, ptr %%memory, ptr %%each, ptr %%user) {\n"
                "start:\n  %%given.at = getelementptr ptr, ptr %%c, i64 3\n"
                "  %%several = icmp sgt i64 %%n, 1\n  %%given = icmp ne ptr %%each, null\n"
                "  %%out = and i1 %%several, %%given\n  br i1 %%out, label %%many, label %%here\n"
                "many:\n  store ptr null, ptr %%given.at\n"
                "  call void %%each(ptr %%user, i64 %%n, ptr @task.t%u, ptr %%c)\n  ret void\n"
                "here:\n  store ptr %%memory, ptr %%given.at\n  br label %%next\n"
                "next:\n  %%i = phi i64 [ 0, %%here ], [ %%i.next, %%run ]\n  %%more = icmp slt i64 %%i, %%n\n"
                "  br i1 %%more, label %%run, label %%done\n"
                "run:\n  call void @task.t%u(ptr %%c, i64 %%i)\n  %%i.next = add i64 %%i, 1\n  br label %%next\n"
                "done:\n  ret void\n}\n",
                t, t, t);
}

typedef struct {
  tg_wrapper *w;
  uint32_t t, labels;
} running;

static bool has_unaligned(const running *r, uint32_t p) {
  const tg_wrapped *of = &r->w->of[r->t];
  return of->info.aligned && strstr(of->ir, tg_format(r->w->env, "@%s.%u.unaligned(", r->w->name, p));
}

static void put_phase(running *r, uint32_t p) {
  tg_wrapper *w = r->w;
  uint32_t v = w->values++;
  tg_str_printf(&w->out, "  %%n.%u = call i64 @%s.%u.tasks.t%u(ptr %%buffers, ptr %%params)\n", v, w->name, p, r->t);
  if (has_unaligned(r, p))
    tg_str_printf(&w->out,
                  "  %%e.%u = select i1 %%unaligned, ptr @%s.%u.unaligned.t%u, ptr @%s.%u.t%u\n"
                  "  store ptr %%e.%u, ptr %%c\n",
                  v, w->name, p, r->t, w->name, p, r->t, v);
  else
    tg_str_printf(&w->out, "  store ptr @%s.%u.t%u, ptr %%c\n", w->name, p, r->t);
  tg_str_printf(&w->out, "  call void @deal.t%u(ptr %%c, i64 %%n.%u, ptr %%memory, ptr %%each, ptr %%user)\n", r->t, v);
}

/* The steps of tg_code_info.launch; depth: loops around them, whose counters lie at the start of the shared memory. */
static void put_steps(running *r, const int64_t *s, const int64_t *end, uint32_t depth) {
  tg_str *o = &r->w->out;
  while (s < end) {
    if (*s >= 0) {
      put_phase(r, (uint32_t)*s++);
      continue;
    }
    uint32_t l = r->labels++;
    tg_str_printf(o,
                  "  %%turns%u = call i64 @%s.%lld.turns.t%u(ptr %%buffers, ptr %%params)\n"
                  "  store i64 0, ptr %%turn%u\n  br label %%again%u\n"
                  "again%u:\n  %%i%u = load i64, ptr %%turn%u\n  %%on%u = icmp slt i64 %%i%u, %%turns%u\n"
                  "  br i1 %%on%u, label %%in%u, label %%out%u\nin%u:\n"
                  "  %%at%u = getelementptr i64, ptr %%shared, i64 %u\n  store i64 %%i%u, ptr %%at%u\n",
                  l, r->w->name, (long long)~*s, r->t, l, l, l, l, l, l, l, l, l, l, l, l, l, depth, l, l);
    put_steps(r, s + 2, s + 2 + s[1], depth + 1);
    tg_str_printf(o, "  %%up%u = add i64 %%i%u, 1\n  store i64 %%up%u, ptr %%turn%u\n  br label %%again%u\nout%u:\n", l,
                  l, l, l, l, l);
    s += 2 + s[1];
  }
}

static void declare(tg_wrapper *w, uint32_t t) {
  const tg_code_info *info = &w->of[t].info;
  running r = {w, t, 0};
  for (uint32_t p = 0; p < info->phases; p++) {
    tg_str_printf(&w->out, "declare void @%s.%u.t%u(ptr, ptr, ptr, i64)\ndeclare i64 @%s.%u.tasks.t%u(ptr, ptr)\n",
                  w->name, p, t, w->name, p, t);
    if (has_unaligned(&r, p))
      tg_str_printf(&w->out, "declare void @%s.%u.unaligned.t%u(ptr, ptr, ptr, i64)\n", w->name, p, t);
  }
  for (uint32_t l = 0; l < info->loops; l++)
    tg_str_printf(&w->out, "declare i64 @%s.%u.turns.t%u(ptr, ptr)\n", w->name, l, t);
}

static bool needs_malloc(const tg_wrapped *of) { return of->info.workspace > SMALL || of->info.shared; }

static void put_unaligned(tg_wrapper *w, uint64_t aligned) {
  tg_str *o = &w->out;
  tg_str_puts(o, "  %low = add i64 0, 0\n");
  const char *before = "low";
  for (uint32_t b = 0; b < 64; b++) {
    if (!(aligned >> b & 1)) continue;
    tg_str_printf(o,
                  "  %%u%u.at = getelementptr ptr, ptr %%buffers, i64 %u\n  %%u%u.p = load ptr, ptr %%u%u.at\n"
                  "  %%u%u.i = ptrtoint ptr %%u%u.p to i64\n  %%u%u = or i64 %%%s, %%u%u.i\n",
                  b, b, b, b, b, b, b, before, b);
    before = tg_format(w->env, "u%u", b);
  }
  tg_str_printf(o, "  %%low.bits = and i64 %%%s, %d\n  %%unaligned = icmp ne i64 %%low.bits, 0\n", before, ALIGN - 1);
}

void tg_wrapper_run(tg_wrapper *w, uint32_t t) {
  const tg_code_info *info = &w->of[t].info;
  bool on_stack = info->workspace <= SMALL, first_malloc = needs_malloc(&w->of[t]);
  for (uint32_t i = 0; i < t; i++) first_malloc &= !needs_malloc(&w->of[i]);
  if (first_malloc) tg_str_puts(&w->out, "declare ptr @malloc(i64)\ndeclare void @free(ptr)\n");
  declare(w, t);
  put_task(w, t, info->workspace, on_stack);
  put_deal(w, t);
  tg_str *o = &w->out;
  tg_str_printf(o, "define internal i32 @run.t%u(ptr %%buffers, ptr %%params, ptr %%each, ptr %%user) {\n", t);
  tg_str_puts(o, "  %c = alloca [5 x ptr]\n");
  for (uint32_t l = 0; l < info->loops; l++) tg_str_printf(o, "  %%turn%u = alloca i64\n", l);
  if (info->shared) {
    put_memory(w, "shared", info->shared, false, "none");
    tg_str_printf(o, "  %%last = getelementptr ptr, ptr %%buffers, i64 %u\n  store ptr %%shared, ptr %%last\n",
                  w->signature->buffers_n);
  }
  put_memory(w, "memory", info->workspace, on_stack, info->shared ? "less" : "none");
  tg_str_puts(o, "  %buffers.at = getelementptr ptr, ptr %c, i64 1\n  store ptr %buffers, ptr %buffers.at\n"
                 "  %params.at = getelementptr ptr, ptr %c, i64 2\n  store ptr %params, ptr %params.at\n"
                 "  %failed.at = getelementptr ptr, ptr %c, i64 4\n  store i64 0, ptr %failed.at\n");
  put_unaligned(w, info->aligned);
  running r = {w, t, 0};
  if (info->loops)
    put_steps(&r, info->launch, info->launch + info->launch_n, 0);
  else
    for (uint32_t p = 0; p < info->phases; p++) put_phase(&r, p);
  put_free(w, "memory", on_stack);
  if (info->shared) put_free(w, "shared", false);
  tg_str_puts(o,
              "  %failed = load atomic i64, ptr %failed.at monotonic, align 8\n  %result = trunc i64 %failed to i32\n"
              "  ret i32 %result\n");
  if (info->shared && !on_stack) tg_str_puts(o, "less:\n  call void @free(ptr %shared.block)\n  ret i32 1\n");
  if (info->shared || !on_stack) tg_str_puts(o, "none:\n  ret i32 1\n");
  tg_str_puts(o, "}\n");
}

/* SPDX-License-Identifier: MIT
 * All phases of a kernel, for one target, as code: what the CPU's driver does at a launch (devices/cpu), with the
 * caller's function in place of a pool of threads. A workspace of at most SMALL bytes lies on the stack of the thread
 * that runs the task; a larger one is given, or allocated. */
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
  if (!w->allocates) w->declare_allocator = w->allocates = true;
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

/* The closure %c of a phase, as words: its function, buffers, parameters, the workspace of task 0 (null: each task
 * takes one of its own), whether memory was missing, and the numbers of units and of tasks that share them. */
enum { C_ENTRY, C_BUFFERS, C_PARAMS, C_GIVEN, C_FAILED, C_UNITS, C_TASKS, C_WORDS };

static void put_word(tg_wrapper *w, const char *type, const char *name, int at) {
  tg_str_printf(&w->out, "  %%%s.in = getelementptr ptr, ptr %%c, i64 %d\n  %%%s = load %s, ptr %%%s.in\n", name, at,
                name, type, name);
}

/* Task j: units j, j + tasks, .. */
static void put_task(tg_wrapper *w, uint32_t t, uint64_t bytes, bool on_stack, bool given) {
  tg_str *o = &w->out;
  tg_str_printf(o, "define internal void @task.t%u(ptr %%c, i64 %%j) {\n", t);
  put_word(w, "ptr", "entry", C_ENTRY), put_word(w, "ptr", "buffers", C_BUFFERS);
  put_word(w, "ptr", "params", C_PARAMS), put_word(w, "i64", "n", C_UNITS), put_word(w, "i64", "by", C_TASKS);
  if (on_stack) {
    put_memory(w, "memory", bytes, true, "");
    tg_str_puts(o, "  br label %start\nstart:\n");
  } else {
    put_word(w, "ptr", "given", C_GIVEN);
    tg_str_printf(o, "  %%offset = mul i64 %%j, %llu\n  %%theirs = getelementptr i8, ptr %%given, i64 %%offset\n",
                  (unsigned long long)bytes);
    if (given) tg_str_puts(o, "  br label %start\nstart:\n");
    else {
      tg_str_puts(o, "  %own = icmp eq ptr %given, null\n  br i1 %own, label %mine, label %join\nmine:\n");
      put_memory(w, "taken", bytes, false, "failed");
      tg_str_puts(o, "  br label %start\njoin:\n  br label %start\nstart:\n"
                     "  %memory = phi ptr [ %taken, %taken.there ], [ %theirs, %join ]\n"
                     "  %block = phi ptr [ %taken.block, %taken.there ], [ null, %join ]\n");
    }
  }
  tg_str_printf(o,
                "  br label %%next\nnext:\n  %%i = phi i64 [ %%j, %%start ], [ %%up, %%run ]\n"
                "  %%more = icmp slt i64 %%i, %%n\n  br i1 %%more, label %%run, label %%done\n"
                "run:\n  call void %%entry(ptr %%buffers, ptr %%params, ptr %%%s, i64 %%i)\n"
                "  %%up = add i64 %%i, %%by\n  br label %%next\ndone:\n",
                on_stack || !given ? "memory" : "theirs");
  if (!on_stack && !given) tg_str_puts(o, "  call void @free(ptr %block)\n");
  tg_str_puts(o, "  ret void\n");
  if (!on_stack && !given)
    tg_str_puts(o, "failed:\n  %failed.at = getelementptr ptr, ptr %c, i64 4\n"
                   "  store atomic i64 1, ptr %failed.at monotonic, align 8\n  ret void\n");
  tg_str_puts(o, "}\n");
  _Static_assert(C_FAILED == 4, "as in the text");
}

/* Shares out the n units of a phase: by the caller's function if there are several, in at most `threads` tasks, whose
 * workspaces lie side by side from %many on; else one task does them, with the workspace %one. */
static void put_deal(tg_wrapper *w, uint32_t t) {
  tg_str_printf(&w->out,
                "define internal void @deal.t%u(ptr %%c, i64 %%n, ptr %%one, ptr %%many, i64 %%threads, ptr %%each, "
                "ptr %%user) {\n"
                "  %%given.at = getelementptr ptr, ptr %%c, i64 %d\n  %%n.at = getelementptr ptr, ptr %%c, i64 %d\n"
                "  %%by.at = getelementptr ptr, ptr %%c, i64 %d\n  store i64 %%n, ptr %%n.at\n"
                "  %%fewer = icmp slt i64 %%n, %%threads\n  %%by = select i1 %%fewer, i64 %%n, i64 %%threads\n"
                "  %%several = icmp sgt i64 %%by, 1\n  %%given = icmp ne ptr %%each, null\n"
                "  %%out = and i1 %%several, %%given\n  br i1 %%out, label %%share, label %%here\n"
                "share:\n  store ptr %%many, ptr %%given.at\n  store i64 %%by, ptr %%by.at\n"
                "  call void %%each(ptr %%user, i64 %%by, ptr @task.t%u, ptr %%c)\n  ret void\n"
                "here:\n  store ptr %%one, ptr %%given.at\n  store i64 1, ptr %%by.at\n"
                "  %%some = icmp sgt i64 %%n, 0\n  br i1 %%some, label %%run, label %%done\n"
                "run:\n  call void @task.t%u(ptr %%c, i64 0)\n  br label %%done\ndone:\n  ret void\n}\n",
                t, C_GIVEN, C_UNITS, C_TASKS, t, t);
}

typedef struct {
  tg_wrapper *w;
  uint32_t t, labels;
} running;

static bool has_unaligned(const running *r, uint32_t p) {
  const tg_wrapped *of = &r->w->of.data[r->t];
  return of->info->aligned && strstr(of->ir, tg_format(r->w->env, "@%s.%u.unaligned(", of->name, p));
}

static void put_phase(running *r, uint32_t p) {
  tg_wrapper *w = r->w;
  const char *name = w->of.data[r->t].name;
  uint32_t v = w->values++;
  tg_str_printf(&w->out, "  %%n.%u = call i64 @%s.%u.tasks.t%u(ptr %%buffers, ptr %%params)\n", v, name, p, r->t);
  if (has_unaligned(r, p))
    tg_str_printf(&w->out,
                  "  %%e.%u = select i1 %%unaligned, ptr @%s.%u.unaligned.t%u, ptr @%s.%u.t%u\n"
                  "  store ptr %%e.%u, ptr %%c\n",
                  v, name, p, r->t, name, p, r->t, v);
  else
    tg_str_printf(&w->out, "  store ptr @%s.%u.t%u, ptr %%c\n", name, p, r->t);
  tg_str_printf(&w->out,
                "  call void @deal.t%u(ptr %%c, i64 %%n.%u, ptr %%one, ptr %%many, i64 %%threads, ptr %%each, "
                "ptr %%user)\n",
                r->t, v);
}

/* The steps of tg_code_info.launch; depth: loops around them, whose counters lie at the start of the shared memory. */
static void put_steps(running *r, const int64_t *s, const int64_t *end, uint32_t depth) {
  tg_str *o = &r->w->out;
  const char *name = r->w->of.data[r->t].name;
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
                  l, name, (long long)~*s, r->t, l, l, l, l, l, l, l, l, l, l, l, l, l, depth, l, l);
    put_steps(r, s + 2, s + 2 + s[1], depth + 1);
    tg_str_printf(o, "  %%up%u = add i64 %%i%u, 1\n  store i64 %%up%u, ptr %%turn%u\n  br label %%again%u\nout%u:\n", l,
                  l, l, l, l, l);
    s += 2 + s[1];
  }
}

static void declare(tg_wrapper *w, uint32_t t) {
  const tg_code_info *info = w->of.data[t].info;
  const char *name = w->of.data[t].name;
  running r = {w, t, 0};
  for (uint32_t p = 0; p < info->phases; p++) {
    tg_str_printf(&w->out, "declare void @%s.%u.t%u(ptr, ptr, ptr, i64)\ndeclare i64 @%s.%u.tasks.t%u(ptr, ptr)\n",
                  name, p, t, name, p, t);
    if (has_unaligned(&r, p))
      tg_str_printf(&w->out, "declare void @%s.%u.unaligned.t%u(ptr, ptr, ptr, i64)\n", name, p, t);
  }
  for (uint32_t l = 0; l < info->loops; l++)
    tg_str_printf(&w->out, "declare i64 @%s.%u.turns.t%u(ptr, ptr)\n", name, l, t);
}

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

tg_wrapper_bytes tg_wrapper_memory(const tg_wrapped *k) {
  return (tg_wrapper_bytes){k->info->shared, k->info->workspace > SMALL ? k->info->workspace : 0};
}

/* Where the memory that phases share and the workspaces lie. */
static void put_workspace(tg_wrapper *w, const tg_wrapped *of, bool on_stack) {
  const tg_code_info *info = of->info;
  tg_str *o = &w->out;
  if (of->given) {
    if (info->shared) tg_str_puts(o, "  %shared = getelementptr i8, ptr %memory, i64 0\n");
    tg_str_printf(o, "  %%one = getelementptr i8, ptr %%memory, i64 %llu\n", (unsigned long long)info->shared);
    tg_str_puts(o, "  %many = getelementptr i8, ptr %one, i64 0\n");
  } else {
    if (info->shared) put_memory(w, "shared", info->shared, false, "none");
    if (!on_stack) put_memory(w, "one", info->workspace, false, info->shared ? "less" : "none");
    else tg_str_puts(o, "  %one = getelementptr i8, ptr null, i64 0\n");
    tg_str_puts(o, "  %many = getelementptr i8, ptr null, i64 0\n");
  }
  if (info->shared)
    tg_str_printf(o, "  %%last = getelementptr ptr, ptr %%buffers, i64 %u\n  store ptr %%shared, ptr %%last\n",
                  info->buffers);
}

void tg_wrapper_run(tg_wrapper *w, uint32_t t) {
  const tg_wrapped *of = &w->of.data[t];
  const tg_code_info *info = of->info;
  bool on_stack = info->workspace <= SMALL, frees = !of->given;
  declare(w, t);
  put_task(w, t, info->workspace, on_stack, of->given);
  put_deal(w, t);
  tg_str *o = &w->out;
  tg_str_printf(o, "define internal i32 @run.t%u(ptr %%buffers, ptr %%params, ptr %%memory, i64 %%threads, ptr %%each, "
                   "ptr %%user) {\n", t);
  tg_str_printf(o, "  %%c = alloca [%d x ptr]\n", C_WORDS);
  for (uint32_t l = 0; l < info->loops; l++) tg_str_printf(o, "  %%turn%u = alloca i64\n", l);
  put_workspace(w, of, on_stack);
  tg_str_printf(o,
                "  %%buffers.at = getelementptr ptr, ptr %%c, i64 %d\n  store ptr %%buffers, ptr %%buffers.at\n"
                "  %%params.at = getelementptr ptr, ptr %%c, i64 %d\n  store ptr %%params, ptr %%params.at\n"
                "  %%failed.at = getelementptr ptr, ptr %%c, i64 %d\n  store i64 0, ptr %%failed.at\n",
                C_BUFFERS, C_PARAMS, C_FAILED);
  put_unaligned(w, info->aligned);
  running r = {w, t, 0};
  if (info->loops)
    put_steps(&r, info->launch, info->launch + info->launch_n, 0);
  else
    for (uint32_t p = 0; p < info->phases; p++) put_phase(&r, p);
  if (frees) put_free(w, "one", on_stack);
  if (frees && info->shared) put_free(w, "shared", false);
  tg_str_puts(o,
              "  %failed = load atomic i64, ptr %failed.at monotonic, align 8\n  %result = trunc i64 %failed to i32\n"
              "  ret i32 %result\n");
  if (frees && info->shared && !on_stack) tg_str_puts(o, "less:\n  call void @free(ptr %shared.block)\n  ret i32 1\n");
  if (frees && (info->shared || !on_stack)) tg_str_puts(o, "none:\n  ret i32 1\n");
  tg_str_puts(o, "}\n");
  if (!w->declare_allocator) return;
  tg_str_puts(o, "declare ptr @malloc(i64)\ndeclare void @free(ptr)\n");
  w->declare_allocator = false;
}

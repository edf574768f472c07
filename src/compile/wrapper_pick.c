/* SPDX-License-Identifier: MIT
 * Which of the targets a processor can run, as code: CPUID and XCR0 on x86-64, the auxiliary vector on AArch64. The
 * answer is kept; threads that ask at once find the same. */
#include "compile/wrapper.h"
#include "target/processor.h"

/* Where each word of CPUID comes from: leaf, subleaf, and the register by its place in EAX, EBX, ECX, EDX. */
static const struct {
  uint32_t leaf, subleaf, place;
} words[TG_CPUID_WORDS] = {[TG_CPUID_1_C] = {1, 0, 2},
                           [TG_CPUID_1_D] = {1, 0, 3},
                           [TG_CPUID_7_B] = {7, 0, 1},
                           [TG_CPUID_7_C] = {7, 0, 2},
                           [TG_CPUID_7_D] = {7, 0, 3},
                           [TG_CPUID_71_A] = {7, 1, 0},
                           [TG_CPUID_EXT_C] = {0x80000001u, 0, 2},
                           [TG_CPUID_EXT_D] = {0x80000001u, 0, 3}};

/* A leaf that the processor does not have is 0: tg.cpuid asks for the highest one first. */
static const char cpuid[] =
    "define internal { i32, i32, i32, i32 } @tg.leaf(i32 %leaf, i32 %subleaf) {\n"
    "  %r = call { i32, i32, i32, i32 } asm sideeffect \"cpuid\", "
    "\"={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}\"(i32 %leaf, i32 %subleaf)\n"
    "  ret { i32, i32, i32, i32 } %r\n}\n"
    "define internal { i32, i32, i32, i32 } @tg.cpuid(i32 %leaf, i32 %subleaf) {\n"
    "  %first = and i32 %leaf, -2147483648\n"
    "  %top = call { i32, i32, i32, i32 } @tg.leaf(i32 %first, i32 0)\n"
    "  %most = extractvalue { i32, i32, i32, i32 } %top, 0\n"
    "  %has = icmp uge i32 %most, %leaf\n  br i1 %has, label %ask, label %none\n"
    "none:\n  ret { i32, i32, i32, i32 } zeroinitializer\n"
    "ask:\n  %r = call { i32, i32, i32, i32 } @tg.leaf(i32 %leaf, i32 %subleaf)\n"
    "  ret { i32, i32, i32, i32 } %r\n}\n"
    /* XCR0; 0: the system has not enabled XSAVE */
    "define internal i64 @tg.state() {\n"
    "  %w = call { i32, i32, i32, i32 } @tg.cpuid(i32 1, i32 0)\n"
    "  %c = extractvalue { i32, i32, i32, i32 } %w, 2\n  %bit = and i32 %c, 134217728\n"
    "  %has = icmp ne i32 %bit, 0\n  br i1 %has, label %ask, label %none\n"
    "none:\n  ret i64 0\n"
    "ask:\n  %r = call { i32, i32 } asm sideeffect \"xgetbv\", \"={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}\"(i32 "
    "0)\n"
    "  %low = extractvalue { i32, i32 } %r, 0\n  %s = zext i32 %low to i64\n  ret i64 %s\n}\n";

/* What a target needs of each word. */
static void needs_of(const tg_target *t, uint64_t *need, uint64_t *state) {
  const tg_feature *f;
  for (uint32_t i = 0; (f = tg_feature_at(t->arch, i)); i++)
    if (t->needs >> i & 1) need[f->word] |= (uint64_t)1 << f->bit, *state |= f->state;
}

/* %right: the words have all bits of the masks. */
static void put_test(tg_wrapper *w, uint32_t target, uint32_t words_n) {
  uint64_t need[TG_CPUID_WORDS] = {0}, state = 0;
  needs_of(w->target[target], need, &state);
  tg_str *o = &w->out;
  tg_str_printf(o, "  %%r%u.0 = add i1 true, false\n", target);
  uint32_t n = 0;
  for (uint32_t i = 0; i <= words_n; i++) {
    uint64_t mask = i < words_n ? need[i] : state;
    if (!mask) continue;
    tg_str_printf(o, "  %%m%u.%u = and i64 %%word%u, %llu\n", target, i, i, (unsigned long long)mask);
    tg_str_printf(o, "  %%h%u.%u = icmp eq i64 %%m%u.%u, %llu\n", target, i, target, i, (unsigned long long)mask);
    tg_str_printf(o, "  %%r%u.%u = and i1 %%r%u.%u, %%h%u.%u\n", target, n + 1, target, n, target, i);
    n++;
  }
  uint32_t sve = w->target[target]->sve_bytes;
  if (sve > 16) {
    tg_str_printf(o, "  %%s%u = icmp uge i64 %%sve, %u\n  %%r%u.%u = and i1 %%r%u.%u, %%s%u\n", target, sve, target,
                  n + 1, target, n, target);
    n++;
  }
  tg_str_printf(o, "  %%pick%u = select i1 %%r%u.%u, i32 %u, i32 %s%u\n", target, target, n, target + 1,
                target ? "%pick" : "", target ? target - 1 : 0);
}

static bool needs_sve_length(const tg_wrapper *w) {
  for (uint32_t i = 0; i < w->targets_n; i++)
    if (w->target[i]->sve_bytes > 16) return true;
  return false;
}

static void put_words(tg_wrapper *w, bool x86) {
  tg_str *o = &w->out;
  for (uint32_t i = 0; x86 && i < TG_CPUID_WORDS; i++)
    tg_str_printf(
        o,
        "  %%leaf%u = call { i32, i32, i32, i32 } @tg.cpuid(i32 %u, i32 %u)\n"
        "  %%half%u = extractvalue { i32, i32, i32, i32 } %%leaf%u, %u\n  %%word%u = zext i32 %%half%u to i64\n",
        i, words[i].leaf, words[i].subleaf, i, i, words[i].place, i, i);
  if (x86)
    tg_str_printf(o, "  %%word%u = call i64 @tg.state()\n", (uint32_t)TG_CPUID_WORDS);
  else
    tg_str_puts(o, "  %word0 = call i64 @getauxval(i64 16)\n  %word1 = call i64 @getauxval(i64 26)\n"
                   "  %word2 = add i64 0, 0\n");
  if (!needs_sve_length(w)) return;
  tg_str_puts(o, "  %sve.raw = call i32 (i32, ...) @prctl(i32 51)\n  %sve.low = and i32 %sve.raw, 65535\n"
                 "  %sve.has = icmp sgt i32 %sve.raw, 0\n  %sve.got = select i1 %sve.has, i32 %sve.low, i32 0\n"
                 "  %sve = zext i32 %sve.got to i64\n");
}

void tg_wrapper_pick(tg_wrapper *w) {
  bool x86 = w->target[0]->arch == TG_ARCH_X86_64;
  tg_str *o = &w->out;
  if (x86)
    tg_str_puts(o, cpuid);
  else
    tg_str_printf(o, "declare i64 @getauxval(i64)\n%s", needs_sve_length(w) ? "declare i32 @prctl(i32, ...)\n" : "");
  tg_str_puts(o, "@tg.picked = internal global i32 -1\n"
                 "define internal i32 @tg.pick() {\n"
                 "  %kept = load atomic i32, ptr @tg.picked monotonic, align 4\n"
                 "  %known = icmp ne i32 %kept, -1\n  br i1 %known, label %have, label %ask\n"
                 "have:\n  ret i32 %kept\n"
                 "ask:\n");
  put_words(w, x86);
  for (uint32_t i = 0; i < w->targets_n; i++) put_test(w, i, x86 ? TG_CPUID_WORDS : 2);
  uint32_t last = w->targets_n - 1;
  tg_str_printf(o, "  store atomic i32 %%pick%u, ptr @tg.picked monotonic, align 4\n", last);
  tg_str_printf(o, "  ret i32 %%pick%u\n}\n", last);
}

/* SPDX-License-Identifier: MIT
 * The hook of compiles: it hears of each call once, with what the call did: compiled or from the cache, the words, the model's price, or why it failed.
 * Near misses of tuned choices: tests/search/tune.c. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include <tg/dsl.h>
#include <tg/gemm.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"

typedef struct { int calls, cached, failed; double seconds; char kernel[64], words[512], message[512]; tg_compile_report last; } heard;

static void hear(void *user, const tg_compile_report *r) {
  heard *h = user;
  h->calls++, h->cached += r->from_cache, h->failed += r->status != TG_OK, h->seconds += r->seconds;
  snprintf(h->kernel, sizeof h->kernel, "%s", r->kernel);
  snprintf(h->words, sizeof h->words, "%s", r->words ? r->words : "(not known)");
  snprintf(h->message, sizeof h->message, "%s", r->message ? r->message : "");
  h->last = *r;
}

static const char text[] = "kernel matmul(M, N, K) { in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n"
                           "range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]); }\n";
static const tg_binding sizes[] = {{"M", 64, 64, 1}, {"N", 48, 48, 1}, {"K", 32, 32, 1}};

static tg_status compile(tg_context *c, const char *source, const char *opts, uint32_t flags) {
  tg_compile_options o = {.bindings = sizes, .bindings_n = 3, .opts = opts, .flags = flags};
  tg_kernel *k = NULL;
  tg_status s = tg_kernel_compile_text(c, "mine.tg", source, &o, &k);
  tg_kernel_free(k);
  return s;
}

static void test_texts(tg_context *c, heard *h) {
  CHECK(!compile(c, text, NULL, 0) && h->calls == 1 && !h->last.from_cache && !h->last.tuned && h->last.price > 0 && h->last.price < 1 && h->last.seconds > 0, "%s", tg_error_message(c));
  CHECK(!strcmp(h->kernel, "matmul") && strstr(h->words, "lane ") && !h->last.near_miss, "%s: %s", h->kernel, h->words);
  CHECK(!compile(c, text, NULL, 0) && h->calls == 2 && h->cached == 1 && !h->last.price && !strcmp(h->words, "(not known)"), "from the cache: %s", h->words);
  CHECK(!compile(c, text, "split j 8 as jo ji; lane ji", 0) && h->calls == 3 && !h->last.from_cache, "by hand");
  CHECK_TEXT(h->words, "split j 8 as jo ji; lane ji");
  CHECK(!compile(c, text, "split j 8 as jo ji; lane ji", 0) && h->cached == 2, "by hand, from the cache");
  CHECK_TEXT(h->words, "split j 8 as jo ji; lane ji");
  CHECK(!compile(c, text, NULL, TG_COMPILE_AS_WRITTEN) && h->calls == 5 && !strcmp(h->words, ""), "as written: '%s'", h->words);
  CHECK(compile(c, "kernel matmul(M, N, K) { out(C, f32, [M]); range(i, M) C[i] = x[i]; }", NULL, 0) == TG_EINVAL && h->calls == 6 && h->failed == 1 && h->last.status == TG_EINVAL, "a mistake");
  CHECK(strstr(h->message, "mine.tg:1:") && !strcmp(h->message, tg_error_message(c)) && !strcmp(h->words, "(not known)"), "%s", h->message);
  CHECK(compile(c, text, "split j 16 as jo ji", TG_COMPILE_CACHED_ONLY) == TG_MISS && h->last.status == TG_MISS && h->calls == 7, "nothing is compiled");
  CHECK(compile(c, text, NULL, TG_COMPILE_TUNED_ONLY) == TG_MISS, "no choice");
  CHECK(compile(c, "kernel half(M", NULL, 0) == TG_EINVAL && h->last.status == TG_EINVAL, "half of a kernel");
}

/* Every kernel of a plan is a call. */
static void test_plan(tg_context *c, heard *h) {
  tg_gemm_desc d = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .m = {100, 0}, .n = {200, 0}, .k = {300, 0}};
  tg_gemm *g = NULL;
  int before = h->calls;
  CHECK(!tg_gemm_plan(c, &d, &g), "%s", tg_error_message(c));
  CHECK(g && h->calls - before == (int)tg_gemm_describe(g).kernels && h->words[0] && strncmp(h->kernel, "gemm_", 5) == 0, "%d calls, %s", h->calls - before, h->kernel);
  tg_gemm_free(g);
}

int main(void) {
  char cache[TEST_PATH] = "tg-heard-XXXXXX", command[TEST_PATH + 16];
  heard h = {0};
  tg_context *c = NULL;
  CHECK(test_folder(cache) != NULL, "a folder");
  tg_context_options o = {.target = test_target(), .cache = cache, .compiled = hear, .log_user = &h};
  CHECK(!tg_context_create(&o, &c), "a context");
  test_texts(c, &h);
  test_plan(c, &h);
  tg_context_free(c);
  snprintf(command, sizeof command, "rm -rf %s", cache);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}

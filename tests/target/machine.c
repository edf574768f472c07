/* SPDX-License-Identifier: MIT
 * Rows of machines: which processors take which, as text and back, and files of the user's own, good and bad. Nothing
 * depends on the machine that the test runs on. */
#define _DEFAULT_SOURCE
#include <sys/stat.h>
#include "../test.h"
#include "../folder.h"
#include "target/processor.h"

static tg_env env;

/* ---- processors ---- */

static const char *row_of(const char *maker, uint32_t eax, uint32_t vector_bytes) {
  tg_processor p = {.arch = TG_ARCH_X86_64, .model = eax};
  snprintf(p.maker, sizeof p.maker, "%s", maker);
  return tg_machine_of(&p, vector_bytes)->name;
}

static const char *row_of_arm(uint64_t midr, uint32_t vector_bytes) {
  tg_processor p = {.arch = TG_ARCH_AARCH64, .midr = {midr}, .kinds = midr != 0};
  return tg_machine_of(&p, vector_bytes)->name;
}

static void known_ones(void) {
  static const struct { const char *maker; uint32_t eax; const char *row; } cases[] = {
      {"GenuineIntel", 0x000306c3, "haswell"},        {"GenuineIntel", 0x000306f2, "haswell"},
      {"GenuineIntel", 0x000406f1, "haswell"},        {"GenuineIntel", 0x000506e3, "skylake"},
      {"GenuineIntel", 0x000906ea, "skylake"},        {"GenuineIntel", 0x00050654, "skylake-avx512"},
      {"GenuineIntel", 0x000606a6, "icelake-server"}, {"GenuineIntel", 0x000806f8, "sapphirerapids"},
      {"GenuineIntel", 0x000c06f2, "sapphirerapids"}, {"AuthenticAMD", 0x00830f10, "znver2"},
      {"AuthenticAMD", 0x00a00f11, "znver3"},         {"AuthenticAMD", 0x00a20f10, "znver3"},
      {"AuthenticAMD", 0x00a10f11, "znver4"},         {"AuthenticAMD", 0x00a60f12, "znver4"},
      {"AuthenticAMD", 0x00b00f21, "znver5"}};
  for (size_t i = 0; i < TG_COUNT(cases); i++) {
    const char *got = row_of(cases[i].maker, cases[i].eax, 16);
    CHECK(!strcmp(got, cases[i].row), "%s %08x takes %s, not %s", cases[i].maker, cases[i].eax, got, cases[i].row);
  }
  CHECK(!strcmp(row_of_arm(0x413fd0c1, 16), "neoverse-n1") && !strcmp(row_of_arm(0x411fd401, 32), "neoverse-v1") &&
            !strcmp(row_of_arm(0x410fd4f0, 16), "neoverse-v2"), "AArch64");
}

/* What no row lists: the width of its vectors counts most, then the maker, then the newest. */
static void unknown_ones(void) {
  CHECK_TEXT(row_of("GenuineIntel", 0x000b0671, 32), "skylake");
  CHECK_TEXT(row_of("GenuineIntel", 0x000a06d1, 64), "sapphirerapids");
  CHECK_TEXT(row_of("AuthenticAMD", 0x00c00f00, 64), "znver5");
  CHECK_TEXT(row_of("AuthenticAMD", 0x00800f00, 32), "znver3");
  CHECK_TEXT(row_of("CentaurHauls", 0x000507b0, 32), "znver3");
  CHECK_TEXT(row_of("", 0, 64), "znver5");
  CHECK_TEXT(row_of_arm(0x461f0010, 32), "neoverse-v1");
  CHECK_TEXT(row_of_arm(0x410fd083, 16), "neoverse-v2");
  CHECK_TEXT(row_of_arm(0, 16), "neoverse-v2");
}

/* A processor is one row: each row lists some, and no processor is in two. */
static void one_row_each(void) {
  static const char *const makers[] = {"GenuineIntel", "AuthenticAMD"};
  uint32_t taken[32] = {0};
  for (uint32_t k = 0; k < 3 * 64 * 4096; k++) {
    uint32_t m = k / (64 * 4096), family = k / 4096 % 64 + (m == 2 ? 0x41 - 0x10 : 0), model = k % 4096, takers = 0;
    for (uint32_t i = 0; tg_machine_at(i); i++)
      if (tg_machine_takes(tg_machine_at(i), m < 2 ? makers[m] : "arm", family, model)) takers++, taken[i]++;
    if (takers > 1) CHECK(takers <= 1, "%u rows take %u %x %x", takers, m, family, model);
  }
  for (uint32_t i = 0; tg_machine_at(i); i++) CHECK(taken[i] > 0, "no processor takes %s", tg_machine_at(i)->name);
  tg_machine m = {.processors = "Maker 1f 3 5-7"};
  CHECK(tg_machine_takes(&m, "Maker", 0x1f, 3) && tg_machine_takes(&m, "Maker", 0x1f, 6), "its own");
  CHECK(!tg_machine_takes(&m, "Maker", 0x1f, 4) && !tg_machine_takes(&m, "Maker", 0x1e, 3) &&
            !tg_machine_takes(&m, "Make", 0x1f, 3) && !tg_machine_takes(&m, "Maker1", 0x1f, 3) &&
            !tg_machine_takes(&m, "Maker", 0x1f, 8) && !tg_machine_takes(&m, "Maker", 0x1f, 0x1f), "others");
  m.processors = "";
  CHECK(!tg_machine_takes(&m, "", 0, 0), "a row of the user's own is nobody's");
}

/* ---- text ---- */

/* A row with another value in each place. */
static tg_machine some_row(void) {
  tg_machine m = {.name = "measured", .processors = ""};
  for (uint32_t i = 0; tg_machine_column_at(i); i++) {
    const tg_machine_column *c = tg_machine_column_at(i);
    double *v = tg_machine_value(&m, c);
    for (uint32_t w = 0; w < c->widths; w++)
      v[w] = tg_machine_round((!strcmp(c->unit, "MHz") ? 1000 : 16) + 1.37 * (double)(i % 9) + 0.29 * w);
  }
  return m;
}

static bool parse(const char *text, tg_machine *m, const char **why) {
  const char *silicon;
  return tg_machine_file_parse(&env, text, strlen(text), m, &silicon, why);
}

static void there_and_back(void) {
  tg_machine m = some_row(), back;
  const char *silicon, *why;
  tg_str s = tg_str_new(&env);
  tg_machine_file_print(&s, &m, "Maker 1 2 3");
  CHECK(tg_machine_file_parse(&env, s.data, s.n, &back, &silicon, &why), "%s", why);
  CHECK_TEXT(silicon, "Maker 1 2 3");
  CHECK(tg_machine_hash(&m) == tg_machine_hash(&back) && !strcmp(back.name, "measured"), "what is written is read");
  for (uint32_t i = 0; tg_machine_column_at(i); i++)
    for (uint32_t w = 0; w < tg_machine_column_at(i)->widths; w++) {
      back = m;
      tg_machine_value(&back, tg_machine_column_at(i))[w] += 1;
      CHECK(tg_machine_hash(&m) != tg_machine_hash(&back), "%s is no part of the hash", tg_machine_column_at(i)->name);
    }
}

/* The tree's own text of a row, printed, is that text. */
static void as_in_the_tree(void) {
  size_t bytes;
  char *tree = tg_read_file(&env, "src/target/machines.def", &bytes);
  CHECK(tree != NULL, "src/target/machines.def: run from the root of the tree");
  for (uint32_t i = 0; tree && tg_machine_at(i); i++) {
    tg_str s = tg_str_new(&env);
    tg_machine_print(&s, tg_machine_at(i));
    CHECK(strstr(tree, s.data), "%s prints as\n%s", tg_machine_at(i)->name, s.data);
    for (uint32_t k = 0; tg_machine_column_at(k); k++)
      for (uint32_t w = 0; w < tg_machine_column_at(k)->widths; w++) {
        tg_machine m = *tg_machine_at(i);
        double v = tg_machine_value(&m, tg_machine_column_at(k))[w];
        CHECK(v == tg_machine_round(v), "%s of %s has over two digits", tg_machine_column_at(k)->name, m.name);
      }
  }
  CHECK(tg_machine_round(3449.0) == 3400 && tg_machine_round(0.1251) == 0.13 && tg_machine_round(0) == 0, "two digits");
}

/* The text of some_row with `was` replaced by `is`. */
static const char *changed(const char *was, const char *is) {
  tg_machine m = some_row();
  tg_str s = tg_str_new(&env), t = tg_str_new(&env);
  tg_machine_file_print(&s, &m, "Maker 1 2 3");
  char *at = strstr(s.data, was);
  CHECK(at != NULL, "'%s' is in no row", was);
  if (!at) return s.data;
  tg_str_put(&t, s.data, (size_t)(at - s.data));
  tg_str_puts(&t, is);
  tg_str_puts(&t, at + strlen(was));
  return t.data;
}

static void bad_ones(void) {
  static const struct { const char *was, *is, *why; } cases[] = {
      {"tg-machine 1\n", "tg-machine 2\n", "another version"},
      {"tg-machine 1\n", "", "another version"},
      {"\nissue =", "\nissues =", "line 5: no column is named 'issues'"},
      {"\nissue =", "\nissue", "line 5: not of the form NAME = VALUE"},
      {"\nissue =", "\nissue = much\n#", "line 5: issue wants a number"},
      {"\nissue =", "\nissue = \n#", "line 5: issue wants a number"},
      {"\nissue =", "\nissue = 4 5\n#", "line 5: '5' behind the value of issue"},
      {"\nissue =", "\nissue = 4,5\n#", "line 5: ',5' behind the value of issue"},
      {"\nissue =", "\nissue = 1e9\n#", "line 5: issue of 1e+09 instructions/cycle is out of range"},
      {"\nissue =", "\nissue = -4\n#", "line 5: issue of -4 instructions/cycle is out of range"},
      {"\nissue =", "\nissue = 0\n#", "line 5: issue of 0 instructions/cycle is out of range"},
      {"\nissue =", "\nissue = nan\n#", "line 5: issue wants a number"},
      {"\nissue =", "\nissue = inf\n#", "line 5: issue wants a number"},
      {"\nissue =", "\nissue = 4\nissue =", "line 6: 'issue' is given twice"},
      {"\nissue =", "\n# issue =", "there is no line for issue"},
      {"\nfma =", "\nfma = 2 2\n#", "line 6: fma wants 3 numbers"},
      {"\nfma =", "\nfma = 0 2 2\n#", "line 6: fma of 0 instructions/cycle is out of range"},
      {"\nprocessor =", "\n#", "there is no line for processor"},
      {"\nprocessor =", "\nprocessor = x\nprocessor =", "line 4: 'processor' is given twice"},
      {"\nclock =", "\nclock = 1\n#", "line 4: clock of 1 MHz is out of range"}};
  for (size_t i = 0; i < TG_COUNT(cases); i++) {
    tg_machine m = {.name = "untouched"};
    const char *why = "";
    bool good = parse(changed(cases[i].was, cases[i].is), &m, &why);
    CHECK(!good && why && strstr(why, cases[i].why), "%s: %s", cases[i].is, good ? "is taken" : why);
    CHECK_TEXT(m.name, "untouched");
  }
  tg_machine m;
  const char *why, *silicon;
  CHECK(parse(changed("\nfma =", "\nfma = 2 2 0\n#"), &m, &why) && m.fma[2] == 0, "no vectors of 64 bytes: %s", why);
  CHECK(parse(changed("\nissue =", "\n\n  # spaces\nissue   =  4  \n#"), &m, &why) && m.issue == 4, "%s", why);
  const char *whole = changed("\nclock =", "\nclock =");
  for (size_t n = 0; n < strlen(whole); n += 7) {   /* cut anywhere: refused, but never read beyond */
    char *part = malloc(n ? n : 1);
    memcpy(part, whole, n);
    if (n + 60 < strlen(whole)) CHECK(!tg_machine_file_parse(&env, part, n, &m, &silicon, &why), "of %zu bytes", n);
    free(part);
  }
  CHECK(!tg_machine_file_parse(&env, "tg-machine 1\n\0", 14, &m, &silicon, &why), "NUL");
}

/* ---- files ---- */

static void files(void) {
  char folder[TEST_PATH] = "tg-machine-XXXXXX", path[TEST_PATH + 32];
  tg_machine m = some_row(), got = {.name = "untouched"};
  const char *why;
  if (!test_folder(folder)) return;
  CHECK(!tg_machine_file_read(&env, folder, "Maker", &got, &why) && !why, "no file is no mistake");
  CHECK(!tg_machine_file_write(&env, folder, &m, "Maker"), "written");
  CHECK(tg_machine_file_read(&env, folder, "Maker", &got, &why) && tg_machine_hash(&got) == tg_machine_hash(&m), "read");
  snprintf(got.name, sizeof got.name, "untouched");
  CHECK(!tg_machine_file_read(&env, folder, "Maker 2", &got, &why) && why && strstr(why, "another processor"), "%s", why);
  snprintf(path, sizeof path, "%s/" TG_MACHINE_FILE, folder);
  CHECK(!chmod(path, 0666) && !tg_machine_file_read(&env, folder, "Maker", &got, &why) && why && strstr(why, "other users"),
        "a file that all may write");
  CHECK(!chmod(path, 0600) && !chmod(folder, 0777) && !tg_machine_file_read(&env, folder, "Maker", &got, &why) && why,
        "a folder that all may write");
  CHECK(!chmod(folder, 0700) && !unlink(path) && !symlink("/dev/null", path) &&
            !tg_machine_file_read(&env, folder, "Maker", &got, &why) && why, "a link");
  CHECK_TEXT(got.name, "untouched");
  unlink(path);
  rmdir(folder);
}

static void all(void *arg) {
  (void)arg;
  known_ones();
  unknown_ones();
  one_row_each();
  there_and_back();
  as_in_the_tree();
  bad_ones();
  files();
}

int main(void) {
  tg_env_init(&env, NULL);
  CHECK(tg_protect(&env, all, NULL), "%s", env.message);
  tg_env_drop(&env);
  return TEST_END();
}

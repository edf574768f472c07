/* SPDX-License-Identifier: MIT
 * The words of a schedule, and the raising before them, by the texts in tests/lower/words: the program after the words
 * to the letter, its result for many sizes, the message of each refusal. docs/testing.md tells how a text is written.
 * Every word needs all three.
 *
 *   lower_schedule [--write] [FILE|FOLDER ..]
 *
 * `--write` takes the present output as expected: look at the difference before it is committed. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include "words.h"

typedef struct { const char *name, *text; uint32_t uses; } named;

typedef struct {
  tg_env env;
  const char *file, *at;          /* at: the next line */
  int line;                       /* its number, from 1 */
  TG_VEC(named) programs, sizes;
  bool write;
  const char *copied;             /* what is before it is in `out` already */
  tg_str out;                     /* the file with the present output */
} text;

enum { BECOMES, REFUSED, RUNS, WANTED };

typedef struct {
  int line;
  const char *words, *want;       /* want: NULL if it only has to run */
  bool refused;
} one;

static bool seen[TG_OPT__COUNT][WANTED];

static void see(const one *c, int what) {
  for (const char *at = c->words; *at; at += strcspn(at, "\n") + 1)
    for (uint32_t i = 0; i < TG_OPT__COUNT; i++) {
      size_t n = strcspn(at, " (\n");
      if (strlen(tg_opt_rows[i].word) == n && !memcmp(tg_opt_rows[i].word, at, n)) seen[i][what] = true;
    }
}

/* ---- sizes ---- */

static uint32_t numbers_in(const char *list) {
  uint32_t n = 1;
  for (; *list && *list != '}'; list++) n += *list == ',';
  return n;
}

/* "M=[1..]{3,8} N=4" for i = 1: "M=8 N=4", or, with what is in brackets, "M=1..8 N=4". Lists from the second on begin
 * `turn` places later, those from the third on twice as many, .. */
static const char *pick_sizes(tg_env *env, const char *at, uint32_t i, uint32_t turn, bool bracketed) {
  tg_str s = tg_str_new(env);
  uint32_t lists = 0;
  while (*at) {
    if (*at == '{') {
      const char *from = at + 1;
      for (uint32_t k = (i + lists++ * turn) % numbers_in(at); k; k--) from += strcspn(from, ",") + 1;
      tg_str_put(&s, from, strcspn(from, ",}"));
      at += strcspn(at, "}");
    } else if (*at == '[' && !bracketed) at += strcspn(at, "]");
    else if (*at != '[' && *at != ']') tg_str_put(&s, at, 1);
    at += *at != 0;
  }
  return s.data;
}

/* "M=4 N=1..9 K=0..9@2": a constant, or a value known at launch only: the last of its range, or what is said. */
static bool bind(tg_env *env, job *x, const char *sizes) {
  uint32_t params = 0;
  for (const char *at = sizes; *at; at += strspn(at, " ")) {
    size_t n = strcspn(at, "=");
    if (x->bindings_n == MOST_SIZES || !at[n]) return false;
    char *end;
    tg_binding *b = &x->bindings[x->bindings_n++];
    *b = (tg_binding){.name = tg_strndup(env, at, n), .multiple = 1};
    b->lo = b->hi = strtol(at + n + 1, &end, 10);
    if (end == at + n + 1) return false;
    if (!strncmp(end, "..", 2)) b->hi = strtol(end + 2, &end, 10);
    if (b->lo != b->hi) x->params[params++] = *end == '@' ? strtol(end + 1, &end, 10) : b->hi;
    if (*end && *end != ' ') return false;
    at = end;
  }
  return true;
}

/* ---- a case ---- */

/* The lines from here on that are indented, without their indentation. */
static const char *indented(text *t) {
  tg_str s = tg_str_new(&t->env);
  for (; !strncmp(t->at, "  ", 2); t->line++) {
    size_t n = strcspn(t->at, "\n");
    tg_str_put(&s, t->at + 2, n - 2);
    tg_str_put(&s, "\n", 1);
    t->at += n + (t->at[n] == '\n');
  }
  return s.data;
}

/* The present output takes the place of the lines that are wanted, which end where the text stands. */
static void rewrite(text *t, const char *wanted, const char *got) {
  tg_str_put(&t->out, t->copied, (size_t)(wanted - t->copied));
  for (; *got; got += strcspn(got, "\n") + 1) tg_str_printf(&t->out, "  %.*s\n", (int)strcspn(got, "\n"), got);
  t->copied = t->at;
}

/* The output: statements or a message, of one or more lines; NULL if it went the other way. */
static const char *run_at(text *t, const one *c, const named *program, const char *sizes) {
  job x = {.kernel = program->text, .words = c->words, .run = !c->refused};
  if (!bind(&t->env, &x, sizes)) {
    CHECK(false, "%s:%d: '%s' are no sizes", t->file, c->line, sizes);
    return NULL;
  }
  bool ok = go(&x);
  if (c->refused) x.message[strcspn(x.message, "\n")] = 0;
  const char *got = tg_format(&t->env, "%s\n", x.message), *shown = x.text ? x.text : "";
  if (!c->refused) got = tg_strdup(&t->env, shown);
  CHECK(ok != c->refused, "%s:%d: %s %s\n%s%s\n%s", t->file, c->line, program->name, sizes, c->words, x.message, shown);
  if (c->want && !t->write && ok != c->refused)
    CHECK(!strcmp(got, c->want), "%s:%d: %s %s\n%s--- got\n%s--- want\n%s", t->file, c->line, program->name, sizes,
          c->words, got, c->want);
  free(x.text);
  free(x.message);
  return ok != c->refused ? got : NULL;
}

static const char *run_line(text *t, const one *c, const named *program, const char *line, uint32_t turn) {
  const char *list = strchr(line, '{'), *got = NULL;
  uint32_t choices = list ? numbers_in(list) : 1, ways = strchr(line, '[') ? 2 : 1;
  for (uint32_t i = 0; i < choices; i++)
    for (uint32_t way = 0; way < ways; way++)
      got = run_at(t, c, program, pick_sizes(&t->env, line, i, turn, way > 0));
  if (choices * ways > 1 && !c->refused) see(c, RUNS);
  if (c->want) see(c, c->refused ? REFUSED : BECOMES);
  return got;
}

static named *find_in(text *t, const char *name, bool sizes) {
  named *list = sizes ? t->sizes.data : t->programs.data;
  for (uint32_t i = 0; i < (sizes ? t->sizes.n : t->programs.n); i++)
    if (!strcmp(list[i].name, name)) return &list[i];
  return NULL;
}

enum { MOST_PROGRAMS = 16 };

/* What the line of a case names. Sizes of its own are one line of them. */
typedef struct { const named *program[MOST_PROGRAMS]; uint32_t n, turn; const char *sizes; } meant;

static meant read_head(text *t, int line, const char *at) {
  meant m = {.sizes = ""};
  for (size_t n; n = strcspn(at, " "), *at; at += n, at += strspn(at, " ")) {
    const char *name = tg_strndup(&t->env, at, n);
    named *p = find_in(t, name, false), *s = find_in(t, name, true);
    if (p && m.n < MOST_PROGRAMS) m.program[m.n++] = p;
    else if (s) m.sizes = s->text, m.turn = s->uses++;
    else if (strchr(name, '=')) m.sizes = tg_format(&t->env, "%s%s%s", m.sizes, *m.sizes ? " " : "", name);
    else CHECK(false, "%s:%d: no program or sizes above are named '%s'", t->file, line, name);
  }
  if (!m.n) CHECK(false, "%s:%d: a case of no program", t->file, line);
  return m;
}

static void read_case(text *t, int line, const char *head) {
  one c = {.line = line, .words = indented(t)};
  const char *wanted = NULL, *got = NULL;
  if (!strncmp(t->at, "becomes\n", 8) || !strncmp(t->at, "refused\n", 8)) {
    c.refused = *t->at == 'r';
    wanted = t->at += 8;
    t->line++;
    c.want = indented(t);
  }
  meant m = read_head(t, line, head);
  for (uint32_t p = 0; p < m.n; p++) {
    const char *at = m.sizes;
    do {
      size_t n = strcspn(at, "\n");
      got = run_line(t, &c, m.program[p], tg_strndup(&t->env, at, n), m.turn);
      at += n + (at[n] == '\n');
    } while (*at);
  }
  if (t->write && wanted && got) rewrite(t, wanted, got);
}

/* ---- a file ---- */

static void read_lines(void *user) {
  text *t = user;
  while (*t->at) {
    int line = t->line++;
    size_t n = strcspn(t->at, "\n"), word = strcspn(t->at, " \n");
    const char *start = t->at, *name = tg_strndup(&t->env, start + word, n - word);
    name += strspn(name, " ");
    t->at += n + (start[n] == '\n');
    bool program = word == 7 && !memcmp(start, "program", word), sizes = word == 5 && !memcmp(start, "sizes", word);
    if ((program || sizes) && (find_in(t, name, true) || find_in(t, name, false)))
      CHECK(false, "%s:%d: %s is defined twice", t->file, line, name);
    if (program) tg_push(&t->env, &t->programs, ((named){name, indented(t), 0}));
    else if (sizes) tg_push(&t->env, &t->sizes, ((named){name, indented(t), 0}));
    else if (word == 4 && !memcmp(start, "case", word)) read_case(t, line, name);
    else if (n && *start != '#') CHECK(false, "%s:%d: expected program, sizes, case or a comment", t->file, line);
  }
}

static void save(const text *t) {
  FILE *f = fopen(t->file, "wb");
  CHECK(f, "%s cannot be written", t->file);
  if (!f) return;
  fprintf(f, "%s%s", t->out.data, t->copied);
  fclose(f);
}

static void run_file(const char *file, bool write) {
  text t = {.file = file, .line = 1, .write = write};
  tg_env_init(&t.env, NULL);
  t.out = tg_str_new(&t.env);
  t.at = t.copied = tg_read_file(&t.env, file, NULL);
  CHECK(t.at, "%s cannot be read", file);
  if (t.at) CHECK(tg_protect(&t.env, read_lines, &t), "%s: %s", file, t.env.message);
  if (t.at && write) save(&t);
  tg_env_drop(&t.env);
}

static int texts_only(const struct dirent *d) {
  size_t n = strlen(d->d_name);
  return n > 4 && !strcmp(d->d_name + n - 4, ".txt");
}

/* A file, or those of a folder. */
static void run_path(const char *path, bool write) {
  struct dirent **list;
  int n = scandir(path, &list, texts_only, alphasort);
  if (n < 0) run_file(path, write);
  CHECK(n, "%s has no texts", path);
  for (int i = 0; i < n; i++) {
    char file[512];
    snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
    run_file(file, write);
    free(list[i]);
  }
  if (n >= 0) free(list);
}

/* ---- all words ---- */

/* docs/schedules.md lists the words as their rows have them, in their order. */
static void documented(void) {
  tg_env env = {0};
  tg_env_init(&env, NULL);
  const char *at = tg_read_file(&env, "docs/schedules.md", NULL);
  CHECK(at, "docs/schedules.md cannot be read");
  for (uint32_t i = 0; i < TG_OPT__COUNT && at; i++) {
    const char *line = tg_format(&env, "\n- `%s`: %s\n", tg_opt_usage(&env, (tg_opt_word)i), tg_opt_rows[i].meaning);
    const char *found = strstr(at, line);
    CHECK(found, "docs/schedules.md lacks, or has elsewhere:%s", line);
    at = found ? found + strlen(line) - 1 : at;
  }
  tg_env_drop(&env);
}

static void shown(void) {
  static const char *const what[WANTED] = {"`becomes` shows", "is `refused`", "runs at several sizes"};
  for (uint32_t i = 0; i < TG_OPT__COUNT; i++)
    for (int k = 0; k < WANTED; k++)
      CHECK(seen[i][k], "%s: no case of tests/lower/words %s", tg_opt_rows[i].word, what[k]);
}

int main(int argc, char **argv) {
  bool write = argc > 1 && !strcmp(argv[1], "--write");
  for (int i = 1 + write; i < argc; i++) run_path(argv[i], write);
  if (argc > 1 + write) return TEST_END();
  run_path("tests/lower/words", write);
  run_path("tests/lower/heuristic.txt", write);
  documented();
  shown();
  return TEST_END();
}

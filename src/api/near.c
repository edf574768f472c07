/* SPDX-License-Identifier: MIT
 * Near misses: tuned choices that the folder holds for the same kernel, and that are not used since something else in
 * their keys differs. */
#include <stdio.h>
#include "api/api.h"
#include "store/store.h"

/* The folder's keys, as they were when the context first looked. */
enum { MOST_KEYS = 4096 };
struct tg_near { uint32_t n; const char *key[]; };

typedef struct { tg_job *j; tg_context *c; struct tg_near *read; } reading;

static void collect(void *user, const char *path, const tg_tuned *t) {
  reading *r = user;
  (void)path;
  if (t && r->read->n < MOST_KEYS) r->read->key[r->read->n++] = t->key;
}

static void keep_keys(void *user) {
  const reading *r = user;
  uint32_t n = r->read->n;
  struct tg_near *near = tg_alloc(&r->c->env, sizeof *near + n * sizeof *near->key);
  near->n = n;
  for (uint32_t i = 0; i < n; i++) near->key[i] = tg_strdup(&r->c->env, r->read->key[i]);
  r->c->near = near;
}

static const struct tg_near *keys_of(tg_job *j, tg_context *c) {
  pthread_mutex_lock(&c->lock);
  const struct tg_near *near = c->near;
  pthread_mutex_unlock(&c->lock);
  if (near) return near;
  reading r = {j, c, tg_alloc(&j->env, sizeof *r.read + MOST_KEYS * sizeof *r.read->key)};
  r.read->n = 0;
  if (c->tuned) tg_store_each(&j->env, c->tuned, collect, &r);
  pthread_mutex_lock(&c->lock);
  tg_status before = c->env.status;
  c->env.status = TG_OK;
  if (!c->near) tg_protect(&c->env, keep_keys, &r);
  c->env.status = before;
  near = c->near;
  pthread_mutex_unlock(&c->lock);
  return near;
}

/* ---- what differs between two keys ---- */

typedef struct { const char *at, *name, *text; size_t name_n, text_n; } line;

/* The next line, as its first word and the rest; false: the kernel's text begins, or the key ends. */
static bool next_line(const char **at, line *l) {
  size_t n = strcspn(*at, "\n"), name = strcspn(*at, " \n");
  if (!**at || !strncmp(*at, "kernel ", 7)) return false;
  *l = (line){*at, *at, *at + name + (name < n), name, n - name - (name < n)};
  if (name == 5 && (!strncmp(*at, "param", 5) || !strncmp(*at, "const", 5))) {
    size_t own = strcspn(l->text, " \n"), skip = own + (l->text[own] == ' ');
    l->name = l->text, l->name_n = own;
    l->text += skip, l->text_n -= skip;
  }
  *at += n + ((*at)[n] == '\n');
  return true;
}

/* The programs without their numbers: sizes that are constants stand in the text. Digits within names, as in f32, are
 * no numbers. */
static bool same_form(const char *a, size_t an, const char *b, size_t bn) {
  char before = 0;
  size_t i = 0, k = 0;
  while (i < an && k < bn) {
    bool name = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') || before == '_' || before == '.';
    size_t da = strspn(a + i, "0123456789"), db = strspn(b + k, "0123456789");
    if (da && db && !name) i += da, k += db;
    else if (a[i++] != b[k++]) return false;
    before = a[i - 1];
  }
  return i >= an && k >= bn;
}

typedef enum { OF_PROGRAM, OF_SIZES, OF_MACHINE } what;

/* OF_PROGRAM: must be alike for the other's choice to say anything of this kernel. */
static what what_is(const line *l) {
  static const char *const names[] = {"knob", "stage", "require", "opt", "space"};
  for (uint32_t i = 0; i < TG_COUNT(names); i++)
    if (l->name_n == strlen(names[i]) && !strncmp(l->name, names[i], l->name_n)) return OF_PROGRAM;
  return l->at == l->name ? OF_MACHINE : OF_SIZES;
}

static void put_difference(tg_str *out, bool first, const line *here, const line *there) {
  static const struct { const char *name, *text; } hashes[] = {{"build", "another build of tg"},
                                                               {"silicon", "another processor"},
                                                               {"machine", "another row of the machine"}};
  tg_str_printf(out, "%s", first ? "" : ", ");
  for (uint32_t i = 0; i < TG_COUNT(hashes); i++)
    if (here->name_n == strlen(hashes[i].name) && !strncmp(here->name, hashes[i].name, here->name_n)) {
      tg_str_printf(out, "%s", hashes[i].text);
      return;
    }
  tg_str_printf(out, "%.*s %.*s (here %.*s)", (int)here->name_n, here->name, (int)there->text_n, there->text,
                (int)here->text_n, here->text);
}

/* How many lines differ, and which; 0: it is another kernel. */
static uint32_t differences(const char *here, const char *there, tg_str *out) {
  line a, b;
  uint32_t n = 0;
  bool sizes = false, program = false;
  for (;;) {
    bool more_a = next_line(&here, &a), more_b = next_line(&there, &b);
    if (more_a != more_b) return 0;
    if (!more_a) break;
    if (a.name_n != b.name_n || strncmp(a.name, b.name, a.name_n)) return 0;
    if (a.text_n == b.text_n && !strncmp(a.text, b.text, a.text_n)) continue;
    what w = what_is(&a);
    if (w == OF_PROGRAM && !same_form(a.text, a.text_n, b.text, b.text_n)) return 0;
    sizes |= w == OF_SIZES, program |= w == OF_PROGRAM;
    if (w != OF_PROGRAM) put_difference(out, !n++, &a, &b);
  }
  program |= strcmp(here, there) != 0;
  /* other numbers in the text must be those of other sizes */
  return (program && !sizes) || !same_form(here, strlen(here), there, strlen(there)) ? 0 : n;
}

bool tg_near_miss(tg_job *j, tg_context *c, const char *key, char *out, size_t n) {
  const struct tg_near *near = keys_of(j, c);
  const char *nearest = NULL;
  uint32_t fewest = 0;
  for (uint32_t i = 0; near && i < near->n; i++) {
    tg_str text = tg_str_new(&j->env);
    uint32_t d = differences(key, near->key[i], &text);
    if (d && (!fewest || d < fewest)) fewest = d, nearest = text.data;
  }
  if (nearest) snprintf(out, n, "a tuned choice is in %s, but for %s", c->tuned, nearest);
  return nearest != NULL;
}

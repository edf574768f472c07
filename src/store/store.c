/* SPDX-License-Identifier: MIT
 * The store of tuned choices. An entry is a text file: a line with the format, a checksum of all that follows, then
 * fields with their lengths, the key among them. It is written to a temporary file, synced and renamed, so a reader
 * sees all of it or nothing. A file is ignored if it is damaged, of another format or key, or not safe: other users
 * could have written it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "store/store.h"

static const char magic[] = "tg-tuned 1\n";
enum { SUM = 32, MOST = 16 << 20 };

/* ---- text ---- */

static void put_field(tg_str *s, const char *name, const char *text) {
  if (text) tg_str_printf(s, "%s %zu\n%s\n", name, strlen(text), text);
}

static void put_number(tg_str *s, const char *name, double v) {
  char text[64];
  tg_print_double(text, sizeof text, 17, v);
  put_field(s, name, text);
}

void tg_store_print(tg_str *out, const tg_tuned *t) {
  size_t from = out->n;
  tg_str_printf(out, "%ssum %0*d\n", magic, SUM, 0);
  size_t body = out->n;
  put_field(out, "key", t->key);
  put_field(out, "kernel", t->kernel);
  put_field(out, "words", t->words);
  put_field(out, "text", t->text);
  put_number(out, "seconds", t->seconds);
  put_number(out, "default", t->default_seconds);
  put_number(out, "gain", t->gain_low);
  for (uint32_t i = 0; i < t->knobs_n; i++) {
    char text[256];
    int n = snprintf(text, sizeof text, "%s=%lld", t->knobs[i].name, (long long)t->knobs[i].lo);
    if (n > 0 && (size_t)n < sizeof text) put_field(out, "knob", text);
  }
  tg_str_puts(out, "end\n");
  tg_hash128 h = tg_hash_wide(out->data + body, out->n - body);
  char sum[SUM + 1];
  snprintf(sum, sizeof sum, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
  memcpy(out->data + from + strlen(magic) + 4, sum, SUM);
}

typedef struct { tg_env *env; const char *at, *end; bool bad; } reader;

/* Reads the next field's name and text; false at the end, or if the field is damaged. */
static bool next_field(reader *r, char name[16], const char **text) {
  size_t left = (size_t)(r->end - r->at), n = 0;
  const char *line = memchr(r->at, '\n', left);
  if (left == 4 && !memcmp(r->at, "end\n", 4)) return false;
  r->bad = true;
  if (!line) return false;
  const char *space = memchr(r->at, ' ', (size_t)(line - r->at));
  if (!space || space - r->at >= 16 || line - space > 12 || line == space + 1) return false;
  memcpy(name, r->at, (size_t)(space - r->at));
  name[space - r->at] = 0;
  for (const char *p = space + 1; p < line; p++) {
    if (*p < '0' || *p > '9') return false;
    n = n * 10 + (size_t)(*p - '0');
  }
  if ((size_t)(r->end - line) < n + 2 || line[n + 1] != '\n' || memchr(line + 1, 0, n)) return false;
  *text = tg_strndup(r->env, line + 1, n);
  r->at = line + n + 2;
  r->bad = false;
  return true;
}

static bool number_of(const char *text, double *v) {
  char *end;
  *v = tg_read_double(text, &end);
  return end != text && !*end && isfinite(*v);
}

static bool take_knob(tg_env *env, const char *text, tg_binding *b) {
  const char *eq = strrchr(text, '=');
  char *end;
  if (!eq || eq == text) return false;
  errno = 0;
  long long v = strtoll(eq + 1, &end, 10);
  if (end == eq + 1 || *end || errno) return false;
  *b = (tg_binding){tg_strndup(env, text, (size_t)(eq - text)), v, v, 1};
  return true;
}

bool tg_store_parse(tg_env *env, const char *text, size_t bytes, tg_tuned *t) {
  size_t head = strlen(magic) + 4 + SUM + 1;
  char sum[SUM + 1], name[16];
  if (bytes < head || bytes > MOST || memcmp(text, magic, strlen(magic)) || memcmp(text + strlen(magic), "sum ", 4) ||
      text[head - 1] != '\n')
    return false;
  tg_hash128 h = tg_hash_wide(text + head, bytes - head);
  snprintf(sum, sizeof sum, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
  if (memcmp(sum, text + strlen(magic) + 4, SUM)) return false;
  reader r = {env, text + head, text + bytes, false};
  tg_binding *knobs = tg_new(env, tg_binding, TG_STORE_KNOBS);
  const char *field;
  bool ok = true;
  *t = (tg_tuned){.knobs = knobs};
  while (ok && next_field(&r, name, &field)) {
    if (!strcmp(name, "key")) t->key = field;
    else if (!strcmp(name, "kernel")) t->kernel = field;
    else if (!strcmp(name, "words")) t->words = field;
    else if (!strcmp(name, "text")) t->text = field;
    else if (!strcmp(name, "seconds")) ok = number_of(field, &t->seconds);
    else if (!strcmp(name, "default")) ok = number_of(field, &t->default_seconds);
    else if (!strcmp(name, "gain")) ok = number_of(field, &t->gain_low);
    else ok = !strcmp(name, "knob") && t->knobs_n < TG_STORE_KNOBS && take_knob(env, field, &knobs[t->knobs_n++]);
  }
  return ok && !r.bad && t->key && t->kernel;
}

/* ---- files ---- */

static const char *name_of(tg_env *env, const char *key) {
  tg_hash128 h = tg_hash_wide(key, strlen(key));
  return tg_format(env, "%016llx%016llx.tgt", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

static bool read_entry(tg_env *env, const tg_pack *pack, const char *folder, const char *name, tg_tuned *t) {
  size_t bytes;
  const char *text = tg_pack_read(env, pack, folder, name, true, &bytes);
  return text && tg_store_parse(env, text, bytes, t);
}

bool tg_store_read(tg_env *env, const tg_pack *pack, const char *folder, const char *key, tg_tuned *out) {
  return read_entry(env, pack, folder, name_of(env, key), out) && !strcmp(out->key, key);
}

const char *tg_store_path(tg_env *env, const char *folder, const char *key) {
  return tg_format(env, "%s/%s", folder, name_of(env, key));
}

const char *tg_store_default(char *buffer, size_t n) {
  const char *data = secure_getenv("XDG_DATA_HOME"), *home = secure_getenv("HOME");
  int k = data && *data == '/'   ? snprintf(buffer, n, "%s/tg/tuned", data)
          : home && *home == '/' ? snprintf(buffer, n, "%s/.local/share/tg/tuned", home)
                                 : -1;
  return k > 0 && (size_t)k < n ? buffer : NULL;
}

int tg_store_write(tg_env *env, const char *folder, const tg_tuned *t) {
  tg_str s = tg_str_new(env);
  tg_store_print(&s, t);
  return tg_write_private(folder, name_of(env, t->key), s.data, s.n);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_entry(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 4 && !strcmp(e->d_name + n - 4, ".tgt");
}

int tg_store_each(tg_env *env, const char *folder, tg_store_fn *fn, void *user) {
  struct dirent **names;
  int n = scandir(folder, &names, is_entry, by_name);
  if (n < 0) return errno;
  const char **entries = tg_new(env, const char *, n + 1);
  for (int i = 0; i < n; i++) {
    entries[i] = tg_strdup(env, names[i]->d_name);
    free(names[i]);
  }
  free(names);
  for (int i = 0; i < n; i++) {
    tg_tuned t;
    bool ok = read_entry(env, NULL, folder, entries[i], &t) && !strcmp(entries[i], name_of(env, t.key));
    fn(user, tg_format(env, "%s/%s", folder, entries[i]), ok ? &t : NULL);
  }
  return 0;
}

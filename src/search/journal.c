/* SPDX-License-Identifier: MIT
 * The journal: one line of JSON for each answer, appended by one write, so nothing is lost if the search is killed.
 * To resume, the search does not restore a state: it runs again from its seed, and takes the answers to tasks that the
 * journal has from there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "search/search.h"

enum { FORMAT = 2 };

typedef struct { uint64_t id, against; uint8_t kind; const char *line; } entry;

struct tg_journal {
  tg_env *env;
  int fd;
  TG_VEC(entry) entries;
  uint32_t reused;
  const char *ended;           /* the last "end" line; NULL: there is none */
};

static const char *const kinds[] = {"open", "lower", "build", "time", "checks"};
_Static_assert(TG_COUNT(kinds) == TG_TASK__COUNT, "a name for each task");

/* ---- fields of a line, which only this file writes ---- */

static void put_string(tg_str *s, const char *text) {
  tg_str_puts(s, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') tg_str_printf(s, "\\%c", c);
    else if (c < 32) tg_str_printf(s, "\\u%04x", c);
    else tg_str_put(s, text, 1);
  }
  tg_str_puts(s, "\"");
}

static void put_field(tg_str *s, const char *name, const char *text) {
  if (!text) return;
  tg_str_printf(s, ",\"%s\":", name);
  put_string(s, text);
}

/* The text after "name": in the line; NULL if there is none. The search cannot hit the contents of a string, in which
 * quotes are escaped. */
static const char *field(const char *line, const char *name) {
  char want[64];
  int n = snprintf(want, sizeof want, "\"%s\":", name);
  const char *p = strstr(line, want);
  return p ? p + n : NULL;
}

static double number(const char *line, const char *name) {
  const char *p = field(line, name);
  return p ? tg_read_double(p, NULL) : 0;
}

static uint64_t hex(const char *line, const char *name) {
  const char *p = field(line, name);
  return p && *p == '"' ? strtoull(p + 1, NULL, 16) : 0;
}

static const char *string(tg_env *env, const char *line, const char *name) {
  const char *p = field(line, name);
  if (!p || *p != '"') return NULL;
  tg_str s = tg_str_new(env);
  for (p++; *p && *p != '"'; p++) {
    char c = *p;
    if (c == '\\' && p[1] == 'u') {
      char digits[5] = "";
      memcpy(digits, p + 2, strnlen(p + 2, 4));
      c = (char)strtol(digits, NULL, 16);
      p += 1 + strlen(digits);
    } else if (c == '\\' && p[1]) c = *++p;
    tg_str_put(&s, &c, 1);
  }
  return s.data;
}

/* ---- opening ---- */

static int kind_of(const char *line) {
  for (int k = 0; k < TG_TASK__COUNT; k++) {
    const char *p = field(line, "event");
    if (p && *p == '"' && !strncmp(p + 1, kinds[k], strlen(kinds[k])) && p[1 + strlen(kinds[k])] == '"') return k;
  }
  return -1;
}

/* Reads whole lines: a last line without an end is from an interrupted write, and is dropped. Returns the number of
 * bytes to keep; 0: the journal has another key. */
static size_t read_lines(tg_journal *j, char *data, uint64_t key) {
  char *line = data;
  for (char *end; (end = strchr(line, '\n')); line = end + 1) {
    *end = 0;
    if (line == data && (hex(line, "key") != key || number(line, "journal") != FORMAT)) return 0;
    int kind = kind_of(line);
    const char *event = field(line, "event");
    if (end[-1] == '}' && event && !strncmp(event, "\"end\"", 5)) j->ended = line;
    if (end[-1] != '}' || kind < 0) continue;
    tg_push(j->env, &j->entries, ((entry){hex(line, "id"), hex(line, "against"), (uint8_t)kind, line}));
  }
  return (size_t)(line - data);
}

/* Errors are ignored: with a full disk the search goes on, but cannot be resumed. */
static void append(tg_journal *j, const tg_str *s) { tg_write_all(j->fd, s->data, s->n); }

tg_journal *tg_journal_open(tg_env *env, const char *path, const char *title, uint64_t key, bool resume) {
  tg_journal *j = tg_new(env, tg_journal, 1);
  size_t kept = 0;
  *j = (tg_journal){.env = env, .fd = -1};
  if (!path) return j;
  char *data = resume ? tg_read_file(env, path, NULL) : NULL;
  if (data) kept = read_lines(j, data, key);
  if (!kept) j->entries.n = 0, j->ended = NULL;
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)kept) || lseek(fd, 0, SEEK_END) < 0) {
    int err = errno;
    if (fd >= 0) close(fd);
    tg_fail(env, TG_EIO, "the journal %s cannot be written: %s", path, strerror(err));
  }
  j->fd = fd;
  if (kept) return j;
  tg_str s = tg_str_new(env);
  tg_str_printf(&s, "{\"event\":\"tune\",\"journal\":%d,\"key\":\"%016llx\"", FORMAT, (unsigned long long)key);
  put_field(&s, "kernel", title);
  tg_str_puts(&s, "}\n");
  append(j, &s);
  return j;
}

void tg_journal_close(tg_journal *j) {
  if (j && j->fd >= 0) close(j->fd);
  if (j) j->fd = -1;
}

uint32_t tg_journal_reused(const tg_journal *j) { return j->reused; }

/* ---- answers ---- */

/* A count; 0 if the field is missing or no valid count, as in a damaged line. */
static uint32_t count(const char *line, const char *name) {
  double v = number(line, name);
  return v >= 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
}

bool tg_journal_find(tg_journal *j, uint8_t kind, uint64_t id, uint64_t against, tg_task *t) {
  const char *line = NULL;
  for (uint32_t i = 0; i < j->entries.n && !line; i++) {
    const entry *e = &j->entries.data[i];
    if (e->kind == kind && e->id == id && e->against == against) line = e->line;
  }
  if (!line) return false;
  const char *outcome = string(j->env, line, "outcome");
  for (t->outcome = 0; t->outcome < TG_TRIAL_SKIPPED && (!outcome || strcmp(outcome, tg_outcome_name(t->outcome)));
       t->outcome++) {}
  if (t->outcome == TG_TRIAL_SKIPPED) return false;
  t->message = string(j->env, line, "message");
  t->words = string(j->env, line, "words");
  t->decisions = string(j->env, line, "decisions");
  t->hash = hex(line, "hash");
  t->cost.seconds = number(line, "cost");
  t->seconds = number(line, "seconds");
  t->against_seconds = number(line, "against_seconds");
  t->dropped = count(line, "dropped");
  const char *p = field(line, "gain");
  for (t->n = 0; p && (*p == '[' || *p == ',') && p[1] != ']' && t->n < TG_QUADS;) {
    char *end;
    t->gain[t->n++] = tg_read_double(p + 1, &end);
    p = end;
  }
  j->reused++;
  return true;
}

static void put_number(tg_str *s, const char *before, int digits, double v) {
  char text[64];
  tg_print_double(text, sizeof text, digits, v);
  tg_str_printf(s, "%s%s", before, text);
}

void tg_journal_put(tg_journal *j, const tg_task *t, const tg_point *p, uint64_t against, const char *knobs) {
  if (j->fd < 0 || t->outcome == TG_TRIAL_SKIPPED) return;
  tg_mark mark = tg_mark_get(j->env);
  tg_str s = tg_str_new(j->env);
  tg_str_printf(&s, "{\"event\":\"%s\",\"id\":\"%016llx\",\"against\":\"%016llx\",\"outcome\":\"%s\"", kinds[t->kind],
                (unsigned long long)p->id, (unsigned long long)against, tg_outcome_name(t->outcome));
  put_field(&s, "message", t->message);
  if (t->kind == TG_TASK_LOWER) {
    tg_str_printf(&s, ",\"hash\":\"%016llx\"", (unsigned long long)t->hash);
    put_number(&s, ",\"cost\":", 17, t->cost.seconds);
    put_field(&s, "knobs", knobs);
    put_field(&s, "words", t->words);
    put_field(&s, "decisions", t->decisions);
  }
  if (t->kind == TG_TASK_BUILD || t->kind == TG_TASK_CHECKS) put_number(&s, ",\"seconds\":", 9, t->seconds);
  if (t->kind == TG_TASK_TIME) {
    put_number(&s, ",\"seconds\":", 9, t->seconds);
    put_number(&s, ",\"against_seconds\":", 9, t->against_seconds);
    tg_str_printf(&s, ",\"dropped\":%u", t->dropped);
    put_number(&s, ",\"score\":", 6, p->score);
    tg_str_puts(&s, ",\"gain\":");
    for (uint32_t i = 0; i < t->n; i++) put_number(&s, i ? "," : "[", 17, t->gain[i]);
    tg_str_puts(&s, t->n ? "]" : "[]");
  }
  tg_str_puts(&s, "}\n");
  append(j, &s);
  tg_mark_release(j->env, mark);
}

void tg_journal_end(tg_journal *j, bool interrupted, double seconds, uint32_t candidates, const char *text) {
  if (j->fd < 0) return;
  tg_mark mark = tg_mark_get(j->env);
  tg_str s = tg_str_new(j->env);
  tg_str_printf(&s, "{\"event\":\"%s\"", interrupted ? "interrupted" : "end");
  put_number(&s, ",\"budget\":", 9, seconds);
  tg_str_printf(&s, ",\"candidates\":%u", candidates);
  put_field(&s, "text", text);
  tg_str_puts(&s, "}\n");
  append(j, &s);
  tg_mark_release(j->env, mark);
}

static bool covers(double had, double wanted) { return had <= 0 || (wanted > 0 && wanted <= had); }

const char *tg_journal_ended(tg_journal *j, double seconds, uint32_t candidates) {
  const char *line = j->ended;
  return line && covers(number(line, "budget"), seconds) && covers(number(line, "candidates"), candidates)
             ? string(j->env, line, "text")
             : NULL;
}

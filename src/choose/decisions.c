/* SPDX-License-Identifier: MIT
 * The decisions of the heuristic, open to a search: each is recorded where it is made, or taken as given, and a search
 * changes them one at a time. */
#include <stdlib.h>
#include "choose/nest.h"

int64_t tg_nest_choose(tg_nest *n, const char *what, int64_t value, uint32_t count, const int64_t *options) {
  tg_decisions *c = n->decisions;
  uint32_t again = 0;
  if (!c) return value;
  const char *name = tg_format(&n->j->env, "%s@%u", what, n->index);
  for (uint32_t i = 0; i < c->made.n; i++)
    again += !strncmp(c->made.data[i].name, name, strlen(name)) && strchr(".", c->made.data[i].name[strlen(name)]);
  if (again) name = tg_format(&n->j->env, "%s.%u", name, again);
  for (const char *p = c->given; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
    if (!strncmp(p, name, strlen(name)) && p[strlen(name)] == '=') value = strtoll(p + strlen(name) + 1, NULL, 10);
  tg_decision made = {.name = name, .value = value};
  for (uint32_t i = 0; i < count && made.n < TG_DECISION_OPTIONS; i++)
    if (options[i] != value) made.option[made.n++] = options[i];
  tg_push(&n->j->env, &c->made, made);
  return value;
}

/* given, with name decided as value: in its place if it is there. */
static const char *with(tg_env *env, const char *given, const char *name, size_t n, const char *value, size_t value_n) {
  tg_str s = tg_str_new(env);
  for (const char *p = given; p && *p;) {
    size_t k = strcspn(p, " ");
    if (!(k > n && !strncmp(p, name, n) && p[n] == '=')) {
      if (s.n) tg_str_puts(&s, " ");
      tg_str_put(&s, p, k);
    }
    p += k;
    p += strspn(p, " ");
  }
  tg_str_printf(&s, "%s%.*s=%.*s", s.n ? " " : "", (int)n, name, (int)value_n, value);
  return s.data;
}

/* given, with the plan that each nest has: prices decided it, and are not asked where decisions are given. */
static const char *with_plans(tg_env *env, const char *decisions, const char *given) {
  for (const char *c = decisions; c && *c; c += strcspn(c, ";"), c += *c == ';') {
    size_t name = strcspn(c, "="), whole = strcspn(c, ":;");
    bool there = false;
    if (strncmp(c, "plan@", 5)) continue;
    for (const char *p = given; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
      there |= !strncmp(p, c, name + 1);
    if (!there) given = with(env, given, c, name, c + name + 1, whole - name - 1);
  }
  return given;
}

const char *tg_decisions_move(tg_env *env, const char *decisions, const char *given, uint32_t i) {
  given = with_plans(env, decisions, given);
  for (const char *c = decisions; c && *c;) {
    size_t whole = strcspn(c, ";"), name = strcspn(c, "="), colon = strcspn(c, ":");
    for (const char *v = c + colon; colon < whole && v < c + whole;) {
      size_t n = strcspn(++v, ",;");
      if (!i--) return with(env, given, c, name, v, n);
      v += n;
    }
    c += whole + (c[whole] == ';');
  }
  return NULL;
}


/* SPDX-License-Identifier: MIT
 * What src/dsl/functions.c needs for the faults "coefficient: FUNCTION TYPE": a copy with faults includes it there. */
/* Does a literal from..to end a step of a polynomial, "fma(p, z, 0.5)"? */
static bool ends_a_step(const char *text, const char *from, const char *to) {
  const char *before = from - 2;
  if (*to != ')' || before <= text || from[-1] != ' ' || *before != ',') return false;
  while (before > text && strchr("abcdefghijklmnopqrstuvwxyz0123456789.", before[-1])) before--;
  return *before >= 'a' && *before <= 'z';
}

/* The text with another digit, the first behind the point that is not 0, in the last coefficient of a polynomial, or
 * else in its last number with a point, if it has one: a bound, or a factor of what is small, may be off by as much and
 * do. */
static const char *another_coefficient(tg_job *j, const char *text, const char *name) {
  char *copy = tg_strdup(&j->env, text), *last = NULL;
  bool step = false;
  for (char *s = copy; *s; s++) {
    if (*s != '.' || s[1] < '0' || s[1] > '9') continue;
    char *from = s, *to = s + 1 + strspn(s + 1, "0123456789e-");
    while (from > copy && from[-1] >= '0' && from[-1] <= '9') from--;
    if (from > copy && from[-1] == '-') from--;
    bool ends = ends_a_step(copy, from, to);
    if (step && !ends) continue;
    step = ends;
    for (last = s + 1; *last == '0' && last[1] >= '0' && last[1] <= '9';) last++;
  }
  if (!last || !tg_mutant_on("coefficient", name, -1)) return text;
  *last = *last == '9' ? '0' : (char)(*last + 1);
  return copy;
}

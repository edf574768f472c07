/* SPDX-License-Identifier: MIT
 * The measured numbers of a GPU: a file for each chip, in the form of machine_text.c, and the target that has them. */
#include <stddef.h>
#include <stdio.h>
#include "target/chip.h"

static const tg_machine_column columns[] = {
#define C(name, unit, what) {#name, unit, what, offsetof(tg_chip, name), 1},
    TG_CHIP_COLUMNS(C)
#undef C
};

static const tg_row_form form = {
    .magic = "tg-chip 1",
    .about = "What tg measured of a GPU; docs/devices.md says what each line is. It counts on the chip below alone.",
    .column = columns, .columns = TG_COUNT(columns)};

const tg_machine_column *tg_chip_column_at(uint32_t i) { return i < TG_COUNT(columns) ? &columns[i] : NULL; }

tg_chip tg_chip_of(const tg_target *t) {
  return (tg_chip){
#define C(name, unit, what) .name = t->name,
      TG_CHIP_COLUMNS(C)
#undef C
  };
}

void tg_chip_take(tg_target *t, const tg_chip *c) {
  size_t n = strlen(t->silicon);
#define C(name, unit, what) t->name = (uint32_t)(tg_machine_round(c->name) + 0.5);
  TG_CHIP_COLUMNS(C)
#undef C
  snprintf(t->silicon + n, sizeof t->silicon - n, ", measured %u %u %u %u", t->clock, t->matrix_macs, t->core_bytes,
           t->launch_ns);
}

void tg_chip_file(const tg_target *t, char name[TG_CHIP_FILE]) {
  snprintf(name, TG_CHIP_FILE, "chip-%016llx.txt", (unsigned long long)tg_hash(t->silicon, strlen(t->silicon), 0));
}

int tg_chip_file_write(tg_env *env, const char *folder, const tg_target *t, const tg_chip *c) {
  char name[TG_CHIP_FILE];
  tg_chip_file(t, name);
  return tg_row_file_write(&form, env, folder, name, c, t->silicon);
}

bool tg_chip_file_read(tg_env *env, const char *folder, tg_target *t, const char **why) {
  char name[TG_CHIP_FILE];
  tg_chip c;
  tg_chip_file(t, name);
  if (!tg_row_file_read(&form, env, folder, name, t->silicon, &c, why)) return false;
  tg_chip_take(t, &c);
  return true;
}

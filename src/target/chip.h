/* SPDX-License-Identifier: MIT
 * What differs between GPUs, as measured quantities of one chip: `tg measure --device NAME --save` keeps them in the
 * folder of tuned choices, and a context with that folder chooses by them for this chip, instead of by the numbers of
 * its target's row, which are from the maker's documents. */
#ifndef TG_TARGET_CHIP_H
#define TG_TARGET_CHIP_H
#include "target/target.h"

/* C(name, unit, what); likewise named fields of tg_target. */
#define TG_CHIP_COLUMNS(C)                                                                                             \
  C(clock, "MHz", "at which f32 is multiplied, by as many as a core does in a cycle")                                  \
  C(matrix_macs, "multiplications/cycle", "of 16-bit elements by a core's matrix instructions")                        \
  C(core_bytes, "bytes/cycle", "that a core is given from L2")                                                         \
  C(launch_ns, "ns", "from the end of a launch to the work of the next one behind it")

typedef struct tg_chip {
#define C(name, unit, what) double name;
  TG_CHIP_COLUMNS(C)
#undef C
} tg_chip;

/* NULL after the last. */
const tg_machine_column *tg_chip_column_at(uint32_t i);
/* What the target's row says. */
tg_chip tg_chip_of(const tg_target *);
/* The target with these numbers, to two significant digits; they become part of silicon, and so of all keys. */
void tg_chip_take(tg_target *, const tg_chip *);

enum { TG_CHIP_FILE = 40 };
/* The name of the file of a chip: there may be several in one folder. */
void tg_chip_file(const tg_target *, char name[TG_CHIP_FILE]);
/* As those of machine.h. t: as the device has it, without such numbers. read: takes them. */
int tg_chip_file_write(tg_env *env, const char *folder, const tg_target *t, const tg_chip *);
bool tg_chip_file_read(tg_env *env, const char *folder, tg_target *t, const char **why);
#endif

/* SPDX-License-Identifier: MIT
 * tg tune plot: a journal as a picture. */
#ifndef TG_TUNE_PLOT_H
#define TG_TUNE_PLOT_H
#include <stdbool.h>
#include <stdio.h>

/* Writes the SVG; an exit code. inside: as a part of a page, not a file of its own. */
int tune_plot(FILE *to, const char *journal, bool inside);
#endif

/* SPDX-License-Identifier: MIT
 * tg tune plot: a journal as a picture. */
#ifndef TG_TUNE_PLOT_H
#define TG_TUNE_PLOT_H

/* Prints the SVG; an exit code. */
int tune_plot(const char *journal);
#endif

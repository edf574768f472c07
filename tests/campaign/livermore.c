/* SPDX-License-Identifier: MIT */
#include "reference.h"
FAMILY(livermore) = {{NULL, NULL, false, CAMPAIGN_WHOLE, 0}};

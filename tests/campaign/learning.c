/* SPDX-License-Identifier: MIT */
#include "reference.h"
FAMILY(learning) = {{NULL, NULL, false, CAMPAIGN_WHOLE, 0}};

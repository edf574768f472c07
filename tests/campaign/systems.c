/* SPDX-License-Identifier: MIT */
#include "reference.h"
FAMILY(systems) = {{NULL, NULL, false, CAMPAIGN_WHOLE, 0}};

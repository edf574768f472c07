/* SPDX-License-Identifier: MIT */
#include "reference.h"
FAMILY(linear) = {{NULL, NULL, false, CAMPAIGN_WHOLE, 0}};

/* SPDX-License-Identifier: MIT */
#include "reference.h"
FAMILY(tsvc) = {{NULL, NULL, false, CAMPAIGN_WHOLE, 0}};

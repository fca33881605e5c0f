// Read before every source of q3map2.
#pragma once

// q3map2 has a type `bool` of its own. Debian's libxml2 includes stdbool.h, whose macro would change the size of
// structures between sources: q3map2's comes first, and stdbool.h is kept out.
#include "bytebool.h"
#define _STDBOOL_H
#define __bool_true_false_are_defined 1

// What the source's own MD4 and MD5 are called here.
#define MD4_Init MD4Init
#define MD4_Update MD4Update
#define MD4_Final MD4Final
#define MD5(data, size, digest)          \
  do {                                   \
    MD5_CTX context;                     \
    MD5Init(&context);                   \
    MD5Update(&context, (data), (size)); \
    MD5Final((digest), &context);        \
  } while (0)

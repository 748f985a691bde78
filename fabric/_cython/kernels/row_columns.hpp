#include "rows.hpp"  // FORWARD

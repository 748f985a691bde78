#include "store/payload.hpp"  // FORWARD

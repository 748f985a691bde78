#include "flight/watch.hpp"  // FORWARD

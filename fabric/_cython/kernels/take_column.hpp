#include "take.hpp"  // FORWARD

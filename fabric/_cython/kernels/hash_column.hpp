#include "hash.hpp"  // FORWARD

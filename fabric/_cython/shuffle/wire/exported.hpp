#include "wire/batches.hpp"  // FORWARD

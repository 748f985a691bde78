#include "store/size.hpp"  // FORWARD

#include "flight/gets.hpp"  // FORWARD

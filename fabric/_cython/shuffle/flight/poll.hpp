#include "flight/listing.hpp"  // FORWARD

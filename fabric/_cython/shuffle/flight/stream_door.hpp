#include "flight/stream_puts.hpp"  // FORWARD

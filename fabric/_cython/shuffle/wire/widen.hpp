#include "wire/sockets.hpp"  // FORWARD

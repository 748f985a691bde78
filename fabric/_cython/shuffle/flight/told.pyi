# For Cython alone: see told.pxd.

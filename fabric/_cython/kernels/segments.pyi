# For Cython alone: see segments.pxd.

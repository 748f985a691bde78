# For Cython alone: see owners.pxd.

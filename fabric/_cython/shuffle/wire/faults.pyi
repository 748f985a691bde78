# For Cython alone: see faults.pxd.

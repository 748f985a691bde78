"""A stream that runs for long while things break: the job, the faults, what is measured."""

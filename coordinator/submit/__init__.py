"""A submitted plan on its way to a stage graph: checked, asked for splits, optimised, cut."""

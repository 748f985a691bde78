"""Plans of streams made ready for stages: computed columns, hidden columns, keyed exchanges."""

"""What a process tells people about itself: logs now; metrics and traces join here."""

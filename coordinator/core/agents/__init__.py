"""Who is attached, what agents say, and what they are sent."""

"""The pages behind the overview: each a module with `draw(sight, width)` giving all its lines."""

"""Models of the library: generative belief networks and conditional ones, with the paper's as presets."""

"""The included models: generative belief networks and conditional models, with the paper's as presets."""

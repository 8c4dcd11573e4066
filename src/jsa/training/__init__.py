"""Training: the loop, the learning rate, the stages, the run folder. It knows no dataset and no paper."""

"""How good a model is: likelihoods by importance sampling and by enumeration, and bounds on them."""

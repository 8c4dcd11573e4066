"""The evaluation of models: likelihoods by importance sampling and by enumeration, bounds, imputation and effects."""

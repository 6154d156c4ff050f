"""Gradient descent on layouts: optimizers, losses of the neighbor embeddings, initial layouts."""

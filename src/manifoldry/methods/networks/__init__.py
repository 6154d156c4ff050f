"""Neural networks: autoencoders and parametric neighbor embeddings."""

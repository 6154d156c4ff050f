"""Neighbor embeddings: SNE, t-SNE and UMAP."""

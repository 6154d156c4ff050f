"""Eigenvectors of graphs and kernels: Laplacian eigenmaps, diffusion maps, commute times, kernel PCA."""

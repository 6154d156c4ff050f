"""Local geometry: neighborhoods, weights, tangent planes, Laplacians."""

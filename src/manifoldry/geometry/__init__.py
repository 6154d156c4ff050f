"""Local geometry: neighbourhoods, weights, tangent planes, Laplacians."""

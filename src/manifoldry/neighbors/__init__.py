"""Who is near whom: neighbour search, graphs of the data, and geodesics along them."""

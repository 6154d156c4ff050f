"""Who is near whom: neighbor search, graphs of the data, and geodesics along them."""

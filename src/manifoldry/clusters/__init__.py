"""Clusterings: points told apart by the flats they lie on, by geodesics, by means and by likelihood."""

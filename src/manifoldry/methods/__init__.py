"""The methods, by family; `_base` is the estimator contract."""

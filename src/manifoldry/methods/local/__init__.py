"""Methods that keep the linear geometry of every neighborhood: LLE, LTSA and Hessian eigenmaps."""

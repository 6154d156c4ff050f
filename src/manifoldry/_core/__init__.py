"""Values, run context, parameters, input checks and the registry: what every other package builds on."""

"""Whether a registration is to be trusted, from what can be measured without a truth."""

"""How models of PyMC, bambi and NumPyro, and a user's own functions, answer what the engine asks."""
